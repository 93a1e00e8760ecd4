// The native protocol of Portolan, version 1. Generated; docs/protocol.md explains it.
// Readers ignore fields, frame types and enum values they do not know.

/** An entry of a session. */
export type EntryFrame = Extract<LogFrame, { type: "entry" }>;

/** An entry of the daemon. */
export type DaemonFrame = Extract<LogFrame, { type: "daemon" }>;

/** The state of a session. */
export type SnapshotFrame = Extract<LogFrame, { type: "snapshot" }>;

/** The state of the daemon. */
export type DaemonSnapshotFrame = Extract<LogFrame, { type: "daemon_snapshot" }>;

/** The kinds of events that stream: a durable entry replaces them, and no history holds them. */
export const STREAMED: ReadonlySet<Event["type"]> = new Set(["item_started", "tool_named", "delta", "tool_progress", "activity"] as const);

/**
 * The account that an agent uses.
 */
export type Account = {
/**
 * The account's e-mail address.
 */
email?: string,
/**
 * The account's organisation.
 */
organization?: string,
/**
 * The account's plan.
 */
subscription?: string,
/**
 * Where the token comes from.
 */
token_source?: string, };

/**
 * An agent's account, as frontends show it.
 */
export type AccountDescription = {
/**
 * The agent's kind.
 */
agent: string,
/**
 * The page of a login in progress.
 */
under_way?: LoginPage,
/**
 * Why the last login through Portolan failed.
 */
failed?: string,
/**
 * Whether the agent is logged in; absent if the agent needs no login or does not report it.
 */
login?: Login,
/**
 * The account's holder, if the agent reports it.
 */
account?: Account,
/**
 * How much of its limits the account has used, if the agent reports it.
 */
limits?: Array<UsageLimit>, };

/**
 * A command to a session.
 */
export type Action = { "name": "prompt",
/**
 * The prompt.
 */
content: Array<Content>, } | { "name": "answer",
/**
 * The request.
 */
request: RequestId,
/**
 * The digest of the request that the person saw, to be sure that the request has not changed since.
 */
digest?: string,
/**
 * The answer.
 */
answer: Answer,
/**
 * A rule to make together with the answer, for later calls.
 */
persist?: Persist, } | { "name": "interrupt" } | { "name": "stop" } | { "name": "resume" } | { "name": "rename",
/**
 * The new name.
 */
to: string, } | { "name": "archive",
/**
 * `true` archives, `false` restores.
 */
archived: boolean, } | { "name": "set_model",
/**
 * The new model; the agent's default when absent.
 */
model: string | null, } | { "name": "set_mode",
/**
 * The new mode.
 */
mode: string, } | { "name": "set_thinking",
/**
 * The new budget in tokens; the agent's default when absent.
 */
tokens: number | null, } | { "name": "set_environment",
/**
 * The variables by name.
 */
variables: { [key in string]: string }, } | { "name": "rewind",
/**
 * The prompt's entry.
 */
to: Seq,
/**
 * Only report what would change.
 */
dry_run: boolean, } | { "name": "mcp_status" } | { "name": "mcp_reconnect",
/**
 * The server's name.
 */
server: string, } | { "name": "mcp_toggle",
/**
 * The server's name.
 */
server: string,
/**
 * `true` switches the server on, `false` switches it off.
 */
enabled: boolean, } | { "name": "mcp_set",
/**
 * The servers by name, in the agent's own form.
 */
servers: { [key in string]: JsonValue },
/**
 * Keep earlier servers, except those named here. Otherwise these servers replace all earlier ones.
 */
keep?: boolean, } | { "name": "mcp_message",
/**
 * The server's name.
 */
server: string,
/**
 * The message.
 */
message: JsonValue, } | { "name": "context" } | { "name": "stop_task",
/**
 * The task's id.
 */
task: string, } | { "name": "withdraw",
/**
 * The prompt's entry.
 */
prompt: Seq, } | { "name": "steer",
/**
 * The prompt's entry.
 */
prompt: Seq, } | { "name": "send_again",
/**
 * The command's entry.
 */
command: Seq, } | { "name": "add_rule",
/**
 * The rule. Its scope is this session, whatever the draft says.
 */
rule: RuleDraft, } | { "name": "remove_rule",
/**
 * The rule's `TOOL` or `TOOL(PATTERN)`.
 */
tool_name: string,
/**
 * The rule's id; absent for every rule with that text.
 */
rule?: RuleId, } | { "name": "set_deadline",
/**
 * The open request; absent for every later request of the session.
 */
request?: RequestId,
/**
 * The seconds from now, or from the opening of each later request; absent for no deadline.
 */
seconds?: number, } | { "name": "set_budget",
/**
 * The limits; absent removes the budget.
 */
budget?: BudgetTerms, } | { "name": "reset_budget" } | { "name": "native",
/**
 * The message.
 */
body: JsonValue, };

/**
 * Who caused an entry. Entries without an actor come from the agent.
 */
export type Actor = { "kind": "person",
/**
 * The token's public name.
 */
token: TokenId,
/**
 * The name that people see.
 */
name: string,
/**
 * The frontend used.
 */
via: string, } | { "kind": "policy",
/**
 * The rule, in words.
 */
rule: string,
/**
 * What stands in `rule`. Absent in entries of older versions; then the words in `rule` show it: `mode ...`,
 * `budget ...` and `at most ...` are no rules.
 */
source?: PolicySource, } | { "kind": "deadline" } | { "kind": "agent" } | { "kind": "daemon" } | { "kind": "imported" };

/**
 * An agent as frontends list it.
 */
export type AgentDescription = {
/**
 * The agent's kind, such as `demo`.
 */
kind: string,
/**
 * The agent's name for people.
 */
title: string,
/**
 * What the agent supports.
 */
capabilities: Capabilities,
/**
 * The result of the last check; absent before the first check.
 */
probe?: Probe, };

/**
 * What the agent reported about itself.
 */
export type AgentInfo = {
/**
 * The agent's own session id, with which the agent resumes.
 */
agent_session?: string,
/**
 * The agent's version.
 */
version?: string,
/**
 * The agent's working folder.
 */
cwd?: string,
/**
 * The model in use.
 */
model?: string,
/**
 * The current permission mode.
 */
mode?: string,
/**
 * The mode that the agent reports about itself, if nobody has set it: the session stays in its own mode, and policy
 * goes by that one.
 */
own_mode?: string,
/**
 * The agent's tools.
 */
tools?: Array<string>,
/**
 * The agent's MCP servers.
 */
mcp_servers?: Array<McpServer>,
/**
 * The agent's slash commands.
 */
commands?: Array<CommandInfo>,
/**
 * The agent's models.
 */
models?: Array<ModelInfo>,
/**
 * The agent's permission modes.
 */
modes?: Array<string>,
/**
 * The account that the agent uses.
 */
account?: Account,
/**
 * The agent's kinds of subagents.
 */
subagents?: Array<string>,
/**
 * The agent's skills.
 */
skills?: Array<string>,
/**
 * The agent's plugins.
 */
plugins?: Array<JsonValue>,
/**
 * The agent's output style.
 */
output_style?: string,
/**
 * The agent's output styles to choose from.
 */
output_styles?: Array<string>,
/**
 * Where the agent's API key comes from.
 */
api_key_source?: string,
/**
 * Fast mode, in the agent's own words.
 */
fast_mode?: string,
/**
 * What the agent supports, if the agent reports this only when it runs. It replaces what was known.
 */
capabilities?: Capabilities,
/**
 * Other features that the agent names.
 */
features?: Array<string>, };

/**
 * The agent's process runs and can be reached.
 */
export type AgentStart = {
/**
 * The number of this start.
 */
generation: Generation,
/**
 * The process id, if the agent has a process of its own.
 */
pid?: number,
/**
 * The agent's version, if known.
 */
version?: string,
/**
 * The process that holds the agent, if the agent outlives the daemon.
 */
holder?: HolderInfo,
/**
 * The protocol between Portolan and the agent.
 */
protocol: NativeProtocol,
/**
 * What the agent supports.
 */
capabilities: Capabilities, };

/**
 * How many agents run on this machine.
 */
export type AgentsRunning = {
/**
 * The number of agents that run now.
 */
running: number,
/**
 * The largest number of agents that may run at once; unlimited when absent.
 */
limit?: number, };

/**
 * An answer to a request.
 */
export type Answer = { "kind": "allow",
/**
 * The edited input; the original input when absent.
 */
input?: JsonValue,
/**
 * How long the approval holds.
 */
scope: Scope,
/**
 * The agent's mode after a plan.
 */
mode?: string,
/**
 * The id of one of the agent's own options.
 */
option?: string, } | { "kind": "deny",
/**
 * The reason, which the agent gets.
 */
message?: string,
/**
 * Also interrupt the turn.
 */
interrupt: boolean,
/**
 * The id of one of the agent's own options.
 */
option?: string, } | { "kind": "choices",
/**
 * The chosen labels or free text, by the question's text. A missing question was not answered.
 */
answers: { [key in string]: Array<string> }, } | { "kind": "content",
/**
 * The requested data.
 */
content: JsonValue, } | { "kind": "output",
/**
 * The whole output.
 */
output: JsonValue, };

/**
 * The body of a REST request that archives a past conversation or restores it.
 */
export type ArchivePast = {
/**
 * The agent's own id of the conversation, or a unique beginning or end.
 */
past: string,
/**
 * The agent that keeps the conversation; any agent when empty.
 */
agent?: string,
/**
 * `true` archives the conversation, `false` restores it.
 */
archived: boolean, };

/**
 * What an agent asks.
 */
export type Ask = { "kind": "permission",
/**
 * The tool's name.
 */
tool_name: string,
/**
 * The tool's input.
 */
input: JsonValue,
/**
 * One line for people.
 */
description?: string,
/**
 * The changes that the tool would make to files, if known.
 */
changes?: Array<FileChange>,
/**
 * Why the agent asks.
 */
reason?: string,
/**
 * The path because of which the agent asks.
 */
blocked_path?: string,
/**
 * The folder in which the agent makes the call, if the agent says that it is another one than the session's. The
 * input may name one too.
 */
folder?: string,
/**
 * Permission updates that the agent proposes, in its own form. Some allow more than this one tool.
 */
suggestions?: Array<JsonValue>,
/**
 * The agent's own options beyond allow and deny.
 */
options?: Array<AskOption>, } | { "kind": "question",
/**
 * The questions, at least one.
 */
questions: Array<Question>, } | { "kind": "plan",
/**
 * The plan, in Markdown; absent if the agent does not send it.
 */
plan?: string,
/**
 * The input of the tool call that asked, to be repeated in the answer.
 */
input: JsonValue, } | { "kind": "elicitation",
/**
 * The server's name.
 */
server: string,
/**
 * The server's message.
 */
message: string,
/**
 * JSON Schema of the answer; absent for a plain confirmation.
 */
schema?: JsonValue,
/**
 * A page to open instead.
 */
url?: string, } | { "kind": "hook",
/**
 * The agent's name for the hook's event.
 */
event: string,
/**
 * The hook's input.
 */
input: JsonValue, } | { "kind": "other",
/**
 * The agent's name for the request.
 */
name: string,
/**
 * The whole request.
 */
body: JsonValue, };

/**
 * An agent's own option.
 */
export type AskOption = {
/**
 * The option's id, which is sent to the agent.
 */
id: string,
/**
 * The option's text for people.
 */
label: string,
/**
 * Whether the option allows or denies.
 */
verdict: Verdict,
/**
 * The mode to which the option leads, if the agent's side knows it.
 */
mode?: string, };

/**
 * How much an agent asks in one of its modes.
 */
export type Asks = "everything" | "some" | "nothing" | "unknown";

/**
 * One record with its whole entry.
 */
export type AuditDetails = {
/**
 * The record.
 */
record: AuditRecord,
/**
 * The entry as it is stored.
 */
entry: JsonValue,
/**
 * The entry's place in the chain of seals; absent for an entry of a session's log, which is not sealed.
 */
link?: ChainLink, };

/**
 * Which log an entry is in.
 */
export type AuditLog = "daemon" | "session";

/**
 * The order of records.
 */
export type AuditOrder = "newest" | "oldest";

/**
 * Which records, and from where on.
 */
