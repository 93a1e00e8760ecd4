//! Past conversations from the command line: listed, imported, resumed. Offline; the agent's files stay unchanged.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use portolan_scripted::{Script, Server, contains, conversation_contains, text};
use portolan_testkit::{
    daemon::{Home, wait_for},
    npm::{self, claude},
};
use serde_json::{Value, json};

const PAST: &str = "0aaaaaaa-0000-4000-8000-000000000001";

/// A home whose Claude Code is this program, has this home folder and uses this model.
fn home(program: &Path, agent_home: &Path, model: &str) -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure(&format!(
        "[agents.claude]\ncommand = [{}]\n[agents.claude.env]\nHOME = {}\nANTHROPIC_BASE_URL = {}\n\
         ANTHROPIC_API_KEY = \"fake\"\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\n\
         DISABLE_AUTOUPDATER = \"1\"\nDISABLE_TELEMETRY = \"1\"\n",
        json!(program),
        json!(agent_home),
        json!(model)
    ));
    home.up();
    home
}

fn entries(home: &Home, session: &str) -> Vec<Value> {
    let text = home.run(["--json", "show", session, "--entries"]).ok();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// A conversation with a subagent, as the CLI stores it.
fn keep(agent_home: &Path, cwd: &Path) {
    let project = agent_home.join(".claude/projects/-harbour");
    let line = |kind: &str, uuid: &str, second: u32, aside: bool, message: Value| {
        json!({ "type": kind, "uuid": uuid, "message": message, "isSidechain": aside, "sessionId": PAST, "cwd": cwd,
            "version": "2.1.325", "timestamp": format!("2026-01-02T03:04:{second:02}.000Z") })
    };
    let call = json!({ "id": "msg_1", "role": "assistant", "model": "m", "content": [
        { "type": "text", "text": "I will send someone." },
        { "type": "tool_use", "id": "tool_1", "name": "Task",
          "input": { "description": "look at the mast", "prompt": "look", "subagent_type": "general-purpose" } }] });
    let result = json!({ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "tool_1", "content": "it leans" }] });
    let mut came_back = line("user", "u3", 9, false, result);
    came_back["toolUseResult"] =
        json!({ "agentId": "a1", "totalTokens": 5, "totalToolUseCount": 0, "totalDurationMs": 9 });
    let last = json!({ "id": "msg_2", "role": "assistant", "model": "m", "content": [{ "type": "text", "text": "It leans." }] });
    let aside = json!({ "id": "msg_s", "role": "assistant", "model": "m", "content": [{ "type": "text", "text": "I see the mast." }] });
    let write = |path: PathBuf, lines: &[Value]| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.iter().flat_map(|line| [line.to_string(), "\n".into()]).collect::<String>())
            .unwrap();
    };
    write(
        project.join(format!("{PAST}.jsonl")),
        &[
            line("user", "u1", 5, false, json!({ "role": "user", "content": "how is the mast?" })),
            line("assistant", "u2", 6, false, call),
            came_back,
            line("assistant", "u4", 10, false, last),
        ],
    );
    write(project.join(PAST).join("subagents/agent-a1.jsonl"), &[line("assistant", "s1", 8, true, aside)]);
}

