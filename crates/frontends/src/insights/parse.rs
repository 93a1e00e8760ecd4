//! Parses inbound text into a message. Pure and total: any bytes give a message or an error of the protocol.

use portolan_core::CommandId;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::wire::{ClientMessage, ErrorCode, ErrorPayload, SessionList};
use portolan_host::door::{JSON_DEPTH, json_depth_exceeds};

/// A message, and its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The message.
    pub message: ClientMessage,
    /// Its id. Only a UUID counts: the protocol requires it, and with an id that a client reuses, different messages
    /// would look like one repeated message.
    pub id: Option<CommandId>,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    payload: Value,
}

/// Reads one message.
pub fn parse(text: &[u8]) -> Result<Parsed, ErrorPayload> {
    if json_depth_exceeds(text, JSON_DEPTH) {
        let message = format!("JSON nested deeper than {JSON_DEPTH} levels is refused");
        return Err(error(ErrorCode::InvalidJson, &Value::Null, message));
    }
    let envelope = match serde_json::from_slice::<Envelope>(text) {
        Ok(envelope) => envelope,
        Err(problem) if problem.is_data() => return Err(no_envelope(text)),
        Err(problem) => {
            let message = format!("this is not valid JSON: {problem}");
            return Err(error(ErrorCode::InvalidJson, &Value::Null, message));
        }
    };
    let Envelope { kind, id, payload } = envelope;
    let message = message(&kind, payload)?;
    let id = id.as_ref().and_then(Value::as_str).filter(|id| uuid::Uuid::try_parse(id).is_ok());
    Ok(Parsed { message, id: id.and_then(|id| id.parse().ok()) })
}

fn message(kind: &str, payload: Value) -> Result<ClientMessage, ErrorPayload> {
    use ClientMessage as M;
    Ok(match kind {
        "session.create" => M::SessionCreate(body(kind, payload)?),
        "user.input" => M::UserInput(body(kind, payload)?),
        "session.kill" => M::SessionKill(body(kind, payload)?),
        "session.interrupt" => M::SessionInterrupt(body(kind, payload)?),
        "permission_mode.change" => M::PermissionModeChange(body(kind, payload)?),
        "permission.response" => M::PermissionResponse(body(kind, payload)?),
        "auth" => M::Auth(body(kind, payload)?),
        // This message has an empty payload, so the payload may be absent.
        "session.list" if payload.is_null() => M::SessionList(SessionList::default()),
        "session.list" => M::SessionList(body(kind, payload)?),
        "session.attach" => M::SessionAttach(body(kind, payload)?),
        other => {
            let message = format!("unknown message type `{}`", shorten(other));
            return Err(error(ErrorCode::InvalidMessage, &payload, message));
        }
    })
}

fn body<T: DeserializeOwned>(kind: &str, payload: Value) -> Result<T, ErrorPayload> {
    if !payload.is_object() {
        let message = format!("the `payload` of `{kind}` must be an object");
        return Err(error(ErrorCode::InvalidMessage, &Value::Null, message));
    }
    T::deserialize(&payload).map_err(|problem| {
        // The error quotes the message, which may contain anything.
        let message = format!("`{kind}` cannot be read: {}", shorten_to(&problem.to_string(), 200));
        error(ErrorCode::InvalidMessage, &payload, message)
    })
}

/// Finds what is wrong with JSON that is not a message.
fn no_envelope(text: &[u8]) -> ErrorPayload {
    let message = match serde_json::from_slice::<Value>(text) {
        Ok(Value::Object(fields)) if fields.contains_key("type") => "the `type` of a message is not a string",
        Ok(Value::Object(_)) => "a message needs a `type`",
        _ => "a message must be a JSON object with a `type` and a `payload`",
    };
    error(ErrorCode::InvalidMessage, &Value::Null, message.to_owned())
}

fn error(code: ErrorCode, payload: &Value, message: String) -> ErrorPayload {
    let text = |key: &str| payload.get(key).and_then(Value::as_str).map(|text| shorten_to(text, 64));
    ErrorPayload { session_id: text("session_id"), agent_id: text("agent_id"), message, code }
}

/// The beginning of a foreign text, safe to repeat in a message.
fn shorten(text: &str) -> String {
    shorten_to(text, 40)
}

