//! Parses bodies from clients into requests. Pure and total: any bytes give a request or a reason.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::error::Category;

use super::wire::{Approval, Envelope, Method, RunInput, StopBody};
use portolan_host::door::{JSON_DEPTH, json_depth_exceeds, reason};

/// The longest name of a thread or a run, in bytes. Clients use UUIDs; names are stored and repeated.
pub const NAME_BYTES: usize = 256;

/// Why a body is not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// It cannot be read.
    #[error("{0}")]
    Body(String),
    /// The single endpoint does not know the method.
    #[error("unknown method `{0}`; use info, agent/connect, agent/run or agent/stop")]
    Method(String),
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// List the agents.
    Info,
    /// Connect: the history and the running turn, of this agent.
    Connect(Option<String>, Box<RunInput>),
    /// Run: send a message or continue, with this agent.
    Run(Option<String>, Box<RunInput>),
    /// Stop the run on this thread.
    Stop(Option<String>, StopBody),
}

/// Reads a POST to the single endpoint. A body without a `method` that looks like a run's input is one: at
/// `/api/copilotkit` clients send both.
pub fn single(text: &[u8]) -> Result<Asked, Bad> {
    let text = text_of(text)?;
    let Envelope { method, params, body, messages } = object(text)?;
    let Some(method) = method else {
        if messages.is_some() {
            return Ok(Asked::Run(None, Box::new(checked(object(text)?)?)));
        }
        return Err(Bad::Body(
            "a request needs a `method`: info, agent/connect, agent/run or agent/stop".into(),
        ));
    };
    let agent = params.agent_id;
    let body = body.map_or("null", |body| body.get());
    match Method::named(&method) {
        Some(Method::Info) => Ok(Asked::Info),
        Some(Method::Connect) => Ok(Asked::Connect(agent, Box::new(checked(object(body)?)?))),
        Some(Method::Run) => Ok(Asked::Run(agent, Box::new(checked(object(body)?)?))),
        Some(Method::Stop) => {
            let thread = params.thread_id;
            if let Some(thread) = &thread {
                fits("threadId", thread)?;
            }
            Ok(Asked::Stop(thread, stop_of(body)?))
        }
        None => Err(Bad::Method(shown(&method, 40))),
    }
}

/// Reads the input of a run or a connect.
pub fn run_input(text: &[u8]) -> Result<RunInput, Bad> {
    checked(object(text_of(text)?)?)
}

/// Reads the body of a stop, which may be missing.
pub fn stop_body(text: &[u8]) -> Result<StopBody, Bad> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(StopBody::default());
    }
    stop_of(text_of(text)?)
}

fn stop_of(text: &str) -> Result<StopBody, Bad> {
    if text.trim() == "null" { Ok(StopBody::default()) } else { object(text) }
}

/// Reads an approval.
pub fn approval(text: &[u8]) -> Result<Approval, Bad> {
    object(text_of(text)?)
}

fn no_json(why: &str) -> Bad {
    Bad::Body(format!("this is not valid JSON: {why}"))
}

fn text_of(text: &[u8]) -> Result<&str, Bad> {
    if json_depth_exceeds(text, JSON_DEPTH) {
        return Err(Bad::Body(format!("JSON nested deeper than {JSON_DEPTH} levels is refused")));
    }
    std::str::from_utf8(text).map_err(|_| no_json("it is not UTF-8"))
}

/// Reads an object directly from its text, without a tree for unused parts.
fn object<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Bad> {
    // serde would read a list as the fields of a struct in order.
    if !text.trim_start().starts_with('{') {
        let is_json = serde_json::from_str::<IgnoredAny>(text);
        is_json.map_err(|error| no_json(&reason(&error)))?;
        return Err(Bad::Body("the body must be a JSON object".into()));
    }
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => Bad::Body(format!("the body cannot be read: {}", reason(&error))),
        Category::Syntax | Category::Eof | Category::Io => no_json(&reason(&error)),
    })
}

fn checked(input: RunInput) -> Result<RunInput, Bad> {
    fits("threadId", &input.thread_id)?;
    fits("runId", &input.run_id)?;
    Ok(input)
}

/// Names are repeated in every event and stored, so they must be short.
pub fn fits(what: &str, name: &str) -> Result<(), Bad> {
    if name.len() > NAME_BYTES {
        return Err(Bad::Body(format!("a `{what}` has at most {NAME_BYTES} bytes, not {}", name.len())));
    }
    Ok(())
}

