/** Where in a text a file is being named by `@`, and the text once it is. */

export interface Mention {
  /** Where the `@` stands. */
  at: number;
  /** What was typed of the path. */
  query: string;
}

/** The mention that ends at the cursor, if there is one: an `@` at the beginning of a word, with no blank after it. */
export function mentionAt(text: string, cursor: number): Mention | null {
  const before = text.slice(0, cursor);
  const found = /(?:^|\s)@([^\s@]{0,256})$/.exec(before);
  return found ? { at: cursor - (found[1] ?? "").length - 1, query: found[1] ?? "" } : null;
}

/** The text with the path in place of what was typed, and where the cursor then is. A folder invites to go on. */
export function complete(text: string, cursor: number, { at }: Mention, path: string): { text: string; cursor: number } {
  const written = `@${path}${path.endsWith("/") ? "" : " "}`;
  return { text: text.slice(0, at) + written + text.slice(cursor), cursor: at + written.length };
}
