//! Translates between Codex' lines and Portolan's vocabulary. Pure: no I/O, no clock.
//!
//! This module has the state of one process and routes each line: [`super::items`] for messages and actions,
//! [`super::turns`] for turns and what they use, [`super::requests`] for Codex' requests, [`super::calls`] for
//! Portolan's requests, [`super::threads`] for the start of a thread and what is known about it.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Event, Generation, SessionId,
    event::{Level, McpServer},
    ports::{Instruction, Order},
};
use portolan_wire::jsonrpc::{self, Dialect, Message};
use serde_json::{Value, json, value::RawValue};

use super::{
    KIND,
    calls::Calls,
    items::Items,
    late::LATE,
    requests::Requests,
    settings::SAYS_SO,
    threads::Threads,
    turns::Turns,
    wire::{self, Told},
};
use crate::{
    driver::{self, Output, Timer, Translator},
    prices::Prices,
};

/// Codex leaves the member `jsonrpc` out, and so does Portolan.
pub(super) const DIALECT: Dialect = Dialect::Bare;

/// The parameters of the first request.
pub(super) fn hello() -> Value {
    json!({ "clientInfo": driver::client(), "capabilities": { "experimentalApi": true } })
}

/// What a conversation begins with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The session of the conversation.
    pub(super) session: SessionId,
    /// The number of this start.
    pub(super) generation: Generation,
    /// How the thread begins.
    pub(super) begin: Begin,
    /// The parameters of every way to begin.
    pub(super) thread: Value,
    /// The requested model.
    pub(super) model: Option<String>,
    /// The requested permission mode.
    pub(super) mode: Option<String>,
    /// The session's name.
    pub(super) name: Option<String>,
    /// Extra folders that may be written to.
    pub(super) extra: Vec<PathBuf>,
    /// The schema that the result must fit.
    pub(super) schema: Option<Value>,
    /// The prices of models.
    pub(super) prices: Prices,
    /// How long a request of Portolan may stay unanswered.
    pub(super) patience: Duration,
}

/// How the thread begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// As a new thread.
    Start,
    /// Where it ended. A thread of this session begins again from nothing if Codex has written nothing of it.
    Resume { thread: String, own: bool },
    /// As a fork, up to and including this turn if one is named.
    Fork { thread: String, last_turn: Option<String> },
}

/// The state of one conversation with Codex.
#[derive(Debug)]
pub(super) struct Translate {
    pub(super) setup: Setup,
    pub(super) calls: Calls,
    pub(super) threads: Threads,
    pub(super) turns: Turns,
    pub(super) items: Items,
    pub(super) requests: Requests,
    pub(super) servers: IndexMap<String, McpServer>,
    /// Skills by name, with the path that names them to Codex.
    pub(super) skills: IndexMap<String, String>,
    pub(super) is_ready: bool,
}

