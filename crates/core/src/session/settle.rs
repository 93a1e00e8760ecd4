//! Settling: how everything left open is closed when a turn, an agent or the daemon has ended.
//!
//! Nothing is invented: streamed text is kept and marked as cut off, and a command that may or may not have arrived
//! becomes uncertain.

use super::state::{OpenItem, State};
use crate::{
    Event, Millis, Refusal, RefusalCode, Seq,
    command::{ActionName, Stage},
    event::{Content, Exit, ExitReason, ItemKind, TaskStatus, ToolOutcome, TurnOutcome, TurnResult},
    log::Book,
    ports,
    request::Outcome,
};

/// Which open things to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The things of the turn itself; background subagents continue.
    Foreground,
    /// Everything.
    All,
}

/// Closes items, tools and subagents that will not continue.
pub(super) fn close_work(book: &mut Book<State>, now: Millis, reach: Reach) {
    let state = book.state();
    let ends = |parent: Option<&String>| reach == Reach::All || !in_background(state, parent);
    let items: Vec<_> = state.items.iter().filter(|item| ends(item.parent.as_ref())).cloned().collect();
    let tools: Vec<_> = state
        .tools
        .iter()
        .filter(|tool| ends(tool.parent.as_ref()) && !is_background(state, &tool.tool))
        .cloned()
        .collect();
    let subagents: Vec<_> = state
        .subagents
        .iter()
        .filter(|subagent| reach == Reach::All || !in_background(state, Some(&subagent.subagent)))
        .map(|subagent| subagent.subagent.clone())
        .collect();
    let tasks = if reach == Reach::All { state.tasks.clone() } else { Vec::new() };
    let ended_with_output =
        |tool: &str| items.iter().any(|item| item.kind == ItemKind::ToolOutput && item.item == tool);
    for item in &items {
        book.append(now, None, finished(item, Ended::CutOff));
    }
    for tool in tools.into_iter().filter(|tool| !ended_with_output(&tool.tool)) {
        let (outcome, content) = (ToolOutcome::Interrupted, Vec::new());
        let (tool, parent) = (tool.tool, tool.parent);
        book.append(now, None, Event::ToolResult { tool, parent, outcome, content, changes: Vec::new() });
    }
    for subagent in subagents.into_iter().rev() {
        let outcome = ToolOutcome::Interrupted;
        book.append(now, None, Event::SubagentEnded { subagent, outcome, summary: None, work: None });
    }
    for mut task in tasks {
        task.status = TaskStatus::Stopped;
        book.append(now, None, Event::TaskChanged { task: Box::new(task) });
    }
}

fn is_background(state: &State, subagent: &str) -> bool {
    state.subagents.get(subagent).is_some_and(|open| open.background)
}

fn in_background(state: &State, parent: Option<&String>) -> bool {
    let open = |id: &String| state.subagents.get(id);
    let mut ancestor = parent.and_then(open);
    // Subagents form a tree; the bound is for an agent that reports a cycle.
    for _ in 0..64 {
        match ancestor {
            Some(subagent) if subagent.background => return true,
            Some(subagent) => ancestor = subagent.parent.as_ref().and_then(open),
            None => return false,
        }
    }
    false
}

/// How the text of an item ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The text is complete.
    Whole,
    /// The text is cut off.
    CutOff,
}

/// The durable end of an item that its agent did not finish: its text so far. A tool's output becomes its result.
pub(super) fn finished(item: &OpenItem, ended: Ended) -> Event {
    let text = item.text.clone();
    let content = match item.kind {
        ItemKind::Text => Content::Text { text },
        ItemKind::Thinking => Content::Thinking { text },
        ItemKind::ToolInput => Content::Other { body: serde_json::json!({ "tool_input": text }) },
        ItemKind::ToolOutput => {
            return Event::ToolResult {
                // The item has the name of the tool call.
                tool: item.item.clone(),
                parent: item.parent.clone(),
                outcome: ToolOutcome::Interrupted,
                content: vec![Content::text(text)],
                changes: Vec::new(),
            };
        }
    };
    Event::Message {
        item: item.item.clone(),
        message: item.message.clone(),
        parent: item.parent.clone(),
        model: None,
        content: vec![content],
        interrupted: ended == Ended::CutOff,
        stop_reason: None,
    }
}

