//! OpenCode.

use std::{ffi::OsString, path::Path};

use portolan_scripted::call;
use serde_json::json;

use super::{
    super::{Denial, KEY, Profile, on_disk, put, variables},
    ACP,
};

/// OpenCode, over ACP.
pub const OPENCODE: Profile = Profile {
    agent: "opencode",
    title: "OpenCode",
    install: "npm install -g opencode-ai@1.18.33",
    environment,
    saved: |home, _, words| on_disk(&home.join(".local/share/opencode"), "opencode.db", words),
    shell: |command| call("bash", json!({ "command": command, "description": "a step of the suite" })),
    write: |path, text| call("write", json!({ "filePath": path, "content": text })),
    denial: Denial::EndsTurn,
    tells_cost: true,
    mcp_tool: Some(|server, tool| format!("{server}_{tool}")),
    // Its modes are agents: none asks less than another.
    modes: None,
    other_model: "scripted/m2",
    other_model_asked: Some("m2"),
    untested: &["permission-two", "slash-command", "compaction", "clear"],
    ..ACP
};

/// The scripted model is a separate provider, and the configuration makes the agent ask before it acts.
fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let model = json!({ "tool_call": true, "attachment": true, "reasoning": true,
        "modalities": { "input": ["text", "image"], "output": ["text"] },
        "limit": { "context": 128_000, "output": 8192 }, "cost": { "input": 1, "output": 2 } });
    let config = json!({
        "model": "scripted/m1", "small_model": "scripted/m1",
        "share": "disabled", "autoupdate": false, "enabled_providers": ["scripted"],
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{base_url}/v1"), "apiKey": KEY },
            "models": { "m1": model, "m2": model },
        } },
        "permission": { "bash": "ask", "edit": "ask", "harbour_*": "ask" },
    });
    // Otherwise it fetches a package for plugins from the network at every first start. It takes this file as
    // installed.
    let own = home.join(".config/opencode");
    let lock = json!({ "packages": { "": { "dependencies": { "@opencode-ai/plugin": "*" } } } });
    put(&own.join("package-lock.json"), &lock.to_string());
    let _ = std::fs::create_dir_all(own.join("node_modules"));
    // Without this file OpenCode reads its list of all models, which takes a third of the work of a start.
    let models = home.join("models.json");
    put(&models, "{}");
    let (config, models) = (config.to_string(), models.to_string_lossy());
    let fixed = [
        ("OPENCODE_CONFIG_CONTENT", &*config),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_MODELS_PATH", &*models),
    ];
    variables(home, path, &fixed)
}
