//! Before a request is judged: the rules of this moment, and a look at the disk.
//!
//! The look is done on another thread and bounded in time. While the task waits for it, further reports of the agent wait
//! too, so that their order stays; commands of people do not wait.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{Task, Working};
use crate::{
    policy::{Call, Effect, Facts, Reading, Rule, RuleScope, RuleSet, resolve, secret},
    ports::{Boxed, Doer, Report},
};

/// How long a look at the disk may take. One that takes longer is over a network that hangs: a person is asked.
const LOOK: Duration = Duration::from_secs(1);

/// Where policy looks for files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ground {
    /// The session's folder.
    pub(crate) folder: PathBuf,
    /// The user's home folder.
    pub(crate) home: Option<PathBuf>,
    /// Portolan's own folders.
    pub(crate) own: Arc<[PathBuf]>,
    /// What the last look found, without the paths of a call.
    pub(crate) known: Option<Facts>,
}

impl Task {
    /// The look at the disk that this report needs first. A command that names no file needs none after the first, unless
    /// a rule depends on which folder stands at a path.
    pub(super) fn look_for(&mut self, report: &Report) -> Option<Boxed<'static, Facts>> {
        let (Report::RequestOpened { ask, .. } | Report::Unasked { ask, .. }) = report else { return None };
        let reading = Reading::of(Call::of(ask)?);
        if let Report::Unasked { doer: Doer::Agent, .. } = report
            && !self.any_rule_forbids()
            && !self.machine.asks_nobody(&self.log.state())
            && !secret::may_be_touched(&reading)
        {
            // Nothing would stop the call.
            self.know(Facts::default());
            return None;
        }
        let mut paths = reading.paths();
        if self.any_rule_forbids_files() {
            paths.extend(reading.mentioned());
        }
        let is_of_project = |rule: &Rule| matches!(rule.scope, RuleScope::Project { .. });
        let by_project = self.rules.borrow().iter().any(is_of_project);
        if let (Some(known), true, false) = (&self.ground.known, paths.is_empty(), by_project) {
            self.know(known.clone());
            return None;
        }
        let Ground { folder, home, own, known } = self.ground.clone();
        Some(Box::pin(async move {
            let look =
                tokio::task::spawn_blocking(move || resolve::facts(&folder, home.as_deref(), &own, &paths));
            in_time(look, known).await
        }))
    }

    /// Judges the next requests by the rules of this moment and these facts.
    fn know(&mut self, facts: Facts) {
        let lent = self.lent.borrow().of(self.id);
        self.machine.know(Arc::clone(&self.rules.borrow()), lent, facts);
    }

    /// Tells the session of new rules that cannot stop its agent.
    pub(super) fn note_rules(&self, working: &mut Working) {
        let rules = Arc::clone(&self.rules.borrow());
        let before = std::mem::replace(&mut working.noted, Arc::clone(&rules));
        let before: HashMap<_, _> = before.iter().map(|rule| (&rule.rule, rule)).collect();
        let added = rules.iter().filter(|rule| before.get(&rule.rule) != Some(rule));
        self.machine.note_unbound(&mut self.log.book(), self.clock.now(), added);
    }

    /// Is there any rule that denies or asks?
    fn any_rule_forbids(&self) -> bool {
        let forbids = |rule: &Rule| rule.effect != Effect::Allow;
        self.rules.borrow().iter().any(forbids) || self.log.state().session_rules.iter().any(forbids)
    }

    /// Does any rule deny or ask about files, so that it matters where the words of a command lead?
    fn any_rule_forbids_files(&self) -> bool {
        let (of_session, _) = RuleSet::new(self.log.state().session_rules.iter().cloned());
        self.rules.borrow().forbids_files() || of_session.forbids_files()
    }

    /// Folds the request that waited for the look, and the reports behind it.
    pub(super) fn judge_first(&mut self, working: &mut Working, facts: Facts) {
        if !facts.stale && !facts.folder.as_os_str().is_empty() {
            self.ground.known = Some(Facts { places: BTreeMap::new(), ..facts.clone() });
        }
        self.know(facts);
        self.fold_first(working, working.unfolded.len().min(1));
        self.fold_reports(working);
    }
}

/// What a look finds, if the disk answers in time. Otherwise no path of the call is known, so that nothing is allowed
/// because of where it lies, and the folder is the one that the last look found.
async fn in_time<E>(look: impl Future<Output = Result<Facts, E>>, known: Option<Facts>) -> Facts {
    match tokio::time::timeout(LOOK, look).await {
        Ok(Ok(facts)) => facts,
        Ok(Err(_)) | Err(_) => known.unwrap_or_default().while_unanswered(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Millis, Seq, SessionId,
        policy::{Decision, Mode, RuleSet, Situation, decide, rule::Identity},
    };

    fn of_project(effect: Effect, folder: &str, inode: u64) -> Rule {
        let made =
            Rule::of_session(SessionId::from_u128(1), Seq::ZERO, Millis(0), None, effect, "Bash(make)");
        let identity = Identity { device: 1, inode };
        let scope = RuleScope::Project { id: "p".into(), folder: folder.into(), identity };
        Rule { scope, ..made }
    }

    fn decision(rule: Rule, facts: &Facts) -> Decision {
        let input = json!({ "command": "make" });
        let (rules, _) = RuleSet::new([rule]);
        let situation = Situation {
            session: None,
            mode: Mode::BypassPermissions,
            rules: &[&rules],
            facts,
            now: Millis(0),
        };
        let situation = match rules.iter().next().map(|rule| rule.effect) {
            // The mode would allow it too.
            Some(Effect::Allow) => Situation { mode: Mode::Default, ..situation },
            _ => situation,
        };
        decide(&Reading::of(Call::new("Bash", &input)), situation).decision
    }

    fn known() -> Facts {
        let above = vec![("/shop".into(), Identity { device: 1, inode: 1 })];
        Facts { folder: "/shop".into(), above, ..Facts::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_disk_does_not_answer_the_rules_of_a_project_forbid_and_do_not_allow() {
        use Decision::{Allow, Ask, Deny};
        let hangs = || std::future::pending::<Result<Facts, ()>>();
        let facts = in_time(hangs(), Some(known())).await;
        let never_seen = in_time(hangs(), None).await;
        let fails = in_time(std::future::ready(Err(())), Some(known())).await;
        assert_eq!(fails, facts);
        for (effect, seen, unanswered) in
            [(Effect::Allow, Allow, Ask), (Effect::Deny, Deny, Deny), (Effect::Ask, Ask, Ask)]
        {
            let rule = |folder: &str, inode| of_project(effect, folder, inode);
            assert_eq!(decision(rule("/shop", 1), &known()), seen, "{effect:?}");
            assert_eq!(decision(rule("/shop", 1), &facts), unanswered, "{effect:?}");
            assert_eq!(decision(rule("/shop", 1), &never_seen), unanswered, "{effect:?}");
        }
        let other = |folder: &str, inode| decision(of_project(Effect::Deny, folder, inode), &facts);
        assert_eq!((other("/other", 1), other("/shop", 2)), (Allow, Allow), "as the last look found it");
    }
}
