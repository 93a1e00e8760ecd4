//! Budgets: what the machine says, stops and holds back.

use super::*;
use crate::{
    access::PolicySource,
    command::Receipt,
    event::{TurnOrigin, TurnOutcome, TurnResult},
    policy::{
        Budget, BudgetId, BudgetScope, BudgetTerms, Limits, Spending, Standing,
        budget::{Level, Measure, Period, Usd},
    },
    usage::TokenUsage,
};

fn tokens(input: u64) -> TokenUsage {
    TokenUsage { input, ..TokenUsage::default() }
}

impl World {
    fn limit(&mut self, limits: Limits) -> Receipt {
        self.send(9, Action::SetBudget { budget: Some(BudgetTerms { limits, per: None }) }).unwrap()
    }

    fn begin_turn(&mut self) {
        self.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    }

    fn uses(&mut self, input: u64) {
        let (model, parent, context_window) = (None, None, None);
        let event = Event::Usage { usage: tokens(input), model, parent, context_window, context_only: false };
        self.report(Report::Event { event, raw: None });
    }

    /// The turn of the prompt that was sent last ends.
    fn end_turn(&mut self, result: TurnResult) {
        let sent: Vec<_> = self.prompts_told().into_keys().collect();
        if let Some(last) = sent.last() {
            self.report(Report::Consumed { instruction_id: *last, result: None });
        }
        self.report(Report::TurnEnded { result: Box::new(result), raw: None });
        self.commit();
    }

    /// A whole turn with this prompt.
    fn turn(&mut self, text: &str, cost: Option<f64>) {
        self.send(1, prompt(text)).unwrap();
        self.commit();
        self.begin_turn();
        self.end_turn(TurnResult { cost_usd: cost, ..TurnResult::bare(TurnOutcome::Completed) });
    }

    fn standings(&self) -> Vec<Standing> {
        let reached = |(_, event)| match event {
            Event::BudgetReached { standing } => Some(*standing),
            _ => None,
        };
        self.events().into_iter().filter_map(reached).collect()
    }

    fn levels(&self) -> Vec<Level> {
        self.standings().iter().map(|standing| standing.level).collect()
    }

    fn interrupts(&self) -> usize {
        self.told.iter().filter(|(_, told)| told.order == Order::Interrupt).count()
    }

    fn queued(&self) -> u32 {
        self.book.state().summary.queued
    }
}

fn done() -> TurnResult {
    TurnResult::bare(TurnOutcome::Completed)
}

fn turns(turns: u32) -> Limits {
    Limits { turns: Some(turns), ..Limits::default() }
}

#[test]
fn prompts_wait_when_the_turns_are_spent_and_go_on_after_a_raise() {
    let mut world = ready();
    world.limit(turns(5));
    for _ in 0..3 {
        world.turn("go", None);
    }
    assert_eq!(world.levels(), []);
    world.turn("go", None);
    assert_eq!(world.levels(), [Level::Warn], "4 of 5 turns");
    world.turn("go", None);
    assert_eq!(world.levels(), [Level::Warn, Level::Over]);
    assert_eq!(world.interrupts(), 0, "the turn that reaches the limit may end");
    let held = world.send(1, prompt("wait")).unwrap();
    world.commit();
    assert_eq!((held.stage, world.queued(), world.prompts_told().len()), (Stage::Accepted, 1, 5));
    let why = world.book.state().summary.over_budget.clone();
    assert_eq!(why.as_deref(), Some("the budget of this session is spent: 5 of 5 turns"));
    let last = world.standings().pop().unwrap();
    assert_eq!(
        (last.level, last.measure),
        (Level::Over, Measure::Turns),
        "the log says why the prompt waits"
    );
    world.limit(turns(50));
    world.commit();
    assert_eq!((world.queued(), world.prompts_told().len()), (0, 6), "the prompt is on its way");
    assert_eq!(world.book.state().summary.over_budget, None);
    assert_eq!(world.levels().last(), Some(&Level::Fine));
}

#[test]
fn a_turn_that_spends_the_tokens_is_interrupted_once_with_the_reason() {
    let mut world = ready();
    world.limit(Limits { tokens: Some(100), ..Limits::default() });
    world.send(1, prompt("go")).unwrap();
    world.commit();
    world.begin_turn();
    let request = world.ask("Bash");
    world.uses(85);
    world.commit();
    assert_eq!((world.levels(), world.interrupts()), (vec![Level::Warn], 0));
    world.uses(20);
    world.uses(20);
    world.commit();
    assert_eq!(world.interrupts(), 1);
    let budget = Actor::policy(PolicySource::Budget, "budget of this session");
    let closed = Event::RequestClosed { request, outcome: Outcome::Interrupted { by: budget } };
    assert!(world.events().iter().any(|(_, event)| *event == closed), "nobody can answer any more");
    let reason = world.standings().pop().unwrap();
    assert_eq!(
        (reason.level, reason.spent, reason.limit, reason.estimated),
        (Level::Over, 105.0, 100.0, true)
    );
    world.end_turn(TurnResult { usage: Some(tokens(110)), ..TurnResult::bare(TurnOutcome::Interrupted) });
    let own = world.book.state().budget.clone().unwrap();
    assert_eq!((own.spent.tokens, own.spent.estimated), (110, false), "the result has the true figure");
    world.send(1, prompt("more")).unwrap();
    world.commit();
    assert_eq!(world.queued(), 1);
    world.send(9, Action::ResetBudget).unwrap();
    world.commit();
    assert_eq!((world.queued(), world.book.state().budgets.len()), (0, 0));
}

