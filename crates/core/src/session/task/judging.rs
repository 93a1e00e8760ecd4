//! Before a request is judged: the rules of this moment, and a look at the disk.
//!
//! The look is done on another thread and bounded in time. While the task waits for it, further reports of the agent wait
//! too, so that their order stays; commands of people do not wait.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use super::{Task, Working};
use crate::{
    policy::{Call, Effect, Facts, Reading, Rule, RuleScope, RuleSet, resolve},
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
        if let Report::Unasked { doer: Doer::Agent, .. } = report
            && !self.any_rule_forbids()
        {
            // Only a deny or an ask would count.
            self.know(Facts::default());
            return None;
        }
        let reading = Reading::of(Call::of(ask)?);
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
        let Ground { folder, home, own, .. } = self.ground.clone();
        Some(Box::pin(async move {
            let look =
                tokio::task::spawn_blocking(move || resolve::facts(&folder, home.as_deref(), &own, &paths));
            match tokio::time::timeout(LOOK, look).await {
                Ok(Ok(facts)) => facts,
                // Nothing is known, so that nothing is allowed because of where it lies.
                Ok(Err(_)) | Err(_) => Facts::default(),
            }
        }))
    }

    /// Judges the next requests by the rules of this moment and these facts.
    fn know(&mut self, facts: Facts) {
        let lent = self.lent.borrow().of(self.id);
        self.machine.know(Arc::clone(&self.rules.borrow()), lent, facts);
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
        if !facts.folder.as_os_str().is_empty() {
            self.ground.known = Some(Facts { places: BTreeMap::new(), ..facts.clone() });
        }
        self.know(facts);
        self.fold_first(working, working.unfolded.len().min(1));
        self.fold_reports(working);
    }
}
