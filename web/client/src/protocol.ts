// The native protocol of Portolan, version 1. Generated; docs/protocol.md says what it means.
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
 * Whose account an agent uses.
 */
export type Account = {
/**
 * The address.
 */
email?: string,
/**
 * The organisation.
 */
organization?: string,
/**
 * The plan.
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
 * Whose it is.
 */
agent: string,
/**
 * The page of a login that is under way.
 */
under_way?: LoginPage,
/**
 * Why the last login through Portolan failed.
 */
failed?: string,
/**
 * Whether anyone is; absent where the agent needs no login, or does not tell.
 */
login?: Login,
/**
 * Who, where it tells.
 */
account?: Account,
/**
 * How much of what the account may use is used, where it tells.
 */
limits?: Array<UsageLimit>, };

/**
 * What someone asks of a session.
 */
export type Action = { "name": "prompt",
/**
 * What.
 */
content: Array<Content>, } | { "name": "answer",
/**
 * Which.
 */
request: RequestId,
/**
 * The digest that was shown, to be sure that it is still what is asked.
 */
digest?: string,
/**
 * What.
 */
answer: Answer, } | { "name": "interrupt" } | { "name": "stop" } | { "name": "resume" } | { "name": "rename",
/**
 * The new one.
 */
to: string, } | { "name": "archive",
/**
 * Away or out.
 */
archived: boolean, } | { "name": "set_model",
/**
 * To which; the agent's default when absent.
 */
model: string | null, } | { "name": "set_mode",
/**
 * To which.
 */
mode: string, } | { "name": "set_thinking",
/**
 * To how many tokens; the agent's default when absent.
 */
tokens: number | null, } | { "name": "set_environment",
/**
 * By name.
 */
variables: { [key in string]: string }, } | { "name": "rewind",
/**
 * The prompt's entry.
 */
to: Seq,
/**
 * Only tell what would change.
 */
dry_run: boolean, } | { "name": "mcp_status" } | { "name": "mcp_reconnect",
/**
 * Which.
 */
server: string, } | { "name": "mcp_toggle",
/**
 * Which.
 */
server: string,
/**
 * On or off.
 */
enabled: boolean, } | { "name": "mcp_set",
/**
 * By name, in the agent's own form.
 */
servers: { [key in string]: JsonValue },
/**
 * Those set before stay, but for the ones named here. Else these are all there are.
 */
keep?: boolean, } | { "name": "mcp_message",
/**
 * Which.
 */
server: string,
/**
 * The message.
 */
message: JsonValue, } | { "name": "context" } | { "name": "stop_task",
/**
 * Which.
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
command: Seq, } | { "name": "remove_rule",
/**
 * The tool it is about.
 */
tool_name: string, } | { "name": "native",
/**
 * The message.
 */
body: JsonValue, };

/**
 * Who caused an entry. Entries without an actor come from the agent.
 */
export type Actor = { "kind": "person",
/**
 * Whose token.
 */
token: TokenId,
/**
 * The name people see.
 */
name: string,
/**
 * The frontend used.
 */
via: string, } | { "kind": "policy",
/**
 * The rule, as people read it.
 */
rule: string, } | { "kind": "deadline" } | { "kind": "agent" } | { "kind": "daemon" } | { "kind": "imported" };

/**
 * An agent as frontends list it.
 */
export type AgentDescription = {
/**
 * Its kind, such as `demo`.
 */
kind: string,
/**
 * What people call it.
 */
title: string,
/**
 * What it can do.
 */
capabilities: Capabilities,
/**
 * What a look at it found; absent while nobody has looked.
 */
probe?: Probe, };

/**
 * What the agent told about itself.
 */
export type AgentInfo = {
/**
 * The agent's own session id: what resumes it.
 */
agent_session?: string,
/**
 * Its version.
 */
version?: string,
/**
 * The folder it works in.
 */
cwd?: string,
/**
 * The model in use.
 */
model?: string,
/**
 * The permission mode in force.
 */
mode?: string,
/**
 * The tools it has.
 */
tools?: Array<string>,
/**
 * The MCP servers it has.
 */
mcp_servers?: Array<McpServer>,
/**
 * The slash commands it has.
 */
commands?: Array<CommandInfo>,
/**
 * The models it can use.
 */
models?: Array<ModelInfo>,
/**
 * The permission modes it has.
 */
modes?: Array<string>,
/**
 * Whose account it uses.
 */
account?: Account,
/**
 * The subagents it knows.
 */
subagents?: Array<string>,
/**
 * Its skills.
 */
skills?: Array<string>,
/**
 * Its plugins.
 */
plugins?: Array<JsonValue>,
/**
 * The style it writes in.
 */
output_style?: string,
/**
 * The styles it could write in.
 */
output_styles?: Array<string>,
/**
 * Where its key comes from.
 */
api_key_source?: string,
/**
 * Fast mode, in the agent's own words.
 */
fast_mode?: string,
/**
 * What it can do, where it tells only once it runs. Replaces what was known.
 */
capabilities?: Capabilities,
/**
 * Features the agent names beyond all this.
 */
features?: Array<string>, };

/**
 * How many agents run on this machine.
 */
export type AgentsRunning = {
/**
 * As many run now.
 */
running: number,
/**
 * As many may run at once; any number when absent.
 */
limit?: number, };

/**
 * What someone answers.
 */
export type Answer = { "kind": "allow",
/**
 * Edited input; the original when absent.
 */
input?: JsonValue,
/**
 * How long it holds.
 */
scope: Scope,
/**
 * The mode to go on in, after a plan.
 */
mode?: string,
/**
 * One of the agent's own options, by id.
 */
option?: string, } | { "kind": "deny",
/**
 * Why; the agent is told.
 */
message?: string,
/**
 * End the turn too.
 */
interrupt: boolean,
/**
 * One of the agent's own options, by id.
 */
option?: string, } | { "kind": "choices",
/**
 * A question left out was not answered.
 */
answers: { [key in string]: Array<string> }, } | { "kind": "content",
/**
 * What was asked for.
 */
content: JsonValue, } | { "kind": "output",
/**
 * All of it.
 */
output: JsonValue, };

/**
 * The body of a REST request that puts a past conversation away, or takes it out again.
 */
export type ArchivePast = {
/**
 * The agent's own id of the conversation, or a unique beginning or end.
 */
past: string,
/**
 * The agent that has kept it; any when empty.
 */
agent?: string,
/**
 * Away or out.
 */
archived: boolean, };

/**
 * What the agent wants to know.
 */
export type Ask = { "kind": "permission",
/**
 * The tool's name.
 */
tool_name: string,
/**
 * What it would be called with.
 */
input: JsonValue,
/**
 * One line for people.
 */
description?: string,
/**
 * The changes to files it would make, where known.
 */
changes?: Array<FileChange>,
/**
 * Why the agent asks.
 */
reason?: string,
/**
 * The path that made it ask.
 */
blocked_path?: string,
/**
 * Permission updates the agent itself proposes, in its own form. Some widen more than this one tool.
 */
suggestions?: Array<JsonValue>,
/**
 * The decisions the agent offers beyond allow and deny, by its own names.
 */
options?: Array<AskOption>, } | { "kind": "question",
/**
 * At least one.
 */
questions: Array<Question>, } | { "kind": "plan",
/**
 * The plan, in Markdown; absent where the agent does not tell it.
 */
plan?: string,
/**
 * The input of the call that asked, to be echoed.
 */
input: JsonValue, } | { "kind": "elicitation",
/**
 * Which server.
 */
server: string,
/**
 * Its words.
 */
message: string,
/**
 * JSON Schema of the answer, or nothing for a plain confirmation.
 */
schema?: JsonValue,
/**
 * A page to open instead.
 */
url?: string, } | { "kind": "hook",
/**
 * The agent's name for the event.
 */
event: string,
/**
 * What the hook is told.
 */
input: JsonValue, } | { "kind": "other",
/**
 * The agent's name for it.
 */
name: string,
/**
 * All of it.
 */
body: JsonValue, };

/**
 * A decision an agent offers by its own name.
 */
export type AskOption = {
/**
 * What goes back to the agent.
 */
id: string,
/**
 * What people read.
 */
label: string,
/**
 * Which answer it belongs to.
 */
verdict: Verdict, };

