//! Events: what happened in a session, in one vocabulary for every agent; and what happened in the daemon.
//!
//! Translators turn an agent's own messages into these; projectors turn these into a frontend's frames. What has
//! no event of its own becomes [`Event::Unknown`] with the raw text kept, so that nothing a newer agent says is lost.
//!
//! # Where the unified messages of other bridges went
//!
//! A test reads this table and fails on a kind without a row, or a row that names no event.
//!
//! | unified message | here |
//! |---|---|
//! | assistant_message | Message, ToolCall |
//! | partial_message | ItemStarted, Delta |
//! | result | TurnEnded |
//! | system_init | AgentInfo |
//! | status | Activity, SettingChanged |
//! | compact_boundary | Compacted |
//! | tool_progress | ToolProgress |
//! | tool_use_summary | ToolSummary |
//! | permission_request | RequestOpened |
//! | auth_status | AuthStatus |
//! | task_notification | TaskChanged |
//! | hook_event | Hook |
//! | error | Failure |
//! | keep_alive | - (answers nothing, says nothing) |
//! | system | AgentInfo, Activity, Compacted, TaskChanged, FilesPersisted, Hook |
//! | assistant | Message, ToolCall |
//! | stream_event | ItemStarted, ToolNamed, Delta, Usage |
//! | control_request | RequestOpened |
//! | control_response | Receipt |
//! | user | Prompt, ToolResult, Notice |
//! | system/init | AgentInfo |
//! | system/status | Activity, SettingChanged |
//! | system/compact_boundary | Compacted |
//! | system/task_notification | TaskChanged |
//! | system/files_persisted | FilesPersisted |
//! | system/hook_started | Hook |
//! | system/hook_progress | Hook |
//! | system/hook_response | Hook |
//! | control_request/can_use_tool | RequestOpened |
//! | control_request/initialize | AgentInfo |
//! | control_request/interrupt | Receipt, TurnEnded |
//! | control_request/set_permission_mode | SettingChanged |
//! | control_request/set_model | SettingChanged |
//! | control_request/set_max_thinking_tokens | SettingChanged |
//! | control_request/mcp_status | McpServers |
//! | control_request/mcp_message | Receipt |
//! | control_request/mcp_reconnect | McpServers |
//! | control_request/mcp_toggle | McpServers |
//! | control_request/mcp_set_servers | McpServers |
//! | control_request/rewind_files | Receipt |
//! | control_request/hook_callback | RequestOpened |
//! | control_cancel_request | RequestClosed |
//! | update_environment_variables | SettingChanged |

mod parts;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::parts::*;
use crate::{
    Capabilities, Generation, RequestId, Seq, SessionId, SessionSpec, TokenId,
    capabilities::NativeProtocol,
    command::{Action, CommandKey, Stage},
    request::{Outcome, Request},
    session::state::Summary,
    usage::TokenUsage,
};

