//! Golden transcripts: recordings of Claude Code, through its translator and core to the dashboard's messages. The test
//! plays a recording and projects the log.

use portolan_core::log::delivery::{Delivery, Mode};
use portolan_testkit::agents::{Recording, recorded};

use super::*;
use crate::{
    insights::project::{Detail, Past, View},
    testing::goldens,
};

/// Every message the dashboard gets.
async fn dashboard_of(recording: &Recording) -> Vec<Value> {
    let mut view: Option<View> = None;
    let mut told = Vec::new();
    let taken = &mut |session, delivery: &Delivery<_, _>| {
        let view = view.get_or_insert_with(|| View::new(session, Detail::Blocks, Past::Everything));
        let mut messages = Vec::new();
        match delivery {
            Delivery::Entries(pieces) => {
                for piece in pieces {
                    let entry = piece.entry().unwrap();
                    view.project(entry.seq, &entry.event, &mut messages);
                }
            }
            Delivery::Snapshot(snapshot) => view.snapshot(&snapshot.state, &mut messages),
            Delivery::Presence(_) | Delivery::Closed(_) => {}
        }
        for message in &messages {
            let message = serde_json::from_slice(&message.to_text()).unwrap();
            fits(&SERVER, &message);
            told.push(message);
        }
    };
    let session = recording.play_back(Mode::Items, taken).await;
    let text = serde_json::to_string(&told).unwrap().replace(&session.to_string(), "SESSION");
    let mut told: Vec<Value> = serde_json::from_str(&text).unwrap();
    number(&mut told);
    told
}

/// Requests are named by the number of their entry, which does not matter here.
fn number(messages: &mut [Value]) {
    let mut names: Vec<String> = Vec::new();
    for message in messages {
        for key in ["permission_id", "question_id"] {
            if let Some(id) = message["payload"].get(key).and_then(Value::as_str) {
                let (request, rest) =
                    id.split_once('.').map_or((id, String::new()), |(r, n)| (r, format!(".{n}")));
                let place = names.iter().position(|name| name == request).unwrap_or_else(|| {
                    names.push(request.to_owned());
                    names.len() - 1
                });
                message["payload"][key] = format!("request-{}{rest}", place + 1).into();
            }
        }
    }
}

// covers: 001-021, 001-023, 001-024, 001-025, 001-035, 001-051, 001-053, 001-060
#[tokio::test]
async fn every_recording_of_claude_becomes_the_messages_that_are_expected() {
    for (name, recording) in recorded::of_claude() {
        let messages = dashboard_of(&recording).await;
        let lines: Vec<String> = messages.iter().map(ToString::to_string).collect();
        goldens().bind(|| insta::assert_snapshot!(name.as_str(), lines.join("\n")));
    }
}
