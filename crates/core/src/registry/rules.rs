//! Rules: made, changed, removed, listed, tried out and compared with what happened.
//!
//! Rules of a session live in the session's log and are commands of it. The others are records with their history in the
//! daemon's log.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Registry, broken, gone, uses::Counted};
use crate::{
    Action, Actor, CommandId, DaemonEvent, Event, LogId, Millis, Principal, Refusal, RefusalCode, RequestId,
    Role, Seq, SessionId,
    command::Stage,
    policy::{
        Call, Effect, Judgement, Mode, Reading, Rule, RuleDraft, RuleId, RuleScope, RuleSet, Situation,
        check, decide,
        facts::Standing,
        resolve,
        rule::{BadRule, RULES, ScopeDraft},
    },
    ports::{Page, SessionQuery},
    request::{Answer, Ask, Outcome, Request},
    session::state::State,
};
use sha2::{Digest as _, Sha256};

/// Requests of the past that one simulation looks at, the newest sessions first.
const SIMULATED: usize = 10_000;

/// Examples that a simulation shows.
const EXAMPLES: usize = 20;

/// A rule with what is known of it now.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct RuleDescription {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Why the rule decides nothing now; absent if it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub idle: Option<String>,
    /// How many requests the rule has decided, alone or together with other rules.
    #[serde(default)]
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub uses: u64,
    /// When the rule last decided a request; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub used_at: Option<Millis>,
}

/// A question to policy: what would be decided about this call?
#[derive(Clone, Debug)]
pub struct Trial {
    /// The tool.
    pub tool: String,
    /// What it is called with.
    pub input: Value,
    /// The folder of a session that would make the call.
    pub folder: PathBuf,
    /// The mode of that session.
    pub mode: Mode,
    /// Ask for this session: its folder, its mode and its own rules count.
    pub session: Option<SessionId>,
}

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

/// Where a call is judged.
pub(super) struct Here {
    session: Option<SessionId>,
    folder: PathBuf,
    mode: Mode,
    own: RuleSet,
}

impl Here {
    pub(super) fn of(state: &State) -> Self {
        Self {
            session: Some(state.summary.session),
            folder: state.summary.cwd.clone(),
            mode: state.capabilities.meaning(state.summary.mode.as_deref()),
            own: RuleSet::new(state.session_rules.iter().cloned()).0,
        }
    }
}

impl Registry {
    /// The rules for projects and for every session, and those of one session.
    pub async fn rules(
        &self,
        who: &Principal,
        session: Option<SessionId>,
    ) -> Result<Vec<RuleDescription>, Refusal> {
        let mut rules = Vec::new();
        if who.sessions.is_none() {
            who.may_daemon(Role::Viewer)?;
            rules.extend(self.shared.daemon.log().state().rules.iter().cloned());
        }
        if let Some(session) = session {
            rules.extend(self.snapshot(who, session).await?.state.session_rules.iter().cloned());
            rules.extend(self.lent_to(session).rules.iter().cloned());
        }
        let now = self.shared.clock.now();
        let counted = self.rule_uses().await?;
        let described = move || {
            let described = rules.into_iter().map(|rule| describe(rule, now, &counted));
            described.collect()
        };
        tokio::task::spawn_blocking(described).await.map_err(|_| gone())
    }

    /// Makes a rule.
    pub async fn add_rule(&self, who: &Principal, id: CommandId, draft: RuleDraft) -> Result<Rule, Refusal> {
        if let ScopeDraft::Session { session } = draft.scope {
            return self.add_session_rule(who, session, id, draft).await;
        }
        let rule = self.new_rule(who, draft).await?;
        self.save(who, rule).await
    }

