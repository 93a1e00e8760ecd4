//! How four buttons and one line of text show and answer each kind of request. Pure.
//!
//! | request | panel | A (yes) | X (always) | B (no) | command |
//! |---|---|---|---|---|---|
//! | permission | tool, its action, the reason, the risk | allow | allow, and a rule for the session | deny | is a prompt |
//! | plan | the plan | allow | allow | deny | is a prompt |
//! | question | one question with its choices | nothing | nothing | deny | answers it |
//! | form of a tool server | its text and fields | accept, if it has no fields | the same | deny | fills it in |
//! | hook | the event and its subject | continue | continue | deny | is a prompt |
//! | something newer | its name | nothing | nothing | deny | is a prompt |
//!
//! An empty approval is never sent: if yes has no meaning for a request, the button does nothing.

use indexmap::IndexMap;
use portolan_core::request::{Answer, Ask, Question, Request, Scope};
use serde_json::{Map, Value, json};

use super::{parse::Button, wire::Prompt};

/// The message for the agent after B.
pub const DENIED: &str = "Denied by user via rAI3DS";

/// The input keys that may hold the detail of a prompt, in this order.
const DETAIL_KEYS: [&str; 5] = ["command", "file_path", "pattern", "query", "url"];

/// The answered questions of one request, by their text.
pub type Given = IndexMap<String, Vec<String>>;

/// The answer of a button, if it has one.
pub fn pressed(ask: &Ask, button: Button) -> Option<Answer> {
    let allow = |scope| Answer::Allow { input: None, scope, mode: None, option: None };
    match (button, ask) {
        (Button::Escape, _) => None,
        (Button::No, _) => Some(Answer::deny(Some(DENIED.into()))),
        (Button::Yes, Ask::Permission { .. }) => Some(allow(Scope::Once)),
        (Button::Always, Ask::Permission { .. }) => Some(allow(Scope::Session)),
        (Button::Yes | Button::Always, Ask::Plan { .. }) => Some(allow(Scope::Once)),
        (Button::Yes | Button::Always, Ask::Elicitation { schema, .. }) => {
            let empty = Answer::Content { content: json!({}) };
            fields(schema.as_ref()).is_empty().then_some(empty)
        }
        (Button::Yes | Button::Always, Ask::Hook { .. }) => Some(Answer::Output { output: json!({}) }),
        (Button::Yes | Button::Always, Ask::Question { .. } | Ask::Other { .. }) => None,
    }
}

/// The meaning of a command while a request is open.
#[derive(Clone, Debug, PartialEq)]
pub enum Words {
    /// The command answers the request.
    Answer(Answer),
    /// The command answers one of several questions; the next question follows.
    More(Given),
    /// The command should be an answer, but is not valid: this is expected.
    Wanted(String),
    /// The command has nothing to do with the request.
    Prompt,
}

/// The answer of a command.
pub fn said(ask: &Ask, given: &Given, text: &str) -> Words {
    match ask {
        Ask::Question { questions } => answer_question(questions, given, text),
        Ask::Elicitation { schema, .. } => fill_in(schema.as_ref(), text),
        Ask::Permission { .. } | Ask::Plan { .. } | Ask::Hook { .. } | Ask::Other { .. } => Words::Prompt,
    }
}

fn answer_question(questions: &[Question], given: &Given, text: &str) -> Words {
    let Some((_, question)) = current(questions, given) else { return Words::Prompt };
    let chosen = match choose(question, text) {
        Ok(chosen) => chosen,
        Err(wanted) => return Words::Wanted(wanted),
    };
    let mut given = given.clone();
    given.insert(question.question.clone(), chosen);
    if current(questions, &given).is_some() {
        Words::More(given)
    } else {
        Words::Answer(Answer::Choices { answers: given })
    }
}

/// The first question without an answer, and its number.
fn current<'a>(questions: &'a [Question], given: &Given) -> Option<(usize, &'a Question)> {
    questions.iter().enumerate().find(|(_, question)| !given.contains_key(&question.question))
}

