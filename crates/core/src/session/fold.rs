//! How each entry changes the state of a session. Pure: the same entries give the same state.

use super::{
    spending::{Used, first_budget},
    state::{ClosedRequest, OpenCommand, OpenItem, OpenSubagent, OpenTool, OpenTurn, State, Status},
};
use crate::{
    Action, Actor, Event, Millis, RequestId, Seq,
    command::{ActionName, Stage},
    event::{
        AgentInfo, AgentStart, Durability, Exit, ExitReason, Setting, TaskStatus, TurnOrigin, TurnOutcome,
        TurnResult, plain_text,
    },
    log::Folded,
    policy::{Effect, Rule, RuleId},
    request::{Ask, Outcome},
};

/// How many closed requests are kept for late answers.
const CLOSED_REQUESTS: usize = 64;

/// How many uncertain commands are kept for "send again".
const UNCERTAIN: usize = 32;

/// How many characters of the first prompt make a name.
const NAME: usize = 80;

impl State {
    fn remember_closed(&mut self, request: RequestId, ask: Option<&Ask>, outcome: &Outcome) {
        if self.closed_requests.len() == CLOSED_REQUESTS {
            self.closed_requests.remove(0);
        }
        let tool_name = ask.and_then(Ask::tool_name).map(str::to_owned);
        self.closed_requests.push(ClosedRequest { request, tool_name, outcome: outcome.clone() });
    }

    fn list_rules(&mut self) {
        let allows = self.session_rules.iter().filter(|rule| rule.effect == Effect::Allow);
        self.rules = allows.map(|rule| rule.text.clone()).collect();
        self.rules.dedup();
    }

    /// Removes what only streamed entries can have set.
    pub(crate) fn forget_streamed(&mut self) {
        self.items.clear();
        self.activity = None;
    }

    fn close_item(&mut self, item: &str) {
        self.items.retain(|open| open.item != item);
    }

    fn take_imported(&mut self, past: &str, copy: bool, at: Millis) {
        // No agent runs; a prompt starts it.
        self.summary.status = Status::Terminated;
        // What others have used before does not count here.
        self.used = Used::default();
        self.budget = first_budget(self.spec.budget, at);
        if !copy {
            self.agent.agent_session = Some(past.to_owned());
            self.summary.agent_session = Some(past.to_owned());
        }
    }

    fn agent_starts(&mut self) {
        self.summary.status = Status::Starting;
        self.summary.error = None;
        self.summary.asleep = false;
        (self.pid, self.holder) = (None, None);
        self.agent.own_mode = None;
        self.stopped = false;
    }

    fn agent_ended(&mut self, exit: &Exit) {
        (self.pid, self.holder) = (None, None);
        self.activity = None;
        self.agent.own_mode = None;
        self.summary.asleep = exit.reason == ExitReason::Idle;
        let failed = exit.reason.is_error();
        self.summary.status = if failed { Status::Error } else { Status::Terminated };
        self.summary.error = failed.then(|| exit.message.clone());
        // The entries with which a new daemon settles the last one's work are no activity of the session. They all have
        // one time, and this entry is the last of them.
        if exit.reason == ExitReason::DaemonGone && self.active_before != Millis(0) {
            self.summary.active_at = self.active_before;
        }
    }

    fn add_rule(&mut self, rule: Rule) {
        self.session_rules.retain(|known| known.rule != rule.rule);
        self.session_rules.push(rule);
        self.list_rules();
    }

    /// Removes the rule with this id; without an id, every rule with this text.
    fn remove_rule(&mut self, text: &str, rule: Option<&RuleId>) {
        self.session_rules.retain(|known| match rule {
            Some(rule) => known.rule != *rule,
            None => known.text != text,
        });
        self.list_rules();
    }

    fn take_info(&mut self, info: &AgentInfo) {
        if let Some(told) = &info.capabilities {
            // Lists also come in entries of their own.
            let known = std::mem::replace(&mut self.capabilities, (**told).clone());
            let now = &mut self.capabilities;
            now.supported_models = now.supported_models.take().or(known.supported_models);
            now.supported_permission_modes =
                now.supported_permission_modes.take().or(known.supported_permission_modes);
            now.supported_commands = now.supported_commands.take().or(known.supported_commands);
        }
        self.agent.merge(info.clone());
        if info.mode.is_some() {
            self.agent.own_mode = None;
        }
        let known = &self.agent;
        if info.agent_session.is_some() {
            self.summary.agent_session.clone_from(&known.agent_session);
        }
        if info.model.is_some() {
            self.summary.model.clone_from(&known.model);
        }
        if info.mode.is_some() {
            self.summary.mode.clone_from(&known.mode);
        }
        if let Some(servers) = &info.mcp_servers {
            self.mcp_servers.clone_from(servers);
        }
        if info.models.is_some() {
            self.capabilities.supported_models.clone_from(&known.models);
        }
        if info.modes.is_some() {
            self.capabilities.supported_permission_modes.clone_from(&known.modes);
        }
        if info.commands.is_some() {
            self.capabilities.supported_commands.clone_from(&known.commands);
        }
    }

