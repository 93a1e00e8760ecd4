//! Agents over ACP. Their common part is here; each has its own file for the rest.

mod adapters;
mod gemini;
mod goose;
mod opencode;
mod qwen;

use portolan_scripted::call;
use serde_json::{Value, json};

pub use self::{
    adapters::{CLAUDE_AGENT_ACP, CODEX_ACP},
    gemini::GEMINI,
    goose::GOOSE,
    opencode::OPENCODE,
    qwen::QWEN,
};
use super::{CacheTold, Denial, Profile, Shown, variables};

/// The defaults of an agent over ACP. The protocol has no field for the reason of a denial, for edited input, for
/// questions, plans to approve, results of a form, hooks, or a budget.
const ACP: Profile = Profile {
    agent: "",
    title: "",
    install: "",
    environment: |home, _, path| variables(home, path, &[]),
    saved: |_, _, _| true,
    shell: |command| call("shell", json!({ "command": command })),
    background: None,
    write: |path, text| call("write", json!({ "path": path, "content": text })),
    // The protocol names the kind of a tool, not the tool.
    shown_as: Some(Shown { shell: "execute", write: "edit" }),
    denial: Denial::Plain,
    edits_input: false,
    shows_thinking: true,
    cache: CacheTold::Read,
    tells_cost: false,
    tells_context: true,
    gives_up: true,
    ask: None,
    plan: None,
    subagent: None,
    two_at_once: None,
    structured: None,
    mcp_tool: None,
    mcp_server,
    mcp_listed: false,
    mcp_asks: true,
    modes: None,
    other_model: "",
    other_model_asked: None,
    slash: None,
    compact: None,
    clear: None,
    hook: None,
    thinking_budget: None,
    // The protocol allows them; the suite has no prompt that makes an agent do them.
    untested: &["permission-two", "compaction", "clear"],
};

fn mcp_server(command: &[String]) -> Value {
    json!({ "type": "stdio", "command": command.first(), "args": command.get(1..).unwrap_or_default() })
}