/// Choices by number or by name; free text if the question allows it.
fn choose(question: &Question, text: &str) -> Result<Vec<String>, String> {
    let choices = &question.choices;
    let one = |text: &str| {
        let by_number = text.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
        let by_name = || choices.iter().find(|choice| choice.label.eq_ignore_ascii_case(text));
        by_number.or_else(by_name).map(|choice| choice.label.clone())
    };
    if let Some(label) = one(text) {
        return Ok(vec![label]);
    }
    if question.multiple
        && let Some(mut labels) = text.split(',').map(|part| one(part.trim())).collect::<Option<Vec<_>>>()
    {
        labels.dedup();
        return Ok(labels);
    }
    if choices.is_empty() || question.free_text {
        return Ok(vec![text.to_owned()]);
    }
    Err(format!("Send a number from 1 to {}", choices.len()))
}

/// The fields of a form, in its order.
fn fields(schema: Option<&Value>) -> Vec<(&String, &Value)> {
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    properties.map(|properties| properties.iter().collect()).unwrap_or_default()
}

fn fill_in(schema: Option<&Value>, text: &str) -> Words {
    let fields = fields(schema);
    let is_required = |name: &str| {
        let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|one| one == name))
    };
    let required: Vec<_> = fields.iter().filter(|(name, _)| is_required(name)).copied().collect();
    let pairs = text.split(',').map(|part| {
        let (name, value) = part.split_once('=')?;
        let field = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()))?;
        Some((*field, value.trim()))
    });
    let pairs: Option<Vec<_>> = pairs.collect();
    let pairs = match (pairs, fields.as_slice(), required.as_slice()) {
        (_, [], _) => return Words::Prompt,
        (Some(pairs), ..) => pairs,
        (None, [only], _) | (None, _, [only]) => vec![(*only, text)],
        (None, ..) => return Words::Wanted(format!("Send {}", example(&fields))),
    };
    let mut content = Map::new();
    for ((name, kind), value) in pairs {
        match value_of(kind, value) {
            Ok(value) => content.insert(name.clone(), value),
            Err(wanted) => return Words::Wanted(format!("{name} must be {wanted}")),
        };
    }
    if let Some((name, _)) = required.iter().find(|(name, _)| !content.contains_key(*name)) {
        return Words::Wanted(format!("{name} is missing; send {}", example(&fields)));
    }
    Words::Answer(Answer::Content { content: Value::Object(content) })
}

fn example(fields: &[(&String, &Value)]) -> String {
    fields.iter().map(|(name, _)| format!("{name}=...")).collect::<Vec<_>>().join(", ")
}

fn value_of(kind: &Value, text: &str) -> Result<Value, &'static str> {
    if let Some(known) = kind.get("enum").and_then(Value::as_array) {
        let found = known.iter().find(|one| one.as_str().is_some_and(|one| one.eq_ignore_ascii_case(text)));
        return found.cloned().ok_or("one of its values");
    }
    match kind.get("type").and_then(Value::as_str) {
        Some("integer") => text.parse::<i64>().map(Value::from).map_err(|_| "a whole number"),
        Some("number") => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::from(number)),
            _ => Err("a number"),
        },
        Some("boolean") => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(Value::Bool(true)),
            "false" | "no" | "0" => Ok(Value::Bool(false)),
            _ => Err("yes or no"),
        },
        _ => Ok(Value::from(text)),
    }
}

/// One line for the open request: of several questions, the current one.
pub fn title(ask: &Ask, given: &Given) -> String {
    let question = match ask {
        Ask::Question { questions } => current(questions, given),
        _ => None,
    };
    question.map_or_else(|| ask.title(), |(_, question)| question.question.clone())
}

/// The panel with the risk of the request and the time of its deadline, as far as there are any.
pub fn with_risk(prompt: Prompt, open: &Request) -> Prompt {
    let risk = open.policy.as_ref().map(|judgement| match judgement.risk.reasons.as_slice() {
        [] => format!("risk {}", judgement.risk.level.word()),
        reasons => format!("risk {}: {}", judgement.risk.level.word(), reasons.join(", ")),
    });
    let until = open.deadline.map(|deadline| {
        let minutes = deadline.0.div_euclid(60_000).rem_euclid(24 * 60);
        format!("denied at {:02}:{:02} UTC", minutes / 60, minutes % 60)
    });
    let said = Some(prompt.description.clone()).filter(|said| !said.is_empty());
    let description = said.into_iter().chain(risk).chain(until).collect::<Vec<_>>().join(" · ");
    Prompt { description, ..prompt }
}

