//! Projects the entries of a session to messages. Pure: no I/O, no clock; the same entries give the same messages.
//!
//! A [`View`] is what one client knows of one session: the tree of its agents with their statuses, the open requests,
//! the usage. It is folded from the first entry, even if not everything is sent: a late client gets the past without
//! what is over (answered questions, old statuses), and then what is open now.

mod asks;
mod endings;
mod entries;
mod text;
mod tree;
mod usage;

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use portolan_core::{
    CommandId, RequestId, Seq, SessionId,
    event::{ToolOutcome, WorkDone},
    request::Request,
    session::state::State,
};

pub use self::{
    asks::{Sort, elicitation_answer, question_id, sort},
    tree::MAIN,
    usage::price,
};
use self::{
    text::Streams,
    tree::{Life, Tree},
    usage::Meter,
};
use super::wire::{AgentOutput, AgentStatus, ErrorCode, PermissionModeChanged, ServerMessage};

/// The tool name of a call that starts a subagent for clients, whatever the agent calls it.
const TASK: &str = "Task";

/// How many unsettled commands of this client are kept: more than it can have.
const OWN_COMMANDS: usize = 256;

/// How text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// In complete blocks.
    Blocks,
    /// While it streams.
    Deltas,
}

/// How much of the past before the snapshot is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Everything: the client just created the session.
    Everything,
    /// Only what still matters.
    WhatLasts,
    /// Nothing: the client reconnects and knows the past.
    Nothing,
}

#[derive(Debug)]
struct Call {
    agent: String,
    name: String,
}

#[derive(Debug)]
struct Ending {
    outcome: ToolOutcome,
    summary: Option<String>,
    /// The subagent's total usage, as the agent reports it.
    work: Option<WorkDone>,
}

/// What one client knows of one session.
#[derive(Debug)]
pub struct View {
    session: String,
    past: Past,
    tree: Tree,
    meter: Meter,
    streams: Streams,
    /// Calls without their result.
    calls: HashMap<String, Call>,
    /// Subagents that have ended, but not the calls that started them.
    endings: IndexMap<String, Ending>,
    /// Open requests, oldest first, and who asks.
    requests: IndexMap<RequestId, (String, Box<Request>)>,
    /// Prompts without a turn.
    prompts: HashSet<Seq>,
    mode: Option<String>,
    turn_error: Option<String>,
    turn_runs: bool,
    was_ready: bool,
    runs: bool,
    archived: bool,
    /// Whether the past is complete.
    is_live: bool,
    /// This client's commands, and their error codes.
    own: IndexMap<CommandId, ErrorCode>,
    /// The same, once they have a number.
    own_accepted: HashMap<Seq, ErrorCode>,
}

impl View {
    /// A view of a session before its first entry.
    pub fn new(session: SessionId, detail: Detail, past: Past) -> Self {
        Self {
            session: session.to_string(),
            past,
            tree: Tree::default(),
            meter: Meter::default(),
            streams: Streams::new(detail),
            calls: HashMap::new(),
            endings: IndexMap::new(),
            requests: IndexMap::new(),
            prompts: HashSet::new(),
            mode: None,
            turn_error: None,
            turn_runs: false,
            was_ready: false,
            runs: false,
            archived: false,
            is_live: false,
            own: IndexMap::new(),
            own_accepted: HashMap::new(),
        }
    }

    /// This client sends a command under `id`: if the command fails later, the client gets the error `code`.
    pub fn expect(&mut self, id: CommandId, code: ErrorCode) {
        if self.own.len() == OWN_COMMANDS {
            self.own.shift_remove_index(0);
        }
        self.own.insert(id, code);
    }

    /// The session was killed and none of its processes runs any more.
    pub fn is_over(&self) -> bool {
        self.is_live && self.archived && !self.runs
    }

    // ------------------------------------------------------------------------------------- telling

