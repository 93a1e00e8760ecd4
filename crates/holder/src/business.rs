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

#[cfg(test)]
mod tests {
    use portolan_core::{
        event::{Exit, ExitReason, Task, ToolOutcome, TurnOrigin, TurnOutcome, TurnResult},
        policy::Decision,
        ports::Doer,
        request::{Answer, Ask},
    };

    use super::*;

    /// What a holder sees.
    enum Seen {
        Says(Report),
        Hears(u64, Order),
    }

    use Seen::{Hears, Says};

    fn ask() -> Box<Ask> {
        Box::new(Ask::permission("Write", serde_json::json!({})))
    }

    fn opened(key: &str) -> Seen {
        Says(Report::RequestOpened { key: key.into(), ask: ask(), parent: None, tool: None, raw: None })
    }

    fn unasked(key: &str) -> Seen {
        let doer = Doer::Portolan;
        Says(Report::Unasked { key: key.into(), ask: ask(), parent: None, tool: None, doer, raw: None })
    }

    fn event(event: Event) -> Seen {
        Says(Report::Event { event, raw: None })
    }

    fn subagent(background: bool) -> Seen {
        event(Event::SubagentStarted {
            subagent: "crew".into(),
            parent: None,
            subagent_type: None,
            description: String::new(),
            prompt: None,
            model: None,
            background,
            team: None,
        })
    }

    fn task(status: TaskStatus) -> Seen {
        event(Event::TaskChanged { task: Box::new(Task { task: "tide".into(), status, ..Task::default() }) })
    }

    fn turn_started() -> Seen {
        Says(Report::TurnStarted { origin: TurnOrigin::Prompt })
    }

    fn turn_ended() -> Seen {
        Says(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None })
    }

    fn answer(id: u64, key: &str) -> Seen {
        Hears(id, Order::Answer { key: key.into(), ask: ask(), answer: Answer::allow() })
    }

    fn settled(id: u64) -> Seen {
        Says(Report::Consumed { instruction_id: InstructionId(id), result: None })
    }

    fn after(all: impl IntoIterator<Item = Seen>) -> Business {
        let (mut business, mut number) = (Business::default(), 0);
        for seen in all {
            match seen {
                Says(report) => {
                    number += 1;
                    business.report(number, &report);
                }
                Hears(id, order) => {
                    business.instruct(&Instruction { id: InstructionId(id), order });
                }
            }
        }
        business
    }

    #[test]
    fn an_agent_is_idle_if_it_is_ready_and_nothing_is_left_to_do() {
        let prompt = |id| Hears(id, Order::Prompt { content: vec![] });
        let ended = || {
            let (reason, message, stderr) = (ExitReason::Stopped, String::new(), String::new());
            Says(Report::Exited(Exit { reason, code: None, signal: None, message, stderr }))
        };
        let subagent_ended = || {
            let (outcome, summary, work) = (ToolOutcome::Done, None, None);
            event(Event::SubagentEnded { subagent: "crew".into(), outcome, summary, work })
        };
        let unrecorded = InstructionId::UNRECORDED.0;
        let checked = || Hears(unrecorded, Order::Checked { key: "a".into(), decision: Decision::Allow });
        let rejected = Report::Rejected { instruction_id: InstructionId(7), error: String::new() };
        let uncertain = Report::Uncertain { instruction_id: InstructionId(7), reason: String::new() };
        let cases = [
            ("ready", vec![], true),
            ("a turn", vec![turn_started()], false),
            ("an ended turn", vec![turn_started(), turn_ended()], true),
            ("an open request", vec![opened("a")], false),
            ("an answered request", vec![opened("a"), answer(7, "a"), settled(7)], true),
            ("another request", vec![opened("a"), opened("b"), answer(7, "a"), settled(7)], false),
            (
                "a withdrawn request",
                vec![opened("a"), Says(Report::RequestWithdrawn { key: "a".into() })],
                true,
            ),
            ("what waits for policy", vec![unasked("a")], false),
            ("what policy lets pass", vec![unasked("a"), checked()], true),
            ("a subagent in the background", vec![subagent(true)], false),
            ("its end", vec![subagent(true), subagent_ended()], true),
            ("a subagent of a turn", vec![turn_started(), subagent(false), turn_ended()], true),
            ("a task", vec![task(TaskStatus::Running)], false),
            ("a task that outlives its turn", vec![task(TaskStatus::Running), turn_ended()], false),
            ("its success", vec![task(TaskStatus::Running), task(TaskStatus::Completed)], true),
            ("its failure", vec![task(TaskStatus::Running), task(TaskStatus::Failed)], true),
            ("its stop", vec![task(TaskStatus::Running), task(TaskStatus::Stopped)], true),
            ("an unsettled prompt", vec![prompt(7)], false),
            ("a delivered prompt", vec![prompt(7), Says(Report::Delivered(InstructionId(7)))], false),
            ("a consumed prompt", vec![prompt(7), settled(7)], true),
            ("a rejected prompt", vec![prompt(7), Says(rejected)], true),
            ("a prompt whose fate nobody knows", vec![prompt(7), Says(uncertain)], true),
            ("another prompt", vec![prompt(7), prompt(8), settled(7)], false),
            ("an agent that has ended", vec![ended()], false),
        ];
        assert!(!after([]).is_idle(), "an agent that is not ready has something to do");
        for (name, seen, idle) in cases {
            let business = after([Says(Report::Ready)].into_iter().chain(seen));
            assert_eq!(business.is_idle(), idle, "{name}");
        }
    }

    #[test]
    fn an_instruction_is_taken_once_and_forgotten_when_its_end_is_recorded() {
        let mut business = after([Says(Report::Ready), Hears(7, Order::Interrupt), settled(7)]);
        let order = Order::Interrupt;
        assert!(!business.instruct(&Instruction { id: InstructionId(7), order: order.clone() }));
        let asked = BTreeSet::from([7, 8].map(InstructionId));
        business.recorded(1);
        assert_eq!(business.taken(&asked), [InstructionId(7)].into(), "a new daemon may ask for it");
        business.recorded(2);
        assert_eq!(business.taken(&asked), [].into());
        for _ in 0..2 {
            let unrecorded = Instruction { id: InstructionId::UNRECORDED, order: order.clone() };
            assert!(business.instruct(&unrecorded), "nobody counts those");
        }
        assert!(business.is_idle());
    }

    #[test]
    fn what_waits_for_policy_is_said_again_only_if_it_was_recorded_before() {
        let business = after([Says(Report::Ready), unasked("a"), unasked("b")]);
        let Says(first) = unasked("a") else { return };
        assert_eq!(business.unanswered(1), []);
        assert_eq!(business.unanswered(2), [first]);
    }
}
