//! Tests of budgets: sums, levels and words.

use proptest::prelude::*;

use super::*;
use crate::{
    event::{TurnOutcome, TurnResult},
    usage::TokenUsage,
};

fn spending() -> impl Strategy<Value = Spending> {
    let cost = prop::option::of(0.0..100.0_f64);
    (cost, 0..1_000_000_u64, 0..100_u32, any::<bool>()).prop_map(|(cost, tokens, turns, estimated)| {
        let unpriced_turns = if cost.is_none() { turns } else { 0 };
        Spending { cost_usd: cost.map(Usd::from), tokens, turns, unpriced_turns, estimated }
    })
}

fn limits() -> impl Strategy<Value = Limits> {
    let cost = prop::option::of(0.01..100.0_f64);
    (cost, prop::option::of(1..1_000_000_u64), prop::option::of(1..100_u32))
        .prop_map(|(cost, tokens, turns)| Limits { cost_usd: cost.map(Usd::from), tokens, turns })
}

fn level(limits: &Limits, spent: &Spending) -> Level {
    judge(limits, spent).map_or(Level::Fine, |(level, _)| level)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_over_a_budget_without_limits(spent in spending()) {
        prop_assert_eq!(judge(&Limits::default(), &spent), None);
    }

    #[test]
    fn raising_a_limit_never_makes_a_budget_worse(
        limits in limits(), spent in spending(), cost in 0.0..50.0_f64, tokens in 0..1_000_000_u64, turns in 0..99_u32,
    ) {
        let Limits { cost_usd, tokens: most_tokens, turns: most_turns } = limits;
        let raised = Limits {
            cost_usd: cost_usd.map(|limit| Usd::from(f64::from(limit) + cost)),
            tokens: most_tokens.map(|limit| limit + tokens),
            turns: most_turns.map(|limit| limit + turns),
        };
        prop_assert!(level(&raised, &spent) <= level(&limits, &spent));
    }

    #[test]
    fn the_order_of_reports_does_not_matter(
        (reports, shuffled) in prop::collection::vec(spending(), 0..20)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        limits in limits(),
    ) {
        let sum = |all: &[Spending]| all.iter().fold(Spending::default(), |sum, one| sum.plus(*one));
        prop_assert_eq!(sum(&reports), sum(&shuffled));
        prop_assert_eq!(judge(&limits, &sum(&reports)), judge(&limits, &sum(&shuffled)));
    }

    #[test]
    fn spending_more_never_makes_a_budget_better(limits in limits(), spent in spending(), more in spending()) {
        prop_assert!(level(&limits, &spent.plus(more)) >= level(&limits, &spent));
    }

    #[test]
    fn what_is_left_out_comes_back_as_nothing(before in spending(), after in spending()) {
        let counted = before.plus(after).minus(before);
        prop_assert_eq!((counted.tokens, counted.turns), (after.tokens, after.turns));
    }

    #[test]
    fn dollars_survive_the_wire(dollars in 0.0..1_000_000.0_f64) {
        let usd = Usd::from(dollars);
        let read: Usd = serde_json::from_str(&serde_json::to_string(&usd).unwrap()).unwrap();
        prop_assert_eq!(read, usd);
    }
}

#[test]
fn a_budget_warns_at_80_percent_and_is_spent_at_100() {
    let limits = Limits { tokens: Some(100), ..Limits::default() };
    let at = |tokens| level(&limits, &Spending { tokens, ..Spending::default() });
    assert_eq!(
        [0, 79, 80, 99, 100, 500].map(at),
        [Level::Fine, Level::Fine, Level::Warn, Level::Warn, Level::Over, Level::Over]
    );
}