/// What happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    // --- the session -------------------------------------------------------------------------
    /// The session exists. Its first entry, once; a fork has a second one where its own history begins.
    SessionCreated {
        /// What was asked for.
        spec: Box<SessionSpec>,
    },
    /// It has another name.
    SessionRenamed {
        /// The new one.
        name: String,
    },
    /// It was put away, or taken out again.
    SessionArchived {
        /// Away or out.
        archived: bool,
    },

    /// Everything said before this came over from a conversation that the agent had kept by itself: the entries whose
    /// `by` is `imported`, with their own times. The agent takes it up with the next prompt.
    Imported {
        /// The conversation, by the agent's own id.
        past: String,
        /// The agent leaves that one as it is and goes on in a copy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copy: bool,
        /// How many entries came over.
        entries: u32,
        /// How many did not: too many, or of a kind that has no place in the past.
        #[serde(default)]
        left_out: u32,
        /// What this agent can do as far as is known before it runs.
        capabilities: Box<Capabilities>,
    },

    // --- the agent's process -------------------------------------------------------------------
    /// A process is being started.
    AgentStarting {
        /// Which start this is.
        generation: Generation,
        /// What this agent can do as far as is known before it runs.
        capabilities: Box<Capabilities>,
        /// The agent's own session id, where an earlier conversation is taken up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        resume: Option<String>,
    },
    /// The process runs and can be spoken to.
    AgentStarted {
        /// Which start this is.
        generation: Generation,
        /// The process, where there is one of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        pid: Option<u32>,
        /// The agent's version, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        version: Option<String>,
        /// How it is spoken to.
        protocol: NativeProtocol,
        /// What it can do.
        capabilities: Box<Capabilities>,
    },
    /// It takes prompts from now on.
    AgentReady {
        /// Which start this is.
        generation: Generation,
    },
    /// The agent told about itself. Fields that are present replace what was known.
    AgentInfo {
        /// What it told.
        info: Box<AgentInfo>,
    },
    /// The connection to a living agent was lost.
    LinkLost {
        /// Why.
        reason: String,
    },
    /// It is back.
    LinkRestored,
    /// The process has ended.
    AgentExited {
        /// Which start this was.
        generation: Generation,
        /// How it ended.
        exit: Exit,
    },

    // --- turns ---------------------------------------------------------------------------------
    /// The agent began to work.
    TurnStarted {
        /// Counted from 1 within the session.
        turn: u32,
        /// What set it off.
        origin: TurnOrigin,
    },
    /// The agent finished, or was stopped.
    TurnEnded {
        /// Which turn.
        turn: u32,
        /// What came of it.
        result: Box<TurnResult>,
    },
    /// What the agent is busy with, beside writing.
    Activity {
        /// Its own word: `requesting`, `compacting`, …; absent when nothing special.
        #[serde(default)]
        activity: Option<String>,
    },

    // --- the conversation ------------------------------------------------------------------------
    /// Someone said something to the agent.
    Prompt {
        /// The entry of the command.
        command: Seq,
        /// What.
        content: Vec<Content>,
    },
    /// An item began to stream. Its end is the durable entry with the same item.
    ItemStarted {
        /// Its name, unique in the session.
        item: String,
        /// What it will be.
        kind: ItemKind,
        /// The message it is part of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        message: Option<String>,
        /// The subagent it belongs to, by the call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
    },
    /// Whose input an open item is, told as soon as it is known: the call itself follows when its input is complete.
    ToolNamed {
        /// Which item.
        item: String,
        /// The call, by the agent's own id.
        tool: String,
        /// The tool's name.
        name: String,
    },
    /// More of an open item: text, thinking, a tool's input as JSON text, a tool's output.
    Delta {
        /// Which item.
        item: String,
        /// What follows what came before.
        text: String,
    },
    /// A finished part of a message.
    Message {
        /// The item that this ends, or a new name where nothing streamed.
        item: String,
        /// The message it is part of, by the agent's own id; parts of one message share it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        message: Option<String>,
        /// The subagent it belongs to, by the call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
        /// The model that wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        model: Option<String>,
        /// What it says.
        content: Vec<Content>,
        /// It was cut off: this is what there was.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// Why the model stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        stop_reason: Option<String>,
    },
    /// The agent calls a tool.
    ToolCall {
        /// The call, by the agent's own id.
        tool: String,
        /// The item that this ends, where its input streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        item: Option<String>,
        /// The message it is part of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        message: Option<String>,
        /// The subagent that calls, by the call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
        /// The tool's name.
        name: String,
        /// What sort of tool.
        kind: ToolKind,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        title: Option<String>,
        /// What it is called with.
        input: Value,
        /// The changes to files it will make, where known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
    },
    /// A tool is still at work.
    ToolProgress {
        /// Which call.
        tool: String,
        /// The tool's name.
        name: String,
        /// The subagent that called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
        /// For how long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        elapsed_seconds: Option<f64>,
    },
    /// A tool has finished.
    ToolResult {
        /// Which call.
        tool: String,
        /// The subagent that called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
        /// How it ended.
        outcome: ToolOutcome,
        /// What it gave.
        content: Vec<Content>,
        /// The changes to files it made, where known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
    },
    /// The agent sums up what its last tools did.
    ToolSummary {
        /// In words.
        summary: String,
        /// Which calls.
        tools: Vec<String>,
    },
    /// The agent's list of steps.
    Plan {
        /// All of them, in order.
        steps: Vec<PlanStep>,
        /// The subagent whose list it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
    },
    /// What a request to the model used.
    Usage {
        /// The tokens.
        usage: TokenUsage,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        model: Option<String>,
        /// The subagent that used them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
        /// How many tokens fit into the context, where told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        context_window: Option<u64>,
    },
    /// The context was made smaller.
    Compacted {
        /// Who asked for it: `manual` or `auto`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        trigger: Option<String>,
        /// Tokens before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        tokens_before: Option<u64>,
        /// Tokens after.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        tokens_after: Option<u64>,
    },
    /// The agent forgot the conversation; its own session id may have changed. What was said before this is in the log,
    /// and the agent knows nothing of it.
    ConversationReset {
        /// The new id, where told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        agent_session: Option<String>,
        /// Why, where nobody asked for it; absent after a command such as `/clear`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        reason: Option<ResetReason>,
    },

    // --- subagents and tasks -----------------------------------------------------------------------
    /// A subagent began. What belongs to it names it as `parent`.
    SubagentStarted {
        /// Its name: the tool call that started it.
        subagent: String,
        /// The subagent that started it; absent is the main agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        parent: Option<String>,
        /// Which sort.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        subagent_type: Option<String>,
        /// What it is for, in a few words.
        description: String,
        /// What it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        prompt: Option<String>,
        /// Its model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        model: Option<String>,
        /// The agent goes on meanwhile.
        #[serde(default)]
        background: bool,
        /// The team it joins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        team: Option<String>,
    },
    /// A subagent has finished.
    SubagentEnded {
        /// Which.
        subagent: String,
        /// How.
        outcome: ToolOutcome,
        /// What it did, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        summary: Option<String>,
        /// What it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        work: Option<WorkDone>,
    },
    /// A background task began, went on or ended.
    TaskChanged {
        /// What is known of it.
        task: Box<Task>,
    },

    // --- requests ------------------------------------------------------------------------------
    /// The agent waits for an answer.
    RequestOpened {
        /// What it asks.
        request: Box<Request>,
    },
    /// It waits no longer.
    RequestClosed {
        /// Which request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },

    // --- commands -----------------------------------------------------------------------------
    /// Someone asked for something, and it was taken in. The entry's `by` says who.
    CommandAccepted {
        /// Under which id.
        key: CommandKey,
        /// What.
        action: Box<Action>,
    },
    /// How far a command has come.
    Receipt {
        /// The entry of the command.
        command: Seq,
        /// How far.
        #[serde(flatten)]
        stage: Stage,
    },

    // --- settings -----------------------------------------------------------------------------
    /// A setting is now this.
    SettingChanged {
        /// Which, and what.
        setting: Setting,
    },
    /// From now on a rule answers.
    RuleAdded {
        /// The tool it is about.
        tool_name: String,
    },
    /// A rule is gone.
    RuleRemoved {
        /// The tool it was about.
        tool_name: String,
    },
    /// The MCP servers are in this state. Secrets are masked.
    McpServers {
        /// All of them.
        servers: Vec<McpServer>,
    },

    // --- everything else ------------------------------------------------------------------------
    /// A request to the model failed and is tried again.
    Retry {
        /// Which try failed.
        attempt: u32,
        /// How many there will be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        max: Option<u32>,
        /// The wait before the next one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        delay_ms: Option<u64>,
        /// What went wrong.
        error: ErrorInfo,
    },
    /// Something went wrong that did not end the turn.
    Failure {
        /// What.
        error: ErrorInfo,
        /// The session can go on.
        recoverable: bool,
    },
    /// Something worth a line.
    Notice {
        /// How much it matters.
        level: Level,
        /// In words.
        text: String,
    },
    /// The agent is being logged in, or failed to be.
    AuthStatus {
        /// It is at it now.
        authenticating: bool,
        /// What it prints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        output: Vec<String>,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        error: Option<String>,
    },
    /// A hook of the agent ran.
    Hook {
        /// This run of it.
        hook: String,
        /// Its name.
        name: String,
        /// What it is attached to.
        event: String,
        /// How far it is.
        status: HookStatus,
        /// What it printed, its exit code and the like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        data: Option<Value>,
    },
    /// Files were saved elsewhere.
    FilesPersisted {
        /// These were.
        files: Vec<Value>,
        /// These were not.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        failed: Vec<Value>,
    },
    /// Something that Portolan does not know yet. Its raw text is kept.
    Unknown {
        /// Who said it.
        source: String,
        /// The sender's own name for it.
        kind: String,
    },
}

