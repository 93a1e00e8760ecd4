//! Every recording gives exactly what is expected of it.

use portolan_core::{
    Event,
    event::{ErrorKind, ToolOutcome, TurnOrigin, TurnOutcome, TurnResult},
    ports::Report,
};

use super::{Player, folder};

const NEW: &str = "2.1.325-stdio";
const MIDDLE: &str = "2.1.120-ws";
const OLD: &str = "2.1.42-ws";
const OLD_PIPES: &str = "2.1.42-stdio";
const OLDEST: &str = "1.0.128-stdio";
const ALL: [&str; 5] = [NEW, MIDDLE, OLD, OLD_PIPES, OLDEST];

// covers: 000-015, 000-022, 000-023, 000-025, 000-031, 003-124, 003-127, 003-128, 003-133, 003-134, 004-033, 004-034,
// covers: 004-035, 004-036, 004-038, 004-040
#[test]
fn every_recording_gives_the_expected_result() {
    let mut names = vec![];
    for recorded in ALL {
        for entry in std::fs::read_dir(folder().join(recorded)).unwrap() {
            let path = entry.unwrap().path();
            names.push((recorded, path.file_stem().unwrap().to_str().unwrap().to_owned()));
        }
    }
    names.sort();
    assert!(names.len() > 60, "recordings are missing: {}", names.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../transcripts/expected");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (recorded, name) in names {
        let player = Player::play(recorded, &name);
        settings.bind(|| insta::assert_snapshot!(format!("{recorded}.{name}"), player.score));
    }
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

fn outcomes(recorded: &str, name: &str) -> Vec<TurnOutcome> {
    results(&Player::play(recorded, name)).iter().map(|result| result.outcome).collect()
}

fn consumed(player: &Player) -> usize {
    player.reports.iter().filter(|report| matches!(report, Report::Consumed { .. })).count()
}

#[test]
fn no_recording_has_an_unknown_message() {
    for recorded in ALL {
        for entry in std::fs::read_dir(folder().join(recorded)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let player = Player::play(recorded, name);
            for report in &player.reports {
                if let Report::Event { event: Event::Unknown { kind, .. }, .. } = report {
                    panic!("{recorded} {name}: {kind}");
                }
            }
        }
    }
}

#[test]
fn an_interrupted_turn_is_interrupted_and_not_failed_on_every_version() {
    for recorded in [NEW, MIDDLE, OLD] {
        let expected = [TurnOutcome::Interrupted, TurnOutcome::Completed];
        assert_eq!(outcomes(recorded, "d1-interrupt-mid-stream"), expected, "{recorded}");
        assert_eq!(outcomes(recorded, "d2-interrupt-pending-permission"), expected, "{recorded}");
    }
    let player = Player::play(NEW, "b4-permission-deny-interrupt");
    assert_eq!(results(&player)[0].outcome, TurnOutcome::Interrupted);
}

// covers: 000-017, 000-018, 000-019, 000-020
#[test]
fn a_success_that_is_an_error_is_an_error_of_its_kind() {
    for (recorded, name, kind) in [
        (NEW, "k-e401-exhausted", ErrorKind::Auth),
        (NEW, "k-e402", ErrorKind::Billing),
        (MIDDLE, "k-e402", ErrorKind::Billing),
        (NEW, "k-e529x-exhausted", ErrorKind::Overloaded),
        (NEW, "k-api-down", ErrorKind::Network),
        (NEW, "k-e413", ErrorKind::ContextFull),
        (NEW, "k-refusal", ErrorKind::Refused),
        (NEW, "k-max-tokens-stop", ErrorKind::OutputLimit),
    ] {
        let player = Player::play(recorded, name);
        let result = results(&player)[0];
        assert_eq!(result.outcome, TurnOutcome::Failed, "{name}");
        let error = result.error.as_ref().unwrap();
        assert_eq!(error.kind, kind, "{name}");
        assert!(error.way_out.is_some(), "{name}");
    }
}

// A rate limit ended as an unknown error without a way out.
#[test]
fn a_rate_limit_of_an_old_version_is_reported_as_a_rate_limit() {
    let player = Player::play(OLD_PIPES, "k-e429-exhausted");
    let error = results(&player)[0].error.clone().unwrap();
    assert_eq!(error.kind, ErrorKind::RateLimit, "{error:?}");
    assert!(error.way_out.is_some());
}

// Each prompt was repeated as a notice.
#[test]
fn the_echo_of_a_prompt_is_no_notice_even_if_it_is_not_marked() {
    let player = Player::play(OLDEST, "a-echo-without-a-mark");
    let notices = player
        .reports
        .iter()
        .filter(|report| matches!(report, Report::Event { event: Event::Notice { .. }, .. }))
        .count();
    assert_eq!((notices, consumed(&player), results(&player).len()), (0, 1, 1));
}

// covers: 003-098
#[test]
fn limits_have_their_own_outcomes_and_the_next_prompt_works() {
    assert_eq!(outcomes(NEW, "k-max-turns"), [TurnOutcome::MaxTurns, TurnOutcome::Completed]);
    assert_eq!(outcomes(NEW, "k-max-budget"), [TurnOutcome::MaxBudget]);
}

// covers: 003-102
#[test]
fn prompts_that_are_merged_or_put_into_a_running_turn_are_all_consumed() {
    // Three prompts: one turn each on the oldest version, two turns on the others.
    for (recorded, turns) in [(OLD, 3), (MIDDLE, 2), (NEW, 2)] {
        let player = Player::play(recorded, "q-queueing");
        assert_eq!((consumed(&player), results(&player).len()), (3, turns), "{recorded}");
    }
    let player = Player::play(NEW, "q3-message-during-tool");
    assert_eq!(results(&player).len(), 1);
}

// covers: 004-005
#[test]
fn a_turn_that_starts_by_itself_is_the_agents_own() {
    for (recorded, name) in
        [(NEW, "s1-background-bash"), (NEW, "s2-background-agent"), (OLD, "s1-background-bash")]
    {
        let player = Player::play(recorded, name);
        let origins: Vec<_> = player
            .reports
            .iter()
            .filter_map(|report| match report {
                Report::TurnStarted { origin } => Some(*origin),
                _ => None,
            })
            .collect();
        assert_eq!(origins, [TurnOrigin::Prompt, TurnOrigin::Agent], "{recorded} {name}");
    }
}

// covers: 000-040, 003-078, 003-081
#[test]
fn two_subagents_ask_at_once_and_each_is_identified_by_its_call() {
    let player = Player::play(NEW, "b14-concurrent-permissions");
    let mut subagents = vec![];
    let mut askers = vec![];
    let mut ended = 0;
    for report in &player.reports {
        match report {
            Report::Event {
                event: Event::SubagentStarted { subagent, subagent_type, prompt, .. }, ..
            } => {
                assert!(subagent_type.is_some() && prompt.is_some());
                subagents.push(subagent.clone());
            }
            Report::Event { event: Event::SubagentEnded { work, outcome, .. }, .. } => {
                assert_eq!(*outcome, ToolOutcome::Done);
                assert!(work.is_some_and(|work| work.tokens > 0 && work.tool_uses > 0));
                ended += 1;
            }
            Report::RequestOpened { parent, .. } => askers.extend(parent.clone()),
            _ => {}
        }
    }
    assert_eq!((subagents.len(), ended), (2, 2));
    askers.sort();
    subagents.sort();
    assert_eq!(askers, subagents);
}

// covers: 000-004, 000-056, 004-111
#[test]
fn messages_repeated_after_a_reconnection_are_reported_once() {
    for name in ["o2-drop-mid-stream", "o3-drop-pending-permission"] {
        let player = Player::play(MIDDLE, name);
        let mut items = vec![];
        for report in &player.reports {
            if let Report::Event { event: Event::Message { item, .. }, .. } = report {
                assert!(!items.contains(item), "{name}: {item} twice");
                items.push(item.clone());
            }
        }
        assert_eq!(results(&player).last().unwrap().outcome, TurnOutcome::Completed, "{name}");
    }
}

// covers: 004-041
#[test]
fn a_pending_permission_is_found_by_a_second_initialize_and_opened_once() {
    for recorded in [NEW, OLD] {
        let player = Player::play(recorded, "x1-reinitialize-with-pending-permission");
        let asked =
            player.reports.iter().filter(|report| matches!(report, Report::RequestOpened { .. })).count();
        assert_eq!(asked, 1, "{recorded}");
        assert_eq!(results(&player).len(), 1, "{recorded}");
    }
}

// covers: 003-136, 004-107
#[test]
fn the_cost_of_a_turn_is_its_own_and_not_the_sum_so_far() {
    let about = |cost: Option<f64>, expected: f64| (cost.unwrap() - expected).abs() < 1e-9;
    for (recorded, each) in [(NEW, 0.00536), (MIDDLE, 0.004_065), (OLD, 0.006_775)] {
        let player = Player::play(recorded, "q-queueing");
        for result in results(&player) {
            assert!(about(result.cost_usd, each), "{recorded}: {:?}", result.cost_usd);
        }
    }
    // A resumed conversation continues its count.
    let player = Player::play(NEW, "j2-resume");
    assert!(about(results(&player)[0].cost_usd, 0.00536));
    // A conversation that was cleared counts from zero again.
    let player = Player::play(NEW, "m-slash-commands");
    let total: f64 = results(&player).iter().map(|result| result.cost_usd.unwrap()).sum();
    assert!(about(Some(total), 3.0 * 0.00536), "{total}");
}

#[test]
fn the_cost_of_a_model_that_the_cli_has_no_price_for_is_unknown() {
    let player = Player::play(NEW, "e-control-requests");
    let costs: Vec<_> = results(&player).iter().map(|result| result.cost_usd).collect();
    assert!(costs[0].is_some());
    assert_eq!(costs[1], None, "the second turn ran on `no-such-model`");
}
