//! The messages of each entry.

use portolan_core::{
    Action, CommandId, Event, RequestId, Seq, SessionSpec,
    event::{AgentInfo, Content, Setting, ToolKind, ToolOutcome, plain_text},
    policy::budget::Level,
    request::{Outcome, Request},
};
use serde_json::Value;

use super::{
    Call, Ending, MAIN, TASK, View, asks,
    text::{flatten, object},
    tree::Life,
};
use crate::insights::wire::{AgentCompleted, AgentToolResult, AgentToolUse, ErrorCode, ServerMessage};

impl View {
    /// The messages of an entry.
    pub fn project(&mut self, seq: Seq, event: &Event, out: &mut Vec<ServerMessage>) {
        match event {
            Event::SessionCreated { spec } => self.created(spec, out),
            Event::SessionArchived { archived } => {
                self.archived = *archived;
                if *archived && !self.runs {
                    self.rest(Life::Completed, out);
                }
            }
            Event::AgentStarting { .. } | Event::AgentStarted { .. } => self.runs = true,
            Event::AgentReady { .. } => self.was_ready = true,
            Event::AgentInfo { info } => self.told(info, out),
            Event::AgentExited { exit, .. } => self.exited(exit, out),
            Event::TurnStarted { .. } => {
                self.turn_runs = true;
                self.turn_error = None;
                self.meter.begin_turn();
                self.rest(Life::Working, out);
            }
            Event::TurnEnded { result, .. } => self.turn_ended(result, out),
            Event::ItemStarted { item, kind, parent, .. } => {
                if self.streams.wants(*kind) {
                    let agent = self.agent(parent.as_deref(), out);
                    self.streams.begin(item, agent, *kind);
                }
            }
            Event::Delta { item, text } => {
                if let Some(output) = self.streams.more(&self.session, item, text) {
                    self.tell(ServerMessage::AgentOutput(output), out);
                }
            }
            Event::Message { item, parent, model, content, .. } => {
                let agent = self.agent(parent.as_deref(), out);
                if let Some(model) = model {
                    self.tree.set_model(&agent, model);
                }
                for output in self.streams.finish(&self.session, &agent, item, content) {
                    self.tell(ServerMessage::AgentOutput(output), out);
                }
            }
            Event::ToolCall { tool, parent, name, kind, input, .. } => {
                self.called(tool, parent.as_deref(), name, *kind, input, out);
            }
            Event::ToolResult { tool, parent, outcome, content, .. } => {
                self.returned(tool, parent.as_deref(), *outcome, content, out);
            }
            Event::SubagentStarted { subagent, parent, description, prompt, model, .. } => {
                // This event comes again when the subagent moves to the background.
                if self.tree.knows(subagent) {
                    return;
                }
                let parent = self.agent(parent.as_deref(), out);
                let task = prompt.clone().or_else(|| Some(description.clone()));
                let task = task.filter(|task| !task.is_empty());
                self.spawn(subagent, Some(&parent), task, model.clone(), out);
                self.tree.set_life(subagent, Life::Working);
                self.touch(subagent, out);
            }
            Event::SubagentEnded { subagent, outcome, summary, work } => {
                let ending = Ending { outcome: *outcome, summary: summary.clone(), work: *work };
                self.subagent_ended(subagent, ending, out);
            }
            Event::Usage { usage, parent, .. } => self.meter.add(parent.as_deref(), *usage),
            Event::RequestOpened { request } => self.opened(request, out),
            Event::RequestClosed { request, outcome } => self.closed(*request, outcome, out),
            Event::CommandAccepted { key, action } => self.accepted(seq, &key.id, action, out),
            Event::Receipt { command, stage } => self.receipt(*command, stage, out),
            Event::SettingChanged { setting } => match setting {
                Setting::Mode { mode } => self.mode_is(mode, out),
                Setting::Model { model: Some(model) } => self.tree.set_model(MAIN, model),
                Setting::Model { model: None } | Setting::Thinking { .. } | Setting::Environment { .. } => {}
            },
            Event::Failure { error, .. } => {
                self.tell_error(ErrorCode::HandlerError, MAIN, &error.message, out);
            }
            Event::BudgetReached { standing } if standing.level == Level::Over => {
                self.tell_error(ErrorCode::HandlerError, MAIN, &standing.words(), out);
            }
            Event::ConversationReset { reason: Some(reason), .. } => {
                self.tell_error(ErrorCode::HandlerError, MAIN, reason.words(), out);
            }
            // The protocol has no messages for these events, and they change nothing that it shows.
            Event::SessionRenamed { .. }
            | Event::Imported { .. }
            | Event::LinkLost { .. }
            | Event::LinkRestored
            | Event::Activity { .. }
            | Event::Prompt { .. }
            | Event::ToolNamed { .. }
            | Event::ToolProgress { .. }
            | Event::ToolSummary { .. }
            | Event::Plan { .. }
            | Event::Compacted { .. }
            | Event::ConversationReset { reason: None, .. }
            | Event::TaskChanged { .. }
            | Event::RequestDecided { .. }
            | Event::RuleAdded { .. }
            | Event::DeadlineChanged { .. }
            | Event::BudgetChanged { .. }
            | Event::BudgetReached { .. }
            | Event::RuleRemoved { .. }
            | Event::McpServers { .. }
            | Event::Retry { .. }
            | Event::Notice { .. }
            | Event::AuthStatus { .. }
            | Event::Hook { .. }
            | Event::FilesPersisted { .. }
            | Event::Unknown { .. } => {}
        }
    }