    /// A rule for projects or for every session that may be saved.
    pub(super) async fn new_rule(&self, who: &Principal, draft: RuleDraft) -> Result<Rule, Refusal> {
        who.may_daemon(Role::Owner)?;
        if self.shared.daemon.log().state().rules.len() >= RULES {
            return Err(Refusal::new(
                RefusalCode::Invalid,
                format!("there are {RULES} rules already; remove some"),
            ));
        }
        self.drafted(who, RuleId::random(), draft).await
    }

    /// Replaces a rule for projects or for every session under its id.
    pub async fn edit_rule(&self, who: &Principal, rule: &RuleId, draft: RuleDraft) -> Result<Rule, Refusal> {
        who.may_daemon(Role::Owner)?;
        let known = self.known_rule(rule)?;
        let changed = self.drafted(who, known.rule, draft).await?;
        self.save(who, changed).await
    }

    async fn drafted(&self, who: &Principal, id: RuleId, draft: RuleDraft) -> Result<Rule, Refusal> {
        check::draft(&draft).map_err(refused)?;
        let scope = match draft.scope.clone() {
            ScopeDraft::User => RuleScope::User,
            ScopeDraft::Project { folder } => project(folder).await?,
            ScopeDraft::Session { .. } => {
                return Err(Refusal::new(
                    RefusalCode::Invalid,
                    "a rule for a project or for every session cannot become a session's rule; remove the rule and \
                     add another",
                ));
            }
        };
        Ok(draft.into_rule(id, scope, self.shared.clock.now(), who.actor()))
    }

    pub(super) async fn save(&self, who: &Principal, rule: Rule) -> Result<Rule, Refusal> {
        let mut in_force = self.shared.daemon.rules();
        self.note(Some(who), DaemonEvent::RuleSaved { rule: Box::new(rule.clone()) }).await?;
        // From the answer on the rule decides.
        let holds = |rules: &std::sync::Arc<RuleSet>| rules.iter().any(|known| *known == rule);
        in_force.wait_for(holds).await.map_err(|_| gone())?;
        Ok(rule)
    }

    async fn add_session_rule(
        &self,
        who: &Principal,
        session: SessionId,
        id: CommandId,
        draft: RuleDraft,
    ) -> Result<Rule, Refusal> {
        let receipt = self.submit(who, session, id, Action::AddRule { rule: Box::new(draft) }).await?;
        if let Stage::Refused { refusal } = receipt.stage {
            return Err(refusal);
        }
        let state = self.snapshot(who, session).await?.state;
        let made = RuleId(format!("s{}", receipt.seq));
        let found = state.session_rules.iter().find(|rule| rule.rule == made).cloned();
        found.ok_or_else(|| Refusal::new(RefusalCode::NotFound, "the rule was removed meanwhile"))
    }

    fn known_rule(&self, rule: &RuleId) -> Result<Rule, Refusal> {
        let known = self.shared.daemon.log().state().rules.iter().find(|known| known.rule == *rule).cloned();
        known.ok_or_else(|| {
            let message = format!("there is no rule `{}`", rule.0.escape_debug());
            Refusal::new(RefusalCode::NotFound, message)
        })
    }

    /// Removes a rule for projects or for every session.
    pub async fn remove_rule(&self, who: &Principal, rule: &RuleId) -> Result<Rule, Refusal> {
        who.may_daemon(Role::Owner)?;
        let known = self.known_rule(rule)?;
        let mut in_force = self.shared.daemon.rules();
        self.note(Some(who), DaemonEvent::RuleRemoved { rule: Box::new(known.clone()) }).await?;
        let gone_from = |rules: &std::sync::Arc<RuleSet>| rules.iter().all(|left| left.rule != known.rule);
        in_force.wait_for(gone_from).await.map_err(|_| gone())?;
        Ok(known)
    }

