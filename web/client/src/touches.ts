/**
 * Names what a request would touch, as far as the request itself shows it.
 *
 * Names only what is known, and never calls anything safe: a request without a warning may still do anything.
 */

import type { Ask, JsonValue } from "./protocol.ts";
import { commandsOf, type Command } from "./shell.ts";

export interface Touch {
  /** A few words, such as `deletes files`. */
  text: string;
  /** Deserves a second look. */
  grave: boolean;
}

export type Permission = Extract<Ask, { kind: "permission" }>;

/** Only this much of a longer command is checked. */
const LONGEST = 10_000;

/** What a permission would touch, grave ones first. `folder` is the folder of the session: other paths are outside. */
export function touches(ask: Permission, folder = ""): Touch[] {
  const found = new Map<string, boolean>();
  const touch: Touching = (text, grave = false) => void found.set(text, grave || (found.get(text) ?? false));
  const input = fieldsOf(ask.input);
  const place = new Place(folder);

  ofChanges(ask, place, touch);
  const path = ask.blocked_path ?? textOf(input["file_path"]) ?? textOf(input["path"]) ?? textOf(input["notebook_path"]);
  if (path !== undefined && place.isOutside(path) && !found.has(WRITES_OUTSIDE)) touch(NAMES_OUTSIDE, ask.blocked_path !== undefined);
  if (path !== undefined && isSecret(path)) touch(SECRETS, true);

  const command = input["command"];
  const line = textOf(command) ?? (Array.isArray(command) ? command.map((word) => quoted(String(word))).join(" ") : undefined);
  if (line !== undefined) ofCommand(line, new Place(folder, textOf(input["cwd"])), touch);

  const url = textOf(input["url"]);
  if (url !== undefined || input["network"] || /^web/i.test(ask.tool_name)) touch(NETWORK);
  if (input["dangerouslyDisableSandbox"] === true) touch("leaves the sandbox", true);
  if (input["additional_permissions"] || input["permissions"] || input["grant_root"]) touch("asks for more permissions", true);
  if (input["run_in_background"] === true) touch("keeps running in the background");
  const server = /^mcp__(.+?)(?:__|:|$)/.exec(ask.tool_name)?.[1];
  if (server !== undefined) touch(`a tool of the MCP server ${server}`);
  return [...found].map(([text, grave]) => ({ text, grave })).sort((a, b) => Number(b.grave) - Number(a.grave));
}

type Touching = (text: string, grave?: boolean) => void;

const WRITES_OUTSIDE = "writes outside the folder";
const NAMES_OUTSIDE = "names a path outside the folder";
const SECRETS = "names a place where secrets are kept";
const NETWORK = "uses the network";
const DELETES = "deletes files";

