//! Requests to Codex, and their answers. Each request has a time limit: Codex silently ignores messages that it cannot
//! read.

use std::collections::VecDeque;

use portolan_core::{
    Event,
    event::{AgentInfo, Content},
    ports::{InstructionId, Order, Report},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json, value::RawValue};

use super::{
    modes,
    prompts::Turning,
    translate::{DIALECT, Translate, hello},
    wire,
};
use crate::{
    calls::{self, Call, Question, TooMany},
    driver::{Output, Timer},
};

/// Prompts whose answer is late and may still come: more than ever wait at once.
const MAX_LATE: usize = 64;

/// Why a task is not stopped.
const NO_TASK: &str = "no such task, or it has ended";

/// Requests that wait for their answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: calls::Calls<What>,
    /// Prompts that were not answered in time: Codex may have them or not, and may still report it.
    late: VecDeque<(Id, InstructionId)>,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Initialize,
    /// The model of the thread to fork, which a fork does not inherit by itself.
    Source,
    Begin,
    Unarchive,
    /// The first mode of the session.
    FirstMode,
    Turn(Turning),
    /// A prompt that is to enter the running turn.
    Steer(Vec<Content>),
    Interrupt,
    Models,
    Skills,
    Account,
    McpStatus,
    /// The running commands, to stop one.
    Terminals(String),
    Model(String),
    Mode,
    /// The answer is passed on as it is.
    Plain,
    /// The answer does not matter.
    Quiet,
}

impl Calls {
    pub(super) fn forget(&mut self, instruction_id: InstructionId, out: &mut Output) {
        self.open.forget(instruction_id, out);
    }

    /// Whether the same request already waits.
    fn waits_for(&self, what: &What) -> bool {
        self.open.any(|asked| asked == what)
    }

    fn is_late(&mut self, id: Id, instruction_id: InstructionId) {
        if self.late.len() == MAX_LATE {
            self.late.pop_front();
        }
        self.late.push_back((id, instruction_id));
    }

    /// The command of a late answer.
    fn settle_late(&mut self, id: &Id) -> Option<InstructionId> {
        let place = self.late.iter().position(|(late, _)| late == id)?;
        self.late.remove(place).map(|(_, instruction_id)| instruction_id)
    }

    /// Whether a turn was requested and Codex has not answered yet.
    pub(super) fn is_beginning_a_turn(&self) -> bool {
        self.open.any(|asked| matches!(asked, What::Turn(_)))
    }
}

impl Translate {
    pub(super) fn ask(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        method: &str,
        params: Option<Value>,
        out: &mut Output,
    ) {
        let question = Question { method, params, patience: Some(self.setup.patience) };
        let asked = self.calls.open.ask(Call { instruction_id, what }, DIALECT, question, out);
        if let (Err(TooMany), Some(instruction_id)) = (asked, instruction_id) {
            out.rejected(instruction_id, "codex leaves too many requests unanswered");
        }
    }

    pub(super) fn initialize(&mut self, out: &mut Output) {
        self.ask(None, What::Initialize, "initialize", Some(hello()), out);
    }

    /// Asks for everything beside the thread.
    pub(super) fn ask_around(&mut self, out: &mut Output) {
        self.ask(None, What::Models, "model/list", Some(json!({})), out);
        self.ask_skills(out);
        self.ask_account(out);
    }

    /// One request at a time: Codex may report changes many times.
    pub(super) fn ask_skills(&mut self, out: &mut Output) {
        if !self.calls.waits_for(&What::Skills) {
            let folder = self.setup.thread["cwd"].clone();
            self.ask(None, What::Skills, "skills/list", Some(json!({ "cwds": [folder] })), out);
        }
    }

    pub(super) fn ask_account(&mut self, out: &mut Output) {
        if !self.calls.waits_for(&What::Account) {
            self.ask(None, What::Account, "account/read", Some(json!({ "refreshToken": false })), out);
        }
    }

    /// Parameters that name the session's own thread.
    pub(super) fn of_thread(&self, more: Value) -> Value {
        let mut params = more;
        params["threadId"] = json!(self.threads.main());
        params
    }

