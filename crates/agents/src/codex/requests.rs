//! What Codex asks and waits for: approvals of commands, of changes to files, of more permissions, of MCP calls; its
//! questions, and those of MCP servers.
//!
//! Each is keyed by its id, which Codex counts from 0, and answered once. What nobody here knows is answered with an
//! error, so that Codex never waits for ever; an answer that it cannot read it takes as a no.

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    ports::{Report, Ticket},
    request::{Answer, Ask, AskOption, Choice, Question, Verdict},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json, value::RawValue};

use super::{
    KIND,
    calls::What,
    translate::{DIALECT, Translate},
    wire::{self, some_text, text},
};
use crate::driver::Turnout;

/// Codex' own words for what can be decided.
const FOR_SESSION: &str = "acceptForSession";
const AMEND: &str = "acceptWithExecpolicyAmendment";
const CANCEL: &str = "cancel";

/// The tool that an approval of more permissions is shown as.
const PERMISSIONS: &str = "request_permissions";

/// Stands before the reason of a denial, which Codex' own answer has no place for.
const DECLINED: &str = "The user declined this tool call: ";

/// Takes over a rule for a host that Codex proposes.
const NETWORK: &str = "applyNetworkPolicyAmendment";

/// Requests that may wait at once: more than the session shows to people.
const MAX_REQUESTS: usize = 512;

/// Requests that wait for an answer, by our key for them.
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
        amendment: Value,
        /// Rules for hosts, in the order of their options.
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

