//! Translates between the demo agent's lines and Portolan's vocabulary. Pure: no I/O, no clock.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use portolan_core::{
    Event,
    event::TurnOrigin,
    ports::{Instruction, InstructionId, Order, Report},
};

use super::{
    KIND,
    wire::{FromAgent, Hello, ToAgent, name_of},
};
use crate::driver::{Output, Timer, Translator};

/// The state of one conversation with the demo agent.
#[derive(Debug)]
pub(super) struct Translate {
    hello: Hello,
    /// How long an instruction may stay unanswered.
    patience: Duration,
    /// Instructions that are not settled yet, and whether a timer watches them.
    unsettled: BTreeMap<InstructionId, Watched>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Yes,
    /// A prompt may have to wait for its turn, without a limit.
    No,
}

impl Translate {
    pub(super) fn new(hello: Hello, patience: Duration) -> Self {
        Self { hello, patience, unsettled: BTreeMap::new() }
    }

    /// Takes an answered instruction off the list; `None` if it was not on the list.
    fn settle(&mut self, id: u64, out: &mut Output) -> Option<InstructionId> {
        let instruction_id = InstructionId(id);
        let watched = self.unsettled.remove(&instruction_id)?;
        if watched == Watched::Yes {
            out.clear_timer(Timer(id));
        }
        Some(instruction_id)
    }

    fn message(&mut self, message: FromAgent, line: &str, out: &mut Output) {
        let raw = || Some(Bytes::copy_from_slice(line.as_bytes()));
        match message {
            FromAgent::More { item, text } => out.event(Event::Delta { item, text }),
            FromAgent::Begin { item, kind, message, parent } => {
                out.event(Event::ItemStarted { item, kind, message, parent });
            }
            FromAgent::Say { item, message, parent, model, content, interrupted } => {
                let stop_reason = None;
                out.event(Event::Message { item, message, parent, model, content, interrupted, stop_reason });
            }
            FromAgent::Call { tool, item, parent, name, kind, title, input, changes } => {
                let message = None;
                out.event(Event::ToolCall { tool, item, message, parent, name, kind, title, input, changes });
            }
            FromAgent::Result { tool, parent, outcome, content, changes } => {
                out.event(Event::ToolResult { tool, parent, outcome, content, changes });
            }
            FromAgent::Ready { info } => {
                out.event_with_raw(Event::AgentInfo { info }, line);
                out.ready();
            }
            FromAgent::Ack { id, result } => match self.settle(id, out) {
                Some(instruction_id) => out.consumed(instruction_id, result),
                None => out.unknown(KIND, "ack of nothing", line),
            },
            FromAgent::Nack { id, error } => match self.settle(id, out) {
                Some(instruction_id) => out.rejected(instruction_id, error),
                None => out.unknown(KIND, "nack of nothing", line),
            },
            FromAgent::Turn { origin } => {
                out.report(Report::TurnStarted { origin: origin.unwrap_or(TurnOrigin::Prompt) });
            }
            FromAgent::Ask { key, ask, parent, tool } => {
                out.report(Report::RequestOpened { key, ask, parent, tool, raw: raw() });
            }
            FromAgent::Withdraw { key } => out.report(Report::RequestWithdrawn { key }),
            FromAgent::End(result) => out.report(Report::TurnEnded { result, raw: raw() }),
            FromAgent::Event(event) => match *event {
                // Only core may make these events: an agent that could send them could forge a log.
                Event::SessionCreated { .. }
                | Event::SessionRenamed { .. }
                | Event::SessionArchived { .. }
                | Event::Imported { .. }
                | Event::AgentStarting { .. }
                | Event::AgentStarted { .. }
                | Event::AgentExited { .. }
                | Event::LinkLost { .. }
                | Event::LinkRestored
                | Event::TurnStarted { .. }
                | Event::TurnEnded { .. }
                | Event::Prompt { .. }
                | Event::RequestOpened { .. }
                | Event::RequestClosed { .. }
                | Event::RequestDecided { .. }
                | Event::CommandAccepted { .. }
                | Event::Receipt { .. }
                | Event::RuleAdded { .. }
                | Event::DeadlineChanged { .. }
                | Event::BudgetChanged { .. }
                | Event::BudgetReached { .. }
                | Event::RuleRemoved { .. }
                | Event::Unknown { .. } => out.unknown(KIND, "event", line),
                event => out.event(event),
            },
        }
    }
}

impl Translator for Translate {
    fn start(&mut self, out: &mut Output) {
        out.write(&ToAgent::Hello(Box::new(self.hello.clone())));
    }

    fn line(&mut self, line: &str, out: &mut Output) {
        match serde_json::from_str::<FromAgent>(line) {
            Ok(message) => self.message(message, line, out),
            Err(error) => match name_of(line) {
                Some(name) => out.unknown(KIND, &name, line),
                None => out.unreadable(KIND, line.as_bytes(), &error.to_string()),
            },
        }
    }

    fn instruct(&mut self, instruction: Instruction, out: &mut Output) {
        let Instruction { id: instruction_id, order } = instruction;
        let id = instruction_id.0;
        let mut watched = Watched::Yes;
        let message = match order {
            Order::Prompt { content } => {
                watched = Watched::No;
                ToAgent::Prompt { id, content }
            }
            Order::Steer { content } => {
                watched = Watched::No;
                ToAgent::Steer { id, content }
            }
            Order::Answer { key, ask: _, answer } => ToAgent::Answer { id, key, answer },
            // The demo agent asks about everything.
            Order::Checked { .. } => return,
            Order::Interrupt => ToAgent::Interrupt { id },
            Order::SetModel(model) => ToAgent::SetModel { id, model },
            Order::SetMode(mode) => ToAgent::SetMode { id, mode },
            Order::SetThinking(tokens) => ToAgent::SetThinking { id, tokens },
            Order::SetEnvironment(variables) => ToAgent::SetEnvironment { id, variables },
            Order::Rewind { prompt, dry_run } => ToAgent::Rewind { id, prompt: prompt.0, dry_run },
            Order::McpStatus => ToAgent::McpStatus { id },
            Order::McpReconnect(server) => ToAgent::McpReconnect { id, server },
            Order::McpToggle { server, enabled } => ToAgent::McpToggle { id, server, enabled },
            Order::McpSet(servers) => ToAgent::McpSet { id, servers },
            Order::McpMessage { server, message } => ToAgent::McpMessage { id, server, message },
            Order::Context => ToAgent::Context { id },
            Order::StopTask(task) => ToAgent::StopTask { id, task },
            Order::Native(body) => ToAgent::Native { id, body },
        };
        self.unsettled.insert(instruction_id, watched);
        if watched == Watched::Yes {
            out.set_timer(Timer(id), self.patience);
        }
        out.write_for(instruction_id, &message);
    }

    fn undelivered(&mut self, instruction_id: InstructionId, why: &str, out: &mut Output) {
        if let Some(instruction_id) = self.settle(instruction_id.0, out) {
            out.rejected(instruction_id, why);
        }
    }

    fn timeout(&mut self, timer: Timer, out: &mut Output) {
        let instruction_id = InstructionId(timer.0);
        if self.unsettled.remove(&instruction_id).is_some() {
            out.rejected(
                instruction_id,
                format!("the demo agent did not answer within {} s", self.patience.as_secs_f32()),
            );
        }
    }

    fn farewell(&mut self, out: &mut Output) {
        out.write(&ToAgent::Bye {});
    }
}
