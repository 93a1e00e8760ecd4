//! Codex.

use std::{ffi::OsString, fmt::Write as _, path::Path};

use portolan_core::request::Question;
use portolan_scripted::{Call, call};
use serde_json::{Value, json};

use super::{CacheTold, Denial, KEY, Profile, TwoAtOnce, on_disk, put, variables};

/// Codex, through its app-server.
pub const CODEX: Profile = Profile {
    agent: "codex",
    title: "Codex",
    install: "npm install -g @openai/codex@0.166.0",
    environment,
    saved,
    // Commands run in a sandbox without a request; leaving the sandbox needs permission.
    shell,
    background: None,
    write,
    shown_as: None,
    denial: Denial::Reasoned,
    edits_input: false,
    shows_thinking: true,
    cache: CacheTold::Both,
    tells_cost: false,
    tells_context: true,
    gives_up: true,
    // It asks questions only while it plans.
    ask: None,
    // A plan is a message; to carry it out is a change of mode.
    plan: None,
    // A subagent has a prompt and no description.
    subagent: None,
    two_at_once: Some(TwoAtOnce::CallsTogether),
    // The result is the last message itself, not a call.
    structured: None,
    mcp_tool: Some(|server, tool| format!("mcp__{server}/{tool}")),
    mcp_server,
    mcp_listed: true,
    mcp_asks: true,
    modes: Some(("read-only", "auto")),
    other_model: "gpt-5.4",
    other_model_asked: None,
    slash: None,
    compact: Some(("/compact", "CONTEXT CHECKPOINT COMPACTION")),
    clear: None,
    hook: None,
    thinking_budget: None,
    untested: &[
        "question",
        "subagent",
        "slash-command",
        "structured-output",
        "structured-output-fails",
        "background",
        "background-stop",
    ],
};

/// The scripted model is a separate provider: only a file can set it.
pub(super) fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let folder = home.join(".codex");
    let config = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [features]\nplugins = false\napps = false\nunbounded_connection_retries = false\n\
         [model_providers.scripted]\nname = \"Scripted\"\nbase_url = \"{base_url}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"SCRIPTED_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
    );
    put(&folder.join("config.toml"), &config);
    let mut environment = variables(home, path, &[("SCRIPTED_KEY", KEY)]);
    environment.push(("CODEX_HOME".into(), folder.into()));
    environment
}

pub(super) fn saved(home: &Path, agent_session: &str, words: &str) -> bool {
    on_disk(&home.join(".codex/sessions"), agent_session, words)
}

pub(super) fn shell(command: &str) -> Call {
    let why = "a step of the suite";
    call(
        "exec_command",
        json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": why }),
    )
}

pub(super) fn write(path: &Path, text: &str) -> Call {
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

/// Questions as the model asks them while it plans; for scenarios that only Codex has.
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
