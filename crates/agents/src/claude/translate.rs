//! Between Claude Code's lines and Portolan's vocabulary. Pure: no I/O, no clock, the same for both transports.
//!
//! Here is the state of one process and the way of each line to where it is understood: [`super::conversation`] for
//! messages and streams, [`super::system`] for what the CLI says about itself, [`super::requests`] for what it asks,
//! [`super::control`] for what we ask, [`super::results`] for the ends of turns.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{
    Event, Generation, SessionId,
    event::{AgentInfo, ResetReason, TurnOrigin},
    ports::{Instruction, Order, Report, Ticket},
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
    driver::{Timer, Translator, Turnout},
    prices::Prices,
};

/// Names of messages that are remembered, to know one that comes again. The CLI keeps about a thousand for a
/// reconnection; this is far more, and 64 bytes each.
const REMEMBERED: usize = 16 * 1024;

/// What a conversation begins with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Whose conversation it is.
    pub(super) session: SessionId,
    /// Which start of it.
    pub(super) generation: Generation,
    /// The CLI's version, where known.
    pub(super) version: Option<Version>,
    /// The body of the first message.
    pub(super) initialize: Value,
    /// MCP servers of the session: told over the line, since a command line is there for all to see.
    pub(super) servers: IndexMap<String, Value>,
    /// MCP servers that are served by whoever answers requests.
    pub(super) served: Vec<String>,
    /// The mode to begin in. In any other nothing begins.
    pub(super) mode: String,
    /// The permission modes this version has.
    pub(super) modes: Vec<String>,
    /// What models cost.
    pub(super) prices: Prices,
    /// How long a control request may stay without an answer.
    pub(super) patience: Duration,
    /// Does the CLI say things again after a lost connection?
    pub(super) repeats: Repeats,
    /// Why the conversation begins anew, where it was to be taken up.
    pub(super) reset: Option<ResetReason>,
}

/// Does the agent repeat itself?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    /// Never: a pipe does not come back.
    Never,
    /// Everything it has said so far, at each reconnection.
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
    /// What it told about itself so far.
    pub(super) known: AgentInfo,
    pub(super) activity: Option<String>,
    /// It takes instructions.
    pub(super) is_ready: bool,
    /// A reset was told; the session id that follows is its consequence.
    pub(super) was_reset: bool,
    /// The beginning of a turn has told the mode.
    pub(super) has_told_mode: bool,
    seen: Seen,
}

/// The turn that runs.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) origin: TurnOrigin,
    /// The CLI marked it as interrupted, or we did it.
    pub(super) interrupted: bool,
    /// The error it will end with, should it end with one.
    pub(super) trouble: Option<Trouble>,
    /// Prompts that were taken up in it.
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

    /// A turn runs from here on, where none did.
    pub(super) fn ensure_turn(&mut self, origin: TurnOrigin, out: &mut Turnout) {
        if self.turn.is_none() {
            self.turn =
                Some(Turn { origin, interrupted: false, trouble: None, prompts: 0, has_spoken: false });
            out.report(Report::TurnStarted { origin });
        }
    }

    fn message(&mut self, message: &Envelope<'_>, line: &str, out: &mut Turnout) {
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

    fn order(&mut self, ticket: Ticket, order: Order, out: &mut Turnout) {
        match order {
            // It takes what it is told into the turn that runs by itself.
            Order::Prompt { content } | Order::Steer { content } => self.prompt(ticket, &content, out),
            Order::Answer { key, ask, answer } => self.answer(ticket, &key, &ask, answer, out),
            order => self.instruct_control(ticket, order, out),
        }
    }
}

impl Translator for Translate {
    fn start(&mut self, out: &mut Turnout) {
        if self.setup.reset.is_some() {
            out.event(Event::ConversationReset { agent_session: None, reason: self.setup.reset });
        }
        self.initialize(out);
    }

    fn line(&mut self, line: &str, out: &mut Turnout) {
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

    fn instruct(&mut self, instruction: Instruction, out: &mut Turnout) {
        self.order(instruction.ticket, instruction.order, out);
    }

    fn undelivered(&mut self, ticket: Ticket, why: &str, out: &mut Turnout) {
        self.prompts.forget(ticket);
        self.control.forget(ticket, out);
        out.rejected(ticket, why);
    }

    fn timeout(&mut self, timer: Timer, out: &mut Turnout) {
        self.overdue(timer, out);
    }

    fn link_lost(&mut self, out: &mut Turnout) {
        self.control.give_up("the connection to the agent was lost before it answered", out);
    }

    fn link_restored(&mut self, out: &mut Turnout) {
        // The answer lists the permission requests that are open, which are never said again by themselves.
        self.requests.list_is_asked_for();
        self.initialize(out);
    }

    fn farewell(&mut self, out: &mut Turnout) {
        if self.turn.is_some() {
            self.send_interrupt(out);
        }
        out.close_input();
    }
}

/// Names of messages that were read already, the latest ones.
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
