//! Measures the cost of the handheld's projector per entry: `cargo run --release -p portolan-frontends --example
//! handheld_cost`.
//!
//! A typical turn: mostly deltas, sometimes a message, a tool and its request.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{borrow::Cow, hint::black_box, time::Instant};

use portolan_core::{Event, Millis, Seq, SessionId, log::delivery::Seen};
use portolan_frontends::handheld::{
    project::{Effect, View},
    wire::{AgentStatus, AutoEdit},
};
use serde_json::json;

/// The number of turns.
const TURNS: u64 = 2_000;

/// The number of deltas in one message.
const DELTAS: u64 = 40;

fn turn(number: u64) -> Vec<Event> {
    let item = format!("i{number}");
    let tool = format!("t{number}");
    let mut events = vec![
        json!({ "type": "turn_started", "turn": number, "origin": "prompt" }),
        json!({ "type": "item_started", "item": item, "kind": "text" }),
    ];
    events.extend((0..DELTAS).map(|_| json!({ "type": "delta", "item": item, "text": "a few words " })));
    let words = "a few words ".repeat(40);
    events.extend([
        json!({ "type": "message", "item": item, "content": [{ "type": "text", "text": words }] }),
        json!({ "type": "tool_call", "tool": tool, "name": "Bash", "kind": "execute", "input": { "command": "ls" } }),
        json!({ "type": "tool_result", "tool": tool, "outcome": "done", "content": [] }),
        json!({ "type": "usage", "usage": { "input": 1000, "cache_read": 20_000 } }),
        json!({ "type": "turn_ended", "turn": number, "result": { "outcome": "completed" } }),
    ]);
    events.into_iter().filter_map(|event| serde_json::from_value(event).ok()).collect()
}

fn main() {
    let events: Vec<Event> = (1..=TURNS).flat_map(turn).collect();
    let count = events.len() as u32;
    let mut view = View::new(SessionId::from_u128(1));
    let (mut seq, mut seen) = (0, 0_u32);
    let begin = Instant::now();
    for event in &events {
        seq += 1;
        let entry = Seen { seq: Seq(seq), at: Millis(0), by: None, event: Cow::Borrowed(event) };
        if view.apply(&entry) == Effect::Seen {
            seen += 1;
        }
    }
    let applied = begin.elapsed();
    let begin = Instant::now();
    for _ in 0..seen {
        let face = view.face(AutoEdit::Off, Millis(0));
        black_box(AgentStatus::fitted(0, "claude-0 shop", AutoEdit::Off, face).frame());
    }
    let shown = begin.elapsed();
    println!("{count} entries: {} ns each to take in", (applied / count).as_nanos());
    println!("{seen} of them can change a face: {} ns each to show", (shown / seen.max(1)).as_nanos());
}