    /// What would be decided about a call now. Nothing runs.
    pub async fn try_call(&self, who: &Principal, trial: Trial) -> Result<Judgement, Refusal> {
        let Trial { tool, input, folder, mode, session } = trial;
        let ask = Ask::permission(tool, input);
        let here = if let Some(session) = session {
            Here::of(&self.snapshot(who, session).await?.state)
        } else {
            who.may_daemon(Role::Viewer)?;
            Here { session: None, folder, mode, own: RuleSet::default() }
        };
        if !here.folder.is_absolute() {
            return Err(Refusal::new(RefusalCode::Invalid, "the folder must be an absolute path"));
        }
        self.judge(here, ask).await?.ok_or_else(gone)
    }

    /// What would be decided about an open request now; `None` if the request is not open, or policy says nothing about
    /// such requests.
    pub async fn try_request(
        &self,
        who: &Principal,
        session: SessionId,
        request: RequestId,
    ) -> Result<Option<Judgement>, Refusal> {
        let state = self.snapshot(who, session).await?.state;
        let Some(open) = state.requests.iter().find(|open| open.request == request) else { return Ok(None) };
        self.judge(Here::of(&state), open.ask.clone()).await
    }

    pub(super) async fn judge(&self, here: Here, ask: Ask) -> Result<Option<Judgement>, Refusal> {
        let Here { session, folder, mode, own } = here;
        let lent = session.map(|session| self.lent_to(session)).unwrap_or_default();
        let (home, places) =
            (self.shared.policy.home.clone(), std::sync::Arc::clone(&self.shared.policy.own));
        let (rules, now) = (self.shared.daemon.rules().borrow().clone(), self.shared.clock.now());
        let decided = tokio::task::spawn_blocking(move || {
            let reading = Reading::of(Call::of(&ask)?);
            let paths = [reading.paths(), reading.mentioned()].concat();
            let facts = resolve::facts(&folder, home.as_deref(), &places, &paths);
            let (mode, rules) = (lent.mode(mode), &[&*rules, &*lent.rules, &own][..]);
            Some(decide(&reading, Situation { session, mode, rules, facts: &facts, now }))
        });
        decided.await.map_err(|_| gone())
    }

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
            let query = SessionQuery { archived: None, live: false, before, limit: super::LIST_PAGE };
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
        let (home, own) = (self.shared.policy.home.clone(), std::sync::Arc::clone(&self.shared.policy.own));
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

fn refused(BadRule(why): BadRule) -> Refusal {
    Refusal::new(RefusalCode::Invalid, why)
}

/// The scope of a project: the folder as it is now.
async fn project(folder: PathBuf) -> Result<RuleScope, Refusal> {
    let shown = folder.display().to_string();
    let found = tokio::task::spawn_blocking(move || {
        let folder = resolve::real_folder(&folder)?;
        Ok::<_, std::io::Error>((resolve::identity(&folder)?, folder))
    });
    let (identity, folder) = found.await.map_err(|_| gone())?.map_err(|error| {
        Refusal::new(
            RefusalCode::Invalid,
            format!("`{shown}` is not a folder that Portolan can read: {error}"),
        )
    })?;
    let id = project_id(&folder);
    Ok(RuleScope::Project { id, folder, identity })
}

/// A project's id: the first 16 hex digits of the SHA-256 of its absolute path.
pub fn project_id(folder: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut id = crate::session::machine::hex(&Sha256::digest(folder.as_os_str().as_bytes()));
    id.truncate(16);
    id
}

/// Whether a rule is in force now, by its time and by the folder at its path.
fn describe(rule: Rule, now: Millis, counted: &Counted) -> RuleDescription {
    let idle = match &rule.scope {
        _ if rule.is_expired(now) => Some("expired".to_owned()),
        RuleScope::Project { folder, identity, .. } => match resolve::identity(folder) {
            Ok(found) if found == *identity => None,
            Ok(_) => Some("suspended: another folder is now at this path".to_owned()),
            Err(_) => Some("suspended: the folder is not there".to_owned()),
        },
        RuleScope::User | RuleScope::Session { .. } => None,
    };
    let (uses, used_at) = counted.of(&rule);
    RuleDescription { rule, idle, uses, used_at }
}
