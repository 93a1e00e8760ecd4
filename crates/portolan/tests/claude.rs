//! Claude Code behind the real daemon, over both transports: the state after a kill of the daemon, and the report of
//! `doctor`. Offline: the model is scripted, the home is empty, the key is invalid.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};

use portolan_scripted::{Script, Server, contains, conversation_contains, text, tool};
use portolan_testkit::{
    daemon::{Home, wait_for},
    npm::claude,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The newest version, which uses stdio; and the last version that dials in.
const VERSIONS: [(&str, &str); 2] = [("2.1.325", "stdio"), ("2.1.120", "WebSocket")];

fn program(version: &'static str) -> PathBuf {
    claude(version).program().unwrap()
}

/// A home whose Claude Code is this program and uses this model.
fn home(program: &Path, model: &str) -> (Home, tempfile::TempDir) {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    let agent_home = tempfile::tempdir().unwrap();
    let text = |value: &Path| json!(value).to_string();
    home.configure(&format!(
        "[agents.claude]\ncommand = [{}]\n[agents.claude.env]\nHOME = {}\nANTHROPIC_BASE_URL = {}\n\
         ANTHROPIC_API_KEY = \"fake\"\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\n\
         DISABLE_AUTOUPDATER = \"1\"\nDISABLE_TELEMETRY = \"1\"\n",
        text(program),
        text(agent_home.path()),
        json!(model)
    ));
    (home, agent_home)
}

fn state(home: &Home, session: &str) -> Value {
    home.json(["show", session])["state"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_survives_the_kill_of_its_daemon() {
    for (version, _) in VERSIONS {
        let script = Script::new()
            .on(conversation_contains("first words").and_contains("second words"))
            .reply(text("I remember."))
            .on(contains("ask first"))
            .reply(tool("Bash", json!({ "command": "touch asked.txt" })))
            .on(contains("first words"))
            .reply(text("I will remember."));
        let model = Server::start(script.asides(text("scripted"))).await.unwrap();
        let base_url = model.base_url();
        let tried = tokio::task::spawn_blocking(move || {
            let (home, _agent_home) = home(&program(version), &base_url);
            home.up();
            let session = home.run(["new", "claude", "first words"]).ok().trim().to_owned();
            home.until_status(&session, "idle");
            assert_eq!(home.run(["send", &session, "ask first"]).code, 0);
            wait_for("a request", || state(&home, &session)["requests"].get(0).cloned());
            home.kill();
            home.up();
            assert_eq!(home.agents(&session), [0; 0], "no process is left over");
            let settled = wait_for("the settling", || {
                let state = state(&home, &session);
                (state["requests"].as_array()?.is_empty() && state["turn"].is_null()).then_some(state)
            });
            assert_eq!(settled["summary"]["status"], "terminated", "{settled}");
            let again = home.run(["send", &session, "--wait", "second words"]);
            assert!(again.code == 0 && again.stdout.contains("I remember."), "{version}: {again:?}");
            assert!(!home.path().join("asked.txt").exists(), "a command ran that nobody allowed");
            assert_eq!(home.run(["down"]).code, 0);
            assert_eq!(home.agents(&session), [0; 0], "no process outlives the daemon");
        });
        tried.await.unwrap();
        model.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_with_the_beginning_of_an_answer_is_consumed_when_the_agent_is_killed() {
    for version in ["2.1.42", "2.1.89", "2.1.325"] {
        let begins = text("I begin, and never come to an end.").chunks_of(8).stall();
        let script = Script::new().on(contains("first words")).reply(begins).asides(text("scripted"));
        let model = Server::start(script).await.unwrap();
        let base_url = model.base_url();
        let tried = tokio::task::spawn_blocking(move || {
            let (home, _agent_home) = home(&program(version), &base_url);
            home.up();
            let session = home.run(["new", "claude", "first words"]).ok().trim().to_owned();
            let pid = wait_for("its first words", || {
                let state = state(&home, &session);
                let begun = state["items"][0]["text"].as_str().is_some_and(|text| !text.is_empty());
                begun.then(|| i32::try_from(state["pid"].as_i64().unwrap()).unwrap())
            });
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            let entries = wait_for("its end", || {
                let text = home.run(["--json", "show", &session, "--entries"]).ok();
                let entries: Vec<Value> = text
                    .lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
                    .collect();
                entries.iter().any(|event| event["type"] == "agent_exited").then_some(entries)
            });
            let prompt = entries.iter().find(|event| event["type"] == "prompt").unwrap()["command"].clone();
            let stages: Vec<&Value> = entries
                .iter()
                .filter(|event| event["type"] == "receipt" && event["command"] == prompt)
                .map(|event| &event["stage"])
                .collect();
            assert_eq!(stages, ["sending", "delivered", "consumed"], "{version}");
        });
        tried.await.unwrap();
        model.shutdown().await;
    }
}

#[test]
fn doctor_reports_the_transport_and_tests_the_installed_version() {
    for (version, transport) in VERSIONS {
        let (home, _agent_home) = home(&program(version), "http://127.0.0.1:1");
        let looked = home.run(["--json", "doctor", "claude"]);
        let found: Value = serde_json::from_str(&looked.stdout).unwrap();
        let probe = &found[0]["probe"];
        assert_eq!(
            (&probe["version"], &probe["transport"]["name"]),
            (&json!(version), &json!(transport)),
            "{found}"
        );
        assert_eq!(found[0]["first_mode"]["verdict"], "works", "{found}");
        let tried = home.run(["--json", "doctor", "--deep", "claude"]);
        assert_eq!(tried.code, 0, "{tried:?}");
        let found: Value = serde_json::from_str(&tried.stdout).unwrap();
        assert_eq!(found[0]["health"], "works", "{found}");
        assert!(tried.stderr.contains("claude: text: works"), "progress is shown: {tried:?}");
    }
}

#[test]
fn doctor_reports_what_is_wrong_with_a_program_that_is_not_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("claude");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)' && exit 0\nexit 3\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (home, _agent_home) = home(&program, "http://127.0.0.1:1");
    let tried = home.run(["doctor", "--deep", "claude"]);
    assert_eq!(tried.code, 1, "{tried:?}");
    for expected in
        ["claude 2.1.325: broken", "  fails    text: ", "exit code 3", "  way out  install a version"]
    {
        assert!(tried.stdout.contains(expected), "`{expected}` is missing in {tried:?}");
    }
    // A program that works in another mode than the requested mode.
    let script = r#"#!/bin/sh
        [ "$1" = --version ] && echo '2.1.325 (Claude Code)' && exit 0
        while read -r line; do
            id=${line#*\"request_id\":\"}; id=${id%%\"*}
            told='{"mode":"auto","current_permission_mode":"auto"}'
            echo "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"$id\",\"response\":$told}}"
        done
    "#;
    std::fs::write(&program, script).unwrap();
    let looked = home.run(["doctor", "claude"]);
    assert_eq!(looked.code, 1, "{looked:?}");
    for expected in [
        "claude 2.1.325: broken",
        "  mode     the agent does not begin in a mode that asks: ",
        "the mode `auto`",
    ] {
        assert!(looked.stdout.contains(expected), "`{expected}` is missing in {looked:?}");
    }
    std::fs::write(&program, "#!/bin/sh\necho '1.0.30 (Claude Code)'\n").unwrap();
    let looked = home.run(["doctor", "claude"]);
    assert_eq!(looked.code, 1, "{looked:?}");
    assert!(
        looked.stdout.starts_with("claude 1.0.30: not usable\n  Claude Code 1.0.30 is too old"),
        "{looked:?}"
    );
    let unknown = home.run(["doctor", "nobody"]);
    assert_eq!(unknown.code, 4, "{unknown:?}");
    home.configure("[agents.claude]\ncommand = [\"/nowhere/claude\"]\n");
    let missing = home.run(["doctor", "claude"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stdout.starts_with("claude: missing\n"), "{missing:?}");
    assert_eq!(home.run(["doctor"]).code, 0, "an agent that the user did not name may be missing");
}