    fn end_turn(&mut self, result: &TurnResult) {
        let answered = result.outcome == TurnOutcome::Completed && result.text.is_some();
        let prompted = self.turn.as_ref().is_some_and(|turn| turn.origin == TurnOrigin::Prompt);
        self.exchanges += u64::from(answered && prompted && !self.asked_by_command);
        self.turn = None;
        self.activity = None;
        if !matches!(self.summary.status, Status::Terminated | Status::Error) {
            self.summary.status = Status::Idle;
        }
        if let Some(usage) = result.usage {
            self.usage = self.usage.plus(usage);
        }
        for (model, share) in &result.by_model {
            let total = self.by_model.entry(model.clone()).or_default();
            total.usage = total.usage.plus(share.usage);
            total.context_window = share.context_window.or(total.context_window);
            total.max_output = share.max_output.or(total.max_output);
            if let Some(cost) = share.cost_usd {
                total.cost_usd = Some(total.cost_usd.unwrap_or(0.0) + cost);
            }
        }
        let window = |model: &String| result.by_model.get(model).and_then(|share| share.context_window);
        if let Some(window) = self.summary.model.as_ref().and_then(window) {
            self.context_window = window;
        }
        if let Some(cost) = result.cost_usd {
            self.summary.cost_usd = Some(self.summary.cost_usd.unwrap_or(0.0) + cost);
        }
    }

    fn take_receipt(&mut self, command: Seq, stage: &Stage) {
        if let Some(open) = self.commands.iter_mut().find(|open| open.seq == command) {
            open.stage = stage.clone();
        }
        if stage.is_final() {
            let uncertain = matches!(stage, Stage::Uncertain { .. });
            self.commands.retain(|open| open.seq != command || uncertain && open.name == ActionName::Prompt);
            let surplus = |state: &Self| {
                let mut uncertain =
                    state.commands.iter().filter(|c| matches!(c.stage, Stage::Uncertain { .. }));
                let oldest = uncertain.next().map(|c| c.seq);
                oldest.filter(|_| uncertain.count() >= UNCERTAIN)
            };
            while let Some(oldest) = surplus(self) {
                self.commands.retain(|open| open.seq != oldest);
            }
        }
    }

