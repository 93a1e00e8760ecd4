/** Finds where a text names a file with `@`, and completes the path. */

export interface Mention {
  /** The position of the `@`. */
  at: number;
  /** The typed part of the path. */
  query: string;
}

/** The mention that ends at the cursor, if there is one: an `@` at the beginning of a word, with no blank after it. */
export function mentionAt(text: string, cursor: number): Mention | null {
  const before = text.slice(0, cursor);
  const found = /(?:^|\s)@([^\s@]{0,256})$/.exec(before);
  return found ? { at: cursor - (found[1] ?? "").length - 1, query: found[1] ?? "" } : null;
}

/** The text with the completed path, and the new cursor. After a folder the user can type on. */
export function complete(text: string, cursor: number, { at }: Mention, path: string): { text: string; cursor: number } {
  const written = `@${path}${path.endsWith("/") ? "" : " "}`;
  return { text: text.slice(0, at) + written + text.slice(cursor), cursor: at + written.length };
}
