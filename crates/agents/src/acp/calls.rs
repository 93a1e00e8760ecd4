//! Requests to an agent, and their answers. Each request has a time limit, except a prompt: its answer is the end of a
//! turn, which may take any time; see [`super::turns`].

use portolan_core::{
    Event,
    event::{Level, McpServer},
    ports::{InstructionId, Order},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json, value::RawValue};

use super::{
    errors,
    translate::{DIALECT, Translate, notice},
    wire,
};
use crate::{
    calls::{Call, Question, TooMany},
    driver::{Output, Timer},
};

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Initialize,
    Authenticate,
    Begin,
    /// A setting from the session's start.
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

impl Translate {
    /// Sends a request; returns whether it was sent.
    pub(super) fn ask(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        method: &str,
        params: Value,
        out: &mut Output,
    ) -> bool {
        let patience = match what {
            What::Prompt => None,
            What::Initialize | What::Authenticate | What::Begin => Some(self.setup.start_patience),
            _ => Some(self.setup.patience),
        };
        let question = Question { method, params: Some(params), patience };
        let asked = self.calls.ask(Call { instruction_id, what }, DIALECT, question, out);
        if let (Err(TooMany), Some(instruction_id)) = (&asked, instruction_id) {
            let why = format!("{} leaves too many requests unanswered", self.setup.title);
            out.rejected(instruction_id, why);
        }
        asked.is_ok()
    }

    /// No request that begins a session waits for its answer.
    pub(super) fn none_begins(&self) -> bool {
        !self.calls.any(|what| {
            matches!(what, What::Initialize | What::Authenticate | What::Begin)
                || matches!(what, What::FirstMode(_) | What::FirstModel(_))
        })
    }

    /// Parameters that name the session.
    pub(super) fn of_session(&self, mut params: Value) -> Value {
        params["sessionId"] = json!(self.session.id());
        params
    }

    pub(super) fn instruct_call(&mut self, instruction_id: InstructionId, order: Order, out: &mut Output) {
        match order {
            Order::SetModel(Some(model)) => self.set_model(Some(instruction_id), &model, out),
            Order::SetModel(None) => {
                let words = format!("{} does not report its default model; name a model", self.setup.title);
                out.rejected(instruction_id, words);
            }
            Order::SetMode(mode) => self.set_mode(Some(instruction_id), &mode, out),
            Order::Native(body) => self.native(instruction_id, &body, out),
            Order::McpStatus => {
                // ACP does not report the state of MCP servers.
                let server = |(name, _): &(String, Value)| McpServer {
                    name: name.clone(),
                    status: "passed on".into(),
                    ..McpServer::default()
                };
                let servers = self.setup.servers.iter().map(server).collect();
                out.event(Event::McpServers { servers });
                out.consumed(instruction_id, None);
            }
            Order::McpReconnect(_)
            | Order::McpToggle { .. }
            | Order::McpSet(_)
            | Order::McpMessage { .. } => {
                out.rejected(
                    instruction_id,
                    "ACP takes MCP servers only when a session begins; start a new session",
                );
            }
            Order::Steer { .. }
            | Order::SetThinking(_)
            | Order::SetEnvironment(_)
            | Order::Rewind { .. }
            | Order::Context
            | Order::StopTask(_) => {
                out.rejected(
                    instruction_id,
                    format!("{} does not support this command over ACP", self.setup.title),
                );
            }
            // These orders are handled elsewhere.
            Order::Prompt { .. } | Order::Answer { .. } | Order::Checked { .. } | Order::Interrupt => {}
        }
    }

    /// An ACP message from a client: `method` and `params`. Portolan sets its id and its session.
    fn native(&mut self, instruction_id: InstructionId, body: &Value, out: &mut Output) {
        let Some(method) = body["method"].as_str() else {
            return out.rejected(instruction_id, "an ACP message needs a `method`");
        };
        if OURS.contains(&method) {
            return out.rejected(instruction_id, format!("only Portolan may send `{method}`"));
        }
        let mut params = Some(body["params"].clone()).filter(Value::is_object).unwrap_or_else(|| json!({}));
        if method.starts_with("session/") && method != "session/list" && params.get("sessionId").is_none() {
            params = self.of_session(params);
        }
        self.ask(Some(instruction_id), What::Plain, method, params, out);
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answered(
        &mut self,
        id: &Id,
        result: Result<Option<&RawValue>, Error>,
        line: &str,
        out: &mut Output,
    ) {
        // A late answer: the request has failed already, and its sender was informed.
        let Some(Call { instruction_id, what }) = self.calls.settle(id, out) else { return };
        let result: Result<Value, Error> = result.map(|result| wire::open(result).unwrap_or_default());
        self.settled(instruction_id, what, result, line, out);
    }

    fn settled(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        result: Result<Value, Error>,
        line: &str,
        out: &mut Output,
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
                let why = format!("the agent refused the mode `{mode}`: {}", errors::words(&error));
                Self::no_such_mode(why, &self.modes_there_are(), out);
            }
            (What::FirstModel(model), Ok(result)) => {
                self.model_is(&model, &result, out);
                self.begun_and_set(out);
            }
            (What::FirstModel(model), Err(error)) => {
                let text = format!("the model `{model}` was not set: {}", errors::words(&error));
                notice(Level::Warning, text, out);
                self.begun_and_set(out);
            }
            (What::Mode(mode), Ok(result)) => {
                done(instruction_id, None, out);
                self.mode_is(&mode, &result, out);
            }
            (What::Model(model), Ok(result)) => {
                done(instruction_id, None, out);
                self.model_is(&model, &result, out);
            }
            (What::Plain, Ok(result)) => {
                self.settings_told(&result, out);
                done(instruction_id, Some(result), out);
            }
            (What::Quiet, _) => done(instruction_id, None, out),
            (_, Err(error)) => {
                if let Some(instruction_id) = instruction_id {
                    out.rejected(instruction_id, errors::words(&error));
                }
            }
        }
    }

    pub(super) fn overdue(&mut self, at: Timer, out: &mut Output) {
        let Some((_, Call { instruction_id, what })) = self.calls.overdue(at) else { return };
        let starts = matches!(what, What::Initialize | What::Authenticate | What::Begin);
        let within = if starts { self.setup.start_patience } else { self.setup.patience };
        let message = format!("{} did not answer within {} s", self.setup.title, within.as_secs_f32());
        self.settled(instruction_id, what, Err(Error { code: 0, message, data: None }), "", out);
    }
}

/// Methods that only Portolan may send: they would begin a turn or a session unknown to Portolan.
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

fn done(instruction_id: Option<InstructionId>, result: Option<Value>, out: &mut Output) {
    if let Some(instruction_id) = instruction_id {
        out.consumed(instruction_id, result);
    }
}
