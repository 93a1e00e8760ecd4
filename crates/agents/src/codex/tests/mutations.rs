//! Real recordings with a change, as a newer or a broken Codex might send it: unknown fields, other values, other
//! types, missing parts, keys in another order. No message is lost, nothing panics, and unknown parts are kept with
//! their raw text.

use portolan_core::{Event, ports::Report};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Line, Player, goldens::names, recording};
use crate::mutations::{Heard, config, places, replace, reversed, with_unknown_fields};

/// A recording played up to one of Codex' lines, twice, and that line.
struct Moment {
    one: Player,
    other: Player,
    line: Value,
}

impl Moment {
    /// At a line that fits; none if the recording has no such line.
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

    /// The results of the original line and of a replacement.
    fn say(mut self, instead: &Value) -> (Heard, Heard) {
        (hear(&mut self.one, &self.line), hear(&mut self.other, instead))
    }
}

fn hear(player: &mut Player, line: &Value) -> Heard {
    let (reports, writes) = (player.reports.len(), player.writes.len());
    player.line(&Line { dir: "in".into(), msg: line.clone() });
    Heard { reports: player.reports.split_off(reports), writes: player.writes.split_off(writes) }
}

/// Lines that must not be lost: a finished message or tool, the end of a turn, and a request of Codex.
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

proptest! {
    #![proptest_config(config())]

    #[test]
    fn unknown_fields_lose_nothing(which in any::<usize>(), at in any::<usize>()) {
        let Some(moment) = Moment::of(which, at, |_| true) else { return Ok(()) };
        let changed = with_unknown_fields(&moment.line);
        let (as_it_was, as_changed) = moment.say(&changed);
        prop_assert_eq!(as_it_was.kinds(), as_changed.kinds(), "{}", changed);
        prop_assert_eq!(as_it_was.writes.len(), as_changed.writes.len());
    }

    #[test]
    fn the_order_of_keys_changes_nothing(which in any::<usize>(), at in any::<usize>()) {
        // A server's tools are listed in the order in which the server reported them.
        let Some(moment) = Moment::of(which, at, |line| line["result"]["data"].is_null()) else { return Ok(()) };
        let changed = reversed(&moment.line);
        let (as_it_was, as_changed) = moment.say(&changed);
        prop_assert_eq!(as_it_was.without_raw(), as_changed.without_raw(), "{}", changed);
    }

    #[test]
    fn an_unknown_method_is_kept_with_its_raw_text(which in any::<usize>(), at in any::<usize>()) {
        let Some(moment) = Moment::of(which, at, |line| line["method"].is_string()) else { return Ok(()) };
        let mut changed = moment.line.clone();
        changed["method"] = json!("item/ofANewerVersion");
        if changed.get("id").is_some() {
            // A request that waits already is not opened again.
            changed["id"] = json!(4711);
        }
        let (_, as_changed) = moment.say(&changed);
        let unknown = |report: &Report| matches!(report, Report::Event { event: Event::Unknown { .. }, raw: Some(_) });
        prop_assert!(as_changed.reports.iter().any(unknown), "{}: {:?}", changed, as_changed);
        prop_assert_eq!(as_changed.writes.len(), usize::from(changed.get("id").is_some()), "every request is answered");
    }

    #[test]
    fn other_values_other_types_and_missing_parts_lose_no_message(
        which in any::<usize>(), at in any::<usize>(), part in any::<usize>(), how in 0_usize..7,
    ) {
        let Some(moment) = Moment::of(which, at, counts) else { return Ok(()) };
        let mut changed = moment.line.clone();
        let into = [json!("of_a_newer_version"), json!(null), json!(7), json!([]), json!({}), json!(true)];
        let parts = places(&changed["params"], "/params");
        let path = parts[part % parts.len()].clone();
        replace(&mut changed, &path, into.get(how));
        // An empty message, and a message of the user, have no result; and the thread decides whose turn it is.
        let whose = path == "/params/threadId" && changed["method"] == "turn/completed";
        let silent = whose || !counts(&changed) || changed["params"]["item"]["text"] == "";
        let (as_it_was, as_changed) = moment.say(&changed);
        let lost = as_changed.is_nothing() && !as_it_was.is_nothing();
        prop_assert!(silent || !lost, "`{path}` changed: {changed}\nwas {:?}", as_it_was.kinds());
    }
}