export type AuditQuery = {
/**
 * Only records of this time or later.
 */
since?: Millis,
/**
 * Only records of this actor: a part of the name in upper or lower case, a token's id or its beginning (4 characters
 * or more), a frontend, an address, or one of `agent`, `portolan`, `deadline` and `rule`.
 */
who?: string,
/**
 * Only records about this session.
 */
session?: SessionId,
/**
 * Only records that name this rule.
 */
rule?: RuleId,
/**
 * The order of the records.
 */
order?: AuditOrder,
/**
 * The `next` of the page before. Absent for the first page.
 */
from?: Position,
/**
 * The largest number of records; 100 when absent, 500 at most.
 */
limit?: number, };

/**
 * One thing that somebody did.
 */
export type AuditRecord = {
/**
 * The entry's position in the order of all entries: the record's id.
 */
position: Position,
/**
 * The log of the entry.
 */
log: AuditLog,
/**
 * The session that the record is about.
 */
session?: SessionId,
/**
 * The entry's number in its log.
 */
seq: Seq,
/**
 * When it happened.
 */
at: Millis,
/**
 * Who did it.
 */
by: Actor,
/**
 * What was done: the kind of the event, or the name of the command.
 */
what: string,
/**
 * More about it, in a line.
 */
text: string,
/**
 * The rules that decided, or the rule that was changed.
 */
rules?: Array<RuleId>,
/**
 * The request that the record is about.
 */
request?: RequestId,
/**
 * The event of the entry.
 */
event: JsonValue,
/**
 * Long texts and lists in `event` are cut off.
 */
shortened?: boolean, };

/**
 * A browser that is logged in.
 */
export type BrowserInfo = {
/**
 * The browser's public name. The name gives no access.
 */
browser: string,
/**
 * The token that the browser's login depends on.
 */
token: TokenId,
/**
 * The token's name for people.
 */
name: string,
/**
 * The token's role.
 */
role: Role,
/**
 * When the browser logged in.
 */
logged_in_at: Millis,
/**
 * When the browser was last seen.
 */
seen_at: Millis,
/**
 * The address from which the browser logged in.
 */
address?: string,
/**
 * The browser's `User-Agent` header, shortened.
 */
user_agent?: string, };

/**
 * A budget.
 */
export type Budget = {
/**
 * The budget's id.
 */
budget: BudgetId,
/**
 * Whose use the budget counts.
 */
scope: BudgetScope,
/**
 * The limits.
 */
limits: BudgetLimits,
/**
 * When the budget begins again by itself; absent for never.
 */
per?: Period,
/**
 * When the budget was made or last reset.
 */
since: Millis,
/**
 * What was used before `since` on the same day, and does not count.
 */
before: Spending,
/**
 * When the limits were last set.
 */
made_at: Millis,
/**
 * Who set the limits.
 */
made_by: Actor, };

/**
 * A budget with what is spent of it now.
 */
export type BudgetDescription = {
/**
 * What is spent of it.
 */
spent: Spending,
/**
 * How far the budget is spent.
 */
level: BudgetLevel,
/**
 * Why a limit may not hold, such as an agent that does not report its cost.
 */
note?: string,
/**
 * The budget's id.
 */
budget: BudgetId,
/**
 * Whose use the budget counts.
 */
scope: BudgetScope,
/**
 * The limits.
 */
limits: BudgetLimits,
/**
 * When the budget begins again by itself; absent for never.
 */
per?: Period,
/**
 * When the budget was made or last reset.
 */
since: Millis,
/**
 * What was used before `since` on the same day, and does not count.
 */
before: Spending,
/**
 * When the limits were last set.
 */
made_at: Millis,
/**
 * Who set the limits.
 */
made_by: Actor, };

/**
 * What someone asks a budget to be. A budget with the same scope and period gets these limits and keeps its spending.
 */
export type BudgetDraft = {
/**
 * Whose use the budget counts.
 */
scope?: BudgetScope,
/**
 * The limits.
 */
limits: BudgetLimits,
/**
 * When the budget begins again by itself; absent for never.
 */
per?: Period, };

/**
 * The id of a budget: eight characters that people can type; `session:ID` for the budget of a session.
 */
export type BudgetId = string;

/**
 * How far a budget is spent. A later level is worse.
 */
export type BudgetLevel = "fine" | "warn" | "over";

/**
 * The limits of a budget. At least one is set.
 */
export type BudgetLimits = {
/**
 * The most US dollars.
 */
cost_usd?: Usd,
/**
 * The most tokens.
 */
tokens?: number,
/**
 * The most turns.
 */
turns?: number, };

/**
 * Whose use a budget counts.
 */
export type BudgetScope = { "kind": "user" } | { "kind": "project",
/**
 * An absolute path on the daemon's machine.
 */
folder: string, } | { "kind": "agent",
/**
 * The agent's kind.
 */
agent: string, } | { "kind": "session",
/**
 * The session.
 */
session: SessionId, };

/**
 * The limits of a session's own budget.
 */
export type BudgetTerms = {
/**
 * The limits.
 */
limits: BudgetLimits,
/**
 * When the budget begins again by itself; absent for never.
 */
per?: Period, };

/**
 * A client's call.
 */
export type Call = { "type": "list",
/**
 * `true`: only archived sessions. `false`: only the others. Absent: both.
 */
archived?: boolean,
/**
 * Only sessions older than this one, for the next page.
 */
before?: SessionId,
/**
 * The largest number of sessions; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "resolve",
/**
 * At least 4 characters.
 */
prefix: string, } | { "type": "create",
/**
 * The new session's settings.
 */
spec: SessionSpec, } | { "type": "past",
/**
 * Only conversations of this agent.
 */
agent?: string,
/**
 * Only conversations held in this folder or below it.
 */
cwd?: string,
/**
 * `true`: only conversations that the agent has archived. `false`: only the others.
 */
archived?: boolean,
/**
 * The largest number of conversations; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "take_up",
/**
 * The agent's own id of the conversation, or a unique beginning or end of 4 characters or more.
 */
past: string,
/**
 * Keep the original conversation unchanged: the agent continues in a copy.
 */
copy?: boolean,
/**
 * The session's other settings. An empty `agent` means any agent that has the conversation; without `cwd`, the
 * session uses the folder in which the conversation was held.
 */
spec: SessionSpec, } | { "type": "archive_past" } & ArchivePast | { "type": "delete",
/**
 * The session to delete.
 */
session: SessionId, } | { "type": "attach",
/**
 * The session to join.
 */
session: SessionId,
/**
 * Where reading begins.
 */
start: Start,
/**
 * Only finished items, no deltas.
 */
items_only?: boolean, } | { "type": "detach",
/**
 * The session to leave.
 */
session: SessionId, } | { "type": "subscribe",
/**
 * Where reading begins.
 */
start: Start, } | { "type": "unsubscribe" } | { "type": "command",
/**
 * The session.
 */
session: SessionId,
/**
 * The command.
 */
command: Action, } | { "type": "state",
/**
 * The session.
 */
session: SessionId, } | { "type": "history",
/**
 * The session.
 */
session: SessionId,
/**
 * Only entries after this number.
 */
after: Seq,
/**
 * Only entries up to this number; up to the newest when absent.
 */
upto?: Seq,
/**
 * The largest number of entries; 1,000 at most.
 */
limit?: number, } | { "type": "files",
/**
 * The session.
 */
session: SessionId,
/**
 * A part of the path, in upper or lower case, of at most 256 characters. Empty: every path.
 */
query?: string,
/**
 * The largest number of paths; 20 when absent, 100 at most.
 */
limit?: number, } | { "type": "raw",
/**
 * The session.
 */
session: SessionId,
/**
 * The entry's number.
 */
seq: Seq, } | { "type": "environment",
/**
 * The session.
 */
session: SessionId, } | { "type": "agents",
/**
 * Check each agent again.
 */
probe: boolean, } | { "type": "account",
/**
 * The agent's kind.
 */
agent: string, } | { "type": "log_in",
/**
 * The agent's kind.
 */
agent: string,
/**
 * The way to log in.
 */
with: LogIn, } | { "type": "log_out",
/**
 * The agent's kind.
 */
agent: string, } | { "type": "rule_list",
/**
 * Also the rules of this session.
 */
session?: SessionId, } | { "type": "rule_add",
/**
 * The rule.
 */
rule: RuleDraft, } | { "type": "rule_edit",
/**
 * The rule's id.
 */
rule: RuleId,
/**
 * What the rule becomes.
 */
draft: RuleDraft, } | { "type": "rule_remove",
/**
 * The rule's id.
 */
rule: RuleId, } | { "type": "rule_test" } & TestRule | { "type": "rule_simulate" } & SimulateRule | { "type": "audit_list" } & AuditQuery | { "type": "audit_show",
/**
 * The record's position.
 */
position: Position, } | { "type": "budget_list",
/**
 * Only the budgets that count this session, with its own.
 */
session?: SessionId, } | { "type": "budget_set",
/**
 * The budget.
 */
budget: BudgetDraft, } | { "type": "budget_reset",
/**
 * The budget's id.
 */
budget: BudgetId, } | { "type": "budget_remove",
/**
 * The budget's id.
 */
budget: BudgetId, } | { "type": "token_create" } & CreateToken | { "type": "token_list" } | { "type": "token_revoke",
/**
 * The token's public name.
 */
token: TokenId, } | { "type": "ticket_create" } | { "type": "pair" } & CreateToken | { "type": "browser_list" } | { "type": "browser_log_out",
/**
 * The browser's public name.
 */
browser: string, } | { "type": "ping" };

/**
 * What an agent supports. Portolan knows this before a session exists, and refines it when the agent runs.
 */
export type Capabilities = {
/**
 * Text arrives while the agent writes it.
 */
streaming: boolean,
/**
 * A running turn can be interrupted.
 */
interrupt: boolean,
/**
 * A prompt that waits in Portolan's queue can be moved into the running turn. Where `prompt_queue` is `agent`, no
 * prompt waits in Portolan: the agent already has it.
 */
steering: boolean,
/**
 * A session can resume after its agent's process ended.
 */
session_resume: boolean,
/**
 * A resume loses nothing, however often it happens: the process may be ended while it has nothing to do.
 */
reliable_resume?: boolean,
/**
 * The model can change in a running session.
 */
model_switching: boolean,
/**
 * The agent has permission modes.
 */
permission_modes: boolean,
/**
 * The mode can change in a running session.
 */
permission_mode_switching_mid_session: boolean,
/**
 * Commands such as `/compact` work.
 */
slash_commands: boolean,
/**
 * MCP servers can be used, and their state can be read.
 */
mcp: boolean,
/**
 * MCP servers can be added, reconnected and switched on or off in a running session.
 */
mcp_changes: boolean,
/**
 * A permission can be given for an edited input.
 */
edited_input: boolean,
/**
 * The result can be required to match a JSON Schema.
 */
structured_output: boolean,
/**
 * Prompts may hold images.
 */
image_input: boolean,
/**
 * Files can be restored to an earlier state.
 */
file_checkpointing: boolean,
/**
 * The agent reports its cost, or Portolan can compute the cost.
 */
cost_tracking: boolean,
/**
 * Several agents work together as a team.
 */
agent_teams: boolean,
/**
 * A session can be forked.
 */
session_fork: boolean,
/**
 * A fork may begin at an earlier entry.
 */
session_fork_at: boolean,
/**
 * A session can be archived.
 */
session_archive: boolean,
/**
 * The thinking budget can be set.
 */
thinking_budget: boolean,
/**
 * Environment variables can change in a running session.
 */
environment: boolean,
/**
 * The contents of the context window can be read.
 */
context_usage: boolean,
/**
 * Background tasks can be stopped.
 */
background_tasks: boolean,
/**
 * Messages of the agent's own protocol can be sent to it.
 */
passthrough: boolean,
/**
 * Who keeps a prompt that arrives while a turn runs.
 */
prompt_queue: PromptQueue,
/**
 * The protocol between Portolan and the agent.
 */
native_protocol: NativeProtocol,
/**
 * The options that a new session of this agent supports.
 */
options: Array<SpecOption>,
/**
 * The ways to log this agent in and out through Portolan; empty if there are none.
 */
logins?: Array<LoginWay>,
/**
 * The agent can archive a past conversation in its own list.
 */
past_archive?: boolean,
/**
 * The models, if known.
 */
supported_models?: Array<ModelInfo>,
/**
 * The permission modes, if known.
 */
supported_permission_modes?: Array<string>,
/**
 * How much the agent asks in each of its modes. A mode that is missing here is `unknown`. The first mode that asks
 * everything is the agent's mode if nobody chooses another.
 */
mode_asks?: { [key in string]: Asks },
/**
 * The meaning of each of the agent's modes that Portolan knows. Any other mode means `default`: Portolan asks a
 * person about everything that the agent asks.
 */
mode_means?: { [key in string]: Mode },
/**
 * The mode that the agent itself works in, for each of its modes where that is another one and not its asking mode.
 */
mode_works?: { [key in string]: string },
/**
 * Whether the agent asks about everything that a rule can forbid.
 */
rules: RulesBind,
/**
 * The slash commands, if known.
 */
supported_commands?: Array<CommandInfo>, };

