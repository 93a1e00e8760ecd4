//! Qwen Code.

use std::{ffi::OsString, path::Path};

use portolan_scripted::call;
use serde_json::json;

use super::{
    super::{Denial, KEY, Profile, on_disk, put, variables},
    ACP,
};

/// Qwen Code, over ACP.
pub const QWEN: Profile = Profile {
    agent: "qwen",
    title: "Qwen Code",
    install: "npm install -g @qwen-code/qwen-code@0.24.4",
    environment,
    saved: |home, agent_session, words| on_disk(&home.join(".qwen/projects"), agent_session, words),
    shell: |command| {
        let why = "a step of the suite";
        call("run_shell_command", json!({ "command": command, "description": why, "is_background": false }))
    },
    write: |path, text| call("write_file", json!({ "file_path": path, "content": text })),
    // It reports the names, beside the protocol.
    shown_as: None,
    denial: Denial::EndsTurn,
    // It tries seven times, and waits longer each time.
    gives_up: false,
    mcp_tool: Some(|server, tool| format!("mcp__{server}__{tool}")),
    modes: Some(("default", "auto-edit")),
    other_model: "m2(openai)",
    other_model_asked: Some("m2"),
    slash: Some("/status"),
    untested: &["permission-two", "compaction", "error-network", "clear"],
    ..ACP
};

/// Only a file can set the models, their options, and what the agent must not do by itself.
fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let base_url = format!("{base_url}/v1");
    let model = |id: &str| {
        json!({ "id": id, "name": id, "baseUrl": base_url, "envKey": "OPENAI_API_KEY",
            "generationConfig": { "maxRetries": 0, "modalities": { "image": true } } })
    };
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        // Both ask the model after every turn.
        "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
        "ui": { "enableFollowupSuggestions": false },
        "model": { "name": "m1", "generationConfig": { "maxRetries": 0 } },
        "modelProviders": { "openai": [model("m1"), model("m2")] },
    });
    put(&home.join(".qwen/settings.json"), &settings.to_string());
    let fixed = [
        ("OPENAI_API_KEY", KEY),
        ("OPENAI_BASE_URL", &*base_url),
        ("OPENAI_MODEL", "m1"),
        // Otherwise it starts itself again as a child.
        ("QWEN_CODE_NO_RELAUNCH", "true"),
    ];
    variables(home, path, &fixed)
}
