//! What the CLI asks and waits for: permissions, questions, plans, hooks, elicitations, messages to MCP servers.
//!
//! Each request is keyed by the id on its envelope and answered once. An unknown request is answered with an error, so
//! that the CLI never waits for ever. Its own suggestions for "always" are shown, never sent back: they can widen the
//! mode or write the project's settings; "always" is a rule of the session.

use std::{collections::HashSet, path::Path};

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    policy::Decision,
    ports::{Doer, InstructionId, Report},
    request::{Answer, Ask, Choice, Question, cancelled},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    KIND,
    subagents::PLAN,
    tools,
    translate::Translate,
    wire::{self, Asked, Envelope},
};
use crate::driver::Output;

/// Calls whose folder is kept. The CLI asks about a call directly after its hook.
const FOLDERS: usize = 256;

/// The name of Portolan's own hook, which asks policy about every call.
pub(super) const RULES: &str = "portolan-rules";

/// What the model gets for a denial without a reason.
const DENIED: &str = "The user does not want this.";

/// Requests that wait for an answer, by the CLI's own key.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: IndexMap<String, Open>,
    /// While the list of open requests is fetched: requests answered meanwhile, which may still be in it.
    answered: Option<HashSet<String>>,
    /// The folder in which the CLI makes a call, if it is another one than the session's, by the id of the call. Bash's
    /// folder outlives a call that changes it.
    folders: IndexMap<String, String>,
}

impl Requests {
    /// The list of open requests is about to be fetched. An earlier answer may have been lost with the connection.
    pub(super) fn list_is_asked_for(&mut self) {
        self.answered = Some(HashSet::new());
    }
}

/// What is needed to answer.
#[derive(Debug)]
enum Open {
    /// A tool, with the input to echo and its call.
    Tool {
        input: Box<RawValue>,
        tool: Option<String>,
    },
    Hook {
        event: String,
    },
    /// A call that policy looks at before the CLI decides whether to ask.
    Rules {
        name: String,
        tool: Option<String>,
    },
    Elicitation,
    /// A message to an MCP server, and the id that its answer must carry.
    Mcp {
        id: Value,
    },
}