/**
 * The place of an entry in the chain of seals.
 */
export type ChainLink = {
/**
 * The entry's seal, in hexadecimal; absent if the seal is missing.
 */
seal?: string,
/**
 * The seal of the entry before it, in hexadecimal: zeros before the first entry.
 */
before: string,
/**
 * The seal is the hash of the seal before it, the entry's number and the entry. This says nothing about other
 * entries.
 */
matches: boolean, };

/**
 * The kind of change to a file.
 */
export type ChangeKind = "create" | "modify" | "delete" | "rename";

/**
 * One choice of a question.
 */
export type Choice = {
/**
 * The choice's text.
 */
label: string,
/**
 * The choice's meaning.
 */
description?: string, };

/**
 * Every later frame from the client: a call, under an id that the reply repeats.
 */
export type ClientFrame = {
/**
 * The call's id, made by the client. `command`, `create` and `take_up` run at most once under the same id.
 */
id: CommandId, } & ({ "type": "list",
/**
 * `true`: only archived sessions. `false`: only the others. Absent: both.
 */
archived?: boolean,
/**
 * Only sessions older than this one, for the next page.
 */
before?: SessionId,
/**
 * The largest number of sessions; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "resolve",
/**
 * At least 4 characters.
 */
prefix: string, } | { "type": "create",
/**
 * The new session's settings.
 */
spec: SessionSpec, } | { "type": "past",
/**
 * Only conversations of this agent.
 */
agent?: string,
/**
 * Only conversations held in this folder or below it.
 */
cwd?: string,
/**
 * `true`: only conversations that the agent has archived. `false`: only the others.
 */
archived?: boolean,
/**
 * The largest number of conversations; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "take_up",
/**
 * The agent's own id of the conversation, or a unique beginning or end of 4 characters or more.
 */
past: string,
/**
 * Keep the original conversation unchanged: the agent continues in a copy.
 */
copy?: boolean,
/**
 * The session's other settings. An empty `agent` means any agent that has the conversation; without `cwd`, the
 * session uses the folder in which the conversation was held.
 */
spec: SessionSpec, } | { "type": "archive_past" } & ArchivePast | { "type": "delete",
/**
 * The session to delete.
 */
session: SessionId, } | { "type": "attach",
/**
 * The session to join.
 */
session: SessionId,
/**
 * Where reading begins.
 */
start: Start,
/**
 * Only finished items, no deltas.
 */
items_only?: boolean, } | { "type": "detach",
/**
 * The session to leave.
 */
session: SessionId, } | { "type": "subscribe",
/**
 * Where reading begins.
 */
start: Start, } | { "type": "unsubscribe" } | { "type": "command",
/**
 * The session.
 */
session: SessionId,
/**
 * The command.
 */
command: Action, } | { "type": "state",
/**
 * The session.
 */
session: SessionId, } | { "type": "history",
/**
 * The session.
 */
session: SessionId,
/**
 * Only entries after this number.
 */
after: Seq,
/**
 * Only entries up to this number; up to the newest when absent.
 */
upto?: Seq,
/**
 * The largest number of entries; 1,000 at most.
 */
limit?: number, } | { "type": "files",
/**
 * The session.
 */
session: SessionId,
/**
 * A part of the path, in upper or lower case, of at most 256 characters. Empty: every path.
 */
query?: string,
/**
 * The largest number of paths; 20 when absent, 100 at most.
 */
limit?: number, } | { "type": "raw",
/**
 * The session.
 */
session: SessionId,
/**
 * The entry's number.
 */
seq: Seq, } | { "type": "environment",
/**
 * The session.
 */
session: SessionId, } | { "type": "agents",
/**
 * Check each agent again.
 */
probe: boolean, } | { "type": "account",
/**
 * The agent's kind.
 */
agent: string, } | { "type": "log_in",
/**
 * The agent's kind.
 */
agent: string,
/**
 * The way to log in.
 */
with: LogIn, } | { "type": "log_out",
/**
 * The agent's kind.
 */
agent: string, } | { "type": "rule_list",
/**
 * Also the rules of this session.
 */
session?: SessionId, } | { "type": "rule_add",
/**
 * The rule.
 */
rule: RuleDraft, } | { "type": "rule_edit",
/**
 * The rule's id.
 */
rule: RuleId,
/**
 * What the rule becomes.
 */
draft: RuleDraft, } | { "type": "rule_remove",
/**
 * The rule's id.
 */
rule: RuleId, } | { "type": "rule_test" } & TestRule | { "type": "rule_simulate" } & SimulateRule | { "type": "audit_list" } & AuditQuery | { "type": "audit_show",
/**
 * The record's position.
 */
position: Position, } | { "type": "budget_list",
/**
 * Only the budgets that count this session, with its own.
 */
session?: SessionId, } | { "type": "budget_set",
/**
 * The budget.
 */
budget: BudgetDraft, } | { "type": "budget_reset",
/**
 * The budget's id.
 */
budget: BudgetId, } | { "type": "budget_remove",
/**
 * The budget's id.
 */
budget: BudgetId, } | { "type": "token_create" } & CreateToken | { "type": "token_list" } | { "type": "token_revoke",
/**
 * The token's public name.
 */
token: TokenId, } | { "type": "ticket_create" } | { "type": "pair" } & CreateToken | { "type": "browser_list" } | { "type": "browser_log_out",
/**
 * The browser's public name.
 */
browser: string, } | { "type": "ping" });

/**
 * The client's name and version.
 */
export type ClientInfo = {
/**
 * The client's name, such as `portolan-cli`. Other people see this name as the frontend used.
 */
name: string,
/**
 * The client's version.
 */
version: string, };

/**
 * Why nothing more will come.
 */
export type Closed = "deleted" | "stopping" | "failed";

/**
 * A closed request.
 */
export type ClosedRequest = {
/**
 * The request's id.
 */
request: RequestId,
/**
 * The tool, if the request was a permission.
 */
tool_name?: string,
/**
 * How the request ended.
 */
outcome: Outcome, };

/**
 * Why the server closes a connection.
 */
export type ClosingReason = "stopping" | "too_slow" | "token_gone" | "protocol";

/**
 * A command's id, made by its sender. The id belongs to one token and one session: the same id never runs twice.
 */
export type CommandId = string;

/**
 * A slash command that the agent offers.
 */
export type CommandInfo = {
/**
 * The command's name, without the slash.
 */
name: string,
/**
 * One line about the command.
 */
description: string,
/**
 * The command's arguments, as a hint.
 */
argument_hint?: string, };

/**
 * A command's sender and id. The same key runs at most once.
 */
export type CommandKey = {
/**
 * The sender's token.
 */
token: TokenId,
/**
 * The command's id, made by the sender.
 */
id: CommandId, };

/**
 * A piece of content.
 */
export type Content = { "type": "text",
/**
 * The text.
 */
text: string, } | { "type": "thinking",
/**
 * The text.
 */
text: string, } | { "type": "redacted_thinking" } | { "type": "image",
/**
 * The image's type, such as `image/png`.
 */
media_type: string,
/**
 * The image in Base64.
 */
data: string, } | { "type": "resource",
/**
 * The resource's URI.
 */
uri: string,
/**
 * The resource's name.
 */
name?: string,
/**
 * The resource's text, if the agent sent it.
 */
text?: string, } | { "type": "data",
/**
 * The data.
 */
data: JsonValue, } | { "type": "other",
/**
 * The content as it came.
 */
body: JsonValue, };

/**
 * The body of a REST request for a new session.
 */
export type CreateSession = {
/**
 * The same id sent twice creates one session; `Idempotency-Key` does the same.
 */
id?: CommandId,
/**
 * The new session's settings. The session needs a folder, or takes the folder of the session that it forks.
 */
spec: SessionSpec, };

/**
 * The body of a REST request for a new token.
 */
export type CreateToken = {
/**
 * The token's name for people.
 */
name: string,
/**
 * The token's role.
 */
role: Role,
/**
 * The sessions that the token is bound to; all sessions when absent.
 */
sessions?: Array<SessionId>,
/**
 * The token's lifetime in seconds; unlimited when absent.
 */
expires_in_seconds?: number, };

/**
 * What happened in the daemon. Session lists, the inbox and the audit come from this log.
 */
export type DaemonEvent = { "type": "started",
/**
 * The daemon's version.
 */
version: string, } | { "type": "stopping" } | { "type": "session_created",
/**
 * The session's line in lists.
 */
summary: Summary, } | { "type": "session_changed",
/**
 * The session's new line in lists.
 */
summary: Summary, } | { "type": "session_deleted",
/**
 * The session.
 */
session: SessionId, } | { "type": "request_opened",
/**
 * The session.
 */
session: SessionId,
/**
 * The request.
 */
request: Request, } | { "type": "request_deadline",
/**
 * The session.
 */
session: SessionId,
/**
 * The request.
 */
request: RequestId,
/**
 * When the request is denied; absent for never.
 */
deadline?: Millis, } | { "type": "request_closed",
/**
 * The session.
 */
session: SessionId,
/**
 * The request.
 */
request: RequestId,
/**
 * How the request ended.
 */
outcome: Outcome, } | { "type": "token_created",
/**
 * The token's public name.
 */
token: TokenId,
/**
 * The token's name for people.
 */
name: string,
/**
 * The token's role.
 */
role: Role, } | { "type": "token_revoked",
/**
 * The token's public name.
 */
token: TokenId, } | { "type": "token_rotated",
/**
 * The token's public name.
 */
token: TokenId, } | { "type": "door_opened",
/**
 * The frontend, if this is not the main listener: `insights`, `handheld`.
 */
frontend?: string,
/**
 * Some clients get in without a token.
 */
tokenless?: boolean,
/**
 * The addresses that it listens on.
 */
addresses: Array<string>,
/**
 * The listener uses TLS.
 */
tls: boolean,
/**
 * Host names that the listener accepts, in addition to its addresses.
 */
hosts: Array<string>,
/**
 * Origins whose pages may use the listener, in addition to its own.
 */
origins: Array<string>,
/**
 * The listener trusts what a proxy reports about its clients.
 */
behind_proxy: boolean, } | { "type": "logged_in",
/**
 * The browser's address, as the listener saw it.
 */
address?: string,
/**
 * The browser's public name, as in the list of browsers; absent in older entries.
 */
browser?: string, } | { "type": "logged_out",
/**
 * The browser's public name, as in the list of browsers; absent in older entries.
 */
browser?: string, } | { "type": "access_refused",
/**
 * Where the client is, as the listener saw it: an address, or a process at the Unix socket.
 */
from: string,
/**
 * The number of refusals since the last such entry.
 */
attempts: number,
/**
 * The reason.
 */
reason: string, } | { "type": "auto_approval",
/**
 * The frontend.
 */
frontend: string,
/**
 * `true` if the frontend approves from now on.
 */
on: boolean,
/**
 * The tools that the frontend approves.
 */
tools: Array<string>, } | { "type": "rule_saved",
/**
 * The rule as it is now.
 */
rule: Rule, } | { "type": "rule_removed",
/**
 * The rule as it was.
 */
rule: Rule, } | { "type": "budget_saved",
/**
 * The budget as it is now.
 */
budget: Budget, } | { "type": "budget_removed",
/**
 * The budget as it was.
 */
budget: Budget, } | { "type": "account_changed",
/**
 * The agent's kind.
 */
agent: string,
/**
 * Whether the agent is logged in now, if the agent reports it.
 */
login?: Login,
/**
 * Why the login failed.
 */
failed?: string, };

/**
 * The daemon's state: the list of sessions and the inbox.
 */
