import type { Capabilities } from "@portolan/client";
import { expect, test } from "vitest";
import { abilities, inabilities, modeLabel, modeWarning, nameOf, parked, stateOf, untaken } from "../src/words.ts";

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
