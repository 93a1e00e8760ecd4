//! Parses messages of devices. Pure and total: any bytes give a message or a reason.
//!
//! The app writes its JSON by hand and escapes nothing, so a quote in a command makes the JSON invalid. That is not the
//! user's fault: such a frame is ignored and the connection stays.

use serde::Deserialize;

use portolan_host::door::{JSON_DEPTH, json_depth_exceeds};

/// The largest message in bytes. The app sends at most 1,024; similar programs may send longer prompts.
pub const MESSAGE_LIMIT: usize = 16 * 1024;

/// The command that starts an agent instead of being a prompt.
const SPAWN: &str = "spawn";

/// A button.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Button {
    /// A.
    Yes,
    /// X.
    Always,
    /// B.
    No,
    /// Stop the running turn.
    Escape,
}

/// The slot: by name first, because the app always sends slot 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The name of the slot that is selected on the screen.
    pub agent: Option<String>,
    /// The slot, if the name is unknown.
    pub slot: Option<i64>,
}

/// A message of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromDevice {
    /// A button was pressed.
    Press {
        /// The slot.
        to: Address,
        /// The button.
        button: Button,
    },
    /// A prompt, or the answer to a question.
    Command {
        /// The slot.
        to: Address,
        /// The text.
        text: String,
    },
    /// Switch auto-edit on or off.
    AutoEdit(bool),
    /// Start an agent in this slot; default: the first free slot.
    Spawn(Option<i64>),
}

/// A frame that is ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Raw {
    Action {
        agent: Option<String>,
        action: Button,
        slot: Option<i64>,
    },
    Command {
        agent: Option<String>,
        command: String,
        slot: Option<i64>,
    },
    Config {
        #[serde(rename = "autoEdit")]
        auto_edit: Option<bool>,
    },
    SpawnRequest {
        slot: Option<i64>,
    },
}

/// Reads one message: JSON in a text frame or in a binary frame. A byte order mark and broken characters are accepted.
pub fn parse(text: &[u8]) -> Result<FromDevice, Unreadable> {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start_matches('\u{feff}').as_bytes();
    if json_depth_exceeds(text, JSON_DEPTH) {
        return Err(Unreadable(format!("JSON nested deeper than {JSON_DEPTH} levels is refused")));
    }
    let raw: Raw = serde_json::from_slice(text).map_err(|error| Unreadable(plain(&error.to_string())))?;
    Ok(match raw {
        Raw::Action { agent, action, slot } => {
            FromDevice::Press { to: Address { agent, slot }, button: action }
        }
        Raw::Command { command, .. } if command.trim() == SPAWN => FromDevice::Spawn(None),
        Raw::Command { command, .. } if command.trim().is_empty() => {
            return Err(Unreadable("a command without words".into()));
        }
        Raw::Command { agent, command, slot } => {
            FromDevice::Command { to: Address { agent, slot }, text: command.trim().to_owned() }
        }
        Raw::Config { auto_edit: Some(on) } => FromDevice::AutoEdit(on),
        Raw::Config { auto_edit: None } => return Err(Unreadable("a config that sets nothing".into())),
        Raw::SpawnRequest { slot } => FromDevice::Spawn(slot),
    })
}

/// Safe for a log: the parser's error may quote the message.
fn plain(text: &str) -> String {
    text.chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn to(agent: &str, slot: i64) -> Address {
        Address { agent: Some(agent.into()), slot: Some(slot) }
    }

    #[test]
    fn every_message_of_the_app_is_read() {
        let read = |text: &str| parse(text.as_bytes()).unwrap();
        for (word, button) in
            [("yes", Button::Yes), ("always", Button::Always), ("no", Button::No), ("escape", Button::Escape)]
        {
            let text = format!(r#"{{"type":"action","agent":"claude-2","action":"{word}","slot":0}}"#);
            assert_eq!(read(&text), FromDevice::Press { to: to("claude-2", 0), button });
        }
        assert_eq!(
            read(r#"{"type":"command","agent":"claude-0","command":" fix it ","slot":0}"#),
            FromDevice::Command { to: to("claude-0", 0), text: "fix it".into() }
        );
        assert_eq!(
            read(r#"{"type":"command","agent":"x","command":"spawn","slot":0}"#),
            FromDevice::Spawn(None)
        );
        assert_eq!(read(r#"{"type":"config","agent":"x","autoEdit":true}"#), FromDevice::AutoEdit(true));
        assert_eq!(read(r#"{"type":"spawn_request","slot":3}"#), FromDevice::Spawn(Some(3)));
        assert_eq!(
            read(r#"{"type":"action","action":"no"}"#),
            FromDevice::Press { to: Address::default(), button: Button::No },
            "older apps send no slot"
        );
    }

    // covers: 000-084
    #[test]
    fn what_makes_no_sense_is_said_in_words() {
        let deep = "[".repeat(JSON_DEPTH + 1);
        for text in [
            "",
            "{",
            "null",
            "[]",
            r#"{"type":"command","agent":"x","command":"say "hi"","slot":0}"#,
            r#"{"type":"command","agent":"x","command":"   ","slot":0}"#,
            r#"{"type":"command","agent":"x","command":7}"#,
            r#"{"type":"action","agent":"x","action":"maybe"}"#,
            r#"{"type":"action","agent":"x"}"#,
            r#"{"type":"spawn_request","slot":"one"}"#,
            r#"{"type":"config","autoEdit":"yes"}"#,
            r#"{"type":"config"}"#,
            r#"{"type":"dance"}"#,
            r#"{"type":7}"#,
            "{\"type\":\"command\",\"command\":\"two\nlines\"}",
            deep.as_str(),
        ] {
            let Unreadable(why) = parse(text.as_bytes()).unwrap_err();
            assert!(!why.is_empty() && !why.contains('\n'), "{text}: {why}");
        }
    }

    // The app's old server decodes every frame as text.
    #[test]
    fn broken_characters_and_a_mark_of_the_byte_order_cost_no_message() {
        let read = |text: &[u8]| parse(text).unwrap();
        let said = |text: &str| FromDevice::Command { to: Address::default(), text: text.into() };
        assert_eq!(read(b"{\"type\":\"command\",\"command\":\"caf\xe9\"}"), said("caf\u{fffd}"));
        assert_eq!(read(b"\xef\xbb\xbf{\"type\":\"command\",\"command\":\"go\"}"), said("go"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