    pub(super) fn instruct_call(&mut self, instruction_id: InstructionId, order: Order, out: &mut Output) {
        match order {
            Order::Interrupt => self.interrupt(Some(instruction_id), out),
            Order::SetModel(model) => self.set_model(instruction_id, model, out),
            Order::SetMode(mode) => {
                let Some(settings) = self.mode_settings(&mode) else {
                    let known = modes::names().join(", ");
                    return out.rejected(instruction_id, format!("unknown mode `{mode}`; Codex has {known}"));
                };
                let params = self.of_thread(settings);
                self.ask(Some(instruction_id), What::Mode, "thread/settings/update", Some(params), out);
            }
            Order::McpStatus => self.ask_servers(Some(instruction_id), out),
            Order::StopTask(task) => {
                if !self.items.is_task(&task) {
                    return out.rejected(instruction_id, NO_TASK);
                }
                if let Some(process) = self.items.process_of(&task) {
                    return self.stop_task(instruction_id, &task, &process, out);
                }
                let (what, method) = (What::Terminals(task), "thread/backgroundTerminals/list");
                let params = self.of_thread(json!({}));
                self.ask(Some(instruction_id), what, method, Some(params), out);
            }
            Order::Native(body) => self.native(instruction_id, &body, out),
            Order::McpReconnect(_)
            | Order::McpToggle { .. }
            | Order::McpSet(_)
            | Order::McpMessage { .. } => {
                out.rejected(
                    instruction_id,
                    "Codex takes MCP servers only when a session begins; change its configuration, or start a new session",
                );
            }
            Order::SetThinking(_) | Order::SetEnvironment(_) | Order::Rewind { .. } | Order::Context => {
                out.rejected(instruction_id, "Codex does not support this command");
            }
            // These orders are handled elsewhere.
            Order::Prompt { .. } | Order::Steer { .. } | Order::Answer { .. } | Order::Checked { .. } => {}
        }
    }

    fn stop_task(&mut self, instruction_id: InstructionId, task: &str, process: &str, out: &mut Output) {
        let params = self.of_thread(json!({ "processId": process }));
        self.items.stopping(task);
        self.ask(
            Some(instruction_id),
            What::Plain,
            "thread/backgroundTerminals/terminate",
            Some(params),
            out,
        );
    }

