/** Numbers, times and states in words, the same everywhere on the page. */

import type { Capabilities, SpecOption, Status, Summary, WayOut } from "@portolan/client";

/** The state of a session, in the words of the command line. */
export function stateOf({ status, asleep }: Pick<Summary, "status" | "asleep">): string {
  if (asleep) return "asleep";
  const words: Partial<Record<Status, string>> = { connected: "ready", active: "working", terminated: "ended", error: "failed" };
  return words[status] ?? status;
}

/** Says how many prompts wait for a budget with room, or for an agent that does not start by itself. */
export function parked({ status, queued, over_budget }: Pick<Summary, "status" | "queued" | "over_budget">): string | undefined {
  if (queued && over_budget !== undefined) return `${queued === 1 ? "1 prompt waits" : `${queued} prompts wait`}: ${over_budget}`;
  if (!queued || (status !== "terminated" && status !== "error")) return undefined;
  return queued === 1 ? "1 prompt waits; resume the session to send it" : `${queued} prompts wait; resume the session to send them`;
}

export function nameOf(summary: Pick<Summary, "name" | "session"> | undefined, session = ""): string {
  // Ids begin with the time, so ids of the same days begin alike; `portolan ls` also shows the end of an id.
  return summary?.name || (summary?.session ?? session).slice(-8);
}

/** The last folder of a path; the title shows the whole path. */
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

/** A moment of the past: `just now`, `3 h ago`, `on 5 May 2025`. */
export function since(at: number, now: number): string {
  const words = ago(at, now);
  return words === "now" ? "just now" : now - at < 30 * 86_400_000 ? `${words} ago` : `on ${words}`;
}

export function moment(at: number): string {
  return at ? new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "";
}

/** A short name for a browser, from its user agent. A user agent may say anything: only well-known ones are named. */
export function program(userAgent: string | undefined): string {
  const text = userAgent ?? "";
  const pick = (names: [RegExp, string][]) => names.find(([pattern]) => pattern.test(text))?.[1];
  const browser = pick([[/Edg\//, "Edge"], [/OPR\//, "Opera"], [/Firefox\/|FxiOS\//, "Firefox"], [/Chrome\/|CriOS\//, "Chrome"], [/Safari\//, "Safari"]]);
  const system = pick([[/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS X/, "Mac"], [/CrOS/, "ChromeOS"], [/Linux/, "Linux"]]);
  if (!browser && !system) return "A browser";
  return [browser ?? "A browser", system].filter(Boolean).join(" on ");
}

/** Capabilities in words: what an agent does, and what an agent cannot do. */
const ABLE: [keyof Capabilities, does: string, cannot: string][] = [
  ["streaming", "streams text", "stream text"],
  ["interrupt", "can be interrupted", "be interrupted"],
  ["steering", "takes prompts into a running turn", "take prompts into a running turn"],
  ["session_resume", "resumes sessions that have ended", "resume a session that has ended"],
  ["reliable_resume", "can be ended while idle and continue later", "be ended while idle and continue later"],
  ["session_fork", "can be forked", "be forked"],
  ["session_fork_at", "can be forked at any prompt", "be forked at a prompt"],
  ["model_switching", "changes its model while running", "change its model while running"],
  ["permission_mode_switching_mid_session", "changes its mode while running", "change its mode while running"],
  ["thinking_budget", "takes a thinking budget", "take a thinking budget"],
  ["edited_input", "accepts edited tool input", "accept edited tool input"],
  ["image_input", "accepts pictures", "accept pictures"],
  ["slash_commands", "has slash commands", "run slash commands"],
  ["mcp", "uses MCP servers", "use MCP servers"],
  ["mcp_changes", "changes its MCP servers while running", "change its MCP servers while running"],
  ["environment", "takes environment variables while running", "take environment variables while running"],
  ["cost_tracking", "reports its cost", "report its cost"],
  ["file_checkpointing", "restores files to an earlier state", "restore files to an earlier state"],
  ["background_tasks", "runs background tasks", "run background tasks"],
  ["structured_output", "returns structured results", "return structured results"],
];
export const abilities = (can: Capabilities): string[] => ABLE.filter(([name]) => can[name] === true).map(([, does]) => does);
/** What the agent cannot do, and the page therefore does not offer. */
export const inabilities = (can: Capabilities): string[] => ABLE.filter(([name]) => can[name] === false).map(([, , cannot]) => cannot);

const OPTIONS: Record<SpecOption, string> = {
  cwd: "folder", prompt: "first prompt", name: "name", model: "model", mode: "mode", env: "environment", system_prompt: "system prompt",
  allowed_tools: "tools allowed without asking", disallowed_tools: "forbidden tools", mcp_servers: "MCP servers", subagents: "subagents", hooks: "hooks",
  setting_sources: "choice of settings files", extra_dirs: "additional folders", max_turns: "limit of steps", max_budget_usd: "limit of cost",
  json_schema: "JSON Schema for the result", resume: "resuming", fork: "forking",
};
/** The options that a new session of this agent does not take. */
export const untaken = (can: Capabilities): string[] =>
  Object.entries(OPTIONS).filter(([name]) => !can.options.includes(name as SpecOption)).map(([, words]) => words);

/** A mode in a list of modes. */
export function modeLabel(capabilities: Capabilities, mode: string): string {
  return capabilities.mode_asks?.[mode] === "nothing" ? `${mode} (never asks)` : mode;
}

/** A warning before a session begins in this mode; empty if the agent asks in this mode. */
export function modeWarning(capabilities: Capabilities, mode: string): string {
  const asks = capabilities.mode_asks?.[mode] ?? "unknown";
  if (asks === "nothing") return "In this mode the agent never asks before it acts. Only an owner may use the mode, and only with allow_bypass = true under [policy] in the configuration.";
  return asks === "unknown" ? "Portolan does not know how much the agent asks in this mode. Only an owner may use the mode." : "";
}

/** What a user of this page can do about a refusal; undefined for a way out that only a newer server knows. */
export function wayOutOf(way: WayOut): string | undefined {
  switch (way.kind) {
    case "list_sessions":
      return "the list of sessions shows every session";
    case "new_session":
      return "start a new session";
    case "use_session":
      return "open that session, or fork it";
    case "resume_session":
      return "press Resume to start the agent again";
    case "stop_session":
      return "open that session and stop its agent first";
    case "send_again":
      return "press Send again if the agent did not get the command";
    case "end_another_agent":
      return `stop the agent of another session, or raise \`${way.setting}\` in the configuration`;
    case "list_past":
      return "the list of past conversations shows every conversation";
    case "name_folder":
      return "first start a session of this agent in the folder whose conversations you look for";
    case "copy_past":
      return "or continue in a copy";
    case "change_setting":
      return `change \`${way.key}\` in the configuration`;
    case "list_budgets":
      return "the page Rules lists the budgets; an owner can raise or reset a budget there";
    case "ask_for_role":
      return `ask an owner for a token with the role ${way.role}`;
    case "remove_rule":
      return "or remove that rule";
    case "list_tokens":
      return "the list of tokens shows every token";
    case "revoke_token":
      return "revoke a token that nobody needs";
    case "rotate_owner_token":
      return "give that token another secret on the command line instead";
    default:
      // The compiler checks that every kind of this version is handled above.
      way satisfies never;
      return undefined;
  }
}

/** A refusal in one line. */
export function refusalOf(message: string, way: WayOut | undefined): string {
  const out = way && wayOutOf(way);
  return out === undefined ? message : `${message}; ${out}`;
}
