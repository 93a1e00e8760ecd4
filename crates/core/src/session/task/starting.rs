//! Starting and ending the agent for the machine.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Task, Working, lost_exit};
use crate::{
    Refusal, SessionSpec,
    event::{Exit, ExitReason},
    ports::{AgentLink, Launch, Report, ResumePoint},
    session::{crew::Berth, machine::Want, marks::Marks, state::State},
};

impl Task {
    pub(super) fn carry_out(&mut self, working: &mut Working, want: Want) {
        match want {
            Want::Start { after } if after.is_zero() => self.start_agent(working),
            Want::Start { after } => working.start_due = Some(Instant::now() + after),
            Want::Stop => {
                if let Some(link) = &working.link {
                    return link.stop.cancel();
                }
                (working.start_due, working.boarding) = (None, None);
                let exit = Exit {
                    reason: ExitReason::Stopped,
                    ..lost_exit("the agent was stopped before it started")
                };
                let now = self.clock.now();
                self.machine.report(&mut self.log.book(), now, Report::Exited(exit));
            }
        }
    }

    /// Starts the agent, or waits for its berth.
    pub(super) fn start_agent(&mut self, working: &mut Working) {
        match self.crew.free_berth(self.id) {
            Some(berth) => self.start_now(working, Ok(berth)),
            None => working.boarding = Some(Box::pin(self.crew.clone().berth(self.id))),
        }
    }

    pub(super) fn start_now(&mut self, working: &mut Working, berth: Result<Berth, Refusal>) {
        let now = self.clock.now();
        let mut book = self.log.book();
        let resume = self.resume_point(book.state());
        let named = resume.as_ref().map(|point| point.agent_session.clone());
        let capabilities = self.agent.as_ref().map(|agent| agent.capabilities()).unwrap_or_default();
        self.machine.know_rules(Arc::clone(&self.rules.borrow()));
        let mode = self.machine.starting_mode(&mut book, now, &capabilities);
        let generation = self.machine.starting(&mut book, now, capabilities, named);
        let berth = match berth {
            Ok(berth) => berth,
            Err(refusal) => {
                let exit = Exit { reason: ExitReason::NotStarted, ..lost_exit(&refusal.message) };
                return self.machine.report(&mut book, now, Report::Exited(exit));
            }
        };
        let Some(agent) = &self.agent else {
            let kind = &self.origin.spec.agent;
            let message = format!(
                "the agent `{kind}` is no longer configured; configure it again, or start a new session"
            );
            let exit = Exit { reason: ExitReason::NotStarted, ..lost_exit(&message) };
            self.machine.report(&mut book, now, Report::Exited(exit));
            return;
        };
        // Policy allows these tools, so that a deny rule still holds for them.
        let allowed_tools = vec![];
        let spec = Arc::new(SessionSpec { mode, allowed_tools, ..self.effective_spec(book.state()) });
        drop(book);
        tracing::info!(agent = agent.kind(), %generation, "agent starts");
        let link = agent.start(Launch { session: self.id, generation, spec, resume });
        self.hold_link(working, link, berth, 0);
    }

    /// From here on the agent runs, as far as this session knows.
    pub(super) fn hold_link(&self, working: &mut Working, mut link: AgentLink, berth: Berth, recorded: u64) {
        self.stop_handle.take(&link);
        working.marks = link.recorded.take().map(|told| Marks::after(recorded, told));
        working.link = Some(link);
        working.berth = Some(berth);
        working.blocked = false;
    }

    /// The session's settings, with its current model.
    pub(super) fn effective_spec(&self, state: &State) -> SessionSpec {
        let mut spec = self.origin.spec.clone();
        spec.model.clone_from(&state.summary.model);
        spec
    }

    pub(super) fn resume_point(&self, state: &State) -> Option<ResumePoint> {
        if let Some(known) = &state.summary.agent_session {
            return Some(ResumePoint {
                agent_session: known.clone(),
                fork: false,
                at_message: None,
                last_message: None,
                exchanges: state.exchanges,
            });
        }
        let spec = &self.origin.spec;
        let agent_session = spec.resume.clone()?;
        let fork = spec.fork.is_some() || self.origin.copy;
        let (at_message, last_message) = (self.origin.at_message.clone(), self.origin.last_message.clone());
        Some(ResumePoint { agent_session, fork, at_message, last_message, exchanges: state.exchanges })
    }
}
