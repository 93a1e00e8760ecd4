//! What we ask of an agent, and what its answers mean. Each request has a time limit, but for a prompt: its answer is the
//! end of a turn, which takes as long as it takes; see [`super::turns`].

use portolan_core::{
    Event,
    event::{Level, McpServer},
    ports::{Order, Ticket},
};
use portolan_wire::jsonrpc::{Error, Id, Pending};
use serde_json::{Value, json, value::RawValue};

use super::{
    errors,
    translate::{DIALECT, Translate, notice},
    wire,
};
use crate::driver::{Timer, Turnout};

/// Requests that wait for their answer.
#[derive(Debug, Default)]
pub(super) struct Calls(Pending<Call>);

#[derive(Debug)]
struct Call {
    /// Whoever wants to know what came of it.
    ticket: Option<Ticket>,
    what: What,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Initialize,
    Authenticate,
    Begin,
    /// What the session begins with.
    FirstMode(String),
    FirstModel(String),
    Prompt,
    Mode(String),
    Model(String),
    /// The answer is passed on as it is.
    Plain,
    /// The answer does not matter.
    Quiet,
}

impl Calls {
    pub(super) fn forget(&mut self, ticket: Ticket, out: &mut Turnout) {
        for id in self.0.find(|call| call.ticket == Some(ticket)) {
            self.0.settle(&id);
            out.clear_timer(timer(&id));
        }
    }

    /// Nothing that begins something waits for its answer.
    pub(super) fn none_begins(&self) -> bool {
        let begins = |call: &Call| {
            matches!(call.what, What::Initialize | What::Authenticate | What::Begin)
                || matches!(call.what, What::FirstMode(_) | What::FirstModel(_))
        };
        self.0.find(begins).is_empty()
    }

    /// Its answer is not waited for any more.
    pub(super) fn forget_prompt(&mut self) {
        for id in self.0.find(|call| call.what == What::Prompt) {
            self.0.settle(&id);
        }
    }
}

fn timer(id: &Id) -> Timer {
    match id {
        Id::Number(number) => Timer(number.unsigned_abs()),
        Id::Text(_) => Timer(0),
    }
}

impl Translate {
    /// Asks; says whether it did.
    pub(super) fn ask(
        &mut self,
        ticket: Option<Ticket>,
        what: What,
        method: &str,
        params: Value,
        out: &mut Turnout,
    ) -> bool {
        let patience = match what {
            What::Prompt => None,
            What::Initialize | What::Authenticate | What::Begin => Some(self.setup.start_patience),
            _ => Some(self.setup.patience),
        };
        let Ok(id) = self.calls.0.ask(Call { ticket, what }) else {
            if let Some(ticket) = ticket {
                out.rejected(ticket, format!("{} leaves too many requests unanswered", self.setup.title));
            }
            return false;
        };
        if let Some(patience) = patience {
            out.set_timer(timer(&id), patience);
        }
        let message = DIALECT.request(&id, method, Some(params));
        match ticket {
            Some(ticket) => out.write_for(ticket, &message),
            None => out.write(&message),
        }
        true
    }

    /// Parameters that name the session.
    pub(super) fn of_session(&self, mut params: Value) -> Value {
        params["sessionId"] = json!(self.session.id());
        params
    }

    pub(super) fn instruct_call(&mut self, ticket: Ticket, order: Order, out: &mut Turnout) {
        match order {
            Order::SetModel(Some(model)) => self.set_model(Some(ticket), &model, out),
            Order::SetModel(None) => {
                let words = format!("{} does not tell its default model; name one", self.setup.title);
                out.rejected(ticket, words);
            }
            Order::SetMode(mode) => self.set_mode(Some(ticket), &mode, out),
            Order::Native(body) => self.native(ticket, &body, out),
            Order::McpStatus => {
                // ACP has no word for how they are.
                let server = |(name, _): &(String, Value)| McpServer {
                    name: name.clone(),
                    status: "passed on".into(),
                    ..McpServer::default()
                };
                let servers = self.setup.servers.iter().map(server).collect();
                out.event(Event::McpServers { servers });
                out.consumed(ticket, None);
            }
            Order::McpReconnect(_)
            | Order::McpToggle { .. }
            | Order::McpSet(_)
            | Order::McpMessage { .. } => {
                out.rejected(ticket, "ACP has MCP servers only when a session begins; start a new session");
            }
            Order::Steer { .. }
            | Order::SetThinking(_)
            | Order::SetEnvironment(_)
            | Order::Rewind { .. }
            | Order::Context
            | Order::StopTask(_) => {
                out.rejected(ticket, format!("{} cannot do this over ACP", self.setup.title));
            }
            // They have ways of their own.
            Order::Prompt { .. } | Order::Answer { .. } | Order::Interrupt => {}
        }
    }

