//! The ACP adapters of Claude Code and of Codex: the same programs as their own profiles, over another transport.

use portolan_scripted::call;
use serde_json::json;

use super::{
    super::{CacheTold, Denial, Profile, claude, codex, put},
    ACP,
};

/// Claude Code, through its ACP adapter.
pub const CLAUDE_AGENT_ACP: Profile = Profile {
    agent: "claude-agent-acp",
    title: "Claude Code (ACP adapter)",
    install: "npm install -g @agentclientprotocol/claude-agent-acp@0.99.0",
    environment: |home, base_url, path| {
        // Otherwise it asks for a mode that Claude Code refuses as root.
        let settings = json!({ "permissions": { "disableBypassPermissionsMode": "disable" } });
        put(&home.join(".claude/settings.json"), &settings.to_string());
        claude::environment(home, base_url, path)
    },
    saved: claude::saved,
    shell: |command| call("Bash", json!({ "command": command, "description": "a step of the suite" })),
    write: |path, text| call("Write", json!({ "file_path": path, "content": text })),
    // It reports the names, beside the protocol.
    shown_as: None,
    cache: CacheTold::Both,
    tells_cost: true,
    subagent: Some(claude::subagent),
    mcp_tool: Some(|server, tool| format!("mcp__{server}__{tool}")),
    modes: Some(("default", "acceptEdits")),
    other_model: "sonnet",
    slash: Some("/context"),
    ..ACP
};

/// Codex, through its ACP adapter.
pub const CODEX_ACP: Profile = Profile {
    agent: "codex-acp",
    title: "Codex (ACP adapter)",
    install: "npm install -g @agentclientprotocol/codex-acp@2.6.0",
    environment: codex::environment,
    saved: codex::saved,
    shell: codex::shell,
    write: codex::write,
    denial: Denial::EndsTurn,
    cache: CacheTold::Both,
    mcp_tool: Some(|server, tool| format!("mcp__{server}/{tool}")),
    modes: Some(("read-only", "agent")),
    other_model: "gpt-6-sol",
    slash: Some("/status"),
    ..ACP
};
