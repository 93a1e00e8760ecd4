/** A unified diff as lines and as pairs for two columns. The `diff` package parses; what it cannot parse stays text. */

import type { FileChange, JsonValue, LeftOut } from "@portolan/client";
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

const HEADING = /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)$/;

export function readDiff(text: string): Read | null {
  let hunks;
  try {
    const source = /^(---|diff |Index: )/m.test(text) ? text : `--- a\n+++ b\n${text}`;
    hunks = parsePatch(source).flatMap((file) => file.hunks);
  } catch {
    return null;
  }
  // The package also takes a header without numbers as a hunk, but that is not a diff.
  if (hunks.length === 0 || hunks.some(({ oldStart, newStart }) => !Number.isFinite(oldStart + newStart))) return null;
  const lines: Line[] = [];
  // The text after the numbers says what the lines cannot, such as that every occurrence is replaced.
  const headings = text.split("\n").flatMap((line) => HEADING.exec(line)?.slice(1) ?? []);
  for (const [index, hunk] of hunks.entries()) {
    let old = hunk.oldStart;
    let fresh = hunk.newStart;
    const heading = headings.length === hunks.length ? (headings[index] ?? "") : "";
    if (heading) lines.push({ sign: "@", text: `@@ ${heading}`, old: null, new: null });
    else if (hunks.length > 1 || old > 1) lines.push({ sign: "@", text: `@@ ${old}`, old: null, new: null });
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

/** Removed and added lines side by side, in their order. */
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

/** The text in place of a diff that is too large. */
export function leftOut({ added, removed, bytes }: LeftOut): string {
  const size = bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
  return `Too large to be shown as a diff: ${added.toLocaleString("en")} lines added, ${removed.toLocaleString("en")} removed, ${size}.`;
}

/**
 * The fields of an input that the diffs do not show. An approval covers more than the diff if the input has a
 * `replace_all`, a cell of a notebook, a text that was too large, or a field that is newer than this page.
 */
export function beyond(input: JsonValue, changes: FileChange[], shown: (string | undefined)[] = []): [string, JsonValue][] {
  if (input === null) return [];
  if (typeof input !== "object" || Array.isArray(input)) return [["input", input]];
  const paths = new Set(changes.flatMap(({ path, from }) => (from === undefined ? [path] : [path, from])));
  const lines = new Set(changes.flatMap(({ diff = "" }) => diff.split("\n").map((line) => line.slice(1))));
  const isShown = (text: string) => shown.includes(text) || (changes.length > 0 && (paths.has(text) || text.split("\n").every((line) => line === "" || lines.has(line))));
  // Inside lists, a flag that is not set means nothing.
  const within = (value: JsonValue | undefined): boolean =>
    typeof value === "string" ? isShown(value) : value === null || value === undefined || value === false || (typeof value === "object" && Object.values(value).every(within));
  return Object.entries(input).flatMap(([name, value]) => {
    if (value === null || value === undefined) return [];
    if (typeof value === "string" ? isShown(value) : changes.length > 0 && typeof value === "object" && within(value)) return [];
    return [[name, value] as [string, JsonValue]];
  });
}