function ofChanges({ changes = [] }: Permission, place: Place, touch: Touching): void {
  const files = (count: number) => (count === 1 ? "a file" : `${count} files`);
  const gone = changes.filter(({ change }) => change === "delete").length;
  if (changes.some(({ path }) => place.isOutside(path))) touch(WRITES_OUTSIDE, true);
  if (changes.some(({ path }) => isSecret(path))) touch(SECRETS, true);
  if (changes.some(({ path }) => /(^|\/)\.git\/hooks\//.test(path))) touch("writes a Git hook, which runs later", true);
  if (gone) touch(`deletes ${files(gone)}`, true);
  if (changes.length > gone) touch(`writes ${files(changes.length - gone)}`);
}

/** Programs that run the command after them. */
const RUNS_ANOTHER = new Set(["sudo", "doas", "pkexec", "env", "nohup", "time", "nice", "ionice", "command", "exec", "xargs", "timeout", "stdbuf", "setsid", "builtin"]);
const AS_ANOTHER = new Set(["sudo", "doas", "pkexec"]);
/** Options of these programs that take the word after them. */
const TAKES_A_VALUE: Record<string, RegExp> = {
  sudo: /^(-[ughprtCDRT]|--(user|group|host|prompt|chdir|chroot))$/,
  doas: /^-[uC]$/,
  pkexec: /^--user$/,
  env: /^(-[uC]|--(unset|chdir))$/,
  xargs: /^-[ILnPdEas]$/,
  timeout: /^(-[ks]|--(kill-after|signal))$/,
  nice: /^-n$/,
  ionice: /^-[cn]$/,
  stdbuf: /^-[ioe]$/,
  time: /^-[fo]$/,
  exec: /^-a$/,
};
const SHELLS = new Set(["sh", "bash", "zsh", "dash", "ksh", "fish"]);
const READS_CODE = new Set([...SHELLS, "python", "python3", "node", "perl", "ruby"]);
const DOWNLOADS = new Set(["curl", "wget"]);
/** Programs that write to their last word. */
const WRITES_LAST = new Set(["cp", "mv", "ln", "install", "rsync"]);
const WRITES_ALL = new Set(["tee", "touch", "mkdir", "truncate"]);

/** What a program touches, whatever its arguments are. */
const BY_NAME: [string[], string, grave: boolean][] = [
  [["rm", "rmdir", "unlink", "shred"], DELETES, true],
  [["mkfs", "fdisk", "parted", "wipefs", "mkswap"], "writes to a disk", true],
  [["shutdown", "reboot", "poweroff", "halt"], "stops the machine", true],
  [["kill", "pkill", "killall"], "ends processes", true],
  [["chown", "chgrp", "setfacl"], "changes owners of files", true],
  [["crontab", "at"], "schedules a command for later", true],
  [["curl", "wget", "ssh", "scp", "sftp", "ftp", "nc", "ncat", "telnet", "rsync"], NETWORK, false],
];

/** What a program touches if its arguments, joined, match the pattern. */
const BY_WORDS: [program: RegExp, words: RegExp, text: string, grave: boolean][] = [
  [/^git$/, /^ push\b.* (--force|-f|--force-with-lease|--delete|--mirror)\b/, "pushes by force", true],
  [/^git$/, /^ (push|pull|fetch|clone)\b/, NETWORK, false],
  [/^git$/, /^ (reset --hard|clean -\w*f|checkout (-- )?\.|restore \.|stash (drop|clear)|branch -D)/, "discards changes", true],
  [/^git$/, /^ rm\b/, DELETES, true],
  [/^find$/, / -(delete|exec rm)\b/, DELETES, true],
  [/^dd$/, /\bof=/, "writes to a disk", true],
  [/^chmod$/, /( -\w*R|\b0?777\b|a\+w|\+s)/, "changes permissions of files", true],
  [/^(npm|pnpm|yarn|cargo|gem|twine|docker)$/, /\b(publish|upload|push)\b/, "publishes", true],
  [/^(npm|pnpm|yarn|pip|pip3|cargo|gem|go|apt|apt-get|dnf|brew|npx|uv)$/, /\b(install|add|ci|get|update|upgrade|i|x|dlx)\b/, "installs third-party code", true],
  [/^npx$/, /./, "installs third-party code", true],
  [/^(kubectl|helm)$/, /\b(delete|uninstall|drain)\b/, "stops or removes services", true],
  [/^terraform$/, /\b(destroy|apply)\b/, "changes remote infrastructure", true],
  [/^(docker|podman)$/, /\b(rm|rmi|prune|kill|stop)\b/, "stops or removes services", true],
  [/^(docker|podman)$/, / --privileged\b/, "runs as root", true],
  [/^systemctl$/, /\b(stop|disable|mask|restart)\b/, "stops or removes services", true],
  [/^(psql|mysql|mariadb|sqlite3|mongo|mongosh)$/i, /\b(drop|truncate|delete from)\b/i, "deletes data", true],
];

function ofCommand(line: string, place: Place, touch: Touching): void {
  touch("runs a command");
  if (place.isElsewhere) touch("runs outside the folder", true);
  if (line.length > LONGEST) touch("too long to be checked completely", true);
  ofLine(line.slice(0, LONGEST), place, touch, 0);
}

function ofLine(line: string, place: Place, touch: Touching, depth: number): void {
  const commands = commandsOf(line);
  let downloads = false;
  for (const command of commands) {
    const { program, args } = ofOne(command, place, touch);
    if (DOWNLOADS.has(program)) downloads = true;
    if (command.piped && READS_CODE.has(program) && downloads) touch("runs what it downloads", true);
    // `sh -c "$(curl …)"`: the commands of the substitution are at the end of the list.
    if (SHELLS.has(program) && args.some((word) => word.includes("$(…)")) && commands.some(({ words }) => DOWNLOADS.has(baseOf(words[0])))) {
      touch("runs what it downloads", true);
    }
    // Many agents use `-lc`.
    const code = args.findIndex((word) => /^-[A-Za-z]*c$/.test(word));
    const inner = args[code + 1];
    if (depth < 3 && ((SHELLS.has(program) && code >= 0) || program === "eval")) ofLine(program === "eval" ? args.join(" ") : (inner ?? ""), place, touch, depth + 1);
    if (depth < 3 && SHELLS.has(program)) for (const { text } of command.documents) ofLine(text, place, touch, depth + 1);
  }
}

function ofOne({ words }: Command, place: Place, touch: Touching): { program: string; args: string[] } {
  let at = 0;
  for (;;) {
    while (/^\w+=/.test(words[at] ?? "")) at += 1;
    const name = baseOf(words[at]);
    if (!RUNS_ANOTHER.has(name)) break;
    at += 1;
    let user = false;
    // Skips options with their values, and a time or a number.
    while (/^(-|\d+[smhd]?$)/.test(words[at] ?? "")) {
      const option = words[at] as string;
      user ||= /^(-u|--user)/.test(option);
      at += TAKES_A_VALUE[name]?.test(option) ? 2 : 1;
    }
    if (AS_ANOTHER.has(name)) touch(user ? "runs as another user" : "runs as root", true);
  }
  const program = baseOf(words[at]);
  // Options before the Git command say where, not what.
  if (program === "git") while (/^-/.test(words[at + 1] ?? "")) at += /^-[Cc]$/.test(words[at + 1] ?? "") ? 2 : 1;
  const args = words.slice(at + 1);
  const joined = ` ${args.join(" ")}`;
  if (program === "su") touch("runs as another user", true);
  for (const [names, text, grave] of BY_NAME) if (names.includes(program) || (program.startsWith("mkfs.") && names.includes("mkfs"))) touch(text, grave);
  for (const [name, pattern, text, grave] of BY_WORDS) if (name.test(program) && pattern.test(joined)) touch(text, grave);

  const paths = args.filter((word, index) => !word.startsWith("-") && word !== ">" && word !== "<" && args[index - 1] !== ">");
  const written = args.filter((_, index) => args[index - 1] === ">");
  if (WRITES_LAST.has(program)) written.push(...paths.slice(-1));
  if (WRITES_ALL.has(program) || (program === "sed" && args.some((word) => /^(-\w*i|--in-place)/.test(word)))) written.push(...paths);
  if (written.some((path) => looksLikePath(path) && place.isOutside(path))) touch(WRITES_OUTSIDE, true);
  else if (paths.some((path) => looksLikePath(path) && place.isOutside(path))) touch(NAMES_OUTSIDE);
  if ([...paths, ...written].some(isSecret)) touch(SECRETS, true);
  return { program, args };
}

/** A folder, and whether a path is outside of it. */
class Place {
  readonly isElsewhere: boolean;
  readonly #folder: string;
  readonly #at: string;

  constructor(folder: string, at?: string) {
    this.#folder = normal(folder);
    this.#at = at === undefined ? this.#folder : normal(at);
    this.isElsewhere = this.#folder !== "" && !this.#holds(this.#at);
  }

  #holds(path: string): boolean {
    return path === this.#folder || path.startsWith(this.#folder === "/" ? "/" : `${this.#folder}/`);
  }

  /** If the folder is not known, no path counts as outside. */
  isOutside(path: string): boolean {
    if (!this.#folder.startsWith("/") || /^\/dev\/(null|zero|stdin|stdout|stderr|tty|fd\b)/.test(path)) return false;
    const home = /^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/.exec(this.#folder)?.[1];
    const plain = path.replace(/^(\$HOME|\$\{HOME\})(?=\/|$)/, "~");
    if (plain.startsWith("~")) return home === undefined || !/^~(\/|$)/.test(plain) || !this.#holds(normal(home + plain.slice(1)));
    return !this.#holds(normal(plain.startsWith("/") ? plain : `${this.#at}/${plain}`));
  }
}

/** A path without `.`, `..` and doubled slashes. */
function normal(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `${path.startsWith("/") ? "/" : ""}${parts.join("/")}`;
}

const looksLikePath = (word: string) => /^(\/|~|\$HOME|\$\{HOME\})/.test(word) || /(^|\/)\.\.(\/|$)/.test(word);
const isSecret = (path: string) => /(^|\/)(\.ssh|\.aws|\.gnupg|\.kube|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.env(\.[\w.-]+)?|id_(rsa|ed25519|ecdsa)|shadow)(\/|$)/.test(path) && !/\.env\.(example|sample|template)$/.test(path);
const baseOf = (word: string | undefined) => (word ?? "").split("/").at(-1) ?? "";
const textOf = (value: JsonValue | undefined) => (typeof value === "string" ? value : undefined);
const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

function fieldsOf(input: JsonValue): { [key: string]: JsonValue | undefined } {
  return input !== null && typeof input === "object" && !Array.isArray(input) ? input : {};
}
