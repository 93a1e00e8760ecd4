import type { EntryFrame, Event, Request } from "@portolan/client";
import { expect, test } from "vitest";
import { AskedRow, NoteRow, SubagentRow, ToolRow, WordsRow } from "../src/state/row.svelte.ts";
import { Rows } from "../src/state/rows.svelte.ts";
import { decided } from "../src/state/told.ts";

const ADA = { kind: "person", token: "owner", name: "ada", via: "cli" } as const;
let seq = 0;
const entry = (event: Event, by?: EntryFrame["by"]): EntryFrame => ({
  type: "entry", session: "s", seq: (seq += 1), at: 1_000, event, ...(by ? { by } : {}),
});
function rows(...events: Event[]): Rows {
  const made = new Rows();
  for (const event of events) made.apply(entry(event));
  made.settle();
  return made;
}
const call = (tool: string, more: Partial<Extract<Event, { type: "tool_call" }>> = {}): Event => ({
  type: "tool_call", tool, name: "Bash", kind: "execute", input: { command: "ls" }, ...more,
});

test("words stream into one row, and the finished message replaces them in place", () => {
  const made = rows(
    { type: "item_started", item: "1-1", kind: "text" },
    { type: "delta", item: "1-1", text: "Good " },
    { type: "delta", item: "1-1", text: "mor" },
    call("t1"),
    { type: "message", item: "1-1", content: [{ type: "text", text: "Good morning" }] },
  );
  expect(made.list.map((row) => row.kind)).toEqual(["words", "tool"]);
  const words = made.list[0] as WordsRow;
  expect([words.text, words.open]).toEqual(["Good morning", false]);
});

test("a delta of an unknown item is skipped", () => {
  expect(rows({ type: "delta", item: "9", text: "?" }).list).toEqual([]);
});

test("the row of a tool has its result, its output and who allowed it", () => {
  const request: Request = {
    request: 60, generation: 1, digest: "d", opened_at: 0, tool: "t1",
    ask: { kind: "permission", tool_name: "Bash", input: {} },
  };
  const made = rows(
    call("t1"),
    { type: "request_opened", request },
    { type: "request_closed", request: 60, outcome: { how: "answered", answer: { kind: "allow", scope: "once" }, by: ADA } },
    { type: "item_started", item: "t1", kind: "tool_output" },
    { type: "delta", item: "t1", text: "a.txt\n" },
    { type: "tool_result", tool: "t1", outcome: "done", content: [{ type: "text", text: "a.txt" }] },
  );
  expect(made.list.length).toBe(1);
  const tool = made.list[0] as ToolRow;
  expect([tool.outcome, tool.running, tool.output]).toEqual(["done", false, "a.txt\n"]);
  expect(tool.decision && decided(tool.decision.outcome).text).toBe("allowed by ada (cli)");
});

test("a question that was answered stays with its answer", () => {
  const request: Request = {
    request: 7, generation: 1, digest: "d", opened_at: 0,
    ask: { kind: "question", questions: [{ question: "Which?", multiple: false, free_text: true }] },
  };
  const made = rows({ type: "request_opened", request }, { type: "request_closed", request: 7, outcome: { how: "expired" } });
  const asked = made.list[0] as AskedRow;
  expect(asked.decision).toEqual({ request, outcome: { how: "expired" } });
});

test("a subagent takes the place of its call and keeps its own rows, to any depth", () => {
  const made = rows(
    call("t1", { name: "Task", kind: "subagent" }),
    { type: "subagent_started", subagent: "t1", description: "look around", background: false },
    call("t2", { parent: "t1", name: "Task", kind: "subagent" }),
    { type: "subagent_started", subagent: "t2", parent: "t1", description: "look closer", background: false },
    { type: "message", item: "x", parent: "t2", content: [{ type: "text", text: "found it" }] },
    { type: "subagent_ended", subagent: "t2", outcome: "done" },
  );
  expect(made.list.length).toBe(1);
  const outer = made.list[0] as SubagentRow;
  const inner = outer.rows[0] as SubagentRow;
  expect([outer.description, outer.rows.length, outer.running]).toEqual(["look around", 1, true]);
  expect([inner.description, inner.outcome, (inner.rows[0] as WordsRow).text]).toEqual(["look closer", "done", "found it"]);
});

test("text of a subagent whose start is not loaded still gets a row", () => {
  const made = rows({ type: "message", item: "x", parent: "t9", content: [{ type: "text", text: "late" }] });
  expect((made.list[0] as SubagentRow).rows.length).toBe(1);
});

test("a snapshot replaces open rows and keeps finished rows", () => {
  const made = rows(
    { type: "message", item: "a", content: [{ type: "text", text: "done" }] },
    { type: "item_started", item: "b", kind: "text" },
    { type: "delta", item: "b", text: "old" },
    call("t1"),
  );
  made.open([{ item: "b", kind: "text", text: "old and new" }], new Set(), new Set(), 99);
  expect(made.list.map((row) => (row instanceof WordsRow ? row.text : row.kind))).toEqual(["done", "tool", "old and new"]);
  expect((made.list[1] as ToolRow).running).toBe(false);
});

test("an event of a newer server is a line, not an error", () => {
  const made = rows({ type: "teleported", where: "elsewhere" } as unknown as Event);
  expect((made.list[0] as NoteRow).text).toContain("teleported");
});

test("an entry that cannot be read costs its own row and no other", () => {
  const made = rows(
    { type: "message", item: "1", content: null } as unknown as Event,
    { type: "message", item: "2", content: [{ type: "text", text: "still here" }] },
  );
  expect(made.list.map((row) => (row.kind === "words" ? row.text : row.kind))).toEqual(["note", "still here"]);
});

test("the row of a conversation reset says why the agent forgot", () => {
  const told = (reason?: "cannot_resume" | "lost") => rows({ type: "conversation_reset", ...(reason ? { reason } : {}) }).list[0] as NoteRow;
  expect(told("cannot_resume").text).toContain("cannot resume a conversation");
  expect(told("lost").text).toContain("has lost this conversation");
  expect([told().tone, told().text]).toEqual(["warn", "The agent has forgotten what was said before."]);
});
