/**
 * Splits a command line into its commands, with enough of a shell's grammar to distinguish programs from quoted words.
 *
 * Reads quotes, substitutions and here-documents. Unclear text counts as a command rather than as text. This parser is
 * no shell, and someone who wants to hide a command from it can.
 */

export interface Command {
  /** The words of the command without quotes; a redirection is the word `>` or `<` before its file. */
  words: string[];
  /** The command reads the output of the command before it. */
  piped: boolean;
  /** The here-documents that the command reads. */
  documents: Document[];
}

interface Document {
  text: string;
}

/** How deep substitutions inside substitutions are followed. */
const DEPTH = 8;
const ENDS = new Set([";", "\n", "|", "&", "(", ")"]);

export function commandsOf(line: string, depth = 0): Command[] {
  const found: Command[] = [];
  const inside: string[] = [];
  let words: string[] = [];
  let word: string | null = null;
  let piped = false;
  let documents: Document[] = [];
  /** Here-documents that begin with the next line. */
  let awaited: { document: Document; end: string; literal: boolean }[] = [];
  const endWord = () => {
    // The braces of a group and the keywords of a loop begin commands, and are not commands themselves.
    if (word !== null && !(words.length === 0 && /^([{}!]|then|do|else|elif|if|while|until|done|fi|coproc)$/.test(word))) words.push(word);
    word = null;
  };
  const endCommand = (next: boolean) => {
    endWord();
    if (words.length) found.push({ words, piped, documents });
    words = [];
    documents = [];
    piped = next;
  };
  /** Reads the awaited here-documents; returns where the last one ends. */
  const read = (at: number): number => {
    for (const { document, end, literal } of awaited) {
      const lines: string[] = [];
      while (at < line.length) {
        const stop = line.indexOf("\n", at + 1);
        const text = line.slice(at + 1, stop < 0 ? line.length : stop);
        at = stop < 0 ? line.length : stop;
        if (text.replace(/^\t+/, "") === end) break;
        lines.push(text);
      }
      document.text = lines.join("\n");
      // A substitution in a here-document runs, whichever program reads the rest.
      if (!literal && depth < DEPTH) found.push(...commandsOf(`"${document.text.replaceAll('"', '\\"')}"`, depth + 1).slice(1));
    }
    awaited = [];
    return at;
  };
  /** Where the quote at `at` ends, or -1; a quote without an end is an ordinary character. */
  const closing = (at: number): number => {
    const quote = line[at] as string;
    for (let end = at + 1; end < line.length; end += 1) {
      if (line[end] === "\\" && quote === '"') end += 1;
      else if (line[end] === quote) return end;
    }
    return -1;
  };
  /** Takes the content of `$(…)` or of backticks at `at`; returns where it ends. */
  const substitute = (at: number): number => {
    const ticks = line[at] === "`";
    let open = 1;
    let end = ticks ? at + 1 : at + 2;
    for (; end < line.length; end += 1) {
      const char = line[end];
      if (char === "\\") end += 1;
      else if (!ticks && (char === "'" || char === '"') && closing(end) > 0) end = closing(end);
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
    } else if ((char === "'" || char === '"') && closing(at) < 0) word = (word ?? "") + char;
    else if (char === "$" && next === "'") {
      word ??= "";
      for (at += 2; at < line.length && line[at] !== "'"; at += 1) word += line[at] === "\\" ? (line[(at += 1)] ?? "") : line[at];
    } else if (char === "'") {
      const end = closing(at);
      word = (word ?? "") + line.slice(at + 1, end);
      at = end;
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
      // A number before a redirection says which output, and is not a word.
      if (word !== null && /^\d$/.test(word)) word = null;
      endWord();
      while (line[at + 1] === ">" || line[at + 1] === "|") at += 1;
      if (line[at + 1] === "&" && /[\d-]/.test(line[at + 2] ?? "")) at += 2;
      else words.push(">");
    } else if (char === "<" && next === "<" && line[at + 2] !== "<") {
      endWord();
      const [whole, , quoted, bare] = /^<<-?[ \t]*(?:(['"])(.*?)\1|\\?([^\s;|&()<>]+))/s.exec(line.slice(at, at + 200)) ?? [];
      if (whole === undefined) continue;
      const document = { text: "" };
      documents.push(document);
      awaited.push({ document, end: quoted ?? bare ?? "", literal: quoted !== undefined || whole.includes("\\") });
      at += whole.length - 1;
    } else if (char === "<") {
      endWord();
      while (line[at + 1] === "<" || line[at + 1] === "-") at += 1;
      words.push("<");
    } else if (ENDS.has(char)) {
      const both = char === "|" && next === "|";
      endCommand(char === "|" && !both);
      if (char === "\n" && awaited.length) at = read(at) - 1;
      if (both || (char === "|" && next === "&")) at += 1;
    } else if (/\s/.test(char)) endWord();
    else word = (word ?? "") + char;
  }
  endCommand(false);
  for (const text of inside) found.push(...commandsOf(text, depth + 1));
  return found;
}