export type DaemonState = {
/**
 * The newest sessions that are not archived.
 */
sessions: Array<Summary>,
/**
 * All requests that wait for an answer, oldest first.
 */
requests: Array<Waiting>,
/**
 * The rules for projects and for every session, oldest first.
 */
rules?: Array<Rule>,
/**
 * The budgets for projects, agents and every session, oldest first.
 */
budgets?: Array<Budget>, };

/**
 * What is done about a call.
 */
export type Decision = "allow" | "ask" | "deny";

/**
 * What a rule answers. A later one beats an earlier one.
 */
export type Effect = "allow" | "ask" | "deny";

/**
 * An error, in words and as a kind.
 */
export type ErrorInfo = {
/**
 * The error's kind.
 */
kind: ErrorKind,
/**
 * The error, in words.
 */
message: string,
/**
 * What the user can do.
 */
way_out?: string, };

/**
 * Kinds of errors that a user understands.
 */
export type ErrorKind = "auth" | "billing" | "rate_limit" | "overloaded" | "server" | "network" | "context_full" | "model_not_found" | "invalid_request" | "output_limit" | "refused" | "limit" | "agent" | "protocol" | "unknown";

/**
 * What happened in a session.
 */
export type Event = { "type": "session_created",
/**
 * The session's settings.
 */
spec: SessionSpec, } | { "type": "session_renamed",
/**
 * The new name.
 */
name: string, } | { "type": "session_archived",
/**
 * `true` if the session is archived.
 */
archived: boolean, } | { "type": "imported",
/**
 * The agent's own id of the conversation.
 */
past: string,
/**
 * The agent keeps the original unchanged and continues in a copy.
 */
copy?: boolean,
/**
 * The number of imported entries.
 */
entries: number,
/**
 * The number of entries that were not imported: there were too many, or their kind cannot be imported.
 */
left_out: number,
/**
 * What this agent supports, as far as known before it runs.
 */
capabilities: Capabilities, } | { "type": "agent_starting",
/**
 * The number of this start.
 */
generation: Generation,
/**
 * What this agent supports, as far as known before it runs.
 */
capabilities: Capabilities,
/**
 * The agent's own session id, if the agent resumes an earlier conversation.
 */
resume?: string, } | { "type": "agent_started" } & AgentStart | { "type": "agent_ready",
/**
 * The number of this start.
 */
generation: Generation, } | { "type": "agent_info",
/**
 * The agent's report.
 */
info: AgentInfo, } | { "type": "link_lost",
/**
 * The reason.
 */
reason: string, } | { "type": "link_restored" } | { "type": "agent_exited",
/**
 * The number of this start.
 */
generation: Generation,
/**
 * How the process ended.
 */
exit: Exit, } | { "type": "turn_started",
/**
 * The turn's number in the session, from 1.
 */
turn: number,
/**
 * The cause of the turn.
 */
origin: TurnOrigin, } | { "type": "turn_ended",
/**
 * The turn's number.
 */
turn: number,
/**
 * The result of the turn.
 */
result: TurnResult, } | { "type": "activity",
/**
 * The agent's own word: `requesting`, `compacting`, …; absent if nothing special.
 */
activity: string | null, } | { "type": "prompt",
/**
 * The entry of the command.
 */
command: Seq,
/**
 * The prompt.
 */
content: Array<Content>, } | { "type": "item_started",
/**
 * The item's name, unique in the session.
 */
item: string,
/**
 * The kind of item.
 */
kind: ItemKind,
/**
 * The message that the item is part of.
 */
message?: string,
/**
 * The subagent that the item belongs to, named by the tool call that started it.
 */
parent?: string, } | { "type": "tool_named",
/**
 * The item's name.
 */
item: string,
/**
 * The agent's own id of the tool call.
 */
tool: string,
/**
 * The tool's name.
 */
name: string, } | { "type": "delta",
/**
 * The item's name.
 */
item: string,
/**
 * The text to append.
 */
text: string, } | { "type": "message",
/**
 * The item that this entry ends, or a new name if nothing streamed.
 */
item: string,
/**
 * The agent's own id of the message; all parts of one message share it.
 */
message?: string,
/**
 * The subagent that the message belongs to, named by the tool call that started it.
 */
parent?: string,
/**
 * The model that wrote the message.
 */
model?: string,
/**
 * The content.
 */
content: Array<Content>,
/**
 * The message was cut off: this is its text so far.
 */
interrupted?: boolean,
/**
 * Why the model stopped.
 */
stop_reason?: string, } | { "type": "tool_call",
/**
 * The agent's own id of the tool call.
 */
tool: string,
/**
 * The item that this entry ends, if the input streamed.
 */
item?: string,
/**
 * The message that the call is part of.
 */
message?: string,
/**
 * The subagent that calls the tool, named by the tool call that started it.
 */
parent?: string,
/**
 * The tool's name.
 */
name: string,
/**
 * The kind of tool.
 */
kind: ToolKind,
/**
 * One line for people.
 */
title?: string,
/**
 * The tool's input.
 */
input: JsonValue,
/**
 * The changes that the tool will make to files, if known.
 */
changes?: Array<FileChange>, } | { "type": "tool_progress",
/**
 * The agent's own id of the tool call.
 */
tool: string,
/**
 * The tool's name.
 */
name: string,
/**
 * The subagent that called the tool.
 */
parent?: string,
/**
 * How long the tool has run, in seconds.
 */
elapsed_seconds?: number, } | { "type": "tool_result",
/**
 * The agent's own id of the tool call.
 */
tool: string,
/**
 * The subagent that called the tool.
 */
parent?: string,
/**
 * How the tool ended.
 */
outcome: ToolOutcome,
/**
 * The tool's output.
 */
content: Array<Content>,
/**
 * The changes that the tool made to files, if known.
 */
changes?: Array<FileChange>, } | { "type": "tool_summary",
/**
 * The summary.
 */
summary: string,
/**
 * The tool calls.
 */
tools: Array<string>, } | { "type": "plan",
/**
 * All steps, in order.
 */
steps: Array<PlanStep>,
/**
 * The subagent whose list this is.
 */
parent?: string, } | { "type": "usage",
/**
 * The tokens.
 */
usage: TokenUsage,
/**
 * The model.
 */
model?: string,
/**
 * The subagent that used them.
 */
parent?: string,
/**
 * The size of the context window in tokens, if the agent reports it.
 */
context_window?: number,
/**
 * The figure says only how full the context is: nothing was used.
 */
context_only?: boolean, } | { "type": "compacted",
/**
 * The trigger: `manual` or `auto`.
 */
trigger?: string,
/**
 * Tokens before.
 */
tokens_before?: number,
/**
 * Tokens after.
 */
tokens_after?: number, } | { "type": "conversation_reset",
/**
 * The agent's new session id, if the agent reports it.
 */
agent_session?: string,
/**
 * The reason, if nobody asked for the reset; absent after a command such as `/clear`.
 */
reason?: ResetReason, } | { "type": "subagent_started",
/**
 * The subagent's name: the tool call that started it.
 */
subagent: string,
/**
 * The subagent that started this one; the main agent when absent.
 */
parent?: string,
/**
 * The kind of subagent.
 */
subagent_type?: string,
/**
 * The subagent's task, in a few words.
 */
description: string,
/**
 * The subagent's prompt.
 */
prompt?: string,
/**
 * The subagent's model.
 */
model?: string,
/**
 * The agent continues while the subagent works.
 */
background: boolean,
/**
 * The team that the subagent joins.
 */
team?: string, } | { "type": "subagent_ended",
/**
 * The subagent's name.
 */
subagent: string,
/**
 * How the subagent ended.
 */
outcome: ToolOutcome,
/**
 * What the subagent did, in words.
 */
summary?: string,
/**
 * What the subagent used.
 */
work?: WorkDone, } | { "type": "task_changed",
/**
 * The task.
 */
task: Task, } | { "type": "request_opened",
/**
 * The request.
 */
request: Request, } | { "type": "request_closed",
/**
 * The request.
 */
request: RequestId,
/**
 * How the request ended.
 */
outcome: Outcome, } | { "type": "request_decided",
/**
 * The request, with the judgement.
 */
request: Request,
/**
 * The answer and what gave it.
 */
outcome: Outcome, } | { "type": "command_accepted",
/**
 * The command's sender and id.
 */
key: CommandKey,
/**
 * The action.
 */
action: Action, } | { "type": "receipt",
/**
 * The entry of the command.
 */
command: Seq, } & ({ "stage": "accepted" } | { "stage": "sending" } | { "stage": "delivered" } | { "stage": "consumed",
/**
 * The result of the command, if there is one.
 */
result?: JsonValue, } | { "stage": "refused",
/**
 * The reason.
 */
refusal: Refusal, } | { "stage": "uncertain",
/**
 * The reason.
 */
reason: string, }) | { "type": "setting_changed",
/**
 * The setting and its value.
 */
setting: Setting, } | { "type": "rule_added",
/**
 * The rule's `TOOL` or `TOOL(PATTERN)`.
 */
tool_name: string,
/**
 * The rule; absent in older entries, which allow every call of the tool.
 */
rule?: Rule, } | { "type": "rule_removed",
/**
 * The rule's `TOOL` or `TOOL(PATTERN)`.
 */
tool_name: string,
/**
 * The rule's id; absent for every rule with that text.
 */
rule?: RuleId, } | { "type": "deadline_changed",
/**
 * The open request; absent for every later request of the session.
 */
request?: RequestId,
/**
 * When the open request is denied; absent for never.
 */
deadline?: Millis,
/**
 * How long each later request waits; absent for without end.
 */
seconds?: number, } | { "type": "budget_changed",
/**
 * The limits; absent if the session has no budget of its own any more.
 */
budget?: BudgetTerms,
/**
 * Everything used so far no longer counts.
 */
reset?: boolean, } | { "type": "budget_reached",
/**
 * The budget, and how far it is spent.
 */
standing: Standing, } | { "type": "mcp_servers",
/**
 * All servers.
 */
servers: Array<McpServer>, } | { "type": "retry",
/**
 * The number of the failed attempt.
 */
attempt: number,
/**
 * The largest number of attempts.
 */
max?: number,
/**
 * The wait before the next attempt, in milliseconds.
 */
delay_ms?: number,
/**
 * The error.
 */
error: ErrorInfo, } | { "type": "failure",
/**
 * The error.
 */
error: ErrorInfo,
/**
 * The session can continue.
 */
recoverable: boolean, } | { "type": "notice",
/**
 * How important the notice is.
 */
level: Level,
/**
 * The text.
 */
text: string, } | { "type": "auth_status",
/**
 * The login is in progress.
 */
authenticating: boolean,
/**
 * The login's output.
 */
output?: Array<string>,
/**
 * The error.
 */
error?: string, } | { "type": "hook",
/**
 * The id of this run of the hook.
 */
hook: string,
/**
 * The hook's name.
 */
name: string,
/**
 * The event that triggers the hook.
 */
event: string,
/**
 * The hook's progress.
 */
status: HookStatus,
/**
 * The hook's output, exit code and the like.
 */
data?: JsonValue, } | { "type": "files_persisted",
/**
 * The saved files.
 */
files: Array<JsonValue>,
/**
 * The files that could not be saved.
 */
failed?: Array<JsonValue>, } | { "type": "unknown",
/**
 * The sender.
 */
source: string,
/**
 * The sender's own name for the message's kind.
 */
kind: string, };

/**
 * An example that a rule carries.
 */
export type Example = {
/**
 * The tool that is called.
 */
tool: string,
/**
 * What the tool is called with.
 */
input: JsonValue, };

/**
 * How a process ended.
 */
export type Exit = {
/**
 * The reason, as a kind.
 */
reason: ExitReason,
/**
 * The process's exit code.
 */
code?: number,
/**
 * The signal that ended the process.
 */
signal?: number,
/**
 * The reason, in words.
 */
message: string,
/**
 * The last lines that the process wrote to stderr, with secrets masked.
 */
stderr?: string, };

/**
 * Why a process ended.
 */
export type ExitReason = "stopped" | "finished" | "failed" | "not_started" | "not_ready" | "link_down" | "misbehaved" | "daemon_gone" | "idle";

/**
 * A change to a file.
 */
