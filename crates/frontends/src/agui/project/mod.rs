//! Projects the entries of a session to the events of a run. Pure: no I/O, no clock; the same entries give the same
//! events.
//!
//! The events obey the stricter rules of both client generations: an item is continued only in the run that started it,
//! and at the end of a run nothing is open. The next run continues unfinished items: a client appends to a text whose
//! id is started again.

mod asides;
mod asks;
mod calls;
pub mod history;
mod items;
mod page_names;
mod results;
mod session;
mod snapshot;
mod subagents;

use std::collections::HashSet;

use indexmap::IndexMap;
use portolan_core::{Actor, Event, RequestId, Seq, SessionId, request::Request, session::state::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{asks::request_id, page_names::PageNames, results::Ended};
use self::{calls::Call, history::PromptIds, items::Open, snapshot::Known, subagents::Subagents};
use super::wire::{AguiEvent, Interrupt};
use crate::agui::context::own_words;

/// How the client gets requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approvals {
    /// With a custom event; the run continues, and the answer comes with a separate HTTP request.
    #[default]
    Event,
    /// With the protocol's own interrupt: the run ends, and the answer comes with the next run.
    Interrupt,
    /// With the older form of the interrupt: a custom event `on_interrupt`, then the run ends. Only on request of a
    /// client.
    #[serde(skip)]
    OnInterrupt,
}

/// The reason of an interrupt.
#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// In the protocol's own form: all open requests.
    Interrupts(Vec<Interrupt>),
    /// In its older form: the value of the event. Clients keep one, so it is the oldest open request.
    OnInterrupt(Value),
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Only what concerns the session as a whole: the output of another client's turn is sent in that client's run.
    Quiet,
    /// Everything.
    Full,
}

/// Whose prompts are sent: the page already has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// All prompts except those of this client from this frontend.
    NotOf(Actor),
    /// All prompts.
    All,
}

/// The state of one stream of events.
#[derive(Debug)]
pub struct Projector {
    session: SessionId,
    names: PageNames,
    approvals: Approvals,
    prompts: Prompts,
    voice: Voice,
    known: Known,
    told_state: Option<Value>,
    /// Streaming items that are sent.
    open: IndexMap<String, Open>,
    /// Streaming items that are not sent: they began in another client's turn.
    skipped: HashSet<String>,
    calls: IndexMap<String, Call>,
    subagents: Subagents,
    ids: PromptIds,
    /// Prompts that waited when the history was made; the history shows them. At most as many as may wait.
    shown: HashSet<Seq>,
    /// Open requests, and which of them were sent.
    requests: IndexMap<RequestId, (Box<Request>, bool)>,
}

impl Projector {
    /// A projection that begins here, with the current state of the session.
    pub fn new(
        session: SessionId,
        agent_id: &str,
        names: PageNames,
        approvals: Approvals,
        prompts: Prompts,
        state: &State,
    ) -> Self {
        let mut projector = Self {
            session,
            approvals,
            prompts,
            voice: Voice::Full,
            known: Known::of(agent_id, session, state),
            told_state: None,
            open: IndexMap::new(),
            skipped: state.items.iter().map(|open| open.item.clone()).collect(),
            calls: IndexMap::new(),
            subagents: Subagents::of(state),
            ids: PromptIds::of(state),
            shown: HashSet::new(),
            requests: IndexMap::new(),
            names,
        };
        for open in &state.tools {
            projector.saw_call(&open.tool, &open.name);
        }
        for request in &state.requests {
            projector.keep(request);
        }
        projector
    }

    /// The next run begins where the last one ended.
    pub fn next_run(&mut self, agent_id: &str, approvals: Approvals) {
        agent_id.clone_into(&mut self.known.agent_id);
        self.approvals = approvals;
        self.told_state = None;
        self.voice = Voice::Full;
        for open in self.open.values_mut() {
            open.is_begun = false;
        }
        for call in self.calls.values_mut() {
            call.is_earlier();
        }
        self.subagents.next_run();
        for (_, told) in self.requests.values_mut() {
            *told = false;
        }
    }

    /// The page has the queued prompts: they are not sent again when they reach the agent.
    pub fn shows_queued(&mut self, state: &State) {
        self.shown =
            state.commands.iter().filter(|open| open.is_queued_prompt()).map(|open| open.seq).collect();
    }

    /// Sets how much is sent from now on.
    pub fn speak(&mut self, voice: Voice) {
        self.voice = voice;
    }

    /// Sends streaming texts from their start, for a client that has nothing of them yet.
    pub fn from_the_beginning(&mut self, state: &State, out: &mut Vec<AguiEvent>) {
        self.skipped.clear();
        for item in &state.items {
            self.item_started(&item.item, item.kind, item.parent.as_deref());
            self.delta(&item.item, &item.text, out);
        }
    }

    /// The current state, instead of missed entries.
    pub fn catch_up(&mut self, state: &State, out: &mut Vec<AguiEvent>) {
        self.known.take(state);
        self.tell_state(out);
        for item in &state.items {
            let told = self.open.get(&item.item).map(|open| open.text.len());
            match told {
                Some(told) => {
                    let rest = item.text.get(told..).unwrap_or_default().to_owned();
                    self.delta(&item.item, &rest, out);
                }
                None if self.skipped.contains(&item.item) => {}
                None => {
                    self.item_started(&item.item, item.kind, item.parent.as_deref());
                    self.delta(&item.item, &item.text, out);
                }
            }
        }
    }

    /// The agent's info and capabilities, if they have changed since they were last sent.
    pub fn tell_state(&mut self, out: &mut Vec<AguiEvent>) {
        let snapshot = self.known.snapshot();
        if self.told_state.as_ref() != Some(&snapshot) {
            self.told_state = Some(snapshot.clone());
            out.push(AguiEvent::StateSnapshot { snapshot });
        }
    }

