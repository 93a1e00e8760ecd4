//! Simulation: what a rule would have answered to the requests of the past.

use std::{path::Path, sync::Arc};

use super::{project, refused};
use crate::{
    Actor, Event, LogId, Millis, Principal, Refusal, RequestId, Role, Seq, SessionId,
    policy::{
        Call, Effect, Reading, Rule, RuleDraft, RuleId, RuleScope, check, facts::Standing, resolve,
        rule::ScopeDraft,
    },
    ports::{Page, SessionQuery},
    registry::{LIST_PAGE, Registry, broken},
    request::{Answer, Ask, Outcome, Request},
};

/// Requests of the past that one simulation looks at, the newest sessions first.
const SIMULATED: usize = 10_000;

/// Examples that a simulation shows.
const EXAMPLES: usize = 20;

/// What a rule would have answered.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Simulation {
    /// Requests that were looked at.
    pub requests: u32,
    /// Requests that the rule would have decided.
    pub covered: u32,
    /// Of those, requests that a person was asked about.
    pub asked: u32,
    /// Of those, requests that a person answered in another way than the rule would have.
    pub against: u32,
    /// By session, the newest first.
    pub sessions: Vec<SimulatedSession>,
    /// Some of the requests that the rule would have decided.
    pub examples: Vec<SimulatedRequest>,
    /// There were more requests than one simulation looks at.
    pub truncated: bool,
}

/// What a rule would have answered in one session.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct SimulatedSession {
    /// The session.
    pub session: SessionId,
    /// Its name.
    pub name: String,
    /// Requests that the rule would have decided.
    pub covered: u32,
}

/// A request that a rule would have decided.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct SimulatedRequest {
    /// The session.
    pub session: SessionId,
    /// The request.
    pub request: RequestId,
    /// What was asked, in a line.
    pub title: String,
    /// How the request ended.
    pub ended: SimulatedEnd,
}

/// How a request of the past ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum SimulatedEnd {
    /// A person, a rule or the mode allowed the call.
    Allowed,
    /// A person, a rule or the mode denied the call.
    Denied,
    /// Nobody answered before the deadline.
    Expired,
    /// The turn was interrupted.
    Interrupted,
    /// The agent took the request back.
    Withdrawn,
    /// The agent ended before anybody answered.
    #[serde(rename = "not answered")]
    NotAnswered,
}

impl SimulatedEnd {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered { answer: Answer::Deny { .. }, .. } => Self::Denied,
            Outcome::Answered { .. } => Self::Allowed,
            Outcome::Expired => Self::Expired,
            Outcome::Interrupted { .. } => Self::Interrupted,
            Outcome::Withdrawn => Self::Withdrawn,
            Outcome::AgentGone { .. } => Self::NotAnswered,
        }
    }

    /// The end in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
            Self::Withdrawn => "withdrawn",
            Self::NotAnswered => "not answered",
        }
    }
}

impl Registry {
    /// What a rule would have answered to the recorded requests since a time. Files are looked for where they are now.
    pub async fn simulate(
        &self,
        who: &Principal,
        draft: RuleDraft,
        since: Option<Millis>,
    ) -> Result<Simulation, Refusal> {
        who.may_daemon(Role::Viewer)?;
        check::draft(&draft).map_err(refused)?;
        let only = match &draft.scope {
            ScopeDraft::Session { session } => Some(*session),
            ScopeDraft::User | ScopeDraft::Project { .. } => None,
        };
        let scope = match draft.scope.clone() {
            ScopeDraft::Project { folder } => project(folder).await?,
            ScopeDraft::User | ScopeDraft::Session { .. } => RuleScope::User,
        };
        let rule = draft.into_rule(RuleId::random(), scope, self.shared.clock.now(), who.actor());
        let mut found = Simulation::default();
        let mut before = None;
        'all: loop {
            let query = SessionQuery { archived: None, live: false, before, limit: LIST_PAGE };
            let page = self.shared.store.sessions(query).await.map_err(broken)?;
            let Some(last) = page.last() else { break };
            before = Some(last.session);
            for summary in &page {
                if only.is_some_and(|only| only != summary.session)
                    || since.is_some_and(|since| summary.active_at < since)
                {
                    continue;
                }
                let covered =
                    self.simulate_session(&rule, summary.session, &summary.cwd, since, &mut found).await?;
                if covered > 0 {
                    let (session, name) = (summary.session, summary.name.clone());
                    found.sessions.push(SimulatedSession { session, name, covered });
                }
                if found.truncated {
                    break 'all;
                }
            }
        }
        Ok(found)
    }

    async fn simulate_session(
        &self,
        rule: &Rule,
        session: SessionId,
        folder: &Path,
        since: Option<Millis>,
        found: &mut Simulation,
    ) -> Result<u32, Refusal> {
        let (mut after, mut covered) = (Seq::ZERO, 0);
        let mut opened: Vec<Request> = Vec::new();
        loop {
            let page =
                self.shared.store.read(LogId::Session(session), after, Seq(u64::MAX), Page::HISTORY).await;
            let page = page.map_err(broken)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for stored in &page {
                // An entry of a newer version is no request that this version can judge.
                let Ok(entry) = stored.decode::<Event>() else { continue };
                let (request, outcome) = match entry.event {
                    Event::RequestOpened { request } => {
                        opened.push(*request);
                        continue;
                    }
                    Event::RequestClosed { request, outcome } => {
                        let at = opened.iter().position(|open| open.request == request);
                        let Some(at) = at else { continue };
                        (opened.swap_remove(at), outcome)
                    }
                    Event::RequestDecided { request, outcome } => (*request, outcome),
                    _ => continue,
                };
                if since.is_some_and(|since| request.opened_at < since)
                    || !matches!(request.ask, Ask::Permission { .. })
                {
                    continue;
                }
                found.requests += 1;
                if self.would_decide(rule, &request, folder).await {
                    covered += 1;
                    found.note(session, &request, &outcome, rule);
                }
                if found.requests as usize >= SIMULATED {
                    found.truncated = true;
                    return Ok(covered);
                }
            }
        }
        Ok(covered)
    }

    async fn would_decide(&self, rule: &Rule, request: &Request, folder: &Path) -> bool {
        let (rule, ask, folder) = (rule.clone(), request.ask.clone(), folder.to_owned());
        let (home, own) = (self.shared.policy.home.clone(), Arc::clone(&self.shared.policy.own));
        let judged = tokio::task::spawn_blocking(move || {
            let Some(call) = Call::of(&ask) else { return false };
            let reading = Reading::of(call.clone());
            let paths = [reading.paths(), reading.mentioned()].concat();
            let facts = resolve::facts(&folder, home.as_deref(), &own, &paths);
            facts.standing(&rule.scope) == Standing::Holds && check::decides(&rule, call, &facts)
        });
        judged.await.unwrap_or(false)
    }
}

impl Simulation {
    fn note(&mut self, session: SessionId, request: &Request, outcome: &Outcome, rule: &Rule) {
        self.covered += 1;
        let ended = SimulatedEnd::of(outcome);
        let by_person = matches!(outcome, Outcome::Answered { by: Actor::Person { .. }, .. });
        self.asked += u32::from(by_person);
        let other = match rule.effect {
            Effect::Allow => ended == SimulatedEnd::Denied,
            Effect::Deny => ended == SimulatedEnd::Allowed,
            Effect::Ask => false,
        };
        self.against += u32::from(by_person && other);
        if self.examples.len() < EXAMPLES {
            let (request, title) = (request.request, request.ask.title());
            self.examples.push(SimulatedRequest { session, request, title, ended });
        }
    }
}
