//! The mode that a session begins in. 2.1.290 and 2.1.300 ran commands without asking.

use portolan_core::{
    Event,
    event::{AgentInfo, Level},
    ports::Report,
};
use serde_json::{Value, json};

use super::{answered_with, events, latest, output_of, ready, said, taken, written};
use crate::{
    claude::translate::Translate,
    driver::{Output, Translator as _},
};

/// A translator whose CLI first reported this.
fn initialized(told: &Value) -> (Translate, Output) {
    let mut translate = latest();
    let out = output_of(|out| translate.start(out));
    let out = said(&mut translate, &answered_with(&written(&out)[0], told));
    (translate, out)
}

fn init(mode: &str) -> Value {
    json!({ "type": "system", "subtype": "init", "session_id": "s", "permissionMode": mode })
}

fn modes_told(out: &Output) -> Vec<String> {
    let mode = |event: &&Event| match event {
        Event::AgentInfo { info } => info.mode.clone(),
        _ => None,
    };
    events(out).iter().filter_map(mode).collect()
}

fn fails(out: &Output, why: &str) {
    assert!(out.fault.as_ref().is_some_and(|fault| fault.contains(why)), "{why}: {out:?}");
    let failed = |event: &&Event| matches!(event, Event::Failure { error, recoverable: false } if error.way_out.is_some());
    assert!(events(out).iter().any(failed), "{out:?}");
    assert!(!out.reports.iter().any(|report| matches!(report, Report::Ready | Report::TurnStarted { .. })));
}

#[test]
fn a_cli_that_begins_in_a_wrong_mode_is_set_to_the_right_one_before_the_first_prompt() {
    let (_, out) = initialized(&json!({ "current_permission_mode": "default" }));
    assert!(out.reports.contains(&Report::Ready), "{out:?}");
    assert_eq!(modes_told(&out), ["default"]);
    for told in [json!({ "current_permission_mode": "auto" }), json!({})] {
        let (mut translate, out) = initialized(&told);
        assert!(!out.reports.contains(&Report::Ready), "{out:?}");
        assert_eq!(modes_told(&out), [""; 0], "a later start would ask for it");
        let asked = written(&out).remove(0);
        assert_eq!(asked["request"], json!({ "subtype": "set_permission_mode", "mode": "default" }));
        let out = said(&mut translate, &taken(&asked));
        assert!(out.reports.contains(&Report::Ready), "{out:?}");
        assert_eq!(modes_told(&out), ["default"]);
    }
}

#[test]
fn in_a_wrong_mode_nothing_begins() {
    let begins = || {
        let (translate, out) = initialized(&json!({ "current_permission_mode": "auto" }));
        (translate, written(&out).remove(0), out)
    };
    let (mut translate, asked, _) = begins();
    fails(
        &said(&mut translate, &answered_with(&asked, &json!({ "mode": "auto" }))),
        "reports the mode `auto`",
    );
    let (mut translate, asked, _) = begins();
    let response =
        json!({ "subtype": "error", "request_id": asked["request_id"], "error": "not allowed here" });
    let refused = said(&mut translate, &json!({ "type": "control_response", "response": response }));
    fails(&refused, "not allowed here");
    let (mut translate, _, out) = begins();
    let timer = out.timers.iter().rfind(|(_, after)| after.is_some()).unwrap().0;
    fails(&output_of(|out| translate.timeout(timer, out)), "no answer within 30 s");
    // The CLI reports one mode, and works in another.
    fails(&said(&mut ready(), &init("auto")), "its first turn begins in the mode `auto`");
}

#[test]
fn a_later_change_of_mode_is_shown_as_a_notice() {
    let mut translate = ready();
    assert!(said(&mut translate, &init("default")).fault.is_none());
    let out = said(&mut translate, &init("acceptEdits"));
    assert_eq!(out.fault, None);
    let warns = |event: &&Event| matches!(event, Event::Notice { level: Level::Warning, text } if text.contains("to `acceptEdits`"));
    assert!(events(&out).iter().any(warns), "{out:?}");
    let info = AgentInfo { mode: Some("acceptEdits".into()), ..AgentInfo::default() };
    assert_eq!(modes_told(&out), [info.mode.unwrap()]);
    // The answer informs the client that sets the mode.
    let status = json!({ "type": "system", "subtype": "status", "status": null, "permissionMode": "plan" });
    said(&mut translate, &status);
    assert!(
        !events(&said(&mut translate, &init("plan")))
            .iter()
            .any(|event| matches!(event, Event::Notice { .. }))
    );
}
