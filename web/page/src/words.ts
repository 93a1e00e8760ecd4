/** Numbers, times and states in words, the same everywhere on the page. */

import type { Status, Summary } from "@portolan/client";

/** A status in the words of the command line. */
export function stateOf(status: Status): string {
  const words: Partial<Record<Status, string>> = { connected: "ready", active: "working", terminated: "ended", error: "failed" };
  return words[status] ?? status;
}

export function nameOf(summary: Pick<Summary, "name" | "session"> | undefined, session = ""): string {
  return summary?.name || (summary?.session ?? session).slice(0, 8);
}

/** The last folder of a path; the whole stands in its title. */
export function folderOf(path: string): string {
  return path.replace(/\/+$/, "").split("/").at(-1) || path;
}

export function dollars(cost: number): string {
  return cost < 0.01 && cost > 0 ? `$${cost.toFixed(4)}` : `$${cost.toFixed(2)}`;
}

export function count(number: number): string {
  if (number >= 1_000_000) return `${(number / 1_000_000).toFixed(1)} M`;
  if (number >= 10_000) return `${Math.round(number / 1_000)} k`;
  return number.toLocaleString("en");
}

export function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function ago(at: number, now: number): string {
  const seconds = Math.max(0, (now - at) / 1000);
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  if (seconds < 30 * 86_400) return `${Math.round(seconds / 86_400)} d`;
  return new Date(at).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

export function moment(at: number): string {
  return at ? new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "";
}

/** A browser in a few words, from what it says it is. It may say anything: this only names what is well known. */
export function program(userAgent: string | undefined): string {
  const text = userAgent ?? "";
  const pick = (names: [RegExp, string][]) => names.find(([pattern]) => pattern.test(text))?.[1];
  const browser = pick([[/Edg\//, "Edge"], [/OPR\//, "Opera"], [/Firefox\/|FxiOS\//, "Firefox"], [/Chrome\/|CriOS\//, "Chrome"], [/Safari\//, "Safari"]]);
  const system = pick([[/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS X/, "Mac"], [/CrOS/, "ChromeOS"], [/Linux/, "Linux"]]);
  if (!browser && !system) return "A browser";
  return [browser ?? "A browser", system].filter(Boolean).join(" on ");
}
