//! Budgets in the registry: what several sessions use together, who may set limits, and what a restart leaves of them.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use common::{World, spec};
use portolan_core::{
    Action, CommandId, Event, Millis, RefusalCode, Role, Seq, SessionId, SessionSpec,
    event::{TurnOutcome, TurnResult},
    log::delivery::Start,
    policy::{
        BudgetDraft, BudgetId, BudgetScope, BudgetTerms, Limits, Spending,
        budget::{Level, Period, Usd},
    },
    ports::{Clock, Order, Report},
    registry::BudgetDescription,
    session::machine::Policy,
    usage::TokenUsage,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::Strings,
    sessions::{owner, principal},
};

const DAY: i64 = 24 * 60 * 60 * 1000;

fn turns(turns: u32) -> Limits {
    Limits { turns: Some(turns), ..Limits::default() }
}

async fn set(world: &World, draft: BudgetDraft) -> BudgetDescription {
    world.registry.set_budget(&owner(), CommandId::random(), draft).await.expect("a budget")
}

async fn budgets(world: &World, session: Option<SessionId>) -> Vec<(String, Spending)> {
    let all = world.registry.budgets(&owner(), session).await.expect("budgets");
    all.into_iter().map(|known| (known.budget.scope.to_string(), known.spent)).collect()
}

/// One turn, with this cost and these tokens.
async fn turn(world: &World, session: SessionId, puppet: &mut Strings, cost: f64, input: u64) {
    let mut reader = world.attach(session, Start::Tail(0)).await;
    world.prompt(session, "go").await;
    puppet.take_prompt().await;
    let usage = Some(TokenUsage { input, ..TokenUsage::default() });
    let result = TurnResult { cost_usd: Some(cost), usage, ..TurnResult::bare(TurnOutcome::Completed) };
    puppet.say(Report::TurnEnded { result: Box::new(result), raw: None }).await;
    reader.until(|event| matches!(event, Event::TurnEnded { .. })).await;
}

fn is_level(level: Level) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::BudgetReached { standing } if standing.level == level)
}

#[tokio::test]
async fn sessions_of_a_project_share_its_budget_and_wait_when_it_is_spent() {
    let world = World::new().await;
    let (one, mut first) = world.session().await;
    let (other, mut second) = world.session().await;
    let scope = BudgetScope::Project { folder: std::env::temp_dir() };
    set(&world, BudgetDraft { scope, limits: turns(2), per: None }).await;
    turn(&world, one, &mut first, 0.25, 10).await;
    let mut reader = world.attach(other, Start::After(Seq::ZERO)).await;
    turn(&world, other, &mut second, 0.5, 20).await;
    reader.until(is_level(Level::Over)).await;
    let spent = budgets(&world, Some(one)).await.remove(0).1;
    let cost_usd = Some(Usd::from(0.75));
    assert_eq!(spent, Spending { cost_usd, tokens: 30, turns: 2, ..Spending::default() });
    let mut reader = world.attach(one, Start::Tail(0)).await;
    world.prompt(one, "wait").await;
    reader.until(is_level(Level::Over)).await;
    let waiting = world.registry.snapshot(&owner(), one).await.expect("a snapshot").state.summary.clone();
    assert_eq!(waiting.queued, 1);
    assert!(waiting.over_budget.expect("a reason").ends_with("is spent: 2 of 2 turns"));
    let scope = BudgetScope::Project { folder: std::env::temp_dir() };
    let raised = set(&world, BudgetDraft { scope, limits: turns(5), per: None }).await;
    assert_eq!((raised.spent.turns, raised.level), (2, Level::Fine), "a raise keeps what was used");
    first.take_prompt().await;
}

#[tokio::test]
async fn a_turn_is_interrupted_when_others_and_it_together_spend_the_tokens() {
    let world = World::new().await;
    let (one, mut first) = world.session().await;
    let (other, mut second) = world.session().await;
    let limits = Limits { tokens: Some(100), ..Limits::default() };
    set(&world, BudgetDraft { scope: BudgetScope::Agent { agent: "fake".into() }, limits, per: None }).await;
    world.prompt(one, "go").await;
    first.take_prompt().await;
    turn(&world, other, &mut second, 0.1, 60).await;
    let usage = TokenUsage { input: 50, ..TokenUsage::default() };
    let (model, parent, context_window) = (None, None, None);
    first.event(Event::Usage { usage, model, parent, context_window, context_only: false }).await;
    assert_eq!(first.told().await.order, Order::Interrupt);
    let snapshot = world.registry.snapshot(&owner(), one).await.expect("a snapshot");
    assert_eq!(snapshot.state.budgets.len(), 1);
}