    /// The running commands, of which one is to be stopped.
    fn terminals_told(
        &mut self,
        instruction_id: Option<InstructionId>,
        task: &str,
        result: &Value,
        out: &mut Output,
    ) {
        let Some(instruction_id) = instruction_id else { return };
        let running = result["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let process = running.iter().find(|one| one["itemId"] == task);
        match process.and_then(|one| wire::some_text(one, "processId")) {
            Some(process) => self.stop_task(instruction_id, task, &process, out),
            None => out.rejected(instruction_id, NO_TASK),
        }
    }

    pub(super) fn mode_settings(&self, mode: &str) -> Option<Value> {
        let planning = mode == modes::PLAN || self.threads.mode() == Some(modes::PLAN);
        let model = self.threads.model().filter(|_| planning);
        modes::settings(mode, model, &self.setup.extra)
    }

    pub(super) fn ask_servers(&mut self, instruction_id: Option<InstructionId>, out: &mut Output) {
        let params = self.of_thread(json!({ "detail": "toolsAndAuthOnly" }));
        self.ask(instruction_id, What::McpStatus, "mcpServerStatus/list", Some(params), out);
    }

    /// `model` or `model:effort`; without a name, the catalogue's default.
    fn set_model(&mut self, instruction_id: InstructionId, model: Option<String>, out: &mut Output) {
        let Some(wanted) = model.or_else(|| self.threads.default_model.clone()) else {
            return out.rejected(instruction_id, "Codex has not reported its default model; name a model");
        };
        let (model, effort) = match wanted.rsplit_once(':') {
            Some((model, effort)) if !model.is_empty() && !effort.is_empty() => {
                (model.to_owned(), Some(effort))
            }
            _ => (wanted.clone(), None),
        };
        let mut params = self.of_thread(json!({ "model": model }));
        if let Some(effort) = effort {
            params["effort"] = json!(effort);
        }
        self.ask(Some(instruction_id), What::Model(model), "thread/settings/update", Some(params), out);
    }

    /// A message of Codex' own protocol: `method` and `params`. Portolan sets its id.
    fn native(&mut self, instruction_id: InstructionId, body: &Value, out: &mut Output) {
        let Some(method) = body["method"].as_str() else {
            return out.rejected(instruction_id, "a Codex message needs a `method`");
        };
        // These would begin a turn or a thread unknown to Portolan.
        if matches!(method, "turn/start" | "initialize" | "thread/start" | "thread/resume" | "thread/fork") {
            return out.rejected(instruction_id, format!("only Portolan may send `{method}`"));
        }
        let params = body.get("params").cloned();
        self.ask(Some(instruction_id), What::Plain, method, params, out);
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answered(&mut self, id: &Id, result: Result<Option<&RawValue>, Error>, out: &mut Output) {
        let Some(Call { instruction_id, what }) = self.calls.open.settle(id, out) else {
            return match (self.calls.settle_late(id), result) {
                (Some(instruction_id), Ok(_)) => out.consumed(instruction_id, None),
                (Some(instruction_id), Err(error)) => out.rejected(instruction_id, error.message),
                // The request has failed already, and its sender was informed.
                (None, _) => {}
            };
        };
        match result {
            Ok(result) => {
                let result: Value = wire::open(result).unwrap_or_default();
                self.succeeded(instruction_id, what, result, out);
            }
            Err(error) => self.refused(instruction_id, what, &error.message, out),
        }
    }

    fn succeeded(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        result: Value,
        out: &mut Output,
    ) {
        match what {
            What::Initialize => return self.initialized(&result, out),
            What::Source => return self.source_told(&result, out),
            What::Unarchive => return self.begin(out),
            What::Begin => return self.begun(&result, out),
            What::FirstMode => return self.mode_taken(out),
            What::Turn(turning) => return self.turn_accepted(instruction_id, turning, &result, out),
            What::Models => self.take_models(&result, out),
            What::Skills => self.take_skills(&result, out),
            What::Account => Self::take_account(&result, out),
            What::McpStatus => {
                self.take_servers(&result, out);
                return settled(instruction_id, None, out);
            }
            What::Model(model) => {
                settled(instruction_id, None, out);
                self.threads.set_model(&model);
                let info = AgentInfo { model: Some(model), ..AgentInfo::default() };
                return out.event(Event::AgentInfo { info: Box::new(info) });
            }
            What::Terminals(task) => return self.terminals_told(instruction_id, &task, &result, out),
            What::Plain => return settled(instruction_id, Some(result), out),
            What::Mode | What::Steer(_) | What::Interrupt | What::Quiet => {}
        }
        settled(instruction_id, None, out);
    }

    fn refused(&mut self, instruction_id: Option<InstructionId>, what: What, error: &str, out: &mut Output) {
        match what {
            What::Initialize => out.give_up(format!("it could not start: {error}")),
            // The fork then has the model of the configuration.
            What::Source => self.begin(out),
            What::Unarchive => out.give_up(format!("its thread could not be unarchived: {error}")),
            What::Begin => self.not_begun(error, out),
            What::FirstMode => self.mode_not_taken(error, out),
            What::Turn(turning) => self.turn_refused(instruction_id, turning, error, out),
            What::Steer(content) => self.not_steered(instruction_id, content, error, out),
            What::Interrupt => self.not_interrupted(instruction_id, error, out),
            _ => {
                if let Some(instruction_id) = instruction_id {
                    out.rejected(instruction_id, error);
                }
            }
        }
    }

    pub(super) fn overdue(&mut self, at: Timer, out: &mut Output) {
        let Some((id, Call { instruction_id, what })) = self.calls.open.overdue(at) else { return };
        let within = self.setup.patience.as_secs_f32();
        let error = format!("codex did not answer within {within} s");
        let Some(instruction_id) = instruction_id else { return self.refused(None, what, &error, out) };
        // The message was written: whether Codex acts on it is not known.
        out.report(Report::Uncertain { instruction_id, reason: error.clone() });
        match what {
            What::Turn(_) => {
                self.calls.is_late(id, instruction_id);
                self.interrupts_in_doubt(&error, out);
                self.turn_in_doubt(out);
            }
            What::Steer(_) => self.calls.is_late(id, instruction_id),
            _ => {}
        }
    }
}

fn settled(instruction_id: Option<InstructionId>, result: Option<Value>, out: &mut Output) {
    if let Some(instruction_id) = instruction_id {
        out.consumed(instruction_id, result);
    }
}
