//! A guard: how many instructions it takes to project an entry to the messages of the insights dashboard and write
//! them. As in instructions.rs, the test only ensures that the number does not grow unnoticed.

use portolan_core::{
    Event, Seq, SessionId,
    event::{Content, ToolKind, ToolOutcome},
};
use portolan_frontends::insights::project::{Detail, Past, View};
use portolan_testkit::instructions::{per_round, rounds};
use serde_json::json;

/// The margin above the count from when the limit was set: enough for another compiler, not for another copy.
const MARGIN: f64 = 1.25;

/// The instructions of a round of three entries (five messages, written out) when the limit was set.
const COUNTED: u64 = 235_000;

#[test]
fn an_entry_for_the_dashboard_stays_within_its_instructions() {
    let taken = per_round("entries_are_projected");
    assert!(
        taken as f64 <= COUNTED as f64 * MARGIN,
        "three entries take {taken} instructions, before they took {COUNTED}; find the cause, or raise the limit and say why"
    );
}

/// A message, a call and its result: what a session mostly consists of.
#[test]
fn entries_are_projected() {
    let mut view = View::new(SessionId::from_u128(7), Detail::Blocks, Past::Everything);
    let words = "some words of a model ".repeat(5);
    let events = [
        Event::Message {
            item: "1.1".into(),
            message: Some("m".into()),
            parent: None,
            model: Some("sonnet".into()),
            content: vec![Content::text(words.as_str())],
            interrupted: false,
            stop_reason: None,
        },
        Event::ToolCall {
            tool: "t".into(),
            item: None,
            message: None,
            parent: None,
            name: "Bash".into(),
            kind: ToolKind::Execute,
            title: None,
            input: json!({"command": "ls", "description": "what is here"}),
            changes: vec![],
        },
        Event::ToolResult {
            tool: "t".into(),
            parent: None,
            outcome: ToolOutcome::Done,
            content: vec![Content::text(words.as_str())],
            changes: vec![],
        },
    ];
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for round in 0..rounds() {
        for (place, event) in events.iter().enumerate() {
            view.project(Seq(round * 3 + place as u64), event, &mut messages);
        }
        bytes += messages.drain(..).map(|message| message.to_text().len()).sum::<usize>();
    }
    assert!(bytes > 0);
}
