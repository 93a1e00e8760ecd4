/**
 * Which parts of a text may be read as markdown in a moment, and which are shown as they are.
 *
 * The lexer of `marked` takes seconds, or runs out of stack, on a few kilobytes that were made for it: long runs of
 * marks, quotes in quotes, tables without end. Every cost of it is bounded here, in one pass over the text, without
 * running it. Ordinary writing stays far below all of these.
 */

export interface Part {
  text: string;
  /** It can be read as markdown. */
  tame: boolean;
}

/** A stretch without an empty line that is longer than this is shown by its beginning and its end. */
export const LONGEST_STRETCH = 50_000;
/** What the lexer is given at once: a list of a megabyte would be read anew with every word. */
const LONGEST_PART = 24_000;
/** Marks of emphasis in one stretch: finding the partner of each looks at all the others. */
const MOST_MARKS = 1_000;
/** The same mark again and again, or the same space: each is tried as a beginning. */
const LONGEST_RUN = 80;
const LONGEST_SPACE = 400;
/** Quotes and lists inside each other: each is a lexer of its own. */
const DEEPEST = 24;
/** Cells of a table, those that a short row is filled up with included. */
const MOST_CELLS = 8_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** Everything that opens a quote or a list at the beginning of a line. */
const OPENERS = /^(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*/;
const RUN = new RegExp(`([*_~\`>\\[<])\\1{${LONGEST_RUN},}|[*_~]{${LONGEST_RUN},}|[ \\t]{${LONGEST_SPACE},}`);

export function cut(text: string): Part[] {
  const parts: Part[] = [];
  const add = (piece: string, tame: boolean) => {
    const last = parts.at(-1);
    if (last?.tame && tame && last.text.length + piece.length <= LONGEST_PART) last.text += piece;
    else if (piece) parts.push({ text: piece, tame });
  };
  let begin = 0;
  let fence = "";
  let stretch = new Stretch();
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf("\n", from);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(from, next);
    const mark = FENCE.exec(line)?.[1];
    if (fence) {
      // What stands between fences is only copied.
      if (mark?.startsWith(fence) && line.trim() === mark) fence = "";
    } else if (mark) fence = mark;
    else if (line.trim() === "") {
      add(text.slice(begin, next), stretch.tame);
      begin = next;
      stretch = new Stretch();
    } else stretch.line(line);
    from = next;
  }
  add(text.slice(begin), stretch.tame);
  return parts;
}

/** Lines that follow each other without an empty one between them. */
class Stretch {
  #length = 0;
  #lines = 0;
  #marks = 0;
  #columns = 0;
  #wild = false;

  get tame(): boolean {
    return !this.#wild;
  }

  line(line: string): void {
    if (this.#wild) return;
    this.#length += line.length;
    this.#lines += 1;
    let pipes = 0;
    for (let at = 0; at < line.length; at += 1) {
      const code = line.charCodeAt(at);
      if (code === 42 || code === 95 || code === 126) this.#marks += 1;
      else if (code === 124) pipes += 1;
    }
    this.#columns = Math.max(this.#columns, pipes);
    this.#wild =
      this.#length > LONGEST_STRETCH || this.#marks > MOST_MARKS || this.#columns * this.#lines > MOST_CELLS ||
      RUN.test(line) || depth(line) > DEEPEST;
  }
}

function depth(line: string): number {
  const opened = OPENERS.exec(line)?.[0] ?? "";
  const marks = opened.replace(/[ \t]|\d/g, "").length;
  // A list inside a list is told by how far it stands to the right.
  return Math.max(marks, marks > 0 ? opened.replaceAll("\t", "    ").length / 4 : 0);
}
