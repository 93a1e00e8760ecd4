/** A unified diff as lines and as pairs for two columns; read by the `diff` package, plain text where it cannot. */

import { parsePatch } from "diff";

export interface Line {
  sign: " " | "+" | "-" | "@";
  text: string;
  old: number | null;
  new: number | null;
}

export interface Pair {
  left: Line | null;
  right: Line | null;
}

export interface Read {
  lines: Line[];
  added: number;
  removed: number;
}

export function readDiff(text: string): Read | null {
  let hunks;
  try {
    const source = /^(---|diff |Index: )/m.test(text) ? text : `--- a\n+++ b\n${text}`;
    hunks = parsePatch(source).flatMap((file) => file.hunks);
  } catch {
    return null;
  }
  // A header without numbers is read as a hunk all the same: that is no diff.
  if (hunks.length === 0 || hunks.some(({ oldStart, newStart }) => !Number.isFinite(oldStart + newStart))) return null;
  const lines: Line[] = [];
  for (const hunk of hunks) {
    let old = hunk.oldStart;
    let fresh = hunk.newStart;
    if (hunks.length > 1 || old > 1) lines.push({ sign: "@", text: `@@ ${old}`, old: null, new: null });
    for (const line of hunk.lines) {
      const sign = line[0];
      const content = line.slice(1);
      if (sign === "+") lines.push({ sign, text: content, old: null, new: fresh++ });
      else if (sign === "-") lines.push({ sign, text: content, old: old++, new: null });
      else if (sign === " ") lines.push({ sign, text: content, old: old++, new: fresh++ });
    }
  }
  const count = (sign: string) => lines.filter((line) => line.sign === sign).length;
  return { lines, added: count("+"), removed: count("-") };
}

/** Removed and added lines side by side, as they follow each other. */
export function pairs(lines: Line[]): Pair[] {
  const result: Pair[] = [];
  let removed: Line[] = [];
  const flush = () => {
    for (const left of removed) result.push({ left, right: null });
    removed = [];
  };
  for (const line of lines) {
    if (line.sign === "-") removed.push(line);
    else if (line.sign === "+") result.push({ left: removed.shift() ?? null, right: line });
    else {
      flush();
      result.push({ left: line, right: line });
    }
  }
  flush();
  return result;
}