    /// A message of ACP's own: `method` and `params`. Its id is ours, and so is the session it is about.
    fn native(&mut self, ticket: Ticket, body: &Value, out: &mut Turnout) {
        let Some(method) = body["method"].as_str() else {
            return out.rejected(ticket, "a message of ACP has a `method`");
        };
        if OURS.contains(&method) {
            return out.rejected(ticket, format!("`{method}` is Portolan's own to send"));
        }
        let mut params = Some(body["params"].clone()).filter(Value::is_object).unwrap_or_else(|| json!({}));
        if method.starts_with("session/") && method != "session/list" && params.get("sessionId").is_none() {
            params = self.of_session(params);
        }
        self.ask(Some(ticket), What::Plain, method, params, out);
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answered(
        &mut self,
        id: &Id,
        result: Result<Option<&RawValue>, Error>,
        line: &str,
        out: &mut Turnout,
    ) {
        // Late: it was given up, and whoever asked was told so.
        let Some(Call { ticket, what }) = self.calls.0.settle(id) else { return };
        out.clear_timer(timer(id));
        let result: Result<Value, Error> = result.map(|result| wire::open(result).unwrap_or_default());
        self.settled(ticket, what, result, line, out);
    }

    fn settled(
        &mut self,
        ticket: Option<Ticket>,
        what: What,
        result: Result<Value, Error>,
        line: &str,
        out: &mut Turnout,
    ) {
        match (what, result) {
            (What::Prompt, result) => self.prompt_answered(result, line, out),
            (What::Initialize, Ok(result)) => self.initialized(&result, out),
            (What::Initialize, Err(error)) => self.not_begun(&error, out),
            (What::Authenticate, Ok(_)) => self.begin(out),
            (What::Authenticate, Err(error)) => self.not_logged_in(&error, out),
            (What::Begin, Ok(result)) => self.begun(&result, out),
            (What::Begin, Err(error)) => self.not_begun(&error, out),
            (What::FirstMode(mode), Ok(result)) => self.first_mode_set(&mode, &result, out),
            (What::FirstMode(mode), Err(error)) => {
                let why = format!("it did not take the mode `{mode}`: {}", errors::words(&error));
                Self::no_such_mode(why, &self.modes_there_are(), out);
            }
            (What::FirstModel(model), Ok(result)) => {
                self.model_is(&model, &result, out);
                self.begun_and_set(out);
            }
            (What::FirstModel(model), Err(error)) => {
                let text = format!("the model `{model}` is not set: {}", errors::words(&error));
                notice(Level::Warning, text, out);
                self.begun_and_set(out);
            }
            (What::Mode(mode), Ok(result)) => {
                done(ticket, None, out);
                self.mode_is(&mode, &result, out);
            }
            (What::Model(model), Ok(result)) => {
                done(ticket, None, out);
                self.model_is(&model, &result, out);
            }
            (What::Plain, Ok(result)) => {
                self.settings_told(&result, out);
                done(ticket, Some(result), out);
            }
            (What::Quiet, _) => done(ticket, None, out),
            (_, Err(error)) => {
                if let Some(ticket) = ticket {
                    out.rejected(ticket, errors::words(&error));
                }
            }
        }
    }

    pub(super) fn overdue(&mut self, at: Timer, out: &mut Turnout) {
        let id = Id::Number(i64::try_from(at.0).unwrap_or_default());
        let Some(Call { ticket, what }) = self.calls.0.settle(&id) else { return };
        let starts = matches!(what, What::Initialize | What::Authenticate | What::Begin);
        let within = if starts { self.setup.start_patience } else { self.setup.patience };
        let message = format!("{} did not answer within {} s", self.setup.title, within.as_secs_f32());
        self.settled(ticket, what, Err(Error { code: 0, message, data: None }), "", out);
    }
}

/// What only we may send: it would be a turn or a session that nobody here knows of.
const OURS: &[&str] = &[
    "initialize",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/prompt",
    "session/cancel",
    "session/close",
];

fn done(ticket: Option<Ticket>, result: Option<Value>, out: &mut Turnout) {
    if let Some(ticket) = ticket {
        out.consumed(ticket, result);
    }
}
