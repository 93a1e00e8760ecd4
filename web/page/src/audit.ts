/** The audit: its filters in the address, its calls, and its words. */

import type { AuditQuery, AuditRecord, ChainLink, RuleId } from "@portolan/client";

/** What the list is narrowed to. Empty is everything. */
export interface AuditFilter {
  who: string;
  session: string;
  rule: string;
  /** Only records of the last so many hours. */
  hours: string;
}

export const AGES: [hours: string, words: string][] = [["", "any time"], ["1", "the last hour"], ["24", "the last day"], ["168", "the last week"], ["720", "the last 30 days"]];

/** The filter in an address: `who=ada&hours=24`. Anything else in the address is ignored. */
export function filterOf(text: string | undefined): AuditFilter {
  const given = new URLSearchParams(text ?? "");
  const hours = given.get("hours") ?? "";
  return {
    who: given.get("who") ?? "",
    session: given.get("session") ?? "",
    rule: given.get("rule") ?? "",
    hours: AGES.some(([known]) => known === hours) ? hours : "",
  };
}

/** The address of the audit with a filter. */
export function auditHref(filter: Partial<AuditFilter>): string {
  const given = Object.entries(filter).map(([name, value]) => [name, value.trim()] as [string, string]).filter(([, value]) => value);
  // A slash separates the parts of an address.
  const text = new URLSearchParams(given).toString().replaceAll("/", "%2F");
  return text ? `#/audit/${text}` : "#/audit";
}

/** The call for a page of records. */
export function queryOf(filter: AuditFilter, now: number, from?: number): AuditQuery {
  return {
    ...(filter.who.trim() ? { who: filter.who.trim() } : {}),
    ...(filter.session.trim() ? { session: filter.session.trim() } : {}),
    ...(filter.rule.trim() ? { rule: filter.rule.trim() } : {}),
    ...(filter.hours ? { since: Math.round(now - Number(filter.hours) * 3_600_000) } : {}),
    ...(from === undefined ? {} : { from }),
    limit: 100,
  };
}

/** What was done, as words. */
export const whatOf = ({ what }: Pick<AuditRecord, "what">): string => what.replaceAll("_", " ");

/** The address of a rule that a record names. The ids of session rules are `s` and a number. */
export function ruleOf(rule: RuleId, { session }: Pick<AuditRecord, "session">): string {
  return /^s\d+$/.test(rule) && session ? `#/rules/${rule}/${session}` : `#/rules/${rule}`;
}

/** Whether the entry of a record is as it was written. */
export function sealOf(link: ChainLink | undefined): { good: boolean; words: string } {
  if (!link) return { good: true, words: "The entries of sessions have no seals." };
  if (!link.seal) return { good: false, words: "The seal is missing: another program added the entry, or removed the seal." };
  return link.matches
    ? { good: true, words: "The entry matches its seal." }
    : { good: false, words: "The entry does not match its seal: somebody changed the entry or the seal before it." };
}

/** How often a rule was used. */
export function usesOf(uses: number, last: string | undefined): string {
  if (uses === 0 || last === undefined) return "never used";
  return `used ${uses === 1 ? "once" : `${uses.toLocaleString("en")} times`}, ${uses === 1 ? "" : "last "}${last}`;
}