/**
 * How much an agent asks in one of its modes.
 */
export type Asks = "everything" | "some" | "nothing" | "unknown";

/**
 * A browser that is logged in.
 */
export type BrowserInfo = {
/**
 * Its public name; opens nothing.
 */
browser: string,
/**
 * The token on which its login hangs.
 */
token: TokenId,
/**
 * What people call that token.
 */
name: string,
/**
 * What it may do.
 */
role: Role,
/**
 * When it logged in.
 */
logged_in_at: Millis,
/**
 * When it was last here.
 */
seen_at: Millis,
/**
 * From where it logged in.
 */
address?: string,
/**
 * What it says it is, shortened.
 */
user_agent?: string, };

/**
 * What a client can ask.
 */
export type Call = { "type": "list",
/**
 * Archived ones, others, or (absent) both.
 */
archived?: boolean,
/**
 * Only those older than this one, for the next page.
 */
before?: SessionId,
/**
 * At most so many; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "resolve",
/**
 * At least 4 characters.
 */
prefix: string, } | { "type": "create",
/**
 * What it is made of.
 */
spec: SessionSpec, } | { "type": "past",
/**
 * Only of this agent.
 */
agent?: string,
/**
 * Only those held in this folder or below it.
 */
cwd?: string,
/**
 * Those that the agent has put away, instead of the others.
 */
archived?: boolean,
/**
 * At most so many; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "take_up",
/**
 * The agent's own id of the conversation, or a unique beginning or end of 4 characters or more.
 */
past: string,
/**
 * Leave that one as it is: the agent goes on in a copy.
 */
copy?: boolean,
/**
 * What the session is made of beside. An empty `agent` is any that has the conversation; without `cwd` it is
 * the folder that the conversation was held in.
 */
spec: SessionSpec, } | { "type": "archive_past" } & ArchivePast | { "type": "delete",
/**
 * Which.
 */
session: SessionId, } | { "type": "attach",
/**
 * Which.
 */
session: SessionId,
/**
 * From where.
 */
start: Start,
/**
 * Only finished items, no deltas.
 */
items_only?: boolean, } | { "type": "detach",
/**
 * Which.
 */
session: SessionId, } | { "type": "subscribe",
/**
 * From where.
 */
start: Start, } | { "type": "unsubscribe" } | { "type": "command",
/**
 * Of which.
 */
session: SessionId,
/**
 * What.
 */
command: Action, } | { "type": "state",
/**
 * Which.
 */
session: SessionId, } | { "type": "history",
/**
 * Of which session.
 */
session: SessionId,
/**
 * Entries after this number.
 */
after: Seq,
/**
 * Up to this number; the newest when absent.
 */
upto?: Seq,
/**
 * At most so many; 1,000 at most.
 */
limit?: number, } | { "type": "files",
/**
 * Below the folder of which session.
 */
session: SessionId,
/**
 * What the path holds, in any case; at most 256 characters. Everything when empty.
 */
query?: string,
/**
 * At most so many; 20 when absent, 100 at most.
 */
limit?: number, } | { "type": "raw",
/**
 * In which session.
 */
session: SessionId,
/**
 * Which entry.
 */
seq: Seq, } | { "type": "environment",
/**
 * Which session.
 */
session: SessionId, } | { "type": "agents",
/**
 * Look at each of them anew.
 */
probe: boolean, } | { "type": "account",
/**
 * Which agent.
 */
agent: string, } | { "type": "log_in",
/**
 * Which agent.
 */
agent: string,
/**
 * How.
 */
with: LogIn, } | { "type": "log_out",
/**
 * Which agent.
 */
agent: string, } | { "type": "token_create" } & CreateToken | { "type": "token_list" } | { "type": "token_revoke",
/**
 * Which.
 */
token: TokenId, } | { "type": "ticket_create" } | { "type": "pair" } & CreateToken | { "type": "browser_list" } | { "type": "browser_log_out",
/**
 * Which.
 */
browser: string, } | { "type": "ping" };

/**
 * What an agent can do, known before a session exists and refined once it runs.
 */
export type Capabilities = {
/**
 * Text arrives while it is written.
 */
streaming: boolean,
/**
 * A running turn can be stopped.
 */
interrupt: boolean,
/**
 * A prompt that waits in Portolan's queue can be put into the turn that runs. Where `prompt_queue` is `agent`,
 * nothing waits there: the agent has it already.
 */
steering: boolean,
/**
 * A session can be taken up again after its process has ended.
 */
session_resume: boolean,
/**
 * Taking it up again loses nothing, however often: the process may be ended while it has nothing to do.
 */
reliable_resume?: boolean,
/**
 * The model can change in a running session.
 */
model_switching: boolean,
/**
 * There are permission modes.
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
 * MCP servers can be used and asked about.
 */
mcp: boolean,
/**
 * MCP servers can be added, restarted and switched in a running session.
 */
mcp_changes: boolean,
/**
 * A permission can be given for an input that was edited.
 */
edited_input: boolean,
/**
 * The result can be made to fit a JSON Schema.
 */
structured_output: boolean,
/**
 * Prompts may hold images.
 */
image_input: boolean,
/**
 * Files can be taken back to an earlier state.
 */
file_checkpointing: boolean,
/**
 * Cost is told, or can be computed.
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
 * A fork may begin at a point in the past.
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
 * The context window's contents can be asked for.
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
 * Who holds a prompt that arrives while a turn runs.
 */
prompt_queue: PromptQueue,
/**
 * How the agent is spoken to.
 */
native_protocol: NativeProtocol,
/**
 * Which options a new session of this agent takes.
 */
options: Array<SpecOption>,
/**
 * The ways in which it can be logged in and out through Portolan; none where it cannot.
 */
logins?: Array<LoginWay>,
/**
 * A conversation that the agent has kept by itself can be put away in its own list.
 */
past_archive?: boolean,
/**
 * The models, where known.
 */
supported_models?: Array<ModelInfo>,
/**
 * The permission modes, where known.
 */
supported_permission_modes?: Array<string>,
/**
 * How much the agent asks in each of its modes. A mode that is not named here is `unknown`. The first mode that asks
 * everything is the one that the agent works in where nobody names another.
 */
mode_asks?: { [key in string]: Asks },
/**
 * The slash commands, where known.
 */
supported_commands?: Array<CommandInfo>, };

/**
 * What is done to a file.
 */
export type ChangeKind = "create" | "modify" | "delete" | "rename";

/**
 * One choice of a question.
 */
export type Choice = {
/**
 * What is chosen.
 */
label: string,
/**
 * What it means.
 */
description?: string, };

/**
 * Every other frame from the client: a call, under an id that the reply repeats.
 */
