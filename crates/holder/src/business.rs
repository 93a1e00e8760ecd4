//! Business: what an agent is doing, as far as its reports and instructions show. Pure.
//!
//! A holder without a daemon ends an agent that has nothing to do. It must also know which instructions have arrived, so
//! that a new daemon sends each of them once; and which questions of the agent wait for a daemon that never heard of
//! them in the end.

use std::collections::{BTreeMap, BTreeSet, HashSet, btree_map::Entry};

use portolan_core::{
    Event,
    event::TaskStatus,
    ports::{Instruction, InstructionId, Order, Report},
};

#[derive(Debug, Default)]
pub(crate) struct Business {
    is_ready: bool,
    turn: bool,
    /// The agent's own keys of its open requests.
    requests: HashSet<String>,
    /// What waits for policy, by the agent's own key, with the number of its report.
    unasked: BTreeMap<String, (u64, Report)>,
    /// Subagents and tasks in the background.
    background: HashSet<String>,
    /// Instructions that have arrived, and the number of the report that settled each.
    taken: BTreeMap<InstructionId, Option<u64>>,
}

impl Business {
    /// The agent sent this report.
    pub(crate) fn report(&mut self, number: u64, report: &Report) {
        match report {
            Report::Ready => self.is_ready = true,
            Report::TurnStarted { .. } => self.turn = true,
            Report::TurnEnded { .. } => self.turn = false,
            Report::RequestOpened { key, .. } => {
                self.requests.insert(key.clone());
            }
            Report::Unasked { key, .. } => {
                self.unasked.insert(key.clone(), (number, report.clone()));
            }
            Report::RequestWithdrawn { key } => self.close(key),
            Report::Consumed { instruction_id, .. }
            | Report::Rejected { instruction_id, .. }
            | Report::Uncertain { instruction_id, .. } => {
                if let Some(settled) = self.taken.get_mut(instruction_id) {
                    settled.get_or_insert(number);
                }
            }
            Report::Event { event, .. } => self.event(event),
            Report::Exited(_) => *self = Self { taken: std::mem::take(&mut self.taken), ..Self::default() },
            Report::Started { .. }
            | Report::CutOff { .. }
            | Report::Delivered(_)
            | Report::Missing { .. }
            | Report::Remark { .. }
            | Report::LinkLost { .. }
            | Report::LinkRestored => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::SubagentStarted { subagent, background: true, .. } => {
                self.background.insert(subagent.clone());
            }
            Event::SubagentEnded { subagent, .. } => {
                self.background.remove(subagent);
            }
            Event::TaskChanged { task } => {
                let runs = matches!(task.status, TaskStatus::Running);
                if runs {
                    self.background.insert(task.task.clone());
                } else {
                    self.background.remove(&task.task);
                }
            }
            _ => {}
        }
    }

    /// This instruction goes to the agent. `false` if it has arrived before.
    pub(crate) fn instruct(&mut self, instruction: &Instruction) -> bool {
        match &instruction.order {
            Order::Answer { key, .. } | Order::Checked { key, .. } => self.close(key),
            _ => {}
        }
        if instruction.id == InstructionId::UNRECORDED {
            return true;
        }
        match self.taken.entry(instruction.id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                true
            }
        }
    }

    fn close(&mut self, key: &str) {
        self.requests.remove(key);
        self.unasked.remove(key);
    }

    /// So many reports are recorded: what they settled needs no memory.
    pub(crate) fn recorded(&mut self, reports: u64) {
        self.taken.retain(|_, settled| settled.is_none_or(|number| number > reports));
    }

    /// Which of these instructions have arrived.
    pub(crate) fn taken(&self, unsettled: &BTreeSet<InstructionId>) -> BTreeSet<InstructionId> {
        unsettled.iter().filter(|id| self.taken.contains_key(id)).copied().collect()
    }

    /// What waits for policy although it was reported to a daemon that has recorded so many reports.
    pub(crate) fn unanswered(&self, recorded: u64) -> Vec<Report> {
        let old = self.unasked.values().filter(|(number, _)| *number <= recorded);
        old.map(|(_, report)| report.clone()).collect()
    }

    /// The agent has no turn, no open request, no task in the background, and no instruction on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_ready
            && !self.turn
            && self.requests.is_empty()
            && self.unasked.is_empty()
            && self.background.is_empty()
            && self.taken.values().all(Option::is_some)
    }
}