/// A request as the session is told of it.
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
        out: &mut Turnout,
    ) {
        let key = id.key();
        if self.requests.0.contains_key(&key) {
            // Asked again when a thread is taken up; it waits already.
            return;
        }
        if self.requests.0.len() >= MAX_REQUESTS {
            let error = "too many requests wait for an answer already";
            return out.write(&DIALECT.error(&id, Error::METHOD_NOT_FOUND, error));
        }
        let params: Value = wire::open(params).unwrap_or_default();
        let thread = text(&params, "threadId");
        let opened = match method {
            "item/commandExecution/requestApproval" => command(&params),
            "item/fileChange/requestApproval" => self.file_change(&params),
            "item/permissions/requestApproval" => permissions(&params),
            "item/tool/requestUserInput" => questions(&params),
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

    /// The approval names the item alone; what would change stands there.
    fn file_change(&self, params: &Value) -> Option<Opened> {
        let item = some_text(params, "itemId")?;
        let changes = self.items.changes_of(&text(params, "threadId"), &item);
        let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
        let mut input = json!({ "paths": paths });
        if let Some(root) = some_text(params, "grantRoot") {
            input["grant_root"] = json!(root);
        }
        let ask = Ask::Permission {
            tool_name: "apply_patch".into(),
            input,
            description: Some(paths.join(", ")).filter(|paths| !paths.is_empty()),
            changes,
            reason: some_text(params, "reason"),
            blocked_path: some_text(params, "grantRoot"),
            suggestions: vec![],
            options: vec![option(FOR_SESSION, "Yes, and these files for this session"), cancel()],
        };
        Some(Opened { ask, tool: Some(item), what: Asked::Change })
    }

    fn elicitation(&self, params: &Value) -> Opened {
        let (server, thread) = (text(params, "serverName"), text(params, "threadId"));
        let meta = &params["_meta"];
        if meta["codex_approval_kind"] != "mcp_tool_call" {
            let ask = Ask::Elicitation {
                server,
                message: text(params, "message"),
                schema: Some(params["requestedSchema"].clone()).filter(Value::is_object),
                url: some_text(params, "url"),
            };
            return Opened { ask, tool: None, what: Asked::Elicitation };
        }
        let called = self.items.call_of(&thread, &server);
        let persists = meta["persist"].as_array().map(Vec::as_slice).unwrap_or_default();
        let options = persists.iter().filter_map(Value::as_str).map(|scope| match scope {
            "session" => option("session", "Yes, and this tool for this session"),
            "always" => option("always", "Yes, and this tool from now on"),
            other => option(other, other),
        });
        let ask = Ask::Permission {
            // Where nobody can tell which tool it is, the name is one that a rule for a known tool never fits.
            tool_name: called.as_ref().map_or_else(
                || format!("mcp__{server}: {}", text(params, "message")),
                |(_, name)| name.clone(),
            ),
            input: Some(meta["tool_params"].clone()).filter(Value::is_object).unwrap_or_else(|| json!({})),
            description: some_text(meta, "tool_description"),
            changes: vec![],
            reason: some_text(params, "message"),
            blocked_path: None,
            suggestions: vec![],
            options: options.chain([cancel()]).collect(),
        };
        Opened { ask, tool: called.map(|(id, _)| id), what: Asked::McpCall }
    }

    /// However a request ends, Codex says so. Where it is still open here, it was not we who ended it.
    pub(super) fn resolved(&mut self, id: &Value, out: &mut Turnout) {
        let Ok(id) = serde_json::from_value::<Id>(id.clone()) else { return };
        if self.requests.0.shift_remove(&id.key()).is_some() {
            out.report(Report::RequestWithdrawn { key: id.key() });
        }
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answer(&mut self, ticket: Ticket, key: &str, ask: &Ask, answer: Answer, out: &mut Turnout) {
        let Some(Open { id, thread, what }) = self.requests.0.shift_remove(key) else {
            return out.rejected(ticket, "the agent does not wait for this any more");
        };
        if let Answer::Deny { message: Some(message), interrupt: false, option: None } = &answer
            && matches!(ask, Ask::Permission { .. })
        {
            self.tell_why(&thread, message, out);
        }
        let result = match what {
            Asked::Command { amendment, network } => {
                json!({ "decision": decision(&answer, &amendment, &network) })
            }
            Asked::Change => json!({ "decision": decision(&answer, &Value::Null, &[]) }),
            Asked::Permissions { asked } => permissions_answer(&answer, asked),
            Asked::McpCall | Asked::Elicitation => elicitation_answer(answer),
            Asked::Questions(ids) => questions_answer(answer, &ids),
        };
        out.write_and_consume(ticket, &DIALECT.result(&id, result));
    }

    /// The model is told why before it is told that; it then goes on with both.
    fn tell_why(&mut self, thread: &str, message: &str, out: &mut Turnout) {
        let Some(turn) = self.turns.steerable().map(str::to_owned) else { return };
        if message.is_empty() || !self.threads.is_main(thread) {
            return;
        }
        let input = json!([{ "type": "text", "text": format!("{DECLINED}{message}") }]);
        let params = self.of_thread(json!({ "input": input, "expectedTurnId": turn }));
        self.ask(None, What::Quiet, "turn/steer", Some(params), out);
    }
}

fn option(id: &str, label: &str) -> AskOption {
    AskOption { id: id.into(), label: label.into(), verdict: Verdict::Allow }
}

fn cancel() -> AskOption {
    AskOption { id: CANCEL.into(), label: "No, and stop the turn".into(), verdict: Verdict::Deny }
}

fn command(params: &Value) -> Option<Opened> {
    let item = some_text(params, "itemId")?;
    let amendment = params["proposedExecpolicyAmendment"].clone();
    let words: Vec<_> = amendment.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut options = vec![option(FOR_SESSION, "Yes, and this command for this session")];
    if !words.is_empty() {
        options
            .push(option(AMEND, &format!("Yes, and whatever begins with `{}` from now on", words.join(" "))));
    }
    let rules = params["proposedNetworkPolicyAmendments"].as_array().cloned().unwrap_or_default();
    options.extend(rules.iter().enumerate().filter_map(|(number, rule)| host_rule(number, rule)));
    options.push(cancel());
    let network = &params["networkApprovalContext"];
    let mut input = json!({ "command": params["command"], "cwd": params["cwd"] });
    if network.is_object() {
        input["network"] = network.clone();
    }
    let host = some_text(network, "host").map(|host| format!("it wants to reach {host}"));
    let more = &params["additionalPermissions"];
    if more.is_object() {
        input["additional_permissions"] = more.clone();
    }
    // A yes gives all of it: whoever answers reads all of it.
    let reasons = [some_text(params, "reason"), host, wanted(more)];
    let reason = reasons.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let ask = Ask::Permission {
        tool_name: "exec_command".into(),
        input,
        description: some_text(params, "command"),
        changes: vec![],
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        blocked_path: None,
        suggestions: Some(amendment.clone()).filter(Value::is_array).into_iter().collect(),
        options,
    };
    Some(Opened { ask, tool: Some(item), what: Asked::Command { amendment, network: rules } })
}

/// A rule that allows or forbids a host from now on.
fn host_rule(number: usize, rule: &Value) -> Option<AskOption> {
    let host = some_text(rule, "host")?;
    let id = format!("{NETWORK}-{number}");
    match rule["action"].as_str()? {
        "allow" => Some(option(&id, &format!("Yes, and {host} from now on"))),
        "deny" => {
            let label = format!("No, and never {host}");
            Some(AskOption { id, label, verdict: Verdict::Deny })
        }
        _ => None,
    }
}

/// Further permissions in words.
fn wanted(permissions: &Value) -> Option<String> {
    let mut all = Vec::new();
    if permissions["network"]["enabled"] == true {
        all.push("the network".to_owned());
    }
    let files = &permissions["fileSystem"];
    for access in ["read", "write"] {
        let paths = files[access].as_array().into_iter().flatten().filter_map(Value::as_str);
        all.extend(paths.map(|path| format!("to {access} {path}")));
    }
    for entry in files["entries"].as_array().into_iter().flatten() {
        let at = &entry["path"];
        let special = || {
            let kind = some_text(&at["value"], "kind")?;
            Some(match some_text(&at["value"], "subpath").or_else(|| some_text(&at["value"], "path")) {
                Some(path) => format!("{kind} {path}"),
                None => kind,
            })
        };
        let place = some_text(at, "path").or_else(|| some_text(at, "pattern")).or_else(special);
        let place = place.unwrap_or_else(|| at.to_string());
        all.push(match entry["access"].as_str() {
            Some("deny") => format!("nothing at {place}"),
            access => format!("to {} {place}", access.unwrap_or("use")),
        });
    }
    let unread = permissions.as_object().is_some_and(|all| !all.is_empty()) && all.is_empty();
    if unread {
        all.push(permissions.to_string());
    }
    (!all.is_empty()).then(|| format!("it asks for {}", all.join(", ")))
}

fn permissions(params: &Value) -> Option<Opened> {
    let asked = Some(params["permissions"].clone()).filter(Value::is_object)?;
    let ask = Ask::Permission {
        tool_name: PERMISSIONS.into(),
        input: json!({ "permissions": asked, "cwd": params["cwd"] }),
        description: wanted(&asked),
        changes: vec![],
        reason: some_text(params, "reason"),
        blocked_path: None,
        suggestions: vec![],
        options: vec![option("session", "Yes, for this session")],
    };
    Some(Opened { ask, tool: some_text(params, "itemId"), what: Asked::Permissions { asked } })
}

fn questions(params: &Value) -> Option<Opened> {
    let mut ids = IndexMap::new();
    let mut questions = Vec::new();
    for told in params["questions"].as_array()? {
        let question = distinct(text(told, "question"), &ids);
        ids.insert(question.clone(), text(told, "id"));
        let choices = told["options"].as_array().into_iter().flatten();
        questions.push(Question {
            question,
            header: some_text(told, "header"),
            choices: choices
                .map(|choice| Choice {
                    label: text(choice, "label"),
                    description: some_text(choice, "description"),
                })
                .collect(),
            multiple: false,
            free_text: told["isOther"] != false,
            secret: told["isSecret"] == true,
        });
    }
    let tool = some_text(params, "itemId");
    (!questions.is_empty()).then_some(Opened {
        ask: Ask::Question { questions },
        tool,
        what: Asked::Questions(ids),
    })
}

/// Answers are named by the text of their question: a second one with the same text is numbered.
fn distinct(question: String, known: &IndexMap<String, String>) -> String {
    if !known.contains_key(&question) {
        return question;
    }
    let numbered = (2..).map(|number| format!("{question} ({number})"));
    numbered.into_iter().find(|numbered| !known.contains_key(numbered)).unwrap_or(question)
}

/// The rule for a host that an option stands for, where it says what is answered.
fn host_rule_of(option: &str, network: &[Value], action: &str) -> Option<Value> {
    let number: usize = option.strip_prefix(NETWORK)?.strip_prefix('-')?.parse().ok()?;
    let rule = network.get(number).filter(|rule| rule["action"] == action)?;
    Some(json!({ NETWORK: { "network_policy_amendment": rule } }))
}

/// What is decided about a command or a change: by Codex' own word where one was chosen.
fn decision(answer: &Answer, amendment: &Value, network: &[Value]) -> Value {
    match answer {
        // Codex does what it asked about and nothing else: with another input it was not allowed.
        Answer::Allow { input: Some(_), .. } => json!("decline"),
        Answer::Allow { option, .. } => match option.as_deref() {
            None => json!("accept"),
            Some(FOR_SESSION) => json!(FOR_SESSION),
            Some(AMEND) if amendment.is_array() => json!({ AMEND: { "execpolicy_amendment": amendment } }),
            Some(CANCEL) => json!(CANCEL),
            // Whatever else it was to mean, it is not a plain yes.
            Some(other) => host_rule_of(other, network, "allow").unwrap_or_else(|| json!("decline")),
        },
        Answer::Deny { interrupt, option, .. } if *interrupt || option.as_deref() == Some(CANCEL) => {
            json!(CANCEL)
        }
        Answer::Deny { option: Some(option), .. } => {
            host_rule_of(option, network, "deny").unwrap_or_else(|| json!("decline"))
        }
        _ => json!("decline"),
    }
}

fn permissions_answer(answer: &Answer, asked: Value) -> Value {
    match answer {
        Answer::Allow { input: None, option, .. } if matches!(option.as_deref(), None | Some("session")) => {
            let scope = if option.is_some() { "session" } else { "turn" };
            json!({ "permissions": asked, "scope": scope })
        }
        _ => json!({ "permissions": {}, "scope": "turn" }),
    }
}

fn elicitation_answer(answer: Answer) -> Value {
    match answer {
        Answer::Content { content } => json!({ "action": "accept", "content": content, "_meta": null }),
        Answer::Allow { option: Some(option), .. } if option == CANCEL => {
            json!({ "action": "cancel", "content": null, "_meta": null })
        }
        Answer::Allow { input: None, option, .. } => {
            let meta = option.map(|scope| json!({ "persist": scope }));
            json!({ "action": "accept", "content": {}, "_meta": meta })
        }
        Answer::Deny { interrupt, option, .. } if interrupt || option.as_deref() == Some(CANCEL) => {
            json!({ "action": "cancel", "content": null, "_meta": null })
        }
        _ => json!({ "action": "decline", "content": null, "_meta": null }),
    }
}

fn questions_answer(answer: Answer, ids: &IndexMap<String, String>) -> Value {
    let mut answers = serde_json::Map::new();
    if let Answer::Choices { answers: chosen } = answer {
        for (question, chosen) in chosen {
            if let Some(id) = ids.get(&question) {
                answers.insert(id.clone(), json!({ "answers": chosen }));
            }
        }
    }
    json!({ "answers": answers })
}

#[cfg(test)]
mod tests {
    use portolan_core::request::Scope;

    use super::*;

    fn allow(option: Option<&str>, input: Option<Value>) -> Answer {
        Answer::Allow { input, scope: Scope::Once, mode: None, option: option.map(str::to_owned) }
    }

    fn deny(interrupt: bool) -> Answer {
        Answer::Deny { message: None, interrupt, option: None }
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        let amendment = json!(["git", "status"]);
        let network = [
            json!({ "host": "a.example", "action": "allow" }),
            json!({ "host": "a.example", "action": "deny" }),
        ];
        let decided = |answer: &Answer| decision(answer, &amendment, &network);
        assert_eq!(decided(&allow(None, None)), "accept");
        assert_eq!(decided(&allow(Some(FOR_SESSION), None)), FOR_SESSION);
        assert_eq!(
            decided(&allow(Some(AMEND), None)),
            json!({ AMEND: { "execpolicy_amendment": amendment } })
        );
        assert_eq!(decided(&allow(Some(CANCEL), None)), CANCEL, "an option that means no");
        assert_eq!(decided(&allow(Some("newer"), None)), "decline");
        assert_eq!(
            decided(&allow(None, Some(json!({ "command": "ls" })))),
            "decline",
            "it would run another command"
        );
        assert_eq!((decided(&deny(false)), decided(&deny(true))), (json!("decline"), json!(CANCEL)));
        assert_eq!(
            decision(&allow(Some(AMEND), None), &Value::Null, &[]),
            "decline",
            "there is nothing to amend"
        );
        let rule = |number: usize| json!({ NETWORK: { "network_policy_amendment": network[number] } });
        let refuse =
            |option: &str| Answer::Deny { message: None, interrupt: false, option: Some(option.into()) };
        assert_eq!(decided(&allow(Some("applyNetworkPolicyAmendment-0"), None)), rule(0));
        assert_eq!(decided(&refuse("applyNetworkPolicyAmendment-1")), rule(1));
        assert_eq!(
            decided(&allow(Some("applyNetworkPolicyAmendment-1"), None)),
            "decline",
            "a yes with a no"
        );
        assert_eq!(decided(&refuse("applyNetworkPolicyAmendment-0")), "decline", "a no with a yes");
        assert_eq!(decided(&allow(Some("applyNetworkPolicyAmendment-7"), None)), "decline");
    }

    #[test]
    fn everything_that_a_yes_would_give_is_told() {
        let more = json!({ "network": { "enabled": true }, "fileSystem": { "write": ["/harbour"], "entries": [
            { "access": "read", "path": { "type": "path", "path": "/charts" } },
            { "access": "write", "path": { "type": "glob_pattern", "pattern": "**/*.log" } },
            { "access": "write", "path": { "type": "special", "value": { "kind": "root" } } } ] } });
        let params = json!({ "itemId": "c", "command": "sail", "reason": "to arrive", "additionalPermissions": more,
            "networkApprovalContext": { "host": "a.example", "protocol": "https" },
            "proposedNetworkPolicyAmendments": [{ "host": "a.example", "action": "deny" }, { "action": "allow" }] });
        let Some(Opened { ask: Ask::Permission { input, reason, options, .. }, .. }) = command(&params)
        else {
            panic!("it is a permission")
        };
        assert_eq!(input["additional_permissions"], more);
        assert_eq!(
            reason.unwrap(),
            "to arrive; it wants to reach a.example; it asks for the network, to write /harbour, to read /charts, \
             to write **/*.log, to write root"
        );
        let offered: Vec<_> = options.iter().map(|option| (option.id.as_str(), option.verdict)).collect();
        let rule = ("applyNetworkPolicyAmendment-0", Verdict::Deny);
        assert_eq!(offered, [(FOR_SESSION, Verdict::Allow), rule, (CANCEL, Verdict::Deny)]);
        assert_eq!(wanted(&json!({ "newer": 1 })).unwrap(), "it asks for {\"newer\":1}");
        assert_eq!((wanted(&Value::Null), wanted(&json!({}))), (None, None));
    }

    #[test]
    fn questions_with_the_same_text_have_answers_of_their_own() {
        let asked = |id: &str| json!({ "id": id, "question": "Which way?", "options": [] });
        let params = json!({ "questions": [asked("a"), asked("b"), asked("c")] });
        let Some(Opened { ask: Ask::Question { questions }, what: Asked::Questions(ids), .. }) =
            questions(&params)
        else {
            panic!("they are questions")
        };
        let texts: Vec<_> = questions.into_iter().map(|question| question.question).collect();
        assert_eq!(texts, ["Which way?", "Which way? (2)", "Which way? (3)"]);
        let answers = texts.into_iter().zip(["north", "east", "south"].map(|way| vec![way.to_owned()]));
        let answer = questions_answer(Answer::Choices { answers: answers.collect() }, &ids);
        let expected = json!({ "a": { "answers": ["north"] }, "b": { "answers": ["east"] },
            "c": { "answers": ["south"] } });
        assert_eq!(answer["answers"], expected);
    }

    #[test]
    fn permissions_and_calls_are_given_only_by_what_was_offered() {
        let asked = json!({ "network": true });
        let given = |option| permissions_answer(&allow(option, None), asked.clone());
        assert_eq!(given(None), json!({ "permissions": asked, "scope": "turn" }));
        assert_eq!(given(Some("session")), json!({ "permissions": asked, "scope": "session" }));
        let nothing = json!({ "permissions": {}, "scope": "turn" });
        assert_eq!((given(Some(CANCEL)), given(Some("newer"))), (nothing.clone(), nothing));
        let action = |answer| elicitation_answer(answer)["action"].clone();
        assert_eq!(action(allow(None, None)), "accept");
        assert_eq!(action(allow(Some(CANCEL), None)), "cancel");
        assert_eq!(action(allow(None, Some(json!({ "path": "/" })))), "decline");
    }
}