export type ClientFrame = {
/**
 * Made by the client. For `command`, `create` and `take_up` it is also the key under which the thing is done at most
 * once.
 */
id: CommandId, } & ({ "type": "list",
/**
 * Archived ones, others, or (absent) both.
 */
archived?: boolean,
/**
 * Only those older than this one, for the next page.
 */
before?: SessionId,
/**
 * At most so many; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "resolve",
/**
 * At least 4 characters.
 */
prefix: string, } | { "type": "create",
/**
 * What it is made of.
 */
spec: SessionSpec, } | { "type": "past",
/**
 * Only of this agent.
 */
agent?: string,
/**
 * Only those held in this folder or below it.
 */
cwd?: string,
/**
 * Those that the agent has put away, instead of the others.
 */
archived?: boolean,
/**
 * At most so many; 100 when absent, 1,000 at most.
 */
limit?: number, } | { "type": "take_up",
/**
 * The agent's own id of the conversation, or a unique beginning or end of 4 characters or more.
 */
past: string,
/**
 * Leave that one as it is: the agent goes on in a copy.
 */
copy?: boolean,
/**
 * What the session is made of beside. An empty `agent` is any that has the conversation; without `cwd` it is
 * the folder that the conversation was held in.
 */
spec: SessionSpec, } | { "type": "archive_past" } & ArchivePast | { "type": "delete",
/**
 * Which.
 */
session: SessionId, } | { "type": "attach",
/**
 * Which.
 */
session: SessionId,
/**
 * From where.
 */
start: Start,
/**
 * Only finished items, no deltas.
 */
items_only?: boolean, } | { "type": "detach",
/**
 * Which.
 */
session: SessionId, } | { "type": "subscribe",
/**
 * From where.
 */
start: Start, } | { "type": "unsubscribe" } | { "type": "command",
/**
 * Of which.
 */
session: SessionId,
/**
 * What.
 */
command: Action, } | { "type": "state",
/**
 * Which.
 */
session: SessionId, } | { "type": "history",
/**
 * Of which session.
 */
session: SessionId,
/**
 * Entries after this number.
 */
after: Seq,
/**
 * Up to this number; the newest when absent.
 */
upto?: Seq,
/**
 * At most so many; 1,000 at most.
 */
limit?: number, } | { "type": "files",
/**
 * Below the folder of which session.
 */
session: SessionId,
/**
 * What the path holds, in any case; at most 256 characters. Everything when empty.
 */
query?: string,
/**
 * At most so many; 20 when absent, 100 at most.
 */
limit?: number, } | { "type": "raw",
/**
 * In which session.
 */
session: SessionId,
/**
 * Which entry.
 */
seq: Seq, } | { "type": "environment",
/**
 * Which session.
 */
session: SessionId, } | { "type": "agents",
/**
 * Look at each of them anew.
 */
probe: boolean, } | { "type": "account",
/**
 * Which agent.
 */
agent: string, } | { "type": "log_in",
/**
 * Which agent.
 */
agent: string,
/**
 * How.
 */
with: LogIn, } | { "type": "log_out",
/**
 * Which agent.
 */
agent: string, } | { "type": "token_create" } & CreateToken | { "type": "token_list" } | { "type": "token_revoke",
/**
 * Which.
 */
token: TokenId, } | { "type": "ticket_create" } | { "type": "pair" } & CreateToken | { "type": "browser_list" } | { "type": "browser_log_out",
/**
 * Which.
 */
browser: string, } | { "type": "ping" });

/**
 * Who a client is.
 */
export type ClientInfo = {
/**
 * Such as `portolan-cli`; shown to others as the frontend used.
 */
name: string,
/**
 * Its version.
 */
version: string, };

/**
 * Why nothing more will come.
 */
export type Closed = "deleted" | "stopping" | "failed";

/**
 * A request that waits no longer.
 */
export type ClosedRequest = {
/**
 * Which.
 */
request: RequestId,
/**
 * How it ended.
 */
outcome: Outcome, };

/**
 * Why the server closes a connection.
 */
export type ClosingReason = "stopping" | "too_slow" | "token_gone" | "protocol";

/**
 * A command's id, made by its sender and scoped to (token, session): the same id is never done twice.
 */
export type CommandId = string;

/**
 * A slash command the agent offers.
 */
export type CommandInfo = {
/**
 * Without the slash.
 */
name: string,
/**
 * One line about it.
 */
description: string,
/**
 * What may follow it.
 */
argument_hint?: string, };

/**
 * Who sent a command and under which id: the key under which it is done at most once.
 */
export type CommandKey = {
/**
 * The sender's token.
 */
token: TokenId,
/**
 * The sender's id for it.
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
 * Such as `image/png`.
 */
media_type: string,
/**
 * Base64.
 */
data: string, } | { "type": "resource",
/**
 * Its address.
 */
uri: string,
/**
 * Its name.
 */
name?: string,
/**
 * Its text, where told.
 */
text?: string, } | { "type": "data",
/**
 * All of it.
 */
data: JsonValue, } | { "type": "other",
/**
 * All of it.
 */
body: JsonValue, };

/**
 * The body of a REST request for a new session.
 */
export type CreateSession = {
/**
 * Sent twice, it makes one session; `Idempotency-Key` does the same.
 */
id?: CommandId,
/**
 * What it is made of. It works in a folder, or in that of the session it is forked from.
 */
spec: SessionSpec, };

/**
 * The body of a REST request for a new token.
 */
export type CreateToken = {
/**
 * What people call it.
 */
name: string,
/**
 * What it may do.
 */
role: Role,
/**
 * The sessions it is bound to; all when absent.
 */
sessions?: Array<SessionId>,
/**
 * For how many seconds it opens the door; for ever when absent.
 */
expires_in_seconds?: number, };

/**
 * What happened in the daemon: the log behind session lists, the inbox and audit.
 */
export type DaemonEvent = { "type": "started",
/**
 * Its version.
 */
version: string, } | { "type": "stopping" } | { "type": "session_created",
/**
 * What it is.
 */
summary: Summary, } | { "type": "session_changed",
/**
 * What it is now.
 */
summary: Summary, } | { "type": "session_deleted",
/**
 * Which.
 */
session: SessionId, } | { "type": "request_opened",
/**
 * In which session.
 */
session: SessionId,
/**
 * What.
 */
request: Request, } | { "type": "request_closed",
/**
 * In which session.
 */
session: SessionId,
/**
 * Which.
 */
request: RequestId,
/**
 * How it ended.
 */
outcome: Outcome, } | { "type": "token_created",
/**
 * Its public name.
 */
token: TokenId,
/**
 * What people call it.
 */
name: string,
/**
 * What it may do.
 */
role: Role, } | { "type": "token_revoked",
/**
 * Its public name.
 */
token: TokenId, } | { "type": "token_rotated",
/**
 * Its public name.
 */
token: TokenId, } | { "type": "door_opened",
/**
 * Whose it is, where it is not the main one: `insights`, `handheld`.
 */
frontend?: string,
/**
 * Some get in by it without a token.
 */
tokenless?: boolean,
/**
 * Where it listens.
 */
addresses: Array<string>,
/**
 * By TLS.
 */
tls: boolean,
/**
 * Names it answers to, beside its addresses.
 */
hosts: Array<string>,
/**
 * Origins whose pages may talk to it, beside its own.
 */
origins: Array<string>,
/**
 * What a proxy says about its clients is believed.
 */
behind_proxy: boolean, } | { "type": "logged_in",
/**
 * From where, as the door saw it.
 */
address?: string,
/**
 * Which, by the public name under which it is listed; absent in what was written before it was told.
 */
browser?: string, } | { "type": "logged_out",
/**
 * Which, by the public name under which it was listed; absent in what was written before it was told.
 */
browser?: string, } | { "type": "access_refused",
/**
 * From where, as the door saw it: an address, or a process at the Unix socket.
 */
from: string,
/**
 * How often since the last such line.
 */
attempts: number,
/**
 * What was wrong.
 */
reason: string, } | { "type": "auto_approval",
/**
 * Which frontend.
 */
frontend: string,
/**
 * It does.
 */
on: boolean,
/**
 * The tools that it approves.
 */
tools: Array<string>, } | { "type": "account_changed",
/**
 * Which agent.
 */
agent: string,
/**
 * Whether it is logged in now, where it tells.
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
 * Everything that waits for an answer, oldest first.
 */
requests: Array<Waiting>, };

/**
 * An error in words and as a kind.
 */
export type ErrorInfo = {
/**
 * The kind.
 */
kind: ErrorKind,
/**
 * What happened.
 */
message: string,
/**
 * What the user can do.
 */
way_out?: string, };

/**
 * Errors as kinds a user understands.
 */
export type ErrorKind = "auth" | "billing" | "rate_limit" | "overloaded" | "server" | "network" | "context_full" | "model_not_found" | "invalid_request" | "output_limit" | "refused" | "limit" | "agent" | "protocol" | "unknown";

/**
 * What happened in a session.
 */
