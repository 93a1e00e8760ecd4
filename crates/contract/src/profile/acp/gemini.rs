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
    saved,
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

/// A file is named by the minute and by the beginning of the session's name. Who takes a conversation up within the minute in
/// which it began overwrites it (a fault of 0.61.0): what is on disk is safe once the minute is over.
fn saved(home: &Path, agent_session: &str, words: &str) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let this_minute =
        format!("-{:02}-{}", now.as_secs() / 60 % 60, agent_session.get(..8).unwrap_or_default());
    let folder = home.join(".gemini/tmp");
    on_disk(&folder, agent_session.get(..8).unwrap_or_default(), words)
        && !on_disk(&folder, &this_minute, words)
}

/// How it logs in, and that it tries once, only a file can say.
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
