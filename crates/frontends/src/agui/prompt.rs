//! Extracts what is new in a run from the thread that its client sends: a message for the agent, results of the page's
//! tools, the page's tools and context, answers. Pure.

use portolan_core::{CommandId, event::Content};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    context::{CONTEXT_BYTES, user_words},
    project::Approvals,
    tools::{PageResult, PageTool},
    wire::{ContextEntry, ForwardedProps, Raw, Resume, ResumeStatus, RunInput, SentMessage, SentTool},
};

/// How much of the descriptions of a page's tools is read: twice the limit of an offer. The rest is left out with a
/// reason, and is not parsed.
const PARAMETERS_BYTES: usize = 512 * 1024;

/// What is new in a run. The rest of its input, megabytes of a long thread, is dropped before the run waits for
/// anything.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Brought {
    /// The user's message.
    pub said: Option<Said>,
    /// Results of the page's tools, by their call.
    pub results: Vec<PageResult>,
    /// The tools that the page has mounted.
    pub tools: Vec<PageTool>,
    /// The page's context.
    pub context: Vec<ContextEntry>,
    /// Answers to requests.
    pub answers: Vec<Resume>,
}

impl Brought {
    /// From the input of a run; or why the run is refused.
    pub(super) fn of(input: RunInput) -> Result<Self, String> {
        let said = said(&input)?;
        let results = results(&input);
        let RunInput { tools, context, mut resume, forwarded_props, .. } = input;
        resume.extend(older_answer(&forwarded_props)?);
        Ok(Self { said, results, tools: page_tools(tools), context: shortened(context), answers: resume })
    }
}

/// How this client wants to get requests, if its app says so in its own properties.
pub(super) fn approvals(input: &RunInput) -> Option<Approvals> {
    let wanted = input.forwarded_props.read::<ForwardedProps>().ok()?.approvals?.string()?;
    match wanted.as_str() {
        "interrupt" => Some(Approvals::Interrupt),
        "on_interrupt" => Some(Approvals::OnInterrupt),
        "event" => Some(Approvals::Event),
        _ => None,
    }
}

/// The answer to an interrupt in its older form: a command in the app's properties, with the event of the request.
fn older_answer(forwarded_props: &Raw) -> Result<Option<Resume>, String> {
    // An app may add anything; only this command has a meaning.
    let Ok(ForwardedProps { command: Some(command), .. }) = forwarded_props.read() else { return Ok(None) };
    let Some(payload) = command.resume else { return Ok(None) };
    let event: Option<Value> = serde_json::from_str(&command.interrupt_event.words()).ok();
    let named = event.as_ref().and_then(|event| event.get("requestId")?.as_str());
    let Some(named) = named else {
        return Err("the answer names no request; set `interruptEvent` to the event's value".into());
    };
    Ok(Some(Resume { interrupt_id: named.to_owned(), status: ResumeStatus::Resolved, payload }))
}

/// The tools that the page has mounted.
fn page_tools(tools: Vec<SentTool>) -> Vec<PageTool> {
    let mut bytes = 0;
    let tool = |tool: SentTool| {
        bytes += tool.parameters.text().len();
        let too_long = || Value::from("too long");
        let read = if bytes > PARAMETERS_BYTES { None } else { tool.parameters.read().ok() };
        PageTool { name: tool.name, description: tool.description, parameters: read.unwrap_or_else(too_long) }
    };
    tools.into_iter().map(tool).collect()
}

/// Slightly more than the limit, so that the cut is visible.
fn shortened(mut context: Vec<ContextEntry>) -> Vec<ContextEntry> {
    let mut bytes = 0;
    let beyond = context.iter().position(|entry| {
        bytes += entry.description.len() + entry.value.text().len();
        bytes > CONTEXT_BYTES
    });
    context.truncate(beyond.map_or(context.len(), |last| last + 1));
    context
}

/// The user's message in a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    /// The client's id of the message; empty if it has none.
    pub message: String,
    /// The id of the command: the message's own id, so that the history shows the id that the page knows.
    pub id: CommandId,
    /// Its content.
    pub words: Vec<Content>,
}

/// The message that a run may bring: the user's last message, if no tool has answered since. The log decides whether it
/// is new.
fn said(input: &RunInput) -> Result<Option<Said>, String> {
    let is_turn = |message: &&SentMessage| matches!(message.role.as_str(), "user" | "tool");
    let Some(last) = input.messages.iter().rev().find(is_turn).filter(|last| last.role == "user") else {
        return Ok(None);
    };
    let words = user_words(last)?;
    Ok(Some(Said { message: last.id.clone(), id: command_id(&last.id), words }))
}

/// The results of the page's tools, in order.
fn results(input: &RunInput) -> Vec<PageResult> {
    let result = |message: &SentMessage| {
        let call = message.tool_call_id.clone().filter(|_| message.role == "tool")?;
        let text = message.content.as_ref().map(Raw::words).unwrap_or_default();
        let result = match &message.error {
            None => Ok(text),
            // Pages send the error in both fields, or in one.
            Some(error) if text.contains(error.as_str()) => Err(text),
            Some(error) if text.is_empty() => Err(error.clone()),
            Some(error) => Err(format!("{error}\n{text}")),
        };
        Some((call, result))
    };
    input.messages.iter().filter_map(result).collect()
}

