//! A running import: messages become entries, written piece by piece; the session exists with the last piece.

use tokio::sync::mpsc;

use super::{Found, IMPORTS, PATIENCE, too_slow, unreadable};
use crate::{
    Actor, Capabilities, DaemonEvent, Event, LogId, Millis, Principal, Refusal, RefusalCode, Seq, SessionId,
    SessionSpec,
    event::{Durability, TaskStatus, ToolOutcome},
    log::Book,
    ports::{Op, PastEntry, PastPiece},
    registry::{Registry, gone},
    session::{
        state::{State, Summary},
        task::Origin,
    },
};

/// The largest number of imported entries: more than any conversation of people has.
const IMPORTED_ENTRIES: u32 = 500_000;

/// How many entries are written at once.
const PIECE_ENTRIES: usize = 256;

/// Bytes after which a piece is written, however few its entries are.
const PIECE_BYTES: usize = 1024 * 1024;

/// A running import.
pub(super) struct Import<'a> {
    pub(super) registry: &'a Registry,
    pub(super) who: &'a Principal,
    pub(super) session: SessionId,
    pub(super) spec: SessionSpec,
    pub(super) copy: bool,
    pub(super) capabilities: Capabilities,
}

impl Import<'_> {
    pub(super) async fn run(self, found: &Found) -> Result<Summary, Refusal> {
        let registry = self.registry;
        let now = registry.shared.clock.now();
        let shown = self.spec.masked();
        let state = State::new(self.session, shown.clone(), now);
        let mut book = Book::new(LogId::Session(self.session), Seq::ZERO, state);
        book.append(now, Some(self.who.actor()), Event::SessionCreated { spec: Box::new(shown) });
        let began = found.session.started_at.unwrap_or(now);
        let (entries, left_out) = {
            let _turn = registry.turn().await?;
            self.take_over(&mut book, began, found.past.read(found.session.past.clone())).await?
        };
        let past = found.session.past.clone();
        let capabilities = Box::new(self.capabilities.clone());
        let imported = Event::Imported { past, copy: self.copy, entries, left_out, capabilities };
        book.append(now, Some(self.who.actor()), imported);
        self.finish(book, now).await
    }

    /// Appends the conversation's entries, and writes them piece by piece.
    async fn take_over(
        &self,
        book: &mut Book<State>,
        began: Millis,
        mut pieces: mpsc::Receiver<PastPiece>,
    ) -> Result<(u32, u32), Refusal> {
        let (mut entries, mut left_out, mut at) = (0_u32, 0_u32, began);
        let mut waiting = Waiting::default();
        loop {
            let piece =
                tokio::time::timeout(PATIENCE, pieces.recv()).await.map_err(|_| too_slow(PATIENCE))?;
            match piece {
                Some(PastPiece::Entry(entry)) => {
                    let PastEntry { at: told, event } = *entry;
                    if entries >= IMPORTED_ENTRIES || !is_past(&event) {
                        left_out = left_out.saturating_add(1);
                        // An agent that never stops sending is dropped.
                        if left_out >= IMPORTED_ENTRIES {
                            break;
                        }
                        continue;
                    }
                    at = told.unwrap_or(at);
                    book.append(at, Some(Actor::Imported), event);
                    entries += 1;
                    waiting.take(book.take_ops());
                    if waiting.is_full() {
                        self.registry.commit(LogId::Session(self.session), waiting.give()).await?;
                    }
                }
                Some(PastPiece::End) => break,
                Some(PastPiece::Failed(error)) => return Err(unreadable(error)),
                None => {
                    let message = "the agent stopped in the middle of the conversation";
                    return Err(Refusal::new(RefusalCode::AgentRefused, message));
                }
            }
        }
        entries += close_open(book, at);
        waiting.take(book.take_ops());
        self.registry.commit(LogId::Session(self.session), waiting.give()).await?;
        Ok((entries, left_out))
    }

    /// Writes the last piece, with which the session exists.
    async fn finish(self, mut book: Book<State>, now: Millis) -> Result<Summary, Refusal> {
        let Self { registry, who, session, spec, copy, .. } = self;
        let origin = Origin { spec, at_message: None, last_message: None, copy };
        book.also(origin.record(session));
        book.also(Op::Remove { collection: IMPORTS, key: session.to_string() });
        let machine = registry.new_machine(who, &mut book, now, &origin.spec)?;
        let summary = book.state().summary.clone();
        book.also(Op::Summary(Box::new(summary.clone())));
        book.checkpoint();
        let made = book.head();
        let handle = registry.shelve(session, book, machine, origin).await?;
        if !handle.log.wait_visible(made).await {
            return Err(gone());
        }
        let created = DaemonEvent::SessionCreated { summary: Box::new(summary.clone()) };
        registry.shared.daemon.note(Some(who.actor()), created).await;
        Ok(summary)
    }
}