    fn created(&mut self, spec: &SessionSpec, out: &mut Vec<ServerMessage>) {
        // A fork has a second such entry.
        if !self.tree.knows(MAIN) {
            let task = Some(plain_text(&spec.prompt)).filter(|task| !task.is_empty());
            self.spawn(MAIN, None, task, spec.model.clone(), out);
        }
        self.mode.clone_from(&spec.mode);
    }

    /// The agent reported something about itself.
    fn told(&mut self, info: &AgentInfo, out: &mut Vec<ServerMessage>) {
        if let Some(model) = &info.model {
            self.tree.set_model(MAIN, model);
        }
        match &info.mode {
            Some(mode) if self.mode.is_none() => self.mode = Some(mode.clone()),
            Some(mode) if self.mode.as_ref() != Some(mode) => self.mode_is(mode, out),
            Some(_) | None => {}
        }
    }

    fn returned(
        &mut self,
        tool: &str,
        parent: Option<&str>,
        outcome: ToolOutcome,
        content: &[Content],
        out: &mut Vec<ServerMessage>,
    ) {
        let agent = match self.calls.remove(tool) {
            Some(call) => {
                self.tree.tool_ended(&call.agent);
                call.agent
            }
            None => self.agent(parent, out),
        };
        let result = AgentToolResult {
            session_id: self.session.clone(),
            agent_id: agent.clone(),
            tool_use_id: tool.to_owned(),
            result: flatten(content),
            is_error: outcome != ToolOutcome::Done,
        };
        self.tell(ServerMessage::AgentToolResult(result), out);
        if let Some(ending) = self.endings.shift_remove(tool) {
            self.completed(tool, ending, out);
        }
        self.touch(&agent, out);
    }

    fn subagent_ended(&mut self, subagent: &str, ending: Ending, out: &mut Vec<ServerMessage>) {
        // The result of the call comes first, then the end of what it started.
        if self.calls.contains_key(subagent) {
            self.endings.insert(subagent.to_owned(), ending);
        } else {
            self.completed(subagent, ending, out);
        }
    }

    fn opened(&mut self, request: &Request, out: &mut Vec<ServerMessage>) {
        let agent = self.agent(request.parent.as_deref(), out);
        self.tree.asks(&agent);
        for message in self.asked(&agent, request) {
            self.tell(message, out);
        }
        self.requests.insert(request.request, (agent.clone(), Box::new(request.clone())));
        self.touch(&agent, out);
    }

    fn closed(&mut self, request: RequestId, outcome: &Outcome, out: &mut Vec<ServerMessage>) {
        if let Some((agent, request)) = self.requests.shift_remove(&request) {
            self.tree.was_answered(&agent);
            for message in asks::resolved(&self.session, &agent, &request, &self.why(outcome)) {
                self.tell(message, out);
            }
            self.touch(&agent, out);
        }
    }

    fn accepted(&mut self, seq: Seq, id: &CommandId, action: &Action, out: &mut Vec<ServerMessage>) {
        if let Some(code) = self.own.shift_remove(id) {
            self.own_accepted.insert(seq, code);
        }
        if matches!(action, Action::Prompt { .. } | Action::SendAgain { .. }) {
            self.prompts.insert(seq);
            self.rest(Life::Working, out);
        }
    }

    fn called(
        &mut self,
        tool: &str,
        parent: Option<&str>,
        name: &str,
        kind: ToolKind,
        input: &Value,
        out: &mut Vec<ServerMessage>,
    ) {
        // A repeated event after a reconnection is sent only once.
        if self.calls.contains_key(tool) {
            return;
        }
        let agent = self.agent(parent, out);
        let name = if kind == ToolKind::Subagent { TASK } else { name };
        let tool_use = AgentToolUse {
            session_id: self.session.clone(),
            agent_id: agent.clone(),
            tool_name: name.to_owned(),
            tool_input: object(input),
            tool_use_id: tool.to_owned(),
            model: self.tree.model(&agent),
        };
        self.tell(ServerMessage::AgentToolUse(tool_use), out);
        self.tree.tool_began(&agent);
        self.touch(&agent, out);
        self.calls.insert(tool.to_owned(), Call { agent, name: name.to_owned() });
    }

    pub(super) fn completed(&mut self, subagent: &str, ending: Ending, out: &mut Vec<ServerMessage>) {
        let agent = self.agent(Some(subagent), out);
        let completed = AgentCompleted {
            session_id: self.session.clone(),
            agent_id: agent.clone(),
            result: ending.summary,
            usage: self.meter.of(subagent, ending.work),
        };
        self.tell(ServerMessage::AgentCompleted(completed), out);
        let life = match ending.outcome {
            // A stopped agent has ended as requested.
            ToolOutcome::Done | ToolOutcome::Interrupted => Life::Completed,
            ToolOutcome::Failed | ToolOutcome::Denied => Life::Error,
        };
        self.tree.set_life(&agent, life);
        self.touch(&agent, out);
    }

    /// Why a request is closed.
    fn why(&self, outcome: &Outcome) -> asks::Resolved {
        let killed = self.archived && matches!(outcome, Outcome::AgentGone { .. });
        if killed { asks::Resolved::killed() } else { asks::Resolved::by(outcome) }
    }
}