// covers: 002-141, 003-084
#[test]
fn a_conversation_with_a_subagent_is_listed_and_imported_once_and_its_files_stay_unchanged() {
    let (agent_home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cwd = cwd.path().canonicalize().unwrap();
    keep(agent_home.path(), &cwd);
    let kept = files(agent_home.path());
    // Portolan reads the files without starting the agent: this program can only print its version.
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("claude");
    fs::write(&program, "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)'\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let home = home(&program, agent_home.path(), "http://127.0.0.1:1");

    let listed = home.json(["past"]);
    let expected = json!({ "agent": "claude", "past": PAST, "title": "how is the mast?", "cwd": cwd,
        "started_at": 1_767_323_045_000_u64, "updated_at": listed[0]["updated_at"], "version": "2.1.325" });
    assert_eq!(listed, json!([expected]));
    let plain = home.run(["past", "claude"]).ok();
    assert!(plain.contains("00000001") && plain.contains("how is the mast?"), "{plain}");
    assert_eq!(home.json(["past", "--cwd", "/proc"]), json!([]));
    assert_eq!(home.run(["past", "nobody"]).code, 4);
    assert_eq!(home.run(["past", "demo"]).code, home.run(["past", "demo", "--limit", "1"]).code);
    assert_ne!(home.run(["past", "demo"]).code, 0, "the demo agent keeps no conversations");

    let session = home.run(["past", "resume", "0aaaaaaa"]).ok().trim().to_owned();
    let all = entries(&home, &session);
    let told: Vec<(u64, &str, &str)> = all
        .iter()
        .filter(|entry| entry["by"]["kind"] == "imported")
        .map(|entry| {
            let event = &entry["event"];
            let words = event["content"][0]["text"].as_str().or(event["description"].as_str());
            (
                entry["at"].as_u64().unwrap() % 60_000,
                event["type"].as_str().unwrap(),
                words.unwrap_or_default(),
            )
        })
        .filter(|(_, kind, _)| *kind != "usage")
        .collect();
    assert_eq!(
        told,
        [
            (5_000, "prompt", "how is the mast?"),
            (6_000, "message", "I will send someone."),
            (6_000, "tool_call", ""),
            (6_000, "subagent_started", "look at the mast"),
            (8_000, "message", "I see the mast."),
            (9_000, "subagent_ended", ""),
            (9_000, "tool_result", "it leans"),
            (10_000, "message", "It leans."),
        ]
    );
    assert_eq!(all.last().unwrap()["event"]["type"], "imported");
    let aside = all.iter().find(|entry| entry["event"]["content"][0]["text"] == "I see the mast.").unwrap();
    assert_eq!(aside["event"]["parent"], "tool_1", "the text of a subagent belongs to the subagent");
    let state = home.json(["show", &session])["state"].clone();
    assert_eq!(state["summary"]["status"], "terminated");
    assert_eq!(state["summary"]["agent_session"], PAST);
    assert_eq!(home.json(["past"])[0]["session"], session.as_str());

    let again = home.run(["past", "resume", PAST]);
    assert_eq!((again.code, again.stdout.trim()), (0, session.as_str()));
    assert!(again.stderr.contains("this conversation is already session"), "{again:?}");
    let shown = home.run(["show", &session, "--entries"]).ok();
    assert!(shown.contains("everything above was imported"), "{shown}");

    home.kill();
    home.up();
    assert_eq!(entries(&home, &session), all, "the session survives, and nothing had to be settled");
    let copy = home.json(["past", "resume", PAST, "--fork", "--name", "a copy"]);
    assert_eq!((&copy["already"], &copy["session"]["name"]), (&json!(false), &json!("a copy")));
    assert_eq!(home.json(["ls"]).as_array().unwrap().len(), 2);
    assert_eq!(files(agent_home.path()), kept, "the agent's files are unchanged");
}

/// The agent is told a word, and is later asked for it.
fn halyard() -> Script {
    Script::new()
        .on(conversation_contains("the word is halyard").and_contains("which word was it"))
        .reply(text("It was halyard."))
        .on(contains("the word is halyard"))
        .reply(text("I will remember."))
        .asides(text("scripted"))
}

fn has_its_past(home: &Home, session: &str) {
    let said: Vec<Value> = entries(home, session)
        .iter()
        .filter(|entry| entry["by"]["kind"] == "imported")
        .filter_map(|entry| entry["event"]["content"][0].get("text").cloned())
        .collect();
    assert_eq!(said, ["the word is halyard", "I will remember."]);
}

fn remembers(home: &Home, session: &str) {
    let again = home.run(["send", session, "--wait", "which word was it"]);
    assert!(again.code == 0 && again.stdout.contains("It was halyard."), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_agent_resumes_an_imported_conversation() {
    let model = Server::start(halyard()).await.unwrap();
    let base_url = model.base_url();
    let tried = tokio::task::spawn_blocking(move || {
        let agent_home = tempfile::tempdir().unwrap();
        let home = home(&claude("2.1.325").program().unwrap(), agent_home.path(), &base_url);
        // A conversation that Portolan does not know any more.
        let first = home.run(["new", "claude", "the word is halyard"]).ok().trim().to_owned();
        home.until_status(&first, "idle");
        assert_eq!(home.json(["past", "claude"])[0]["session"], first.as_str());
        assert_eq!(home.run(["stop", &first]).code, 0);
        home.until_status(&first, "terminated");
        assert_eq!(home.run(["delete", "--yes", &first]).code, 0);
        let past = home.json(["past", "claude"])[0].clone();
        assert_eq!(past["session"], Value::Null, "{past}");
        assert_eq!(past["title"], "the word is halyard");
        let id = past["past"].as_str().unwrap().to_owned();

        let session = home.run(["past", "resume", &id]).ok().trim().to_owned();
        assert_ne!(session, first);
        has_its_past(&home, &session);
        remembers(&home, &session);
        let state = home.json(["show", &session])["state"].clone();
        assert_eq!(state["summary"]["agent_session"], id.as_str(), "it is the same conversation");
        assert_eq!(home.run(["down"]).code, 0);
    });
    tried.await.unwrap();
    model.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_another_program_has_open_is_imported_only_as_a_copy() {
    let model = Server::start(halyard()).await.unwrap();
    let base_url = model.base_url();
    let tried = tokio::task::spawn_blocking(move || {
        let agent_home = tempfile::tempdir().unwrap();
        let program = claude("2.1.325").program().unwrap();
        // A daemon of another home counts as another program.
        let other = home(&program, agent_home.path(), &base_url);
        let first = other.run(["new", "claude", "the word is halyard"]).ok().trim().to_owned();
        let state = other.until_status(&first, "idle");
        let id = state["summary"]["agent_session"].as_str().unwrap().to_owned();
        let ours = home(&program, agent_home.path(), &base_url);
        assert_eq!(ours.json(["past", "claude"])[0]["held_by"], state["pid"], "{state}");
        let refused = ours.run(["past", "resume", &id]);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.stderr.contains("has this conversation open"), "{refused:?}");
        // A resume by its id is refused when the agent starts.
        let beside = ours.run(["new", "claude", "--resume", &id, "which word was it"]).ok().trim().to_owned();
        let error = wait_for("the refusal", || {
            ours.json(["show", &beside])["state"]["summary"]["error"].as_str().map(str::to_owned)
        });
        assert!(error.contains("has this conversation open"), "{error}");
        ours.run(["past", "resume", &id, "--fork"]).ok();
        assert_eq!(other.run(["stop", &first]).code, 0);
        wait_for("its end", || other.agents(&first).is_empty().then_some(()));
        let session = ours.run(["past", "resume", &id]).ok().trim().to_owned();
        remembers(&ours, &session);
    });
    tried.await.unwrap();
    model.shutdown().await;
}

/// The needs of a session with the real Goose: its own home, and the scripted model as its provider.
fn goose_home(command: &[std::ffi::OsString], agent_home: &Path, model: &str) -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    let mut command: Vec<String> = command.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    command.extend(["acp", "--with-builtin", "developer"].map(str::to_owned));
    home.configure(&format!(
        "[agents.goose]\ncommand = {}\n[agents.goose.env]\nHOME = {}\nOPENAI_HOST = {}\nOPENAI_API_KEY = \"fake\"\n\
         GOOSE_PROVIDER = \"openai\"\nGOOSE_MODEL = \"gpt-4o\"\nGOOSE_DISABLE_KEYRING = \"1\"\n\
         GOOSE_TELEMETRY_ENABLED = \"false\"\n",
        json!(command),
        json!(agent_home),
        json!(model)
    ));
    home.up();
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_past_conversation_of_an_agent_over_acp_is_listed_and_resumed() {
    let model = Server::start(halyard()).await.unwrap();
    let base_url = model.base_url();
    let tried = tokio::task::spawn_blocking(move || {
        let agent_home = tempfile::tempdir().unwrap();
        let home = goose_home(&npm::GOOSE.command().unwrap(), agent_home.path(), &base_url);
        let first = home.run(["new", "goose", "the word is halyard"]).ok().trim().to_owned();
        home.until_status(&first, "idle");
        assert_eq!(home.run(["stop", &first]).code, 0);
        home.until_status(&first, "terminated");
        let kept = home.json(["show", &first])["state"]["summary"]["agent_session"].clone();
        assert_eq!(home.run(["delete", "--yes", &first]).code, 0);
        let listed = home.json(["past", "goose"]);
        assert_eq!((&listed[0]["agent"], &listed[0]["past"]), (&json!("goose"), &kept), "{listed}");

        let session = home.run(["past", "resume", kept.as_str().unwrap()]).ok().trim().to_owned();
        has_its_past(&home, &session);
        remembers(&home, &session);
        let state = home.json(["show", &session])["state"].clone();
        assert_eq!(state["summary"]["agent_session"], kept, "it is the same conversation");
        assert_eq!(home.run(["down"]).code, 0);
    });
    tried.await.unwrap();
    model.shutdown().await;
}