#[tokio::test]
async fn spending_and_budgets_survive_a_restart_and_nothing_counts_twice() {
    let store = Arc::new(MemoryStore::new());
    let world = World::over(Arc::clone(&store), Policy::default()).await;
    let (session, mut puppet) = world.session().await;
    turn(&world, session, &mut puppet, 1.0, 1000).await;
    let made = set(&world, BudgetDraft { scope: BudgetScope::User, limits: turns(10), per: None }).await;
    assert_eq!(
        made.spent,
        Spending { cost_usd: Some(Usd::from(0.0)), ..Spending::default() },
        "it counts from now on"
    );
    let own = BudgetScope::Session { session };
    set(&world, BudgetDraft { scope: own, limits: turns(5), per: None }).await;
    turn(&world, session, &mut puppet, 0.5, 10).await;
    let before = budgets(&world, Some(session)).await;
    assert_eq!(
        before.iter().map(|(_, spent)| (spent.turns, spent.tokens)).collect::<Vec<_>>(),
        [(1, 10), (1, 10)]
    );
    // Killed: nothing is told to the registry that goes.
    let world = World::over(Arc::clone(&store), Policy::default()).await;
    assert_eq!(budgets(&world, Some(session)).await, before);
    assert_eq!(budgets(&world, None).await.len(), 1);
    let again = World::over(store, Policy::default()).await;
    assert_eq!(budgets(&again, Some(session)).await, before);
    let reset = again.registry.reset_budget(&owner(), CommandId::random(), &made.budget.budget).await;
    assert_eq!(reset.expect("reset").spent.turns, 0);
    let removed =
        again.registry.remove_budget(&owner(), CommandId::random(), &BudgetId::of_session(session)).await;
    assert_eq!(removed.expect("removed").spent.turns, 1);
    assert_eq!(budgets(&again, Some(session)).await.len(), 1);
    again.registry.remove_budget(&owner(), CommandId::random(), &made.budget.budget).await.expect("removed");
    let gone = again.registry.reset_budget(&owner(), CommandId::random(), &made.budget.budget).await;
    assert_eq!(gone.expect_err("gone").code, RefusalCode::NotFound);
}

#[tokio::test]
async fn a_budget_per_day_begins_again_on_the_next_day() {
    let now = Arc::new(AtomicI64::new(20_000 * DAY + DAY / 2));
    let clock = Arc::clone(&now);
    let clock = Clock::new(move || Millis(clock.load(Ordering::SeqCst)));
    let world = World::at(clock, Arc::new(MemoryStore::new()), Policy::default()).await;
    let (session, mut puppet) = world.session().await;
    let draft = BudgetDraft { scope: BudgetScope::User, limits: turns(1), per: Some(Period::Day) };
    let made = set(&world, draft.clone()).await;
    turn(&world, session, &mut puppet, 1.0, 1).await;
    world.prompt(session, "tomorrow").await;
    let waits = world.registry.snapshot(&owner(), session).await.expect("a snapshot").state.summary.queued;
    assert_eq!(waits, 1);
    now.fetch_add(DAY, Ordering::SeqCst);
    let spent = |all: Vec<(String, Spending)>| all[0].1.turns;
    assert_eq!(spent(budgets(&world, None).await), 0);
    // The alarm of the session rings at midnight; a change of the budget makes it look at once.
    set(&world, draft).await;
    puppet.take_prompt().await;
    assert_eq!(made.budget.per, Some(Period::Day));
}

