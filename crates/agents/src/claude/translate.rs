//! Translates between Claude Code's lines and Portolan's vocabulary. Pure: no I/O, no clock, the same for both
//! transports.
//!
//! This module has the state of one process and routes each line: [`super::conversation`] for messages and streams,
//! [`super::system`] for the CLI's reports about itself, [`super::requests`] for the CLI's requests, [`super::control`]
//! for Portolan's requests, [`super::results`] for the ends of turns.

use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{
    Event, Generation, SessionId,
    event::{AgentInfo, ResetReason, TurnOrigin},
    ports::{Instruction, InstructionId, Order, Report},
};
use serde_json::Value;

use super::{
    KIND,
    control::Control,
    conversation::Conversation,
    errors::Trouble,
    prompts::Prompts,
    requests::Requests,
    results::Tally,
    subagents::Subagents,
    version::Version,
    wire::{Envelope, Named, Piece},
};
use crate::{
    driver::{Output, Timer, Translator},
    prices::Prices,
};

/// Remembered names of messages, to recognise a repeated message. The CLI keeps about a thousand for a reconnection;
/// this is far more, at 64 bytes each.
const REMEMBERED: usize = 16 * 1024;

/// What a conversation begins with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The session of the conversation.
    pub(super) session: SessionId,
    /// The number of this start.
    pub(super) generation: Generation,
    /// The session's folder.
    pub(super) folder: PathBuf,
    /// The CLI's version, if known.
    pub(super) version: Option<Version>,
    /// The body of the first message.
    pub(super) initialize: Value,
    /// MCP servers of the session: sent as a message, because everyone can read a command line.
    pub(super) servers: IndexMap<String, Value>,
    /// MCP servers that the client serves.
    pub(super) served: Vec<String>,
    /// The mode to begin in. In any other mode nothing begins.
    pub(super) mode: String,
    /// The permission modes that this version has.
    pub(super) modes: Vec<String>,
    /// The prices of models.
    pub(super) prices: Prices,
    /// How long a control request may stay without an answer.
    pub(super) patience: Duration,
    /// Whether the CLI repeats messages after a lost connection.
    pub(super) repeats: Repeats,
    /// Why a new conversation begins instead of a resumed one.
    pub(super) reset: Option<ResetReason>,
}

impl Setup {
    /// A conversation with nothing set, outside of any session.
    pub(super) fn bare() -> Self {
        Self {
            session: SessionId::from_u128(0),
            generation: Generation(0),
            folder: PathBuf::new(),
            version: None,
            initialize: Value::Null,
            servers: IndexMap::new(),
            served: vec![],
            mode: String::new(),
            modes: vec![],
            prices: Prices::default(),
            patience: Duration::ZERO,
            repeats: Repeats::Never,
            reset: None,
        }
    }
}

/// Whether the agent repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    /// Never: a pipe does not come back.
    Never,
    /// Every message so far, at each reconnection.
    AfterReconnect,
}

/// The state of one conversation with the CLI.
#[derive(Debug)]
pub(super) struct Translate {
    pub(super) setup: Setup,
    pub(super) control: Control,
    pub(super) prompts: Prompts,
    pub(super) conversation: Conversation,
    pub(super) requests: Requests,
    pub(super) subagents: Subagents,
    pub(super) tally: Tally,
    pub(super) turn: Option<Turn>,
    /// What the CLI reported about itself so far.
    pub(super) known: AgentInfo,
    pub(super) activity: Option<String>,
    /// Whether it takes instructions.
    pub(super) is_ready: bool,
    /// A reset was reported; the session id that follows is its consequence.
    pub(super) was_reset: bool,
    /// The beginning of a turn has reported the mode.
    pub(super) has_told_mode: bool,
    seen: Seen,
}

/// The turn that runs.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) origin: TurnOrigin,
    /// The CLI marked it as interrupted, or Portolan interrupted it.
    pub(super) interrupted: bool,
    /// The error that the turn will end with, if any.
    pub(super) trouble: Option<Trouble>,
    /// Prompts that were taken in it.
    pub(super) prompts: usize,
    /// The main agent has said something in it.
    pub(super) has_spoken: bool,
}