/// Closes everything that an agent's end leaves open, then records the end. Prompts that were not being sent stay in
/// the queue.
pub(super) fn agent_ended(book: &mut Book<State>, now: Millis, exit: Exit) {
    close_work(book, now, Reach::All);
    let requests: Vec<_> = book.state().requests.iter().map(|open| open.request).collect();
    for request in requests {
        let outcome = Outcome::AgentGone { reason: exit.message.clone() };
        book.append(now, None, Event::RequestClosed { request, outcome });
    }
    if let Some(turn) = book.state().turn.as_ref().map(|turn| turn.turn) {
        let mut result = TurnResult::bare(TurnOutcome::Interrupted);
        if exit.reason.is_error() {
            result.outcome = TurnOutcome::Failed;
            result.error = Some(crate::event::ErrorInfo {
                kind: crate::event::ErrorKind::Agent,
                message: exit.message.clone(),
                way_out: None,
            });
        }
        book.append(now, None, Event::TurnEnded { turn, result: Box::new(result) });
    }
    let open: Vec<_> =
        book.state().commands.iter().map(|c| (c.seq, c.name.clone(), c.stage.clone())).collect();
    for (seq, name, stage) in open {
        if let Some(settled) = settled_by(&exit, &name, stage) {
            receipt(book, now, seq, settled);
        }
    }
    let generation = book.state().generation;
    book.append(now, None, Event::AgentExited { generation, exit });
}

/// How the agent's end settles a command; `None` if the command has ended already, or waits for the next start.
fn settled_by(exit: &Exit, name: &ActionName, stage: Stage) -> Option<Stage> {
    let refused = |why: &str| Stage::Refused { refusal: Refusal::new(RefusalCode::NotRunning, why) };
    Some(match (stage, name) {
        (Stage::Uncertain { .. } | Stage::Consumed { .. } | Stage::Refused { .. }, _)
        | (Stage::Accepted, ActionName::Prompt) => return None,
        (_, ActionName::Stop | ActionName::Archive) => Stage::Consumed { result: None },
        (Stage::Accepted | Stage::Sending, ActionName::Resume) if exit.reason.is_error() => {
            refused(&exit.message)
        }
        (Stage::Accepted | Stage::Sending, ActionName::Resume) => Stage::Consumed { result: None },
        (Stage::Accepted, _) => refused("the agent ended before the command was sent"),
        (Stage::Sending | Stage::Delivered, _) => Stage::Uncertain { reason: exit.message.clone() },
    })
}

/// Appends the progress of a command, and updates the store's index of commands.
pub(super) fn receipt(book: &mut Book<State>, now: Millis, command: Seq, stage: Stage) {
    let Some(open) = book.state().commands.iter().find(|open| open.seq == command) else { return };
    let row = command_row(&open.key, command, &stage);
    book.append(now, None, Event::Receipt { command, stage });
    book.also(ports::Op::Command(row));
}

/// The store's row for a command.
pub(super) fn command_row(key: &crate::command::CommandKey, seq: Seq, stage: &Stage) -> ports::CommandRow {
    // Our own types serialise.
    let stage = serde_json::to_vec(stage).unwrap_or_default().into();
    ports::CommandRow { key: key.clone(), seq, stage }
}

/// What an ended daemon left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing was open.
    Nothing,
    /// The agent was running.
    Running,
}

/// Items that were open when the daemon ended, for an agent that still runs: the state has them again from the entry
/// `now` on.
pub(crate) fn reopened(open_items: &[ports::OpenItem], now: Seq) -> Vec<OpenItem> {
    let reopen = |open: &ports::OpenItem| {
        let stored = crate::Stored { seq: Seq::ZERO, frame: open.started.clone() };
        let Event::ItemStarted { item, kind, message, parent } = stored.decode::<Event>().ok()?.event else {
            return None;
        };
        let (text, marks) = (open.text.clone(), vec![(now, open.text.len())]);
        Some(OpenItem { item, kind, message, parent, text, started: now, marks })
    };
    open_items.iter().filter_map(reopen).collect()
}

/// After a crash: closes what the daemon left open, according to its log and the chunks of open items.
pub(super) fn recover(book: &mut Book<State>, now: Millis, open_items: &[ports::OpenItem]) -> Left {
    // An item without text says nothing: it is kept only for an agent that still runs.
    for item in reopened(open_items, Seq::ZERO).iter().filter(|item| !item.text.is_empty()) {
        book.append(now, None, finished(item, Ended::CutOff));
    }
    for open in open_items {
        book.also(ports::Op::CloseItem { item: open.item.clone() });
    }
    let state = book.state();
    let unsettled = |stage: &Stage| matches!(stage, Stage::Sending | Stage::Delivered);
    let ended_badly = state.summary.is_live()
        || state.turn.is_some()
        || !state.requests.is_empty()
        || state.commands.iter().any(|command| unsettled(&command.stage));
    if ended_badly {
        let message =
            "Portolan ended while the agent was running; the agent's unfinished work is lost".to_owned();
        let exit =
            Exit { reason: ExitReason::DaemonGone, code: None, signal: None, message, stderr: String::new() };
        agent_ended(book, now, exit);
        return Left::Running;
    }
    Left::Nothing
}