impl Translate {
    pub(super) fn asked(&mut self, message: &Envelope<'_>, line: &str, out: &mut Output) {
        let Some(key) = message.request_id.as_deref() else {
            return out.unknown(KIND, "control_request", line);
        };
        let asked = message.request.and_then(|raw| serde_json::from_str::<Asked<'_>>(raw.get()).ok());
        let Some(asked) = asked else {
            out.unknown(KIND, "control_request", line);
            return refuse(key, "this request cannot be read", out);
        };
        match &*asked.subtype {
            "can_use_tool" => self.can_use_tool(key, &asked, line, out),
            "hook_callback" if asked.callback_id.as_deref() == Some(RULES) => {
                self.before_call(key, &asked, line, out);
            }
            "hook_callback" => self.hook(key, &asked, line, out),
            "elicitation" => self.elicitation(key, &asked, line, out),
            "mcp_message" => self.mcp_message(key, &asked, line, out),
            other => {
                out.unknown(KIND, &format!("control_request/{other}"), line);
                refuse(key, &format!("unsupported control request `{other}`"), out);
            }
        }
    }

    fn open(&mut self, key: &str, open: Open, opened: Opened, line: &str, out: &mut Output) {
        // A request that is repeated after a reconnection waits already.
        if self.requests.open.insert(key.to_owned(), open).is_some() {
            return;
        }
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        let Opened { ask, parent, tool } = opened;
        out.report(Report::RequestOpened { key: key.to_owned(), ask: Box::new(ask), parent, tool, raw });
    }

    fn can_use_tool(&mut self, key: &str, asked: &Asked<'_>, line: &str, out: &mut Output) {
        let Some(name) = asked.tool_name.clone() else {
            out.unknown(KIND, "control_request/can_use_tool", line);
            return refuse(key, "the request names no tool", out);
        };
        let input = wire::value(asked.input);
        let parent = self.subagents.caller(asked.tool_use_id.as_deref(), asked.agent_id.as_deref());
        let ask = match name.as_str() {
            // The answers go into the input, so the input must be an object.
            "AskUserQuestion" if input.is_object() => questions(&input),
            PLAN => {
                // Newer versions ask without the text, which only the preceding call has. Witness:
                // 2.1.325-stdio/i4-exit-plan-mode-approve.ndjson
                let plan = input.get("plan").and_then(Value::as_str).map(str::to_owned);
                let plan = plan.or_else(|| self.subagents.plan(asked.tool_use_id.as_deref()));
                Some(Ask::Plan { plan, input: input.clone() })
            }
            _ => None,
        };
        let ask = ask.unwrap_or_else(|| Ask::Permission {
            changes: tools::changes_asked(&name, &input),
            tool_name: name,
            input,
            description: asked.description.clone(),
            reason: asked.decision_reason.clone(),
            blocked_path: asked.blocked_path.clone(),
            folder: asked.tool_use_id.as_ref().and_then(|tool| self.requests.folders.get(tool).cloned()),
            suggestions: wire::open(asked.permission_suggestions).unwrap_or_default(),
            options: vec![],
        });
        let echo = asked.input.map_or_else(empty, ToOwned::to_owned);
        let tool = asked.tool_use_id.clone();
        let open = Open::Tool { input: echo, tool: tool.clone() };
        self.open(key, open, Opened { ask, parent, tool }, line, out);
    }

    fn hook(&mut self, key: &str, asked: &Asked<'_>, line: &str, out: &mut Output) {
        let input = wire::value(asked.input);
        let event = input["hook_event_name"].as_str().unwrap_or("unknown").to_owned();
        let agent = input["agent_id"].as_str();
        // The envelope has an id too, which names a call only for hooks about calls.
        let tool = input["tool_use_id"].as_str().map(str::to_owned);
        let parent = self.subagents.caller(tool.as_deref(), agent);
        let ask = Ask::Hook { event: event.clone(), input };
        self.open(key, Open::Hook { event }, Opened { ask, parent, tool }, line, out);
    }

    /// The CLI is about to make a call, and may not ask about it. Questions and plans are for people, not for rules.
    fn before_call(&mut self, key: &str, asked: &Asked<'_>, line: &str, out: &mut Output) {
        let hook = wire::value(asked.input);
        let name = hook["tool_name"].as_str().filter(|name| !matches!(*name, "AskUserQuestion" | PLAN));
        let Some(name) = name.map(str::to_owned) else { return succeed(key, &json!({}), out) };
        let tool = hook["tool_use_id"].as_str().map(str::to_owned).or_else(|| asked.tool_use_id.clone());
        let open = Open::Rules { name: name.clone(), tool: tool.clone() };
        if self.requests.open.insert(key.to_owned(), open).is_some() {
            return;
        }
        let input = hook["tool_input"].clone();
        let elsewhere = |folder: &&str| Path::new(folder) != self.setup.folder;
        let folder = hook["cwd"].as_str().filter(elsewhere).map(str::to_owned);
        if let (Some(tool), Some(folder)) = (&tool, &folder) {
            if self.requests.folders.len() >= FOLDERS {
                self.requests.folders.shift_remove_index(0);
            }
            self.requests.folders.insert(tool.clone(), folder.clone());
        }
        let ask = Box::new(Ask::Permission {
            changes: tools::changes_asked(&name, &input),
            tool_name: name,
            input,
            description: None,
            reason: None,
            blocked_path: None,
            folder,
            suggestions: vec![],
            options: vec![],
        });
        let parent = self.subagents.caller(tool.as_deref(), hook["agent_id"].as_str());
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::Unasked { key: key.to_owned(), ask, parent, tool, doer: Doer::Agent, raw });
    }

    fn elicitation(&mut self, key: &str, asked: &Asked<'_>, line: &str, out: &mut Output) {
        let server = asked.mcp_server_name.clone().or(asked.server_name.clone()).unwrap_or_default();
        let ask = Ask::Elicitation {
            server,
            message: wire::open(asked.message).unwrap_or_default(),
            schema: wire::open(asked.requested_schema),
            url: asked.url.clone(),
        };
        self.open(key, Open::Elicitation, Opened { ask, parent: None, tool: None }, line, out);
    }

