/** Rules: their words, and the drafts that forms make of them. */

import type { AgentDescription, Effect, JsonValue, Judgement, Mode, Request, RiskLevel, Role, Rule, RuleDescription, RuleDraft, RuleRef, RuleScope, ScopeDraft, SessionId, Simulation } from "@portolan/client";

/** The risk of a request and its reasons; null if Portolan did not judge the request. */
export function riskOf(policy: Judgement | undefined): { level: RiskLevel; reasons: string[] } | null {
  return policy ? { level: policy.risk.level, reasons: policy.risk.reasons } : null;
}

export const EFFECTS: Record<Effect, string> = { allow: "allow", ask: "ask a person", deny: "deny" };
export const MODES: Mode[] = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/** The address of a rule on the page of rules. Only the ids of session rules repeat, once in each session. */
export function ruleHref({ rule, scope }: Pick<RuleRef, "rule" | "scope">): string {
  const session = /^session:(.+)$/.exec(scope)?.[1];
  return session === undefined ? `#/rules/${rule}` : `#/rules/${rule}/${session}`;
}

/** The session of a rule, if the rule holds in one session only. */
export const sessionOf = (scope: RuleScope): SessionId | undefined => (scope.kind === "session" ? scope.session : undefined);

/** Whether a role may make, change and remove rules of this scope. */
export function mayRule(role: Role, scope: RuleScope["kind"]): boolean {
  return role === "owner" || (role === "operator" && scope === "session");
}

/** What a form about a rule holds. */
export interface RuleFields {
  effect: Effect;
  text: string;
  scope: RuleScope["kind"];
  folder: string;
  session: SessionId;
  comment: string;
  /** Seconds until the rule ends; empty is never, `kept` is the time that the rule already has. */
  expires: string;
  overridable: boolean;
  /** The rule keeps its examples. */
  examples: boolean;
}

export const fields = (more: Partial<RuleFields> = {}): RuleFields => ({
  effect: "allow", text: "", scope: "user", folder: "", session: "", comment: "", expires: "", overridable: false, examples: true, ...more,
});

/** The fields of a rule that is edited. */
export function fieldsOf(rule: Rule): RuleFields {
  const { scope } = rule;
  return fields({
    effect: rule.effect,
    text: rule.text,
    scope: scope.kind,
    folder: scope.kind === "project" ? scope.folder : "",
    session: sessionOf(scope) ?? "",
    comment: rule.comment ?? "",
    expires: rule.expires_at === undefined ? "" : "kept",
    overridable: rule.overridable ?? false,
  });
}

/** The draft that a form asks for. `before` is the rule that is edited. */
export function draftOf(form: RuleFields, now: number, before?: Rule): RuleDraft {
  const comment = form.comment.trim();
  const seconds = form.expires === "kept" ? Math.max(1, Math.round(((before?.expires_at ?? now) - now) / 1000)) : Number(form.expires);
  return {
    effect: form.effect,
    text: form.text.trim(),
    scope: scopeOf(form),
    ...(form.overridable && form.effect === "deny" ? { overridable: true } : {}),
    ...(seconds > 0 ? { expires_in_seconds: seconds } : {}),
    ...(comment ? { comment } : {}),
    ...(form.examples && before?.match ? { match: before.match } : {}),
    ...(form.examples && before?.not_match ? { not_match: before.not_match } : {}),
  };
}

function scopeOf({ scope, folder, session }: RuleFields): ScopeDraft {
  if (scope === "session") return { kind: scope, session };
  return scope === "project" ? { kind: scope, folder: folder.trim() } : { kind: scope };
}

/** The form for a rule that would answer such a request; null if no rule can, or if a rule already does. */
export function fromRequest(request: Request, session: SessionId, folder: string, denied = false): RuleFields | null {
  const { ask, policy, suggested_rule } = request;
  if (ask.kind !== "permission") return null;
  // Portolan suggests nothing for a request that a mode decided.
  const text = suggested_rule ?? (policy && policy.decision !== "ask" && policy.rules.length === 0 ? ask.tool_name : undefined);
  return text === undefined ? null : fields({ text, session, folder, scope: "session", effect: denied ? "deny" : "allow" });
}

