import type { BudgetDescription, Standing } from "@portolan/client";
import { expect, test } from "vitest";
import { budgetFields, draftOf, fieldsOf, limitsWords, partsOf, standingOf } from "../src/budgets.ts";

const spent = { tokens: 1_500, turns: 3, unpriced_turns: 0 };
const known = (more: Partial<BudgetDescription>): BudgetDescription => ({ scope: { kind: "user" }, limits: {}, spent, level: "fine", ...more }) as BudgetDescription;

test("each limit shows what is spent of it, and an estimate says so", () => {
  const limits = { cost_usd: 2, tokens: 1_000, turns: 4 };
  expect(partsOf(known({ limits, spent: { ...spent, cost_usd: 0.5, estimated: true } }))).toEqual([
    { measure: "cost", words: "$0.50 of $2.00", share: 0.25 },
    { measure: "tokens", words: "about 1,500 of 1,000 tokens", share: 1 },
    { measure: "turns", words: "3 of 4 turns", share: 0.75 },
  ]);
});

test("a cost that no agent reported is unknown, and not zero", () => {
  expect(partsOf(known({ limits: { cost_usd: 2 } }))[0]?.words).toBe("cost unknown, limit $2.00");
  expect(partsOf(known({ limits: { cost_usd: 2 }, spent: { tokens: 0, turns: 0, unpriced_turns: 0 } }))[0]?.words).toBe("$0.00 of $2.00");
});

test("a form makes a budget only of limits above zero", () => {
  expect(draftOf(budgetFields())).toBeNull();
  for (const wrong of [{ cost: "0" }, { cost: "-1" }, { tokens: "1.5" }, { turns: "many" }, { turns: "5", scope: "project" as const }]) expect(draftOf(budgetFields(wrong))).toBeNull();
  expect(draftOf(budgetFields({ cost: "2.5", daily: true }))).toEqual({ scope: { kind: "user" }, limits: { cost_usd: 2.5 }, per: "day" });
  expect(draftOf(budgetFields({ scope: "project", folder: " /a ", turns: "5" }))).toEqual({ scope: { kind: "project", folder: "/a" }, limits: { turns: 5 } });
});

test("a budget whose limits are changed keeps its scope and period", () => {
  const scope = { kind: "agent" as const, agent: "codex" };
  const fields = fieldsOf({ scope, limits: { tokens: 10 }, per: "day" });
  expect(draftOf({ ...fields, tokens: "20" })).toEqual({ scope, limits: { tokens: 20 }, per: "day" });
});

test("a standing is one sentence", () => {
  const standing: Standing = { budget: "b", scope: { kind: "session", session: "s" }, level: "over", measure: "turns", spent: 5, limit: 5 };
  expect(standingOf(standing)).toBe("The budget of this session is spent, so prompts wait: 5 turns of 5 turns.");
  expect(standingOf({ ...standing, scope: { kind: "agent", agent: "codex" }, per: "day", level: "warn", measure: "cost", spent: 4.5 })).toBe("The budget of the agent codex per day is nearly spent: $4.50 of $5.00.");
  expect(limitsWords({ cost_usd: 5, turns: 1 })).toBe("$5.00, 1 turn");
});