/// The id under which a message runs once. Clients use UUIDs, which are valid ids; any other name becomes a hash.
pub(super) fn command_id(message: &str) -> CommandId {
    if message.is_empty() {
        return CommandId::random();
    }
    message.parse().unwrap_or_else(|_| hashed("m:", message))
}

/// The id of a message that is sent again in another run.
pub(super) fn again(id: &CommandId, run: &str) -> CommandId {
    hashed("again:", &format!("{id}\n{run}"))
}

fn hashed(prefix: &str, text: &str) -> CommandId {
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().take(20).fold(prefix.to_owned(), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    hex.parse().unwrap_or_else(|_| CommandId::random())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(messages: Value) -> RunInput {
        serde_json::from_str(&json!({ "messages": messages }).to_string()).unwrap()
    }

    // covers: 004-028
    #[test]
    fn the_prompt_of_a_run_is_its_last_user_message_under_its_own_id() {
        let messages = json!([
            {"id": "u1", "role": "user", "content": "first"},
            {"id": "a1", "role": "assistant", "content": "yes?"},
            {"id": "u2", "role": "user", "content": "second"},
            {"id": "d1", "role": "developer", "content": "be brief"},
        ]);
        let said = said(&input(messages)).unwrap().unwrap();
        let id = "u2".parse().unwrap();
        assert_eq!(said, Said { message: "u2".into(), id, words: vec![Content::text("second")] });
    }

    #[test]
    fn a_run_that_brings_a_result_says_nothing_new() {
        let messages = json!([
            {"id": "u1", "role": "user", "content": "go"},
            {"id": "c1", "role": "assistant", "toolCalls": []},
            {"id": "t1", "role": "tool", "toolCallId": "call", "content": "done"},
            {"id": "a1", "role": "assistant", "content": "more text that followed the call"},
        ]);
        let input = input(messages);
        assert_eq!(said(&input), Ok(None));
        assert_eq!(results(&input), [("call".to_owned(), Ok("done".to_owned()))]);
        assert_eq!(said(&RunInput::default()), Ok(None));
    }

    #[test]
    fn a_result_that_is_an_error_is_one() {
        let of = |content: Value, error: Value| {
            let message =
                json!({"id": "t1", "role": "tool", "toolCallId": "c", "content": content, "error": error});
            results(&input(json!([message]))).remove(0).1
        };
        assert_eq!(of(json!("done"), Value::Null), Ok("done".into()));
        assert_eq!(of(json!(""), json!("it broke")), Err("it broke".into()));
        assert_eq!(of(Value::Null, json!("it broke")), Err("it broke".into()));
        assert_eq!(of(json!("Error: it broke"), json!("it broke")), Err("Error: it broke".into()));
        assert_eq!(of(json!("half of it"), json!("it broke")), Err("it broke\nhalf of it".into()));
    }

    #[test]
    fn of_a_thread_s_megabytes_only_what_the_run_is_about_is_kept() {
        let old = "x".repeat(CONTEXT_BYTES);
        let schema = json!({"type": "object", "title": "x".repeat(PARAMETERS_BYTES / 2 + 1)});
        let given = json!({
            "messages": [{"id": "a1", "role": "assistant", "content": old}, {"id": "u1", "role": "user", "content": "go"}],
            "context": [{"description": "a", "value": old}, {"description": "b", "value": old}, {"description": "c", "value": old}],
            "tools": [{"name": "one", "parameters": schema}, {"name": "two", "parameters": schema}],
        });
        let brought = Brought::of(serde_json::from_str(&given.to_string()).unwrap()).unwrap();
        assert_eq!(brought.said.unwrap().words, [Content::text("go")]);
        assert_eq!(brought.context.len(), 1, "the rest could not be told");
        assert_eq!(brought.tools[0].parameters, schema);
        assert_eq!(brought.tools[1].parameters, json!("too long"), "which is no schema, and so is left out");
    }

    #[test]
    fn the_older_form_of_an_answer_names_its_event_as_it_came_or_as_text() {
        let of = |command: &Value| {
            let input = json!({"forwardedProps": {"command": command, "other": 1}});
            Brought::of(serde_json::from_str(&input.to_string()).unwrap()).map(|brought| brought.answers)
        };
        let event = json!({"requestId": "7", "toolName": "Bash"});
        let payload = json!({"approved": true});
        let answer =
            Resume { interrupt_id: "7".into(), status: ResumeStatus::Resolved, payload: Raw::from(&payload) };
        for event in [event.clone(), json!(event.to_string())] {
            let command = json!({"resume": payload, "interruptEvent": event});
            assert_eq!(of(&command), Ok(vec![answer.clone()]));
        }
        assert!(of(&json!({"resume": true})).is_err(), "an answer to nothing");
        for nothing in [json!(null), json!(7), json!({}), json!({"update": 1}), json!({"resume": null})] {
            assert_eq!(of(&nothing), Ok(vec![]), "{nothing}");
        }
    }

    #[test]
    fn an_id_that_is_none_of_ours_still_names_its_message() {
        assert_eq!(command_id("3f2c-77").as_str(), "3f2c-77");
        let odd = command_id("ключ with spaces");
        assert_eq!(odd, command_id("ключ with spaces"));
        assert_ne!(odd, command_id("ключ"));
        assert_ne!(command_id(""), command_id(""), "no id names nothing");
        let id = command_id("u1");
        assert_ne!(again(&id, "r1"), again(&id, "r2"));
    }
}