/// The content of the panel. `complaint` is the problem of the last answer.
pub fn prompt(ask: &Ask, given: &Given, complaint: Option<&str>) -> Prompt {
    let complaint = complaint.map(|wanted| format!("{wanted}. ")).unwrap_or_default();
    let panel = |tool_type: &str, tool_detail: String, description: String| Prompt {
        tool_type: tool_type.to_owned(),
        tool_detail,
        description: format!("{complaint}{description}"),
    };
    match ask {
        Ask::Permission { tool_name, input, description, reason, .. } => {
            let why = description.as_ref().or(reason.as_ref()).cloned().unwrap_or_default();
            panel(tool_name, detail(input), why)
        }
        Ask::Question { questions } => {
            let Some((number, question)) = current(questions, given) else {
                return panel("Question", String::new(), String::new());
            };
            let of = if questions.len() > 1 {
                format!("Question {}/{}", number + 1, questions.len())
            } else {
                "Question".into()
            };
            let heading =
                question.header.as_ref().map_or_else(|| of.clone(), |header| format!("{of}: {header}"));
            let how = match (question.choices.is_empty(), question.multiple, question.secret) {
                (_, _, true) => "Send the answer; it crosses your network unencrypted. B: no answer.",
                (true, ..) => "Send the answer as a command. B: no answer.",
                (false, true, _) => "Send the numbers, such as 1,2. B: no answer.",
                (false, false, _) => "Send the number of a choice. B: no answer.",
            };
            panel(&heading, with_choices(question), how.into())
        }
        Ask::Plan { plan, .. } => {
            let text = plan.clone().unwrap_or_else(|| "The agent does not show its plan.".into());
            panel("Plan", text, "A: carry it out. B: go on planning.".into())
        }
        Ask::Elicitation { server, message, schema, url } => {
            let fields = fields(schema.as_ref());
            let mut text = message.clone();
            for (name, kind) in &fields {
                let title = kind.get("title").and_then(Value::as_str).unwrap_or(name);
                text = format!("{text}\n{name}: {title}");
            }
            if let Some(url) = url {
                text = format!("{text}\n{url}");
            }
            let how = match fields.as_slice() {
                [] => "A: accept. B: decline.".into(),
                [_] => "Send the answer as a command. B: decline.".into(),
                several => format!("Send {}. B: decline.", example(several)),
            };
            panel(&format!("Form: {server}"), text, how)
        }
        Ask::Hook { event, input } => {
            panel(&format!("Hook: {event}"), hook_detail(input), "A: go on. B: block.".into())
        }
        Ask::Other { name, body } => {
            panel(name, detail(body), "Answer it in another client. B: decline.".into())
        }
    }
}

fn with_choices(question: &Question) -> String {
    let mut text = question.question.clone();
    for (index, choice) in question.choices.iter().enumerate() {
        text = format!("{text}\n{} {}", index + 1, choice.label);
        if let Some(description) = &choice.description {
            text = format!("{text}: {description}");
        }
    }
    text
}

/// The subject of a hook: the tool that is called, otherwise its prompt text. Its other texts are ids and paths.
fn hook_detail(input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    if let Some(tool) = text("tool_name") {
        return format!("{tool}: {}", detail(input.get("tool_input").unwrap_or(&Value::Null)));
    }
    text("prompt").or_else(|| text("message")).or_else(|| text("reason")).unwrap_or_default().to_owned()
}