export type FileChange = {
/**
 * The file's path.
 */
path: string,
/**
 * The kind of change.
 */
change: ChangeKind,
/**
 * The file's earlier path, if the file is renamed.
 */
from?: string,
/**
 * The unified diff, if known. The text after a hunk's line numbers adds what its lines cannot show: that every
 * occurrence is replaced, or which cell of a notebook changes.
 */
diff?: string,
/**
 * The size of the diff, if the diff is too large to be sent. The tool's input then holds the whole change.
 */
left_out?: LeftOut, };

/**
 * Where a fork begins.
 */
export type ForkPoint = {
/**
 * The session to fork.
 */
session: SessionId,
/**
 * The last entry that both share; the newest entry when absent.
 */
at?: Seq, };

/**
 * The number of a start of the agent in its session: 1 for the first process, one more for each later one.
 */
export type Generation = number;

/**
 * The client's first frame. The server answers no other frame before it.
 */
export type Greeting = { "type": "hello",
/**
 * The highest protocol version that the client speaks.
 */
protocol: number,
/**
 * The client's name and version.
 */
client: ClientInfo,
/**
 * Browsers only: the key from origin storage that belongs to the cookie.
 */
key?: string, };

/**
 * The process that holds an agent, so that the agent outlives the daemon.
 */
export type HolderInfo = {
/**
 * The process id.
 */
pid: number,
/**
 * The window of tmux in which the holder runs.
 */
tmux?: string, };

/**
 * A hook for which the agent asks its clients: an event name and a filter.
 */
export type HookDefinition = {
/**
 * The agent's name for the event, such as `PreToolUse`.
 */
event: string,
/**
 * The tools that trigger the hook; all tools when absent.
 */
matcher?: string,
/**
 * The number of seconds after which the agent continues without an answer.
 */
timeout_seconds?: number, };

/**
 * The progress of a hook.
 */
export type HookStatus = "started" | "progress" | "completed";

/**
 * What makes a folder the same folder: its place on the disk, whatever its path.
 */
export type Identity = {
/**
 * The device.
 */
device: number,
/**
 * The inode on it.
 */
inode: number, };

/**
 * The kind of an item.
 */
export type ItemKind = "text" | "thinking" | "tool_input" | "tool_output";

export type JsonValue = number | string | boolean | Array<JsonValue> | { [key in string]: JsonValue } | null;

/**
 * A decision with everything that led to it.
 */
export type Judgement = {
/**
 * What is done.
 */
decision: Decision,
/**
 * The rules that decided, the narrowest scope first; empty if the mode did.
 */
rules: Array<RuleRef>,
/**
 * The mode, if no rule decided.
 */
mode?: Mode,
/**
 * Why, in a sentence.
 */
why: string,
/**
 * How dangerous the call is, and why.
 */
risk: Risk, };

/**
 * The size of a diff that is too large to be sent.
 */
export type LeftOut = {
/**
 * The number of added lines.
 */
added: number,
/**
 * The number of removed lines.
 */
removed: number,
/**
 * The diff's length in bytes.
 */
bytes: number, };

/**
 * How important a notice is.
 */
export type Level = "info" | "warning";

/**
 * The server's limits.
 */
export type Limits = {
/**
 * The largest frame from the client, in bytes.
 */
frame_bytes: number,
/**
 * The largest number of sessions that one connection may attach to at once.
 */
attachments: number, };

/**
 * The frames that core makes, for their readers: clients, tests and the schema.
 */
export type LogFrame = { "type": "entry",
/**
 * The session.
 */
session: SessionId,
/**
 * The entry's number.
 */
seq: Seq,
/**
 * The time of the entry.
 */
at: Millis,
/**
 * Who caused the entry; the agent when absent.
 */
by?: Actor,
/**
 * The event.
 */
event: Event, } | { "type": "daemon",
/**
 * The entry's number.
 */
seq: Seq,
/**
 * The time of the entry.
 */
at: Millis,
/**
 * Who caused the entry; the daemon when absent.
 */
by?: Actor,
/**
 * The event.
 */
event: DaemonEvent, } | { "type": "snapshot",
/**
 * The session.
 */
session: SessionId,
/**
 * The number of the last entry in the state.
 */
seq: Seq,
/**
 * The state.
 */
state: State, } | { "type": "daemon_snapshot",
/**
 * The number of the last entry in the state.
 */
seq: Seq,
/**
 * The state.
 */
state: DaemonState, };

/**
 * A requested login.
 */
export type LogIn = { "way": "browser" } | { "way": "device_code" } | { "way": "api_key",
/**
 * The key. Portolan passes the key to the agent, and neither keeps nor shows it.
 */
key: string, };

/**
 * Whether an agent is logged in.
 */
export type Login = { "state": "logged_in",
/**
 * The kind of login, in the agent's own words.
 */
how: string, } | { "state": "logged_out",
/**
 * What the user can do.
 */
way_out: string, };

/**
 * The page on which a person logs in.
 */
export type LoginPage = {
/**
 * The page's address.
 */
url: string,
/**
 * The code to type there, if the page needs one.
 */
code?: string, };

/**
 * A way to log an agent in.
 */
export type LoginWay = "browser" | "device_code" | "api_key";

/**
 * An MCP server, as the agent reports it.
 */
export type McpServer = {
/**
 * The server's name.
 */
name: string,
/**
 * The server's state in the agent's own word: `connected`, `failed`, `disabled`, …
 */
status: string,
/**
 * The error, if there is one.
 */
error?: string,
/**
 * The server's tools.
 */
tools?: Array<string>,
/**
 * Where the server is configured.
 */
scope?: string, };

/**
 * What a budget limits.
 */
export type Measure = "cost" | "tokens" | "turns";

/**
 * Milliseconds since 1970, UTC.
 */
export type Millis = number;

/**
 * What happens to a call that no rule decides.
 */
export type Mode = "default" | "acceptEdits" | "plan" | "dontAsk" | "bypassPermissions";

/**
 * A model that the agent offers.
 */
export type ModelInfo = {
/**
 * The model's id, for `set_model`.
 */
id: string,
/**
 * The model's name for people.
 */
display_name: string,
/**
 * One line about the model.
 */
description?: string, };

/**
 * The usage of one model.
 */
export type ModelUsage = {
/**
 * The model's tokens.
 */
usage: TokenUsage,
/**
 * The size of the model's context window in tokens.
 */
context_window?: number,
/**
 * The model's output limit in tokens.
 */
max_output?: number,
/**
 * The model's cost, if known.
 */
cost_usd?: number, };

/**
 * The protocol between Portolan and the agent.
 */
export type NativeProtocol = "ndjson-ws" | "agent-sdk" | "rest-sse" | "json-rpc-stdio" | "acp" | "a2a" | "pty" | "demo";

/**
 * An unsettled command.
 */
export type OpenCommand = {
/**
 * The command's entry.
 */
seq: Seq,
/**
 * The command's sender and id.
 */
key: CommandKey,
/**
 * Who sent the command.
 */
by: Actor,
/**
 * The command's name, such as `prompt`.
 */
name: string,
/**
 * The command's progress.
 */
stage: Stage,
/**
 * With a prompt: its content.
 */
content?: Array<Content>, };

/**
 * An item that is streaming.
 */
export type OpenItem = {
/**
 * The item's name.
 */
item: string,
/**
 * The kind of item.
 */
kind: ItemKind,
/**
 * The message that the item is part of.
 */
message?: string,
/**
 * The subagent that the item belongs to.
 */
parent?: string,
/**
 * The item's whole text so far.
 */
text: string, };

/**
 * A running subagent.
 */
export type OpenSubagent = {
/**
 * The tool call that started the subagent.
 */
subagent: string,
/**
 * The subagent that started this one.
 */
parent?: string,
/**
 * The kind of subagent.
 */
subagent_type?: string,
/**
 * The subagent's task.
 */
description: string,
/**
 * The agent continues while the subagent works.
 */
background: boolean, };

/**
 * A tool call without its result.
 */
export type OpenTool = {
/**
 * The agent's own id of the tool call.
 */
tool: string,
/**
 * The tool's name.
 */
name: string,
/**
 * The subagent that called the tool.
 */
parent?: string, };

/**
 * The running turn.
 */
export type OpenTurn = {
/**
 * The turn's number.
 */
turn: number,
/**
 * The cause of the turn.
 */
origin: TurnOrigin,
/**
 * When the turn started.
 */
started_at: Millis, };

/**
 * How a request ended. Only the first outcome counts.
 */
export type Outcome = { "how": "answered",
/**
 * The answer.
 */
answer: Answer,
/**
 * Who answered.
 */
by: Actor, } | { "how": "expired" } | { "how": "interrupted",
/**
 * Who interrupted.
 */
by: Actor, } | { "how": "withdrawn" } | { "how": "agent_gone",
/**
 * The reason, in words.
 */
reason: string, };

/**
 * A past conversation, as frontends list it.
 */
export type PastDescription = {
/**
 * The agent kind.
 */
agent: string,
/**
 * The session that already continues this conversation.
 */
session?: SessionId,
/**
 * The agent's own id, with which the conversation is resumed.
 */
past: string,
/**
 * The conversation's title, or the beginning of its first prompt.
 */
title: string,
/**
 * The folder in which the conversation was held.
 */
cwd?: string,
/**
 * When the conversation began, if the agent reports it.
 */
started_at?: Millis,
/**
 * When the conversation was last changed.
 */
updated_at: Millis,
/**
 * The version of the agent that began the conversation, if the agent reports it.
 */
version?: string,
/**
 * The id of a process that has the conversation open now, if one was found. Continuing the conversation elsewhere
 * at the same time splits it in two.
 */
held_by?: number, };

/**
 * When a budget begins again by itself.
 */
export type Period = "day";

/**
 * A rule to make together with an answer. It allows or denies as the answer does.
 */
export type Persist = {
/**
 * Where the rule holds.
 */
scope: PersistScope,
/**
 * `TOOL` or `TOOL(PATTERN)`; the request's suggestion when absent.
 */
rule?: string, };

/**
 * Where a rule that is made together with an answer holds.
 */
export type PersistScope = "session" | "project" | "user";

/**
 * One step of a plan.
 */
export type PlanStep = {
/**
 * The step, in words.
 */
text: string,
/**
 * The step's state in the agent's own word: `pending`, `in_progress`, `completed`, …
 */
status: string, };

/**
 * By what policy decides.
 */
export type PolicySource = "rule" | "mode" | "budget" | "limit";

/**
 * The position of a durable entry in the order in which all logs were written. Positions only grow, and none is used
 * twice.
 */
export type Position = number;

/**
 * A client that reads a session.
 */
export type Presence = {
/**
 * The token's public name.
 */
token: TokenId,
/**
 * The name that people see.
 */
name: string,
/**
 * The token's role.
 */
role: Role,
/**
 * The frontend used.
 */
via: string,
/**
 * When the client joined.
 */
since: Millis, };

/**
 * The result of a check of an agent.
 */
export type Probe = {
/**
 * The agent can be started.
 */
available: boolean,
/**
 * The agent's version, if known.
 */
version?: string,
/**
 * The result in words, and the way out if something is missing.
 */
message: string,
/**
 * The program that would be started.
 */
program?: string,
/**
 * The transport that would be used. Earlier versions call it `road`.
 */
transport?: Transport,
/**
 * Whether the agent is logged in, if the agent reports it.
 */
login?: Login, };

/**
 * Who keeps a prompt that arrives while a turn runs.
 */
export type PromptQueue = "held" | "agent";

/**
 * One question.
 */
export type Question = {
/**
 * The question, which is also its key in the answer.
 */
question: string,
/**
 * A heading of a word or two.
 */
header?: string,
/**
 * The choices; if empty, the question asks for free text.
 */
choices?: Array<Choice>,
/**
 * Several choices are allowed.
 */
multiple: boolean,
/**
 * Free text is allowed in addition to the choices.
 */
free_text: boolean,
/**
 * The answer is a secret and is not kept in the log.
 */
secret?: boolean, };

/**
 * The reply to a command: the number of its entry, and its progress. The same id sent again gets the same number.
 */
export type Receipt = {
/**
 * The entry of the command.
 */
seq: Seq, } & ({ "stage": "accepted" } | { "stage": "sending" } | { "stage": "delivered" } | { "stage": "consumed",
/**
 * The result of the command, if there is one.
 */
result?: JsonValue, } | { "stage": "refused",
/**
 * The reason.
 */
refusal: Refusal, } | { "stage": "uncertain",
/**
 * The reason.
 */
reason: string, });