export type Event = { "type": "session_created",
/**
 * What was asked for.
 */
spec: SessionSpec, } | { "type": "session_renamed",
/**
 * The new one.
 */
name: string, } | { "type": "session_archived",
/**
 * Away or out.
 */
archived: boolean, } | { "type": "imported",
/**
 * The conversation, by the agent's own id.
 */
past: string,
/**
 * The agent leaves that one as it is and goes on in a copy.
 */
copy?: boolean,
/**
 * How many entries came over.
 */
entries: number,
/**
 * How many did not: too many, or of a kind that has no place in the past.
 */
left_out: number,
/**
 * What this agent can do as far as is known before it runs.
 */
capabilities: Capabilities, } | { "type": "agent_starting",
/**
 * Which start this is.
 */
generation: Generation,
/**
 * What this agent can do as far as is known before it runs.
 */
capabilities: Capabilities,
/**
 * The agent's own session id, where an earlier conversation is taken up.
 */
resume?: string, } | { "type": "agent_started",
/**
 * Which start this is.
 */
generation: Generation,
/**
 * The process, where there is one of its own.
 */
pid?: number,
/**
 * The agent's version, where known.
 */
version?: string,
/**
 * How it is spoken to.
 */
protocol: NativeProtocol,
/**
 * What it can do.
 */
capabilities: Capabilities, } | { "type": "agent_ready",
/**
 * Which start this is.
 */
generation: Generation, } | { "type": "agent_info",
/**
 * What it told.
 */
info: AgentInfo, } | { "type": "link_lost",
/**
 * Why.
 */
reason: string, } | { "type": "link_restored" } | { "type": "agent_exited",
/**
 * Which start this was.
 */
generation: Generation,
/**
 * How it ended.
 */
exit: Exit, } | { "type": "turn_started",
/**
 * Counted from 1 within the session.
 */
turn: number,
/**
 * What set it off.
 */
origin: TurnOrigin, } | { "type": "turn_ended",
/**
 * Which turn.
 */
turn: number,
/**
 * What came of it.
 */
result: TurnResult, } | { "type": "activity",
/**
 * Its own word: `requesting`, `compacting`, …; absent when nothing special.
 */
activity: string | null, } | { "type": "prompt",
/**
 * The entry of the command.
 */
command: Seq,
/**
 * What.
 */
content: Array<Content>, } | { "type": "item_started",
/**
 * Its name, unique in the session.
 */
item: string,
/**
 * What it will be.
 */
kind: ItemKind,
/**
 * The message it is part of.
 */
message?: string,
/**
 * The subagent it belongs to, by the call that started it.
 */
parent?: string, } | { "type": "tool_named",
/**
 * Which item.
 */
item: string,
/**
 * The call, by the agent's own id.
 */
tool: string,
/**
 * The tool's name.
 */
name: string, } | { "type": "delta",
/**
 * Which item.
 */
item: string,
/**
 * What follows what came before.
 */
text: string, } | { "type": "message",
/**
 * The item that this ends, or a new name where nothing streamed.
 */
item: string,
/**
 * The message it is part of, by the agent's own id; parts of one message share it.
 */
message?: string,
/**
 * The subagent it belongs to, by the call that started it.
 */
parent?: string,
/**
 * The model that wrote it.
 */
model?: string,
/**
 * What it says.
 */
content: Array<Content>,
/**
 * It was cut off: this is what there was.
 */
interrupted?: boolean,
/**
 * Why the model stopped.
 */
stop_reason?: string, } | { "type": "tool_call",
/**
 * The call, by the agent's own id.
 */
tool: string,
/**
 * The item that this ends, where its input streamed.
 */
item?: string,
/**
 * The message it is part of.
 */
message?: string,
/**
 * The subagent that calls, by the call that started it.
 */
parent?: string,
/**
 * The tool's name.
 */
name: string,
/**
 * What sort of tool.
 */
kind: ToolKind,
/**
 * One line for people.
 */
title?: string,
/**
 * What it is called with.
 */
input: JsonValue,
/**
 * The changes to files it will make, where known.
 */
changes?: Array<FileChange>, } | { "type": "tool_progress",
/**
 * Which call.
 */
tool: string,
/**
 * The tool's name.
 */
name: string,
/**
 * The subagent that called.
 */
parent?: string,
/**
 * For how long.
 */
elapsed_seconds?: number, } | { "type": "tool_result",
/**
 * Which call.
 */
tool: string,
/**
 * The subagent that called.
 */
parent?: string,
/**
 * How it ended.
 */
outcome: ToolOutcome,
/**
 * What it gave.
 */
content: Array<Content>,
/**
 * The changes to files it made, where known.
 */
changes?: Array<FileChange>, } | { "type": "tool_summary",
/**
 * In words.
 */
summary: string,
/**
 * Which calls.
 */
tools: Array<string>, } | { "type": "plan",
/**
 * All of them, in order.
 */
steps: Array<PlanStep>,
/**
 * The subagent whose list it is.
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
 * How many tokens fit into the context, where told.
 */
context_window?: number, } | { "type": "compacted",
/**
 * Who asked for it: `manual` or `auto`.
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
 * The new id, where told.
 */
agent_session?: string,
/**
 * Why, where nobody asked for it; absent after a command such as `/clear`.
 */
reason?: ResetReason, } | { "type": "subagent_started",
/**
 * Its name: the tool call that started it.
 */
subagent: string,
/**
 * The subagent that started it; absent is the main agent.
 */
parent?: string,
/**
 * Which sort.
 */
subagent_type?: string,
/**
 * What it is for, in a few words.
 */
description: string,
/**
 * What it was told.
 */
prompt?: string,
/**
 * Its model.
 */
model?: string,
/**
 * The agent goes on meanwhile.
 */
background: boolean,
/**
 * The team it joins.
 */
team?: string, } | { "type": "subagent_ended",
/**
 * Which.
 */
subagent: string,
/**
 * How.
 */
outcome: ToolOutcome,
/**
 * What it did, in words.
 */
summary?: string,
/**
 * What it used.
 */
work?: WorkDone, } | { "type": "task_changed",
/**
 * What is known of it.
 */
task: Task, } | { "type": "request_opened",
/**
 * What it asks.
 */
request: Request, } | { "type": "request_closed",
/**
 * Which request.
 */
request: RequestId,
/**
 * How it ended.
 */
outcome: Outcome, } | { "type": "command_accepted",
/**
 * Under which id.
 */
key: CommandKey,
/**
 * What.
 */
action: Action, } | { "type": "receipt",
/**
 * The entry of the command.
 */
command: Seq, } & ({ "stage": "accepted" } | { "stage": "sending" } | { "stage": "delivered" } | { "stage": "consumed",
/**
 * What came of it, where something did.
 */
result?: JsonValue, } | { "stage": "refused",
/**
 * Why.
 */
refusal: Refusal, } | { "stage": "uncertain",
/**
 * What happened.
 */
reason: string, }) | { "type": "setting_changed",
/**
 * Which, and what.
 */
setting: Setting, } | { "type": "rule_added",
/**
 * The tool it is about.
 */
tool_name: string, } | { "type": "rule_removed",
/**
 * The tool it was about.
 */
tool_name: string, } | { "type": "mcp_servers",
/**
 * All of them.
 */
servers: Array<McpServer>, } | { "type": "retry",
/**
 * Which try failed.
 */
attempt: number,
/**
 * How many there will be.
 */
max?: number,
/**
 * The wait before the next one.
 */
delay_ms?: number,
/**
 * What went wrong.
 */
error: ErrorInfo, } | { "type": "failure",
/**
 * What.
 */
error: ErrorInfo,
/**
 * The session can go on.
 */
recoverable: boolean, } | { "type": "notice",
/**
 * How much it matters.
 */
level: Level,
/**
 * In words.
 */
text: string, } | { "type": "auth_status",
/**
 * It is at it now.
 */
authenticating: boolean,
/**
 * What it prints.
 */
output?: Array<string>,
/**
 * What went wrong.
 */
error?: string, } | { "type": "hook",
/**
 * This run of it.
 */
hook: string,
/**
 * Its name.
 */
name: string,
/**
 * What it is attached to.
 */
event: string,
/**
 * How far it is.
 */
status: HookStatus,
/**
 * What it printed, its exit code and the like.
 */
data?: JsonValue, } | { "type": "files_persisted",
/**
 * These were.
 */
files: Array<JsonValue>,
/**
 * These were not.
 */
failed?: Array<JsonValue>, } | { "type": "unknown",
/**
 * Who said it.
 */
source: string,
/**
 * The sender's own name for it.
 */
kind: string, };

/**
 * How a process ended.
 */
