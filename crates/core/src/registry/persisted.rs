//! Rules that an answer makes for other sessions too: a project's or the user's. Such a rule is an owner's, and is checked
//! before the answer is sent and saved after the answer was taken. The session makes rules of its own by itself.

use super::Registry;
use crate::{Action, Principal, Refusal, SessionId, policy::Rule, request::persist::PersistScope};

impl Registry {
    /// The rule that this action makes for other sessions too, if it makes one.
    pub(super) async fn rule_to_persist(
        &self,
        who: &Principal,
        session: SessionId,
        action: &Action,
    ) -> Result<Option<Rule>, Refusal> {
        let Action::Answer { request, answer, persist: Some(persist), .. } = action else { return Ok(None) };
        if persist.scope == PersistScope::Session {
            return Ok(None);
        }
        who.may(action.needs(), session)?;
        let handle = self.wake(session).await?;
        let draft = {
            let state = handle.log.state();
            let open = state.requests.iter().find(|open| open.request == *request);
            // An answer to a closed request is refused for that reason.
            let Some(open) = open else { return Ok(None) };
            persist.draft(open, answer, persist.scope.draft(session, &state.summary.cwd))?
        };
        self.new_rule(who, draft).await.map(Some)
    }

    /// Saves the rule, unless there is one like it.
    pub(super) async fn persist(&self, who: &Principal, rule: Rule) -> Result<(), Refusal> {
        let is_known = {
            let log = self.shared.daemon.log();
            let state = log.state();
            let like = |known: &Rule| {
                (known.effect, &known.text, &known.scope) == (rule.effect, &rule.text, &rule.scope)
                    && known.expires_at.is_none()
                    && !known.overridable
            };
            state.rules.iter().any(like)
        };
        if is_known { Ok(()) } else { self.save(who, rule).await.map(drop) }
    }
}
