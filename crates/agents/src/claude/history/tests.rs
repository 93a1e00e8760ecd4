//! Conversations on disk, as three versions of the CLI leave them.

use std::{fs, ops::ControlFlow, path::Path};

use portolan_core::{
    Event,
    event::{ToolOutcome, plain_text},
    ports::{Past as _, PastEntry, PastError, PastPiece, PastQuery},
};
use serde_json::{Value, json};

use super::{Home, home};
use crate::child::processes::Process;

const SESSION: &str = "0aaaaaaa-0000-4000-8000-000000000001";

fn line(kind: &str, uuid: &str, message: Value) -> Value {
    json!({ "type": kind, "uuid": uuid, "message": message, "isSidechain": false, "sessionId": SESSION,
        "cwd": "/work folder", "version": "2.1.325", "timestamp": "2026-11-15T04:47:06.099Z" })
}

fn write(path: &Path, lines: &[Value]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// A conversation with a subagent, and everything else that a file holds.
fn kept(folder: &Path, note: &Value) -> Home {
    let project = folder.join(".claude/projects/-work-folder");
    let call = json!({ "id": "msg_1", "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": [
        { "type": "tool_use", "id": "tool_1", "name": "Agent", "input": { "description": "errand", "prompt": "go" } }] });
    let mut result = line(
        "user",
        "u3",
        json!({ "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "tool_1", "content": "done" }] }),
    );
    result["toolUseResult"] =
        json!({ "agentId": "a1", "totalTokens": 5, "totalToolUseCount": 1, "totalDurationMs": 9 });
    let mut meta = line("user", "u0", json!({ "role": "user", "content": "a note of the CLI" }));
    meta["isMeta"] = json!(true);
    let said = json!({ "id": "msg_2", "role": "assistant", "model": "m", "content": [{ "type": "text", "text": "Bye." }] });
    write(
        &project.join(format!("{SESSION}.jsonl")),
        &[
            json!({ "type": "queue-operation", "operation": "enqueue", "content": "secret queue" }),
            meta,
            line("user", "u1", json!({ "role": "user", "content": "do the errand" })),
            json!({ "type": "attachment", "uuid": "u9", "attachment": { "systemPrompt": ["secret prompt"] } }),
            line("assistant", "u2", call),
            result,
            line(
                "user",
                "u5",
                json!({ "role": "user", "content": "<local-command-stdout>x</local-command-stdout>" }),
            ),
            line("assistant", "u4", said.clone()),
            line("assistant", "u4", said),
            json!("not an object"),
        ],
    );
    let aside = |kind: &str, uuid: &str, message: Value| {
        let mut line = line(kind, uuid, message);
        line["isSidechain"] = json!(true);
        line
    };
    let agent = project.join(SESSION).join("subagents/agent-a1");
    write(
        &agent.with_extension("jsonl"),
        &[
            aside("user", "s1", json!({ "role": "user", "content": "go" })),
            aside(
                "assistant",
                "s2",
                json!({ "id": "msg_s", "role": "assistant", "model": "m",
                "content": [{ "type": "text", "text": "Going." }] }),
            ),
        ],
    );
    fs::write(agent.with_extension("meta.json"), note.to_string()).unwrap();
    home(&[("HOME".into(), folder.into())], "no-such-home").unwrap()
}

fn query() -> PastQuery {
    PastQuery { limit: 10, ..PastQuery::default() }
}

fn read(home: &Home, session: &str) -> Result<Vec<PastEntry>, PastError> {
    let mut entries = vec![];
    home.read_now(session, &mut |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

fn told(home: &Home) -> Vec<String> {
    let entries = read(home, SESSION).unwrap();
    entries
        .iter()
        .map(|entry| match &entry.event {
            Event::Prompt { content, .. } => format!("prompt {}", plain_text(content)),
            Event::Message { content, parent, .. } => format!("message {parent:?} {}", plain_text(content)),
            Event::ToolCall { tool, .. } => format!("call {tool}"),
            Event::ToolResult { tool, .. } => format!("result {tool}"),
            Event::SubagentStarted { subagent, .. } => format!("started {subagent}"),
            Event::SubagentEnded { subagent, work, .. } => {
                format!("ended {subagent} {}", work.unwrap().tokens)
            }
            Event::Notice { text, .. } => format!("notice {text}"),
            other => format!("{other:?}"),
        })
        .collect()
}

// covers: 003-084
#[test]
fn a_conversation_is_read_in_order_with_the_messages_of_its_subagents() {
    for note in [json!({ "toolUseId": "tool_1" }), json!({ "agentType": "x" })] {
        let folder = tempfile::tempdir().unwrap();
        let home = kept(folder.path(), &note);
        assert_eq!(
            told(&home),
            [
                "prompt do the errand",
                "call tool_1",
                "started tool_1",
                r#"message Some("tool_1") Going."#,
                "ended tool_1 5",
                "result tool_1",
                "notice x",
                "message None Bye.",
            ],
            "{note}"
        );
    }
}

#[test]
fn the_clis_own_notes_are_left_out_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let path = folder.path().join(".claude/projects/-work-folder").join(format!("{SESSION}.jsonl"));
    let before = fs::read(&path).unwrap();
    let entries = format!("{:?}", read(&home, SESSION).unwrap());
    assert!(!entries.contains("secret"), "{entries}");
    home.list_now(&query());
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn the_list_shows_the_folder_and_the_first_prompt_of_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let project = folder.path().join(".claude/projects/-work-folder");
    // Files without a conversation, and a subagent's in the layout of old versions.
    write(&project.join("empty.jsonl"), &[json!({ "type": "summary", "summary": "x" })]);
    fs::write(project.join("broken.jsonl"), "{").unwrap();
    let list = home.list_now(&query());
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!(list[0].past, SESSION);
    assert_eq!(list[0].title, "do the errand");
    assert_eq!(list[0].cwd.as_deref(), Some(Path::new("/work folder")));
    assert_eq!(list[0].version.as_deref(), Some("2.1.325"));
    assert_eq!(list[0].started_at.map(|at| at.0), Some(1_794_718_026_099));
}

#[test]
fn a_message_is_found_by_the_models_id_and_a_path_is_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    assert_eq!(home.line_of(SESSION, "msg_1").as_deref(), Some("u2"));
    assert_eq!(home.line_of(SESSION, "msg_9"), None);
    for session in ["", "nope", "../-work-folder/x", "a/b"] {
        assert!(matches!(read(&home, session), Err(PastError::NotFound(_))), "{session:?}");
    }
}

#[test]
fn the_folder_follows_the_environment_of_the_cli() {
    let variables = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        home(&pairs, "no-such-home").map(|home| home.projects.display().to_string())
    };
    assert_eq!(variables(&[("HOME", "/h")]).as_deref(), Some("/h/.claude/projects"));
    assert_eq!(variables(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")]).as_deref(), Some("/c/projects"));
    assert_eq!(variables(&[]), None);
}

#[test]
fn the_list_holds_only_the_requested_conversations() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let listed = |query: PastQuery| home.list_now(&query).len();
    assert_eq!(listed(query()), 1);
    assert_eq!(listed(PastQuery { limit: 0, ..query() }), 0);
    assert_eq!(listed(PastQuery { part: Some("0aaa".into()), ..query() }), 1);
    assert_eq!(listed(PastQuery { part: Some("0001".into()), ..query() }), 1);
    assert_eq!(listed(PastQuery { part: Some("1111".into()), ..query() }), 0);
    assert_eq!(listed(PastQuery { below: vec!["/work folder".into()], ..query() }), 1);
    assert_eq!(listed(PastQuery { below: vec!["/work".into()], ..query() }), 0);
}

#[test]
fn a_title_of_its_own_comes_before_the_first_prompt_and_is_one_short_line() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let path = folder.path().join(".claude/projects/-work-folder").join(format!("{SESSION}.jsonl"));
    let mut text = fs::read_to_string(&path).unwrap();
    let title = format!("\nThe errand {}\nmore", "x".repeat(200));
    text.push_str(&json!({ "type": "custom-title", "customTitle": title }).to_string());
    fs::write(&path, text + "\n").unwrap();
    let listed = home.list_now(&query());
    assert_eq!(listed[0].title, format!("The errand {}", "x".repeat(69)));
}

#[test]
fn a_subagent_that_was_cut_off_keeps_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({ "toolUseId": "tool_1" }));
    let path = folder.path().join(".claude/projects/-work-folder").join(format!("{SESSION}.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let until: Vec<&str> = text.lines().take_while(|line| !line.contains("tool_result")).collect();
    fs::write(&path, until.join("\n") + "\n").unwrap();
    let entries = read(&home, SESSION).unwrap();
    let [.., words, ended] = &entries[..] else { panic!("{entries:?}") };
    assert!(matches!(&words.event, Event::Message { parent: Some(parent), .. } if parent == "tool_1"));
    let Event::SubagentEnded { subagent, outcome, .. } = &ended.event else { panic!("{ended:?}") };
    assert_eq!((subagent.as_str(), *outcome), ("tool_1", ToolOutcome::Interrupted));
}

#[tokio::test]
async fn a_conversation_comes_in_pieces_with_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let mut queue = home.read(SESSION.into());
    let mut pieces = vec![];
    while let Some(piece) = queue.recv().await {
        pieces.push(piece);
    }
    let mut expected: Vec<PastPiece> =
        read(&home, SESSION).unwrap().into_iter().map(|entry| PastPiece::Entry(Box::new(entry))).collect();
    expected.push(PastPiece::End);
    assert_eq!(pieces, expected);
    let none = "Claude Code has no conversation `nope` on disk".to_owned();
    let mut queue = home.read("nope".into());
    assert_eq!(queue.recv().await, Some(PastPiece::Failed(PastError::NotFound(none))));
    assert_eq!(queue.recv().await, None);
}

#[tokio::test]
async fn conversations_lie_where_the_configuration_of_the_agent_puts_them() {
    let folder = tempfile::tempdir().unwrap();
    let own = kept(folder.path(), &json!({}));
    let users = vec![("HOME".into(), "/nowhere".into())];
    let supervision = std::sync::Arc::new(crate::Supervision::new("test", users));
    let claude = |env: indexmap::IndexMap<String, String>| {
        let config = crate::claude::Config { env, ..crate::claude::Config::default() };
        crate::claude::Claude::new(config, supervision.clone(), crate::dial_in::DialIn::new())
    };
    let listed = async |claude: crate::claude::Claude| {
        portolan_core::ports::Agent::past(&claude).unwrap().list(query()).await.unwrap()
    };
    assert_eq!(listed(claude(indexmap::IndexMap::new())).await, []);
    let home = [("HOME".to_owned(), folder.path().display().to_string())].into();
    assert_eq!(listed(claude(home)).await, own.list_now(&query()));
}

#[test]
fn a_receiver_that_stops_gets_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let mut count = 0;
    let take = &mut |_| {
        count += 1;
        if count == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    home.read_now(SESSION, take).unwrap();
    assert_eq!(count, 3);
}

#[test]
fn of_two_conversations_under_one_name_the_newest_is_listed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let older = folder.path().join(".claude/projects/-elsewhere").join(format!("{SESSION}.jsonl"));
    let mut secret = line("user", "u9", json!({ "role": "user", "content": "from elsewhere" }));
    secret["cwd"] = json!("/elsewhere");
    write(&older, &[secret]);
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&older).unwrap().set_modified(long_ago).unwrap();
    let listed = |below: &str| home.list_now(&PastQuery { below: vec![below.into()], ..query() }).len();
    assert_eq!((listed("/work folder"), listed("/elsewhere")), (1, 0));
    let entries = read(&home, SESSION).unwrap();
    let says = |entry: &PastEntry| format!("{:?}", entry.event).contains("from elsewhere");
    assert!(!entries.iter().any(says), "{entries:?}");
}

