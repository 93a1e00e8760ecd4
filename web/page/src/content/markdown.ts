/**
 * Markdown that grows. The lexer of `marked` splits text into blocks. Complete blocks are never parsed again, so the
 * cost of one more word does not depend on the length of the text before it.
 *
 * Returns tokens, not HTML: the page makes an element from each token, so the text of an agent never becomes markup.
 */

import { Lexer, type Token, type Tokens } from "marked";
import { cut } from "./tame.ts";

export type Block = { id: number; token: Token };

/** How much of the beginning and the end of a wild text is shown; less while it grows, as every word redraws it. */
const EXCERPT = { open: 2_000, done: 20_000 };
/** The longest time for one parse; the rest of the text is then shown as it is. */
const BUDGET_MS = 250;

export class Reader {
  #done: Block[] = [];
  #offset = 0;
  #text = "";
  #ids = 0;
  #now: () => number;

  /** `now` is the clock that limits the time for parsing. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** All blocks of the text, the finished ones first. */
  read(text: string, open: boolean): Block[] {
    if (!text.startsWith(this.#text.slice(0, this.#offset)) || text.length < this.#offset) {
      this.#done = [];
      this.#offset = 0;
    }
    this.#text = text;
    const rest = text.slice(this.#offset);
    const tokens = tokensOf(rest, open ? EXCERPT.open : EXCERPT.done, this.#now);
    // While the text grows, the last blocks may still change: a list continues, a line becomes a heading.
    const settled = open ? Math.max(0, tokens.length - 3) : 0;
    for (const token of tokens.slice(0, settled)) {
      this.#offset += token.raw.length;
      if (token.type !== "space" && token.type !== "def") this.#done.push({ id: (this.#ids += 1), token });
    }
    const growing = tokens.slice(settled).filter(({ type }) => type !== "space" && type !== "def");
    return [...this.#done, ...growing.map((token, index) => ({ id: this.#ids + 1 + index, token }))];
  }
}

function tokensOf(text: string, each: number, now: () => number): Token[] {
  const parts = cut(text);
  const until = now() + BUDGET_MS;
  return parts.flatMap(({ text: part, tame }) => (tame && now() < until ? lex(part) : [asItIs(part, each)]));
}

/** Text that is not parsed as markdown: the whole text, or its beginning and its end. */
function asItIs(text: string, each: number): Token {
  if (text.length <= 2 * each) return { type: "long", raw: text, text } as unknown as Token;
  const left = (text.length - 2 * each).toLocaleString("en");
  return { type: "long", raw: text, text: `${text.slice(0, each)}\n… ${left} more characters …\n${text.slice(-each)}` } as unknown as Token;
}

function plain(text: string): Token {
  return { type: "code", raw: text, text } as Tokens.Code;
}

function lex(text: string): Token[] {
  try {
    const tokens = Lexer.lex(text, { gfm: true, breaks: true }) as Token[];
    // The lexer normalises line ends and tabs. If it returns less text than it got, its lengths are not reliable, and
    // no block may be settled.
    const length = tokens.reduce((sum, { raw }) => sum + raw.length, 0);
    return length === text.length ? tokens : [{ type: "whole", raw: text, tokens } as unknown as Token];
  } catch {
    return [plain(text)];
  }
}

/** The address of a harmless link (web or mail), or null. */
export function safeAddress(href: string): string | null {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * Makes characters visible that reorder or hide text (bidi controls, zero width), and other control characters: the
 * shown text is the real text.
 */
export function visible(text: string): string {
  return text.replace(HIDDEN, named);
}

const named = (c: string) => `⟨U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

// Languages and emoji need these characters; in a request they could hide something.
const INVISIBLE = /[\r\u00ad\u034f\u115f\u1160\u180e\u200c\u200d\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0\u{e0000}-\u{e01ef}]/gu;

/** Escape sequences of terminals, which have no meaning here. */
// eslint-disable-next-line no-control-regex
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

export function withoutAnsi(text: string): string {
  const lines = text.replace(ANSI, "").replace(/\r\n/g, "\n").split("\n");
  // Text that a terminal would have overwritten is not shown. A return at the very end overwrites nothing yet.
  const last = (line: string) => line.slice(line.lastIndexOf("\r", line.length - 2) + 1);
  return visible(lines.map(last).join("\n"));
}

/** Text that somebody decides about: everything is shown, also what a terminal would act on or overwrite. */
export function exactly(text: string): string {
  return visible(text).replace(INVISIBLE, named);
}