    fn take_command(&mut self, seq: Seq, by: Option<&Actor>, event: &Event) {
        let Event::CommandAccepted { key, action } = event else { return };
        match **action {
            Action::Stop | Action::Archive { archived: true } => self.stopped = true,
            Action::Prompt { .. } | Action::SendAgain { .. } | Action::Resume => self.stopped = false,
            _ => {}
        }
        let content = match &**action {
            Action::Prompt { content } => content.clone(),
            Action::SendAgain { command } => {
                let again = self.commands.iter().position(|open| open.seq == *command);
                again.map(|index| self.commands.remove(index).content).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        // A command that is sent again is an ordinary prompt from here on.
        let name =
            if matches!(**action, Action::SendAgain { .. }) { ActionName::Prompt } else { action.name() };
        self.commands.push(OpenCommand {
            seq,
            key: key.clone(),
            by: by.cloned().unwrap_or(Actor::Daemon),
            name,
            stage: Stage::Accepted,
            content,
        });
    }

    fn take_setting(&mut self, setting: &Setting) {
        match setting {
            Setting::Model { model } => {
                self.summary.model.clone_from(model);
                self.agent.model.clone_from(model);
            }
            Setting::Mode { mode } => {
                self.summary.mode = Some(mode.clone());
                self.agent.mode = Some(mode.clone());
                self.agent.own_mode = None;
            }
            Setting::Thinking { tokens } => self.thinking = *tokens,
            Setting::Environment { names } => {
                for name in names {
                    self.spec.env.insert(name.clone(), crate::spec::MASK.to_owned());
                }
            }
        }
    }
}

impl Folded for State {
    type Event = Event;
    const SNAPSHOT: &'static str = "snapshot";

    fn durability(event: &Event) -> Durability {
        event.durability()
    }

    fn apply(&mut self, seq: Seq, at: Millis, by: Option<&Actor>, event: &Event) {
        // Streamed text ends in a durable entry: the log alone gives the same time.
        if event.durability() == Durability::Durable && self.summary.active_at != at {
            self.active_before = std::mem::replace(&mut self.summary.active_at, at);
        }
        let open_items = self.items.len();
        match event {
            Event::SessionCreated { spec } => *self = Self::new(self.summary.session, (**spec).clone(), at),
            Event::SessionRenamed { name } => self.summary.name.clone_from(name),
            Event::SessionArchived { archived } => self.summary.archived = *archived,
            Event::Imported { past, copy, capabilities, .. } => {
                self.capabilities = (**capabilities).clone();
                self.take_imported(past, *copy, at);
            }
            Event::AgentStarting { generation, capabilities, .. } => {
                self.generation = *generation;
                self.capabilities = (**capabilities).clone();
                self.agent_starts();
            }
            Event::AgentStarted(AgentStart { pid, holder, version, capabilities, .. }) => {
                self.pid = *pid;
                self.holder.clone_from(holder);
                self.capabilities = (**capabilities).clone();
                if version.is_some() {
                    self.agent.version.clone_from(version);
                }
            }
            Event::AgentReady { .. } => self.summary.status = Status::Connected,
            Event::AgentInfo { info } => self.take_info(info),
            Event::LinkLost { .. } => self.summary.status = Status::Disconnected,
            Event::LinkRestored => {
                self.summary.status = match (&self.turn, self.summary.turns) {
                    (Some(_), _) => Status::Active,
                    (None, 0) => Status::Connected,
                    (None, _) => Status::Idle,
                };
            }
            Event::AgentExited { exit, .. } => self.agent_ended(exit),
            Event::TurnStarted { turn, origin } => {
                self.turn = Some(OpenTurn { turn: *turn, origin: *origin, started_at: at });
                self.summary.turns = *turn;
                self.summary.status = Status::Active;
            }
            Event::TurnEnded { result, .. } => {
                self.end_turn(result);
                self.take_turn(at, result);
            }
            Event::Activity { activity } => {
                self.activity.clone_from(activity);
                self.activity_since = seq;
            }
            Event::Prompt { content, .. } => {
                self.asked_by_command = plain_text(content).trim_start().starts_with('/');
                if self.summary.name.is_empty() {
                    self.summary.name = name_of(&plain_text(content));
                }
            }
            Event::ItemStarted { item, kind, message, parent } => self.items.push(OpenItem {
                item: item.clone(),
                kind: *kind,
                message: message.clone(),
                parent: parent.clone(),
                text: String::new(),
                started: seq,
                marks: Vec::new(),
            }),
            Event::Delta { item, text } => {
                if let Some(open) = self.items.iter_mut().rev().find(|open| open.item == *item) {
                    open.text.push_str(text);
                    open.marks.push((seq, open.text.len()));
                }
            }
            Event::Message { item, .. } => self.close_item(item),
            Event::ToolCall { tool, item, name, parent, .. } => {
                if let Some(item) = item {
                    self.close_item(item);
                }
                self.tools.add(OpenTool { tool: tool.clone(), name: name.clone(), parent: parent.clone() });
            }
            Event::ToolResult { tool, .. } => {
                self.tools.remove(tool);
                self.close_item(tool);
            }
            Event::Plan { steps, parent: None } => self.plan.clone_from(steps),
            Event::Plan { parent: Some(_), .. } => {}
            Event::Usage { usage, parent, context_window, context_only, .. } => {
                if !context_only {
                    self.take_usage(*usage);
                }
                if parent.is_none() {
                    self.context_used = Some(usage.context());
                    self.context_window = context_window.unwrap_or(self.context_window);
                }
            }
            Event::Compacted { tokens_after, .. } => {
                self.context_used = tokens_after.or(self.context_used);
                self.exchanges = 0;
            }
            Event::ConversationReset { agent_session, .. } => {
                self.context_used = None;
                self.exchanges = 0;
                if agent_session.is_some() {
                    self.agent.agent_session.clone_from(agent_session);
                    self.summary.agent_session.clone_from(agent_session);
                }
            }
            Event::SubagentStarted { subagent, parent, subagent_type, description, background, .. } => {
                self.subagents.add(OpenSubagent {
                    subagent: subagent.clone(),
                    parent: parent.clone(),
                    subagent_type: subagent_type.clone(),
                    description: description.clone(),
                    background: *background,
                });
            }
            Event::SubagentEnded { subagent, .. } => drop(self.subagents.remove(subagent)),
            Event::TaskChanged { task } => {
                self.tasks.retain(|open| open.task != task.task);
                if task.status == TaskStatus::Running {
                    self.tasks.push((**task).clone());
                }
            }
            Event::RequestOpened { request } => self.requests.push((**request).clone()),
            Event::RequestClosed { request, outcome } => {
                let at = self.requests.iter().position(|open| open.request == *request);
                let open = at.map(|at| self.requests.remove(at));
                self.remember_closed(*request, open.as_ref().map(|open| &open.ask), outcome);
            }
            Event::RequestDecided { request, outcome } => {
                self.remember_closed(request.request, Some(&request.ask), outcome);
            }
            Event::CommandAccepted { .. } => self.take_command(seq, by, event),
            Event::Receipt { command, stage } => self.take_receipt(*command, stage),
            Event::SettingChanged { setting } => self.take_setting(setting),
            Event::RuleAdded { tool_name, rule } => {
                let of_session =
                    || Rule::of_session(self.summary.session, seq, at, by, Effect::Allow, tool_name);
                let rule = rule.as_ref().map_or_else(of_session, |rule| (**rule).clone());
                self.add_rule(rule);
            }
            Event::RuleRemoved { tool_name, rule } => self.remove_rule(tool_name, rule.as_ref()),
            Event::DeadlineChanged { request: Some(request), deadline, .. } => {
                if let Some(open) = self.requests.iter_mut().find(|open| open.request == *request) {
                    open.deadline = *deadline;
                }
            }
            Event::DeadlineChanged { request: None, seconds, .. } => {
                self.spec.deadline_seconds = Some(seconds.unwrap_or(0));
            }
            Event::BudgetChanged { budget, reset } => self.take_budget(at, *budget, *reset),
            Event::BudgetReached { standing } => self.take_standing(standing),
            Event::McpServers { servers } => self.mcp_servers.clone_from(servers),
            Event::ToolNamed { .. }
            | Event::ToolProgress { .. }
            | Event::ToolSummary { .. }
            | Event::Retry { .. }
            | Event::Failure { .. }
            | Event::Notice { .. }
            | Event::AuthStatus { .. }
            | Event::Hook { .. }
            | Event::FilesPersisted { .. }
            | Event::Unknown { .. } => {}
        }
        if self.items.len() < open_items {
            self.item_ended = seq;
        }
        self.summary.waiting = self.requests.len() as u32;
        let queued = self.commands.iter().filter(|open| open.is_queued_prompt()).count();
        self.summary.queued = queued as u32;
    }

    fn merged(&self, after: Seq, upto: Seq) -> Vec<Event> {
        let mut merged = Vec::new();
        for open in &self.items {
            if open.started > upto {
                continue;
            }
            if open.started > after {
                merged.push((
                    open.started,
                    Event::ItemStarted {
                        item: open.item.clone(),
                        kind: open.kind,
                        message: open.message.clone(),
                        parent: open.parent.clone(),
                    },
                ));
            }
            let length_at = |seq: Seq| {
                let next = open.marks.partition_point(|(mark, _)| *mark <= seq);
                next.checked_sub(1).map(|index| open.marks[index])
            };
            let begin = length_at(after).map_or(0, |(_, length)| length);
            if let Some((seq, end)) = length_at(upto)
                && end > begin
            {
                merged.push((
                    seq,
                    Event::Delta { item: open.item.clone(), text: open.text[begin..end].to_owned() },
                ));
            }
        }
        if self.activity_since > after && self.activity_since <= upto {
            merged.push((self.activity_since, Event::Activity { activity: self.activity.clone() }));
        }
        merged.sort_by_key(|(seq, _)| *seq);
        merged.into_iter().map(|(_, event)| event).collect()
    }

    fn newest_end(&self) -> Seq {
        self.item_ended
    }
}

impl OpenCommand {
    /// A prompt that waits in the queue.
    pub fn is_queued_prompt(&self) -> bool {
        self.name == ActionName::Prompt && self.stage == Stage::Accepted
    }
}

fn name_of(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut name: String = line.chars().filter(|c| !c.is_control()).take(NAME).collect();
    if line.chars().count() > NAME {
        name.push('…');
    }
    name
}
