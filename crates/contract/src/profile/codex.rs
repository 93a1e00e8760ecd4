//! Codex.

use std::{ffi::OsString, fmt::Write as _, path::Path};

use portolan_core::request::Question;
use portolan_scripted::{Call, call};
use serde_json::{Value, json};

use super::{Profile, TwoAtOnce};

/// Codex, through its app-server.
pub const CODEX: Profile = Profile {
    agent: "codex",
    title: "Codex",
    install: "npm install -g @openai/codex@0.166.0",
    environment,
    saved,
    // Commands run in a sandbox without a question; leaving it is asked for.
    shell: |command| {
        let why = "a step of the suite";
        call(
            "exec_command",
            json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": why }),
        )
    },
    background: None,
    write,
    edits_input: false,
    shows_thinking: true,
    // It asks questions only while it plans.
    ask: None,
    // A plan is a message; going on is a change of mode.
    plan: None,
    // A subagent has a prompt and no description.
    subagent: None,
    two_at_once: Some(TwoAtOnce::CallsTogether),
    // The result is the last message itself, not a call.
    structured: None,
    mcp_tool: Some(|server, tool| format!("mcp__{server}/{tool}")),
    mcp_server,
    modes: Some(("read-only", "auto")),
    other_model: "gpt-5.4",
    slash: None,
    compact: Some(("/compact", "CONTEXT CHECKPOINT COMPACTION")),
    clear: None,
    hook: None,
    thinking_budget: None,
};

/// The scripted model is a provider of its own: only a file can say so.
fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let folder = home.join(".codex");
    let config = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [features]\nplugins = false\napps = false\nunbounded_connection_retries = false\n\
         [model_providers.scripted]\nname = \"Scripted\"\nbase_url = \"{base_url}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"SCRIPTED_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
    );
    // Where it cannot be written, every scenario fails and says that Codex knows no model.
    let _ = std::fs::create_dir_all(&folder);
    let _ = std::fs::write(folder.join("config.toml"), config);
    let fixed = [("SCRIPTED_KEY", "fake-key-for-the-scripted-model"), ("LANG", "C.UTF-8")];
    let own = [("HOME".into(), home.into()), ("CODEX_HOME".into(), folder.into()), ("PATH".into(), path)];
    fixed.iter().map(|(name, value)| (name.into(), value.into())).chain(own).collect()
}

fn saved(home: &Path, agent_session: &str, words: &str) -> bool {
    let mut folders = vec![home.join(".codex/sessions")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.contains(agent_session)
                && std::fs::read_to_string(&path).is_ok_and(|text| text.contains(words))
            {
                return true;
            }
        }
    }
    false
}

fn write(path: &Path, text: &str) -> Call {
    let mut patch = format!("*** Begin Patch\n*** Add File: {}\n", path.display());
    for line in text.lines() {
        // Writing into memory cannot fail.
        let _ = writeln!(patch, "+{line}");
    }
    patch.push_str("*** End Patch");
    call("apply_patch", json!({ "input": patch }))
}

fn mcp_server(command: &[String]) -> Value {
    json!({ "command": command.first(), "args": command.get(1..).unwrap_or_default() })
}

/// Questions as the model asks them while it plans; for scenarios of Codex' own.
pub fn ask(questions: &[Question]) -> Call {
    let questions: Vec<Value> = questions
        .iter()
        .enumerate()
        .map(|(number, question)| {
            let options: Vec<Value> = question
                .choices
                .iter()
                .map(|choice| json!({ "label": choice.label, "description": choice.description }))
                .collect();
            json!({
                "id": format!("question_{number}"),
                "header": question.header,
                "question": question.question,
                "options": options,
            })
        })
        .collect();
    call("request_user_input", json!({ "questions": questions }))
}
