//! What Codex asks and waits for: approvals of commands, of changes to files, of more permissions, of MCP calls; its
//! questions, and those of MCP servers.
//!
//! Each request is keyed by its id, which Codex counts from 0, and answered once. An unknown request is answered with
//! an error, so that Codex never waits for ever; Codex takes an unreadable answer as a denial.

mod answering;
mod opening;

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    ports::{InstructionId, Report},
    request::{Answer, Ask},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json, value::RawValue};

use super::{
    KIND,
    calls::What,
    translate::{DIALECT, Translate},
    wire::{self, text},
};
use crate::driver::Output;

/// Codex' own word for a denial that stops the turn.
const CANCEL: &str = "cancel";

/// The prefix of the reason of a denial, for which Codex' own answer has no field.
const DECLINED: &str = "The user declined this tool call: ";

/// Takes a rule against a host that Codex proposes.
const NETWORK: &str = "applyNetworkPolicyAmendment";

/// Requests that may wait at once: more than the session shows to people.
const MAX_REQUESTS: usize = 512;

/// Requests that wait for an answer, by Portolan's key.
#[derive(Debug, Default)]
pub(super) struct Requests(IndexMap<String, Open>);

#[derive(Debug)]
struct Open {
    id: Id,
    thread: String,
    what: Asked,
}

/// What is needed to answer.
#[derive(Debug)]
enum Asked {
    Command {
        /// Rules for hosts, in the order in which Codex proposes them.
        network: Vec<Value>,
    },
    Change,
    Permissions {
        asked: Value,
    },
    McpCall,
    Elicitation,
    /// The id of each question by its text.
    Questions(IndexMap<String, String>),
}

/// A request as the session gets it.
struct Opened {
    ask: Ask,
    tool: Option<String>,
    what: Asked,
}

impl Translate {
    pub(super) fn asked(
        &mut self,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        line: &str,
        out: &mut Output,
    ) {
        let key = id.key();
        if self.requests.0.contains_key(&key) {
            // Repeated when a thread is resumed; it waits already.
            return;
        }
        if self.requests.0.len() >= MAX_REQUESTS {
            let error = "too many requests wait for an answer already";
            return out.write(&DIALECT.error(&id, Error::METHOD_NOT_FOUND, error));
        }
        let params: Value = wire::open(params).unwrap_or_default();
        let thread = text(&params, "threadId");
        let opened = match method {
            "item/commandExecution/requestApproval" => opening::command(&params),
            "item/fileChange/requestApproval" => self.file_change(&params),
            "item/permissions/requestApproval" => opening::permissions(&params),
            "item/tool/requestUserInput" => opening::questions(&params),
            "mcpServer/elicitation/request" => Some(self.elicitation(&params)),
            _ => None,
        };
        let Some(Opened { ask, tool, what }) = opened else {
            out.unknown(KIND, method, line);
            let error = format!("Portolan does not know `{method}`, or not in this form");
            return out.write(&DIALECT.error(&id, Error::METHOD_NOT_FOUND, &error));
        };
        let parent = self.threads.whose(&thread).parent();
        self.requests.0.insert(key.clone(), Open { id, thread, what });
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::RequestOpened { key, ask: Box::new(ask), parent, tool, raw });
    }

    /// Codex reports the end of every request. If the request is still open here, Portolan did not end it.
    pub(super) fn resolved(&mut self, id: &Value, out: &mut Output) {
        let Ok(id) = serde_json::from_value::<Id>(id.clone()) else { return };
        if self.requests.0.shift_remove(&id.key()).is_some() {
            out.report(Report::RequestWithdrawn { key: id.key() });
        }
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answer(
        &mut self,
        instruction_id: InstructionId,
        key: &str,
        ask: &Ask,
        answer: Answer,
        out: &mut Output,
    ) {
        let Some(Open { id, thread, what }) = self.requests.0.shift_remove(key) else {
            return out.rejected(instruction_id, "the agent no longer waits for this answer");
        };
        if let Answer::Deny { message: Some(message), interrupt: false, option: None } = &answer
            && matches!(ask, Ask::Permission { .. })
        {
            self.tell_why(&thread, message, out);
        }
        let result = match what {
            Asked::Command { network } => {
                json!({ "decision": answering::decision(&answer, &network) })
            }
            Asked::Change => json!({ "decision": answering::decision(&answer, &[]) }),
            Asked::Permissions { asked } => answering::permissions_answer(&answer, asked),
            Asked::McpCall | Asked::Elicitation => answering::elicitation_answer(answer),
            Asked::Questions(ids) => answering::questions_answer(answer, &ids),
        };
        out.write_and_consume(instruction_id, &DIALECT.result(&id, result));
    }

    /// The model gets the reason before the denial, and then continues with both.
    fn tell_why(&mut self, thread: &str, message: &str, out: &mut Output) {
        let Some(turn) = self.turns.steerable().map(str::to_owned) else { return };
        if message.is_empty() || !self.threads.is_main(thread) {
            return;
        }
        let input = json!([{ "type": "text", "text": format!("{DECLINED}{message}") }]);
        let params = self.of_thread(json!({ "input": input, "expectedTurnId": turn }));
        self.ask(None, What::Quiet, "turn/steer", Some(params), out);
    }
}