export type Exit = {
/**
 * Why.
 */
reason: ExitReason,
/**
 * Its exit code.
 */
code?: number,
/**
 * The signal that ended it.
 */
signal?: number,
/**
 * In words.
 */
message: string,
/**
 * The last of what it wrote to stderr, secrets masked.
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
 * Which file.
 */
path: string,
/**
 * What is done to it.
 */
change: ChangeKind,
/**
 * Where it was before, where it gets another name.
 */
from?: string,
/**
 * The unified diff, where known. What stands behind the numbers of a hunk says what its lines cannot: that every
 * occurrence is replaced, or which cell of a notebook it is.
 */
diff?: string,
/**
 * How much the diff would hold, where it is too large to be told. What is asked for then stands in the input.
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
 * The last entry both share; the newest one when absent.
 */
at?: Seq, };

/**
 * Which start of the agent within its session: 1 for the first process, one more for each after it.
 */
export type Generation = number;

/**
 * The first frame. Nothing else is answered before it.
 */
export type Greeting = { "type": "hello",
/**
 * The highest protocol version the client speaks.
 */
protocol: number,
/**
 * Who it is.
 */
client: ClientInfo,
/**
 * Browsers only: the key from origin storage that goes with the cookie.
 */
key?: string, };

/**
 * A hook the agent calls back for: an event name and what it must match.
 */
export type HookDefinition = {
/**
 * The agent's name for the event, such as `PreToolUse`.
 */
event: string,
/**
 * Which tools it fires for; all when absent.
 */
matcher?: string,
/**
 * After how many seconds the agent goes on without an answer.
 */
timeout_seconds?: number, };

/**
 * How far a hook is.
 */
export type HookStatus = "started" | "progress" | "completed";

/**
 * What an item will be.
 */
export type ItemKind = "text" | "thinking" | "tool_input" | "tool_output";

export type JsonValue = number | string | boolean | Array<JsonValue> | { [key in string]: JsonValue } | null;

/**
 * A diff that is too large to be told.
 */
export type LeftOut = {
/**
 * Lines it adds.
 */
added: number,
/**
 * Lines it removes.
 */
removed: number,
/**
 * Its length.
 */
bytes: number, };

/**
 * How much a notice matters.
 */
export type Level = "info" | "warning";

/**
 * What the server will not exceed or accept.
 */
export type Limits = {
/**
 * Bytes of one frame from the client.
 */
frame_bytes: number,
/**
 * Sessions one connection may be attached to at once.
 */
attachments: number, };

/**
 * The frames that core makes, for those who read them: clients, tests and the schema.
 */
export type LogFrame = { "type": "entry",
/**
 * Which session.
 */
session: SessionId,
/**
 * The entry's number.
 */
seq: Seq,
/**
 * When.
 */
at: Millis,
/**
 * Who caused it; absent is the agent.
 */
by?: Actor,
/**
 * What.
 */
event: Event, } | { "type": "daemon",
/**
 * The entry's number.
 */
seq: Seq,
/**
 * When.
 */
at: Millis,
/**
 * Who caused it; absent is the daemon.
 */
by?: Actor,
/**
 * What.
 */
event: DaemonEvent, } | { "type": "snapshot",
/**
 * Which session.
 */
session: SessionId,
/**
 * The last entry in it.
 */
seq: Seq,
/**
 * The state.
 */
state: State, } | { "type": "daemon_snapshot",
/**
 * The last entry in it.
 */
seq: Seq,
/**
 * The state.
 */
state: DaemonState, };

/**
 * A login as it is asked for.
 */
export type LogIn = { "way": "browser" } | { "way": "device_code" } | { "way": "api_key",
/**
 * The key. It is passed on to the agent, and neither kept nor shown.
 */
key: string, };

/**
 * Whether an agent is logged in.
 */
export type Login = { "state": "logged_in",
/**
 * How, in the agent's own words.
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
 * Its address.
 */
url: string,
/**
 * The code to type there, where it takes one.
 */
code?: string, };

/**
 * A way to log an agent in.
 */
export type LoginWay = "browser" | "device_code" | "api_key";

/**
 * An MCP server as the agent sees it.
 */
export type McpServer = {
/**
 * Its name.
 */
name: string,
/**
 * The agent's own word: `connected`, `failed`, `disabled`, …
 */
status: string,
/**
 * What went wrong.
 */
error?: string,
/**
 * The tools it gives.
 */
tools?: Array<string>,
/**
 * Where it is configured.
 */
scope?: string, };

/**
 * Milliseconds since 1970, UTC.
 */
export type Millis = number;

/**
 * A model the agent offers.
 */
export type ModelInfo = {
/**
 * What `set model` takes.
 */
id: string,
/**
 * What people read.
 */
display_name: string,
/**
 * One line about it.
 */
description?: string, };

/**
 * One model's share.
 */
export type ModelUsage = {
/**
 * Its tokens.
 */
usage: TokenUsage,
/**
 * How many tokens fit into its context.
 */
context_window?: number,
/**
 * How many tokens it can write at once.
 */
max_output?: number,
/**
 * What it cost, where known.
 */
cost_usd?: number, };

/**
 * How the agent is spoken to.
 */
export type NativeProtocol = "ndjson-ws" | "agent-sdk" | "rest-sse" | "json-rpc-stdio" | "acp" | "a2a" | "pty" | "demo";

/**
 * A command that is not settled.
 */
export type OpenCommand = {
/**
 * Its entry.
 */
seq: Seq,
/**
 * Its key.
 */
key: CommandKey,
/**
 * Who sent it.
 */
by: Actor,
/**
 * Its name, such as `prompt`.
 */
name: string,
/**
 * How far it is.
 */
stage: Stage,
/**
 * With a prompt: what was said.
 */
content?: Array<Content>, };

/**
 * An item that streams.
 */
export type OpenItem = {
/**
 * Its name.
 */
item: string,
/**
 * What it will be.
 */
kind: ItemKind,
/**
 * The message it is part of.
 */
message?: string,
/**
 * The subagent it belongs to.
 */
parent?: string,
/**
 * All of it so far.
 */
text: string, };

/**
 * A subagent at work.
 */
export type OpenSubagent = {
/**
 * The call that started it.
 */
subagent: string,
/**
 * The subagent that started it.
 */
parent?: string,
/**
 * Which sort.
 */
subagent_type?: string,
/**
 * What it is for.
 */
description: string,
/**
 * The agent goes on meanwhile.
 */
background: boolean, };

/**
 * A tool call without its result.
 */
export type OpenTool = {
/**
 * The call.
 */
tool: string,
/**
 * The tool's name.
 */
name: string,
/**
 * The subagent that called.
 */
parent?: string, };

/**
 * The running turn.
 */
export type OpenTurn = {
/**
 * Which.
 */
turn: number,
/**
 * What set it off.
 */
origin: TurnOrigin,
/**
 * Since when.
 */
started_at: Millis, };

/**
 * How a request ended. The first to come is the only one.
 */
export type Outcome = { "how": "answered",
/**
 * What.
 */
answer: Answer,
/**
 * Who.
 */
by: Actor, } | { "how": "expired" } | { "how": "interrupted",
/**
 * By whom.
 */
by: Actor, } | { "how": "withdrawn" } | { "how": "agent_gone",
/**
 * In words.
 */
reason: string, };

/**
 * A conversation that an agent has kept by itself, as frontends list it.
 */
export type PastDescription = {
/**
 * The agent kind.
 */
agent: string,
/**
 * The session under which it lives here already.
 */
session?: SessionId,
/**
 * The agent's own id: what resumes it.
 */
past: string,
/**
 * Its title, or how its first prompt begins.
 */
title: string,
/**
 * The folder it was held in.
 */
cwd?: string,
/**
 * When it began, where told.
 */
started_at?: Millis,
/**
 * When something was last added to it.
 */
updated_at: Millis,
/**
 * The version of the agent that began it, where told.
 */
version?: string,
/**
 * The process that has it open now, where one is seen: whoever goes on with it beside that one splits it in two.
 */
held_by?: number, };

/**
 * One step of a plan.
 */
export type PlanStep = {
/**
 * What is to be done.
 */
text: string,
/**
 * The agent's own word: `pending`, `in_progress`, `completed`, …
 */
status: string, };

/**
 * Someone who reads a session.
 */
