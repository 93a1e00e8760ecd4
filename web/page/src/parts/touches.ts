/**
 * What a request would touch, as far as it is known from what the agent tells: never a guess that it is harmless.
 *
 * Says only what is in the request: files it would change, a path outside of what is allowed, a command, a place on the network.
 * What is not named here is not known to be safe.
 */

import type { Ask } from "@portolan/client";

export interface Touch {
  text: string;
  /** Worth a second look. */
  grave: boolean;
}

type Permission = Extract<Ask, { kind: "permission" }>;

/** Words of a command after which what was there is gone, or someone else's program runs. */
const GRAVE: [RegExp, string][] = [
  [/\brm\b[^;|&\n]*\s-{1,2}\w*(r|f|recursive|force)/i, "deletes"],
  [/\b(sudo|doas|pkexec)\b/, "as another user"],
  [/\bgit\b[^;|&\n]*\bpush\b[^;|&\n]*(\s--force|\s-f\b)/, "pushes by force"],
  [/\bgit\b[^;|&\n]*\b(reset\s+--hard|clean\s+-\w*f)/, "throws changes away"],
  [/\b(curl|wget)\b[^;\n]*\|\s*(sudo\s+)?(ba|z|da)?sh\b/, "runs what it downloads"],
  [/\b(mkfs|dd)\b[^;|&\n]*\bof=|\bmkfs\b/, "writes to a disk"],
];

export function touches(ask: Permission): Touch[] {
  const found: Touch[] = [];
  const input = ask.input !== null && typeof ask.input === "object" && !Array.isArray(ask.input) ? ask.input : {};
  if (ask.blocked_path) found.push({ text: "outside of what is allowed", grave: true });
  const changes = ask.changes ?? [];
  const gone = changes.filter(({ change }) => change === "delete").length;
  if (changes.length > gone) found.push({ text: `writes ${files(changes.length - gone)}`, grave: false });
  if (gone) found.push({ text: `deletes ${files(gone)}`, grave: true });
  const command = input["command"];
  const line = typeof command === "string" ? command : Array.isArray(command) ? command.join(" ") : null;
  if (line !== null) {
    found.push({ text: "runs a command", grave: false });
    for (const [words, text] of GRAVE) if (words.test(line.slice(0, LONGEST))) found.push({ text, grave: true });
    if (line.length > LONGEST) found.push({ text: "a long command", grave: true });
  }
  const url = input["url"];
  if (typeof url === "string") found.push({ text: "reaches the network", grave: false });
  return found;
}

/** Of a longer command only so much is looked at. */
const LONGEST = 10_000;

const files = (count: number) => (count === 1 ? "a file" : `${count} files`);
