//! Budgets: set, reset, removed and listed.
//!
//! The budget of a session lives in the session's log and is changed by commands of it. The others are records with their
//! history in the daemon's log; the ledger adds up what counts for them.

use super::{Registry, gone, ledger::User};
use crate::{
    Action, CommandId, DaemonEvent, Principal, Refusal, RefusalCode, Role, SessionId, WayOut,
    command::Stage,
    policy::{
        Budget, BudgetDraft, BudgetId, BudgetScope, BudgetTerms, Spending,
        budget::{BUDGETS, Level, judge},
        resolve,
    },
};

/// A budget with what is spent of it now.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct BudgetDescription {
    /// The budget.
    #[serde(flatten)]
    pub budget: Budget,
    /// What is spent of it.
    pub spent: Spending,
    /// How far the budget is spent.
    pub level: Level,
    /// Why a limit may not hold, such as an agent that does not report its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub note: Option<String>,
}

impl Registry {
    /// The budgets for projects, agents and every session; or those that count one session, with its own.
    pub async fn budgets(
        &self,
        who: &Principal,
        session: Option<SessionId>,
    ) -> Result<Vec<BudgetDescription>, Refusal> {
        let now = self.shared.clock.now();
        let ledger = self.shared.daemon.ledger();
        let Some(session) = session else {
            who.may_daemon(Role::Viewer)?;
            let budgets = self.shared.daemon.log().state().budgets.clone();
            let described = |budget: Budget| {
                let spent = ledger.spent(&budget, now);
                self.describe(budget, spent)
            };
            return Ok(budgets.into_iter().map(described).collect());
        };
        let state = self.snapshot(who, session).await?.state;
        let own = state.own_budget(now).map(|(budget, spent)| {
            let note = (budget.limits.cost_usd.is_some() && !state.capabilities.cost_tracking).then(no_cost);
            BudgetDescription { note, ..self.describe(budget, spent) }
        });
        // A token that is bound to sessions learns nothing of other sessions, so nothing of what they use.
        let user = User { agent: state.summary.agent.clone(), folder: state.summary.cwd.clone() };
        let shared = who.sessions.is_none().then(|| ledger.budgets_of(&user, now));
        let shared = shared.into_iter().flatten().map(|(budget, spent)| self.describe(budget, spent));
        Ok(own.into_iter().chain(shared).collect())
    }

    fn describe(&self, budget: Budget, spent: Spending) -> BudgetDescription {
        let level = judge(&budget.limits, &spent).map_or(Level::Fine, |(level, _)| level);
        let priced = match &budget.scope {
            BudgetScope::Agent { agent } => {
                self.agent(agent).is_none_or(|agent| agent.capabilities().cost_tracking)
            }
            _ => true,
        };
        let note = match spent.unpriced_turns {
            _ if budget.limits.cost_usd.is_none() => None,
            0 if priced => None,
            0 => Some(no_cost()),
            1 => Some(
                "the agent did not report the cost of 1 turn; the cost does not include that turn".into(),
            ),
            more => Some(format!(
                "agents did not report the cost of {more} turns; the cost does not include those turns"
            )),
        };
        BudgetDescription { budget, spent, level, note }
    }

    /// Sets the limits of the budget with this scope and period, and makes the budget if there is none. What was used so
    /// far still counts.
    pub async fn set_budget(
        &self,
        who: &Principal,
        id: CommandId,
        draft: BudgetDraft,
    ) -> Result<BudgetDescription, Refusal> {
        draft.limits.check().map_err(|why| Refusal::new(RefusalCode::Invalid, why))?;
        let BudgetDraft { scope, limits, per } = draft;
        if let BudgetScope::Session { session } = scope {
            let action = Action::SetBudget { budget: Some(BudgetTerms { limits, per }) };
            return self.change_own(who, session, id, action).await;
        }
        who.may_daemon(Role::Owner)?;
        let scope = self.real_scope(scope).await?;
        let (known, count) = {
            let log = self.shared.daemon.log();
            let state = log.state();
            let same = |known: &&Budget| known.scope == scope && known.per == per;
            (state.budgets.iter().find(same).cloned(), state.budgets.len())
        };
        let (now, by) = (self.shared.clock.now(), who.actor());
        let budget = match known {
            Some(known) => Budget { limits, made_at: now, made_by: by, ..known },
            None if count >= BUDGETS => {
                let message = format!("there are {BUDGETS} budgets already; remove some");
                return Err(Refusal::new(RefusalCode::Invalid, message));
            }
            None => {
                let (budget, before) = (BudgetId::random(), Spending::default());
                let made =
                    Budget { budget, scope, limits, per, since: now, before, made_at: now, made_by: by };
                Budget { before: self.shared.daemon.ledger().before(&made, now), ..made }
            }
        };
        self.save_budget(who, budget).await
    }

