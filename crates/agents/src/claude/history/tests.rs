//! Conversations on disk, as three versions of the CLI leave them.

use std::{fs, path::Path};

use portolan_core::{Event, event::plain_text};
use serde_json::{Value, json};

use super::{HistoryError, Home, home};

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
    home(&[("HOME".into(), folder.into())]).unwrap()
}

fn told(home: &Home) -> Vec<String> {
    let entries = home.read(SESSION).unwrap();
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

#[test]
fn a_conversation_is_read_in_order_with_the_words_of_its_subagents() {
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
fn nothing_of_the_clis_own_notes_comes_along_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let path = folder.path().join(".claude/projects/-work-folder").join(format!("{SESSION}.jsonl"));
    let before = fs::read(&path).unwrap();
    let entries = format!("{:?}", home.read(SESSION).unwrap());
    assert!(!entries.contains("secret"), "{entries}");
    home.list(10);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn the_list_tells_where_a_conversation_was_and_how_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let home = kept(folder.path(), &json!({}));
    let project = folder.path().join(".claude/projects/-work-folder");
    // Files without a conversation, and a subagent's in the layout of old versions.
    write(&project.join("empty.jsonl"), &[json!({ "type": "summary", "summary": "x" })]);
    fs::write(project.join("broken.jsonl"), "{").unwrap();
    let list = home.list(10);
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!(list[0].session, SESSION);
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
        assert!(matches!(home.read(session), Err(HistoryError::NotFound { .. })), "{session:?}");
    }
}

#[test]
fn the_folder_follows_the_environment_of_the_cli() {
    let variables = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
        home(&pairs).map(|home| home.projects.display().to_string())
    };
    assert_eq!(variables(&[("HOME", "/h")]).as_deref(), Some("/h/.claude/projects"));
    assert_eq!(variables(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")]).as_deref(), Some("/c/projects"));
    assert_eq!(variables(&[]), None);
}
