//! Claude Code.

use std::{ffi::OsString, path::Path};

use portolan_core::request::Question;
use portolan_scripted::{Call, call};
use serde_json::{Value, json};

use super::{CacheTold, Denial, HookCall, KEY, PlanCall, Profile, ThinkingBudget, TwoAtOnce, variables};

/// Claude Code, any version.
pub const CLAUDE: Profile = Profile {
    agent: "claude",
    title: "Claude Code",
    install: "npm install -g @anthropic-ai/claude-code@2.1.325",
    environment,
    saved,
    shell: |command| call("Bash", json!({ "command": command, "description": "a step of the suite" })),
    background: Some(|command| {
        call("Bash", json!({ "command": command, "description": "a long step", "run_in_background": true }))
    }),
    write: |path, text| call("Write", json!({ "file_path": path, "content": text })),
    shown_as: None,
    denial: Denial::Reasoned,
    edits_input: true,
    shows_thinking: true,
    cache: CacheTold::Both,
    tells_cost: false,
    tells_context: true,
    gives_up: true,
    ask: Some(ask),
    plan: Some(PlanCall { mode: "plan", call: |plan| call("ExitPlanMode", json!({ "plan": plan })) }),
    subagent: Some(subagent),
    two_at_once: Some(TwoAtOnce::Subagents),
    structured: Some(|value| call("StructuredOutput", value)),
    mcp_tool: Some(|server, tool| format!("mcp__{server}__{tool}")),
    mcp_server,
    mcp_listed: true,
    mcp_asks: true,
    modes: Some(("default", "acceptEdits")),
    other_model: "claude-scripted-1",
    other_model_asked: None,
    slash: Some("/context"),
    compact: Some(("/compact", "CRITICAL: Respond with TEXT ONLY")),
    clear: Some("/clear"),
    hook: Some(HookCall {
        event: "PreToolUse",
        allow: || json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "allow" } }),
    }),
    thinking_budget: Some(ThinkingBudget {
        model: "claude-sonnet-4-5",
        asked: |request| request["thinking"]["budget_tokens"].as_u64(),
    }),
    untested: &[],
};

pub(super) fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let fixed = [
        ("ANTHROPIC_API_KEY", KEY),
        ("ANTHROPIC_BASE_URL", base_url),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
    ];
    variables(home, path, &fixed)
}

pub(super) fn saved(home: &Path, agent_session: &str, words: &str) -> bool {
    let projects = std::fs::read_dir(home.join(".claude/projects")).into_iter().flatten().flatten();
    let file = format!("{agent_session}.jsonl");
    projects
        .filter_map(|project| std::fs::read_to_string(project.path().join(&file)).ok())
        .any(|text| text.contains(words))
}

fn ask(questions: &[Question]) -> Call {
    let questions: Vec<Value> = questions
        .iter()
        .map(|question| {
            let options: Vec<Value> = question
                .choices
                .iter()
                .map(|choice| json!({ "label": choice.label, "description": choice.description }))
                .collect();
            json!({
                "question": question.question,
                "header": question.header,
                "options": options,
                "multiSelect": question.multiple,
            })
        })
        .collect();
    call("AskUserQuestion", json!({ "questions": questions }))
}

pub(super) fn subagent(description: &str, prompt: &str) -> Call {
    call("Agent", json!({ "description": description, "prompt": prompt, "subagent_type": "general-purpose" }))
}

fn mcp_server(command: &[String]) -> Value {
    json!({ "type": "stdio", "command": command.first(), "args": command.get(1..).unwrap_or_default() })
}