/**
 * Why Portolan did not carry out a command.
 */
export type Refusal = {
/**
 * The reason, as a kind.
 */
code: RefusalCode,
/**
 * The reason, in words for people.
 */
message: string,
/**
 * What the user can do.
 */
way_out?: WayOut,
/**
 * The time to wait before trying again, in milliseconds.
 */
retry_after_ms?: number,
/**
 * With `already_closed`: how the request ended.
 */
outcome?: Outcome, };

/**
 * The reason of a refusal, as a kind for programs.
 */
export type RefusalCode = "not_found" | "unauthenticated" | "forbidden" | "unsupported" | "invalid" | "busy" | "already_closed" | "stale" | "not_running" | "agent_refused" | "ended" | "store_failing" | "shutting_down" | "internal";

/**
 * The result of a call.
 */
export type ReplyBody = { "reply": "done" } | { "reply": "budgets",
/**
 * The budgets, oldest first; the budget of the session itself comes first.
 */
budgets: Array<BudgetDescription>, } | { "reply": "budget",
/**
 * The budget.
 */
budget: BudgetDescription, } | { "reply": "rules",
/**
 * Each rule, and whether it is in force.
 */
rules: Array<RuleDescription>, } | { "reply": "rule",
/**
 * The rule.
 */
rule: Rule, } | { "reply": "judgement",
/**
 * The decision.
 */
judgement: Judgement, } | { "reply": "simulation",
/**
 * The result.
 */
simulation: Simulation, } | { "reply": "audit",
/**
 * The records. A page may hold fewer records than asked for, or none, and still have a `next`.
 */
records: Array<AuditRecord>,
/**
 * Where the next page begins; absent after the last record.
 */
next?: Position, } | { "reply": "audit_record",
/**
 * The record, its entry and its seal.
 */
details: AuditDetails, } | { "reply": "attached",
/**
 * The session.
 */
session: SessionId, } | { "reply": "subscribed" } | { "reply": "receipt",
/**
 * The command's entry and progress.
 */
receipt: Receipt, } | { "reply": "session",
/**
 * The session's line in lists.
 */
session: Summary, } | { "reply": "sessions",
/**
 * The sessions, newest first.
 */
sessions: Array<Summary>,
/**
 * How many agents run; absent for a token that is bound to certain sessions.
 */
agents?: AgentsRunning, } | { "reply": "past",
/**
 * The conversations, newest first.
 */
past: Array<PastDescription>, } | { "reply": "taken_up",
/**
 * The session's line in lists.
 */
session: Summary,
/**
 * The session already existed. Nothing was created, no prompt was sent, and the request's settings were
 * ignored.
 */
already: boolean, } | { "reply": "resolved",
/**
 * The session's full id.
 */
session: SessionId, } | { "reply": "state",
/**
 * The number of the last entry in the state.
 */
seq: Seq,
/**
 * The state.
 */
state: State, } | { "reply": "history",
/**
 * The entries' frames, oldest first.
 */
entries: Array<EntryFrame>, } | { "reply": "files",
/**
 * Paths below the session's folder, the best match first; a folder ends with `/`.
 */
files: Array<string>,
/**
 * The folder holds more files than were searched, so a path may be missing.
 */
truncated: boolean, } | { "reply": "raw",
/**
 * The text, if it was kept.
 */
text: string | null, } | { "reply": "environment",
/**
 * The variables by name.
 */
variables: { [key in string]: string }, } | { "reply": "agents",
/**
 * All agents.
 */
agents: Array<AgentDescription>, } | { "reply": "account",
/**
 * The agent's login, and the state of a login in progress.
 */
account: AccountDescription, } | { "reply": "token",
/**
 * The token, without its secret.
 */
token: TokenInfo,
/**
 * The token's secret. The secret is never shown again.
 */
secret: string, } | { "reply": "tokens",
/**
 * All tokens.
 */
tokens: Array<TokenInfo>, } | { "reply": "ticket",
/**
 * The ticket's secret, for a single use.
 */
ticket: string,
/**
 * When the ticket expires.
 */
expires_at: Millis, } | { "reply": "browsers",
/**
 * The browsers that are logged in, the most recently seen first.
 */
browsers: Array<BrowserInfo>, } | { "reply": "pong" };

/**
 * A request that waits.
 */
export type Request = {
/**
 * The request's id: the number of the entry that opened it.
 */
request: RequestId,
/**
 * The number of the agent's start that asked. An answer to an earlier start is refused.
 */
generation: Generation,
/**
 * What the agent asks.
 */
ask: Ask,
/**
 * The subagent that asks, named by the tool call that started it; the main agent when absent.
 */
parent?: string,
/**
 * The tool call that the request belongs to.
 */
tool?: string,
/**
 * SHA-256 of `ask`, in hex. An answer that names another digest is refused.
 */
digest: string,
/**
 * When the request was opened.
 */
opened_at: Millis,
/**
 * When Portolan denies the request by itself; never when absent.
 */
deadline?: Millis,
/**
 * `ask` is shortened here because it is large; the session's own entry and state hold it whole. Only in the
 * daemon's log and inbox.
 */
shortened?: boolean,
/**
 * What policy decided about the request, and why; absent if policy decides nothing about such requests.
 */
policy?: Judgement,
/**
 * `TOOL` or `TOOL(PATTERN)` of a rule that would answer such a request, for a person to check and change.
 */
suggested_rule?: string, };

/**
 * The id of a request: the number of the entry that opened it, so the id is unique in its session for ever.
 */
export type RequestId = number;

/**
 * Why an agent begins with an empty conversation although its session has a history.
 */
export type ResetReason = "cannot_resume" | "lost" | "other";

/**
 * How dangerous a call is, and why.
 */
export type Risk = {
/**
 * How dangerous.
 */
level: RiskLevel,
/**
 * Why, a phrase each.
 */
reasons: Array<string>, };

/**
 * How dangerous a call is.
 */
export type RiskLevel = "low" | "medium" | "high";

/**
 * The role of a token; each role includes the roles before it.
 */
export type Role = "viewer" | "operator" | "owner";

/**
 * A rule.
 */
export type Rule = {
/**
 * Its id.
 */
rule: RuleId,
/**
 * What it answers.
 */
effect: Effect,
/**
 * `TOOL` or `TOOL(PATTERN)`.
 */
text: string,
/**
 * Where it holds.
 */
scope: RuleScope,
/**
 * A deny that yields to an allow of a narrower scope.
 */
overridable?: boolean,
/**
 * After this time the rule answers nothing; absent is never.
 */
expires_at?: Millis,
/**
 * Why it was made.
 */
comment?: string,
/**
 * When it was made.
 */
made_at: Millis,
/**
 * Who made it, and through which frontend.
 */
made_by: Actor,
/**
 * Calls that the rule must cover.
 */
match?: Array<Example>,
/**
 * Calls that the rule must not cover.
 */
not_match?: Array<Example>, };

/**
 * A rule with what is known of it now.
 */
export type RuleDescription = {
/**
 * Why the rule decides nothing now; absent if it is in force.
 */
idle?: string,
/**
 * How many requests the rule has decided, alone or together with other rules.
 */
uses: number,
/**
 * When the rule last decided a request; absent if it never did.
 */
used_at?: Millis,
/**
 * Its id.
 */
rule: RuleId,
/**
 * What it answers.
 */
effect: Effect,
/**
 * `TOOL` or `TOOL(PATTERN)`.
 */
text: string,
/**
 * Where it holds.
 */
scope: RuleScope,
/**
 * A deny that yields to an allow of a narrower scope.
 */
overridable?: boolean,
/**
 * After this time the rule answers nothing; absent is never.
 */
expires_at?: Millis,
/**
 * Why it was made.
 */
comment?: string,
/**
 * When it was made.
 */
made_at: Millis,
/**
 * Who made it, and through which frontend.
 */
made_by: Actor,
/**
 * Calls that the rule must cover.
 */
match?: Array<Example>,
/**
 * Calls that the rule must not cover.
 */
not_match?: Array<Example>, };

/**
 * What someone asks a new rule to be. Who made it, when, and the folder's identity are added by the registry.
 */
export type RuleDraft = {
/**
 * What it answers.
 */
effect: Effect,
/**
 * `TOOL` or `TOOL(PATTERN)`.
 */
text: string,
/**
 * Where it holds.
 */
scope?: ScopeDraft,
/**
 * A deny that yields to an allow of a narrower scope.
 */
overridable?: boolean,
/**
 * It ends after so many seconds; absent is never.
 */
expires_in_seconds?: number,
/**
 * Why it is made.
 */
comment?: string,
/**
 * Calls that the rule must cover.
 */
match?: Array<Example>,
/**
 * Calls that the rule must not cover.
 */
not_match?: Array<Example>, };

/**
 * The id of a rule: eight characters that people can type.
 */
export type RuleId = string;

/**
 * A rule, as a judgement names it.
 */
export type RuleRef = {
/**
 * Its id.
 */
rule: RuleId,
/**
 * The rule as people read it: `deny Bash(rm -r)`.
 */
line: string,
/**
 * Where it holds.
 */
scope: string, };

/**
 * Where a rule holds. A later scope is narrower than an earlier one.
 */
export type RuleScope = { "kind": "user" } | { "kind": "project",
/**
 * The first 16 hex digits of the SHA-256 of the folder's path.
 */
id: string,
/**
 * The folder, with every link followed.
 */
folder: string,
/**
 * The folder that stood there when the rule was made. The rule is suspended while another one does.
 */
identity: Identity, } | { "kind": "session",
/**
 * Which.
 */
session: SessionId, };

/**
 * Whether rules bind an agent.
 */
export type RulesBind = "enforced" | "advisory";

/**
 * How long an approval holds.
 */
export type Scope = "once" | "session";

/**
 * Where a new rule is to hold.
 */
export type ScopeDraft = { "kind": "user" } | { "kind": "project",
/**
 * An absolute path on the daemon's machine.
 */
folder: string, } | { "kind": "session",
/**
 * Which.
 */
session: SessionId, };

/**
 * The body of a REST request that sends a command to a session.
 */
export type SendCommand = {
/**
 * The same id sent twice runs the command once; `Idempotency-Key` does the same.
 */
id?: CommandId, } & ({ "name": "prompt",
/**
 * The prompt.
 */
content: Array<Content>, } | { "name": "answer",
/**
 * The request.
 */
request: RequestId,
/**
 * The digest of the request that the person saw, to be sure that the request has not changed since.
 */
digest?: string,
/**
 * The answer.
 */
answer: Answer,
/**
 * A rule to make together with the answer, for later calls.
 */
persist?: Persist, } | { "name": "interrupt" } | { "name": "stop" } | { "name": "resume" } | { "name": "rename",
/**
 * The new name.
 */
to: string, } | { "name": "archive",
/**
 * `true` archives, `false` restores.
 */
archived: boolean, } | { "name": "set_model",
/**
 * The new model; the agent's default when absent.
 */
model: string | null, } | { "name": "set_mode",
/**
 * The new mode.
 */
mode: string, } | { "name": "set_thinking",
/**
 * The new budget in tokens; the agent's default when absent.
 */
tokens: number | null, } | { "name": "set_environment",
/**
 * The variables by name.
 */
variables: { [key in string]: string }, } | { "name": "rewind",
/**
 * The prompt's entry.
 */
to: Seq,
/**
 * Only report what would change.
 */
dry_run: boolean, } | { "name": "mcp_status" } | { "name": "mcp_reconnect",
/**
 * The server's name.
 */
server: string, } | { "name": "mcp_toggle",
/**
 * The server's name.
 */
server: string,
/**
 * `true` switches the server on, `false` switches it off.
 */
enabled: boolean, } | { "name": "mcp_set",
/**
 * The servers by name, in the agent's own form.
 */
servers: { [key in string]: JsonValue },
/**
 * Keep earlier servers, except those named here. Otherwise these servers replace all earlier ones.
 */
keep?: boolean, } | { "name": "mcp_message",
/**
 * The server's name.
 */
server: string,
/**
 * The message.
 */
message: JsonValue, } | { "name": "context" } | { "name": "stop_task",
/**
 * The task's id.
 */
task: string, } | { "name": "withdraw",
/**
 * The prompt's entry.
 */
prompt: Seq, } | { "name": "steer",
/**
 * The prompt's entry.
 */
prompt: Seq, } | { "name": "send_again",
/**
 * The command's entry.
 */
command: Seq, } | { "name": "add_rule",
/**
 * The rule. Its scope is this session, whatever the draft says.
 */
rule: RuleDraft, } | { "name": "remove_rule",
/**
 * The rule's `TOOL` or `TOOL(PATTERN)`.
 */
tool_name: string,
/**
 * The rule's id; absent for every rule with that text.
 */
rule?: RuleId, } | { "name": "set_deadline",
/**
 * The open request; absent for every later request of the session.
 */
request?: RequestId,
/**
 * The seconds from now, or from the opening of each later request; absent for no deadline.
 */
seconds?: number, } | { "name": "set_budget",
/**
 * The limits; absent removes the budget.
 */
budget?: BudgetTerms, } | { "name": "reset_budget" } | { "name": "native",
/**
 * The message.
 */
body: JsonValue, });