/// Changes that wait to be written.
#[derive(Default)]
struct Waiting {
    ops: Vec<Op>,
    bytes: usize,
}

impl Waiting {
    fn take(&mut self, ops: Vec<Op>) {
        let size = |op: &Op| match op {
            Op::Append { frame, .. } => frame.len(),
            _ => 0,
        };
        self.bytes += ops.iter().map(size).sum::<usize>();
        self.ops.extend(ops);
    }

    fn is_full(&self) -> bool {
        self.ops.len() >= PIECE_ENTRIES || self.bytes >= PIECE_BYTES
    }

    fn give(&mut self) -> Vec<Op> {
        self.bytes = 0;
        std::mem::take(&mut self.ops)
    }
}

/// Closes the tools and subagents that were open when the conversation was left. Returns how many entries that took.
fn close_open(book: &mut Book<State>, at: Millis) -> u32 {
    let (before, by) = (book.head(), || Some(Actor::Imported));
    let outcome = ToolOutcome::Interrupted;
    let State { tools, subagents, tasks, .. } = book.state().clone();
    for tool in tools {
        let (tool, parent) = (tool.tool, tool.parent);
        let ended = Event::ToolResult { tool, parent, outcome, content: Vec::new(), changes: Vec::new() };
        book.append(at, by(), ended);
    }
    for subagent in subagents.into_iter().rev() {
        let subagent = subagent.subagent;
        book.append(at, by(), Event::SubagentEnded { subagent, outcome, summary: None, work: None });
    }
    for mut task in tasks {
        task.status = TaskStatus::Stopped;
        book.append(at, by(), Event::TaskChanged { task: Box::new(task) });
    }
    u32::try_from(book.head().0 - before.0).unwrap_or(u32::MAX)
}

/// Can this event be part of a past conversation? Messages and tools can; events that core makes itself, and streamed
/// events, cannot.
fn is_past(event: &Event) -> bool {
    match event {
        Event::Prompt { .. }
        | Event::Message { .. }
        | Event::ToolCall { .. }
        | Event::ToolResult { .. }
        | Event::ToolSummary { .. }
        | Event::Plan { .. }
        | Event::Usage { .. }
        | Event::Compacted { .. }
        | Event::SubagentStarted { .. }
        | Event::SubagentEnded { .. }
        | Event::TaskChanged { .. }
        | Event::Retry { .. }
        | Event::Failure { .. }
        | Event::Notice { .. }
        | Event::Hook { .. }
        | Event::FilesPersisted { .. }
        | Event::Unknown { .. } => event.durability() == Durability::Durable,
        Event::SessionCreated { .. }
        | Event::SessionRenamed { .. }
        | Event::SessionArchived { .. }
        | Event::Imported { .. }
        | Event::AgentStarting { .. }
        | Event::AgentStarted { .. }
        | Event::AgentReady { .. }
        | Event::AgentInfo { .. }
        | Event::LinkLost { .. }
        | Event::LinkRestored
        | Event::AgentExited { .. }
        | Event::TurnStarted { .. }
        | Event::TurnEnded { .. }
        | Event::Activity { .. }
        | Event::ItemStarted { .. }
        | Event::ToolNamed { .. }
        | Event::Delta { .. }
        | Event::ToolProgress { .. }
        | Event::ConversationReset { .. }
        | Event::RequestOpened { .. }
        | Event::RequestClosed { .. }
        | Event::RequestDecided { .. }
        | Event::CommandAccepted { .. }
        | Event::Receipt { .. }
        | Event::SettingChanged { .. }
        | Event::RuleAdded { .. }
        | Event::DeadlineChanged { .. }
        | Event::BudgetChanged { .. }
        | Event::BudgetReached { .. }
        | Event::RuleRemoved { .. }
        | Event::McpServers { .. }
        | Event::AuthStatus { .. } => false,
    }
}
