//! Codex' requests as the session gets them: everything that an approval would allow is shown.
//!
//! Codex' own approvals that last are not offered: Codex would keep them, and would then not ask about calls that a
//! deny rule forbids. Portolan's own rules take their place.

use indexmap::IndexMap;
use portolan_core::request::{Ask, AskOption, Choice, Question, Verdict};
use serde_json::{Value, json};

use super::{
    super::{
        translate::Translate,
        wire::{some_text, text},
    },
    Asked, CANCEL, NETWORK, Opened,
};

/// The tool name for a request of more permissions.
const PERMISSIONS: &str = "request_permissions";

impl Translate {
    /// The approval names only the item, which has the changes.
    pub(super) fn file_change(&self, params: &Value) -> Option<Opened> {
        let item = some_text(params, "itemId")?;
        let (mut input, changes) = self.items.changes_of(&text(params, "threadId"), &item);
        let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
        if input.is_null() {
            input = json!({ "paths": paths });
        }
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
            folder: None,
            suggestions: vec![],
            options: vec![cancel()],
        };
        Some(Opened { ask, tool: Some(item), what: Asked::Change })
    }

    pub(super) fn elicitation(&self, params: &Value) -> Opened {
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
        let ask = Ask::Permission {
            // If the tool is not known, its name never matches a rule for a known tool.
            tool_name: called.as_ref().map_or_else(
                || format!("mcp__{server}: {}", text(params, "message")),
                |(_, name)| name.clone(),
            ),
            input: Some(meta["tool_params"].clone()).filter(Value::is_object).unwrap_or_else(|| json!({})),
            description: some_text(meta, "tool_description"),
            changes: vec![],
            reason: some_text(params, "message"),
            blocked_path: None,
            folder: None,
            suggestions: vec![],
            options: vec![cancel()],
        };
        Opened { ask, tool: called.map(|(id, _)| id), what: Asked::McpCall }
    }
}

fn cancel() -> AskOption {
    AskOption::new(CANCEL, "No, and stop the turn", Verdict::Deny)
}

pub(super) fn command(params: &Value) -> Option<Opened> {
    let item = some_text(params, "itemId")?;
    let amendment = params["proposedExecpolicyAmendment"].clone();
    let rules = params["proposedNetworkPolicyAmendments"].as_array().cloned().unwrap_or_default();
    let denials = rules.iter().enumerate().filter_map(|(number, rule)| host_denial(number, rule));
    let options = denials.chain([cancel()]).collect();
    let network = &params["networkApprovalContext"];
    let mut input = json!({ "command": params["command"], "cwd": params["cwd"] });
    if network.is_object() {
        input["network"] = network.clone();
    }
    let host = some_text(network, "host").map(|host| format!("Codex wants to reach {host}"));
    let more = &params["additionalPermissions"];
    if more.is_object() {
        input["additional_permissions"] = more.clone();
    }
    // An approval allows all of it, so all of it is shown.
    let reasons = [some_text(params, "reason"), host, wanted(more)];
    let reason = reasons.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let ask = Ask::Permission {
        tool_name: "exec_command".into(),
        input,
        description: some_text(params, "command"),
        changes: vec![],
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        blocked_path: None,
        folder: None,
        suggestions: Some(amendment).filter(Value::is_array).into_iter().collect(),
        options,
    };
    Some(Opened { ask, tool: Some(item), what: Asked::Command { network: rules } })
}

/// A rule of Codex that forbids a host from now on.
fn host_denial(number: usize, rule: &Value) -> Option<AskOption> {
    let host = some_text(rule, "host").filter(|_| rule["action"] == "deny")?;
    Some(AskOption::new(format!("{NETWORK}-{number}"), format!("No, and never {host}"), Verdict::Deny))
}

/// Further permissions as text.
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
    (!all.is_empty()).then(|| format!("Codex asks for {}", all.join(", ")))
}

pub(super) fn permissions(params: &Value) -> Option<Opened> {
    let asked = Some(params["permissions"].clone()).filter(Value::is_object)?;
    let ask = Ask::Permission {
        tool_name: PERMISSIONS.into(),
        input: json!({ "permissions": asked, "cwd": params["cwd"] }),
        description: wanted(&asked),
        changes: vec![],
        reason: some_text(params, "reason"),
        blocked_path: None,
        folder: None,
        suggestions: vec![],
        options: vec![],
    };
    Some(Opened { ask, tool: some_text(params, "itemId"), what: Asked::Permissions { asked } })
}

pub(super) fn questions(params: &Value) -> Option<Opened> {
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

/// Answers are keyed by the text of their question: a second question with the same text gets a number.
fn distinct(question: String, known: &IndexMap<String, String>) -> String {
    if !known.contains_key(&question) {
        return question;
    }
    let numbered = (2..).map(|number| format!("{question} ({number})"));
    numbered.into_iter().find(|numbered| !known.contains_key(numbered)).unwrap_or(question)
}

#[cfg(test)]
mod tests {
    use portolan_core::request::Answer;

    use super::{super::answering::questions_answer, *};

    #[test]
    fn everything_that_a_yes_would_give_is_told() {
        let more = json!({ "network": { "enabled": true }, "fileSystem": { "write": ["/harbour"], "entries": [
            { "access": "read", "path": { "type": "path", "path": "/charts" } },
            { "access": "write", "path": { "type": "glob_pattern", "pattern": "**/*.log" } },
            { "access": "write", "path": { "type": "special", "value": { "kind": "root" } } } ] } });
        let params = json!({ "itemId": "c", "command": "sail", "reason": "to arrive", "additionalPermissions": more,
            "networkApprovalContext": { "host": "a.example", "protocol": "https" },
            "proposedExecpolicyAmendment": ["sail"], "proposedNetworkPolicyAmendments": [
            { "host": "a.example", "action": "deny" }, { "host": "a.example", "action": "allow" }] });
        let Some(Opened { ask: Ask::Permission { input, reason, options, .. }, .. }) = command(&params)
        else {
            panic!("it is a permission")
        };
        assert_eq!(input["additional_permissions"], more);
        assert_eq!(
            reason.unwrap(),
            "to arrive; Codex wants to reach a.example; Codex asks for the network, to write /harbour, to \
             read /charts, to write **/*.log, to write root"
        );
        let offered: Vec<_> = options.iter().map(|option| (option.id.as_str(), option.verdict)).collect();
        let rule = ("applyNetworkPolicyAmendment-0", Verdict::Deny);
        assert_eq!(offered, [rule, (CANCEL, Verdict::Deny)], "no approval that lasts");
        assert_eq!(wanted(&json!({ "newer": 1 })).unwrap(), "Codex asks for {\"newer\":1}");
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
}
