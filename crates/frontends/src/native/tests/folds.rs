//! The page itself folds entries (web/page/src/state/folding.ts), from a snapshot on. This test records what core folds
//! from the same entries, and the tests of the page (web/page/test/folds.test.ts) must get the same state.
//!
//! A golden has frames as a client gets them: for each conversation the first snapshot, its entries, and sometimes the
//! change of the state since, as a merge patch (RFC 7396). The conversations are recordings, with long texts and lists
//! cut, and two that are made here: one with every kind of event, and one with more uncertain commands than a session
//! keeps.

use std::{collections::BTreeSet, path::PathBuf};

use portolan_core::{
    Action, Actor, Event, LogId, Seq, TokenId,
    command::{CommandKey, Stage},
    entry::Entry,
    event::{Content, Durability},
    log::{Folded as _, delivery::Delivery},
    ports::Report,
    session::state::State,
};
use portolan_protocol::LogFrame;
use portolan_testkit::{
    agents::{
        Recording,
        recorded::{self, Step},
    },
    replay::{NOW, SESSION, replay, spec},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// How many characters of a text are kept. Longer than any id.
const TEXT: usize = 36;

/// How many members of a list are kept.
const LIST: usize = 1;

/// How many entries of a recording are between two comparisons of the state.
const STRIDE: usize = 6;

/// One event of each kind at least, in an order that gives each something to change.
const EVERY_KIND: &str = include_str!("every_kind.jsonl");

#[derive(Deserialize)]
struct Made {
    by: Option<Actor>,
    event: Event,
}

fn every_kind() -> Vec<Made> {
    EVERY_KIND
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect()
}

/// Writes one conversation.
struct Golden {
    lines: Vec<String>,
    state: State,
    /// The state from the lines so far.
    told: Value,
    last: Seq,
}

impl Golden {
    fn new(name: &str) -> Self {
        let state = State::new(SESSION, spec(), NOW);
        let first = LogFrame::Snapshot { session: SESSION, seq: Seq::ZERO, state: Box::new(state.clone()) };
        let lines = vec![json!({"type": "conversation", "name": name}).to_string(), text_of(&first)];
        Self { lines, told: serde_json::to_value(&state).unwrap(), state, last: Seq::ZERO }
    }

    fn entry(&mut self, seq: Seq, by: Option<&Actor>, event: &Event, frame: &[u8]) {
        self.state.apply(seq, NOW, by, event);
        self.last = seq;
        self.lines.push(String::from_utf8(frame.to_vec()).unwrap());
    }

    /// Writes what has changed since the last comparison.
    fn look(&mut self) {
        let now = serde_json::to_value(&self.state).unwrap();
        // An unchanged state also gets a line: the page must not change either.
        let patch = patch(&self.told, &now).unwrap_or_else(|| json!({}));
        self.lines.push(json!({"type": "changed", "seq": self.last, "patch": patch}).to_string());
        self.told = now;
    }

    fn text(mut self) -> String {
        self.look();
        self.lines.join("\n") + "\n"
    }
}

fn text_of(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap()
}

/// The patch from the old value to the new one; nothing if they are equal.
fn patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut changes = Map::new();
    for (name, value) in after {
        assert!(!value.is_null(), "a patch cannot say that `{name}` is null");
        let change = before.get(name).map_or_else(|| Some(value.clone()), |known| patch(known, value));
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changes.extend(gone.map(|name| (name.clone(), Value::Null)));
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// The same with shorter texts and lists.
fn cut<T: Serialize + DeserializeOwned>(whole: &T) -> T {
    fn shorten(value: &mut Value) {
        match value {
            Value::String(text) => *text = text.chars().take(TEXT).collect(),
            Value::Array(list) => {
                list.truncate(LIST);
                list.iter_mut().for_each(shorten);
            }
            Value::Object(fields) => fields.values_mut().for_each(shorten),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut value = serde_json::to_value(whole).unwrap();
    shorten(&mut value);
    serde_json::from_value(value).unwrap()
}

fn cut_recording(recording: &mut Recording) {
    for step in &mut recording.steps {
        let Step::Report(report) = step else { continue };
        match &mut **report {
            Report::Event { event, .. } => *event = cut(event),
            Report::TurnEnded { result, .. } => *result = cut(result),
            Report::RequestOpened { ask, .. } => *ask = cut(ask),
            _ => {}
        }
    }
}

/// The conversation, and what kinds of entries it has: their names, and those of their fields.
async fn recorded(name: &str, recording: &Recording) -> (String, BTreeSet<String>) {
    let (mut golden, mut entries, mut kinds) = (Golden::new(name), 0, BTreeSet::new());
    replay(recording, &mut |delivery| {
        let Delivery::Entries(pieces) = delivery else { return };
        for piece in pieces {
            let entry = piece.entry().unwrap();
            golden.entry(entry.seq, entry.by.as_deref(), &entry.event, piece.frame());
            let event = serde_json::to_value(&*entry.event).unwrap();
            let fields: Vec<&String> = event.as_object().unwrap().keys().collect();
            kinds.insert(format!("{} {fields:?}", event["type"]));
            entries += 1;
            if entries % STRIDE == 0 {
                golden.look();
            }
        }
    })
    .await;
    (golden.text(), kinds)
}

/// A conversation whose state is compared after every so many entries.
fn made(name: &str, events: Vec<Made>, stride: u64) -> String {
    let mut golden = Golden::new(name);
    for (made, seq) in events.into_iter().zip(1..) {
        let entry = Entry::new(LogId::Session(SESSION), Seq(seq), NOW, made.by, made.event);
        golden.entry(entry.seq, entry.by.as_ref(), &entry.event, entry.frame());
        if seq % stride == 0 {
            golden.look();
        }
    }
    golden.text()
}

/// One uncertain prompt more than a session keeps.
fn uncertain() -> Vec<Made> {
    let accepted = |number: u64| {
        let key = CommandKey {
            token: "replay".parse::<TokenId>().unwrap(),
            id: number.to_string().parse().unwrap(),
        };
        let action = Box::new(Action::Prompt { content: vec![Content::text("hi")] });
        Event::CommandAccepted { key, action }
    };
    let both = |number: u64| {
        let receipt =
            Event::Receipt { command: Seq(number), stage: Stage::Uncertain { reason: "killed".into() } };
        [accepted(number), receipt]
    };
    (1..=33).map(|number| 2 * number - 1).flat_map(both).map(|event| Made { by: None, event }).collect()
}

fn check(file: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web/page/test/folds").join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let line = found.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        found == text,
        "{} is not what core folds (first in line {:?}); run this test with UPDATE=1, look at the diff, and run the page's \
         tests",
        path.display(),
        line.map(|line| line + 1)
    );
}

#[tokio::test]
async fn the_expected_states_of_the_page_for_recordings_come_from_core() {
    let (mut text, mut seen) = (String::new(), BTreeSet::new());
    // Many recordings of different versions differ only in their text: a recording without a new kind of entry is left
    // out.
    for (name, mut recording) in recorded::of_claude().into_iter().rev() {
        cut_recording(&mut recording);
        let (conversation, kinds) = recorded(&name, &recording).await;
        if !kinds.is_subset(&seen) {
            seen.extend(kinds);
            text.push_str(&conversation);
        }
    }
    check("recorded.jsonl", &text);
}

#[test]
fn the_expected_states_of_the_page_for_every_kind_of_event_come_from_core() {
    check("every-kind.jsonl", &made("every kind", every_kind(), 1));
    check("uncertain.jsonl", &made("more uncertain commands than are kept", uncertain(), 64));
}

#[test]
fn every_kind_of_event_is_folded_and_those_that_stream_are_named() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/protocol.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let kinds = schema["$defs"]["Event"]["oneOf"].as_array().unwrap();
    let kinds: BTreeSet<&str> =
        kinds.iter().map(|kind| kind["properties"]["type"]["const"].as_str().unwrap()).collect();
    let mut found = BTreeSet::new();
    for Made { event, .. } in every_kind() {
        let kind = serde_json::to_value(&event).unwrap()["type"].as_str().unwrap().to_owned();
        let streams = event.durability() == Durability::Streamed;
        assert_eq!(streams, Event::STREAMED.contains(&kind.as_str()), "{kind}");
        found.insert(kind);
    }
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), kinds);
}