    /// Adds a message, unless it belongs to a part of the past that is not sent.
    fn tell(&self, message: ServerMessage, out: &mut Vec<ServerMessage>) {
        use ServerMessage as M;
        let lasts = matches!(
            message,
            M::AgentSpawned(_)
                | M::AgentOutput(_)
                | M::AgentToolUse(_)
                | M::AgentToolResult(_)
                | M::AgentCompleted(_)
                | M::SessionCompleted(_)
        );
        match self.past {
            Past::Everything => out.push(message),
            Past::WhatLasts if lasts => out.push(message),
            Past::WhatLasts | Past::Nothing => {}
        }
    }

    fn tell_error(&self, code: ErrorCode, agent: &str, message: &str, out: &mut Vec<ServerMessage>) {
        let (session, agent) = (Some(self.session.clone()), Some(agent.to_owned()));
        self.tell(ServerMessage::error(code, session, agent, message), out);
    }

    /// Sends the agent's status if it has changed.
    fn touch(&mut self, agent: &str, out: &mut Vec<ServerMessage>) {
        if let Some(status) = self.tree.status_to_tell(agent) {
            let (session_id, agent_id) = (self.session.clone(), agent.to_owned());
            self.tell(ServerMessage::AgentStatus(AgentStatus { session_id, agent_id, status }), out);
        }
    }

    /// The agent of a `parent`. An unknown agent is announced now.
    fn agent(&mut self, parent: Option<&str>, out: &mut Vec<ServerMessage>) -> String {
        let agent = parent.unwrap_or(MAIN);
        if !self.tree.knows(agent) {
            self.spawn(agent, None, None, None, out);
            if agent != MAIN {
                self.tree.set_life(agent, Life::Working);
            }
        }
        agent.to_owned()
    }

    fn spawn(
        &mut self,
        agent: &str,
        parent: Option<&str>,
        task: Option<String>,
        model: Option<String>,
        out: &mut Vec<ServerMessage>,
    ) {
        let spawned = self.tree.spawn(&self.session, agent, parent, task, model);
        self.tell(ServerMessage::AgentSpawned(spawned), out);
    }

    /// The past is complete: sends the open requests that were held back.
    pub fn snapshot(&mut self, state: &State, out: &mut Vec<ServerMessage>) {
        self.is_live = true;
        let past = std::mem::replace(&mut self.past, Past::Everything);
        if past == Past::WhatLasts
            && let Some(mode) = self.mode.clone()
        {
            self.mode_is(&mode, out);
        }
        if past != Past::Everything {
            for agent in self.tree.at_work() {
                self.tree.forget_told(&agent);
                self.touch(&agent, out);
            }
            for (agent, request) in self.requests.values() {
                for message in self.asked(agent, request) {
                    self.tell(message, out);
                }
            }
        }
        for open in &state.items {
            if self.streams.wants(open.kind) && !self.streams.knows(&open.item) {
                let agent = self.agent(open.parent.as_deref(), out);
                self.streams.begin(&open.item, agent, open.kind);
                if let Some(output) = self.streams.more(&self.session, &open.item, &open.text) {
                    self.tell(ServerMessage::AgentOutput(output), out);
                }
            }
        }
    }

    fn asked(&self, agent: &str, request: &Request) -> Vec<ServerMessage> {
        let call = request.tool.as_ref().and_then(|tool| self.calls.get(tool));
        asks::asked(&self.session, agent, request, call.map(|call| call.name.as_str()))
    }

    /// The main agent works, or has finished.
    fn rest(&mut self, life: Life, out: &mut Vec<ServerMessage>) {
        let main = self.agent(None, out);
        self.tree.set_life(&main, life);
        self.touch(&main, out);
    }

    fn mode_is(&mut self, mode: &str, out: &mut Vec<ServerMessage>) {
        self.mode = Some(mode.to_owned());
        let (session_id, permission_mode) = (self.session.clone(), mode.to_owned());
        let changed = PermissionModeChanged { session_id, permission_mode };
        self.tell(ServerMessage::PermissionModeChanged(changed), out);
    }
}

/// An output in the form that this client wants.
fn output(session: &str, agent: &str, content: String, kind: super::wire::ContentType) -> AgentOutput {
    AgentOutput {
        session_id: session.to_owned(),
        agent_id: agent.to_owned(),
        content,
        content_type: kind,
        item: None,
    }
}
