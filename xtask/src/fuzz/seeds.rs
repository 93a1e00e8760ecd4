//! Seeds from recordings: messages of real agents, in the form that the fuzz targets read. Created again at each run,
//! so that a new recording is a new seed.
//!
//! Long texts are cut: only the shape matters to a fuzzer, and the fuzzer tries short inputs more often.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::project::{files, read};

/// Characters of a text that are kept.
const TEXT: usize = 40;

/// Items of a list that are kept.
const LIST: usize = 4;

/// The longest word of the protocol that is passed to the fuzzer.
const WORD: usize = 32;

/// The folder of recordings and the byte by which the targets choose its version.
const RECORDINGS: [(&str, u8); 3] = [("2.1.325-stdio", 0), ("2.1.120-ws", 1), ("2.1.42-ws", 2)];

/// Writes the seeds of every target that has recordings into folders of `into`, and the words of the protocol.
pub(super) fn write(root: &Path, into: &Path) -> Result<()> {
    let mut words = BTreeSet::new();
    let mut shapes = BTreeSet::new();
    let (lines, conversations) = (folder(into, "claude_lines")?, folder(into, "claude_conversation")?);
    for (version, choice) in RECORDINGS {
        let recordings = root.join("crates/agents/src/claude/transcripts").join(version);
        for path in files(&recordings, &["ndjson"])? {
            let name = format!("{version}-{}", path.file_stem().unwrap_or_default().to_string_lossy());
            let (mut said, mut talk) = (vec![choice], vec![choice]);
            for line in read(&recordings.join(&path))?.lines() {
                let recorded: Value = serde_json::from_str(line)
                    .with_context(|| format!("a line of `{}` is not JSON", path.display()))?;
                let message = cut(&recorded["msg"]);
                collect(&message, &mut words);
                let from_agent = recorded["dir"] == "in";
                if from_agent {
                    said.extend(format!("{message}\n").bytes());
                    if shapes.insert(shape(&message)) {
                        let single = [&[choice][..], message.to_string().as_bytes()].concat();
                        put(&lines, &format!("shape-{}", shapes.len()), &single)?;
                    }
                }
                if let Some(line) = step(&message, from_agent) {
                    talk.extend(format!("{line}\n").bytes());
                }
            }
            put(&lines, &name, &said)?;
            put(&conversations, &name, &talk)?;
        }
    }
    let quoted = |word: &String| format!("\"\\\"{word}\\\"\"\n");
    put(into, "words", words.iter().map(quoted).collect::<String>().as_bytes())
}

fn folder(into: &Path, name: &str) -> Result<PathBuf> {
    let folder = into.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    Ok(folder)
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

/// The message with long texts and lists cut.
fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.chars().take(TEXT).collect()),
        Value::Array(items) => items.iter().take(LIST).map(cut).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), cut(value))).collect(),
        other => other.clone(),
    }
}

/// The fields of a message, and its type.
fn shape(message: &Value) -> String {
    fn of(value: &Value, out: &mut String) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    out.push_str(name);
                    if let ("type" | "subtype", Value::String(kind)) = (name.as_str(), value) {
                        out.push_str(kind);
                    }
                    out.push('(');
                    of(value, out);
                    out.push(')');
                }
            }
            Value::Array(items) => items.iter().for_each(|item| of(item, out)),
            _ => {}
        }
    }
    let mut shape = String::new();
    of(message, &mut shape);
    shape
}

/// The words of the protocol: names of fields, and short values that look like names.
fn collect(value: &Value, words: &mut BTreeSet<String>) {
    let is_word = |text: &str| {
        (2..=WORD).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    };
    match value {
        Value::String(text) if is_word(text) => drop(words.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_word(name) {
                    words.insert(name.clone());
                }
                collect(value, words);
            }
        }
        _ => {}
    }
}

