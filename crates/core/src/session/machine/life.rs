//! The life of the agent: its start and its end.

use std::time::Duration;

use super::{Machine, Want, memory::Running};
use crate::{
    Actor, Capabilities, Event, Generation, Millis, Seq,
    access::Bypass,
    capabilities::Asks,
    event::{Level, ResetReason, Setting},
    log::Book,
    policy::{Rule, rule::denies_in},
    ports::InstructionId,
    session::state::State,
};

impl Machine {
    pub(super) fn start_agent(&mut self) {
        match self.memory.running {
            Running::No => {
                self.memory.running = Running::Starting;
                self.wants.push(Want::Start { after: Duration::ZERO });
            }
            Running::Stopping => self.memory.again = true,
            Running::Starting | Running::Ready => {}
        }
    }

    /// Ends the agent because of a command: the stop is an ordinary instruction, and a crash does not lose it.
    pub(super) fn stop_for(&mut self, book: &mut Book<State>, seq: Seq) {
        if !self.is_stopping() {
            self.memory.running = Running::Stopping;
            self.tell_to_stop(book, InstructionId(seq.0));
        }
    }

    /// Ends the agent for the daemon's own reasons.
    pub(super) fn stop_agent(&mut self) {
        if self.is_running() && !self.is_stopping() {
            self.memory.running = Running::Stopping;
            self.wants.push(Want::Stop);
        }
    }

    /// Starts the agent of a newly created session.
    pub fn begin(&mut self) {
        self.start_agent();
    }

    /// Accepts no more commands; [`Machine::end`] ends the agent.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        if self.memory.again {
            self.memory.again = false;
        }
    }

    /// Ends the agent.
    pub fn end(&mut self) {
        if self.is_running() {
            (self.memory.again, self.memory.rest) = (false, None);
            self.stop_agent();
        }
    }

    /// The task is about to start the agent: records it, and returns the number of this start.
    pub fn starting(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        capabilities: Capabilities,
        resume: Option<String>,
    ) -> Generation {
        self.memory.hopeless = false;
        self.answered_before.clear();
        self.memory.unkept = false;
        self.memory.servers.clear();
        let generation = Generation(book.state().generation.0 + 1);
        let capabilities = Box::new(capabilities);
        let forgets = resume.is_none() && book.state().summary.turns > 0;
        book.append(now, Some(Actor::Daemon), Event::AgentStarting { generation, capabilities, resume });
        if forgets {
            let reason = Some(ResetReason::CannotResume);
            book.append(now, None, Event::ConversationReset { agent_session: None, reason });
        }
        generation
    }

    /// The mode to start in. If modes that ask nobody were switched off meanwhile, or if a deny rule was made that could
    /// not stop the agent in its mode, the agent starts in its asking mode instead, and the session says so.
    pub fn starting_mode(
        &self,
        book: &mut Book<State>,
        now: Millis,
        capabilities: &Capabilities,
    ) -> Option<String> {
        let mode = book.state().summary.mode.clone()?;
        let before = &book.state().capabilities;
        let unasked = [before, capabilities].iter().any(|known| known.asks(&mode) == Asks::Nothing);
        let asking = capabilities.asking_mode().map(str::to_owned);
        let text = if unasked && self.policy.bypass != Bypass::ForOwners {
            format!(
                "the agent does not start in the mode `{mode}`, because the agent asks nobody in that mode, and such \
                 modes are switched off here"
            )
        } else if let Some(rule) = self.beyond(book.state(), now, capabilities, &mode) {
            if asking.is_none() && capabilities.asks(&mode) == Asks::Unknown {
                // No other mode of this agent is known to ask more. A running agent's session was told when the rule came.
                if rule.made_at >= book.state().summary.active_at {
                    let rule = rule.line();
                    let text = format!(
                        "nobody knows what the agent asks in the mode `{mode}`, so the rule `{rule}` may not stop the \
                         agent"
                    );
                    book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
                }
                return Some(capabilities.working_mode(&mode));
            }
            let rule = rule.line();
            format!(
                "the agent does not start in the mode `{mode}`, because in that mode the agent acts without asking, and \
                 the rule `{rule}` could not stop the agent"
            )
        } else {
            return Some(capabilities.working_mode(&mode));
        };
        book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
        if let Some(mode) = asking.clone() {
            let setting = Setting::Mode { mode };
            book.append(now, Some(Actor::Daemon), Event::SettingChanged { setting });
        }
        asking
    }

    /// The deny rule that holds here and could not stop the agent in this mode.
    fn beyond(&self, state: &State, now: Millis, capabilities: &Capabilities, mode: &str) -> Option<Rule> {
        // Only the running agent may say how much one of its own modes asks.
        let is_known = capabilities.asks(mode) != Asks::Unknown;
        let known = if is_known { capabilities } else { &state.capabilities };
        if known.rules_bind(mode) {
            return None;
        }
        let rules = self.rules.iter().chain(&state.session_rules);
        denies_in(rules, &state.spec.cwd, now).cloned()
    }
}