/** What somebody should know about the pattern before the rule is saved; empty if there is nothing. */
export function hintOf({ effect, text }: Pick<RuleFields, "effect" | "text">): string {
  const whole = text.trim();
  if (/^[^\s()]+$/.test(whole)) return `Without a pattern, the rule covers every call of ${whole}.`;
  if (effect !== "allow") return "";
  return /^[^(]*\(.*\*\)$/.test(whole) ? "A * at the end covers everything that may follow, also options that delete or write files." : "";
}

/** Rules of one scope under their heading. */
export interface RuleGroup {
  key: string;
  scope: RuleScope;
  rules: RuleDescription[];
}

/** The rules by scope: those of every session first, then projects, then single sessions. */
export function grouped(rules: RuleDescription[]): RuleGroup[] {
  const groups = new Map<string, RuleGroup>();
  for (const rule of rules) {
    const { scope } = rule;
    const key = scope.kind === "project" ? `project:${scope.folder}` : scope.kind === "session" ? `session:${scope.session}` : "";
    const group = groups.get(key) ?? { key, scope, rules: [] };
    group.rules.push(rule);
    groups.set(key, group);
  }
  const order = { user: 0, project: 1, session: 2 };
  const all = [...groups.values()].sort((a, b) => order[a.scope.kind] - order[b.scope.kind] || a.key.localeCompare(b.key));
  for (const { rules: own } of all) own.sort((a, b) => a.text.localeCompare(b.text) || a.made_at - b.made_at);
  return all;
}

/** The input of a call that is tried: a JSON object, or only the command, the file or the address. */
export function inputOf(tool: string, text: string): JsonValue {
  const given = text.trim();
  if (given.startsWith("{")) return JSON.parse(given) as JsonValue;
  const name = tool.trim().toLowerCase();
  if (/^(bash|shell|powershell|exec\w*|run_\w+|local_shell|terminal|cmd)$/.test(name)) return { command: given };
  if (/^(web_?fetch|fetch)$/.test(name)) return { url: given };
  if (/^(\w*web_?search)$/.test(name)) return { query: given };
  if (/^notebook(edit|read)$/.test(name)) return { notebook_path: given };
  if (/^(read|edit|write|multi_?edit|view|ls|(read|write|edit|create|delete)_file|delete)$/.test(name)) return { file_path: given };
  if (given === "") return {};
  throw new Error("The input of this tool must be a JSON object, such as {\"key\": \"value\"}.");
}

/** A decision in words. */
export const DECIDED: Record<Judgement["decision"], string> = { allow: "Allowed without asking", ask: "A person is asked", deny: "Denied" };

/** What a rule would have decided, in one or two sentences. */
export function covered({ requests, covered: found, asked, against, truncated }: Simulation): string {
  if (requests === 0) return "There are no earlier requests to compare the rule with.";
  const all = `${requests.toLocaleString("en")}${truncated ? " newest" : ""} earlier requests`;
  const only = requests === 1 ? "the only earlier request" : undefined;
  if (found === 0) return only ? `The rule would not have decided ${only}.` : `The rule would have decided none of the ${all}.`;
  const first = `The rule would have decided ${only ?? `${found.toLocaleString("en")} of the ${all}`}.`;
  if (asked === 0) return first;
  const people = asked === found ? (found === 1 ? "A person answered this request" : "A person answered all of them") : `A person answered ${asked.toLocaleString("en")} of them`;
  const other = asked === 1 ? "the answer differs" : against === asked ? "all answers differ" : `${against.toLocaleString("en")} of the answers ${against === 1 ? "differs" : "differ"}`;
  return `${first} ${people}${against === 0 ? "" : `, and ${other} from the rule`}.`;
}

/** Says for which agents rules are advisory, and what that means; empty if rules bind every agent. */
export function advice(agents: AgentDescription[]): string {
  const here = agents.filter(({ probe }) => probe?.available !== false || probe.program !== undefined);
  const names = here.filter(({ capabilities }) => capabilities.rules !== "enforced").map(({ title }) => title);
  if (names.length === 0) return "";
  const listed = names.length === 1 ? names[0] : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  return `For ${listed}, rules are advisory: ${names.length === 1 ? "this agent does" : "these agents do"} some things without asking, and a rule stops only what an agent asks about.`;
}
