import type { Capabilities, WayOut } from "@portolan/client";
import { expect, test } from "vitest";
import { abilities, inabilities, modeLabel, modeWarning, nameOf, parked, refusalOf, stateOf, untaken, wayOutOf } from "../src/words.ts";

const can = (more: Partial<Capabilities>): Capabilities => ({ options: [], ...more }) as unknown as Capabilities;

test("capabilities are described in words, and an unknown capability is left out", () => {
  const some = can({ streaming: true, steering: false, image_input: false });
  expect(abilities(some)).toEqual(["streams text"]);
  expect(inabilities(some)).toEqual(["take prompts into a running turn", "accept pictures"]);
});

// Ids begin with the time, so ids of the same days begin alike.
test("a session without a name is called by the end of its id", () => {
  const session = "019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10";
  expect(nameOf({ name: "", session })).toBe("2f1c9d10");
  expect(nameOf(undefined, session)).toBe("2f1c9d10");
  expect(nameOf({ name: "fix the mast", session })).toBe("fix the mast");
});

test("options that a new session does not take are listed", () => {
  expect(untaken(can({ options: ["cwd", "prompt", "name", "model", "mode", "env", "system_prompt", "allowed_tools", "disallowed_tools", "mcp_servers", "subagents", "extra_dirs", "max_turns", "max_budget_usd", "json_schema", "resume", "fork"] }))).toEqual(["hooks", "choice of settings files"]);
});

test("a mode in which the agent never asks is marked before somebody chooses it", () => {
  const modes = can({ mode_asks: { default: "everything", acceptEdits: "some", yolo: "nothing" } });
  expect(modeLabel(modes, "yolo")).toBe("yolo (never asks)");
  expect(modeLabel(modes, "default")).toBe("default");
  expect([modeWarning(modes, "default"), modeWarning(modes, "acceptEdits")]).toEqual(["", ""]);
  expect(modeWarning(modes, "yolo")).toContain("allow_bypass = true");
  expect(modeWarning(modes, "anything else")).toContain("Only an owner");
});

test("a session shows that its agent is asleep, and how many prompts wait for an ended agent", () => {
  expect([stateOf({ status: "terminated", asleep: false }), stateOf({ status: "terminated", asleep: true })]).toEqual(["ended", "asleep"]);
  expect(parked({ status: "terminated", queued: 1 })).toBe("1 prompt waits; resume the session to send it");
  expect(parked({ status: "error", queued: 2 })).toBe("2 prompts wait; resume the session to send them");
  const over_budget = "the budget of this session is spent: 5 of 5 turns";
  expect(parked({ status: "idle", queued: 1, over_budget })).toBe(`1 prompt waits: ${over_budget}`);
  expect(parked({ status: "idle", queued: 0, over_budget })).toBeUndefined();
  expect([parked({ status: "active", queued: 1 }), parked({ status: "terminated", queued: 0 })]).toEqual([undefined, undefined]);
});

const session = "019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10";
/** One of each: the type check fails if the server has a kind that this page does not know. */
const ways: { [Kind in WayOut["kind"]]: Extract<WayOut, { kind: Kind }> } = {
  list_sessions: { kind: "list_sessions" },
  new_session: { kind: "new_session" },
  use_session: { kind: "use_session", session },
  resume_session: { kind: "resume_session", session },
  stop_session: { kind: "stop_session", session },
  send_again: { kind: "send_again", session, command: 12 },
  end_another_agent: { kind: "end_another_agent", setting: "limits.agents_at_once" },
  list_past: { kind: "list_past" },
  name_folder: { kind: "name_folder", agent: "qwen" },
  copy_past: { kind: "copy_past" },
  change_setting: { kind: "change_setting", key: "policy.allow_bypass" },
  list_budgets: { kind: "list_budgets" },
  ask_for_role: { kind: "ask_for_role", role: "operator" },
  list_tokens: { kind: "list_tokens" },
  remove_rule: { kind: "remove_rule", rule: "r1" },
  revoke_token: { kind: "revoke_token" },
  rotate_owner_token: { kind: "rotate_owner_token" },
};

test("every way out of a refusal has its own text, and no text is a command", () => {
  const words = Object.values(ways).map(wayOutOf);
  expect(new Set(words).size).toBe(words.length);
  for (const each of words) expect(each).toMatch(/^(?!.*portolan ).+[^.]$/);
  expect(refusalOf("the agent is not running", ways.resume_session)).toBe("the agent is not running; press Resume to start the agent again");
  expect(refusalOf("no", ways.change_setting)).toContain("`policy.allow_bypass`");
});

test("a way out that only a newer server knows is left out, and the refusal is still shown", () => {
  expect(refusalOf("no", { kind: "dance" } as unknown as WayOut)).toBe("no");
  expect(refusalOf("no", "another form" as unknown as WayOut)).toBe("no");
  expect(refusalOf("no", undefined)).toBe("no");
});