#[test]
fn of_several_spent_limits_the_one_that_stops_a_turn_binds() {
    let limits = Limits { tokens: Some(10), turns: Some(1), ..Limits::default() };
    let spent = Spending { tokens: 10, turns: 9, ..Spending::default() };
    let (level, reached) = judge(&limits, &spent).unwrap();
    assert_eq!((level, reached.measure), (Level::Over, Measure::Tokens));
    let (level, reached) = judge(&limits, &Spending { tokens: 9, ..spent }).unwrap();
    assert_eq!((level, reached.measure), (Level::Over, Measure::Turns));
}

#[test]
fn limits_that_limit_nothing_are_refused() {
    assert!(Limits::default().check().is_err());
    assert!(Limits { turns: Some(0), ..Limits::default() }.check().is_err());
    assert!(Limits { cost_usd: Some(Usd::from(-1.0)), ..Limits::default() }.check().is_err());
    assert!(Limits { tokens: Some(1), ..Limits::default() }.check().is_ok());
    serde_json::from_str::<Limits>(r#"{"dollars": 1}"#).unwrap_err();
}

#[test]
fn the_result_of_a_turn_replaces_what_its_requests_reported() {
    let usage = |input| TokenUsage { input, output: 1, cache_creation: 2, cache_read: 1_000_000 };
    let so_far = Spending::of_request(usage(10)).plus(Spending::of_request(usage(20)));
    assert_eq!((so_far.tokens, so_far.estimated), (36, true), "tokens from the cache do not count");
    let mut result = TurnResult::bare(TurnOutcome::Completed);
    let unknown = Spending::of_turn(&result, so_far);
    let expected = Spending { cost_usd: None, tokens: 36, turns: 1, unpriced_turns: 1, estimated: true };
    assert_eq!(unknown, expected, "a turn without figures keeps the estimate, and says so");
    (result.usage, result.cost_usd) = (Some(usage(100)), Some(0.5));
    let told = Spending::of_turn(&result, so_far);
    let cost_usd = Some(Usd::from(0.5));
    assert_eq!(told, Spending { cost_usd, tokens: 103, turns: 1, unpriced_turns: 0, estimated: false });
}

#[test]
fn a_budget_per_day_begins_again_at_midnight_in_utc() {
    let noon = Millis(20_000 * DAY + DAY / 2);
    let (spent, before) =
        (Spending { tokens: 10, ..Spending::default() }, Spending { tokens: 4, ..Spending::default() });
    let budget = Budget {
        budget: BudgetId("b".into()),
        scope: BudgetScope::User,
        limits: Limits { tokens: Some(10), ..Limits::default() },
        per: Some(Period::Day),
        since: noon,
        before,
        made_at: noon,
        made_by: Actor::Daemon,
    };
    assert_eq!(budget.counts(spent, noon).tokens, 6, "what was used before it was made does not count");
    let tomorrow = next_day(noon);
    assert_eq!(tomorrow, Millis(20_001 * DAY));
    assert_eq!((budget.first_day(noon), budget.first_day(tomorrow)), (20_000, 20_001));
    assert_eq!(budget.counts(spent, tomorrow).tokens, 10, "on the next day everything of that day counts");
    let total = Budget { per: None, ..budget };
    assert_eq!((total.first_day(tomorrow), total.counts(spent, tomorrow).tokens), (20_000, 6));
}

#[test]
fn a_standing_says_what_is_spent_of_what() {
    let standing = Standing {
        budget: BudgetId("b".into()),
        scope: BudgetScope::Agent { agent: "codex".into() },
        per: Some(Period::Day),
        level: Level::Over,
        measure: Measure::Cost,
        spent: 5.126,
        limit: 5.0,
        estimated: false,
    };
    assert_eq!(standing.words(), "the budget of the agent codex per day is spent: $5.13 of $5.00");
    let tokens = Standing { measure: Measure::Tokens, level: Level::Warn, estimated: true, ..standing };
    assert_eq!(
        tokens.words(),
        "the budget of the agent codex per day is nearly spent: 5 of 5 tokens (an estimate while the turn runs)"
    );
    assert_eq!(tokens.name(), "budget of the agent codex");
}