export type Presence = {
/**
 * Whose token.
 */
token: TokenId,
/**
 * The name people see.
 */
name: string,
/**
 * What the token may do.
 */
role: Role,
/**
 * The frontend used.
 */
via: string,
/**
 * Since when.
 */
since: Millis, };

/**
 * What a look at an agent found.
 */
export type Probe = {
/**
 * It can be started.
 */
available: boolean,
/**
 * Its version, where known.
 */
version?: string,
/**
 * What was found, and the way out where something is missing.
 */
message: string,
/**
 * The program that would be started.
 */
program?: string,
/**
 * How it would be spoken to.
 */
road?: Road,
/**
 * Whether it is logged in, where it tells.
 */
login?: Login, };

/**
 * Who holds a prompt that arrives while a turn runs.
 */
export type PromptQueue = "held" | "agent";

/**
 * One question.
 */
export type Question = {
/**
 * The question itself; also its key in the answer.
 */
question: string,
/**
 * A word or two as heading.
 */
header?: string,
/**
 * What to choose from; empty asks for free text.
 */
choices?: Array<Choice>,
/**
 * More than one choice may be taken.
 */
multiple: boolean,
/**
 * Own words are welcome beside the choices.
 */
free_text: boolean,
/**
 * The answer is a secret and is not kept in the log.
 */
secret?: boolean, };

/**
 * The answer to a sender: taken into the log under this number, and how far it has come.
 * The same id sent again gets the same number.
 */
export type Receipt = {
/**
 * The entry of the command.
 */
seq: Seq, } & ({ "stage": "accepted" } | { "stage": "sending" } | { "stage": "delivered" } | { "stage": "consumed",
/**
 * What came of it, where something did.
 */
result?: JsonValue, } | { "stage": "refused",
/**
 * Why.
 */
refusal: Refusal, } | { "stage": "uncertain",
/**
 * What happened.
 */
reason: string, });

/**
 * Why a command was not done.
 */
export type Refusal = {
/**
 * The kind.
 */
code: RefusalCode,
/**
 * For people: what is wrong.
 */
message: string,
/**
 * What can be done about it.
 */
way_out?: WayOut,
/**
 * When to try again.
 */
retry_after_ms?: number,
/**
 * With `already_closed`: how the request ended.
 */
outcome?: Outcome, };

/**
 * Why not, as a kind that a program can act on.
 */
export type RefusalCode = "not_found" | "unauthenticated" | "forbidden" | "unsupported" | "invalid" | "busy" | "already_closed" | "stale" | "not_running" | "agent_refused" | "ended" | "store_failing" | "shutting_down" | "internal";

/**
 * What a frame asked for.
 */
export type ReplyBody = { "reply": "done" } | { "reply": "attached",
/**
 * Of this session.
 */
session: SessionId, } | { "reply": "subscribed" } | { "reply": "receipt",
/**
 * Where, and how far it is.
 */
receipt: Receipt, } | { "reply": "session",
/**
 * What it is.
 */
session: Summary, } | { "reply": "sessions",
/**
 * Newest first.
 */
sessions: Array<Summary>,
/**
 * How many agents run; not told to a token that is bound to certain sessions.
 */
agents?: AgentsRunning, } | { "reply": "past",
/**
 * Newest first.
 */
past: Array<PastDescription>, } | { "reply": "taken_up",
/**
 * What it is.
 */
session: Summary,
/**
 * It lived here before, and nothing was made: no prompt was sent, and nothing of the spec counts.
 */
already: boolean, } | { "reply": "resolved",
/**
 * Which.
 */
session: SessionId, } | { "reply": "state",
/**
 * The last entry in it.
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
 * Paths below the session's folder, the nearest to what was asked first; a folder ends with `/`.
 */
files: Array<string>,
/**
 * There are more files than were looked at, so that one may be missing.
 */
truncated: boolean, } | { "reply": "raw",
/**
 * The text, where any was kept.
 */
text: string | null, } | { "reply": "environment",
/**
 * By name.
 */
variables: { [key in string]: string }, } | { "reply": "agents",
/**
 * All of them.
 */
agents: Array<AgentDescription>, } | { "reply": "account",
/**
 * Who is logged in, and what has become of a login.
 */
account: AccountDescription, } | { "reply": "token",
/**
 * What it is.
 */
token: TokenInfo,
/**
 * Its secret, told this once.
 */
secret: string, } | { "reply": "tokens",
/**
 * All of them.
 */
tokens: Array<TokenInfo>, } | { "reply": "ticket",
/**
 * Its secret; single use.
 */
ticket: string,
/**
 * Until when.
 */
expires_at: Millis, } | { "reply": "browsers",
/**
 * Those that are logged in, the one seen last first.
 */
browsers: Array<BrowserInfo>, } | { "reply": "pong" };

/**
 * A request that waits.
 */
export type Request = {
/**
 * Its id: the number of the entry that opened it.
 */
request: RequestId,
/**
 * Which start of the agent asked; an answer to an older one is refused.
 */
generation: Generation,
/**
 * What it asks.
 */
ask: Ask,
/**
 * The subagent that asks, by the call that started it; absent is the main agent.
 */
parent?: string,
/**
 * The tool call it belongs to.
 */
tool?: string,
/**
 * SHA-256 of what is asked, hex. An answer that names another digest is refused.
 */
digest: string,
/**
 * When it was opened.
 */
opened_at: Millis,
/**
 * When it is denied by itself; absent is never.
 */
deadline?: Millis,
/**
 * What it asks is cut short here, because it is large: the session's own entry and state have all of it. Only in the daemon's
 * log and inbox.
 */
shortened?: boolean, };

/**
 * Something the agent waits for: the number of the entry that opened it, so it is unique in its session for ever.
 */
export type RequestId = number;

/**
 * Why an agent begins with an empty conversation although its session has a history.
 */
export type ResetReason = "cannot_resume" | "lost" | "other";

/**
 * How an agent would be spoken to, and why so.
 */
export type Road = {
/**
 * What people call it, such as `stdio`.
 */
name: string,
/**
 * Why this one and not another.
 */
why: string, };

/**
 * What a token may do; each role includes the ones before it.
 */
export type Role = "viewer" | "operator" | "owner";

/**
 * How long an allow holds.
 */
export type Scope = "once" | "session";

/**
 * The body of a REST request that asks something of a session.
 */
export type SendCommand = {
/**
 * Sent twice, it is done once; `Idempotency-Key` does the same.
 */
id?: CommandId, } & ({ "name": "prompt",
/**
 * What.
 */
content: Array<Content>, } | { "name": "answer",
/**
 * Which.
 */
request: RequestId,
/**
 * The digest that was shown, to be sure that it is still what is asked.
 */
digest?: string,
/**
 * What.
 */
answer: Answer, } | { "name": "interrupt" } | { "name": "stop" } | { "name": "resume" } | { "name": "rename",
/**
 * The new one.
 */
to: string, } | { "name": "archive",
/**
 * Away or out.
 */
archived: boolean, } | { "name": "set_model",
/**
 * To which; the agent's default when absent.
 */
model: string | null, } | { "name": "set_mode",
/**
 * To which.
 */
mode: string, } | { "name": "set_thinking",
/**
 * To how many tokens; the agent's default when absent.
 */
tokens: number | null, } | { "name": "set_environment",
/**
 * By name.
 */
variables: { [key in string]: string }, } | { "name": "rewind",
/**
 * The prompt's entry.
 */
to: Seq,
/**
 * Only tell what would change.
 */
dry_run: boolean, } | { "name": "mcp_status" } | { "name": "mcp_reconnect",
/**
 * Which.
 */
server: string, } | { "name": "mcp_toggle",
/**
 * Which.
 */
server: string,
/**
 * On or off.
 */
enabled: boolean, } | { "name": "mcp_set",
/**
 * By name, in the agent's own form.
 */
servers: { [key in string]: JsonValue },
/**
 * Those set before stay, but for the ones named here. Else these are all there are.
 */
keep?: boolean, } | { "name": "mcp_message",
/**
 * Which.
 */
server: string,
/**
 * The message.
 */
message: JsonValue, } | { "name": "context" } | { "name": "stop_task",
/**
 * Which.
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
command: Seq, } | { "name": "remove_rule",
/**
 * The tool it is about.
 */
tool_name: string, } | { "name": "native",
/**
 * The message.
 */
body: JsonValue, });

