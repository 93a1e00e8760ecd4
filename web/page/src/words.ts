/** Numbers, times and states in words, the same everywhere on the page. */

import type { Capabilities, SpecOption, Status, Summary, WayOut } from "@portolan/client";

/** Where a session stands, in the words of the command line. */
export function stateOf({ status, asleep }: Pick<Summary, "status" | "asleep">): string {
  if (asleep) return "asleep";
  const words: Partial<Record<Status, string>> = { connected: "ready", active: "working", terminated: "ended", error: "failed" };
  return words[status] ?? status;
}

/** Prompts that wait for an agent that nothing starts by itself. */
export function parked({ status, queued }: Pick<Summary, "status" | "queued">): string | undefined {
  if (!queued || (status !== "terminated" && status !== "error")) return undefined;
  return queued === 1 ? "1 prompt waits; resume starts it" : `${queued} prompts wait; resume starts them`;
}

export function nameOf(summary: Pick<Summary, "name" | "session"> | undefined, session = ""): string {
  // Ids begin with the time, and so for days alike; `portolan ls` shows their ends too.
  return summary?.name || (summary?.session ?? session).slice(-8);
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

/** What an agent may be able to do: as it does it, and as it cannot. */
const ABLE: [keyof Capabilities, does: string, cannot: string][] = [
  ["streaming", "streams its words", "stream its words"],
  ["interrupt", "can be interrupted", "be interrupted"],
  ["steering", "takes prompts into a turn that runs", "take prompts into a turn that runs"],
  ["session_resume", "resumes", "be resumed once it has ended"],
  ["reliable_resume", "sleeps while it has nothing to do", "sleep while it has nothing to do"],
  ["session_fork", "forks", "be forked"],
  ["session_fork_at", "forks at any prompt", "be forked at a prompt"],
  ["model_switching", "switches models", "change its model while it runs"],
  ["permission_mode_switching_mid_session", "switches modes", "change its mode while it runs"],
  ["thinking_budget", "takes a thinking budget", "take a thinking budget"],
  ["edited_input", "takes inputs that were edited", "take an input that was edited"],
  ["image_input", "sees pictures", "see pictures"],
  ["slash_commands", "has commands", "take commands after a slash"],
  ["mcp", "uses MCP servers", "use MCP servers"],
  ["mcp_changes", "changes MCP servers while it runs", "change its MCP servers while it runs"],
  ["environment", "takes variables while it runs", "take variables while it runs"],
  ["cost_tracking", "tells its cost", "tell its cost"],
  ["file_checkpointing", "takes files back", "take files back"],
  ["background_tasks", "works in the background", "work in the background"],
  ["structured_output", "gives structured results", "give structured results"],
];
export const abilities = (can: Capabilities): string[] => ABLE.filter(([name]) => can[name] === true).map(([, does]) => does);
/** What is not offered, because the agent cannot do it. */
export const inabilities = (can: Capabilities): string[] => ABLE.filter(([name]) => can[name] === false).map(([, , cannot]) => cannot);

const OPTIONS: Record<SpecOption, string> = {
  cwd: "folder", prompt: "first prompt", name: "name", model: "model", mode: "permission mode", env: "environment", system_prompt: "system prompt",
  allowed_tools: "tools that need no permission", disallowed_tools: "tools it does not get", mcp_servers: "MCP servers", subagents: "subagents", hooks: "hooks",
  setting_sources: "choice of settings files", extra_dirs: "further folders", max_turns: "limit of steps", max_budget_usd: "limit of dollars",
  json_schema: "JSON Schema for its result", resume: "resuming", fork: "forking",
};
/** What a new session of this agent does not take. */
export const untaken = (can: Capabilities): string[] =>
  Object.entries(OPTIONS).filter(([name]) => !can.options.includes(name as SpecOption)).map(([, words]) => words);

/** A mode in a list of modes. */
export function modeLabel(capabilities: Capabilities, mode: string): string {
  return capabilities.mode_asks?.[mode] === "nothing" ? `${mode} (asks nobody)` : mode;
}

/** What somebody should know before a session begins in this mode; nothing where the agent asks in it. */
export function modeWarning(capabilities: Capabilities, mode: string): string {
  const asks = capabilities.mode_asks?.[mode] ?? "unknown";
  if (asks === "nothing") return "In this mode the agent asks nobody before it acts. It takes an owner, and allow_bypass = true under [sessions] in the configuration.";
  return asks === "unknown" ? "Nobody has marked how much the agent asks in this mode. It takes an owner." : "";
}

/** What can be done about a refusal, by what stands on this page; nothing for a way out of a newer server. */
export function wayOutOf(way: WayOut): string | undefined {
  switch (way.kind) {
    case "list_sessions":
      return "the list of sessions shows those there are";
    case "new_session":
      return "start a new session";
    case "use_session":
      return "open that session, or fork it";
    case "resume_session":
      return "press Resume to start it again";
    case "stop_session":
      return "open that session and stop its agent first";
    case "send_again":
      return "press Send again if the agent does not have it";
    case "end_another_agent":
      return `stop the agent of another session, or raise \`${way.setting}\` in the configuration`;
    case "list_past":
      return "the list of past conversations shows those there are";
    case "name_folder":
      return "start a session of this agent in the folder first";
    case "copy_past":
      return "or go on in a copy";
    case "change_setting":
      return `\`${way.key}\` in the configuration decides this`;
    case "ask_for_role":
      return `ask an owner for a token with the role ${way.role}`;
    case "list_tokens":
      return "the list of tokens shows those there are";
    case "revoke_token":
      return "revoke one that nobody needs any more";
    case "rotate_owner_token":
      return "give it another secret from the command line instead";
    default:
      // Every kind of this version has its words: the compiler sees that none is left.
      way satisfies never;
      return undefined;
  }
}

/** A refusal in one line. */
export function refusalOf(message: string, way: WayOut | undefined): string {
  const out = way && wayOutOf(way);
  return out === undefined ? message : `${message}; ${out}`;
}
