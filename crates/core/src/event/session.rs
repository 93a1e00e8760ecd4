//! What happened in a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentInfo, Content, Durability, ErrorInfo, Exit, FileChange, HookStatus, ItemKind, Level, McpServer,
    PlanStep, ResetReason, Setting, Task, ToolKind, ToolOutcome, TurnOrigin, TurnResult, WorkDone,
};
use crate::{
    Capabilities, Generation, RequestId, Seq, SessionSpec,
    capabilities::NativeProtocol,
    command::{Action, CommandKey, Stage},
    request::{Outcome, Request},
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
