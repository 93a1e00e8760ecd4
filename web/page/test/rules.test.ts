import type { AgentDescription, Judgement, Request, Rule, RuleDescription, RuleScope, Simulation } from "@portolan/client";
import { expect, test } from "vitest";
import { advice, covered, draftOf, fields, fieldsOf, fromRequest, grouped, hintOf, inputOf, mayRule, riskOf, ruleHref } from "../src/rules.ts";
import { rulesOf, who } from "../src/state/told.ts";
import { since } from "../src/words.ts";

const NOW = 1_700_000_000_000;
const PROJECT: RuleScope = { kind: "project", id: "ab", folder: "/home/ada/chart", identity: { device: 1, inode: 2 } };
const rule = (more: Partial<Rule> = {}): Rule => ({ rule: "1f2e3d4c", effect: "deny", text: "Bash(rm -r)", scope: { kind: "user" }, made_at: NOW, made_by: { kind: "daemon" }, ...more });
const judgement = (more: Partial<Judgement> = {}): Judgement => ({ decision: "ask", rules: [], mode: "default", why: "no rule decides", risk: { level: "high" as never, reasons: ["runs a command"] }, ...more });
const request = (more: Partial<Request> = {}): Request => ({ request: 7, generation: 1, digest: "d", opened_at: NOW, ask: { kind: "permission", tool_name: "Bash", input: { command: "ls" } }, ...more });

test("a rule that is edited and saved without a change stays the same", () => {
  const before = rule({
    scope: PROJECT, overridable: true, comment: "never", expires_at: NOW + 90_000,
    match: [{ tool: "Bash", input: { command: "rm -r x" } }], not_match: [{ tool: "Bash", input: { command: "ls" } }],
  });
  expect(draftOf(fieldsOf(before), NOW, before)).toEqual({
    effect: "deny", text: "Bash(rm -r)", scope: { kind: "project", folder: "/home/ada/chart" }, overridable: true, comment: "never", expires_in_seconds: 90,
    match: before.match, not_match: before.not_match,
  });
  expect(draftOf({ ...fieldsOf(before), examples: false }, NOW, before)).not.toHaveProperty("match");
});

test("a draft holds only what was filled in", () => {
  expect(draftOf(fields({ text: " Bash(ls) ", comment: " " }), NOW)).toEqual({ effect: "allow", text: "Bash(ls)", scope: { kind: "user" } });
  expect(draftOf(fields({ text: "Bash", scope: "session", session: "s", expires: "3600", overridable: true }), NOW)).toEqual({
    effect: "allow", text: "Bash", scope: { kind: "session", session: "s" }, expires_in_seconds: 3600,
  });
});

test("a rule that expired while it was edited is saved for a second, and not for ever", () => {
  const before = rule({ expires_at: NOW - 1 });
  expect(draftOf(fieldsOf(before), NOW, before).expires_in_seconds).toBe(1);
});

test("a form for a request begins with the rule that Portolan suggests", () => {
  expect(fromRequest(request({ suggested_rule: "Bash(ls)" }), "s", "/work")).toEqual(fields({ text: "Bash(ls)", session: "s", folder: "/work", scope: "session" }));
  expect(fromRequest(request({ suggested_rule: "Bash(ls)" }), "s", "/work", true)?.effect).toBe("deny");
});

test("a request that a mode decided gets a form for the whole tool; a request that a rule decided gets none", () => {
  expect(fromRequest(request({ policy: judgement({ decision: "allow", mode: "acceptEdits" }) }), "s", "")?.text).toBe("Bash");
  const rules = [{ rule: "1f2e3d4c", line: "allow Bash", scope: "user" }];
  expect(fromRequest(request({ policy: judgement({ decision: "allow", rules }) }), "s", "")).toBeNull();
  expect(fromRequest(request({ policy: judgement() }), "s", "")).toBeNull();
  expect(fromRequest(request({ ask: { kind: "plan", input: {} }, suggested_rule: "x" }), "s", "")).toBeNull();
});

test("operators change rules of sessions, owners change all rules, viewers change none", () => {
  const scopes = ["user", "project", "session"] as const;
  expect(scopes.map((scope) => mayRule("owner", scope))).toEqual([true, true, true]);
  expect(scopes.map((scope) => mayRule("operator", scope))).toEqual([false, false, true]);
  expect(scopes.map((scope) => mayRule("viewer", scope))).toEqual([false, false, false]);
});

test("the address of a session's rule names the session, because such ids repeat", () => {
  expect(ruleHref({ rule: "1f2e3d4c", scope: "user" })).toBe("#/rules/1f2e3d4c");
  expect(ruleHref({ rule: "1f2e3d4c", scope: "project:/home/ada" })).toBe("#/rules/1f2e3d4c");
  expect(ruleHref({ rule: "s12", scope: "session:019a" })).toBe("#/rules/s12/019a");
});

test("rules are listed by scope: every session, projects, single sessions", () => {
  const all: RuleDescription[] = [
    rule({ rule: "s1", scope: { kind: "session", session: "b" } }), rule({ rule: "p", scope: PROJECT }),
    rule({ rule: "2", text: "Write" }), rule({ rule: "1", text: "Bash" }), rule({ rule: "s1", scope: { kind: "session", session: "a" } }),
  ].map((each) => ({ ...each, uses: 0 }));
  expect(grouped(all).map(({ key, rules }) => [key, rules.map((each) => each.rule)])).toEqual([
    ["", ["1", "2"]], ["project:/home/ada/chart", ["p"]], ["session:a", ["s1"]], ["session:b", ["s1"]],
  ]);
});

