//! What frontends lend to a session while they are there: rules, such as those for the tools that a page offers, and the
//! mode `acceptEdits`, for a switch such as the handheld's auto-edit.
//!
//! A lent rule decides like a rule of the session: a deny or ask rule beats it, and it covers no protected place. What is
//! lent lives in memory: a frontend that ends, or forgets a session, takes everything with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use super::Registry;
use crate::{
    Principal, SessionId, TokenId,
    policy::{Effect, Lent, Rule, RuleId, RuleScope, RuleSet},
};

/// What every session is lent, as it is at each moment.
#[derive(Debug, Default)]
pub(crate) struct LentBySession(HashMap<SessionId, Lent>);

impl LentBySession {
    /// What this session is lent.
    pub(crate) fn of(&self, session: SessionId) -> Lent {
        self.0.get(&session).cloned().unwrap_or_default()
    }
}

/// What one lender has lent to one session.
#[derive(Debug, Default)]
struct Loan {
    rules: Vec<Rule>,
    accepts_edits: Option<Arc<str>>,
}

impl Loan {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.accepts_edits.is_none()
    }
}

/// Keeps what is lent, by session and lender.
#[derive(Debug, Default)]
pub(super) struct Lending {
    loans: Mutex<HashMap<SessionId, HashMap<TokenId, Loan>>>,
    now: watch::Sender<LentBySession>,
}

impl Lending {
    pub(super) fn watch(&self) -> watch::Receiver<LentBySession> {
        self.now.subscribe()
    }

    fn change(&self, lender: &TokenId, session: SessionId, change: impl FnOnce(&mut Loan)) {
        let mut all = self.loans.lock().unwrap_or_else(PoisonError::into_inner);
        let loans = all.entry(session).or_default();
        change(loans.entry(lender.clone()).or_default());
        loans.retain(|_, loan| !loan.is_empty());
        let rules: Vec<Rule> = loans.values().flat_map(|loan| &loan.rules).cloned().collect();
        let accepts_edits = loans.values().find_map(|loan| loan.accepts_edits.clone());
        let is_over = loans.is_empty();
        if is_over {
            all.remove(&session);
        }
        // Still under the lock, so that the newest state is published last.
        self.now.send_modify(|now| {
            if is_over {
                now.0.remove(&session);
            } else {
                // The rules were checked when they were lent.
                let rules = Arc::new(RuleSet::new(rules).0);
                now.0.insert(session, Lent { rules, accepts_edits });
            }
        });
    }
}

impl Registry {
    /// Allows these calls in a session (`TOOL` or `TOOL(PATTERN)`), in place of the calls that the same lender has
    /// allowed there before. Requests that are already open still wait for an answer. A text that is no rule is left out.
    pub fn lend_rules(&self, lender: &Principal, session: SessionId, why: &str, texts: &[String]) {
        let made_at = self.shared.clock.now();
        let rule = |(number, text): (usize, &String)| Rule {
            rule: RuleId(format!("{}-{number}", lender.token)),
            effect: Effect::Allow,
            text: text.clone(),
            scope: RuleScope::Session { session },
            overridable: false,
            expires_at: None,
            comment: Some(why.to_owned()),
            made_at,
            made_by: lender.actor(),
            matches: vec![],
            does_not_match: vec![],
        };
        let rules: Vec<Rule> = texts.iter().enumerate().map(rule).collect();
        let (_, unreadable) = RuleSet::new(rules.iter().cloned());
        for rule in &unreadable {
            tracing::warn!(%session, lender = lender.name, rule = rule.0, "a temporary rule of a client cannot be read and is not in force");
        }
        let readable = rules.into_iter().filter(|rule| !unreadable.contains(&rule.rule)).collect();
        self.shared.lending.change(&lender.token, session, |loan| loan.rules = readable);
    }

    /// Lets the mode `default` of a session count as `acceptEdits`, or no longer.
    pub fn lend_edits(&self, lender: &Principal, session: SessionId, accepts: AcceptsEdits) {
        let accepts_edits = (accepts == AcceptsEdits::Yes).then(|| lender.name.as_str().into());
        self.shared.lending.change(&lender.token, session, |loan| loan.accepts_edits = accepts_edits);
    }

    /// What frontends have lent to a session.
    pub(super) fn lent_to(&self, session: SessionId) -> Lent {
        self.shared.lending.watch().borrow().of(session)
    }
}

/// Whether a frontend lets edits through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptsEdits {
    /// As the mode `acceptEdits` does.
    Yes,
    /// As the session's own mode says.
    No,
}