/**
 * The place of an entry in its log. The first entry has number 1; 0 means "before everything".
 * Numbers only grow and are never used twice; gaps are normal.
 */
export type Seq = number;

/**
 * From the server, beside the frames of core (`entry`, `daemon`, `snapshot`, `daemon_snapshot`).
 */
export type ServerFrame = { "type": "welcome",
/**
 * The version both speak.
 */
protocol: number,
/**
 * The server.
 */
server: ServerInfo,
/**
 * Who the server takes you for.
 */
you: You,
/**
 * What the server will not exceed or accept.
 */
limits: Limits, } | { "type": "reply",
/**
 * Of the frame.
 */
id: CommandId, } & ({ "reply": "done" } | { "reply": "attached",
/**
 * Of this session.
 */
session: SessionId, } | { "reply": "subscribed" } | { "reply": "receipt",
/**
 * Where, and how far it is.
 */
receipt: Receipt, } | { "reply": "session",
/**
 * What it is.
 */
session: Summary, } | { "reply": "sessions",
/**
 * Newest first.
 */
sessions: Array<Summary>,
/**
 * How many agents run; not told to a token that is bound to certain sessions.
 */
agents?: AgentsRunning, } | { "reply": "past",
/**
 * Newest first.
 */
past: Array<PastDescription>, } | { "reply": "taken_up",
/**
 * What it is.
 */
session: Summary,
/**
 * It lived here before, and nothing was made: no prompt was sent, and nothing of the spec counts.
 */
already: boolean, } | { "reply": "resolved",
/**
 * Which.
 */
session: SessionId, } | { "reply": "state",
/**
 * The last entry in it.
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
 * Paths below the session's folder, the nearest to what was asked first; a folder ends with `/`.
 */
files: Array<string>,
/**
 * There are more files than were looked at, so that one may be missing.
 */
truncated: boolean, } | { "reply": "raw",
/**
 * The text, where any was kept.
 */
text: string | null, } | { "reply": "environment",
/**
 * By name.
 */
variables: { [key in string]: string }, } | { "reply": "agents",
/**
 * All of them.
 */
agents: Array<AgentDescription>, } | { "reply": "account",
/**
 * Who is logged in, and what has become of a login.
 */
account: AccountDescription, } | { "reply": "token",
/**
 * What it is.
 */
token: TokenInfo,
/**
 * Its secret, told this once.
 */
secret: string, } | { "reply": "tokens",
/**
 * All of them.
 */
tokens: Array<TokenInfo>, } | { "reply": "ticket",
/**
 * Its secret; single use.
 */
ticket: string,
/**
 * Until when.
 */
expires_at: Millis, } | { "reply": "browsers",
/**
 * Those that are logged in, the one seen last first.
 */
browsers: Array<BrowserInfo>, } | { "reply": "pong" }) | { "type": "error",
/**
 * Of the frame, where it could be read.
 */
id?: CommandId,
/**
 * The kind.
 */
code: RefusalCode,
/**
 * For people: what is wrong.
 */
message: string,
/**
 * What can be done about it.
 */
way_out?: WayOut,
/**
 * When to try again.
 */
retry_after_ms?: number,
/**
 * With `already_closed`: how the request ended.
 */
outcome?: Outcome, } | { "type": "presence",
/**
 * Which session.
 */
session: SessionId,
/**
 * Everyone.
 */
present: Array<Presence>, } | { "type": "ended",
/**
 * Which session.
 */
session?: SessionId,
/**
 * Why.
 */
reason: Closed, } | { "type": "closing",
/**
 * Why.
 */
reason: ClosingReason,
/**
 * In words.
 */
message: string,
/**
 * Coming back with the last numbers seen goes on where this ended.
 */
resumable: boolean, };

/**
 * The server.
 */
export type ServerInfo = {
/**
 * `portolan`.
 */
name: string,
/**
 * Its version.
 */
version: string,
/**
 * Its clock, when it greeted: ages are told by it, whatever the client's own clock says.
 */
now?: Millis,
/**
 * Another one than before means that the server's logs were replaced, as by a backup: numbers of entries from before
 * mean nothing, and a client starts from a snapshot. Absent where the server does not know.
 */
incarnation?: string, };

/**
 * A session of Portolan. Time-ordered, so that newer sessions sort after older ones.
 */
export type SessionId = string;

/**
 * Everything one can ask of a new session. What the agent cannot take is refused, never ignored.
 */
export type SessionSpec = {
/**
 * The agent kind, such as `demo` or `claude`.
 */
agent: string,
/**
 * The folder it works in.
 */
cwd: string,
/**
 * The first prompt.
 */
prompt?: Array<Content>,
/**
 * What people call it.
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
 * Environment variables on top of the user's own.
 */
env?: { [key in string]: string },
/**
 * The system prompt.
 */
system_prompt?: SystemPrompt,
/**
 * Tools that need no permission.
 */
allowed_tools?: Array<string>,
/**
 * Tools that are not offered. Asking the user is never among them.
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
 * Which of the agent's settings files count; its own default when absent.
 */
setting_sources?: Array<string>,
/**
 * Folders beside `cwd` it may use.
 */
extra_dirs?: Array<string>,
/**
 * A turn ends after this many steps.
 */
max_turns?: number,
/**
 * A turn ends when this much is spent.
 */
max_budget_usd?: number,
/**
 * The result must fit this JSON Schema.
 */
json_schema?: JsonValue,
/**
 * Take up this conversation: the agent's own session id.
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
 * Which.
 */
model: string | null, } | { "name": "mode",
/**
 * Which.
 */
mode: string, } | { "name": "thinking",
/**
 * In tokens.
 */
tokens: number | null, } | { "name": "environment",
/**
 * The names.
 */
names: Array<string>, };

/**
 * One option of [`SessionSpec`], for [`Capabilities::options`].
 */
export type SpecOption = "cwd" | "prompt" | "name" | "model" | "mode" | "env" | "system_prompt" | "allowed_tools" | "disallowed_tools" | "mcp_servers" | "subagents" | "hooks" | "setting_sources" | "extra_dirs" | "max_turns" | "max_budget_usd" | "json_schema" | "resume" | "fork";

/**
 * How far a command has come.
 */
export type Stage = { "stage": "accepted" } | { "stage": "sending" } | { "stage": "delivered" } | { "stage": "consumed",
/**
 * What came of it, where something did.
 */
result?: JsonValue, } | { "stage": "refused",
/**
 * Why.
 */
refusal: Refusal, } | { "stage": "uncertain",
/**
 * What happened.
 */
reason: string, };

/**
 * Where a reader begins.
 */
export type Start = { "after": Seq } | { "tail": number };

/**
 * Everything a newcomer must know, beside the history.
 */
export type State = {
/**
 * Its line in a list.
 */
summary: Summary,
/**
 * What was asked for; secrets masked.
 */
spec: SessionSpec,
/**
 * What the agent can do.
 */
capabilities: Capabilities,
/**
 * Which start of the agent this is.
 */
generation: Generation,
/**
 * The agent's process.
 */
pid?: number,
/**
 * Somebody stopped the agent, and nobody has asked for it since.
 */
stopped: boolean,
/**
 * What the agent told about itself.
 */
agent: AgentInfo,
/**
 * The thinking budget, where set.
 */
thinking?: number,
/**
 * What the agent is busy with.
 */
activity?: string,
/**
 * The running turn.
 */
turn?: OpenTurn,
/**
 * Items that stream, oldest first.
 */
items: Array<OpenItem>,
/**
 * Tool calls without their result, oldest first.
 */
tools: Array<OpenTool>,
/**
 * Subagents at work.
 */
subagents: Array<OpenSubagent>,
/**
 * Background tasks at work.
 */
tasks: Array<Task>,
/**
 * Requests that wait, oldest first.
 */
requests: Array<Request>,
/**
 * How the last requests ended, so that a late answer learns who was faster.
 */
closed_requests: Array<ClosedRequest>,
/**
 * Commands that are not settled, oldest first; prompts that are accepted but not sending are the queue. Those
 * that ended as uncertain stay until they are sent again or withdrawn.
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
 * Tools that an "always" allowed.
 */
rules: Array<string>,
/**
 * Tokens so far.
 */
usage: TokenUsage,
/**
 * Tokens so far by model.
 */
by_model: { [key in string]: ModelUsage },
/**
 * Tokens in the context at the last request to the model.
 */
context_used?: number,
/**
 * How many fit.
 */
context_window: number, };

