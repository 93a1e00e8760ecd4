//! Forks: where a fork begins, and what it takes from the session that is its source.

use crate::{
    Event, LogId, Principal, Refusal, RefusalCode, Role, Seq, SessionId, SessionSpec,
    capabilities::Asks,
    ports::Page,
    registry::{Registry, broken, gone},
    session::{spending::SessionBudget, state::State},
    spec::{ForkPoint, SpecOption},
};

/// How many entries back a fork searches for the agent's last message.
const MESSAGE_SEARCH: u64 = 1000;

/// A fork with a known starting point.
pub(in crate::registry) struct Fork {
    pub(super) session: SessionId,
    pub(super) upto: Seq,
    pub(super) head: Seq,
    pub(super) source: SessionSpec,
    pub(super) agent_session: Option<String>,
    pub(super) at_message: Option<String>,
    pub(super) last_message: Option<String>,
}

impl Fork {
    /// Fills the open settings of the fork from its source.
    pub(super) fn fill(&self, spec: &mut SessionSpec) -> Result<(), Refusal> {
        if spec.agent.is_empty() {
            spec.agent.clone_from(&self.source.agent);
        }
        if spec.agent != self.source.agent {
            let message = format!("a fork uses the agent of its source, `{}`", self.source.agent);
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        let asked = std::mem::take(spec);
        let own = |value: &Vec<_>| !value.is_empty();
        *spec = SessionSpec {
            agent: asked.agent,
            cwd: if asked.cwd.as_os_str().is_empty() { self.source.cwd.clone() } else { asked.cwd },
            prompt: asked.prompt,
            name: asked.name,
            model: asked.model.or_else(|| self.source.model.clone()),
            mode: asked.mode.or_else(|| self.source.mode.clone()),
            env: if asked.env.is_empty() { self.source.env.clone() } else { asked.env },
            allowed_tools: if own(&asked.allowed_tools) {
                asked.allowed_tools
            } else {
                self.source.allowed_tools.clone()
            },
            disallowed_tools: if own(&asked.disallowed_tools) {
                asked.disallowed_tools
            } else {
                self.source.disallowed_tools.clone()
            },
            resume: self.agent_session.clone(),
            fork: Some(ForkPoint { session: self.session, at: Some(self.upto) }),
            ..self.source.clone()
        };
        Ok(())
    }
}

impl Registry {
    pub(super) async fn fork_point(&self, who: &Principal, point: ForkPoint) -> Result<Fork, Refusal> {
        who.may(Role::Operator, point.session)?;
        let handle = self.wake(point.session).await?;
        let snapshot = handle.log.snapshot();
        if !handle.log.wait_visible(snapshot.seq).await {
            return Err(gone());
        }
        let upto = point.at.unwrap_or(snapshot.seq);
        if upto > snapshot.seq || upto == Seq::ZERO {
            let message = format!(
                "the session `{}` has no entry {upto}; name an entry from 1 to {}",
                point.session, snapshot.seq
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        let mut source = self.origin(point.session).await?.spec;
        self.renew(who, &mut source, &snapshot.state);
        let last_message = self.last_message(point.session, upto).await?;
        let at_message = last_message.clone().filter(|_| upto < snapshot.seq);
        let agent_session = snapshot.state.summary.agent_session.clone();
        let (session, head) = (point.session, snapshot.seq);
        Ok(Fork { session, upto, head, source, agent_session, at_message, last_message })
    }

    /// The settings of a session as they are now, not as they were at its beginning.
    fn renew(&self, who: &Principal, spec: &mut SessionSpec, now: &State) {
        spec.budget = now.budget.as_ref().map(SessionBudget::terms);
        spec.deadline_seconds = now.spec.deadline_seconds;
        if spec.mode == now.summary.mode {
            return;
        }
        // The agent may have reported a mode that nobody can request; then the fork begins in the mode that asks.
        let can_be = |mode: &String| {
            let capabilities = self.agent(&spec.agent)?.capabilities();
            let asks = capabilities.asks(mode);
            let takes =
                capabilities.options.contains(&SpecOption::Mode) && capabilities.has_mode(mode).is_ok();
            let may =
                asks != Asks::Unknown || who.may_use_mode(mode, asks, self.shared.policy.bypass).is_ok();
            (takes && may).then_some(())
        };
        spec.mode = now.summary.mode.clone().filter(|mode| can_be(mode).is_some());
    }

    /// The agent's own id of the last message up to `upto`.
    async fn last_message(&self, session: SessionId, upto: Seq) -> Result<Option<String>, Refusal> {
        let mut after = Seq(upto.0.saturating_sub(MESSAGE_SEARCH));
        let mut found = None;
        while after < upto {
            let page = self
                .shared
                .store
                .read(LogId::Session(session), after, upto, Page::BATCH)
                .await
                .map_err(broken)?;
            let Some(newest) = page.last() else { break };
            after = newest.seq;
            for stored in page {
                if let Ok(entry) = stored.decode::<Event>()
                    && let Event::Message { message: Some(message), parent: None, .. } = entry.event
                {
                    found = Some(message);
                }
            }
        }
        Ok(found)
    }
}