    /// All open requests that were not sent in this run.
    pub fn tell_requests(&mut self, out: &mut Vec<AguiEvent>) {
        if self.approvals != Approvals::Event {
            return;
        }
        let session = self.session;
        for (request, told) in self.requests.values_mut().filter(|(_, told)| !*told) {
            *told = true;
            out.push(asks::asked(session, request));
        }
    }

    /// This run has just brought the answer: the page gets neither the request nor its end again.
    pub fn answered(&mut self, request: RequestId) {
        self.requests.shift_remove(&request);
    }

    /// The interrupt of this run; nothing if no request is open or the client gets requests as events.
    pub fn asks(&self) -> Option<Asks> {
        let waiting = self.requests.values().map(|(request, _)| &**request);
        match self.approvals {
            Approvals::Event => None,
            Approvals::Interrupt => {
                let all: Vec<_> = waiting.map(|request| asks::interrupt(self.session, request)).collect();
                (!all.is_empty()).then_some(Asks::Interrupts(all))
            }
            Approvals::OnInterrupt => {
                let oldest = waiting.min_by_key(|request| request.request)?;
                Some(Asks::OnInterrupt(asks::particulars(self.session, oldest)))
            }
        }
    }

    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let name = |text: &str| text.len() + 64;
        let told = self.told_state.as_ref().map_or(0, |state| state.to_string().len());
        let texts: usize = self.open.iter().map(|(item, open)| name(item) + open.text.len() + 128).sum();
        let skipped: usize = self.skipped.iter().map(|item| name(item)).sum();
        let calls: usize = self.calls.keys().map(|tool| name(tool) + 64).sum();
        let asked = |request: &Request| serde_json::to_vec(request).map_or(0, |text| text.len());
        let requests: usize = self.requests.values().map(|(request, _)| asked(request)).sum();
        // The info of a session is kept twice: as the sent state, and as the data itself.
        1024 + self.known.snapshot().to_string().len()
            + told
            + texts
            + skipped
            + calls
            + requests
            + self.subagents.weight()
            + self.ids.weight()
    }

    /// Whether no sent item streams: a run may end here without cutting anything.
    pub fn is_quiet(&self) -> bool {
        self.open.values().all(|open| !open.is_begun)
    }

    /// Closes everything that this run has started.
    pub fn close(&mut self, out: &mut Vec<AguiEvent>) {
        let begun: Vec<String> =
            self.open.iter().filter(|(_, open)| open.is_begun).map(|(item, _)| item.clone()).collect();
        for item in begun {
            self.pause_item(&item, out);
        }
        self.subagents.close(out);
    }

    /// One entry.
    pub fn project(&mut self, seq: Seq, by: Option<&Actor>, event: &Event, out: &mut Vec<AguiEvent>) {
        self.ids.note(seq, by, event);
        match event {
            Event::ItemStarted { item, kind, parent, .. } => match self.voice {
                Voice::Full => self.item_started(item, *kind, parent.as_deref()),
                Voice::Quiet => {
                    self.skipped.insert(item.clone());
                }
            },
            Event::ToolNamed { item, tool, name } => self.name_item(item, tool, name),
            Event::Delta { item, text } => self.delta(item, text, out),
            Event::Message { item, parent, content, .. } => {
                self.message(item, parent.as_deref(), content, out);
            }
            Event::ToolCall { tool, item, parent, name, input, .. } => {
                self.tool_call(tool, item.as_deref(), parent.as_deref(), name, input, out);
            }
            Event::ToolResult { tool, parent, outcome, content, .. } => {
                self.tool_result(tool, parent.as_deref(), *outcome, content, out);
            }
            Event::SubagentStarted { subagent, parent, subagent_type, description, .. } => {
                self.subagents.know(subagent, parent.as_deref(), subagent_type.as_deref(), description);
                if self.voice == Voice::Full {
                    self.subagents.enter(Some(subagent), out);
                }
            }
            Event::SubagentEnded { subagent, outcome, summary, .. } => {
                self.subagent_ended(subagent, *outcome, summary.as_deref(), out);
            }
            Event::Prompt { command, content } => {
                let id = self.ids.take(*command, seq);
                if !self.shown.remove(command) {
                    self.prompt(by, &id, &own_words(content), out);
                }
            }
            Event::RequestOpened { request } => {
                self.keep(request);
                self.tell_requests(out);
            }
            Event::RequestClosed { request, outcome } => {
                if let Some((asked, told)) = self.requests.shift_remove(request)
                    && told
                {
                    out.push(asks::resolved(self.session, &asked, outcome));
                }
            }
            _ => self.session_changed(event, out),
        }
    }

    fn prompt(&mut self, by: Option<&Actor>, id: &str, words: &str, out: &mut Vec<AguiEvent>) {
        let own = matches!(&self.prompts, Prompts::NotOf(own) if by == Some(own));
        if own || words.is_empty() || self.voice == Voice::Quiet {
            return;
        }
        let message_id = id.to_owned();
        out.extend([
            AguiEvent::TextMessageStart {
                message_id: message_id.clone(),
                role: "user".into(),
                subagent_run_id: None,
            },
            AguiEvent::TextMessageContent {
                message_id: message_id.clone(),
                delta: words.into(),
                subagent_run_id: None,
            },
            AguiEvent::TextMessageEnd { message_id, subagent_run_id: None },
        ]);
    }

    /// Keeps an open request.
    fn keep(&mut self, request: &Request) {
        self.requests.insert(request.request, (Box::new(request.clone()), false));
    }
}