impl Translate {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            calls: Calls::default(),
            threads: Threads::default(),
            turns: Turns::default(),
            items: Items::new(setup.generation),
            requests: Requests::default(),
            servers: IndexMap::new(),
            skills: IndexMap::new(),
            is_ready: false,
            setup,
        }
    }

    fn told(&mut self, method: &str, params: Option<&RawValue>, line: &str, out: &mut Output) {
        if IGNORED.contains(&method) {
            return;
        }
        let told: Option<Told> = match params {
            Some(params) => wire::open(Some(params)),
            None => Some(Told::default()),
        };
        let Some(told) = told else { return out.unknown(KIND, method, line) };
        match method {
            "item/started" => self.item_started(&told, line, out),
            "item/completed" => self.item_completed(&told, line, out),
            "item/agentMessage/delta" | "item/plan/delta" => self.more_text(&told, out),
            "item/reasoning/summaryTextDelta" => self.more_summary(&told, out),
            "item/reasoning/textDelta" => self.more_thought(&told, out),
            "item/commandExecution/outputDelta" => self.more_output(&told, out),
            "item/mcpToolCall/progress" => self.tool_progress(&told, out),
            "turn/started" => self.turn_started(&told, out),
            "turn/completed" => self.turn_completed(told, line, out),
            "turn/plan/updated" => self.plan_updated(told, out),
            "thread/tokenUsage/updated" => self.used(&told, out),
            "error" => self.failed(&told, out),
            "thread/started" => self.threads.met(&told.thread),
            "thread/settings/updated" if !self.threads.is_main(&told.thread_id) => {}
            "thread/settings/updated" => self.settings_updated(&told.thread_settings, out),
            "serverRequest/resolved" => self.resolved(&told.request_id, out),
            "mcpServer/startupStatus/updated" => self.server_started(&told, out),
            "account/rateLimits/updated" => self.limits(&told.rate_limits, out),
            "account/login/completed" => self.logged_in(&told, out),
            "warning" | "guardianWarning" => notice(Level::Warning, told.message, out),
            "skills/changed" => self.ask_skills(out),
            "account/updated" => self.ask_account(out),
            "thread/goal/updated" | "thread/goal/cleared" if !self.threads.is_main(&told.thread_id) => {}
            "thread/goal/updated" => self.goal_updated(&told.goal, out),
            "thread/goal/cleared" => self.goal_cleared(out),
            "thread/reverted" if self.threads.is_main(&told.thread_id) => {
                notice(Level::Info, Some(REVERTED.into()), out);
            }
            "thread/reverted" => {}
            "hook/started" | "hook/completed" => Self::hooked(&told, out),
            "model/rerouted" => Self::rerouted(&told, out),
            "mcpServer/oauthLogin/completed" => Self::server_logged_in(&told, out),
            "configWarning" | "deprecationNotice" => {
                let details = told.details.map(|details| format!(" ({details})")).unwrap_or_default();
                notice(Level::Info, told.summary.map(|summary| summary + &details), out);
            }
            _ => out.unknown(KIND, method, line),
        }
    }
}

/// The notice when a message of Codex' own protocol cut the conversation back.
const REVERTED: &str = "Codex has removed the newest messages from its conversation; the log and the \
                        files stay as they are";

/// Notifications whose content is also reported elsewhere.
pub(super) const IGNORED: &[&str] = &[
    // The parts are joined by their index.
    "item/reasoning/summaryPartAdded",
    // The input of a command is part of its output.
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "remoteControl/status/changed",
    "thread/archived",
    "thread/closed",
    "thread/compacted",
    "thread/deleted",
    // Portolan names the session.
    "thread/name/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    // Turns report the same, and only for threads of this session.
    "thread/status/changed",
    "thread/unarchived",
    // The items that make the changes show them.
    "turn/diff/updated",
];

pub(super) fn notice(level: Level, text: Option<String>, out: &mut Output) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        out.event(Event::Notice { level, text });
    }
}

impl Translator for Translate {
    fn start(&mut self, out: &mut Output) {
        self.initialize(out);
    }

    fn line(&mut self, line: &str, out: &mut Output) {
        match jsonrpc::read(line) {
            Ok(Message::Notification { method, params }) => self.told(&method, params, line, out),
            Ok(Message::Request { id, method, params }) => self.asked(id, &method, params, line, out),
            Ok(Message::Response { id, result }) => self.answered(&id, result, out),
            Err(why) => out.unreadable(KIND, line.as_bytes(), &why.to_string()),
        }
    }

    fn instruct(&mut self, Instruction { id: instruction_id, order }: Instruction, out: &mut Output) {
        self.end_held_turns(out);
        match order {
            Order::Prompt { content } => self.prompt(instruction_id, &content, out),
            Order::Steer { content } => self.steer(instruction_id, content, out),
            Order::Answer { key, ask, answer } => self.answer(instruction_id, &key, &ask, answer, out),
            order => self.instruct_call(instruction_id, order, out),
        }
    }

    fn undelivered(
        &mut self,
        instruction_id: portolan_core::ports::InstructionId,
        why: &str,
        out: &mut Output,
    ) {
        self.calls.forget(instruction_id, out);
        out.rejected(instruction_id, why);
    }

    fn timeout(&mut self, timer: Timer, out: &mut Output) {
        match timer {
            LATE => self.end_held_turns(out),
            SAYS_SO => self.mode_not_said(out),
            timer => self.overdue(timer, out),
        }
    }

    fn farewell(&mut self, out: &mut Output) {
        self.end_held_turns(out);
        if self.turns.running() {
            self.interrupt(None, out);
        }
        out.close_input();
    }
}
