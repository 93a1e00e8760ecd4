//! Prompts: which waiting prompt goes to the agent, and when.

use std::collections::HashSet;

use super::{Machine, budgets::Moment, memory::Running};
use crate::{
    Event, Millis,
    capabilities::PromptQueue,
    command::{ActionName, CommandKey, Stage},
    event::Content,
    log::Book,
    ports::{InstructionId, Order},
    session::{
        settle::receipt,
        state::{OpenCommand, State},
    },
};

impl Machine {
    /// From now on these prompts are held back, with all prompts behind them.
    pub fn hold(&mut self, book: &mut Book<State>, now: Millis, held: HashSet<CommandKey>) {
        self.held = held;
        self.pump(book, now);
    }

    /// Sends the queued prompts that are due.
    pub(super) fn pump(&mut self, book: &mut Book<State>, now: Millis) {
        if self.weigh(book, now, Moment::Other) {
            return;
        }
        while self.memory.running == Running::Ready {
            let state = book.state();
            // With a budget, each prompt is judged by what the turn before it has used.
            let held = state.capabilities.prompt_queue == PromptQueue::Held || self.is_budgeted(state);
            if held && (state.turn.is_some() || prompt_underway(state)) {
                return;
            }
            let Some(next) = state.commands.iter().find(|open| open.is_queued_prompt()).cloned() else {
                return;
            };
            if self.held.contains(&next.key) {
                return;
            }
            self.hand_over(book, now, next, |content| Order::Prompt { content });
        }
    }

    /// A prompt leaves the queue for the agent.
    pub(super) fn hand_over(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        prompt: OpenCommand,
        order: fn(Vec<Content>) -> Order,
    ) {
        let OpenCommand { seq, by, content, .. } = prompt;
        receipt(book, now, seq, Stage::Sending);
        book.append(now, Some(by), Event::Prompt { command: seq, content: content.clone() });
        self.tell(book, InstructionId(seq.0), order(content), None);
    }
}

/// A prompt is on its way to the agent.
pub(super) fn prompt_underway(state: &State) -> bool {
    let underway = |stage: &Stage| matches!(stage, Stage::Sending | Stage::Delivered);
    state.commands.iter().any(|open| open.name == ActionName::Prompt && underway(&open.stage))
}
