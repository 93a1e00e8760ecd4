//! Every recording gives exactly what is expected of it.

use portolan_core::{
    Event,
    event::{ErrorKind, TaskStatus, ToolOutcome, TurnOutcome, TurnResult},
    ports::Report,
    request::{Ask, Verdict},
};
use serde_json::Value;

use super::{Player, RECORDED, folder, recording_of};

pub(super) fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder().join(RECORDED)).unwrap();
    let name = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<_> = files.map(|file| name(file.unwrap().path())).collect();
    names.sort();
    names
}

fn results(player: &Player) -> Vec<&TurnResult> {
    let mut results = vec![];
    for report in &player.reports {
        if let Report::TurnEnded { result, .. } = report {
            results.push(&**result);
        }
    }
    results
}

fn outcomes(name: &str) -> Vec<TurnOutcome> {
    results(&Player::play(name)).iter().map(|result| result.outcome).collect()
}

fn events(player: &Player) -> impl Iterator<Item = &Event> {
    player.reports.iter().filter_map(|report| match report {
        Report::Event { event, .. } => Some(event),
        _ => None,
    })
}

fn tool_outcomes(player: &Player) -> Vec<ToolOutcome> {
    let outcome = |event: &Event| match event {
        Event::ToolResult { outcome, .. } => Some(*outcome),
        _ => None,
    };
    events(player).filter_map(outcome).collect()
}

// covers: 003-034, 003-035, 003-042, 003-045, 003-046, 003-047, 003-048, 003-049
#[test]
fn every_recording_gives_the_expected_result() {
    let names = names();
    assert!(names.len() > 40, "recordings are missing: {}", names.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../transcripts/expected");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for name in names {
        let player = Player::play(&name);
        settings.bind(|| insta::assert_snapshot!(format!("{RECORDED}.{name}"), player.score));
    }
}

#[test]
fn no_recording_has_an_unknown_message() {
    for name in names().iter().filter(|name| *name != "dynamic_tool") {
        let player = Player::play(name);
        for event in events(&player) {
            assert!(!matches!(event, Event::Unknown { .. }), "{name}: {event:?}");
        }
    }
}

#[test]
fn every_turn_ends_with_the_outcome_that_it_had_in_the_recording() {
    use TurnOutcome::{Completed, Failed, Interrupted};
    assert_eq!(outcomes("basic_turn"), [Completed]);
    assert_eq!(outcomes("interrupt_stream")[0], Interrupted);
    assert_eq!(outcomes("interrupt_approval")[0], Interrupted);
    // Codex ends a turn that it never reported as started.
    assert_eq!(outcomes("interrupt_race_empty_id"), [Interrupted]);
    assert_eq!(outcomes("error_401"), [Failed, Completed]);
    assert_eq!(outcomes("approval_exec_cancel")[0], Interrupted);
    assert_eq!(outcomes("approval_exec_decline")[0], Completed);
}

// covers: 003-142
#[test]
fn every_decision_reaches_codex_in_its_own_words() {
    let decision = |name: &str| {
        let player = Player::play(name);
        let decided = player.writes.iter().find(|line| line["result"].get("decision").is_some());
        decided.unwrap_or_else(|| panic!("{name}: nothing was decided"))["result"]["decision"].clone()
    };
    assert_eq!(decision("approval_exec_accept"), "accept");
    // Portolan makes a rule of its own: a lasting approval of Codex would keep later calls from a deny rule.
    assert_eq!(decision("approval_exec_accept_session"), "accept");
    assert_eq!(decision("approval_policy_amend"), "accept");
    assert_eq!(decision("approval_exec_decline"), "decline");
    assert_eq!(decision("approval_exec_cancel"), "cancel");
    assert_eq!(decision("filechange_cancel"), "cancel");
    assert_eq!(tool_outcomes(&Player::play("approval_exec_decline")), [ToolOutcome::Denied]);
    assert_eq!(tool_outcomes(&Player::play("mcp_tool_call_declined")), [ToolOutcome::Denied]);
}

#[test]
fn no_request_offers_an_approval_that_lasts() {
    for name in names() {
        for report in Player::play(&name).reports {
            let Report::RequestOpened { ask, .. } = report else { continue };
            let Ask::Permission { options, .. } = *ask else { continue };
            let allowing: Vec<_> = options.iter().filter(|option| option.verdict == Verdict::Allow).collect();
            assert!(allowing.is_empty(), "{name}: {allowing:?}");
        }
    }
}

