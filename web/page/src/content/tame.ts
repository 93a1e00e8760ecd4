/**
 * Decides which parts of a text can be parsed as markdown quickly, and which parts are shown as they are.
 *
 * A few kilobytes of hostile text (long runs of marks, quotes in quotes, tables without end) cost the lexer of `marked`
 * seconds, or all of its stack. One pass over the text bounds each of these costs here, without running the lexer.
 * Ordinary text stays far below all bounds.
 */

export interface Part {
  text: string;
  /** The part can be parsed as markdown. */
  tame: boolean;
}

/** Of a longer stretch without an empty line, only the beginning and the end are shown. */
export const LONGEST_STRETCH = 50_000;
/** The most text for the lexer at once: otherwise every word would parse a list of a megabyte again. */
const LONGEST_PART = 24_000;
/** Marks of emphasis in one stretch: to find the partner of one mark, the lexer looks at all others. */
const MOST_MARKS = 1_000;
/** A run of the same mark, or of spaces: the lexer tries each as a beginning. */
const LONGEST_RUN = 80;
const LONGEST_SPACE = 400;
/** The depth of quotes and lists: each level starts a new lexer. */
const DEEPEST = 24;
/** Cells of a table, including those that fill up a short row. */
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
      // Text between fences is only copied.
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

/** Lines without an empty line between them. */
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
  // The indentation shows the depth of a list inside a list.
  return Math.max(marks, marks > 0 ? opened.replaceAll("\t", "    ").length / 4 : 0);
}
