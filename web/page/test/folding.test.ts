import type { EntryFrame, Event, State } from "@portolan/client";
import { expect, test } from "vitest";
import { fold } from "../src/state/folding.ts";

const EMPTY = {
  summary: {}, spec: {}, capabilities: {}, generation: 1, agent: {}, items: [], tools: [], subagents: [], tasks: [], requests: [],
  closed_requests: [], commands: [], plan: [], mcp_servers: [], rules: [], by_model: {}, context_window: 200_000,
  usage: { input: 0, output: 0, cache_creation: 0, cache_read: 0 },
} as unknown as State;

const KEY = { token: "owner", id: "p-1" };
const prompt = { name: "prompt", content: [{ type: "text", text: "hello" }] } as const;
function folded(...events: Event[]): State {
  return events.reduce(
    (state, event, index) => fold(state, { type: "entry", session: "s", seq: index + 1, at: 5, event } as EntryFrame),
    EMPTY,
  );
}

test("a prompt waits in the queue until it is consumed", () => {
  const accepted: Event = { type: "command_accepted", key: KEY, action: { ...prompt, content: [...prompt.content] } };
  expect(folded(accepted).commands.map(({ seq, stage }) => [seq, stage.stage])).toEqual([[1, "accepted"]]);
  expect(folded(accepted, { type: "receipt", command: 1, stage: "sending" }).commands[0]?.stage).toEqual({ stage: "sending" });
  expect(folded(accepted, { type: "receipt", command: 1, stage: "consumed" }).commands).toEqual([]);
});

test("an uncertain prompt stays until it is sent again, and is then like any other prompt", () => {
  const accepted: Event = { type: "command_accepted", key: KEY, action: { ...prompt, content: [...prompt.content] } };
  const uncertain = folded(accepted, { type: "receipt", command: 1, stage: "uncertain", reason: "killed" });
  expect(uncertain.commands[0]?.stage).toEqual({ stage: "uncertain", reason: "killed" });
  const again = fold(uncertain, {
    type: "entry", session: "s", seq: 9, at: 5,
    event: { type: "command_accepted", key: KEY, action: { name: "send_again", command: 1 } },
  });
  expect(again.commands).toEqual([
    { seq: 9, key: KEY, by: { kind: "daemon" }, name: "prompt", stage: { stage: "accepted" }, content: prompt.content },
  ]);
});

test("the context is the size of the main agent's last request, not of a subagent's request", () => {
  const usage = { input: 10, output: 9, cache_creation: 2, cache_read: 3 };
  const state = folded(
    { type: "usage", usage },
    { type: "usage", usage: { ...usage, input: 99 }, parent: "t1" },
  );
  expect(state.context_used).toBe(15);
  expect(folded({ type: "usage", usage }, { type: "conversation_reset" }).context_used).toBeUndefined();
});

test("turns, rules and settings are added to the state and removed from it", () => {
  const turn: Event = { type: "turn_started", turn: 1, origin: "prompt" };
  expect(folded(turn).turn).toEqual({ turn: 1, origin: "prompt", started_at: 5 });
  expect(folded(turn, { type: "turn_ended", turn: 1, result: { outcome: "completed" } }).turn).toBeUndefined();
  const added: Event = { type: "rule_added", tool_name: "Bash" };
  expect(folded(added, added).rules).toEqual(["Bash"]);
  expect(folded(added, { type: "rule_removed", tool_name: "Bash" }).rules).toEqual([]);
  expect(folded({ type: "setting_changed", setting: { name: "mode", mode: "plan" } }).summary.mode).toBe("plan");
});
