/**
 * A command line as the commands in it: enough of a shell's grammar to tell programs from words in quotes.
 *
 * Linear in the length of the line, and never wrong in a way that hides a command: what it cannot place it takes for one.
 */

export interface Command {
  /** Its words without their quotes; a redirection is the word `>` or `<` before its file. */
  words: string[];
  /** It reads what the command before it writes. */
  piped: boolean;
}

/** Substitutions inside of substitutions are followed so far. */
const DEPTH = 8;
const ENDS = new Set([";", "\n", "|", "&", "(", ")"]);

export function commandsOf(line: string, depth = 0): Command[] {
  const found: Command[] = [];
  const inside: string[] = [];
  let words: string[] = [];
  let word: string | null = null;
  let piped = false;
  const endWord = () => {
    // Braces of a group and the words of a loop begin commands, and are none.
    if (word !== null && !(words.length === 0 && /^([{}!]|then|do|else|if|while|until|done|fi)$/.test(word))) words.push(word);
    word = null;
  };
  const endCommand = (next: boolean) => {
    endWord();
    if (words.length) found.push({ words, piped });
    words = [];
    piped = next;
  };
  /** What stands in `$(…)` or in backticks at `at`; gives where it ends. */
  const substitute = (at: number): number => {
    const ticks = line[at] === "`";
    let open = 1;
    let end = ticks ? at + 1 : at + 2;
    for (; end < line.length; end += 1) {
      const char = line[end];
      if (char === "\\") end += 1;
      else if (ticks ? char === "`" : char === ")" && (open -= 1) === 0) break;
      else if (!ticks && char === "(") open += 1;
    }
    if (depth < DEPTH) inside.push(line.slice(ticks ? at + 1 : at + 2, end));
    word = `${word ?? ""}$(…)`;
    return end;
  };

  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] as string;
    const next = line[at + 1];
    if (char === "\\") {
      if (next !== "\n") word = (word ?? "") + (next ?? "");
      at += 1;
    } else if (char === "'") {
      const end = line.indexOf("'", at + 1);
      word = (word ?? "") + line.slice(at + 1, end < 0 ? line.length : end);
      at = end < 0 ? line.length : end;
    } else if (char === '"') {
      word ??= "";
      for (at += 1; at < line.length && line[at] !== '"'; at += 1) {
        if (line[at] === "\\") {
          at += 1;
          word += line[at] ?? "";
        } else if (line[at] === "`" || (line[at] === "$" && line[at + 1] === "(")) at = substitute(at);
        else word += line[at];
      }
    } else if (char === "`" || (char === "$" && next === "(")) at = substitute(at);
    else if (char === "#" && word === null) {
      const end = line.indexOf("\n", at);
      at = end < 0 ? line.length : end - 1;
    } else if (char === ">" || (char === "&" && next === ">")) {
      // A number before it says which output, and is no word.
      if (word !== null && /^\d$/.test(word)) word = null;
      endWord();
      while (line[at + 1] === ">" || line[at + 1] === "|") at += 1;
      if (line[at + 1] === "&" && /[\d-]/.test(line[at + 2] ?? "")) at += 2;
      else words.push(">");
    } else if (char === "<") {
      endWord();
      while (line[at + 1] === "<" || line[at + 1] === "-") at += 1;
      words.push("<");
    } else if (ENDS.has(char)) {
      const both = char === "|" && next === "|";
      endCommand(char === "|" && !both);
      if (both || (char === "|" && next === "&")) at += 1;
    } else if (/\s/.test(char)) endWord();
    else word = (word ?? "") + char;
  }
  endCommand(false);
  for (const text of inside) found.push(...commandsOf(text, depth + 1));
  return found;
}
