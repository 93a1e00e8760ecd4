//! Rules: made, changed, removed, listed, tried out and compared with what happened.
//!
//! Rules of a session live in the session's log and are commands of it. The others are records with their history in the
//! daemon's log.

mod simulate;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::simulate::{SimulatedEnd, SimulatedRequest, SimulatedSession, Simulation};
use super::{Registry, gone, uses::Counted};
use crate::{
    Action, CommandId, DaemonEvent, Millis, Principal, Refusal, RefusalCode, RequestId, Role, SessionId,
    command::Stage,
    policy::{
        Call, Judgement, Mode, Reading, Rule, RuleDraft, RuleId, RuleScope, RuleSet, Situation, check,
        decide, resolve,
        rule::{BadRule, RULES, ScopeDraft},
    },
    request::Ask,
    session::{machine::allowed_tools, state::State},
};

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
            own: RuleSet::new(of_session(state)).0,
        }
    }
}

/// The rules of a session, with the tools that it was created with.
fn of_session(state: &State) -> impl Iterator<Item = Rule> {
    state.session_rules.iter().cloned().chain(allowed_tools(state))
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
            rules.extend(of_session(&self.snapshot(who, session).await?.state));
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
        let holds = |rules: &Arc<RuleSet>| rules.iter().any(|known| *known == rule);
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
        let gone_from = |rules: &Arc<RuleSet>| rules.iter().all(|left| left.rule != known.rule);
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
        let (home, places) = (self.shared.policy.home.clone(), Arc::clone(&self.shared.policy.own));
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

/// Whether a rule is in force now, by its time, by the folder at its path, and by its examples.
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
    let idle =
        idle.or_else(|| check::stored(rule.clone()).err().map(|BadRule(why)| format!("not in force: {why}")));
    let (uses, used_at) = counted.of(&rule);
    RuleDescription { rule, idle, uses, used_at }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Actor,
        policy::{Effect, rule::Example},
    };

    // covers: 002-061
    #[test]
    fn the_id_of_a_project_is_the_beginning_of_the_sha_256_of_its_path() {
        assert_eq!(project_id(Path::new("/home/ada/shop")), "ff0a01d53d837e70");
    }

    #[test]
    fn a_rule_that_is_not_in_force_says_why() {
        let example = |command: &str| Example { tool: "Bash".into(), input: json!({ "command": command }) };
        let idle = |effect, text: &str, matches: &str| {
            let draft = RuleDraft {
                matches: vec![example(matches)],
                ..RuleDraft::new(effect, text, ScopeDraft::User)
            };
            let rule = draft.into_rule(RuleId("r".into()), RuleScope::User, Millis(0), Actor::Daemon);
            describe(rule, Millis(1), &Counted::default()).idle
        };
        assert_eq!(idle(Effect::Allow, "Bash(git status)", "git status"), None);
        assert_eq!(
            idle(Effect::Allow, "Bash(git status)", "git push").as_deref(),
            Some(
                "not in force: `Bash(git status)` does not cover its example `Bash {\"command\":\"git push\"}`"
            )
        );
        assert_eq!(idle(Effect::Deny, "Bash(git status)", "git push"), None, "a deny stays in force");
        assert_eq!(
            idle(Effect::Deny, "Bash(git", "git").as_deref(),
            Some("not in force: `Bash(git` needs a closing `)`")
        );
    }
}
