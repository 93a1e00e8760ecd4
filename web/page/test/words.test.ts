import type { Capabilities } from "@portolan/client";
import { expect, test } from "vitest";
import { abilities, inabilities, untaken } from "../src/words.ts";

const can = (more: Partial<Capabilities>): Capabilities => ({ options: [], ...more }) as unknown as Capabilities;

test("what an agent can and cannot do is told in words, and what is not known is not told", () => {
  const some = can({ streaming: true, steering: false, image_input: false });
  expect(abilities(some)).toEqual(["streams its words"]);
  expect(inabilities(some)).toEqual(["take prompts into a turn that runs", "see pictures"]);
});

test("what a new session does not take is told", () => {
  expect(untaken(can({ options: ["cwd", "prompt", "name", "model", "mode", "env", "system_prompt", "allowed_tools", "disallowed_tools", "mcp_servers", "subagents", "extra_dirs", "max_turns", "max_budget_usd", "json_schema", "resume", "fork"] }))).toEqual(["hooks", "choice of settings files"]);
});
