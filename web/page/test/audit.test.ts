import { expect, test } from "vitest";
import { auditHref, filterOf, queryOf, ruleOf, sealOf, usesOf, whatOf } from "../src/audit.ts";

const NOW = 1_700_000_000_000;

test("the address keeps the filters, whatever characters they contain", () => {
  const filter = { who: "ada / phone & co", session: "s-1", rule: "1f2e3d4c", hours: "24" };
  const href = auditHref(filter);
  expect(href.split("/")).toHaveLength(3);
  expect(filterOf(href.split("/")[2])).toEqual(filter);
  expect(auditHref({ who: " " })).toBe("#/audit");
});

test("an address with unknown filters shows everything", () => {
  expect(filterOf("hours=7&x=y")).toEqual({ who: "", session: "", rule: "", hours: "" });
  expect(filterOf(undefined)).toEqual({ who: "", session: "", rule: "", hours: "" });
});

test("a call holds only the filters that are set", () => {
  expect(queryOf(filterOf("who=ada&hours=1"), NOW)).toEqual({ who: "ada", since: NOW - 3_600_000, limit: 100 });
  expect(queryOf(filterOf(""), NOW, 0)).toEqual({ from: 0, limit: 100 });
});

test("a record leads to its rule, also to a rule of its session", () => {
  expect(ruleOf("1f2e3d4c", { session: "abc" })).toBe("#/rules/1f2e3d4c");
  expect(ruleOf("s12", { session: "abc" })).toBe("#/rules/s12/abc");
  expect(whatOf({ what: "token_created" })).toBe("token created");
});

test("the seal of a record says whether somebody changed the entry", () => {
  expect(sealOf({ seal: "ab", before: "00", matches: true }).good).toBe(true);
  expect(sealOf({ seal: "ab", before: "00", matches: false }).words).toContain("does not match");
  expect(sealOf({ before: "00", matches: false }).good).toBe(false);
  expect(sealOf(undefined).words).toContain("no seals");
});

test("the use of a rule is described in words", () => {
  expect(usesOf(0, undefined)).toBe("never used");
  expect(usesOf(1, "3 h ago")).toBe("used once, 3 h ago");
  expect(usesOf(1200, "just now")).toBe("used 1,200 times, last just now");
});
