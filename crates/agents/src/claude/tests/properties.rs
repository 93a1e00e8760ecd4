//! Any message of the CLI in any order: nothing fails, nothing hangs, nothing is reported twice.

use portolan_core::{Event, ports::Report};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Recorded, folder, output_of, ready, recording, said, setup, written};
use crate::{
    claude::{
        translate::{Repeats, Translate},
        version::Version,
    },
    driver::Translator as _,
};

/// Every line of the CLI in all recordings.
fn lines() -> Vec<Value> {
    let mut lines = vec![];
    for version in ["2.1.325-stdio", "2.1.120-ws", "2.1.42-ws"] {
        for entry in std::fs::read_dir(folder().join(version)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let agent = recording(version, name).into_iter().filter(|recorded| recorded.dir == "in");
            lines.extend(agent.map(|Recorded { msg, .. }| msg));
        }
    }
    lines
}

/// Breaks one thing in a message: removes a part, or replaces it.
fn break_one(value: &mut Value, which: usize, into: &Value) {
    let mut places = vec![];
    collect(value, String::new(), &mut places);
    let place = &places[which % places.len()];
    if let Some(part) = value.pointer_mut(place) {
        *part = into.clone();
    }
}

fn collect(value: &Value, at: String, places: &mut Vec<String>) {
    places.push(at.clone());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{at}/{name}"), places);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_kept_as_a_notice_or_as_unknown(line in "\\PC{0,200}") {
        let mut translate = ready();
        let out = output_of(|out| translate.line(&line, out));
        prop_assert!(!out.reports.is_empty(), "nothing is lost silently");
    }

    #[test]
    fn broken_messages_in_any_order_never_fail_and_every_request_is_opened_or_answered(
        picks in proptest::collection::vec((any::<usize>(), any::<usize>(), 0_usize..6), 1..60),
    ) {
        let all = lines();
        let wrong = [Value::Null, json!(7), json!("text"), json!([]), json!({}), json!(true)];
        let mut translate = ready();
        for (pick, place, into) in picks {
            let mut message = all[pick % all.len()].clone();
            break_one(&mut message, place, &wrong[into]);
            let out = said(&mut translate, &message);
            if let Some(fault) = &out.fault {
                // A first turn in another mode than the one that was set: the CLI gets no more messages.
                prop_assert!(fault.contains("its first turn begins in the mode"), "{fault}");
                break;
            }
            let asks = message["type"] == "control_request" && message["request_id"].is_string();
            if asks && message.is_object() {
                let opened = out.reports.iter().any(|report| matches!(report, Report::RequestOpened { .. }));
                // The same request, repeated, waits already.
                let waits = out.reports.is_empty() && out.writes.is_empty();
                let answered = !written(&out).is_empty();
                prop_assert!(opened || answered || waits, "{message}");
            }
        }
    }

    #[test]
    fn every_repeated_message_is_reported_once(picks in proptest::collection::vec(any::<usize>(), 1..80)) {
        let all: Vec<_> = lines().into_iter().filter(|line| line["uuid"].is_string()).collect();
        let mut translate = Translate::new(setup(Version(2, 1, 120), Repeats::AfterReconnect));
        let chosen: Vec<_> = picks.iter().map(|pick| &all[pick % all.len()]).collect();
        for line in &chosen {
            said(&mut translate, line);
        }
        for line in &chosen {
            prop_assert_eq!(said(&mut translate, line).reports, vec![]);
        }
    }
}

#[test]
fn the_items_of_a_conversation_have_one_name_each() {
    let mut translate = ready();
    let mut begun = std::collections::BTreeSet::new();
    for line in lines() {
        for report in said(&mut translate, &line).reports {
            if let Report::Event { event: Event::ItemStarted { item, .. }, .. } = report {
                assert!(begun.insert(item.clone()), "{item} twice");
            }
        }
    }
    assert!(begun.len() > 20, "{}", begun.len());
}