    /// Lets a budget count from zero again.
    pub async fn reset_budget(
        &self,
        who: &Principal,
        id: CommandId,
        budget: &BudgetId,
    ) -> Result<BudgetDescription, Refusal> {
        if let Some(session) = budget.session() {
            return self.change_own(who, session, id, Action::ResetBudget).await;
        }
        who.may_daemon(Role::Owner)?;
        let known = self.known_budget(budget)?;
        let now = self.shared.clock.now();
        let before = self.shared.daemon.ledger().before(&known, now);
        self.save_budget(who, Budget { since: now, before, ..known }).await
    }

    /// Removes a budget. Returns the budget as it was.
    pub async fn remove_budget(
        &self,
        who: &Principal,
        id: CommandId,
        budget: &BudgetId,
    ) -> Result<BudgetDescription, Refusal> {
        if let Some(session) = budget.session() {
            let was = self.own(who, session).await?;
            self.act(who, session, id, Action::SetBudget { budget: None }).await?;
            return was.ok_or_else(|| no_budget(budget));
        }
        who.may_daemon(Role::Owner)?;
        let known = self.known_budget(budget)?;
        let ledger = self.shared.daemon.ledger();
        let spent = ledger.spent(&known, self.shared.clock.now());
        self.note(Some(who), DaemonEvent::BudgetRemoved { budget: Box::new(known.clone()) }).await?;
        ledger
            .until(|budgets| budgets.iter().all(|left| left.budget != known.budget))
            .await
            .ok_or_else(gone)?;
        Ok(self.describe(known, spent))
    }

    async fn save_budget(&self, who: &Principal, budget: Budget) -> Result<BudgetDescription, Refusal> {
        let ledger = self.shared.daemon.ledger();
        self.note(Some(who), DaemonEvent::BudgetSaved { budget: Box::new(budget.clone()) }).await?;
        // From the answer on the budget counts.
        let holds = |budgets: &[Budget]| budgets.iter().any(|known| known.budget == budget.budget);
        ledger.until(holds).await.ok_or_else(gone)?;
        let spent = ledger.spent(&budget, self.shared.clock.now());
        Ok(self.describe(budget, spent))
    }

    /// A project is its real folder; an agent must exist.
    async fn real_scope(&self, scope: BudgetScope) -> Result<BudgetScope, Refusal> {
        match scope {
            BudgetScope::Project { folder } => {
                let shown = folder.display().to_string();
                let found = tokio::task::spawn_blocking(move || resolve::real_folder(&folder));
                let folder = found.await.map_err(|_| gone())?.map_err(|error| {
                    let message = format!("`{shown}` is not a folder that Portolan can read: {error}");
                    Refusal::new(RefusalCode::Invalid, message)
                })?;
                Ok(BudgetScope::Project { folder })
            }
            BudgetScope::Agent { agent } if self.agent(&agent).is_none() => Err(self.no_agent(&agent)),
            other => Ok(other),
        }
    }

    fn known_budget(&self, budget: &BudgetId) -> Result<Budget, Refusal> {
        let log = self.shared.daemon.log();
        let known = log.state().budgets.iter().find(|known| known.budget == *budget).cloned();
        known.ok_or_else(|| no_budget(budget))
    }

    async fn act(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Result<(), Refusal> {
        match self.submit(who, session, id, action).await?.stage {
            Stage::Refused { refusal } => Err(refusal),
            _ => Ok(()),
        }
    }

    async fn own(&self, who: &Principal, session: SessionId) -> Result<Option<BudgetDescription>, Refusal> {
        let own = BudgetId::of_session(session);
        let mut budgets = self.budgets(who, Some(session)).await?.into_iter();
        Ok(budgets.find(|known| known.budget.budget == own))
    }

    async fn change_own(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Result<BudgetDescription, Refusal> {
        self.act(who, session, id, action).await?;
        self.own(who, session).await?.ok_or_else(|| no_budget(&BudgetId::of_session(session)))
    }
}

fn no_cost() -> String {
    "the agent does not report its cost".into()
}

fn no_budget(budget: &BudgetId) -> Refusal {
    Refusal::new(RefusalCode::NotFound, format!("there is no budget `{}`", budget.0.escape_debug()))
        .with_way_out(WayOut::ListBudgets)
}
