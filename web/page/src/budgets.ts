/** Budgets: their words, and the drafts that forms make of them. */

import type { Budget, BudgetDescription, BudgetDraft, BudgetLimits, BudgetScope, Measure, Standing } from "@portolan/client";
import { count, dollars } from "./words.ts";

/** An amount in the unit of its measure. */
export function amount(measure: Measure, value: number): string {
  if (measure === "cost") return dollars(value);
  return measure === "tokens" ? `${count(value)} tokens` : `${count(value)} ${value === 1 ? "turn" : "turns"}`;
}

/** Whose use a budget counts. */
export function placeOf(scope: BudgetScope): string {
  switch (scope.kind) {
    case "session":
      return "This session";
    case "project":
      return `Sessions in ${scope.folder}`;
    case "agent":
      return `Sessions of ${scope.agent}`;
    default:
      return "Every session";
  }
}

/** One limit of a budget, and the part of it that is spent. */
export interface Part {
  measure: Measure;
  words: string;
  /** From 0 to 1. */
  share: number;
}

/** Stands for a cost that no agent reported. */
const UNKNOWN = "unknown";

export function partsOf({ limits, spent }: Pick<BudgetDescription, "limits" | "spent">): Part[] {
  const part = (measure: Measure, used: number, limit: number | undefined, words: string): Part[] =>
    limit === undefined ? [] : [{ measure, words: words === UNKNOWN ? `cost unknown, limit ${amount(measure, limit)}` : `${words} of ${amount(measure, limit)}`, share: Math.min(1, used / limit) }];
  const cost = spent.cost_usd === undefined ? (spent.turns > 0 ? UNKNOWN : dollars(0)) : dollars(spent.cost_usd);
  return [
    ...part("cost", spent.cost_usd ?? 0, limits.cost_usd, cost),
    ...part("tokens", spent.tokens, limits.tokens, `${spent.estimated ? "about " : ""}${count(spent.tokens)}`),
    ...part("turns", spent.turns, limits.turns, count(spent.turns)),
  ];
}

/** How far a budget is spent, in a sentence. */
export function standingOf({ scope, per, level, measure, spent, limit, estimated }: Standing): string {
  const whose = scope.kind === "session" ? "of this session" : scope.kind === "project" ? `of the project ${scope.folder}` : scope.kind === "agent" ? `of the agent ${scope.agent}` : "for every session";
  const what = level === "over" ? "is spent, so prompts wait" : level === "warn" ? "is nearly spent" : "has room again";
  return `The budget ${whose}${per ? " per day" : ""} ${what}: ${amount(measure, spent)} of ${amount(measure, limit)}${estimated ? " (an estimate while the turn runs)" : ""}.`;
}

/** The limits in words. */
export function limitsWords({ cost_usd, tokens, turns }: BudgetLimits): string {
  return [
    ...(cost_usd === undefined ? [] : [amount("cost", cost_usd)]),
    ...(tokens === undefined ? [] : [amount("tokens", tokens)]),
    ...(turns === undefined ? [] : [amount("turns", turns)]),
  ].join(", ");
}

/** What a form about a budget holds. */
export interface BudgetFields {
  scope: BudgetScope["kind"];
  folder: string;
  agent: string;
  session: string;
  cost: string;
  tokens: string;
  turns: string;
  daily: boolean;
}

export const budgetFields = (more: Partial<BudgetFields> = {}): BudgetFields => ({
  scope: "user", folder: "", agent: "", session: "", cost: "", tokens: "", turns: "", daily: false, ...more,
});

/** The fields of a budget whose limits are changed. */
export function fieldsOf({ scope, limits, per }: Pick<Budget, "scope" | "limits" | "per">): BudgetFields {
  const text = (limit: number | undefined) => (limit === undefined ? "" : String(limit));
  return budgetFields({
    scope: scope.kind,
    folder: scope.kind === "project" ? scope.folder : "",
    agent: scope.kind === "agent" ? scope.agent : "",
    session: scope.kind === "session" ? scope.session : "",
    cost: text(limits.cost_usd),
    tokens: text(limits.tokens),
    turns: text(limits.turns),
    daily: per !== undefined,
  });
}

/** The draft of a form; null while the form is not complete. */
export function draftOf({ scope, folder, agent, session, cost, tokens, turns, daily }: BudgetFields): BudgetDraft | null {
  const limits: BudgetLimits = {};
  const read: [keyof BudgetLimits, string, boolean][] = [["cost_usd", cost, false], ["tokens", tokens, true], ["turns", turns, true]];
  for (const [name, text, whole] of read) {
    if (!String(text).trim()) continue;
    const value = Number(text);
    if (!Number.isFinite(value) || value <= 0 || (whole && !Number.isSafeInteger(value))) return null;
    limits[name] = value;
  }
  if (Object.keys(limits).length === 0) return null;
  const where: BudgetScope | null =
    scope === "user" ? { kind: "user" }
    : scope === "project" ? (folder.trim() ? { kind: "project", folder: folder.trim() } : null)
    : scope === "agent" ? (agent ? { kind: "agent", agent } : null)
    : session ? { kind: "session", session } : null;
  return where && { scope: where, limits, ...(daily ? { per: "day" as const } : {}) };
}