test("a hint says what a pattern covers before the rule is saved", () => {
  expect(hintOf({ effect: "deny", text: "Bash" })).toBe("Without a pattern, the rule covers every call of Bash.");
  expect(hintOf({ effect: "allow", text: "Bash(find *)" })).toContain("delete or write files");
  expect([hintOf({ effect: "deny", text: "Bash(find *)" }), hintOf({ effect: "allow", text: "Bash(git status)" }), hintOf({ effect: "allow", text: "" })]).toEqual(["", "", ""]);
});

test("a call is tried with a plain command, file or address, or with JSON", () => {
  expect(inputOf("Bash", "git status")).toEqual({ command: "git status" });
  expect(inputOf("Edit", "src/main.rs")).toEqual({ file_path: "src/main.rs" });
  expect(inputOf("WebFetch", "https://example.org")).toEqual({ url: "https://example.org" });
  expect(inputOf("mcp__db__query", '{"database": "test"}')).toEqual({ database: "test" });
  expect(inputOf("mcp__db__list", "")).toEqual({});
  expect(() => inputOf("mcp__db__query", "test")).toThrow("must be a JSON object");
  expect(() => inputOf("Bash", "{")).toThrow();
});

const simulation = (more: Partial<Simulation>): Simulation => ({ requests: 40, covered: 12, asked: 12, against: 0, sessions: [], examples: [], truncated: false, ...more });

test("what a rule would have decided is said in plain sentences", () => {
  expect(covered(simulation({ requests: 0 }))).toBe("There are no earlier requests to compare the rule with.");
  expect(covered(simulation({ covered: 0 }))).toBe("The rule would have decided none of the 40 earlier requests.");
  expect(covered(simulation({ requests: 1, covered: 0 }))).toBe("The rule would not have decided the only earlier request.");
  expect(covered(simulation({ requests: 1, covered: 1, asked: 1 }))).toBe("The rule would have decided the only earlier request. A person answered this request.");
  expect(covered(simulation({ asked: 0 }))).toBe("The rule would have decided 12 of the 40 earlier requests.");
  expect(covered(simulation({}))).toBe("The rule would have decided 12 of the 40 earlier requests. A person answered all of them.");
  expect(covered(simulation({ asked: 9, against: 2 }))).toBe("The rule would have decided 12 of the 40 earlier requests. A person answered 9 of them, and 2 of the answers differ from the rule.");
  expect(covered(simulation({ requests: 10_000, truncated: true, covered: 1, asked: 1, against: 1 }))).toBe("The rule would have decided 1 of the 10,000 newest earlier requests. A person answered this request, and the answer differs from the rule.");
});

const agent = (title: string, rules: "enforced" | "advisory", installed = true): AgentDescription =>
  ({ kind: title, title, capabilities: { rules }, probe: { available: installed, message: "" } }) as unknown as AgentDescription;

test("one sentence says for which installed agents rules are advisory, and what that means", () => {
  expect(advice([agent("Demo", "enforced")])).toBe("");
  expect(advice([agent("Demo", "enforced"), agent("Codex", "advisory"), agent("Goose", "advisory", false)])).toBe(
    "For Codex, rules are advisory: this agent does some things without asking, and a rule stops only what an agent asks about.",
  );
  expect(advice([agent("A", "advisory"), agent("B", "advisory"), agent("C", "advisory")])).toMatch(/^For A, B and C, rules are advisory: these agents do /);
});

test("the risk comes from Portolan, and a request without a judgement has none", () => {
  expect(riskOf(judgement())).toEqual({ level: "high", reasons: ["runs a command"] });
  expect(riskOf(undefined)).toBeNull();
});

test("a mode and a limit that answered are not called rules, and only rules are linked", () => {
  const names = ["deny Bash(rm -r)", "mode acceptEdits, set by auto-edit", "budget of this session", "at most 64 open requests"].map((by) => who({ kind: "policy", rule: by }));
  const named = (["rule", "mode", "budget", "limit"] as const).map((source) => who({ kind: "policy", rule: "x", source }));
  expect(named).toEqual(["the rule x", "the x", "the x", "the limit: x"]);
  expect(names).toEqual(["the rule deny Bash(rm -r)", "the mode acceptEdits, set by auto-edit", "the budget of this session", "the limit: at most 64 open requests"]);
  const rules = [{ rule: "1f2e3d4c", line: "ask Bash", scope: "user" }];
  const asked = request({ policy: judgement({ rules }) });
  expect(rulesOf(asked, { how: "answered", answer: { kind: "allow", scope: "once" }, by: { kind: "policy", rule: "ask Bash" } })).toEqual(rules);
  expect(rulesOf(asked, { how: "answered", answer: { kind: "allow", scope: "once" }, by: { kind: "person", token: "t", name: "ada", via: "cli" } })).toEqual([]);
});

test("the time of a rule is said as people say it", () => {
  expect([since(NOW, NOW), since(NOW - 7_200_000, NOW)]).toEqual(["just now", "2 h ago"]);
  expect(since(NOW - 90 * 86_400_000, NOW)).toMatch(/^on /);
});
