//! Parses inbound text into a frame. Pure and total: any bytes give a frame or an error that says what is wrong.
//!
//! A text that cannot be read gets an `error` frame and never ends the connection: the next frame may be fine.

use portolan_core::{CommandId, Refusal, RefusalCode};
use portolan_protocol::{Call, ClientFrame, Greeting};
use serde::de::DeserializeOwned;
use serde_json::Value;

use portolan_host::door::{JSON_DEPTH, json_depth_exceeds, reason};

/// A text that is not a frame.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{refusal}")]
pub struct Unreadable {
    /// The id of the frame, if it could be read.
    pub id: Option<CommandId>,
    /// The reason; always `invalid`.
    pub refusal: Refusal,
}

/// Reads the first frame.
pub fn parse_greeting(text: &[u8]) -> Result<Greeting, Unreadable> {
    read(text, Expected { names: &[Greeting::NAME], others: &Call::NAMES, why_not: "send `hello` first" })
}

/// Reads any other frame.
pub fn parse(text: &[u8]) -> Result<ClientFrame, Unreadable> {
    read(
        text,
        Expected { names: &Call::NAMES, others: &[Greeting::NAME], why_not: "`hello` was already sent" },
    )
}

/// The frames that are valid here.
struct Expected {
    names: &'static [&'static str],
    /// Known frames that are not valid here.
    others: &'static [&'static str],
    why_not: &'static str,
}

fn read<T: DeserializeOwned>(text: &[u8], expected: Expected) -> Result<T, Unreadable> {
    if json_depth_exceeds(text, JSON_DEPTH) {
        let message = format!("JSON nested deeper than {JSON_DEPTH} levels is refused");
        return Err(Unreadable { id: None, refusal: Refusal::new(RefusalCode::Invalid, message) });
    }
    serde_json::from_slice(text).map_err(|error| explain(text, expected, &error))
}

/// Finds what is wrong with an invalid text. Parses it a second time, without a schema.
fn explain(text: &[u8], expected: Expected, error: &serde_json::Error) -> Unreadable {
    let invalid =
        |id, message: String| Unreadable { id, refusal: Refusal::new(RefusalCode::Invalid, message) };
    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        return invalid(None, format!("this is not valid JSON: {}", reason(error)));
    };
    let Value::Object(fields) = value else {
        return invalid(None, "a frame must be a JSON object with a `type`".into());
    };
    let id = fields.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let message = match fields.get("type") {
        None => "a frame needs a `type`".into(),
        Some(Value::String(name)) if expected.names.contains(&name.as_str()) => {
            format!("the frame `{name}` cannot be read: {}", reason(error))
        }
        Some(Value::String(name)) if expected.others.contains(&name.as_str()) => expected.why_not.into(),
        Some(Value::String(name)) => format!("unknown frame type `{}`", shorten(name)),
        Some(_) => "the `type` of a frame must be a string".into(),
    };
    invalid(id, message)
}

