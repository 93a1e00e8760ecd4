import type { Capabilities, WayOut } from "@portolan/client";
import { expect, test } from "vitest";
import { abilities, inabilities, modeLabel, modeWarning, nameOf, parked, refusalOf, stateOf, untaken, wayOutOf } from "../src/words.ts";

const can = (more: Partial<Capabilities>): Capabilities => ({ options: [], ...more }) as unknown as Capabilities;

test("what an agent can and cannot do is told in words, and what is not known is not told", () => {
  const some = can({ streaming: true, steering: false, image_input: false });
  expect(abilities(some)).toEqual(["streams its words"]);
  expect(inabilities(some)).toEqual(["take prompts into a turn that runs", "see pictures"]);
});

// Ids begin with the time, and so for days alike.
test("a session without a name is called by the end of its id", () => {
  const session = "019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10";
  expect(nameOf({ name: "", session })).toBe("2f1c9d10");
  expect(nameOf(undefined, session)).toBe("2f1c9d10");
  expect(nameOf({ name: "fix the mast", session })).toBe("fix the mast");
});

test("what a new session does not take is told", () => {
  expect(untaken(can({ options: ["cwd", "prompt", "name", "model", "mode", "env", "system_prompt", "allowed_tools", "disallowed_tools", "mcp_servers", "subagents", "extra_dirs", "max_turns", "max_budget_usd", "json_schema", "resume", "fork"] }))).toEqual(["hooks", "choice of settings files"]);
});

test("a mode that asks nobody says so before it is chosen", () => {
  const modes = can({ mode_asks: { default: "everything", acceptEdits: "some", yolo: "nothing" } });
  expect(modeLabel(modes, "yolo")).toBe("yolo (asks nobody)");
  expect(modeLabel(modes, "default")).toBe("default");
  expect([modeWarning(modes, "default"), modeWarning(modes, "acceptEdits")]).toEqual(["", ""]);
  expect(modeWarning(modes, "yolo")).toContain("allow_bypass = true");
  expect(modeWarning(modes, "anything else")).toContain("takes an owner");
});

test("a session says that its agent is asleep, and what waits for one that does not run", () => {
  expect([stateOf({ status: "terminated", asleep: false }), stateOf({ status: "terminated", asleep: true })]).toEqual(["ended", "asleep"]);
  expect(parked({ status: "terminated", queued: 1 })).toBe("1 prompt waits; resume starts it");
  expect(parked({ status: "error", queued: 2 })).toBe("2 prompts wait; resume starts them");
  expect([parked({ status: "active", queued: 1 }), parked({ status: "terminated", queued: 0 })]).toEqual([undefined, undefined]);
});

const session = "019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10";
/** One of each: a kind that the server gets and this page does not know is an error of the type. */
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
  change_setting: { kind: "change_setting", key: "sessions.allow_bypass" },
  ask_for_role: { kind: "ask_for_role", role: "operator" },
  list_tokens: { kind: "list_tokens" },
  revoke_token: { kind: "revoke_token" },
  rotate_owner_token: { kind: "rotate_owner_token" },
};

test("every way out of a refusal has words of its own, and none is a command", () => {
  const words = Object.values(ways).map(wayOutOf);
  expect(new Set(words).size).toBe(words.length);
  for (const each of words) expect(each).toMatch(/^(?!.*portolan ).+[^.]$/);
  expect(refusalOf("the agent is not running", ways.resume_session)).toBe("the agent is not running; press Resume to start it again");
  expect(refusalOf("no", ways.change_setting)).toContain("`sessions.allow_bypass`");
});

test("a way out that a newer server knows is left out, and what is wrong is told", () => {
  expect(refusalOf("no", { kind: "dance" } as unknown as WayOut)).toBe("no");
  expect(refusalOf("no", "another form" as unknown as WayOut)).toBe("no");
  expect(refusalOf("no", undefined)).toBe("no");
});