// covers: 003-047
#[test]
fn the_approval_of_a_change_shows_its_diff() {
    let player = Player::play("filechange_accept");
    let asked = player.reports.iter().find_map(|report| match report {
        Report::RequestOpened { ask, tool: Some(_), .. } => Some(serde_json::to_value(&**ask).unwrap()),
        _ => None,
    });
    let asked: Value = asked.expect("nothing was asked");
    assert_eq!(asked["tool_name"], "apply_patch");
    assert_eq!(
        asked["changes"][0]["diff"],
        "--- /dev/null\n+++ /workspace/demo/hello.txt\n@@ -0,0 +1,2 @@\n+hello\n+world\n"
    );
}

#[test]
fn a_command_that_outlives_its_turn_becomes_a_task_and_ends_as_one() {
    let player = Player::play("exec_background");
    let statuses: Vec<_> = events(&player)
        .filter_map(|event| match event {
            Event::TaskChanged { task } => Some(task.status),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [TaskStatus::Running, TaskStatus::Completed]);
}

// 0.144.6 reports the end of a command after the end of its turn.
#[test]
fn a_command_whose_end_is_reported_late_does_not_become_a_background_task() {
    let player = Player::play_lines(&recording_of("0.144.6", "exec_late"));
    assert_eq!(tool_outcomes(&player), [ToolOutcome::Done]);
    assert!(!events(&player).any(|event| matches!(event, Event::TaskChanged { .. })));
    let result = player
        .reports
        .iter()
        .position(|report| matches!(report, Report::Event { event: Event::ToolResult { .. }, .. }));
    let ended = player.reports.iter().position(|report| matches!(report, Report::TurnEnded { .. }));
    assert!(result.is_some() && result < ended, "{:?}", player.reports);
    assert_eq!(results(&player)[0].outcome, TurnOutcome::Completed);
}

// covers: 003-044
#[test]
fn an_interrupt_ends_commands_that_still_run_and_is_sent_again_if_it_came_too_early() {
    let player = Player::play("interrupt_exec");
    let cleans = player.writes.iter().filter(|line| line["method"] == "thread/backgroundTerminals/clean");
    assert!(cleans.count() >= 1);
    assert_eq!(tool_outcomes(&player), [], "items after the end were closed with the turn");
    let player = Player::play("interrupt_immediately");
    let ids: Vec<_> = player
        .writes
        .iter()
        .filter(|line| line["method"] == "turn/interrupt")
        .map(|line| line["params"]["turnId"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(ids.len(), 2, "refused at first, and sent again once the turn ran: {ids:?}");
    assert!(ids[0].is_empty() && !ids[1].is_empty(), "{ids:?}");
}

#[test]
fn an_error_is_reported_once_at_the_end_of_its_turn() {
    for (name, kind) in [
        ("error_401", ErrorKind::Auth),
        ("error_429_usage_limit", ErrorKind::Billing),
        ("error_500", ErrorKind::Server),
        ("error_failed_rate", ErrorKind::RateLimit),
    ] {
        let player = Player::play(name);
        assert_eq!(results(&player)[0].error.as_ref().map(|error| error.kind), Some(kind), "{name}");
        assert!(!events(&player).any(|event| matches!(event, Event::Failure { .. })), "{name}");
    }
    let player = Player::play("error_retries");
    let retries = events(&player).filter(|event| matches!(event, Event::Retry { .. }));
    assert!(retries.count() >= 2);
}

#[test]
fn a_subagent_has_its_own_place_and_does_not_end_the_turn() {
    let player = Player::play("subagent");
    let started = events(&player).find_map(|event| match event {
        Event::SubagentStarted { subagent, prompt, .. } => Some((subagent.clone(), prompt.clone())),
        _ => None,
    });
    let (subagent, prompt) = started.expect("no subagent");
    assert_eq!((subagent.as_str(), prompt.as_deref()), ("call_0008", Some("@@text sub")));
    let own = events(&player).filter(|event| match event {
        Event::Message { parent, .. } => parent.as_deref() == Some("call_0008"),
        _ => false,
    });
    assert_eq!(own.count(), 1);
    assert_eq!(results(&player).len(), 1);
}