fn shorten_to(text: &str, most: usize) -> String {
    text.chars().take(most).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::insights::wire::{Named, UserInput};

    fn refused(text: &str) -> (ErrorCode, String) {
        let error = parse(text.as_bytes()).unwrap_err();
        (error.code, error.message)
    }

    // covers: 001-003
    #[test]
    fn a_message_has_a_type_a_payload_and_perhaps_an_id() {
        let id = "0b7e1c1e-6f0f-4c37-9d0e-0d2c8a7b9f10";
        let text =
            json!({"type": "session.kill", "id": id, "payload": {"session_id": "s"}, "newer": 1}).to_string();
        let kill = ClientMessage::SessionKill(Named { session_id: "s".into() });
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed, Parsed { message: kill.clone(), id: Some(id.parse().unwrap()) });
        for id in [json!(null), json!("7"), json!(7), json!({"a": 1})] {
            let text = json!({"type": "session.kill", "id": id, "payload": {"session_id": "s"}}).to_string();
            let parsed = parse(text.as_bytes()).unwrap();
            assert_eq!(parsed, Parsed { message: kill.clone(), id: None }, "only a UUID is an id: {id}");
        }
    }

    // covers: 001-009
    #[test]
    fn an_absent_field_is_as_good_as_null() {
        let input = UserInput { session_id: "s".into(), agent_id: None, text: "t".into(), question_id: None };
        for payload in [
            json!({"session_id": "s", "text": "t"}),
            json!({"session_id": "s", "agent_id": null, "text": "t"}),
        ] {
            let text = json!({"type": "user.input", "payload": payload}).to_string();
            assert_eq!(parse(text.as_bytes()).unwrap().message, ClientMessage::UserInput(input.clone()));
        }
        assert!(parse(br#"{"type":"session.list"}"#).is_ok());
    }

    // covers: 001-041
    #[test]
    fn what_is_no_json_is_invalid_json() {
        for text in ["", "{", "{\"type\":", "nonsense", "{\"type\":\"auth\"} more", "\u{0}"] {
            assert_eq!(refused(text).0, ErrorCode::InvalidJson, "{text:?}");
        }
        assert_eq!(parse(b"\"\xff\xfe\"").unwrap_err().code, ErrorCode::InvalidJson);
        let deep =
            format!(r#"{{"type":"auth","payload":{}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(refused(&deep).0, ErrorCode::InvalidJson);
    }

    // covers: 001-042
    #[test]
    fn what_is_no_message_is_invalid_and_says_why() {
        let cases = [
            (json!([]), "a message must be a JSON object"),
            (json!("session.create"), "a message must be a JSON object"),
            (json!({"payload": {}}), "a message needs a `type`"),
            (json!({"type": 7}), "the `type` of a message is not a string"),
            (json!({"type": "dance"}), "unknown message type `dance`"),
            (json!({"type": "session.kill"}), "`payload` of `session.kill` must be an object"),
            (json!({"type": "session.kill", "payload": []}), "`payload` of `session.kill` must be an object"),
            (json!({"type": "session.kill", "payload": {}}), "missing field `session_id`"),
            (json!({"type": "session.kill", "payload": {"session_id": 7}}), "expected a string"),
            (
                json!({"type": "permission.response",
                       "payload": {"session_id": "s", "permission_id": "1", "approved": "yes"}}),
                "expected a boolean",
            ),
            (
                json!({"type": "session.create", "payload": {"prompt": "p", "cwd": "/", "allowed_tools": "all"}}),
                "expected a sequence",
            ),
        ];
        for (message, expected) in cases {
            let (code, told) = refused(&message.to_string());
            assert_eq!(code, ErrorCode::InvalidMessage, "{message}");
            assert!(told.contains(expected), "{message}: {told}");
        }
    }

    #[test]
    fn an_error_names_the_session_of_the_message_it_is_about() {
        let text = json!({"type": "user.input", "payload": {"session_id": "s", "agent_id": "a"}}).to_string();
        let error = parse(text.as_bytes()).unwrap_err();
        assert_eq!((error.session_id.as_deref(), error.agent_id.as_deref()), (Some("s"), Some("a")));
    }

    #[test]
    fn the_list_of_types_is_complete() {
        for kind in ClientMessage::TYPES {
            let text = json!({"type": kind, "payload": []}).to_string();
            assert!(!refused(&text).1.contains("unknown"), "{kind}");
        }
        let error = serde_json::from_value::<ClientMessage>(json!({"type": "?", "payload": {}})).unwrap_err();
        let known = error.to_string().matches('`').count() / 2 - 1;
        assert_eq!(known, ClientMessage::TYPES.len(), "{error}");
    }

    #[test]
    fn a_foreign_type_is_repeated_short_and_without_control_characters() {
        let text = json!({"type": format!("\u{1b}[31m{}", "x".repeat(1000))}).to_string();
        let message = refused(&text).1;
        assert!(message.len() < 120 && !message.contains('\u{1b}'), "{message}");
    }

    #[test]
    fn a_token_is_not_shown_in_what_is_logged() {
        let text = json!({"type": "auth", "payload": {"token": "hunter2"}}).to_string();
        assert!(!format!("{:?}", parse(text.as_bytes())).contains("hunter2"));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_change_of_a_message_gives_a_message_or_an_error(at in 0_usize..150, byte in any::<u8>()) {
            let mut text = br#"{"type":"permission.response","id":"7","payload":{"session_id":"s","permission_id":"1","approved":true}}"#.to_vec();
            let at = at % text.len();
            text[at] = byte;
            if let Err(error) = parse(&text) {
                prop_assert!(!error.message.is_empty());
            }
        }
    }
}