impl Translate {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            control: Control::default(),
            prompts: Prompts::default(),
            conversation: Conversation::new(setup.generation),
            requests: Requests::default(),
            subagents: Subagents::default(),
            tally: Tally::default(),
            turn: None,
            known: AgentInfo { modes: Some(setup.modes.clone()), ..AgentInfo::default() },
            activity: None,
            is_ready: false,
            was_reset: false,
            has_told_mode: false,
            seen: Seen::default(),
            setup,
        }
    }

    /// Begins a turn, if none runs.
    pub(super) fn ensure_turn(&mut self, origin: TurnOrigin, out: &mut Output) {
        if self.turn.is_none() {
            self.turn =
                Some(Turn { origin, interrupted: false, trouble: None, prompts: 0, has_spoken: false });
            out.report(Report::TurnStarted { origin });
        }
    }

    fn message(&mut self, message: &Envelope<'_>, line: &str, out: &mut Output) {
        match &*message.kind {
            "stream_event" => self.stream_event(message, line, out),
            "assistant" => self.assistant(message, line, out),
            "user" => self.user(message, line, out),
            "system" => self.system(message, line, out),
            "result" => self.result(line, out),
            "control_request" => self.asked(message, line, out),
            "control_response" => self.answered(message, line, out),
            "control_cancel_request" => self.cancelled(message, line, out),
            "command_lifecycle" => self.lifecycle(line, out),
            kind => self.rarely(kind, line, out),
        }
    }

    fn order(&mut self, instruction_id: InstructionId, order: Order, out: &mut Output) {
        match order {
            // The CLI puts prompts into the running turn by itself.
            Order::Prompt { content } | Order::Steer { content } => {
                self.prompt(instruction_id, &content, out);
            }
            Order::Answer { key, ask, answer } => self.answer(instruction_id, &key, &ask, answer, out),
            Order::Checked { key, decision } => self.call_checked(&key, decision, out),
            order => self.instruct_control(instruction_id, order, out),
        }
    }
}

impl Translator for Translate {
    fn start(&mut self, out: &mut Output) {
        if self.setup.reset.is_some() {
            out.event(Event::ConversationReset { agent_session: None, reason: self.setup.reset });
        }
        self.initialize(out);
    }

    fn line(&mut self, line: &str, out: &mut Output) {
        if self.setup.repeats == Repeats::Never
            && let Some(piece) = Piece::read(line)
        {
            let Piece { parent_tool_use_id, event } = piece;
            return self.more(parent_tool_use_id.as_deref(), event.index, event.delta, line, out);
        }
        match serde_json::from_str::<Envelope<'_>>(line) {
            Ok(message) => {
                let again = self.setup.repeats == Repeats::AfterReconnect
                    && message.uuid.as_deref().is_some_and(|uuid| !self.seen.is_new(uuid));
                if !again {
                    self.message(&message, line, out);
                }
            }
            Err(error) => match serde_json::from_str::<Named<'_>>(line) {
                Ok(named) => out.unknown(KIND, &named.kind, line),
                Err(_) => out.unreadable(KIND, line.as_bytes(), &error.to_string()),
            },
        }
    }

    fn instruct(&mut self, instruction: Instruction, out: &mut Output) {
        self.order(instruction.id, instruction.order, out);
    }

    fn undelivered(&mut self, instruction_id: InstructionId, why: &str, out: &mut Output) {
        self.prompts.forget(instruction_id);
        self.control.forget(instruction_id, out);
        out.rejected(instruction_id, why);
    }

    fn timeout(&mut self, timer: Timer, out: &mut Output) {
        self.overdue(timer, out);
    }

    fn link_lost(&mut self, out: &mut Output) {
        self.control.give_up("the connection to the agent was lost before it answered", out);
    }

    fn link_restored(&mut self, out: &mut Output) {
        // The answer lists the open permission requests, which are never repeated otherwise.
        self.requests.list_is_asked_for();
        self.initialize(out);
    }

    fn farewell(&mut self, out: &mut Output) {
        if self.turn.is_some() {
            self.send_interrupt(out);
        }
        // It may still read why a call does not run.
        self.release_all(out);
        out.close_input();
    }
}

/// Names of the latest messages that were read already.
#[derive(Debug, Default)]
struct Seen {
    names: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    fn is_new(&mut self, name: &str) -> bool {
        if self.names.contains(name) {
            return false;
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
        self.names.insert(name.to_owned());
        self.order.push_back(name.to_owned());
        true
    }
}