    /// JSON-RPC to an MCP server that the client serves.
    fn mcp_message(&mut self, key: &str, asked: &Asked<'_>, line: &str, out: &mut Output) {
        let message = wire::value(asked.message);
        let server = asked.server_name.clone().unwrap_or_default();
        let id = message.get("id").cloned();
        let Some(id) = id else {
            // A notification needs no answer, but its envelope does.
            let answer = json!({ "mcp_response": { "jsonrpc": "2.0", "id": 0, "result": {} } });
            return succeed(key, &answer, out);
        };
        if !self.setup.served.contains(&server) {
            let error = json!({ "code": -32601, "message": format!("no MCP server `{server}` here") });
            let answer = json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "error": error } });
            return succeed(key, &answer, out);
        }
        let body = json!({ "server": server, "message": message });
        let ask = Ask::Other { name: "mcp_message".into(), body };
        self.open(key, Open::Mcp { id }, Opened { ask, parent: None, tool: None }, line, out);
    }

    /// The CLI takes a request back.
    pub(super) fn cancelled(&mut self, message: &Envelope<'_>, line: &str, out: &mut Output) {
        let Some(key) = message.request_id.as_deref() else {
            return out.unknown(KIND, "control_cancel_request", line);
        };
        if self.requests.open.shift_remove(key).is_some() {
            out.report(Report::RequestWithdrawn { key: key.to_owned() });
        }
    }

    /// After a reconnection: the open requests. Lost requests are opened again; missing ones were taken back.
    pub(super) fn recover_requests(&mut self, pending: &RawValue, out: &mut Output) {
        let lines: Vec<&RawValue> = serde_json::from_str(pending.get()).unwrap_or_default();
        let answered = self.requests.answered.take().unwrap_or_default();
        let mut keys = vec![];
        for line in lines {
            if let Ok(message) = serde_json::from_str::<Envelope<'_>>(line.get()) {
                if message.request_id.as_deref().is_some_and(|key| answered.contains(key)) {
                    continue;
                }
                keys.extend(message.request_id.as_deref().map(str::to_owned));
                self.asked(&message, line.get(), out);
            }
        }
        let tools = self.requests.open.iter().filter(|(_, open)| matches!(open, Open::Tool { .. }));
        let gone: Vec<_> = tools.filter(|(key, _)| !keys.contains(key)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.requests.open.shift_remove(&key);
            out.report(Report::RequestWithdrawn { key });
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
        let Some(open) = self.requests.open.shift_remove(key) else {
            return out.rejected(instruction_id, "the agent no longer waits for this answer");
        };
        if let Some(answered) = &mut self.requests.answered {
            answered.insert(key.to_owned());
        }
        let response = match open {
            Open::Tool { input, tool } => self.tool_answer(input, tool, ask, answer),
            Open::Hook { event } => hook_answer(&event, answer),
            Open::Rules { tool, .. } => {
                self.subagents.denied.extend(tool);
                hook_answer("PreToolUse", answer)
            }
            Open::Elicitation => elicitation_answer(answer),
            Open::Mcp { id } => mcp_answer(id, answer),
        };
        out.write_and_consume(instruction_id, &envelope(key, &response));
    }

    /// What policy says about a call that the CLI is about to make: without an opinion the CLI decides by itself.
    pub(super) fn call_checked(&mut self, key: &str, decision: Decision, out: &mut Output) {
        if !matches!(self.requests.open.get(key), Some(Open::Rules { .. })) {
            return;
        }
        self.requests.open.shift_remove(key);
        let response = match decision {
            Decision::Allow => json!({}),
            Decision::Ask => before_call_output("ask", "Portolan asks about this call"),
            Decision::Deny => before_call_output("deny", DENIED),
        };
        succeed(key, &response, out);
    }

    fn tool_answer(
        &mut self,
        input: Box<RawValue>,
        tool: Option<String>,
        ask: &Ask,
        answer: Answer,
    ) -> Value {
        let original = || wire::value(Some(&input));
        match answer {
            Answer::Deny { message, interrupt, .. } => {
                if let (true, Some(turn)) = (interrupt, &mut self.turn) {
                    turn.interrupted = true;
                }
                self.subagents.denied.extend(tool);
                let message = message.filter(|it| !it.is_empty()).unwrap_or_else(|| DENIED.into());
                let mut response = json!({ "behavior": "deny", "message": message });
                if interrupt {
                    response["interrupt"] = json!(true);
                }
                response
            }
            Answer::Choices { answers } => {
                let mut input = Some(original()).filter(Value::is_object).unwrap_or_else(|| json!({}));
                let answers: IndexMap<_, _> =
                    answers.into_iter().map(|(question, chosen)| (question, chosen.join(", "))).collect();
                input["answers"] = json!(answers);
                json!({ "behavior": "allow", "updatedInput": input })
            }
            Answer::Allow { input: edited, mode, .. } => {
                // Without an input, older versions report a failure: the original input is always sent.
                let input = edited.filter(Value::is_object).unwrap_or_else(original);
                let mut response = json!({ "behavior": "allow", "updatedInput": input });
                if let (Some(mode), Ask::Plan { .. }) = (mode, ask) {
                    response["updatedPermissions"] =
                        json!([{ "type": "setMode", "mode": mode, "destination": "session" }]);
                }
                response
            }
            // Not answers to these requests; core lets none through.
            Answer::Content { .. } | Answer::Output { .. } => {
                json!({ "behavior": "deny", "message": DENIED })
            }
        }
    }

    /// An interrupt takes back permissions, but leaves hooks and the like waiting: they are released.
    pub(super) fn release_all(&mut self, out: &mut Output) {
        let open = std::mem::take(&mut self.requests.open);
        for (key, open) in open {
            let nothing = Answer::Deny { message: None, interrupt: false, option: None };
            let response = match open {
                Open::Tool { .. } => {
                    self.requests.open.insert(key, open);
                    continue;
                }
                Open::Hook { .. } => json!({}),
                // The call has not begun, and nobody has decided about it.
                Open::Rules { name, .. } => before_call_output("deny", &cancelled(&name)),
                Open::Elicitation => json!({ "action": "cancel" }),
                Open::Mcp { id } => mcp_answer(id, nothing),
            };
            succeed(&key, &response, out);
        }
    }
}

