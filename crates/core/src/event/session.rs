//! What happened in a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentInfo, AgentStart, Content, ErrorInfo, Exit, FileChange, HookStatus, ItemKind, Level, McpServer,
    PlanStep, ResetReason, Setting, Task, ToolKind, ToolOutcome, TurnOrigin, TurnResult, WorkDone,
};
use crate::{
    Capabilities, Generation, Millis, RequestId, Seq, SessionSpec,
    command::{Action, CommandKey, Stage},
    policy::{BudgetTerms, Rule, RuleId, Standing},
    request::{Outcome, Request},
    usage::TokenUsage,
};

/// What happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    // --- the session -------------------------------------------------------------------------
    /// The session exists. This is the first entry of every session; a fork has a second one where its own history
    /// begins.
    SessionCreated {
        /// The session's settings.
        spec: Box<SessionSpec>,
    },
    /// The session was renamed.
    SessionRenamed {
        /// The new name.
        name: String,
    },
    /// The session was archived or restored.
    SessionArchived {
        /// `true` if the session is archived.
        archived: bool,
    },

    /// Everything before this entry was imported from a past conversation: the entries whose `by` is `imported`, with
    /// their original times. The agent resumes the conversation with the next prompt.
    Imported {
        /// The agent's own id of the conversation.
        past: String,
        /// The agent keeps the original unchanged and continues in a copy.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(feature = "schema", ts(as = "Option<bool>"))]
        copy: bool,
        /// The number of imported entries.
        entries: u32,
        /// The number of entries that were not imported: there were too many, or their kind cannot be imported.
        #[serde(default)]
        left_out: u32,
        /// What this agent supports, as far as known before it runs.
        capabilities: Box<Capabilities>,
    },

    // --- the agent's process -------------------------------------------------------------------
    /// The agent's process is being started.
    AgentStarting {
        /// The number of this start.
        generation: Generation,
        /// What this agent supports, as far as known before it runs.
        capabilities: Box<Capabilities>,
        /// The agent's own session id, if the agent resumes an earlier conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<String>,
    },
    /// The agent's process runs and can be reached.
    AgentStarted(AgentStart),
    /// The agent takes prompts from now on.
    AgentReady {
        /// The number of this start.
        generation: Generation,
    },
    /// The agent reported something about itself. Present fields replace what was known.
    AgentInfo {
        /// The agent's report.
        info: Box<AgentInfo>,
    },
    /// The connection to a running agent was lost.
    LinkLost {
        /// The reason.
        reason: String,
    },
    /// The connection to the agent is back.
    LinkRestored,
    /// The agent's process has ended.
    AgentExited {
        /// The number of this start.
        generation: Generation,
        /// How the process ended.
        exit: Exit,
    },

    // --- turns ---------------------------------------------------------------------------------
    /// The agent began a turn.
    TurnStarted {
        /// The turn's number in the session, from 1.
        turn: u32,
        /// The cause of the turn.
        origin: TurnOrigin,
    },
    /// The agent finished the turn, or was interrupted.
    TurnEnded {
        /// The turn's number.
        turn: u32,
        /// The result of the turn.
        result: Box<TurnResult>,
    },
    /// What the agent is doing besides writing.
    Activity {
        /// The agent's own word: `requesting`, `compacting`, …; absent if nothing special.
        #[serde(default)]
        #[cfg_attr(feature = "schema", ts(optional = false))]
        activity: Option<String>,
    },

    // --- the conversation ------------------------------------------------------------------------
    /// Somebody sent a prompt to the agent.
    Prompt {
        /// The entry of the command.
        command: Seq,
        /// The prompt.
        content: Vec<Content>,
    },
    /// An item began to stream. The durable entry with the same item ends it.
    ItemStarted {
        /// The item's name, unique in the session.
        item: String,
        /// The kind of item.
        kind: ItemKind,
        /// The message that the item is part of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The subagent that the item belongs to, named by the tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// The tool whose input an open item holds. The tool call itself follows when its input is complete.
    ToolNamed {
        /// The item's name.
        item: String,
        /// The agent's own id of the tool call.
        tool: String,
        /// The tool's name.
        name: String,
    },
    /// More of an open item: text, thinking, a tool's input as JSON text, or a tool's output.
    Delta {
        /// The item's name.
        item: String,
        /// The text to append.
        text: String,
    },
    /// A finished part of a message.
    Message {
        /// The item that this entry ends, or a new name if nothing streamed.
        item: String,
        /// The agent's own id of the message; all parts of one message share it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The subagent that the message belongs to, named by the tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// The model that wrote the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The content.
        content: Vec<Content>,
        /// The message was cut off: this is its text so far.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(feature = "schema", ts(as = "Option<bool>"))]
        interrupted: bool,
        /// Why the model stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
    },
    /// The agent calls a tool.
    ToolCall {
        /// The agent's own id of the tool call.
        tool: String,
        /// The item that this entry ends, if the input streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<String>,
        /// The message that the call is part of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The subagent that calls the tool, named by the tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// The tool's name.
        name: String,
        /// The kind of tool.
        kind: ToolKind,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The tool's input.
        input: Value,
        /// The changes that the tool will make to files, if known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "schema", ts(as = "Option<Vec<FileChange>>"))]
        changes: Vec<FileChange>,
    },
    /// A tool is still running.
    ToolProgress {
        /// The agent's own id of the tool call.
        tool: String,
        /// The tool's name.
        name: String,
        /// The subagent that called the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// How long the tool has run, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elapsed_seconds: Option<f64>,
    },
    /// A tool has finished.
    ToolResult {
        /// The agent's own id of the tool call.
        tool: String,
        /// The subagent that called the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// How the tool ended.
        outcome: ToolOutcome,
        /// The tool's output.
        content: Vec<Content>,
        /// The changes that the tool made to files, if known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "schema", ts(as = "Option<Vec<FileChange>>"))]
        changes: Vec<FileChange>,
    },
    /// The agent summarises its last tool calls.
    ToolSummary {
        /// The summary.
        summary: String,
        /// The tool calls.
        tools: Vec<String>,
    },
    /// The agent's list of steps.
    Plan {
        /// All steps, in order.
        steps: Vec<PlanStep>,
        /// The subagent whose list this is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// The tokens that a request to the model used.
    Usage {
        /// The tokens.
        usage: TokenUsage,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The subagent that used them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// The size of the context window in tokens, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        context_window: Option<u64>,
        /// The figure says only how full the context is: nothing was used.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(feature = "schema", ts(as = "Option<bool>"))]
        context_only: bool,
    },
    /// The agent compacted its context.
    Compacted {
        /// The trigger: `manual` or `auto`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// The agent lost the conversation, and its own session id may have changed. The log keeps everything before this
    /// entry; the agent knows nothing of it.
    ConversationReset {
        /// The agent's new session id, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_session: Option<String>,
        /// The reason, if nobody asked for the reset; absent after a command such as `/clear`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<ResetReason>,
    },

    // --- subagents and tasks -----------------------------------------------------------------------
    /// A subagent began. Entries that belong to the subagent name it as `parent`.
    SubagentStarted {
        /// The subagent's name: the tool call that started it.
        subagent: String,
        /// The subagent that started this one; the main agent when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        /// The kind of subagent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subagent_type: Option<String>,
        /// The subagent's task, in a few words.
        description: String,
        /// The subagent's prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// The subagent's model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The agent continues while the subagent works.
        #[serde(default)]
        background: bool,
        /// The team that the subagent joins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        team: Option<String>,
    },
    /// A subagent has finished.
    SubagentEnded {
        /// The subagent's name.
        subagent: String,
        /// How the subagent ended.
        outcome: ToolOutcome,
        /// What the subagent did, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// What the subagent used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<WorkDone>,
    },
    /// A background task began, continued or ended.
    TaskChanged {
        /// The task.
        task: Box<Task>,
    },

    // --- requests ------------------------------------------------------------------------------
    /// The agent waits for an answer.
    RequestOpened {
        /// The request.
        request: Box<Request>,
    },
    /// A request no longer waits.
    RequestClosed {
        /// The request.
        request: RequestId,
        /// How the request ended.
        outcome: Outcome,
    },
    /// A rule or the mode answered a request before anyone was asked.
    RequestDecided {
        /// The request, with the judgement.
        request: Box<Request>,
        /// The answer and what gave it.
        outcome: Outcome,
    },

    // --- commands -----------------------------------------------------------------------------
    /// Portolan accepted a command. The entry's `by` names its sender.
    CommandAccepted {
        /// The command's sender and id.
        key: CommandKey,
        /// The action.
        action: Box<Action>,
    },
    /// The progress of a command.
    Receipt {
        /// The entry of the command.
        command: Seq,
        /// The progress.
        #[serde(flatten)]
        stage: Stage,
    },

    // --- settings -----------------------------------------------------------------------------
    /// A setting has a new value.
    SettingChanged {
        /// The setting and its value.
        setting: Setting,
    },
    /// A rule holds in this session from now on.
    RuleAdded {
        /// The rule's `TOOL` or `TOOL(PATTERN)`.
        tool_name: String,
        /// The rule; absent in older entries, which allow every call of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<Box<Rule>>,
    },
    /// A rule of this session was removed.
    RuleRemoved {
        /// The rule's `TOOL` or `TOOL(PATTERN)`.
        tool_name: String,
        /// The rule's id; absent for every rule with that text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<RuleId>,
    },
    /// Requests are denied at another time than before, or never.
    DeadlineChanged {
        /// The open request; absent for every later request of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// When the open request is denied; absent for never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Millis>,
        /// How long each later request waits; absent for without end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u32>,
    },
    /// The session's own budget has other limits, or counts from zero again.
    BudgetChanged {
        /// The limits; absent if the session has no budget of its own any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<BudgetTerms>,
        /// Everything used so far no longer counts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[cfg_attr(feature = "schema", ts(as = "Option<bool>"))]
        reset: bool,
    },
    /// A budget of this session is nearly spent, is spent, or has room again. While a budget is spent, prompts wait. An
    /// entry with `level` `over` during a turn says why Portolan interrupts that turn.
    BudgetReached {
        /// The budget, and how far it is spent.
        standing: Box<Standing>,
    },
    /// The state of the MCP servers. Secrets are masked.
    McpServers {
        /// All servers.
        servers: Vec<McpServer>,
    },

    // --- everything else ------------------------------------------------------------------------
    /// A request to the model failed and is tried again.
    Retry {
        /// The number of the failed attempt.
        attempt: u32,
        /// The largest number of attempts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
        /// The wait before the next attempt, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
        delay_ms: Option<u64>,
        /// The error.
        error: ErrorInfo,
    },
    /// An error that did not end the turn.
    Failure {
        /// The error.
        error: ErrorInfo,
        /// The session can continue.
        recoverable: bool,
    },
    /// A message from Portolan or the agent for people.
    Notice {
        /// How important the notice is.
        level: Level,
        /// The text.
        text: String,
    },
    /// The agent is being logged in, or its login failed.
    AuthStatus {
        /// The login is in progress.
        authenticating: bool,
        /// The login's output.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "schema", ts(as = "Option<Vec<String>>"))]
        output: Vec<String>,
        /// The error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A hook of the agent ran.
    Hook {
        /// The id of this run of the hook.
        hook: String,
        /// The hook's name.
        name: String,
        /// The event that triggers the hook.
        event: String,
        /// The hook's progress.
        status: HookStatus,
        /// The hook's output, exit code and the like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Files were saved elsewhere.
    FilesPersisted {
        /// The saved files.
        files: Vec<Value>,
        /// The files that could not be saved.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Value>>"))]
        failed: Vec<Value>,
    },
    /// A message that Portolan does not know yet. Its raw text is kept.
    Unknown {
        /// The sender.
        source: String,
        /// The sender's own name for the message's kind.
        kind: String,
    },
}