/// The beginning of a foreign text, safe to repeat in a message.
pub fn shown(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::agui::wire::{
        ContextEntry, LISTED, MESSAGES, Raw, Resume, ResumeStatus, SentMessage, SentTool,
    };

    fn bad(result: Result<impl std::fmt::Debug, Bad>) -> String {
        result.unwrap_err().to_string()
    }

    // covers: 004-013
    #[test]
    fn the_single_endpoint_takes_a_method_its_params_and_its_body() {
        let body = json!({"threadId": "t", "runId": "r", "messages": []});
        let ask = |method: &str| {
            let text = json!({"method": method, "params": {"agentId": "default"}, "body": body}).to_string();
            single(text.as_bytes())
        };
        let input = Box::new(RunInput { thread_id: "t".into(), run_id: "r".into(), ..RunInput::default() });
        let agent = Some("default".to_owned());
        assert_eq!(single(br#"{"method":"info"}"#), Ok(Asked::Info));
        assert_eq!(ask("agent/connect"), Ok(Asked::Connect(agent.clone(), input.clone())));
        assert_eq!(ask("agent/run"), Ok(Asked::Run(agent, input)));
        let stop = json!({"method": "agent/stop", "params": {"agentId": "a", "threadId": "t"}, "body": {"runId": "r"}});
        let expected = Asked::Stop(Some("t".into()), StopBody { run_id: Some("r".into()) });
        assert_eq!(single(stop.to_string().as_bytes()), Ok(expected));
        let stop = json!({"method": "agent/stop", "params": {"threadId": "t"}});
        assert_eq!(
            single(stop.to_string().as_bytes()),
            Ok(Asked::Stop(Some("t".into()), StopBody::default()))
        );
    }

    // covers: 004-117
    #[test]
    fn an_unknown_method_is_refused_by_name() {
        for method in ["agent/suggest", "transcribe", "", "AGENT/RUN"] {
            let text = json!({ "method": method }).to_string();
            assert_eq!(single(text.as_bytes()), Err(Bad::Method(method.into())));
        }
        let long = json!({"method": format!("\u{1b}[31m{}", "x".repeat(1000))}).to_string();
        let message = bad(single(long.as_bytes()));
        assert!(message.len() < 160 && !message.contains('\u{1b}'), "{message}");
    }

    // covers: 004-119
    #[test]
    fn the_input_of_a_run_is_read_from_either_generation() {
        let old = json!({"threadId": "t", "runId": "r", "state": {"a": 1}, "forwardedProps": {"x": true},
            "messages": [{"id": "u", "role": "user", "content": "hi"},
                         {"id": "a", "role": "assistant", "toolCalls": [{"id": "c"}]},
                         {"id": "w", "role": "tool", "toolCallId": "c", "content": "done"}],
            "tools": [{"name": "setColor", "description": "d", "parameters": {"type": "object"}}],
            "context": [{"description": "page", "value": "{\"a\":1}"}]});
        let mut newer = old.clone();
        newer["protocolVersion"] = json!("1.0");
        newer["parentRunId"] = json!("p");
        newer["resume"] = json!([{"interruptId": "7", "status": "resolved", "payload": {"approved": true}, "metadata": {}}]);
        let message = |id: &str, role: &str, content: Option<&str>, call: Option<&str>| SentMessage {
            id: id.into(),
            role: role.into(),
            content: content.map(|text| Raw::from(&json!(text))),
            tool_call_id: call.map(Into::into),
            error: None,
        };
        let expected = RunInput {
            thread_id: "t".into(),
            run_id: "r".into(),
            messages: vec![
                message("u", "user", Some("hi"), None),
                message("a", "assistant", None, None),
                message("w", "tool", Some("done"), Some("c")),
            ],
            tools: vec![SentTool {
                name: "setColor".into(),
                description: "d".into(),
                parameters: Raw::from(&json!({"type": "object"})),
            }],
            context: vec![ContextEntry { description: "page".into(), value: Raw::from(&json!("{\"a\":1}")) }],
            forwarded_props: Raw::from(&json!({"x": true})),
            ..RunInput::default()
        };
        assert_eq!(run_input(old.to_string().as_bytes()), Ok(expected.clone()));
        let resume = Resume {
            interrupt_id: "7".into(),
            status: ResumeStatus::Resolved,
            payload: Raw::from(&json!({"approved": true})),
        };
        let newer_expected = RunInput {
            resume: vec![resume],
            parent_run_id: Some("p".into()),
            protocol_version: Some("1.0".into()),
            ..expected
        };
        assert_eq!(run_input(newer.to_string().as_bytes()), Ok(newer_expected));
        assert_eq!(run_input(b"{}"), Ok(RunInput::default()), "everything may be left out");
        let nulls = json!({"threadId": null, "runId": null, "messages": null, "tools": null, "context": null,
                           "state": null, "forwardedProps": null, "resume": null});
        assert_eq!(run_input(nulls.to_string().as_bytes()), Ok(RunInput::default()));
    }

    #[test]
    fn what_is_no_request_is_refused_in_words() {
        let deep = format!("{{\"state\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        for (text, expected) in [
            ("", "not valid JSON"),
            ("{", "not valid JSON"),
            ("[]", "a JSON object"),
            ("7", "a JSON object"),
            ("{\"messages\":7}", "cannot be read"),
            ("{\"messages\":[7]}", "cannot be read"),
            ("{\"threadId\":7}", "cannot be read"),
            ("{\"resume\":[{\"interruptId\":\"1\",\"status\":\"maybe\"}]}", "cannot be read"),
            (deep.as_str(), "nested deeper"),
        ] {
            let message = bad(run_input(text.as_bytes()));
            assert!(message.contains(expected), "{}: {message}", &text[..text.len().min(60)]);
        }
        assert!(bad(run_input(b"\"\xff\"")).contains("not valid JSON"));
        assert!(bad(single(br#"{"params":{}}"#)).contains("needs a `method`"));
        assert!(bad(single(br#"{"method":7}"#)).contains("cannot be read"));
        assert!(bad(single(br#"{"method":"agent/run"}"#)).contains("a JSON object"));
        let long = json!({"threadId": "x".repeat(NAME_BYTES + 1)}).to_string();
        assert!(bad(run_input(long.as_bytes())).contains("at most 256 bytes"));
    }

    #[test]
    fn a_list_beyond_its_bound_is_refused_and_one_within_it_is_taken() {
        for (list, most) in [("messages", MESSAGES), ("tools", LISTED), ("context", LISTED)] {
            let of = |count: usize| format!("{{\"{list}\":[{}]}}", vec!["{}"; count].join(","));
            assert!(run_input(of(most).as_bytes()).is_ok(), "{list}");
            let message = bad(run_input(of(most + 1).as_bytes()));
            assert!(message.contains(&format!("more than {most} entries")), "{message}");
        }
    }

    #[test]
    fn no_tree_is_made_of_what_a_client_sends_along() {
        // All of these were parsed into trees once, which took thirty times the memory of their text.
        let lists = format!("[{}]", vec!["[]"; 1000].join(","));
        let text = format!(
            "{{\"state\":{lists},\"unknown\":{lists},\"forwardedProps\":{lists},\"messages\":[{{\"content\":{lists}}}],\
             \"tools\":[{{\"parameters\":{lists}}}],\"context\":[{{\"value\":{lists}}}]}}"
        );
        let input = run_input(text.as_bytes()).unwrap();
        let kept = [
            &input.forwarded_props,
            input.messages[0].content.as_ref().unwrap(),
            &input.tools[0].parameters,
            &input.context[0].value,
        ];
        for raw in kept {
            assert_eq!(raw.text(), lists);
        }
        let written = serde_json::to_string(&input).unwrap();
        assert!(!written.contains("state") && !written.contains("unknown"), "what nobody reads is not kept");
    }

    // covers: 004-116
    #[test]
    fn a_bare_input_at_the_single_endpoint_is_a_run() {
        let asked = single(br#"{"threadId":"t","messages":[]}"#).unwrap();
        let input = RunInput { thread_id: "t".into(), ..RunInput::default() };
        assert_eq!(asked, Asked::Run(None, Box::new(input)));
    }

    #[test]
    fn a_stop_may_have_no_body() {
        for text in ["", "  \n", "null", "{}"] {
            assert_eq!(stop_body(text.as_bytes()), Ok(StopBody::default()), "{text:?}");
        }
        assert!(stop_body(b"[]").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_request_or_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for message in [single(&bytes).err(), run_input(&bytes).err(), stop_body(&bytes).err(), approval(&bytes).err()]
                .into_iter().flatten() {
                prop_assert!(!message.to_string().is_empty());
            }
        }

        #[test]
        fn any_change_of_a_request_gives_a_request_or_a_reason(at in 0_usize..400, byte in any::<u8>()) {
            let mut text = br#"{"method":"agent/run","params":{"agentId":"default"},"body":{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":[{"type":"text","text":"x"}]}],"tools":[],"context":[{"description":"d","value":"1"}],"resume":[{"interruptId":"1","status":"resolved","payload":true}]}}"#.to_vec();
            let at = at % text.len();
            text[at] = byte;
            let _ = single(&text);
        }
    }
}