/// A request as the session gets it.
struct Opened {
    ask: Ask,
    parent: Option<String>,
    tool: Option<String>,
}

fn envelope(key: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": key, "response": response },
    })
}

fn succeed(key: &str, response: &Value, out: &mut Output) {
    out.write(&envelope(key, response));
}

fn refuse(key: &str, error: &str, out: &mut Output) {
    out.write(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": key, "error": error },
    }));
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".into()).unwrap_or_default()
}

fn questions(input: &Value) -> Option<Ask> {
    #[derive(Deserialize)]
    struct Asked {
        questions: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        question: String,
        #[serde(default)]
        header: Option<String>,
        #[serde(default)]
        options: Vec<Offer>,
        #[serde(rename = "multiSelect", default)]
        multiple: bool,
    }
    #[derive(Deserialize)]
    struct Offer {
        label: String,
        #[serde(default)]
        description: Option<String>,
    }
    // A list of the right parts would also parse, but it has no place for the answers.
    let asked: Asked = serde_json::from_value(input.clone()).ok().filter(|_| input.is_object())?;
    let question = |one: One| Question {
        question: one.question,
        header: one.header,
        choices: one
            .options
            .into_iter()
            .map(|offer| Choice { label: offer.label, description: offer.description })
            .collect(),
        multiple: one.multiple,
        // Free text is always accepted.
        free_text: true,
        secret: false,
    };
    let questions: Vec<_> = asked.questions.into_iter().map(question).collect();
    (!questions.is_empty()).then_some(Ask::Question { questions })
}

fn before_call_output(decision: &str, reason: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }})
}

fn hook_answer(event: &str, answer: Answer) -> Value {
    match answer {
        Answer::Output { output } if output.is_object() => output,
        Answer::Deny { message, interrupt, .. } => {
            let reason = message.unwrap_or_else(|| DENIED.into());
            match event {
                _ if interrupt => json!({ "continue": false, "stopReason": reason }),
                "PreToolUse" => before_call_output("deny", &reason),
                "UserPromptSubmit" => json!({ "decision": "block", "reason": reason }),
                // A denial of other hooks has no effect: to block an end would make the agent go on.
                _ => json!({}),
            }
        }
        _ => json!({}),
    }
}

fn elicitation_answer(answer: Answer) -> Value {
    match answer {
        Answer::Content { content } => json!({ "action": "accept", "content": content }),
        Answer::Allow { .. } => json!({ "action": "accept" }),
        Answer::Deny { interrupt: true, .. } => json!({ "action": "cancel" }),
        _ => json!({ "action": "decline" }),
    }
}

fn mcp_answer(id: Value, answer: Answer) -> Value {
    let mut response = match answer {
        Answer::Output { output } if output.is_object() => output,
        Answer::Deny { message, .. } => {
            let message = message.unwrap_or_else(|| DENIED.into());
            json!({ "error": { "code": -32000, "message": message } })
        }
        _ => json!({ "error": { "code": -32000, "message": "no answer" } }),
    };
    response["jsonrpc"] = json!("2.0");
    response["id"] = id;
    json!({ "mcp_response": response })
}
