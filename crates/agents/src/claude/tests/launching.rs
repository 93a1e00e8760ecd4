//! What is started for which session.

use std::sync::Arc;

use portolan_core::{
    Generation, SessionSpec,
    event::ResetReason,
    ports::{Agent as _, Launch, ResumePoint},
};
use serde_json::{Value, json};

use super::SESSION;
use crate::{
    Supervision,
    child::Program,
    claude::{
        Claude, Config, Version, Way, launch,
        translate::{Repeats, Setup},
    },
    dial_in::DialIn,
};

fn supervision(variables: &[(&str, &str)]) -> Supervision {
    Supervision::new("test", variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
}

fn launch_of(spec: Value, resume: Option<ResumePoint>) -> Launch {
    let mut spec = spec;
    spec["agent"] = json!("claude");
    let spec: SessionSpec = serde_json::from_value(spec).unwrap();
    Launch { session: SESSION, generation: Generation(1), spec: Arc::new(spec), resume }
}

async fn program(launch: &Launch, version: Version, supervision: &Supervision, way: Way) -> Program {
    let config = Config::default();
    let plan = launch::Plan { launch, version: Some(version), config: &config, supervision };
    let dial_in = DialIn::new();
    dial_in.listens_at("ws://127.0.0.1:7");
    let expected = (way == Way::Websocket).then(|| dial_in.expect(SESSION).unwrap());
    plan.program(expected.as_ref()).await.unwrap()
}

fn words(program: &Program) -> Vec<String> {
    program.command.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
}

async fn started(spec: Value, resume: Option<ResumePoint>) -> Vec<String> {
    let (launch, sandbox) = (launch_of(spec, resume), supervision(&[("IS_SANDBOX", "1")]));
    words(&program(&launch, Version(2, 1, 325), &sandbox, Way::Stdio).await)
}

fn setup(spec: Value, version: Version) -> Setup {
    let (launch, supervision, config) = (launch_of(spec, None), supervision(&[]), Config::default());
    let plan =
        launch::Plan { launch: &launch, version: Some(version), config: &config, supervision: &supervision };
    plan.setup(Way::Websocket)
}

fn has(words: &[String], flag: &str, value: &str) -> bool {
    words.windows(2).any(|pair| pair[0] == flag && pair[1] == value)
}

// covers: 000-010, 000-011, 000-013, 004-084
#[tokio::test]
async fn a_plain_session_is_started_over_its_pipes() {
    let words = started(json!({}), None).await;
    let expected = "claude --permission-prompt-tool stdio --output-format stream-json --input-format stream-json \
                    --verbose --include-partial-messages --permission-mode default --session-id";
    assert_eq!(words[..words.len() - 1].join(" "), expected);
    assert_eq!(words.last().unwrap(), &SESSION.to_string());
}

// covers: 000-010, 000-076, 004-002
#[tokio::test]
async fn an_old_version_dials_in_with_a_secret_that_no_command_line_shows() {
    let launch = launch_of(json!({}), None);
    let program = program(&launch, Version(2, 1, 120), &supervision(&[]), Way::Websocket).await;
    let words = words(&program);
    // Without the echoes the state of a prompt would be unknown.
    let expected = format!(
        "claude --sdk-url ws://127.0.0.1:7/ws/cli/{SESSION} --print --output-format stream-json --input-format \
         stream-json --verbose --include-partial-messages --replay-user-messages --permission-mode default --session-id \
         {SESSION} -p "
    );
    assert_eq!(words.join(" "), expected);
    let secret =
        program.environment.variables.iter().find(|(name, _)| name == "CLAUDE_CODE_SESSION_ACCESS_TOKEN");
    let secret = secret.unwrap().1.to_str().unwrap();
    assert!(!words.iter().any(|word| word.contains(secret)));
}

// covers: 002-048, 003-095, 003-098
#[tokio::test]
async fn every_option_of_a_session_reaches_the_cli() {
    let words = started(
        json!({
            "model": "opus", "mode": "bypassPermissions", "allowed_tools": ["Read", "Bash(git *)"],
            "disallowed_tools": ["WebSearch"], "setting_sources": [],
            "extra_dirs": ["/a", "/b"], "max_turns": 3, "max_budget_usd": 0.5, "json_schema": {"type": "object"},
        }),
        None,
    )
    .await;
    for (flag, value) in [
        ("--model", "opus"),
        ("--permission-mode", "bypassPermissions"),
        ("--allowedTools", "Read,Bash(git *)"),
        ("--disallowedTools", "WebSearch"),
        ("--setting-sources", ""),
        ("--add-dir", "/a"),
        ("--add-dir", "/b"),
        ("--max-turns", "3"),
        ("--max-budget-usd", "0.5"),
        ("--json-schema", r#"{"type":"object"}"#),
    ] {
        assert!(has(&words, flag, value), "{flag} {value}: {words:?}");
    }
    assert!(words.contains(&"--allow-dangerously-skip-permissions".into()));
}

#[tokio::test]
async fn a_value_is_never_read_as_a_flag() {
    let words = started(json!({ "model": "--dangerously-skip-permissions" }), None).await;
    assert!(words.contains(&"--model=--dangerously-skip-permissions".into()));
    assert!(!words.contains(&"--dangerously-skip-permissions".into()));
}

// covers: 000-068, 003-093
#[tokio::test]
async fn a_conversation_is_resumed_or_forked() {
    let point = |fork| ResumePoint {
        agent_session: "old".into(),
        fork,
        at_message: None,
        last_message: None,
        exchanges: 0,
    };
    let words = started(json!({}), Some(point(false))).await;
    assert!(has(&words, "--resume", "old") && !words.contains(&"--session-id".into()));
    let words = started(json!({}), Some(point(true))).await;
    assert!(has(&words, "--resume", "old") && words.contains(&"--fork-session".into()));
    assert!(has(&words, "--session-id", &SESSION.to_string()));
}

// covers: 000-005, 002-048, 003-080, 003-097, 004-041
#[tokio::test]
async fn prompts_subagents_hooks_and_servers_are_messages_and_never_arguments() {
    let spec = json!({
        "system_prompt": {"how": "replace", "text": "be brief"},
        "subagents": {"helper": {"description": "helps", "prompt": "you help", "tools": ["Read"], "model": "haiku"}},
        "hooks": [{"event": "PreToolUse", "matcher": "Bash", "timeout_seconds": 5}, {"event": "Stop"}, {"event": "Stop"}],
        // None of them may be on the command line, wherever it contains a secret.
        "mcp_servers": {"secret": {"command": "run", "env": {"TOKEN": "hunter2"}}, "mine": {"type": "sdk"},
            "list": {"command": "run", "env": [{"name": "TOKEN", "value": "hunter2"}]},
            "web": {"url": "https://u:hunter2@h.example/", "http_headers": {"X": "hunter2"}}, "plain": {"command": "run"}},
    });
    let words = started(spec.clone(), None).await.join(" ");
    for hidden in ["brief", "helper", "Stop", "hunter2", "mine", "--mcp-config"] {
        assert!(!words.contains(hidden), "{hidden}: {words}");
    }
    let setup = setup(spec, Version(2, 1, 325));
    assert_eq!(
        setup.initialize,
        json!({
            "subtype": "initialize", "forwardSubagentText": true, "systemPrompt": ["be brief"],
            "agents": {"helper": {"description": "helps", "prompt": "you help", "tools": ["Read"], "model": "haiku"}},
            "hooks": {"PreToolUse": [{"hookCallbackIds": ["hook-0"], "matcher": "Bash", "timeout": 5},
                                     {"hookCallbackIds": ["portolan-rules"]}],
                      "Stop": [{"hookCallbackIds": ["hook-1"]}, {"hookCallbackIds": ["hook-2"]}]},
            "sdkMcpServers": ["mine"],
        })
    );
    assert_eq!(setup.served, ["mine"]);
    assert_eq!(setup.servers.keys().collect::<Vec<_>>(), ["secret", "list", "web", "plain"]);
    assert_eq!(setup.repeats, Repeats::AfterReconnect);
}

#[test]
fn the_oldest_version_takes_the_system_prompt_in_one_piece() {
    let replace = json!({ "system_prompt": {"how": "replace", "text": "be brief"} });
    assert_eq!(setup(replace, Version(2, 1, 42)).initialize["systemPrompt"], "be brief");
    let append = json!({ "system_prompt": {"how": "append", "text": "and kind"} });
    assert_eq!(setup(append, Version(2, 1, 42)).initialize["appendSystemPrompt"], "and kind");
}

// covers: 003-096
#[test]
fn the_environment_is_the_users_with_ours_and_without_that_of_an_outer_claude() {
    let user = supervision(&[
        ("HOME", "/h"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ("NODE_OPTIONS", "x"),
    ]);
    let asked = [("MINE".to_owned(), "1".to_owned())].into_iter().collect();
    let environment = launch::environment(&user, &asked).unwrap();
    let shown: Vec<_> = environment
        .variables
        .iter()
        .map(|(name, value)| format!("{}={}", name.to_str().unwrap(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        shown,
        ["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=1", "CLAUDE_CODE_ENTRYPOINT=sdk-ts", "HOME=/h", "MINE=1"]
    );
}

#[test]
fn root_bypasses_permissions_only_in_a_sandbox() {
    let none = indexmap::IndexMap::new();
    let judged =
        |mode, variables: &[(&str, &str)]| launch::may_bypass(Some(mode), &none, &supervision(variables));
    assert_eq!(judged("bypassPermissions", &[("IS_SANDBOX", "1")]), Ok(()));
    assert_eq!(judged("plan", &[]), Ok(()));
    let root = rustix::process::geteuid().is_root();
    assert_eq!(judged("bypassPermissions", &[]).is_err(), root);
}

#[test]
fn root_may_bypass_because_portolan_answers_and_the_cli_works_in_a_mode_that_asks() {
    let claude = Claude::new(Config::default(), Arc::new(supervision(&[])), DialIn::new());
    let spec: SessionSpec =
        serde_json::from_value(json!({ "agent": "claude", "cwd": "/", "mode": "bypassPermissions" }))
            .unwrap();
    assert!(claude.environment(&spec).is_ok());
    assert_eq!(claude.capabilities().working_mode("bypassPermissions"), "default");
}

#[tokio::test]
async fn a_conversation_that_was_never_written_to_disk_begins_again_with_a_notice() {
    let home = tempfile::tempdir().unwrap();
    let supervision = supervision(&[("HOME", home.path().to_str().unwrap())]);
    let point = ResumePoint {
        agent_session: "lost".into(),
        fork: false,
        at_message: None,
        last_message: None,
        exchanges: 0,
    };
    let again = Launch { generation: Generation(2), ..launch_of(json!({ "cwd": "/" }), Some(point.clone())) };
    let (launch, reset) = launch::without_lost_conversation(again.clone(), &supervision).await;
    assert_eq!(launch.resume, None);
    assert_eq!(reset, Some(ResetReason::Lost));
    // A conversation that was requested by its id is not replaced.
    let asked = Launch { generation: Generation(1), ..again.clone() };
    let (launch, reset) = launch::without_lost_conversation(asked, &supervision).await;
    assert_eq!((launch.resume, reset), (Some(point.clone()), None));
    let project = home.path().join(".claude/projects/-");
    std::fs::create_dir_all(&project).unwrap();
    let line = json!({ "type": "user", "uuid": "u", "message": { "role": "user", "content": "hello" } });
    std::fs::write(project.join("lost.jsonl"), format!("{line}\n")).unwrap();
    let (launch, reset) = launch::without_lost_conversation(again, &supervision).await;
    assert_eq!((launch.resume, reset), (Some(point), None));
}

#[tokio::test]
async fn a_fork_waits_until_its_source_is_on_disk() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join(".claude/projects/-");
    let writing = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::fs::create_dir_all(&project).unwrap();
        let line =
            json!({ "type": "assistant", "uuid": "u7", "message": { "id": "m7", "role": "assistant" } });
        std::fs::write(project.join("source.jsonl"), format!("{line}\n")).unwrap();
    });
    let supervision = supervision(&[("HOME", home.path().to_str().unwrap())]);
    let point = |message: &str| ResumePoint {
        agent_session: "source".into(),
        fork: true,
        at_message: Some(message.into()),
        last_message: Some(message.into()),
        exchanges: 0,
    };
    let arguments = async |message: &str| {
        let launch = launch_of(json!({ "cwd": "/" }), Some(point(message)));
        let plan = launch::Plan {
            launch: &launch,
            version: None,
            config: &Config::default(),
            supervision: &supervision,
        };
        plan.program(None).await.map(|program| program.command)
    };
    let command = arguments("m7").await.unwrap();
    writing.join().unwrap();
    assert!(command.windows(2).any(|pair| pair == ["--resume-session-at", "u7"]), "{command:?}");
    let refused = arguments("m8").await.unwrap_err();
    assert_eq!(refused, "the conversation to fork no longer has that message");
}

#[test]
fn the_spelling_of_claude_code_for_allowed_tools_becomes_rules() {
    let claude = Claude::new(Config::default(), Arc::new(supervision(&[])), DialIn::new());
    for (tool, rule) in [
        ("Bash(git:*)", "Bash(git *)"),
        ("Read", "Read"),
        ("mcp__db", "mcp__db__*"),
        ("mcp__db__query", "mcp__db__query"),
    ] {
        assert_eq!(claude.rule_for(tool), rule);
    }
}
