//! Real recordings with something changed, as a newer or a broken CLI might say it: fields that nobody knows, other
//! values, other types, parts that are missing, keys in another order. No message is lost, nothing panics, and what is
//! not understood is kept with its raw text.

use portolan_core::{Event, ports::Report};
use portolan_wire::ndjson::{Line, Splitter};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Map, Value, json};

use super::{Player, Recorded, folder, ready, recording, turnout};
use crate::driver::Translator as _;

const RECORDINGS: [&str; 3] = ["2.1.325-stdio", "2.1.120-ws", "2.1.42-ws"];

/// Every recording, by its folder and name.
fn recordings() -> Vec<(&'static str, String)> {
    let mut all = vec![];
    for recorded in RECORDINGS {
        for entry in std::fs::read_dir(folder().join(recorded)).unwrap() {
            let path = entry.unwrap().path();
            all.push((recorded, path.file_stem().unwrap().to_str().unwrap().to_owned()));
        }
    }
    all.sort();
    all
}

/// A recording played up to one of the CLI's lines, twice, and that line.
struct Moment {
    one: Player,
    other: Player,
    line: Value,
}

impl Moment {
    fn of(which: usize, at: usize) -> Self {
        let all = recordings();
        let (recorded, name) = &all[which % all.len()];
        let lines = recording(recorded, name);
        let said: Vec<usize> = (0..lines.len()).filter(|index| lines[*index].dir != "out").collect();
        let at = said[at % said.len()];
        let (mut one, mut other) = (Player::new(recorded), Player::new(recorded));
        for Recorded { dir, msg } in &lines[..at] {
            for player in [&mut one, &mut other] {
                if dir == "out" { player.host(msg) } else { player.agent(msg) }
            }
        }
        Self { one, other, line: lines[at].msg.clone() }
    }

    /// What comes of the line as it was, and of another in its place: reports and what is written.
    fn say(mut self, instead: &Value) -> (Heard, Heard) {
        (hear(&mut self.one, &self.line), hear(&mut self.other, instead))
    }
}

#[derive(Debug, PartialEq)]
struct Heard {
    reports: Vec<Report>,
    writes: Vec<Value>,
}

impl Heard {
    fn is_nothing(&self) -> bool {
        self.reports.is_empty() && self.writes.is_empty()
    }

    /// What kinds of things they are, without what they say.
    fn kinds(&self) -> Vec<String> {
        let kind = |report: &Report| match report {
            Report::Event { event, .. } => serde_json::to_value(event).unwrap()["type"].to_string(),
            other => format!("{other:?}").split([' ', '(']).next().unwrap().to_owned(),
        };
        self.reports.iter().map(kind).collect()
    }

    fn without_raw(mut self) -> Self {
        for report in &mut self.reports {
            match report {
                Report::Event { raw, .. }
                | Report::TurnEnded { raw, .. }
                | Report::RequestOpened { raw, .. } => {
                    *raw = None;
                }
                _ => {}
            }
        }
        self
    }
}

fn hear(player: &mut Player, line: &Value) -> Heard {
    let (reports, writes) = (player.reports.len(), player.writes.len());
    player.agent(line);
    Heard { reports: player.reports.split_off(reports), writes: player.writes.split_off(writes) }
}

/// The paths of all parts, and of all objects.
fn places(value: &Value, at: &str, parts: &mut Vec<String>) {
    parts.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), parts);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), parts);
            }
        }
        _ => {}
    }
}

/// One of the parts below the message itself.
fn a_part(message: &Value, which: usize, fits: impl Fn(&str, &Value) -> bool) -> Option<String> {
    let mut parts = vec![];
    places(message, "", &mut parts);
    let fitting: Vec<_> =
        parts.into_iter().skip(1).filter(|path| fits(path, message.pointer(path).unwrap())).collect();
    (!fitting.is_empty()).then(|| fitting[which % fitting.len()].clone())
}

/// Takes a part out of its object or list.
fn take_out(message: &mut Value, path: &str) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    match message.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.shift_remove(&name.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        other => panic!("{other}"),
    }
}

/// With a field that nobody knows in every object.
fn with_unknown_fields(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Map<_, _> =
                fields.iter().map(|(name, value)| (name.clone(), with_unknown_fields(value))).collect();
            fields.insert("zz_of_a_newer_version".into(), json!({ "list": [1, null, "two"] }));
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(with_unknown_fields).collect(),
        other => other.clone(),
    }
}

/// With the keys of every object the other way round.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().rev().map(|(name, value)| (name.clone(), reversed(value))).collect()
        }
        Value::Array(items) => items.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

