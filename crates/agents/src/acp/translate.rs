//! Translates between an ACP agent's lines and Portolan's vocabulary. Pure: no I/O, no clock.
//!
//! This module has the state of one process and routes each line: [`super::updates`] for updates of the agent,
//! [`super::tools`] for its calls, [`super::turns`] for prompts and their ends, [`super::requests`] for the agent's
//! requests, [`super::errands`] for what Portolan does for it, [`super::calls`] for Portolan's requests, [`super::sessions`] for the start of its session,
//! [`super::settings`] for settings, [`super::subagents`] for the owner of a message.

use std::{path::PathBuf, time::Duration};

use portolan_core::{
    Capabilities, Event, Generation,
    event::Level,
    ports::{Instruction, InstructionId, Order},
};
use portolan_wire::jsonrpc::{self, Dialect, Message};
use serde_json::{Value, value::RawValue};

use super::{
    Serves, approvals::Approvals, calls::What, catalogue::Known, errands::UnderWay, messages::Messages,
    requests::Requests, sessions::Session, settings::Settings, subagents::Subagents, tools::Tools,
    turns::Turns, wire,
};
use crate::{
    calls::Calls,
    driver::{Done, Output, Timer, Translator},
    prices::Prices,
};

/// The standard dialect.
pub(super) const DIALECT: Dialect = Dialect::Standard;

/// The agent was asked to stop its turn, and must report the stop by then.
pub(super) const CANCELLED_BY: Timer = Timer(u64::MAX);

/// The agent has been quiet since it loaded a conversation.
pub(super) const QUIET_SINCE: Timer = Timer(u64::MAX - 1);

/// The conversation can now be resumed without harm.
pub(super) const OLD_ENOUGH: Timer = Timer(u64::MAX - 2);

/// Has the agent said anything since the last look?
pub(super) const HEARD_SINCE: Timer = Timer(u64::MAX - 3);

/// What a conversation begins with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The agent's name.
    pub(super) agent: String,
    /// Its display name.
    pub(super) title: String,
    /// What is known about it.
    pub(super) known: &'static Known,
    /// The number of this start.
    pub(super) generation: Generation,
    /// How its session begins.
    pub(super) begin: Begin,
    /// The folder it works in.
    pub(super) folder: PathBuf,
    /// Extra folders.
    pub(super) extra: Vec<PathBuf>,
    /// MCP servers, in the form of `.mcp.json`.
    pub(super) servers: Vec<(String, Value)>,
    /// The requested model.
    pub(super) model: Option<String>,
    /// The requested permission mode.
    pub(super) mode: Option<String>,
    /// The login method that the configuration names.
    pub(super) login: Option<String>,
    /// What Portolan does for the agent.
    pub(super) serves: Serves,
    /// Its capabilities, as far as they are known before it reports them.
    pub(super) capabilities: Capabilities,
    /// Notices to show first: why this transport was taken, what may be wrong.
    pub(super) notices: Vec<String>,
    /// The prices of models.
    pub(super) prices: Prices,
    /// How long a request of Portolan may stay unanswered.
    pub(super) patience: Duration,
    /// How long a request that begins a session may stay unanswered.
    pub(super) start_patience: Duration,
    /// How long the agent must be quiet until the past counts as complete.
    pub(super) quiet: Duration,
    /// How long to wait before the conversation is resumed, if a resume would harm it now.
    pub(super) too_young: Option<Duration>,
    /// Answered prompts of the conversation to resume, as far as the log knows.
    pub(super) exchanges: u64,
}

impl Setup {
    /// A new conversation, without any settings.
    pub(super) fn bare(agent: &str, title: &str, known: &'static Known) -> Self {
        Self {
            agent: agent.to_owned(),
            title: title.to_owned(),
            known,
            generation: Generation(0),
            begin: Begin::New,
            folder: PathBuf::new(),
            extra: vec![],
            servers: vec![],
            model: None,
            mode: None,
            login: None,
            serves: Serves::default(),
            capabilities: Capabilities::default(),
            notices: vec![],
            prices: Prices::default(),
            patience: Duration::ZERO,
            start_patience: Duration::ZERO,
            quiet: Duration::ZERO,
            too_young: None,
            exchanges: 0,
        }
    }
}

