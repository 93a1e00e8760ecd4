//! Every recording gives exactly what is expected of it.

use portolan_core::{
    Event,
    event::{Content, TurnOutcome, TurnResult},
    ports::Report,
};

use super::{Player, events_of, folder, recording};

/// An agent that is missing here breaks the tests.
const AGENTS: &[&str] =
    &["claude-agent-acp", "cline", "codex-acp", "copilot", "gemini", "goose", "kilo", "opencode", "qwen"];

fn names() -> Vec<String> {
    let mut names = vec![];
    for agent in AGENTS {
        for file in std::fs::read_dir(folder().join(agent)).unwrap() {
            let path = file.unwrap().path();
            names.push(format!("{agent}/{}", path.file_stem().unwrap().to_str().unwrap()));
        }
    }
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

// covers: 003-011, 003-012, 003-014, 003-015, 003-016, 003-054, 003-055, 003-056, 003-059, 003-060
#[test]
fn every_recording_gives_the_expected_result() {
    let names = names();
    assert!(names.len() > 60, "recordings are missing: {}", names.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../transcripts/expected");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for name in names {
        let player = Player::play(&name);
        settings.bind(|| insta::assert_snapshot!(name.replace('/', "."), player.score));
    }
}

#[test]
fn every_recorded_message_is_understood() {
    for name in names() {
        let player = Player::play(&name);
        for event in events_of(&player.reports) {
            assert!(!matches!(event, Event::Unknown { .. }), "{name}: {event:?}");
        }
    }
}

#[test]
fn the_last_message_is_the_result_of_its_turn() {
    for agent in AGENTS.iter().filter(|agent| **agent != "cline") {
        let player = Player::play(&format!("{agent}/basic"));
        let [result] = results(&player)[..] else { panic!("{agent}: one turn: {}", player.score) };
        assert_eq!(result.outcome, TurnOutcome::Completed, "{agent}");
        let said = result.text.as_deref().unwrap_or_default();
        assert!(said.contains("Hello from scripted model."), "{agent}: {said:?}");
        assert!(result.usage.is_some_and(|usage| usage.output > 0), "{agent}: {result:?}");
        let streamed: String = events_of(&player.reports)
            .iter()
            .filter_map(|event| match event {
                Event::Delta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let finished: String = events_of(&player.reports)
            .iter()
            .filter_map(|event| match event {
                Event::Message { content, .. } => content.first(),
                _ => None,
            })
            .map(|piece| match piece {
                Content::Text { text } | Content::Thinking { text } => text.as_str(),
                other => panic!("{agent}: {other:?}"),
            })
            .collect();
        assert_eq!(streamed, finished, "{agent}");
    }
}

// covers: 003-057
#[test]
fn a_stopped_turn_is_shown_as_stopped_whatever_the_agent_reports() {
    for agent in AGENTS.iter().filter(|agent| **agent != "cline") {
        let player = Player::play(&format!("{agent}/cancel"));
        let outcomes: Vec<_> = results(&player).iter().map(|result| result.outcome).collect();
        assert_eq!(outcomes, [TurnOutcome::Interrupted, TurnOutcome::Completed], "{agent}");
    }
}

#[test]
fn a_recording_is_of_the_version_that_the_catalogue_names() {
    for agent in AGENTS.iter().filter(|agent| **agent != "cline") {
        let lines = recording(&format!("{agent}/basic"));
        let told = lines.iter().find_map(|line| line.msg["result"]["agentInfo"]["version"].as_str());
        // Goose does not report its version.
        if let Some(version) = told {
            assert_eq!(crate::acp::catalogue::known(agent).tested, Some(version), "{agent}");
        }
    }
}

#[test]
fn the_error_of_an_agent_without_login_says_how_to_log_in() {
    let player = Player::play("cline/basic");
    let shown = events_of(&player.reports);
    let login = shown.iter().find_map(|event| match event {
        Event::AuthStatus { output, error: Some(error), .. } => Some((output, error)),
        _ => None,
    });
    let (ways, error) = login.expect("nothing was said");
    assert!(!ways.is_empty() && error.contains("cline auth"), "{ways:?} {error}");
    assert!(player.score.contains("given up: Cline is not logged in"), "{}", player.score);
}