/// May this message come to nothing? Pieces of a stream are hints: the message that follows is the truth. What answers
/// us or takes something back finds it by an id, and without it is about nothing. What the CLI says about itself is a
/// state, which may be no news. And an empty message holds nothing to lose.
fn may_tell_nothing(message: &Value) -> bool {
    let kinds = ["stream_event", "control_response", "control_cancel_request", "system"];
    kinds.iter().any(|kind| message["type"] == *kind) || message["message"]["content"] == json!([])
}

/// The same cases each time, so that a test that passed passes again.
const SEED: RngSeed = RngSeed::Fixed(1);

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: SEED, failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn fields_that_nobody_knows_lose_nothing(which in any::<usize>(), at in any::<usize>()) {
        let moment = Moment::of(which, at);
        let changed = with_unknown_fields(&moment.line);
        let (as_it_was, as_changed) = moment.say(&changed);
// Some parts are passed on as they are, such as plugins: then there may be more news, never less.
        let (before, mut after) = (as_it_was.kinds(), as_changed.kinds().into_iter());
        prop_assert!(before.iter().all(|kind| after.any(|other| other == *kind)), "{changed}");
        prop_assert_eq!(as_it_was.writes.len(), as_changed.writes.len());
    }

    #[test]
    fn the_order_of_keys_changes_nothing(which in any::<usize>(), at in any::<usize>()) {
        let moment = Moment::of(which, at);
        let changed = reversed(&moment.line);
        let (as_it_was, as_changed) = moment.say(&changed);
        prop_assert_eq!(as_it_was.without_raw(), as_changed.without_raw(), "{}", changed);
    }

    #[test]
    fn a_kind_that_nobody_knows_is_kept_with_its_raw_text(
        which in any::<usize>(), at in any::<usize>(), deep in any::<bool>(),
    ) {
        let moment = Moment::of(which, at);
        let mut changed = moment.line.clone();
        // The kind of the message itself, or of what the CLI says about itself.
        let field = if deep && changed["type"] == "system" { "subtype" } else { "type" };
        changed[field] = json!("of_a_newer_version");
        changed["uuid"] = json!("a uuid that was not seen before");
        let (_, as_changed) = moment.say(&changed);
        let unknown = |report: &Report| matches!(report, Report::Event { event: Event::Unknown { .. }, raw: Some(_) });
        prop_assert!(as_changed.reports.iter().any(unknown), "{}: {:?}", changed, as_changed);
    }

    #[test]
    fn other_values_other_types_and_missing_parts_lose_no_message(
        which in any::<usize>(), at in any::<usize>(), part in any::<usize>(), how in 0_usize..8,
    ) {
        let moment = Moment::of(which, at);
        let mut changed = moment.line.clone();
        let into = [json!("of_a_newer_version"), json!(null), json!(7), json!("text"), json!([]), json!({}), json!(true)];
        // A value that names something, any value, or none.
        let names = |path: &str, value: &Value| {
            value.is_string() && ["type", "subtype", "status", "stop_reason", "mode", "role"].iter().any(|name| path.ends_with(name))
        };
        let path = if how == 0 { a_part(&changed, part, names) } else { a_part(&changed, part, |_, _| true) };
        let Some(path) = path else { return Ok(()) };
        match into.get(how) {
            Some(other) => *changed.pointer_mut(&path).unwrap() = other.clone(),
            None => take_out(&mut changed, &path),
        }
        let may_be_silent = may_tell_nothing(&moment.line) || may_tell_nothing(&changed);
        let (as_it_was, as_changed) = moment.say(&changed);
        let lost = as_changed.is_nothing() && !as_it_was.is_nothing();
        prop_assert!(may_be_silent || !lost, "`{path}` changed: {changed}\nwas {:?}", as_it_was.kinds());
    }

    #[test]
    fn any_cut_of_the_bytes_gives_the_same(which in any::<usize>(), cuts in prop::collection::vec(1_usize..3000, 1..40)) {
        let all = recordings();
        let (recorded, name) = &all[which % all.len()];
        let said = recording(recorded, name).into_iter().filter(|recorded| recorded.dir != "out");
        let bytes: Vec<u8> = said.flat_map(|Recorded { msg, .. }| format!("{msg}\n").into_bytes()).collect();
        let play = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut translate, mut splitter, mut outs) = (ready(), Splitter::default(), vec![]);
            for piece in pieces {
                splitter.push(piece);
                while let Some(line) = splitter.next_line() {
                    let Line::Text(line) = line else { panic!("{line:?}") };
                    outs.push(turnout(|out| translate.line(line, out)));
                }
            }
            outs
        };
        let mut rest = bytes.as_slice();
        let mut cut = cuts.iter().cycle().map_while(|length| {
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(play(&mut cut), play(&mut std::iter::once(bytes.as_slice())));
    }
}