/**
 * Where a session stands.
 */
export type Status = "starting" | "connected" | "active" | "idle" | "disconnected" | "terminated" | "error";

/**
 * A subagent the agent may call.
 */
export type SubagentDefinition = {
/**
 * When to use it.
 */
description: string,
/**
 * Its system prompt.
 */
prompt: string,
/**
 * The tools it may use; all when absent.
 */
tools?: Array<string>,
/**
 * Its model; the session's when absent.
 */
model?: string, };

/**
 * A session's line in a list.
 */
export type Summary = {
/**
 * Its id.
 */
session: SessionId,
/**
 * The agent kind.
 */
agent: string,
/**
 * What people call it: its name, else the beginning of the first prompt.
 */
name: string,
/**
 * The folder it works in.
 */
cwd: string,
/**
 * Where it stands.
 */
status: Status,
/**
 * What went wrong, with status `error`.
 */
error?: string,
/**
 * Its agent had nothing to do and was ended, and the next prompt starts it again. `status` is `terminated` then.
 */
asleep: boolean,
/**
 * Put away.
 */
archived: boolean,
/**
 * When it was made.
 */
created_at: Millis,
/**
 * When something last happened in it.
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
 * How many requests wait for an answer.
 */
waiting: number,
/**
 * How many prompts wait in the queue.
 */
queued: number,
/**
 * How many turns there were.
 */
turns: number,
/**
 * What it cost so far; absent is unknown.
 */
cost_usd?: number,
/**
 * Where it was forked from.
 */
forked_from?: ForkPoint, };

/**
 * Words for the agent that stand before any prompt.
 */
export type SystemPrompt = { "how": "replace", "text": string } | { "how": "append", "text": string };

/**
 * The body of a REST request that takes up a past conversation.
 */
export type TakeUpPast = {
/**
 * Sent twice, it makes one session; `Idempotency-Key` does the same.
 */
id?: CommandId,
/**
 * The agent's own id of the conversation, or a unique beginning or end.
 */
past: string,
/**
 * Leave that one as it is: the agent goes on in a copy.
 */
copy?: boolean,
/**
 * What the session is made of beside.
 */
spec: SessionSpec, };

/**
 * A background task.
 */
export type Task = {
/**
 * Its id.
 */
task: string,
/**
 * The call that started it.
 */
tool?: string,
/**
 * The agent's own word: `local_agent`, `local_bash`, …
 */
task_type?: string,
/**
 * What it is for.
 */
description?: string,
/**
 * How far it is.
 */
status: TaskStatus,
/**
 * What it did, in words.
 */
summary?: string,
/**
 * Where its output lies.
 */
output_file?: string,
/**
 * What it used.
 */
work?: WorkDone, };

/**
 * How far a task is.
 */
export type TaskStatus = "running" | "completed" | "failed" | "stopped";

/**
 * The public name of a token; not its secret.
 */
export type TokenId = string;

/**
 * A token, without its secret.
 */
export type TokenInfo = {
/**
 * Its public name.
 */
token: TokenId,
/**
 * What people call it.
 */
name: string,
/**
 * What it may do.
 */
role: Role,
/**
 * The sessions it is bound to; all when absent.
 */
sessions?: Array<SessionId>,
/**
 * When it was made.
 */
created_at: Millis,
/**
 * Until when it opens the door; for ever when absent.
 */
expires_at?: Millis,
/**
 * When it last did.
 */
used_at?: Millis, };

/**
 * Tokens of one request, turn, agent or session.
 */
export type TokenUsage = {
/**
 * Tokens read that no cache held.
 */
input: number,
/**
 * Tokens written.
 */
output: number,
/**
 * Tokens put into the cache.
 */
cache_creation: number,
/**
 * Tokens read from the cache.
 */
cache_read: number, };

/**
 * What sort of tool, so that a frontend can show it well without knowing every agent's names.
 */
export type ToolKind = "execute" | "read" | "edit" | "search" | "fetch" | "subagent" | "think" | "mcp" | "other";

/**
 * How a tool or a subagent ended.
 */
export type ToolOutcome = "done" | "failed" | "denied" | "interrupted";

/**
 * What set a turn off.
 */
export type TurnOrigin = "prompt" | "agent";

/**
 * How a turn ended.
 */
export type TurnOutcome = "completed" | "interrupted" | "failed" | "max_turns" | "max_budget" | "structured_output_failed";

/**
 * What came of a turn.
 */
export type TurnResult = {
/**
 * How it ended.
 */
outcome: TurnOutcome,
/**
 * What went wrong.
 */
error?: ErrorInfo,
/**
 * The last words, where the agent tells them.
 */
text?: string,
/**
 * The result that fits the JSON Schema.
 */
structured?: JsonValue,
/**
 * Why the model stopped.
 */
stop_reason?: string,
/**
 * Steps the agent took.
 */
steps?: number,
/**
 * How long it took.
 */
duration_ms?: number,
/**
 * How long the model took of it.
 */
duration_api_ms?: number,
/**
 * Tokens of this turn.
 */
usage?: TokenUsage,
/**
 * Tokens of this turn by model, subagents included.
 */
by_model?: { [key in string]: ModelUsage },
/**
 * What this turn cost; absent is unknown.
 */
cost_usd?: number,
/**
 * Lines added to files, where told.
 */
lines_added?: number,
/**
 * Lines removed from files, where told.
 */
lines_removed?: number, };

/**
 * A limit of an account.
 */
export type UsageLimit = {
/**
 * How much of it is used.
 */
used_percent: number,
/**
 * Over how many minutes it counts, where told.
 */
window_minutes?: number,
/**
 * When it begins anew, where told.
 */
resets_at?: Millis, };

/**
 * Is an agent's own option a yes or a no? A no must never be sent as a yes, whatever it is called.
 */
export type Verdict = "allow" | "deny";

/**
 * A request in the inbox.
 */
export type Waiting = {
/**
 * In which session.
 */
session: SessionId,
/**
 * What.
 */
request: Request, };

/**
 * What the sender of a refused command can do. When to try again stands beside it, in `retry_after_ms` of the refusal.
 *
 * A later version may know more kinds; leave out what you do not know.
 */
export type WayOut = { "kind": "list_sessions" } | { "kind": "new_session" } | { "kind": "use_session",
/**
 * Which.
 */
session: SessionId, } | { "kind": "resume_session",
/**
 * Which.
 */
session: SessionId, } | { "kind": "stop_session",
/**
 * Which.
 */
session: SessionId, } | { "kind": "send_again",
/**
 * In which session.
 */
session: SessionId,
/**
 * The command's entry.
 */
command: Seq, } | { "kind": "end_another_agent",
/**
 * The setting, by its key.
 */
setting: string, } | { "kind": "list_past" } | { "kind": "name_folder",
/**
 * Of which agent.
 */
agent: string, } | { "kind": "copy_past" } | { "kind": "change_setting",
/**
 * The setting, by its key.
 */
key: string, } | { "kind": "ask_for_role",
/**
 * Which.
 */
role: Role, } | { "kind": "list_tokens" } | { "kind": "revoke_token" } | { "kind": "rotate_owner_token" };

/**
 * What a subagent or task used.
 */
export type WorkDone = {
/**
 * Tokens in all.
 */
tokens: number,
/**
 * Calls of tools.
 */
tool_uses: number,
/**
 * How long it took.
 */
duration_ms: number, };

/**
 * Who the server takes a client for.
 */
export type You = {
/**
 * The token's public name.
 */
token: TokenId,
/**
 * What people call it.
 */
name: string,
/**
 * What it may do.
 */
role: Role,
/**
 * The sessions it is bound to; all when absent.
 */
sessions?: Array<SessionId>, };
