/** Describes who did something, and how a request ended. */

import type { Actor, Answer, Outcome, PolicySource, Request, RuleRef } from "@portolan/client";

/** The name of an actor: `ada (cli)`. */
export function who(by: Actor | undefined): string {
  switch (by?.kind) {
    case "person":
      return `${by.name} (${by.via})`;
    case "policy":
      switch (by.source ?? sourceOf(by.rule)) {
        case "mode":
        case "budget":
          return `the ${by.rule}`;
        case "limit":
          return `the limit: ${by.rule}`;
        case "rule":
          return `the rule ${by.rule}`;
      }
    case "deadline":
      return "the deadline";
    case "daemon":
      return "Portolan";
    case "imported":
      return "the imported conversation";
    case "agent":
    case undefined:
      return "the agent";
  }
}

/** What the words of an older entry name, which has no `source`. */
function sourceOf(words: string): PolicySource {
  if (words.startsWith("mode ")) return "mode";
  if (words.startsWith("budget ")) return "budget";
  return words.startsWith("at most ") ? "limit" : "rule";
}

/** Describes how a request ended. A permission that ended without an answer was cancelled. */
export function decided(outcome: Outcome, request?: Request): { text: string; good: boolean | null } {
  const words = ended(outcome);
  const isCancelled = outcome.how === "interrupted" || outcome.how === "withdrawn" || outcome.how === "agent_gone";
  if (!isCancelled || request?.ask.kind !== "permission") return words;
  return { ...words, text: `Approval cancelled for tool ${request.ask.tool_name}: ${words.text}` };
}

function ended(outcome: Outcome): { text: string; good: boolean | null } {
  switch (outcome.how) {
    case "answered":
      return { text: `${verb(outcome.answer)} by ${who(outcome.by)}`, good: outcome.answer.kind !== "deny" };
    case "expired":
      return { text: "denied: nobody answered in time", good: false };
    case "interrupted":
      return { text: `interrupted by ${who(outcome.by)}`, good: false };
    case "withdrawn":
      return { text: "withdrawn by the agent", good: null };
    case "agent_gone":
      return { text: `closed: ${outcome.reason}`, good: null };
  }
}

/** The rules that answered a request; empty if something else did. */
export function rulesOf(request: Request | undefined, outcome: Outcome): RuleRef[] {
  return outcome.how === "answered" && outcome.by.kind === "policy" ? (request?.policy?.rules ?? []) : [];
}

export function verb(answer: Answer): string {
  if (answer.kind === "allow") return answer.scope === "session" ? "always allowed" : answer.input === undefined ? "allowed" : "allowed with changes";
  return answer.kind === "deny" ? "denied" : "answered";
}