/// How its session begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// As a new conversation.
    New,
    /// Where it ended. A conversation of this session begins again from nothing if the agent no longer has it.
    Resume { session: String, own: bool },
    /// As a fork.
    Fork { session: String },
}

/// The state of one conversation.
#[derive(Debug)]
pub(super) struct Translate {
    pub(super) setup: Setup,
    pub(super) calls: Calls<What>,
    pub(super) session: Session,
    pub(super) settings: Settings,
    pub(super) turns: Turns,
    pub(super) messages: Messages,
    pub(super) tools: Tools,
    pub(super) subagents: Subagents,
    pub(super) requests: Requests,
    pub(super) under_way: UnderWay,
    pub(super) approvals: Approvals,
    pub(super) is_ready: bool,
}

impl Translate {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            calls: Calls::default(),
            session: Session::default(),
            settings: Settings::default(),
            turns: Turns::default(),
            messages: Messages::new(setup.generation),
            tools: Tools::default(),
            subagents: Subagents::default(),
            requests: Requests::default(),
            under_way: UnderWay::default(),
            approvals: Approvals::default(),
            is_ready: false,
            setup,
        }
    }

    fn told(&mut self, method: &str, params: Option<&RawValue>, line: &str, out: &mut Output) {
        let agent = self.setup.agent.clone();
        match method {
            "session/update" => self.update(params, line, out),
            "$/cancel_request" => {
                let params: Value = wire::open(params).unwrap_or_default();
                self.taken_back(&params["requestId"], out);
            }
            // The user who opened the page has answered already.
            "elicitation/complete" => {}
            "_auth/status_update" => {
                let params: Value = wire::open(params).unwrap_or_default();
                Self::account_told(&params["authStatus"], out);
            }
            _ if self.is_its_own(method) => {}
            _ => out.unknown(&agent, method, line),
        }
    }

    /// One of the agent's own methods that adds nothing to a session.
    pub(super) fn is_its_own(&self, method: &str) -> bool {
        self.setup.known.own_methods.iter().any(|own| method.starts_with(own))
    }
}

pub(super) fn notice(level: Level, text: impl Into<String>, out: &mut Output) {
    out.event(Event::Notice { level, text: text.into() });
}

impl Translator for Translate {
    fn start(&mut self, out: &mut Output) {
        for words in std::mem::take(&mut self.setup.notices) {
            notice(Level::Warning, words, out);
        }
        self.initialize(out);
    }

    fn line(&mut self, line: &str, out: &mut Output) {
        self.turns.heard();
        match jsonrpc::read(line) {
            Ok(Message::Notification { method, params }) => self.told(&method, params, line, out),
            Ok(Message::Request { id, method, params }) => self.asked(id, &method, params, line, out),
            Ok(Message::Response { id, result }) => self.answered(&id, result, line, out),
            Err(why) => out.unreadable(&self.setup.agent, line.as_bytes(), &why.to_string()),
        }
    }

    fn instruct(&mut self, Instruction { id: instruction_id, order }: Instruction, out: &mut Output) {
        match order {
            Order::Prompt { content } => self.prompt(instruction_id, &content, out),
            Order::Answer { key, ask: _, answer } => self.answer(instruction_id, &key, answer, out),
            // `ask` is only for agents that do the work themselves.
            Order::Checked { key, .. } => self.errand_checked(&key, out),
            Order::Interrupt => self.interrupt(Some(instruction_id), out),
            order => self.instruct_call(instruction_id, order, out),
        }
    }

    fn undelivered(&mut self, instruction_id: InstructionId, why: &str, out: &mut Output) {
        self.calls.forget(instruction_id, out);
        self.prompt_undelivered(instruction_id, out);
        out.rejected(instruction_id, why);
    }

    fn timeout(&mut self, timer: Timer, out: &mut Output) {
        match timer {
            CANCELLED_BY => self.never_cancelled(out),
            QUIET_SINCE => self.become_ready(out),
            OLD_ENOUGH => self.begin(out),
            HEARD_SINCE => self.look_for_silence(out),
            timer => self.overdue(timer, out),
        }
    }

    fn task_done(&mut self, key: &str, done: Done, out: &mut Output) {
        self.errand_done(key, done, out);
    }

    fn farewell(&mut self, out: &mut Output) {
        if self.turns.running() {
            self.interrupt(None, out);
        } else {
            self.close_session(out);
        }
        out.close_input();
    }
}