#[tokio::test(start_paused = true)]
async fn prompts_that_wait_for_a_budget_per_day_go_on_at_midnight_by_themselves() {
    let begin = tokio::time::Instant::now();
    // One minute before midnight.
    let start = 20_001 * DAY - 60_000;
    let clock = Clock::new(move || Millis(start + begin.elapsed().as_millis() as i64));
    let world = World::at(clock, Arc::new(MemoryStore::new()), Policy::default()).await;
    let (session, mut puppet) = world.session().await;
    set(&world, BudgetDraft { scope: BudgetScope::User, limits: turns(1), per: Some(Period::Day) }).await;
    turn(&world, session, &mut puppet, 1.0, 1).await;
    world.prompt(session, "tomorrow").await;
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert!(puppet.instructions.try_recv().is_err(), "the day is not over");
    let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
    assert_eq!(snapshot.state.summary.queued, 1);
    puppet.take_prompt().await;
    let waited = begin.elapsed();
    assert!((60..=61).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test]
async fn only_owners_set_budgets_and_a_new_session_may_have_one() {
    let world = World::new().await;
    let operator = principal("operator", Role::Operator);
    let budget = Some(BudgetTerms { limits: turns(3), per: None });
    let made = world
        .registry
        .create(&operator, CommandId::random(), SessionSpec { budget, ..spec() })
        .await
        .expect("a session");
    for scope in [BudgetScope::User, BudgetScope::Session { session: made.session }] {
        let draft = BudgetDraft { scope, limits: turns(100), per: None };
        let refused = world.registry.set_budget(&operator, CommandId::random(), draft).await;
        assert_eq!(refused.expect_err("forbidden").code, RefusalCode::Forbidden);
    }
    let own = BudgetId::of_session(made.session);
    for refused in [
        world.registry.reset_budget(&operator, CommandId::random(), &own).await,
        world.registry.remove_budget(&operator, CommandId::random(), &own).await,
    ] {
        assert_eq!(refused.expect_err("forbidden").code, RefusalCode::Forbidden);
    }
    let all = world.registry.budgets(&operator, Some(made.session)).await.expect("budgets");
    assert_eq!(all[0].budget.limits, turns(3), "and everyone may read them");
    let empty = SessionSpec { budget: Some(BudgetTerms::default()), ..spec() };
    let refused = world.registry.create(&operator, CommandId::random(), empty).await;
    assert_eq!(refused.expect_err("no limit").code, RefusalCode::Invalid);
    let nobody =
        BudgetDraft { scope: BudgetScope::Agent { agent: "nobody".into() }, limits: turns(1), per: None };
    let refused = world.registry.set_budget(&owner(), CommandId::random(), nobody).await;
    assert_eq!(refused.expect_err("no such agent").code, RefusalCode::NotFound);
}

#[tokio::test]
async fn a_fork_has_the_limits_of_its_source_and_has_used_nothing() {
    let world = World::new().await;
    let budget = Some(BudgetTerms { limits: turns(3), per: None });
    let made = world
        .registry
        .create(&owner(), CommandId::random(), SessionSpec { budget, ..spec() })
        .await
        .expect("a session");
    let mut puppet = world.puppet().await;
    puppet.ready().await;
    turn(&world, made.session, &mut puppet, 1.0, 1).await;
    let fork = Some(portolan_core::spec::ForkPoint { session: made.session, at: None });
    let fork = SessionSpec { agent: String::new(), cwd: std::path::PathBuf::new(), fork, ..spec() };
    let forked = world.registry.create(&owner(), CommandId::random(), fork).await.expect("a fork");
    let spent = budgets(&world, Some(forked.session)).await;
    assert_eq!(spent[0].1, Spending::default());
    assert_eq!(budgets(&world, Some(made.session)).await[0].1.turns, 1);
}

#[tokio::test]
async fn a_fork_has_the_limits_and_the_mode_that_its_source_has_now() {
    let world = World::new().await;
    let mode = Some("ask".to_owned());
    let (was, is) = (
        BudgetTerms { limits: turns(3), per: None },
        BudgetTerms { limits: turns(1), per: Some(Period::Day) },
    );
    let asked = SessionSpec { budget: Some(was), mode, ..spec() };
    let made = world.registry.create(&owner(), CommandId::random(), asked).await.expect("a session");
    let mut puppet = world.puppet().await;
    puppet.ready().await;
    let mut reader = world.attach(made.session, Start::After(Seq::ZERO)).await;
    let change = async |action: Action| {
        world.registry.submit(&owner(), made.session, CommandId::random(), action).await.expect("taken in");
    };
    let fork = async || {
        let fork = Some(portolan_core::spec::ForkPoint { session: made.session, at: None });
        let asked = SessionSpec { fork, ..SessionSpec::default() };
        let forked = world.registry.create(&owner(), CommandId::random(), asked).await.expect("a fork");
        world.puppet().await.ready().await;
        let state = world.registry.snapshot(&owner(), forked.session).await.expect("a snapshot").state;
        (state.spec.budget, state.spec.mode.clone(), state.spec.deadline_seconds)
    };
    change(Action::SetBudget { budget: Some(is) }).await;
    change(Action::SetMode { mode: "edit".into() }).await;
    change(Action::SetDeadline { request: None, seconds: Some(60) }).await;
    let told = puppet.told().await;
    puppet.say(Report::Consumed { instruction_id: told.id, result: None }).await;
    reader.until(|event| matches!(event, Event::SettingChanged { .. })).await;
    assert_eq!(fork().await, (Some(is), Some("edit".into()), Some(60)));
    change(Action::SetBudget { budget: None }).await;
    assert_eq!(fork().await.0, None, "the budget was removed");
}