/// The action of a tool: the first usual key with text, otherwise the first text.
pub fn detail(input: &Value) -> String {
    let usual = DETAIL_KEYS.iter().find_map(|key| input.get(key)?.as_str());
    let any = || input.as_object()?.values().find_map(Value::as_str);
    usual.or_else(any).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(input: Value) -> Ask {
        Ask::permission("Bash", input)
            .with_description("List the folder".to_owned())
            .with_suggestions(vec![json!({ "type": "setMode", "mode": "acceptEdits" })])
    }

    fn question(text: &str, labels: &[&str], multiple: bool, free_text: bool) -> Question {
        Question { multiple, free_text, ..portolan_testkit::sessions::question(text, labels) }
    }

    fn form(properties: Value, required: &[&str]) -> Ask {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        Ask::Elicitation {
            server: "harbour".into(),
            message: "Berth?".into(),
            schema: Some(schema),
            url: None,
        }
    }

    fn every_kind() -> Vec<Ask> {
        vec![
            permission(json!({ "command": "ls" })),
            Ask::Question { questions: vec![question("Where?", &["Genoa", "Majorca"], false, false)] },
            Ask::Plan { plan: Some("1. Sail".into()), input: json!({}) },
            form(json!({ "berth": { "type": "integer" } }), &["berth"]),
            Ask::Elicitation { server: "harbour".into(), message: "Sure?".into(), schema: None, url: None },
            Ask::Hook { event: "Stop".into(), input: json!({ "reason": "done" }) },
            Ask::Other { name: "future".into(), body: json!({}) },
        ]
    }

    #[test]
    fn the_panel_says_how_dangerous_a_request_is_and_when_it_is_denied() {
        let ask = json!({ "kind": "permission", "tool_name": "Bash", "input": {}, "description": "List" });
        let mut open = json!({ "request": 1, "generation": 1, "digest": "d", "opened_at": 0, "ask": ask });
        let said = |open: &serde_json::Value| {
            let open: Request = serde_json::from_value(open.clone()).unwrap();
            with_risk(prompt(&open.ask, &Given::new(), None), &open).description
        };
        assert_eq!(said(&open), "List");
        open["deadline"] = json!((21 * 60 + 5) * 60_000);
        open["policy"] = json!({ "decision": "ask", "why": "x",
            "risk": { "level": "high", "reasons": ["runs a command"] } });
        assert_eq!(said(&open), "List · risk high: runs a command · denied at 21:05 UTC");
    }

    #[test]
    fn every_answer_of_a_button_fits_what_was_asked() {
        for ask in every_kind() {
            for button in [Button::Yes, Button::Always, Button::No, Button::Escape] {
                if let Some(answer) = pressed(&ask, button) {
                    assert_eq!(answer.fits(&ask), Ok(()), "{button:?} {ask:?}");
                }
            }
        }
    }

    // covers: 000-061, 000-062, 000-063
    #[test]
    fn the_buttons_allow_allow_for_the_session_and_deny() {
        let ask = permission(json!({ "command": "ls" }));
        assert_eq!(pressed(&ask, Button::Yes), Some(Answer::allow()), "with the input as it was asked");
        assert_eq!(
            pressed(&ask, Button::Always),
            Some(Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None }),
            "our own rule for the tool; what the agent suggests may widen more"
        );
        assert_eq!(pressed(&ask, Button::No), Some(Answer::deny(Some("Denied by user via rAI3DS".into()))));
        assert_eq!(pressed(&ask, Button::Escape), None);
    }

    #[test]
    fn yes_never_approves_what_it_cannot_mean() {
        let silent: Vec<_> = every_kind()
            .into_iter()
            .filter(|ask| pressed(ask, Button::Yes).is_none() && pressed(ask, Button::Always).is_none())
            .map(|ask| ask.kind())
            .collect();
        assert_eq!(silent, ["question", "elicitation", "other"]);
    }

    // covers: 000-066
    #[test]
    fn the_detail_is_the_first_usual_key_else_the_first_text() {
        let of = |input: Value| detail(&input);
        assert_eq!(of(json!({ "url": "u", "command": "c", "file_path": "f" })), "c");
        assert_eq!(of(json!({ "pattern": "p", "file_path": "f" })), "f");
        assert_eq!(of(json!({ "query": "q", "pattern": "p" })), "p");
        assert_eq!(of(json!({ "url": "u", "query": "q" })), "q");
        assert_eq!(of(json!({ "url": "u", "other": "o" })), "u");
        assert_eq!(of(json!({ "command": 7, "number": 1, "words": "w", "more": "m" })), "w");
        assert_eq!(of(json!({ "number": 1 })), "");
        assert_eq!(of(json!("text")), "");
    }

    #[test]
    fn a_question_is_answered_by_number_by_name_or_in_own_words() {
        let one = |question: Question, text: &str| {
            said(&Ask::Question { questions: vec![question] }, &Given::new(), text)
        };
        let answer = |question: &str, chosen: &[&str]| {
            let chosen = chosen.iter().map(|one| (*one).to_owned()).collect();
            Words::Answer(Answer::Choices { answers: [(question.to_owned(), chosen)].into() })
        };
        let where_to = || question("Where?", &["Genoa", "Majorca"], false, false);
        assert_eq!(one(where_to(), "2"), answer("Where?", &["Majorca"]));
        assert_eq!(one(where_to(), "genoa"), answer("Where?", &["Genoa"]));
        for wrong in ["0", "3", "home", "1,2"] {
            assert_eq!(one(where_to(), wrong), Words::Wanted("Send a number from 1 to 2".into()));
        }
        let cargo = || question("Cargo?", &["Charts", "A cat"], true, true);
        assert_eq!(one(cargo(), "1, a cat"), answer("Cargo?", &["Charts", "A cat"]));
        assert_eq!(one(cargo(), "a dog"), answer("Cargo?", &["a dog"]));
        assert_eq!(one(question("Name?", &[], false, true), "Argo"), answer("Name?", &["Argo"]));
    }

    #[test]
    fn several_questions_are_asked_one_after_the_other_and_answered_together() {
        let ask = Ask::Question {
            questions: vec![
                question("Where?", &["Genoa", "Majorca"], false, false),
                question("Name?", &[], false, true),
            ],
        };
        let none = Given::new();
        assert_eq!(prompt(&ask, &none, None).tool_type, "Question 1/2");
        assert_eq!(prompt(&ask, &none, None).tool_detail, "Where?\n1 Genoa\n2 Majorca");
        let Words::More(given) = said(&ask, &none, "1") else { panic!("there is another") };
        assert_eq!(prompt(&ask, &given, None).tool_detail, "Name?");
        let all = [("Where?".into(), vec!["Genoa".into()]), ("Name?".into(), vec!["Argo".into()])].into();
        let answer = Answer::Choices { answers: all };
        assert_eq!(answer.fits(&ask), Ok(()));
        assert_eq!(said(&ask, &given, "Argo"), Words::Answer(answer));
    }

    #[test]
    fn a_form_is_filled_in_by_one_value_or_by_names() {
        let berth = json!({ "berth": { "type": "integer" }, "overnight": { "type": "boolean" } });
        let ask = form(berth.clone(), &["berth"]);
        let none = Given::new();
        let content = |content: Value| Words::Answer(Answer::Content { content });
        assert_eq!(said(&ask, &none, "12"), content(json!({ "berth": 12 })));
        assert_eq!(
            said(&ask, &none, "berth=3, OVERNIGHT=yes"),
            content(json!({ "berth": 3, "overnight": true }))
        );
        assert_eq!(said(&ask, &none, "many"), Words::Wanted("berth must be a whole number".into()));
        let missing = "berth is missing; send berth=..., overnight=...";
        assert_eq!(said(&ask, &none, "overnight=no"), Words::Wanted(missing.into()));
        let both = form(berth, &["berth", "overnight"]);
        assert_eq!(said(&both, &none, "12"), Words::Wanted("Send berth=..., overnight=...".into()));
        let colour =
            form(json!({ "colour": { "enum": ["red", "blue"] }, "size": { "type": "number" } }), &["colour"]);
        assert_eq!(said(&colour, &none, "Blue"), content(json!({ "colour": "blue" })));
        assert_eq!(
            said(&colour, &none, "colour=red,size=1e999"),
            Words::Wanted("size must be a number".into())
        );
        let plain = Ask::Elicitation { server: "s".into(), message: "Sure?".into(), schema: None, url: None };
        assert_eq!(said(&plain, &none, "fix the bug"), Words::Prompt);
    }

    #[test]
    fn every_kind_of_request_has_a_form() {
        let shown: Vec<_> = every_kind()
            .iter()
            .map(|ask| {
                let Prompt { tool_type, tool_detail, description } = prompt(ask, &Given::new(), None);
                (tool_type, tool_detail, description)
            })
            .collect();
        let expected = [
            ("Bash", "ls", "List the folder"),
            ("Question", "Where?\n1 Genoa\n2 Majorca", "Send the number of a choice. B: no answer."),
            ("Plan", "1. Sail", "A: carry it out. B: go on planning."),
            ("Form: harbour", "Berth?\nberth: berth", "Send the answer as a command. B: decline."),
            ("Form: harbour", "Sure?", "A: accept. B: decline."),
            ("Hook: Stop", "done", "A: go on. B: block."),
            ("future", "", "Answer it in another client. B: decline."),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())).collect();
        assert_eq!(shown, expected);
        let complained = prompt(&every_kind()[1], &Given::new(), Some("Send a number from 1 to 2"));
        assert!(complained.description.starts_with("Send a number from 1 to 2. Send"), "{complained:?}");
    }
}
