/**
 * Compares the page's fold with the program's fold. The goldens in `folds/` are conversations as a client gets them,
 * with the state that the program folds from them. A test of the program writes the goldens
 * (crates/frontends/src/native/tests/folds.rs).
 */

import type { EntryFrame, JsonValue, Seq, SnapshotFrame, State } from "@portolan/client";
import { expect, test } from "vitest";
import { fold } from "../src/state/folding.ts";
import { SubagentRow, WordsRow, type Row } from "../src/state/row.svelte.ts";
import { Rows } from "../src/state/rows.svelte.ts";

/** The parts of a state that the page folds. The other parts come from rows or the daemon's log, or are not used. */
const KEPT = {
  summary: ["model", "mode"],
  capabilities: true,
  generation: true,
  agent: true,
  thinking: true,
  activity: true,
  turn: true,
  subagents: true,
  tasks: true,
  commands: true,
  plan: true,
  mcp_servers: true,
  rules: true,
  session_rules: true,
  budgets: true,
  budget: false,
  usage: true,
  context_used: true,
  context_window: true,
  spec: false,
  pid: true,
  holder: true,
  stopped: false,
  items: false,
  tools: false,
  requests: false,
  closed_requests: false,
  by_model: false,
} satisfies Record<keyof State, boolean | (keyof State["summary"])[]>;

/** The change since the last snapshot, as a merge patch (RFC 7396). */
type Changed = { type: "changed"; seq: Seq; patch: JsonValue };
type Line = { type: "conversation"; name: string } | SnapshotFrame | EntryFrame | Changed;

function kept(state: State): Partial<State> {
  const pick = (of: object, names: string[]) => Object.fromEntries(Object.entries(of).filter(([name]) => names.includes(name)));
  const whole = Object.entries(KEPT).filter(([, how]) => how === true).map(([name]) => name);
  return { ...pick(state, whole), summary: pick(state.summary, KEPT.summary) } as Partial<State>;
}

function patched(value: JsonValue, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch;
  const next: Record<string, JsonValue> = isObject(value) ? { ...value } : {};
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete next[name];
    else next[name] = patched(next[name] ?? null, change);
  }
  return next;
}

function isObject(value: JsonValue): value is Record<string, JsonValue> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The texts that stream, also inside subagents. */
function streaming(rows: Row[]): string[] {
  return rows.flatMap((row) => {
    if (row instanceof SubagentRow) return streaming(row.rows);
    return row instanceof WordsRow && row.open ? [row.text] : [];
  });
}

const files = import.meta.glob<string>("./folds/*.jsonl", { query: "?raw", import: "default", eager: true });
const lines = Object.values(files).flatMap((text) => text.trimEnd().split("\n").map((line) => JSON.parse(line) as Line));
const conversations = new Map<string, Line[]>();
let current: Line[] = [];
for (const line of lines) {
  if (line.type === "conversation") conversations.set(line.name, (current = []));
  else current.push(line);
}

test("the recorded conversations are found", () => {
  expect(conversations.size).toBeGreaterThan(15);
});

test.each([...conversations])("the page computes the same state as the daemon: %s", (_, conversation) => {
  const [first, ...rest] = conversation;
  if (first?.type !== "snapshot") throw new Error("a conversation begins with its state");
  let told = first.state;
  // `whole` is folded from the first snapshot; `step` starts again from each snapshot.
  let [whole, step] = [told, told];
  const rows = new Rows();
  for (const line of rest) {
    if (line.type === "entry") {
      [whole, step] = [fold(whole, line), fold(step, line)];
      rows.apply(line);
    } else if (line.type === "changed") {
      told = patched(told as unknown as JsonValue, line.patch) as unknown as State;
      expect(kept(whole), `up to ${line.seq}`).toEqual(kept(told));
      expect(kept(step), `from the snapshot before ${line.seq}`).toEqual(kept(told));
      rows.settle();
      const texts = told.items.filter(({ kind }) => kind !== "tool_output").map(({ text }) => text);
      expect(streaming(rows.list).sort(), `what streams at ${line.seq}`).toEqual(texts.sort());
      step = told;
    }
  }
});