/**
 * The number of an entry in its log. The first entry has number 1; 0 means "before everything". Numbers only grow and
 * are never used twice; gaps are normal.
 */
export type Seq = number;

/**
 * A frame from the server. Core makes the other frames (`entry`, `daemon`, `snapshot`, `daemon_snapshot`).
 */
export type ServerFrame = { "type": "welcome",
/**
 * The protocol version that both sides speak.
 */
protocol: number,
/**
 * The server.
 */
server: ServerInfo,
/**
 * The client, as the server identified it.
 */
you: You,
/**
 * The server's limits.
 */
limits: Limits, } | { "type": "reply",
/**
 * The id of the call.
 */
id: CommandId, } & ({ "reply": "done" } | { "reply": "budgets",
/**
 * The budgets, oldest first; the budget of the session itself comes first.
 */
budgets: Array<BudgetDescription>, } | { "reply": "budget",
/**
 * The budget.
 */
budget: BudgetDescription, } | { "reply": "rules",
/**
 * Each rule, and whether it is in force.
 */
rules: Array<RuleDescription>, } | { "reply": "rule",
/**
 * The rule.
 */
rule: Rule, } | { "reply": "judgement",
/**
 * The decision.
 */
judgement: Judgement, } | { "reply": "simulation",
/**
 * The result.
 */
simulation: Simulation, } | { "reply": "audit",
/**
 * The records. A page may hold fewer records than asked for, or none, and still have a `next`.
 */
records: Array<AuditRecord>,
/**
 * Where the next page begins; absent after the last record.
 */
next?: Position, } | { "reply": "audit_record",
/**
 * The record, its entry and its seal.
 */
details: AuditDetails, } | { "reply": "attached",
/**
 * The session.
 */
session: SessionId, } | { "reply": "subscribed" } | { "reply": "receipt",
/**
 * The command's entry and progress.
 */
receipt: Receipt, } | { "reply": "session",
/**
 * The session's line in lists.
 */
session: Summary, } | { "reply": "sessions",
/**
 * The sessions, newest first.
 */
sessions: Array<Summary>,
/**
 * How many agents run; absent for a token that is bound to certain sessions.
 */
agents?: AgentsRunning, } | { "reply": "past",
/**
 * The conversations, newest first.
 */
past: Array<PastDescription>, } | { "reply": "taken_up",
/**
 * The session's line in lists.
 */
session: Summary,
/**
 * The session already existed. Nothing was created, no prompt was sent, and the request's settings were
 * ignored.
 */
already: boolean, } | { "reply": "resolved",
/**
 * The session's full id.
 */
session: SessionId, } | { "reply": "state",
/**
 * The number of the last entry in the state.
 */
seq: Seq,
/**
 * The state.
 */
state: State, } | { "reply": "history",
/**
 * The entries' frames, oldest first.
 */
entries: Array<EntryFrame>, } | { "reply": "files",
/**
 * Paths below the session's folder, the best match first; a folder ends with `/`.
 */
files: Array<string>,
/**
 * The folder holds more files than were searched, so a path may be missing.
 */
truncated: boolean, } | { "reply": "raw",
/**
 * The text, if it was kept.
 */
text: string | null, } | { "reply": "environment",
/**
 * The variables by name.
 */
variables: { [key in string]: string }, } | { "reply": "agents",
/**
 * All agents.
 */
agents: Array<AgentDescription>, } | { "reply": "account",
/**
 * The agent's login, and the state of a login in progress.
 */
account: AccountDescription, } | { "reply": "token",
/**
 * The token, without its secret.
 */
token: TokenInfo,
/**
 * The token's secret. The secret is never shown again.
 */
secret: string, } | { "reply": "tokens",
/**
 * All tokens.
 */
tokens: Array<TokenInfo>, } | { "reply": "ticket",
/**
 * The ticket's secret, for a single use.
 */
ticket: string,
/**
 * When the ticket expires.
 */
expires_at: Millis, } | { "reply": "browsers",
/**
 * The browsers that are logged in, the most recently seen first.
 */
browsers: Array<BrowserInfo>, } | { "reply": "pong" }) | { "type": "error",
/**
 * The id of the call, if the server could read it.
 */
id?: CommandId,
/**
 * The reason, as a kind.
 */
code: RefusalCode,
/**
 * The reason, in words for people.
 */
message: string,
/**
 * What the user can do.
 */
way_out?: WayOut,
/**
 * The time to wait before trying again, in milliseconds.
 */
retry_after_ms?: number,
/**
 * With `already_closed`: how the request ended.
 */
outcome?: Outcome, } | { "type": "presence",
/**
 * The session.
 */
session: SessionId,
/**
 * Everyone who reads the session.
 */
present: Array<Presence>, } | { "type": "ended",
/**
 * The session; absent for the daemon.
 */
session?: SessionId,
/**
 * The reason.
 */
reason: Closed, } | { "type": "closing",
/**
 * The reason, as a kind.
 */
reason: ClosingReason,
/**
 * The reason, in words.
 */
message: string,
/**
 * A client that reconnects with its last numbers continues where this connection ended.
 */
resumable: boolean, };

/**
 * The server's name, version and clock.
 */
export type ServerInfo = {
/**
 * The server's name: `portolan`.
 */
name: string,
/**
 * The server's version.
 */
version: string,
/**
 * The server's clock when it sent this frame. Clients compute ages from this time, because their own clock may
 * differ.
 */
now?: Millis,
/**
 * The random id of the server's home. A different id than before means that the server's logs were replaced, for
 * example by a backup: earlier entry numbers are invalid, and the client must start from a snapshot. Absent when
 * the server does not know the id.
 */
incarnation?: string, };

/**
 * A session's own budget.
 */
export type SessionBudget = {
/**
 * The limits.
 */
limits: BudgetLimits,
/**
 * When the budget begins again by itself; absent for never.
 */
per?: Period,
/**
 * Since when the budget counts.
 */
since: Millis,
/**
 * What was used since, without the running turn.
 */
spent: Spending, };

/**
 * The id of a session. Ids are time-ordered: newer sessions sort after older ones.
 */
export type SessionId = string;

/**
 * The settings of a new session. A setting that the agent does not support is refused, never ignored.
 */
export type SessionSpec = {
/**
 * The agent kind, such as `demo` or `claude`.
 */
agent: string,
/**
 * The session's folder.
 */
cwd: string,
/**
 * The first prompt.
 */
prompt?: Array<Content>,
/**
 * The session's name.
 */
name?: string,
/**
 * The model.
 */
model?: string,
/**
 * The permission mode.
 */
mode?: string,
/**
 * Environment variables in addition to the user's own.
 */
env?: { [key in string]: string },
/**
 * The system prompt.
 */
system_prompt?: SystemPrompt,
/**
 * Tools that need no permission, as texts of rules. In a request to create a session, the agent's own spelling is
 * also understood.
 */
allowed_tools?: Array<string>,
/**
 * Tools that the agent may not use. The tool that asks the user is always allowed.
 */
disallowed_tools?: Array<string>,
/**
 * MCP servers by name, in the agent's own form.
 */
mcp_servers?: { [key in string]: JsonValue },
/**
 * Subagents by name.
 */
subagents?: { [key in string]: SubagentDefinition },
/**
 * Hooks.
 */
hooks?: Array<HookDefinition>,
/**
 * The kinds of settings files that the agent reads; the agent's default when absent.
 */
setting_sources?: Array<string>,
/**
 * Folders that the agent may use in addition to `cwd`.
 */
extra_dirs?: Array<string>,
/**
 * The step limit of a turn.
 */
max_turns?: number,
/**
 * The cost limit of a turn, in US dollars.
 */
max_budget_usd?: number,
/**
 * A JSON Schema that the result must match.
 */
json_schema?: JsonValue,
/**
 * Nobody answers: what no rule and no mode allows is denied at once.
 */
unattended?: boolean,
/**
 * A request that nobody answers for this many seconds is denied; 0 for never, and the configuration's value when
 * absent.
 */
deadline_seconds?: number,
/**
 * The session's own budget. Portolan enforces it for every agent.
 */
budget?: BudgetTerms,
/**
 * Resume this conversation: the agent's own session id.
 */
resume?: string,
/**
 * Fork this session of Portolan.
 */
fork?: ForkPoint, };

/**
 * A setting and its value.
 */
export type Setting = { "name": "model",
/**
 * The model's id; the agent's default when absent.
 */
model: string | null, } | { "name": "mode",
/**
 * The mode's name.
 */
mode: string, } | { "name": "thinking",
/**
 * The budget in tokens; the agent's default when absent.
 */
tokens: number | null, } | { "name": "environment",
/**
 * The names.
 */
names: Array<string>, };

/**
 * A rule that is compared with the recorded requests.
 */
export type SimulateRule = {
/**
 * The rule.
 */
rule: RuleDraft,
/**
 * Only requests of this time or later.
 */
since?: Millis, };

/**
 * How a request of the past ended.
 */
export type SimulatedEnd = "allowed" | "denied" | "expired" | "interrupted" | "withdrawn" | "not answered";

/**
 * A request that a rule would have decided.
 */
export type SimulatedRequest = {
/**
 * The session.
 */
session: SessionId,
/**
 * The request.
 */
request: RequestId,
/**
 * What was asked, in a line.
 */
title: string,
/**
 * How the request ended.
 */
ended: SimulatedEnd, };

/**
 * What a rule would have answered in one session.
 */
export type SimulatedSession = {
/**
 * The session.
 */
session: SessionId,
/**
 * Its name.
 */
name: string,
/**
 * Requests that the rule would have decided.
 */
covered: number, };

/**
 * What a rule would have answered.
 */
export type Simulation = {
/**
 * Requests that were looked at.
 */
requests: number,
/**
 * Requests that the rule would have decided.
 */
covered: number,
/**
 * Of those, requests that a person was asked about.
 */
asked: number,
/**
 * Of those, requests that a person answered in another way than the rule would have.
 */
against: number,
/**
 * By session, the newest first.
 */
sessions: Array<SimulatedSession>,
/**
 * Some of the requests that the rule would have decided.
 */
examples: Array<SimulatedRequest>,
/**
 * There were more requests than one simulation looks at.
 */
truncated: boolean, };

/**
 * One option of `SessionSpec`, for `Capabilities::options`.
 */
export type SpecOption = "cwd" | "prompt" | "name" | "model" | "mode" | "env" | "system_prompt" | "allowed_tools" | "disallowed_tools" | "mcp_servers" | "subagents" | "hooks" | "setting_sources" | "extra_dirs" | "max_turns" | "max_budget_usd" | "json_schema" | "resume" | "fork";

/**
 * What was used.
 */
export type Spending = {
/**
 * The cost, as far as agents report it; absent if no turn reported its cost.
 */
cost_usd?: Usd,
/**
 * Tokens that models read and wrote. Tokens from a cache do not count.
 */
tokens: number,
/**
 * Turns that ended.
 */
turns: number,
/**
 * The turns of unknown cost, because the agent did not report it. `cost_usd` does not include them.
 */
unpriced_turns: number,
/**
 * A part of `tokens` is an estimate: the sum of a turn that still runs, or that ended without a figure.
 */
estimated?: boolean, };

/**
 * The progress of a command.
 */
export type Stage = { "stage": "accepted" } | { "stage": "sending" } | { "stage": "delivered" } | { "stage": "consumed",
/**
 * The result of the command, if there is one.
 */
result?: JsonValue, } | { "stage": "refused",
/**
 * The reason.
 */
refusal: Refusal, } | { "stage": "uncertain",
/**
 * The reason.
 */
reason: string, };

