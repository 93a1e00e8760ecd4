/**
 * The state of a session after one more entry, folded as the program folds it (crates/core/src/session/fold.rs).
 *
 * A snapshot is the truth; this fold carries the state from one snapshot to the next. Only the parts that the page
 * shows are folded. test/folds.test.ts lists these parts, and compares them with the program's fold.
 */

import type { Actor, AgentInfo, Capabilities, EntryFrame, OpenCommand, Rule, State } from "@portolan/client";

/** How many uncertain commands are kept for "send again". */
const UNCERTAIN = 32;

export function fold(state: State, { seq, at, by, event }: EntryFrame): State {
  switch (event.type) {
    case "imported":
      return {
        ...state,
        capabilities: event.capabilities,
        agent: event.copy ? state.agent : { ...state.agent, agent_session: event.past },
      };
    case "agent_starting":
      return { ...withoutProcess(state), generation: event.generation, capabilities: event.capabilities, agent: back(state.agent) };
    case "agent_started":
      return {
        ...withoutProcess(state),
        ...(event.pid === undefined ? {} : { pid: event.pid }),
        ...(event.holder === undefined ? {} : { holder: event.holder }),
        capabilities: event.capabilities,
        agent: event.version === undefined ? state.agent : { ...state.agent, version: event.version },
      };
    case "agent_info": {
      const { capabilities: told, ...info } = event.info;
      const capabilities = told ? { ...lists(state.capabilities), ...told } : { ...state.capabilities };
      if (info.models) capabilities.supported_models = info.models;
      if (info.modes) capabilities.supported_permission_modes = info.modes;
      if (info.commands) capabilities.supported_commands = info.commands;
      return {
        ...state,
        capabilities,
        agent: { ...(info.mode === undefined ? state.agent : back(state.agent)), ...info },
        mcp_servers: info.mcp_servers ?? state.mcp_servers,
        summary: {
          ...state.summary,
          ...(info.model === undefined ? {} : { model: info.model }),
          ...(info.mode === undefined ? {} : { mode: info.mode }),
        },
      };
    }
    case "turn_started":
      return { ...state, turn: { turn: event.turn, origin: event.origin, started_at: at } };
    case "turn_ended": {
      const { turn: _turn, activity: _activity, ...rest } = state;
      const { usage: used, by_model } = event.result;
      const { model } = state.summary;
      const share = model === undefined ? undefined : by_model?.[model];
      return {
        ...rest,
        context_window: share?.context_window ?? state.context_window,
        usage: used
          ? {
              input: state.usage.input + used.input,
              output: state.usage.output + used.output,
              cache_creation: state.usage.cache_creation + used.cache_creation,
              cache_read: state.usage.cache_read + used.cache_read,
            }
          : state.usage,
      };
    }
    case "agent_exited": {
      const { activity: _activity, ...rest } = withoutProcess(state);
      return { ...rest, agent: back(state.agent) };
    }
    case "activity": {
      const { activity: _activity, ...rest } = state;
      return event.activity === null ? rest : { ...rest, activity: event.activity };
    }
    case "plan":
      return event.parent === undefined ? { ...state, plan: event.steps } : state;
    case "usage":
      if (event.parent !== undefined) return state;
      return {
        ...state,
        context_used: event.usage.input + event.usage.cache_creation + event.usage.cache_read,
        context_window: event.context_window ?? state.context_window,
      };
    case "compacted":
      return event.tokens_after === undefined ? state : { ...state, context_used: event.tokens_after };
    case "conversation_reset": {
      const { context_used: _used, ...rest } = state;
      if (event.agent_session === undefined) return rest;
      return { ...rest, agent: { ...state.agent, agent_session: event.agent_session } };
    }
    case "subagent_started": {
      const { subagent, parent, subagent_type, description, background } = event;
      const others = state.subagents.filter((open) => open.subagent !== subagent);
      const opened = {
        subagent,
        description,
        background,
        ...(parent === undefined ? {} : { parent }),
        ...(subagent_type === undefined ? {} : { subagent_type }),
      };
      return { ...state, subagents: [...others, opened] };
    }
    case "subagent_ended":
      return { ...state, subagents: state.subagents.filter((open) => open.subagent !== event.subagent) };
    case "task_changed": {
      const others = state.tasks.filter((open) => open.task !== event.task.task);
      return { ...state, tasks: event.task.status === "running" ? [...others, event.task] : others };
    }
    case "command_accepted": {
      const { action, key } = event;
      let commands = state.commands;
      let content = action.name === "prompt" ? action.content : undefined;
      if (action.name === "send_again") {
        content = commands.find((open) => open.seq === action.command)?.content;
        commands = commands.filter((open) => open.seq !== action.command);
      }
      const opened: OpenCommand = {
        seq,
        key,
        by: by ?? { kind: "daemon" },
        // A prompt that is sent again is from now on like any other prompt.
        name: action.name === "send_again" ? "prompt" : action.name,
        stage: { stage: "accepted" },
        ...(content === undefined ? {} : { content }),
      };
      return { ...state, commands: [...commands, opened] };
    }
    case "receipt": {
      const { command, type: _type, ...stage } = event;
      const settled = stage.stage === "consumed" || stage.stage === "refused";
      const commands = state.commands.flatMap((open) => {
        if (open.seq !== command) return [open];
        if (settled || (stage.stage === "uncertain" && open.name !== "prompt")) return [];
        return [{ ...open, stage }];
      });
      const uncertain = commands.filter((open) => open.stage.stage === "uncertain");
      const surplus = new Set(uncertain.slice(0, Math.max(0, uncertain.length - UNCERTAIN)));
      return { ...state, commands: commands.filter((open) => !surplus.has(open)) };
    }
    case "setting_changed": {
      const { setting } = event;
      if (setting.name === "mode") {
        const { mode } = setting;
        return { ...state, summary: { ...state.summary, mode }, agent: { ...back(state.agent), mode } };
      }
      if (setting.name === "model") {
        const { model: _listed, ...summary } = state.summary;
        const { model: _told, ...agent } = state.agent;
        const { model } = setting;
        if (model === null) return { ...state, summary, agent };
        return { ...state, summary: { ...summary, model }, agent: { ...agent, model } };
      }
      if (setting.name === "thinking") {
        const { thinking: _thinking, ...rest } = state;
        return setting.tokens === null ? rest : { ...rest, thinking: setting.tokens };
      }
      return state;
    }
    case "rule_added": {
      // An older entry has only the text of a rule that allows.
      const rule = event.rule ?? sessionRule(state, seq, at, by, event.tool_name);
      const others = (state.session_rules ?? []).filter((known) => known.rule !== rule.rule);
      return withRules(state, [...others, rule]);
    }
    case "rule_removed": {
      const removed = (known: Rule) =>
        event.rule === undefined ? known.text === event.tool_name : known.rule === event.rule;
      return withRules(state, (state.session_rules ?? []).filter((known) => !removed(known)));
    }
    case "budget_reached": {
      const { budgets: known, ...rest } = state;
      const others = (known ?? []).filter(({ budget }) => budget !== event.standing.budget);
      const budgets = event.standing.level === "fine" ? others : [...others, event.standing];
      return budgets.length === 0 ? rest : { ...rest, budgets };
    }
    case "deadline_changed": {
      if (event.request === undefined) return { ...state, spec: { ...state.spec, deadline_seconds: event.seconds ?? 0 } };
      const requests = state.requests.map((open) => {
        if (open.request !== event.request) return open;
        const { deadline: _before, ...rest } = open;
        return event.deadline === undefined ? rest : { ...rest, deadline: event.deadline };
      });
      return { ...state, requests };
    }
    case "mcp_servers":
      return { ...state, mcp_servers: event.servers };
    default:
      return state;
  }
}

