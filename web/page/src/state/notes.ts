/** Lines about the session itself: one sentence for each event that nothing else shows. */

import type { ErrorInfo, Event, ResetReason } from "@portolan/client";
import { limitsWords, standingOf } from "../budgets.ts";
import { wayOutOf } from "../words.ts";

export interface Note {
  text: string;
  tone: "plain" | "warn" | "bad";
  wayOut?: string;
  detail?: string;
}

const note = (text: string, tone: Note["tone"] = "plain", more: { wayOut?: string; detail?: string } = {}): Note => ({ text, tone, ...more });
const trouble = (text: string, error: ErrorInfo, tone: Note["tone"]): Note => note(text, tone, error.way_out === undefined ? {} : { wayOut: error.way_out });

/** The events that are rows of their own, or parts of a row. */
type Shown =
  | "prompt" | "item_started" | "delta" | "message" | "tool_call" | "tool_progress" | "tool_result" | "subagent_started"
  | "subagent_ended" | "request_opened" | "request_closed" | "request_decided" | "turn_ended";

export type Remark = Exclude<Event, { type: Shown }>;

function forgotten(reason: ResetReason | undefined): string {
  switch (reason) {
    case "cannot_resume":
      return "The agent was started again and cannot resume a conversation: the agent knows nothing of what was said before.";
    case "lost":
      return "The agent has lost this conversation and begins a new one: the agent knows nothing of what was said before.";
    default:
      return "The agent has forgotten what was said before.";
  }
}

export function noteOf(event: Remark): Note | null {
  switch (event.type) {
    case "agent_started":
      if (event.generation > 1) return note(`The agent was started again${event.version ? ` (${event.version})` : ""}.`);
      return null;
    case "agent_exited": {
      const { reason, message, stderr } = event.exit;
      const quiet = reason === "stopped" || reason === "finished" || reason === "idle";
      return note(message, quiet ? "plain" : "bad", stderr === undefined ? {} : { detail: stderr });
    }
    case "link_lost":
      return note(`The connection to the agent was lost: ${event.reason}`, "warn");
    case "link_restored":
      return note("The connection to the agent is back.");
    case "setting_changed": {
      const { setting } = event;
      if (setting.name === "environment") return note(`Environment variables set: ${setting.names.join(", ")}`);
      const value =
        setting.name === "model" ? (setting.model ?? "the agent's default")
        : setting.name === "mode" ? setting.mode
        : setting.tokens === null ? "the agent's default" : `${setting.tokens} tokens`;
      return note(`${setting.name[0]?.toUpperCase()}${setting.name.slice(1)} is now ${value}`);
    }
    case "rule_added":
      return note(
        event.rule && event.rule.effect !== "allow"
          ? `New rule for this session: ${event.rule.effect} ${event.tool_name}`
          : `${event.tool_name} is always allowed in this session`,
      );
    case "rule_removed":
      return note(`The rule for ${event.tool_name} is removed`);
    case "deadline_changed":
      if (event.request !== undefined) return note(event.deadline === undefined ? "The request has no deadline any more." : `The request is denied at ${new Date(event.deadline).toLocaleTimeString()} if nobody answers.`);
      return note(event.seconds === undefined ? "Requests have no deadline from now on." : `From now on, a request that nobody answers within ${event.seconds} s is denied.`);
    case "budget_changed":
      if (!event.budget) return note("This session has no budget of its own any more.");
      return note(`The budget of this session is ${limitsWords(event.budget.limits)}${event.budget.per ? " per day" : ""}${event.reset ? " and counts from zero again" : ""}.`);
    case "budget_reached":
      return note(standingOf(event.standing), event.standing.level === "fine" ? "plain" : "warn");
    case "session_renamed":
      return note(`Renamed to “${event.name}”`);
    case "session_created":
      if (event.spec.fork) return note("The fork begins here: everything above is a copy of another session.");
      return null;
    case "imported":
      return note(`Entries imported from a past conversation: ${event.entries}${event.left_out ? `; left out: ${event.left_out}` : ""}.`);
    case "compacted": {
      const size = event.tokens_before && event.tokens_after;
      return note(`The conversation was compacted${size ? `: ${event.tokens_before?.toLocaleString("en")} → ${event.tokens_after?.toLocaleString("en")} tokens` : ""}.`);
    }
    case "conversation_reset":
      return note(forgotten(event.reason), "warn");
    case "retry": {
      const of = event.max === undefined ? "" : ` of ${event.max}`;
      const wait = event.delay_ms === undefined ? "" : `, next attempt in ${Math.round(event.delay_ms / 100) / 10} s`;
      return trouble(`Attempt ${event.attempt}${of} failed: ${event.error.message}${wait}`, event.error, "warn");
    }
    case "failure":
      return trouble(event.error.message, event.error, "bad");
    case "notice":
      return note(event.text, event.level === "warning" ? "warn" : "plain");
    case "auth_status":
      if (event.error !== undefined) return note(event.error, "bad");
      if (event.authenticating) return note((event.output ?? ["The agent logs in."]).join("\n"));
      return null;
    case "task_changed": {
      const { description, task, status, summary } = event.task;
      return note(`Background task ${status}: ${description ?? task}`, status === "failed" ? "warn" : "plain", summary === undefined ? {} : { detail: summary });
    }
    case "tool_summary":
      return note(event.summary);
    case "receipt":
      if (event.stage === "refused" && event.refusal.code !== "already_closed" && event.refusal.code !== "ended") {
        const wayOut = event.refusal.way_out && wayOutOf(event.refusal.way_out);
        return note(event.refusal.message, "bad", wayOut === undefined ? {} : { wayOut });
      }
      if (event.stage === "uncertain") return note(`It is uncertain whether the command of entry ${event.command} reached the agent: ${event.reason}`, "warn");
      return null;
    case "hook":
      if (event.status === "completed") return note(`The hook ${event.name} ran (${event.event})`);
      return null;
    case "files_persisted":
      return note(`Files saved: ${event.files.length}.`);
    case "unknown":
      return note(`Portolan does not know this event of the agent: ${event.source} ${event.kind}`);
    case "agent_starting":
    case "agent_ready":
    case "agent_info":
    case "session_archived":
    case "turn_started":
    case "activity":
    case "plan":
    case "usage":
    case "command_accepted":
    case "mcp_servers":
    case "tool_named":
      return null;
    default:
      // The server is newer than this page.
      return note(`This page does not know this event of a newer server: ${(event as { type: string }).type}`);
  }
}
