import { expect, test } from "vitest";
import type { Outcome, Request } from "@portolan/client";
import { decided } from "../src/state/told.ts";

const asked = (ask: Request["ask"]): Request => ({ request: 60, generation: 1, ask, digest: "d", opened_at: 0 });
const ada = { kind: "person", token: "t", name: "ada", via: "cli" } as const;

test("a permission that nobody answered in time was cancelled, and the tool is named", () => {
  const permission = asked({ kind: "permission", tool_name: "Bash", input: {} });
  const plan = asked({ kind: "plan", input: {} });
  const said = (outcome: Outcome, request?: Request) => decided(outcome, request).text;
  expect(said({ how: "interrupted", by: ada }, permission)).toBe("Approval cancelled for tool Bash: interrupted by ada (cli)");
  expect(said({ how: "withdrawn" }, permission)).toBe("Approval cancelled for tool Bash: withdrawn by the agent");
  expect(said({ how: "agent_gone", reason: "it crashed" }, permission)).toBe("Approval cancelled for tool Bash: closed: it crashed");
  expect(said({ how: "expired" }, permission)).toBe("denied: nobody answered in time");
  expect(said({ how: "interrupted", by: ada }, plan)).toBe("interrupted by ada (cli)");
  expect(said({ how: "withdrawn" })).toBe("withdrawn by the agent");
});
