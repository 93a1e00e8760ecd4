//! Compares docs/protocol.md with the types: its examples are valid, and nothing on the wire is missing.

use portolan_core::{Action, DaemonEvent, Event, RefusalCode, request::Outcome, session::state::Status};
use portolan_protocol::{Call, ClientFrame, ClosingReason, Greeting, LogFrame, ReplyBody, ServerFrame};
use serde::de::DeserializeOwned;

use super::*;
use crate::native::{
    parse::{parse, parse_greeting},
    rest::table,
};

const PAGE: &str = include_str!("../../../../../docs/protocol.md");

/// The JSON values in the code blocks with this tag.
fn examples(tag: &str) -> Vec<Value> {
    let open = format!("```json {tag}\n");
    let blocks = PAGE.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap());
    let values = blocks.flat_map(|block| {
        serde_json::Deserializer::from_str(block).into_iter::<Value>().map(|value| value.expect(block))
    });
    values.collect()
}

/// Reads an example, and checks that no field of it was ignored as unknown.
fn reads<T: DeserializeOwned + serde::Serialize>(example: &Value) -> T {
    let read: T =
        serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{error}: {example}"));
    let again = serde_json::to_value(&read).unwrap();
    assert_eq!(missing(example, &again), None, "{example}");
    read
}

/// The first field of `told` that `known` lacks.
fn missing(told: &Value, known: &Value) -> Option<String> {
    match (told, known) {
        (Value::Object(told), Value::Object(known)) => {
            told.iter().find_map(|(key, value)| match known.get(key) {
                Some(other) => missing(value, other),
                None => Some(key.clone()),
            })
        }
        (Value::Array(told), Value::Array(known)) => {
            told.iter().zip(known).find_map(|(told, known)| missing(told, known))
        }
        _ => None,
    }
}

/// The names of a tagged enum: the parser's error for an unknown name lists them.
fn names<T: DeserializeOwned>(tag: &str) -> Vec<String> {
    let stranger = if tag.is_empty() { json!("?") } else { json!({tag: "?"}) };
    let Err(error) = serde_json::from_value::<T>(stranger) else { panic!("a stranger was read") };
    error.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_example_on_the_page_can_be_read() {
    let client = examples("client");
    let server = examples("server");
    let log = examples("log");
    assert!(client.len() >= 20 && server.len() >= 10 && log.len() >= 4);
    for example in &client {
        if example["type"] == Greeting::NAME {
            reads::<Greeting>(example);
            assert!(parse_greeting(example.to_string().as_bytes()).is_ok());
        } else {
            reads::<ClientFrame>(example);
            assert!(parse(example.to_string().as_bytes()).is_ok());
        }
    }
    for example in &server {
        reads::<ServerFrame>(example);
    }
    for example in &log {
        reads::<LogFrame>(example);
    }
    let tagged = PAGE.matches("```json ").count();
    assert_eq!(PAGE.matches("```json").count(), tagged, "a block of JSON without a tag is checked by nobody");
}

#[test]
fn every_frame_of_the_client_has_an_example() {
    let shown: Vec<Value> = examples("client").iter().map(|example| example["type"].clone()).collect();
    for name in Call::NAMES.into_iter().chain([Greeting::NAME]) {
        assert!(shown.contains(&json!(name)), "no example of `{name}`");
    }
}

// covers: 003-173
#[test]
fn everything_on_the_wire_is_named_on_the_page() {
    let all = [
        Call::NAMES.map(str::to_owned).to_vec(),
        vec![Greeting::NAME.to_owned()],
        ServerFrame::NAMES.map(str::to_owned).to_vec(),
        LogFrame::NAMES.map(str::to_owned).to_vec(),
        Action::NAMES.map(str::to_owned).to_vec(),
        vec![Action::NATIVE.to_owned()],
        names::<ServerFrame>("type"),
        names::<ReplyBody>("reply"),
        names::<Event>("type"),
        names::<DaemonEvent>("type"),
        names::<RefusalCode>(""),
        names::<ClosingReason>(""),
        names::<Status>(""),
    ];
    for name in all.iter().flatten() {
        assert!(PAGE.contains(&format!("`{name}`")), "docs/protocol.md does not mention `{name}`");
    }
    for name in names::<Outcome>("how") {
        assert!(PAGE.contains(&format!("\"how\": \"{name}\"")), "docs/protocol.md does not mention `{name}`");
    }
    assert!(all.iter().all(|names| !names.is_empty()));
}

#[test]
fn every_frontend_that_can_have_a_listener_of_its_own_is_named_on_the_page() {
    let row = PAGE.lines().find(|line| line.starts_with("| `door_opened` |")).unwrap();
    for frontend in ["insights", "agui", "handheld"] {
        assert!(row.contains(&format!("`{frontend}`")), "{frontend}: {row}");
    }
}

#[test]
fn the_documented_rate_is_the_rate_of_the_door() {
    let limits = portolan_host::door::DoorLimits::default();
    assert_eq!(limits.request_burst, 1000);
    let row = format!(
        "| {} per second on average, at most 1,000 in a burst; then `busy`",
        limits.requests_per_second
    );
    assert!(PAGE.contains(&row), "{row}");
}

#[test]
fn every_route_is_on_the_page() {
    for route in table() {
        assert!(
            PAGE.contains(&format!("`{}", route.path)),
            "docs/protocol.md does not mention {}",
            route.path
        );
    }
}

#[test]
fn the_lists_of_names_are_complete() {
    assert_eq!(names::<ServerFrame>("type"), ServerFrame::NAMES);
    assert_eq!(names::<LogFrame>("type"), LogFrame::NAMES);
    assert_eq!(names::<Call>("type"), Call::NAMES);
    assert_eq!(names::<Greeting>("type"), [Greeting::NAME]);
}
