//! Real recordings with something changed, as a newer or a broken Codex might say it: fields that nobody knows, other
//! values, other types, parts that are missing, keys in another order. No message is lost, nothing panics, and what is
//! not understood is kept with its raw text.

use portolan_core::{Event, ports::Report};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Map, Value, json};

use super::{Line, Player, goldens::names, recording};

/// A recording played up to one of Codex' lines, twice, and that line.
struct Moment {
    one: Player,
    other: Player,
    line: Value,
}

impl Moment {
    /// At a line that fits; nothing where the recording has none.
    fn of(which: usize, at: usize, fits: impl Fn(&Value) -> bool) -> Option<Self> {
        let names = names();
        let lines = recording(&names[which % names.len()]);
        let said = |index: &usize| lines[*index].dir != "out" && fits(&lines[*index].msg);
        let said: Vec<usize> = (0..lines.len()).filter(said).collect();
        let at = *said.get(at.checked_rem(said.len())?)?;
        let (mut one, mut other) = (Player::new(), Player::new());
        for line in &lines[..at] {
            one.line(line);
            other.line(line);
        }
        Some(Self { one, other, line: lines[at].msg.clone() })
    }

    /// What comes of the line as it was, and of another in its place.
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
    player.line(&Line { dir: "in".into(), msg: line.clone() });
    Heard { reports: player.reports.split_off(reports), writes: player.writes.split_off(writes) }
}

/// The paths of all parts.
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

/// Takes a part out of its object or list.
fn take_out(message: &mut Value, path: &str) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    match message.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.shift_remove(&name.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        other => panic!("{other}"),
    }
}

/// With every object changed.
fn each_object(value: &Value, change: &dyn Fn(Map<String, Value>) -> Map<String, Value>) -> Value {
    match value {
        Value::Object(fields) => {
            let inner = fields.iter().map(|(name, value)| (name.clone(), each_object(value, change)));
            Value::Object(change(inner.collect()))
        }
        Value::Array(items) => items.iter().map(|item| each_object(item, change)).collect(),
        other => other.clone(),
    }
}

/// What would be missed: a finished message or tool, the end of a turn, and what Codex asks.
fn counts(message: &Value) -> bool {
    let method = message["method"].as_str().unwrap_or_default();
    let kind = message["params"]["item"]["type"].as_str().unwrap_or_default();
    let quiet = ["userMessage", "enteredReviewMode", "exitedReviewMode"];
    match method {
        "item/completed" => !quiet.contains(&kind),
        "turn/completed" => true,
        _ => message.get("id").is_some() && !method.is_empty(),
    }
}

/// The same cases each time, so that a test that passed passes again.
const SEED: RngSeed = RngSeed::Fixed(1);

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: SEED, failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn fields_that_nobody_knows_lose_nothing(which in any::<usize>(), at in any::<usize>()) {
        let Some(moment) = Moment::of(which, at, |_| true) else { return Ok(()) };
        let changed = each_object(&moment.line, &|mut fields| {
            fields.insert("zz_of_a_newer_version".into(), json!({ "list": [1, null, "two"] }));
            fields
        });
        let (as_it_was, as_changed) = moment.say(&changed);
        prop_assert_eq!(as_it_was.kinds(), as_changed.kinds(), "{}", changed);
        prop_assert_eq!(as_it_was.writes.len(), as_changed.writes.len());
    }

    #[test]
    fn the_order_of_keys_changes_nothing(which in any::<usize>(), at in any::<usize>()) {
        // What a server told of its tools is listed in the order in which it told it.
        let Some(moment) = Moment::of(which, at, |line| line["result"]["data"].is_null()) else { return Ok(()) };
        let changed = each_object(&moment.line, &|fields| fields.into_iter().rev().collect());
        let (as_it_was, as_changed) = moment.say(&changed);
        prop_assert_eq!(as_it_was.without_raw(), as_changed.without_raw(), "{}", changed);
    }

    #[test]
    fn a_method_that_nobody_knows_is_kept_with_its_raw_text(which in any::<usize>(), at in any::<usize>()) {
        let Some(moment) = Moment::of(which, at, |line| line["method"].is_string()) else { return Ok(()) };
        let mut changed = moment.line.clone();
        changed["method"] = json!("item/ofANewerVersion");
        if changed.get("id").is_some() {
            // One that waits already is not asked again.
            changed["id"] = json!(4711);
        }
        let (_, as_changed) = moment.say(&changed);
        let unknown = |report: &Report| matches!(report, Report::Event { event: Event::Unknown { .. }, raw: Some(_) });
        prop_assert!(as_changed.reports.iter().any(unknown), "{}: {:?}", changed, as_changed);
        prop_assert_eq!(as_changed.writes.len(), usize::from(changed.get("id").is_some()), "whoever asks is answered");
    }

    #[test]
    fn other_values_other_types_and_missing_parts_lose_no_message(
        which in any::<usize>(), at in any::<usize>(), part in any::<usize>(), how in 0_usize..7,
    ) {
        let Some(moment) = Moment::of(which, at, counts) else { return Ok(()) };
        let mut changed = moment.line.clone();
        let into = [json!("of_a_newer_version"), json!(null), json!(7), json!([]), json!({}), json!(true)];
        let mut parts = vec![];
        places(&changed["params"], "/params", &mut parts);
        let path = parts[part % parts.len()].clone();
        match into.get(how) {
            Some(other) => *changed.pointer_mut(&path).unwrap() = other.clone(),
            None => take_out(&mut changed, &path),
        }
        // A message without words, and one that is only the user's, say nothing; and whose turn it is, its thread says.
        let whose = path == "/params/threadId" && changed["method"] == "turn/completed";
        let silent = whose || !counts(&changed) || changed["params"]["item"]["text"] == "";
        let (as_it_was, as_changed) = moment.say(&changed);
        let lost = as_changed.is_nothing() && !as_it_was.is_nothing();
        prop_assert!(silent || !lost, "`{path}` changed: {changed}\nwas {:?}", as_it_was.kinds());
    }
}