/// The beginning of a foreign text, safe to repeat in a message.
fn shorten(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

/// The name of a client as others see it: at most 32 visible characters.
pub(crate) fn client_name(name: &str) -> String {
    let plain: String = name.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(32).collect();
    let plain = plain.trim();
    if plain.is_empty() { "native".into() } else { plain.into() }
}

#[cfg(test)]
mod tests {
    use portolan_core::{Action, SessionId, command::DAEMON_ACTIONS};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> (Option<String>, String) {
        let unreadable = parse(text.as_bytes()).unwrap_err();
        assert_eq!(unreadable.refusal.code, RefusalCode::Invalid);
        (unreadable.id.map(String::from), unreadable.refusal.message)
    }

    #[test]
    fn an_unknown_frame_type_is_named_and_its_id_kept() {
        let (id, message) = refused(r#"{"type":"dance","id":"7"}"#);
        assert_eq!((id.as_deref(), message.as_str()), (Some("7"), "unknown frame type `dance`"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        assert_eq!(refused(r#"{"id":"7"}"#).1, "a frame needs a `type`");
        assert_eq!(refused(r#"{"type":3}"#).1, "the `type` of a frame must be a string");
        assert_eq!(refused("[]").1, "a frame must be a JSON object with a `type`");
        assert!(refused("{").1.starts_with("this is not valid JSON"));
        assert!(refused(r#"{"type":"detach","id":"7"}"#).1.contains("`session`"));
        let unknown = r#"{"type":"command","id":"7","session":"00000000-0000-0000-0000-000000000001","command":{"name":"fly"}}"#;
        assert!(refused(unknown).1.contains("`fly`"), "{:?}", refused(unknown));
    }

    #[test]
    fn an_option_that_a_session_does_not_have_is_named() {
        let (id, message) = refused(r#"{"type":"create","id":"7","spec":{"agent":"demo","colour":"red"}}"#);
        assert!(id.as_deref() == Some("7") && message.contains("`colour`"), "{message}");
    }

    // covers: 003-173
    #[test]
    fn a_field_we_do_not_know_is_ignored() {
        let frame = parse(br#"{"type":"ping","id":"7","colour":"red"}"#).unwrap();
        assert_eq!(frame, ClientFrame { id: "7".parse().unwrap(), call: Call::Ping });
    }

    #[test]
    fn json_that_is_nested_too_deep_is_refused_without_a_stack_overflow() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let frame = |body: String| format!(r#"{{"type":"ping","id":"7","x":{body}}}"#);
        assert!(parse(frame(nested(JSON_DEPTH - 1)).as_bytes()).is_ok());
        assert!(parse(frame(nested(JSON_DEPTH)).as_bytes()).is_err());
        assert!(parse(nested(1_000_000).as_bytes()).is_err());
        assert!(
            parse(frame(format!("{:?}", "\\\"[".repeat(1000))).as_bytes()).is_ok(),
            "brackets in a string"
        );
    }

    #[test]
    fn a_foreign_type_is_repeated_short_and_without_control_characters() {
        let text = json!({"type": format!("\u{1b}[31m{}", "x".repeat(1000))}).to_string();
        let message = refused(&text).1;
        assert!(message.len() < 120 && !message.contains('\u{1b}'), "{message}");
    }

    #[test]
    fn what_the_reader_quotes_is_repeated_short_and_without_control_characters() {
        let name = format!("\u{1b}[31m{}", "x".repeat(100_000));
        // Broken after its type, and valid with an unknown command.
        let broken = json!({ "type": name }).to_string().replace('}', ",");
        let whole = json!({ "type": "command", "id": "7", "session": SessionId::from_u128(1), "command": { "name": name } });
        for text in [broken, whole.to_string()] {
            let message = refused(&text).1;
            assert!(message.len() < 600 && !message.contains('\u{1b}'), "{message}");
        }
    }

    #[test]
    fn every_action_of_core_has_a_wire_form() {
        let session = SessionId::from_u128(1);
        let body = json!({
            "content": [], "request": 1, "answer": {"kind": "deny"}, "to": "n", "archived": true, "mode": "plan",
            "variables": {}, "server": "s", "enabled": true, "servers": {}, "message": null, "task": "t",
            "prompt": 1, "command": 1, "tool_name": "Bash", "body": null,
        });
        for name in Action::NAMES.into_iter().chain([Action::NATIVE]) {
            let mut command = body.clone();
            command["name"] = name.into();
            if name == "add_rule" {
                command["rule"] = json!({"effect": "deny", "text": "Bash(rm -r)"});
            }
            if name == "rewind" {
                command["to"] = 1.into();
            }
            let text =
                json!({"type": "command", "id": "7", "session": session, "command": command}).to_string();
            let Call::Command { command, .. } = parse(text.as_bytes()).unwrap().call else {
                panic!("`{name}` is no command")
            };
            assert_eq!(command.name().as_str(), name);
        }
        for name in DAEMON_ACTIONS {
            assert!(Call::NAMES.contains(&name), "`{name}` has no frame");
        }
    }

    #[test]
    fn the_list_of_frame_names_is_complete() {
        // For an unknown type, the parser's error names all known types.
        let error = serde_json::from_str::<Call>(r#"{"type":"?"}"#).unwrap_err().to_string();
        let known: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(known, Call::NAMES);
    }

    #[test]
    fn a_frame_in_the_wrong_place_is_told_its_place() {
        let hello = br#"{"type":"hello","protocol":1,"client":{"name":"page"}}"#;
        assert!(matches!(parse_greeting(hello), Ok(Greeting::Hello { protocol: 1, .. })));
        assert_eq!(parse(hello).unwrap_err().refusal.message, "`hello` was already sent");
        let early = parse_greeting(br#"{"type":"ping","id":"7"}"#).unwrap_err();
        assert_eq!(early.id.map(String::from).as_deref(), Some("7"));
        assert_eq!(early.refusal.message, "send `hello` first");
    }

    #[test]
    fn a_client_name_is_short_and_visible() {
        assert_eq!(client_name(&"é\n ab\u{7f}c".repeat(40)), "abc abc abc abc abc abc abc abc");
        assert_eq!(client_name("\u{1b}\u{0}"), "native");
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_change_of_a_frame_gives_a_frame_or_an_error(at in 0_usize..150, byte in any::<u8>()) {
            let mut text = br#"{"type":"command","id":"7","session":"00000000-0000-0000-0000-000000000001","command":{"name":"answer","request":1,"answer":{"kind":"allow","scope":"once"}}}"#.to_vec();
            let at = at % text.len();
            text[at] = byte;
            if let Err(unreadable) = parse(&text) {
                prop_assert!(!unreadable.refusal.message.is_empty());
            }
        }
    }
}