/// What happens to an entry when the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Committed before anyone sees it.
    Durable,
    /// Shown at once and written behind; the finished item's commit replaces it.
    Streamed,
}

impl Event {
    /// The kinds that stream, by their names on the wire; [`Event::durability`] says the same of an event.
    pub const STREAMED: [&str; 5] = ["item_started", "tool_named", "delta", "tool_progress", "activity"];

    /// What happens to it when the daemon is killed.
    pub fn durability(&self) -> Durability {
        match self {
            Self::ItemStarted { .. }
            | Self::ToolNamed { .. }
            | Self::Delta { .. }
            | Self::ToolProgress { .. }
            | Self::Activity { .. } => Durability::Streamed,
            _ => Durability::Durable,
        }
    }
}

/// What happened in the daemon: the log behind session lists, the inbox and audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DaemonEvent {
    /// The daemon started.
    Started {
        /// Its version.
        version: String,
    },
    /// The daemon is about to end.
    Stopping,
    /// There is a new session.
    SessionCreated {
        /// What it is.
        summary: Box<Summary>,
    },
    /// A session's place in a list has changed.
    SessionChanged {
        /// What it is now.
        summary: Box<Summary>,
    },
    /// A session is gone for good.
    SessionDeleted {
        /// Which.
        session: SessionId,
    },
    /// Something waits for an answer.
    RequestOpened {
        /// In which session.
        session: SessionId,
        /// What.
        request: Box<Request>,
    },
    /// It waits no longer.
    RequestClosed {
        /// In which session.
        session: SessionId,
        /// Which.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// There is a new token.
    TokenCreated {
        /// Its public name.
        token: TokenId,
        /// What people call it.
        name: String,
        /// What it may do.
        role: crate::Role,
    },
    /// A token no longer opens the door.
    TokenRevoked {
        /// Its public name.
        token: TokenId,
    },
    /// A token has a new secret; the old one opens nothing any more.
    TokenRotated {
        /// Its public name.
        token: TokenId,
    },
    /// A door has opened, so set: the main one, or that of a frontend with a listener of its own.
    DoorOpened {
        /// Whose it is, where it is not the main one: `insights`, `handheld`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        frontend: Option<String>,
        /// Some get in by it without a token.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tokenless: bool,
        /// Where it listens.
        addresses: Vec<String>,
        /// By TLS.
        tls: bool,
        /// Names it answers to, beside its addresses.
        hosts: Vec<String>,
        /// Origins whose pages may talk to it, beside its own.
        origins: Vec<String>,
        /// What a proxy says about its clients is believed.
        behind_proxy: bool,
    },
    /// A browser was logged in.
    LoggedIn {
        /// From where, as the door saw it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        address: Option<String>,
        /// Which, by the public name under which it is listed; absent in what was written before it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        browser: Option<String>,
    },
    /// A browser logged out, or was logged out by somebody.
    LoggedOut {
        /// Which, by the public name under which it was listed; absent in what was written before it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        browser: Option<String>,
    },
    /// Someone was refused so often that it is worth a line.
    AccessRefused {
        /// From where, as the door saw it: an address, or a process at the Unix socket.
        from: String,
        /// How often since the last such line.
        attempts: u32,
        /// What was wrong.
        reason: String,
    },
    /// A frontend approves some requests by itself from now on, in the name of who switched that on; or no longer.
    AutoApproval {
        /// Which frontend.
        frontend: String,
        /// It does.
        on: bool,
        /// The tools that it approves.
        tools: Vec<String>,
    },
    /// An agent was logged in or out through Portolan, or a login that was begun has failed.
    AccountChanged {
        /// Which agent.
        agent: String,
        /// Whether it is logged in now, where it tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        login: Option<crate::ports::Login>,
        /// Why the login failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        failed: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The unified message kinds of seed 003, and the messages and subtypes of seed 004.
    const KINDS: &[&str] = &[
        "assistant_message",
        "partial_message",
        "result",
        "system_init",
        "status",
        "compact_boundary",
        "tool_progress",
        "tool_use_summary",
        "permission_request",
        "auth_status",
        "task_notification",
        "hook_event",
        "error",
        "keep_alive",
        "system",
        "assistant",
        "stream_event",
        "control_request",
        "control_response",
        "user",
        "system/init",
        "system/status",
        "system/compact_boundary",
        "system/task_notification",
        "system/files_persisted",
        "system/hook_started",
        "system/hook_progress",
        "system/hook_response",
        "control_request/can_use_tool",
        "control_request/initialize",
        "control_request/interrupt",
        "control_request/set_permission_mode",
        "control_request/set_model",
        "control_request/set_max_thinking_tokens",
        "control_request/mcp_status",
        "control_request/mcp_message",
        "control_request/mcp_reconnect",
        "control_request/mcp_toggle",
        "control_request/mcp_set_servers",
        "control_request/rewind_files",
        "control_request/hook_callback",
        "control_cancel_request",
        "update_environment_variables",
    ];

    #[test]
    fn every_foreign_kind_is_mapped_to_an_event_that_exists() {
        let source = include_str!("event.rs");
        let body = source.split("pub enum Event {").nth(1).unwrap().split("\n}").next().unwrap();
        let events: BTreeSet<&str> = body
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(char::is_uppercase))
            .map(|line| line.trim_end_matches([' ', '{', ',']))
            .collect();
        assert!(events.contains("Delta") && events.contains("LinkRestored"), "{events:?}");
        let rows = source.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
        let mut mapped = BTreeSet::new();
        for row in rows {
            let mut cells = row.split('|').map(str::trim);
            let (kind, here) = (cells.next().unwrap(), cells.next().unwrap());
            assert!(mapped.insert(kind), "`{kind}` stands twice");
            if !here.starts_with('-') {
                for event in here.split(", ") {
                    assert!(events.contains(event), "`{kind}` is mapped to `{event}`, which is no event");
                }
            }
        }
        assert_eq!(mapped, KINDS.iter().copied().collect());
    }
}