#[test]
fn a_cost_limit_holds_after_the_turn_that_reaches_it() {
    let mut world = ready();
    world.limit(Limits { cost_usd: Some(Usd::from(1.0)), ..Limits::default() });
    let notice = |(_, event): &(Seq, Event)| matches!(event, Event::Notice { text, .. } if text.contains("does not report its cost"));
    assert!(world.events().iter().any(notice), "this agent does not track its cost");
    world.turn("one", Some(0.5));
    world.turn("two", None);
    assert_eq!(world.levels(), []);
    world.turn("three", Some(0.5));
    assert_eq!(world.levels(), [Level::Over]);
    let spent = world.book.state().budget.clone().unwrap().spent;
    assert_eq!((spent.cost_usd, spent.unpriced_turns), (Some(Usd::from(1.0)), 1));
}

#[test]
fn the_agent_does_not_start_for_a_prompt_that_must_wait() {
    let mut world = ready();
    world.limit(turns(1));
    world.turn("only", None);
    world.exit(ExitReason::Stopped);
    world.commit();
    let starts = world.started;
    world.send(1, prompt("later")).unwrap();
    world.commit();
    assert_eq!((world.started, world.queued()), (starts, 1));
    assert!(!world.machine.is_idle(world.book.state()), "the session stays open for its prompt");
    world.limit(turns(2));
    world.commit();
    assert_eq!(world.started, starts + 1, "the raise starts the agent");
    world.report(Report::Ready);
    world.commit();
    assert_eq!((world.queued(), world.prompts_told().len()), (0, 2));
}

#[test]
fn a_spent_budget_survives_a_crash() {
    let mut world = ready();
    world.limit(Limits { tokens: Some(10), ..Limits::default() });
    world.send(1, prompt("go")).unwrap();
    world.commit();
    world.begin_turn();
    world.uses(9);
    world.commit();
    world.crash();
    let own = world.book.state().budget.clone().unwrap();
    let expected =
        Spending { tokens: 9, turns: 1, unpriced_turns: 1, estimated: true, ..Spending::default() };
    assert_eq!(own.spent, expected, "the turn that was cut off counts once, by its estimate");
    assert_eq!(own.limits.tokens, Some(10));
}

fn for_all(limits: Limits) -> Budget {
    Budget {
        budget: BudgetId("b".into()),
        scope: BudgetScope::User,
        limits,
        per: Some(Period::Day),
        since: Millis(0),
        before: Spending::default(),
        made_at: Millis(0),
        made_by: Actor::Daemon,
    }
}

#[test]
fn what_this_session_uses_counts_for_a_shared_budget_before_the_next_prompt() {
    let mut world = ready();
    let spent = Spending { turns: 8, ..Spending::default() };
    world.machine.know_budgets(&mut world.book, world.now, vec![(for_all(turns(10)), spent)]);
    world.send(1, prompt("nine")).unwrap();
    world.send(1, prompt("ten")).unwrap();
    world.send(1, prompt("eleven")).unwrap();
    world.commit();
    assert_eq!(world.prompts_told().len(), 1, "with a budget, each prompt waits for the turn before it");
    world.begin_turn();
    world.end_turn(done());
    world.begin_turn();
    world.end_turn(done());
    assert_eq!((world.prompts_told().len(), world.queued()), (2, 1));
    assert_eq!(world.levels(), [Level::Warn, Level::Over]);
    world.machine.know_budgets(&mut world.book, world.now, vec![(for_all(turns(10)), Spending::default())]);
    world.commit();
    assert_eq!((world.prompts_told().len(), world.queued()), (3, 0), "another day");
}

#[test]
fn a_budget_that_other_sessions_spent_writes_no_entry_in_a_session_with_nothing_to_do() {
    let mut world = ready();
    let head = world.book.head();
    let spent = Spending { turns: 10, ..Spending::default() };
    world.machine.know_budgets(&mut world.book, world.now, vec![(for_all(turns(10)), spent)]);
    assert_eq!(world.book.head(), head);
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    world.commit();
    assert_eq!(world.interrupts(), 1, "the agent begins no turn of its own while a budget is spent");
}

#[test]
fn a_budget_needs_a_limit_and_a_reset_needs_a_budget() {
    let mut world = ready();
    let empty = Action::SetBudget { budget: Some(BudgetTerms::default()) };
    assert_eq!(world.send(1, empty).unwrap_err().code, RefusalCode::Invalid);
    for action in [Action::ResetBudget, Action::SetBudget { budget: None }] {
        assert_eq!(world.send(1, action).unwrap_err().code, RefusalCode::NotFound);
    }
    assert_eq!(Action::ResetBudget.needs(), crate::Role::Owner);
}
