/** A session as a file: every durable entry, or the conversation as Markdown. The history is read page by page. */

import type { Content, EntryFrame } from "@portolan/client";
import { link } from "../state/link.svelte.ts";

async function* pages(session: string): AsyncGenerator<EntryFrame[]> {
  for (let after = 0; ; ) {
    const { entries } = await link.now.ask("history", { type: "history", session, after, limit: 1_000 });
    const last = entries.at(-1);
    if (!last) return;
    yield entries;
    after = last.seq;
  }
}

function save(name: string, type: string, parts: string[]): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const fileName = (name: string) => name.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 60) || "session";

export async function exportEntries(session: string, name: string): Promise<void> {
  const parts: string[] = [];
  for await (const entries of pages(session)) parts.push(`${entries.map((entry) => JSON.stringify(entry)).join("\n")}\n`);
  save(`${fileName(name)}.jsonl`, "application/x-ndjson", parts);
}

export async function exportMarkdown(session: string, name: string): Promise<void> {
  const parts: string[] = [`# ${name}\n\n`];
  for await (const entries of pages(session)) for (const { event } of entries) parts.push(told(event));
  save(`${fileName(name)}.md`, "text/markdown", parts.filter(Boolean));
}

const words = (content: Content[]) => content.map((piece) => (piece.type === "text" ? piece.text : piece.type === "image" ? "(a picture)" : "")).filter(Boolean).join("\n\n");
/** A fence that is longer than any run of backticks in the text. */
const fence = (text: string) => "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));

function told(event: EntryFrame["event"]): string {
  switch (event.type) {
    case "prompt":
      return `## You\n\n${words(event.content)}\n\n`;
    case "message": {
      const text = words(event.content);
      return text && event.parent === undefined ? `${text}\n\n` : "";
    }
    case "tool_call": {
      if (event.parent !== undefined) return "";
      const text = event.changes?.map(({ diff }) => diff ?? "").join("\n") || JSON.stringify(event.input, null, 2);
      const ticks = fence(text);
      return `**${event.name}**\n\n${ticks}${event.changes?.length ? "diff" : "json"}\n${text}\n${ticks}\n\n`;
    }
    default:
      return "";
  }
}
