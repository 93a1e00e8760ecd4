//! Reads the daemon's frames tolerantly: an unknown frame of a newer daemon becomes [`Inbound::Other`] or an unknown
//! event, never an error.

use portolan_core::{
    CommandId, Event, Millis, Refusal, Seq,
    entry::Decoded,
    log::delivery::{Closed, Presence},
    session::state::State,
};
use portolan_protocol::{ReplyBody, ServerFrame, ServerInfo, You};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A frame from the daemon.
#[derive(Debug)]
pub enum Inbound {
    /// The greeting.
    Welcome {
        /// The daemon's name, version and clock.
        server: ServerInfo,
        /// This client, as the daemon identified it.
        you: You,
    },
    /// The answer to a call.
    Reply {
        /// The id of the call.
        id: CommandId,
        /// The result of the call.
        body: Reply,
    },
    /// Why a call was not carried out.
    Error {
        /// The id of the call; `None` if the daemon could not read it.
        id: Option<CommandId>,
        /// The reason.
        refusal: Refusal,
    },
    /// An entry of a session.
    Entry {
        /// The entry.
        entry: Box<Decoded<Event>>,
        /// The frame's text.
        text: String,
    },
    /// The state of a session.
    Snapshot {
        /// The number of the last entry in the state.
        seq: Seq,
        /// The state.
        state: Box<State>,
        /// The frame's text.
        text: String,
    },
    /// Everyone who reads a session now.
    Presence {
        /// Everyone who reads the session.
        present: Vec<Presence>,
        /// The frame's text.
        text: String,
    },
    /// No more entries of a session will come.
    Ended {
        /// The reason.
        reason: Closed,
    },
    /// The daemon is about to close the connection.
    Closing {
        /// The reason, in words.
        message: String,
    },
    /// A frame that this program does not read.
    Other,
}

/// The result of a call.
#[derive(Debug)]
pub enum Reply {
    /// One of the plain replies.
    Plain(Box<ReplyBody>),
    /// A page of history: frames as they are in the log.
    History(Vec<Box<RawValue>>),
}

/// The part of a frame that identifies its kind.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    reply: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct UnknownEntry {
    seq: Seq,
    at: Millis,
    #[serde(default)]
    event: serde_json::Value,
}

#[derive(Deserialize)]
struct SnapshotFrame {
    seq: Seq,
    state: Box<State>,
}

// Raw values cannot be read through an internally tagged enum, so this reply has its own type.
#[derive(Deserialize)]
struct HistoryFrame {
    id: CommandId,
    entries: Vec<Box<RawValue>>,
}

/// Reads a frame.
pub(crate) fn read(text: &str) -> Inbound {
    known(text).unwrap_or(Inbound::Other)
}

fn known(text: &str) -> Option<Inbound> {
    let head: Head<'_> = serde_json::from_str(text).ok()?;
    match head.kind.as_ref() {
        "entry" => Some(Inbound::Entry { entry: Box::new(entry(text)?), text: text.to_owned() }),
        "snapshot" => {
            let SnapshotFrame { seq, state } = serde_json::from_str(text).ok()?;
            Some(Inbound::Snapshot { seq, state, text: text.to_owned() })
        }
        "reply" if head.reply.as_deref() == Some("history") => {
            let HistoryFrame { id, entries } = serde_json::from_str(text).ok()?;
            Some(Inbound::Reply { id, body: Reply::History(entries) })
        }
        _ => Some(match serde_json::from_str(text).ok()? {
            ServerFrame::Welcome { server, you, .. } => Inbound::Welcome { server, you },
            ServerFrame::Reply { id, body } => Inbound::Reply { id, body: Reply::Plain(body) },
            ServerFrame::Error { id, refusal } => Inbound::Error { id, refusal },
            ServerFrame::Presence { present, .. } => Inbound::Presence { present, text: text.to_owned() },
            ServerFrame::Ended { reason, .. } => Inbound::Ended { reason },
            ServerFrame::Closing { message, .. } => Inbound::Closing { message },
        }),
    }
}

/// Reads the frame of an entry. An event of a newer daemon is kept as unknown.
pub fn entry(text: &str) -> Option<Decoded<Event>> {
    if let Ok(decoded) = serde_json::from_str(text) {
        return Some(decoded);
    }
    let UnknownEntry { seq, at, event } = serde_json::from_str(text).ok()?;
    let kind = event.get("type").and_then(|kind| kind.as_str()).unwrap_or("?").to_owned();
    Some(Decoded { seq, at, by: None, event: Event::Unknown { source: "portolan".into(), kind } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_history_is_read_with_its_entries_as_they_came() {
        let text = r#"{"type":"reply","id":"a","reply":"history","entries":[{"b":1 , "a":2}]}"#;
        let Inbound::Reply { id, body: Reply::History(entries) } = read(text) else {
            panic!("{:?}", read(text))
        };
        assert_eq!((id.as_str(), entries[0].get()), ("a", r#"{"b":1 , "a":2}"#));
    }

    // covers: 003-173
    #[test]
    fn an_event_of_a_newer_daemon_is_kept_as_unknown() {
        let session = portolan_core::SessionId::from_u128(1);
        let text = format!(
            r#"{{"type":"entry","session":"{session}","seq":7,"at":1,"event":{{"type":"brand_new","x":[]}}}}"#
        );
        let Inbound::Entry { entry, .. } = read(&text) else { panic!("{:?}", read(&text)) };
        assert_eq!(entry.seq, Seq(7));
        assert_eq!(entry.event, Event::Unknown { source: "portolan".into(), kind: "brand_new".into() });
    }

    #[test]
    fn a_frame_of_a_newer_daemon_or_garbage_is_ignored() {
        for text in [r#"{"type":"tomorrow","x":1}"#, "garbage", "[]", "\u{0}"] {
            assert!(matches!(read(text), Inbound::Other), "{text}");
        }
    }
}
