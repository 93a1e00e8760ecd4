//! Gemini CLI.

use std::{ffi::OsString, path::Path};

use portolan_scripted::call;
use serde_json::json;

use super::{
    super::{CacheTold, KEY, Profile, on_disk, put, variables},
    ACP,
};

/// Gemini CLI, over ACP.
pub const GEMINI: Profile = Profile {
    agent: "gemini",
    title: "Gemini CLI",
    install: "npm install -g @google/gemini-cli@0.61.0",
    environment,
    // A file is named by the minute and the prefix of the session's name.
    saved: |home, agent_session, words| {
        on_disk(&home.join(".gemini/tmp"), agent_session.get(..8).unwrap_or_default(), words)
    },
    shell: |command| {
        call("run_shell_command", json!({ "command": command, "description": "a step of the suite" }))
    },
    write: |path, text| call("write_file", json!({ "file_path": path, "content": text })),
    cache: CacheTold::Nothing,
    tells_context: false,
    mcp_tool: Some(|server, tool| format!("mcp_{server}_{tool}")),
    modes: Some(("default", "autoEdit")),
    other_model: "gemini-2.5-pro",
    slash: Some("/memory show"),
    ..ACP
};

/// Only a file can set its login method, and that it tries only once.
fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "enableAutoUpdate": false, "maxAttempts": 1, "retryFetchErrors": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "model": { "name": "gemini-2.5-flash" },
    });
    put(&home.join(".gemini/settings.json"), &settings.to_string());
    let fixed = [
        ("GEMINI_API_KEY", KEY),
        ("GOOGLE_GEMINI_BASE_URL", base_url),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ];
    variables(home, path, &fixed)
}
