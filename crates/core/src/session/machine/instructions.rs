//! Instructions to the agent: each is stored with the entry that caused it, sent after that entry is committed, and
//! kept until the agent has settled it.

use std::{borrow::Cow, collections::BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    Machine, Want,
    memory::{Kept, Memory},
};
use crate::{
    Seq, SessionId,
    event::Setting,
    log::Book,
    policy::Decision,
    ports::{Instruction, InstructionId, Op, Order},
    session::state::State,
};

/// The collection of [`Unsettled`] in the store.
pub(crate) const INSTRUCTIONS: &str = "instructions";

/// An instruction that the agent has not settled, as the store keeps it. It holds secrets and is never shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unsettled {
    /// Homes of earlier versions call it `ticket`.
    #[serde(alias = "ticket")]
    instruction_id: InstructionId,
    what: What,
    /// The entry after which the instruction is sent.
    after: Seq,
    /// The setting that holds after the agent has confirmed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setting: Option<Setting>,
}

/// An instruction's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Order(Order),
    /// End the agent. This passes every other instruction on its own path, and the agent's end settles it.
    Stop,
}

impl Unsettled {
    /// The name under which the instruction is settled.
    pub(crate) fn instruction_id(&self) -> InstructionId {
        self.instruction_id
    }

    /// All instructions of a session, in their order.
    pub(crate) fn of(
        session: SessionId,
        records: Vec<(String, Bytes)>,
    ) -> Result<Vec<Self>, serde_json::Error> {
        let prefix = prefix(session);
        let own = records.iter().filter(|(key, _)| key.starts_with(&prefix));
        let mut all: Vec<Self> =
            own.map(|(_, value)| serde_json::from_slice(value)).collect::<Result<_, _>>()?;
        all.sort_by_key(|unsettled| unsettled.after);
        Ok(all)
    }
}

fn prefix(session: SessionId) -> String {
    format!("{session}/")
}

fn key(session: SessionId, instruction_id: InstructionId) -> String {
    format!("{}{:020}", prefix(session), instruction_id.0)
}

fn session_of(book: &Book<State>) -> SessionId {
    book.state().summary.session
}

impl Machine {
    /// The next instruction whose entry is visible.
    pub fn next_instruction(&mut self, visible: Seq) -> Option<Instruction> {
        let (gate, _) = self.outbox.front()?;
        if *gate > visible {
            return None;
        }
        self.outbox.pop_front().map(|(_, instruction)| instruction)
    }

    /// Puts back an instruction that the agent had no room for.
    pub fn put_back(&mut self, instruction: Instruction) {
        self.outbox.push_front((Seq::ZERO, instruction));
    }

    /// Is an instruction waiting for the agent?
    pub fn has_instructions(&self) -> bool {
        !self.outbox.is_empty() || self.stop_after.is_some()
    }

    /// The task's work, now that entries up to `visible` are committed.
    pub fn take_wants(&mut self, visible: Seq) -> Vec<Want> {
        let mut wants = std::mem::take(&mut self.wants);
        if self.stop_after.take_if(|gate| *gate <= visible).is_some() {
            wants.push(Want::Stop);
        }
        wants
    }

    /// Sends this instruction after everything appended so far is committed.
    pub(super) fn tell(
        &mut self,
        book: &mut Book<State>,
        instruction_id: InstructionId,
        order: Order,
        setting: Option<Setting>,
    ) {
        let stored = What::Order(without_prompt(&order).into_owned());
        self.keep(book, instruction_id, stored, setting);
        self.outbox.push_back((book.head(), Instruction { id: instruction_id, order }));
    }

    /// Tells the agent to go on, or to ask first. Nothing is recorded: an agent that ends meanwhile does not wait.
    pub(super) fn tell_checked(&mut self, key: String, decision: Decision) {
        let order = Order::Checked { key, decision };
        self.outbox.push_back((Seq::ZERO, Instruction { id: InstructionId::UNRECORDED, order }));
    }

    /// Ends the agent after everything appended so far is committed.
    pub(super) fn tell_to_stop(&mut self, book: &mut Book<State>, instruction_id: InstructionId) {
        self.keep(book, instruction_id, What::Stop, None);
        self.stop_after = Some(book.head());
    }

    fn keep(
        &mut self,
        book: &mut Book<State>,
        instruction_id: InstructionId,
        what: What,
        setting: Option<Setting>,
    ) {
        let unsettled = Unsettled { instruction_id, what, after: book.head(), setting };
        // Our own types serialise.
        let value = Bytes::from(serde_json::to_vec(&unsettled).unwrap_or_default());
        book.also(Op::Put { collection: INSTRUCTIONS, key: key(session_of(book), instruction_id), value });
        self.told.insert(instruction_id, unsettled.setting);
    }

    /// The agent has settled this. Returns the setting that the instruction was about.
    pub(super) fn settle(
        &mut self,
        book: &mut Book<State>,
        instruction_id: InstructionId,
    ) -> Option<Setting> {
        let setting = self.told.remove(&instruction_id)?;
        book.also(Op::Remove { collection: INSTRUCTIONS, key: key(session_of(book), instruction_id) });
        setting
    }

    /// Forgets all instructions: the agent has ended.
    pub(super) fn forget_told(&mut self, book: &mut Book<State>) {
        self.outbox.clear();
        self.stop_after = None;
        for instruction_id in std::mem::take(&mut self.told).into_keys() {
            book.also(Op::Remove { collection: INSTRUCTIONS, key: key(session_of(book), instruction_id) });
        }
    }

    /// With an agent that still runs: continues where the last daemon stopped. Instructions that the agent's link has
    /// not `taken` are sent; later reports settle the others.
    pub fn restore(
        &mut self,
        state: &State,
        memory: Memory,
        unsettled: Vec<Unsettled>,
        taken: &BTreeSet<InstructionId>,
    ) {
        self.memory = Kept::stored(memory);
        // A stop that nobody ordered has no instruction, and may not have reached the agent. A second stop changes
        // nothing.
        if self.is_stopping() {
            self.stop_after = Some(Seq::ZERO);
        }
        for Unsettled { instruction_id, what, setting, .. } in unsettled {
            self.told.insert(instruction_id, setting);
            if let What::Order(Order::Answer { key, .. }) = &what {
                self.answered_before.insert(key.clone());
            }
            match what {
                // A second stop changes nothing.
                What::Stop => self.stop_after = Some(Seq::ZERO),
                What::Order(_) if taken.contains(&instruction_id) => {}
                What::Order(order) => {
                    let order = with_prompt(order, instruction_id, state);
                    self.outbox.push_back((Seq::ZERO, Instruction { id: instruction_id, order }));
                }
            }
        }
    }

    /// Adds the memory's changes to the entries for the store.
    pub fn note_memory(&mut self, book: &mut Book<State>) {
        if let Some(op) = self.memory.take_change(session_of(book)) {
            book.also(op);
        }
    }
}

/// An order as it is stored: without the prompt, which is already in the log and may be large.
fn without_prompt(order: &Order) -> Cow<'_, Order> {
    match order {
        Order::Prompt { .. } => Cow::Owned(Order::Prompt { content: Vec::new() }),
        Order::Steer { .. } => Cow::Owned(Order::Steer { content: Vec::new() }),
        other => Cow::Borrowed(other),
    }
}

fn with_prompt(mut order: Order, instruction_id: InstructionId, state: &State) -> Order {
    if let Order::Prompt { content } | Order::Steer { content } = &mut order {
        let open = state.commands.iter().find(|open| open.seq.0 == instruction_id.0);
        *content = open.map(|open| open.content.clone()).unwrap_or_default();
    }
    order
}
