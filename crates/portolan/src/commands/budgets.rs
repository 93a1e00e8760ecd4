//! budget list, set, reset, remove: how much sessions may use.

use std::path::Path;

use portolan_client::Client;
use portolan_core::{
    policy::{
        BudgetDraft, BudgetId, BudgetScope, Limits, Spending,
        budget::{Level, Period, Usd},
    },
    registry::BudgetDescription,
};
use serde_json::json;

use super::Context;
use crate::{
    arguments::{BudgetLimits, Budgets, SetBudget},
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::clean,
};

pub(super) async fn run(context: &Context, verb: Budgets) -> Outcome {
    let mut client = context.client().await?;
    let (done, budget) = match verb {
        Budgets::List { session } => return list(context, client, session).await,
        Budgets::Set(SetBudget { scope, limits: BudgetLimits { cost, tokens, turns }, per }) => {
            let limits = limits(cost, tokens, turns)?;
            let scope = scope_of(&mut client, &scope).await?;
            let draft = BudgetDraft { scope, limits, per: per.map(|_| Period::Day) };
            ("set", client.set_budget(draft).await?)
        }
        Budgets::Reset { budget } => {
            let budget = id_of(&mut client, budget).await?;
            ("reset", client.reset_budget(budget).await?)
        }
        Budgets::Remove { budget } => {
            let budget = id_of(&mut client, budget).await?;
            ("removed", client.remove_budget(budget).await?)
        }
    };
    client.close().await;
    match (context.format(), done) {
        (Format::Json, "removed") => output::json(&json!({ "removed": budget })),
        (Format::Json, _) => output::json(&budget),
        (Format::Plain, _) => {
            output::note(format!("{done}: {}", clean::line(&line(&budget))));
            if let Some(note) = &budget.note {
                output::note(clean::line(note));
            }
            Ok(())
        }
    }
}

/// The limits, checked before anything is sent.
pub(super) fn limits(cost: Option<f64>, tokens: Option<u64>, turns: Option<u32>) -> Outcome<Limits> {
    if let Some(cost) = cost.filter(|cost| !cost.is_finite() || *cost <= 0.0) {
        return Err(Failure::usage(format!("`{cost}` is no cost; give US dollars above zero, such as 2.50")));
    }
    Ok(Limits { cost_usd: cost.map(Usd::from), tokens, turns })
}

async fn scope_of(client: &mut Client, scope: &str) -> Outcome<BudgetScope> {
    match scope.split_once(':') {
        None if scope == "user" => Ok(BudgetScope::User),
        Some(("project", folder)) => {
            let folder = std::path::absolute(Path::new(folder))
                .map_err(|error| Failure::usage(format!("`{folder}` is not a folder: {error}")))?;
            Ok(BudgetScope::Project { folder })
        }
        Some(("agent", agent)) => Ok(BudgetScope::Agent { agent: agent.to_owned() }),
        Some(("session", id)) => Ok(BudgetScope::Session { session: client.resolve(id).await? }),
        _ => Err(Failure::usage(format!(
            "unknown scope `{scope}`; use user, project:DIR, agent:NAME or session:ID"
        ))),
    }
}

/// The id of a session may be shortened.
async fn id_of(client: &mut Client, budget: String) -> Outcome<BudgetId> {
    match budget.strip_prefix("session:") {
        Some(session) => Ok(BudgetId::of_session(client.resolve(session).await?)),
        None => Ok(BudgetId(budget)),
    }
}

async fn list(context: &Context, mut client: Client, session: Option<String>) -> Outcome {
    let session = match session {
        Some(id) => Some(client.resolve(&id).await?),
        None => None,
    };
    let budgets = client.budgets(session).await?;
    client.close().await;
    match context.format() {
        Format::Json => output::json(&budgets),
        Format::Plain if budgets.is_empty() => {
            output::note(match session {
                Some(_) => "no budget counts this session; `portolan budget set` makes one",
                None => {
                    "there are no budgets; `portolan budget set` makes one, and `--session ID` lists the budget of a \
                     session"
                }
            });
            Ok(())
        }
        Format::Plain => output::raw(table(&budgets).as_bytes()),
    }
}

fn table(budgets: &[BudgetDescription]) -> String {
    let mut rows = vec![["BUDGET", "SCOPE", "LIMITS", "SPENT", "STATE", "NOTE"].map(str::to_owned).to_vec()];
    for description in budgets {
        let BudgetDescription { budget, spent, level, note } = description;
        rows.push(vec![
            budget.budget.to_string(),
            clean::line(&budget.scope.to_string()),
            limited(description),
            spent_words(&budget.limits, spent),
            match level {
                Level::Fine => "fine",
                Level::Warn => "nearly spent",
                Level::Over => "spent: prompts wait",
            }
            .to_owned(),
            note.as_deref().map(clean::line).unwrap_or_default(),
        ]);
    }
    output::table(&rows)
}

fn limited(BudgetDescription { budget, .. }: &BudgetDescription) -> String {
    let per = if budget.per.is_some() { " per day" } else { "" };
    format!("{}{per}", budget.limits)
}

/// What is spent of each limit.
fn spent_words(limits: &Limits, spent: &Spending) -> String {
    let cost = limits.cost_usd.map(|_| {
        let unknown = || "unknown cost".to_owned();
        spent.cost_usd.map_or_else(unknown, |cost| cost.to_string())
    });
    let about = if spent.estimated { "about " } else { "" };
    let tokens = limits.tokens.map(|_| format!("{about}{} tokens", spent.tokens));
    let turns = limits.turns.map(|_| format!("{} turns", spent.turns));
    let all: Vec<String> = [cost, tokens, turns].into_iter().flatten().collect();
    all.join(", ")
}

fn line(description: &BudgetDescription) -> String {
    let BudgetDescription { budget, spent, .. } = description;
    let words = spent_words(&budget.limits, spent);
    format!("budget {} ({}): {}; spent: {words}", budget.budget, budget.scope, limited(description))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_is_no_amount_of_money_is_refused() {
        for cost in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(limits(Some(cost), None, None).is_err(), "{cost}");
        }
        let limits = limits(Some(2.5), Some(1000), None).unwrap();
        assert_eq!(limits.to_string(), "$2.50, 1000 tokens");
    }

    #[test]
    fn only_limited_amounts_are_shown_and_estimates_say_so() {
        let limits = Limits { cost_usd: Some(Usd::from(5.0)), tokens: Some(100), turns: None };
        let spent = Spending { tokens: 7, turns: 3, unpriced_turns: 3, estimated: true, cost_usd: None };
        assert_eq!(spent_words(&limits, &spent), "unknown cost, about 7 tokens");
    }
}