/// A recorded message as a line of the target `claude_conversation`.
fn step(message: &Value, from_agent: bool) -> Option<String> {
    let (request, response) = (&message["request"], &message["response"]);
    match (from_agent, message["type"].as_str()?) {
        // The target itself makes the first request and its answer.
        (false, "control_request") if request["subtype"] == "initialize" => None,
        (true, "control_response") if response["request_id"].as_str()?.ends_with("initialize") => None,
        (true, "control_response") if response["subtype"] == "success" => {
            Some(format!("a{}", response["response"]))
        }
        (true, "control_response") => Some(format!("e{}", response["error"].as_str().unwrap_or_default())),
        (true, _) => Some(message.to_string()),
        (false, "user") => {
            let text = message["message"]["content"].as_str().unwrap_or("a picture");
            Some(format!(">{}", json!({ "name": "prompt", "content": [{ "type": "text", "text": text }] })))
        }
        (false, "control_response") => {
            let given = &response["response"];
            let answer = match given["behavior"].as_str() {
                Some("allow") if given["updatedInput"]["answers"].is_object() => {
                    let chosen = given["updatedInput"]["answers"].as_object()?.iter();
                    let answers: serde_json::Map<_, _> =
                        chosen.map(|(question, choice)| (question.clone(), json!([choice]))).collect();
                    json!({ "kind": "choices", "answers": answers })
                }
                Some("allow") => json!({ "kind": "allow", "input": given["updatedInput"] }),
                Some("deny") => {
                    json!({ "kind": "deny", "message": given["message"], "interrupt": given["interrupt"] == true })
                }
                _ => json!({ "kind": "output", "output": given }),
            };
            Some(format!(">{}", json!({ "name": "answer", "request": 0, "answer": answer })))
        }
        (false, "control_request") => action(request).map(|action| format!(">{action}")),
        _ => None,
    }
}

/// The action behind this message to the agent.
fn action(request: &Value) -> Option<Value> {
    Some(match request["subtype"].as_str()? {
        "interrupt" => json!({ "name": "interrupt" }),
        "set_model" => json!({ "name": "set_model", "model": request["model"] }),
        "set_permission_mode" => json!({ "name": "set_mode", "mode": request["mode"] }),
        "set_max_thinking_tokens" => {
            json!({ "name": "set_thinking", "tokens": request["max_thinking_tokens"] })
        }
        "mcp_status" => json!({ "name": "mcp_status" }),
        "mcp_reconnect" => json!({ "name": "mcp_reconnect", "server": request["serverName"] }),
        "mcp_toggle" => {
            json!({ "name": "mcp_toggle", "server": request["serverName"], "enabled": request["enabled"] })
        }
        "mcp_set_servers" => json!({ "name": "mcp_set", "servers": request["servers"] }),
        "mcp_message" => {
            json!({ "name": "mcp_message", "server": request["server_name"], "message": request["message"] })
        }
        "get_context_usage" => json!({ "name": "context" }),
        "stop_task" => json!({ "name": "stop_task", "task": request["task_id"] }),
        "rewind_files" => json!({ "name": "rewind", "to": 3, "dry_run": request["dry_run"] == true }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::root;

    #[test]
    fn every_recording_becomes_a_seed_of_both_targets() {
        let folder = tempfile::tempdir().unwrap();
        write(&root(), folder.path()).unwrap();
        let count = |name: &str| fs::read_dir(folder.path().join(name)).unwrap().count();
        let recordings: usize = RECORDINGS
            .iter()
            .map(|(version, _)| root().join("crates/agents/src/claude/transcripts").join(version))
            .map(|folder| files(&folder, &["ndjson"]).unwrap().len())
            .sum();
        assert!(recordings > 0);
        assert_eq!(count("claude_conversation"), recordings);
        assert!(count("claude_lines") > recordings, "and one for each shape of a message");
        let words = read(&folder.path().join("words")).unwrap();
        assert!(words.contains("\"\\\"tool_use_id\\\"\"\n"), "{words}");
    }

    #[test]
    fn a_message_to_the_agent_becomes_an_action() {
        let asked = json!({ "type": "control_request", "request": { "subtype": "set_model", "model": "m" } });
        assert_eq!(step(&asked, false).as_deref(), Some(r#">{"name":"set_model","model":"m"}"#));
        let answer = json!({ "type": "control_response", "response": { "response": { "behavior": "deny", "message": "no" } } });
        assert_eq!(
            step(&answer, false).as_deref(),
            Some(
                r#">{"name":"answer","request":0,"answer":{"kind":"deny","message":"no","interrupt":false}}"#
            )
        );
        let refused = json!({ "type": "control_response", "response": { "subtype": "error", "request_id": "r", "error": "no" } });
        assert_eq!(step(&refused, true).as_deref(), Some("eno"));
    }
}