#[test]
fn a_pipe_among_the_files_blocks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let project = folder.path().join(".claude/projects/-work-folder");
    let aside = project.join(SESSION).join("subagents");
    for pipe in [project.join("1bbb.jsonl"), aside.join("agent-b1.jsonl"), aside.join("agent-b1.meta.json")] {
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
    }
    assert_eq!(home.list_now(&query()).len(), 1);
    assert!(matches!(read(&home, "1bbb"), Err(PastError::NotFound(_))));
    assert!(!read(&home, SESSION).unwrap().is_empty());
}

#[test]
fn a_conversation_that_a_running_process_has_open_is_listed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({ "type": "summary" }));
    let query = PastQuery { limit: 10, ..PastQuery::default() };
    let session = home.list_now(&query)[0].past.clone();
    assert_eq!(home.held_by(&session), None, "nobody has it open");
    let running = folder.path().join(".claude/sessions");
    std::fs::create_dir_all(&running).unwrap();
    let process = Process::of(std::process::id()).unwrap();
    let write = |started: u64| {
        let told = json!({ "pid": process.pid, "procStart": started.to_string(), "sessionId": session, "kind":
            "interactive", "status": "idle" });
        std::fs::write(running.join(format!("{}.json", process.pid)), told.to_string()).unwrap();
    };
    std::fs::write(running.join("1.json"), "half a file {").unwrap();
    write(process.started);
    assert_eq!(home.held_by(&session), Some(process.pid));
    assert_eq!(home.list_now(&query)[0].held_by, Some(process.pid));
    write(process.started + 1);
    assert_eq!(home.held_by(&session), None, "that process has ended, and its number is used again");
}
