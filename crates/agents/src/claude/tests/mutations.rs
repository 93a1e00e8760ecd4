//! Real recordings with a change, as a newer or a broken CLI might send it: unknown fields, other values, other types,
//! missing parts, keys in another order. No message is lost, nothing panics, and unknown parts are kept with their raw
//! text.

use portolan_core::{Event, ports::Report};
use portolan_wire::ndjson::{Line, Splitter};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Player, Recorded, folder, output_of, ready, recording};
use crate::{
    driver::Translator as _,
    mutations::{Heard, config, places, replace, reversed, with_unknown_fields},
};

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

    /// The results of the original line and of a replacement: reports and written lines.
    fn say(mut self, instead: &Value) -> (Heard, Heard) {
        (hear(&mut self.one, &self.line), hear(&mut self.other, instead))
    }
}

fn hear(player: &mut Player, line: &Value) -> Heard {
    let (reports, writes) = (player.reports.len(), player.writes.len());
    player.agent(line);
    Heard { reports: player.reports.split_off(reports), writes: player.writes.split_off(writes) }
}

/// One of the parts below the message itself.
fn a_part(message: &Value, which: usize, fits: impl Fn(&str, &Value) -> bool) -> Option<String> {
    let fitting: Vec<_> = places(message, "")
        .into_iter()
        .skip(1)
        .filter(|path| fits(path, message.pointer(path).unwrap()))
        .collect();
    (!fitting.is_empty()).then(|| fitting[which % fitting.len()].clone())
}

/// Whether this message may have no result. Pieces of a stream are hints: the message that follows counts. A message
/// that answers Portolan or takes something back finds it by an id, and without the id refers to nothing. The CLI's
/// reports about itself are a state, which may be old. And an empty message has nothing to lose.
fn may_tell_nothing(message: &Value) -> bool {
    let kinds = ["stream_event", "control_response", "control_cancel_request", "system"];
    kinds.iter().any(|kind| message["type"] == *kind) || message["message"]["content"] == json!([])
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn unknown_fields_lose_nothing(which in any::<usize>(), at in any::<usize>()) {
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
    fn an_unknown_kind_is_kept_with_its_raw_text(
        which in any::<usize>(), at in any::<usize>(), deep in any::<bool>(),
    ) {
        let moment = Moment::of(which, at);
        let mut changed = moment.line.clone();
        // The kind of the message itself, or of a report of the CLI about itself.
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
        replace(&mut changed, &path, into.get(how));
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
                    outs.push(output_of(|out| translate.line(line, out)));
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
