//! Goose.

use std::{ffi::OsString, path::Path};

use portolan_scripted::call;
use serde_json::json;

use super::{
    super::{CacheTold, KEY, Profile, on_disk, variables},
    ACP,
};

/// Goose, over ACP.
pub const GOOSE: Profile = Profile {
    agent: "goose",
    title: "Goose",
    install: "npm install -g @aaif/goose-binary-linux-x64@0.20.1",
    environment,
    saved: |home, _, words| on_disk(&home.join(".local/share/goose/sessions"), "sessions.db", words),
    shell: |command| call("shell", json!({ "command": command })),
    write: |path, text| call("write", json!({ "path": path, "content": text })),
    // It reports the names, beside the protocol.
    shown_as: None,
    shows_thinking: false,
    cache: CacheTold::Nothing,
    mcp_tool: Some(|server, tool| format!("{server}__{tool}")),
    // The server waits for an answer that nobody was asked for.
    mcp_asks: false,
    modes: Some(("approve", "auto")),
    other_model: "gpt-4o-mini",
    untested: &["permission-two", "slash-command", "compaction", "clear"],
    ..ACP
};

fn environment(home: &Path, base_url: &str, path: OsString) -> Vec<(OsString, OsString)> {
    let fixed = [
        ("GOOSE_PROVIDER", "openai"),
        ("GOOSE_MODEL", "gpt-4o"),
        ("GOOSE_MODE", "approve"),
        ("GOOSE_DISABLE_KEYRING", "1"),
        ("GOOSE_TELEMETRY_ENABLED", "false"),
        ("OPENAI_HOST", base_url),
        ("OPENAI_API_KEY", KEY),
    ];
    variables(home, path, &fixed)
}