function sessionRule(state: State, seq: number, at: number, by: Actor | undefined, text: string): Rule {
  const scope = { kind: "session" as const, session: state.summary.session };
  return { rule: `s${seq}`, effect: "allow", text, scope, made_at: at, made_by: by ?? { kind: "daemon" } };
}

function withRules(state: State, session_rules: Rule[]): State {
  const texts = session_rules.filter((rule) => rule.effect === "allow").map((rule) => rule.text);
  const rules = texts.filter((text, index) => index === 0 || text !== texts[index - 1]);
  const { session_rules: _before, ...rest } = state;
  return session_rules.length === 0 ? { ...rest, rules } : { ...rest, rules, session_rules };
}

/** The agent's process and its holder are gone. */
function withoutProcess({ pid: _pid, holder: _holder, ...state }: State): State {
  return state;
}

/** The agent is no longer in a mode of its own. */
function back({ own_mode: _own, ...agent }: AgentInfo): AgentInfo {
  return agent;
}

/** Lists that an agent also reports separately: new capabilities without these lists do not remove them. */
function lists({ supported_models, supported_permission_modes, supported_commands }: Capabilities): Partial<Capabilities> {
  return {
    ...(supported_models && { supported_models }),
    ...(supported_permission_modes && { supported_permission_modes }),
    ...(supported_commands && { supported_commands }),
  };
}