/**
 * How far a budget is spent, by the limit that binds.
 */
export type Standing = {
/**
 * The budget's id.
 */
budget: BudgetId,
/**
 * Whose use the budget counts.
 */
scope: BudgetScope,
/**
 * When the budget begins again by itself; absent for never.
 */
per?: Period,
/**
 * How far the budget is spent.
 */
level: BudgetLevel,
/**
 * The limit that binds.
 */
measure: Measure,
/**
 * What is spent, in the unit of the measure.
 */
spent: number,
/**
 * The limit, in the same unit.
 */
limit: number,
/**
 * `spent` holds an estimate.
 */
estimated?: boolean, };

/**
 * Where a reader begins.
 */
export type Start = { "after": Seq } | { "tail": number };

/**
 * Everything that a new reader must know besides the history.
 */
export type State = {
/**
 * The session's line in lists.
 */
summary: Summary,
/**
 * The session's settings, with secrets masked.
 */
spec: SessionSpec,
/**
 * What the agent supports.
 */
capabilities: Capabilities,
/**
 * The number of the agent's start.
 */
generation: Generation,
/**
 * The agent's process id.
 */
pid?: number,
/**
 * The process that holds the agent, if the agent outlives the daemon.
 */
holder?: HolderInfo,
/**
 * Somebody stopped the agent, and nobody has used it since.
 */
stopped: boolean,
/**
 * What the agent reported about itself.
 */
agent: AgentInfo,
/**
 * The thinking budget, if set.
 */
thinking?: number,
/**
 * What the agent is doing.
 */
activity?: string,
/**
 * The running turn.
 */
turn?: OpenTurn,
/**
 * Items that are streaming, oldest first.
 */
items: Array<OpenItem>,
/**
 * Tool calls without their result, oldest first.
 */
tools: Array<OpenTool>,
/**
 * Running subagents.
 */
subagents: Array<OpenSubagent>,
/**
 * Running background tasks.
 */
tasks: Array<Task>,
/**
 * Waiting requests, oldest first.
 */
requests: Array<Request>,
/**
 * How the last requests ended, so that the sender of a late answer learns who answered first.
 */
closed_requests: Array<ClosedRequest>,
/**
 * Unsettled commands, oldest first; prompts that are accepted but not sending are the queue. Uncertain commands
 * stay until they are sent again or withdrawn.
 */
commands: Array<OpenCommand>,
/**
 * The agent's list of steps.
 */
plan: Array<PlanStep>,
/**
 * The MCP servers.
 */
mcp_servers: Array<McpServer>,
/**
 * The texts of this session's own rules that allow: `TOOL` or `TOOL(PATTERN)`.
 */
rules: Array<string>,
/**
 * This session's own rules.
 */
session_rules?: Array<Rule>,
/**
 * This session's own budget.
 */
budget?: SessionBudget,
/**
 * The budgets of this session that are nearly or wholly spent.
 */
budgets?: Array<Standing>,
/**
 * Tokens so far.
 */
usage: TokenUsage,
/**
 * Tokens so far by model.
 */
by_model: { [key in string]: ModelUsage },
/**
 * Tokens in the context window at the last request to the model.
 */
context_used?: number,
/**
 * The size of the context window in tokens.
 */
context_window: number, };

/**
 * The status of a session.
 */
export type Status = "starting" | "connected" | "active" | "idle" | "disconnected" | "terminated" | "error";

/**
 * A subagent that the agent may call.
 */
export type SubagentDefinition = {
/**
 * When to use the subagent.
 */
description: string,
/**
 * The subagent's system prompt.
 */
prompt: string,
/**
 * The subagent's tools; all tools when absent.
 */
tools?: Array<string>,
/**
 * The subagent's model; the session's model when absent.
 */
model?: string, };

/**
 * A session's line in a list.
 */
export type Summary = {
/**
 * The session's id.
 */
session: SessionId,
/**
 * The agent kind.
 */
agent: string,
/**
 * The session's name, or the beginning of its first prompt.
 */
name: string,
/**
 * The session's folder.
 */
cwd: string,
/**
 * The session's status.
 */
status: Status,
/**
 * The error, with status `error`.
 */
error?: string,
/**
 * The agent had nothing to do and was ended; the next prompt starts it again. `status` is then `terminated`.
 */
asleep: boolean,
/**
 * The session is archived.
 */
archived: boolean,
/**
 * When the session was created.
 */
created_at: Millis,
/**
 * When something last happened in the session.
 */
active_at: Millis,
/**
 * The agent's own session id.
 */
agent_session?: string,
/**
 * The model.
 */
model?: string,
/**
 * The permission mode.
 */
mode?: string,
/**
 * The number of requests that wait for an answer.
 */
waiting: number,
/**
 * The number of prompts in the queue.
 */
queued: number,
/**
 * The number of turns.
 */
turns: number,
/**
 * The session's cost so far; unknown when absent.
 */
cost_usd?: number,
/**
 * Why prompts wait: the budget that is spent, in words.
 */
over_budget?: string,
/**
 * The session and entry that this session was forked from.
 */
forked_from?: ForkPoint, };

/**
 * Instructions for the agent before every prompt.
 */
export type SystemPrompt = { "how": "replace", "text": string } | { "how": "append", "text": string };

/**
 * The body of a REST request that imports a past conversation.
 */
export type TakeUpPast = {
/**
 * The same id sent twice creates one session; `Idempotency-Key` does the same.
 */
id?: CommandId,
/**
 * The agent's own id of the conversation, or a unique beginning or end.
 */
past: string,
/**
 * Keep the original conversation unchanged: the agent continues in a copy.
 */
copy?: boolean,
/**
 * The session's other settings.
 */
spec: SessionSpec, };

/**
 * A background task.
 */
export type Task = {
/**
 * The task's id.
 */
task: string,
/**
 * The tool call that started the task.
 */
tool?: string,
/**
 * The task's kind in the agent's own word: `local_agent`, `local_bash`, …
 */
task_type?: string,
/**
 * The purpose of the task.
 */
description?: string,
/**
 * The task's progress.
 */
status: TaskStatus,
/**
 * What the task did, in words.
 */
summary?: string,
/**
 * The file with the task's output.
 */
output_file?: string,
/**
 * What the task used.
 */
work?: WorkDone, };

/**
 * The progress of a task.
 */
export type TaskStatus = "running" | "completed" | "failed" | "stopped";

/**
 * A call that policy is asked about. Nothing runs.
 */
export type TestRule = {
/**
 * The tool's name.
 */
tool: string,
/**
 * The tool's input.
 */
input: JsonValue,
/**
 * The session's folder, an absolute path. Needed without a session.
 */
cwd?: string,
/**
 * The session's mode; `default` when absent.
 */
mode?: Mode,
/**
 * Ask for this session: its folder, its mode and its own rules count.
 */
session?: SessionId, };

/**
 * The public name of a token, not the token's secret.
 */
export type TokenId = string;

/**
 * A token, without its secret.
 */
export type TokenInfo = {
/**
 * The token's public name.
 */
token: TokenId,
/**
 * The token's name for people.
 */
name: string,
/**
 * The token's role.
 */
role: Role,
/**
 * The sessions that the token is bound to; all sessions when absent.
 */
sessions?: Array<SessionId>,
/**
 * When the token was created.
 */
created_at: Millis,
/**
 * When the token expires; never when absent.
 */
expires_at?: Millis,
/**
 * When the token was last used.
 */
used_at?: Millis, };

/**
 * Tokens of one request, turn, agent or session.
 */
export type TokenUsage = {
/**
 * Input tokens that were not in a cache.
 */
input: number,
/**
 * Output tokens.
 */
output: number,
/**
 * Tokens written into the cache.
 */
cache_creation: number,
/**
 * Tokens read from the cache.
 */
cache_read: number, };

/**
 * The kind of a tool, so that a frontend can show the tool without knowing every agent's names.
 */
export type ToolKind = "execute" | "read" | "edit" | "search" | "fetch" | "subagent" | "think" | "mcp" | "other";

/**
 * How a tool or a subagent ended.
 */
export type ToolOutcome = "done" | "failed" | "denied" | "interrupted";

/**
 * The transport to an agent, and the reason for it.
 */
export type Transport = {
/**
 * The transport's name, such as `stdio`.
 */
name: string,
/**
 * Why Portolan uses this transport.
 */
why: string, };

/**
 * The cause of a turn.
 */
export type TurnOrigin = "prompt" | "agent";

/**
 * How a turn ended.
 */
export type TurnOutcome = "completed" | "interrupted" | "failed" | "max_turns" | "max_budget" | "structured_output_failed";

/**
 * The result of a turn.
 */
export type TurnResult = {
/**
 * How the turn ended.
 */
outcome: TurnOutcome,
/**
 * The error, if there is one.
 */
error?: ErrorInfo,
/**
 * The agent's last words, if the agent reports them.
 */
text?: string,
/**
 * The result that matches the JSON Schema.
 */
structured?: JsonValue,
/**
 * Why the model stopped.
 */
stop_reason?: string,
/**
 * The number of steps.
 */
steps?: number,
/**
 * The duration of the turn, in milliseconds.
 */
duration_ms?: number,
/**
 * The part of the duration that the model took, in milliseconds.
 */
duration_api_ms?: number,
/**
 * The tokens of this turn.
 */
usage?: TokenUsage,
/**
 * The tokens of this turn by model, subagents included.
 */
by_model?: { [key in string]: ModelUsage },
/**
 * The cost of this turn; unknown when absent.
 */
cost_usd?: number,
/**
 * The number of lines added to files, if the agent reports it.
 */
lines_added?: number,
/**
 * The number of lines removed from files, if the agent reports it.
 */
lines_removed?: number, };

/**
 * A limit of an account.
 */
export type UsageLimit = {
/**
 * The used part of the limit, in percent.
 */
used_percent: number,
/**
 * The limit's period in minutes, if the agent reports it.
 */
window_minutes?: number,
/**
 * When the limit's next period begins, if the agent reports it.
 */
resets_at?: Millis, };

/**
 * US dollars. Whole billionths inside, so that the order of a sum does not matter; a number of dollars on the wire.
 */
export type Usd = number;

/**
 * Whether an agent's own option allows or denies. A denial must never be sent as an approval, whatever the option is
 * called.
 */
export type Verdict = "allow" | "deny";

/**
 * A request in the inbox.
 */
export type Waiting = {
/**
 * The session.
 */
session: SessionId,
/**
 * The request.
 */
request: Request, };

/**
 * What the sender of a refused command can do. The refusal's `retry_after_ms` says when to try again.
 *
 * A later version may add kinds; ignore unknown kinds.
 */
export type WayOut = { "kind": "list_sessions" } | { "kind": "new_session" } | { "kind": "use_session",
/**
 * The session.
 */
session: SessionId, } | { "kind": "resume_session",
/**
 * The session.
 */
session: SessionId, } | { "kind": "stop_session",
/**
 * The session.
 */
session: SessionId, } | { "kind": "send_again",
/**
 * The session.
 */
session: SessionId,
/**
 * The command's entry.
 */
command: Seq, } | { "kind": "end_another_agent",
/**
 * The setting's key.
 */
setting: string, } | { "kind": "list_past" } | { "kind": "name_folder",
/**
 * The agent's kind.
 */
agent: string, } | { "kind": "copy_past" } | { "kind": "change_setting",
/**
 * The setting's key.
 */
key: string, } | { "kind": "list_budgets" } | { "kind": "ask_for_role",
/**
 * The role.
 */
role: Role, } | { "kind": "remove_rule",
/**
 * The rule.
 */
rule: RuleId, } | { "kind": "list_tokens" } | { "kind": "revoke_token" } | { "kind": "rotate_owner_token" };

/**
 * What a subagent or task used.
 */
export type WorkDone = {
/**
 * The number of tokens.
 */
tokens: number,
/**
 * The number of tool calls.
 */
tool_uses: number,
/**
 * The duration in milliseconds.
 */
duration_ms: number, };

/**
 * The client, as the server identified it.
 */
export type You = {
/**
 * The token's public name.
 */
token: TokenId,
/**
 * The token's name for people.
 */
name: string,
/**
 * The token's role.
 */
role: Role,
/**
 * The sessions that the token is bound to; all sessions when absent.
 */
sessions?: Array<SessionId>, };
