//! The guard of modes: nobody without permission switches questions off, on any path and through any frontend.
//!
//! An agent's capabilities say how much each mode asks; [`Principal::may_use_mode`] decides who may use it. This module
//! only covers the places where a mode can hide: a new session, a command, an answer, variables and the agent's own
//! protocol.

use std::{path::Path, sync::Arc};

use super::Registry;
use crate::{
    Action, Capabilities, Principal, Refusal, RefusalCode, RequestId, SessionSpec, WayOut,
    capabilities::{Asks, RulesBind, shown},
    policy::{Rule, rule::denies_in},
    ports::{Agent, Means},
    request::Answer,
    session::task::Handle,
};

impl Registry {
    /// May this principal create a session with this mode and these variables?
    pub(super) fn guard_spec(
        &self,
        who: &Principal,
        agent: &Arc<dyn Agent>,
        capabilities: &Capabilities,
        spec: &SessionSpec,
    ) -> Result<(), Refusal> {
        let bypass = self.shared.policy.bypass;
        if let Some(mode) = &spec.mode {
            let asks = capabilities.asks(mode);
            // A mode that does not exist is refused for that reason, whoever asks for it.
            if asks != Asks::Unknown || capabilities.has_mode(mode).is_ok() {
                who.may_use_mode(mode, asks, bypass)?;
            }
        }
        match agent.asks_nothing(Means::Variables(&spec.env)) {
            Some(variable) => who.may_use_mode(&variable, Asks::Nothing, bypass),
            None => Ok(()),
        }
    }

    /// Refuses a mode in which a deny rule that holds here could not stop the agent.
    pub(super) fn guard_rules(
        &self,
        capabilities: &Capabilities,
        mode: &str,
        folder: &Path,
        of_session: &[Rule],
    ) -> Result<(), Refusal> {
        if capabilities.rules_bind(mode) {
            return Ok(());
        }
        let acts = match capabilities.asks(mode) {
            Asks::Unknown => "may act",
            Asks::Everything | Asks::Some | Asks::Nothing => "acts",
        };
        self.no_deny_rule((mode, acts), folder, of_session)
    }

    fn no_deny_rule(
        &self,
        (mode, acts): (&str, &str),
        folder: &Path,
        of_session: &[Rule],
    ) -> Result<(), Refusal> {
        let now = self.shared.clock.now();
        let log = self.shared.daemon.log();
        let daemon = log.state();
        let rules = daemon.rules.iter().chain(of_session);
        let Some(rule) = denies_in(rules, folder, now) else { return Ok(()) };
        let why = format!(
            "in the mode `{}` the agent {acts} without asking, and the rule `{}` could not stop the agent; use a \
             mode that asks",
            shown(mode),
            rule.line()
        );
        let way_out = WayOut::RemoveRule { rule: rule.rule.clone() };
        Err(Refusal::new(RefusalCode::Forbidden, why).with_way_out(way_out))
    }

    /// The same for a session that exists.
    fn guard_rules_of(&self, handle: &Handle, mode: &str, asks: Asks) -> Result<(), Refusal> {
        let state = handle.log.state();
        if asks == Asks::Unknown && state.capabilities.has_mode(mode).is_err() {
            return Ok(());
        }
        self.guard_rules(&state.capabilities, mode, &state.spec.cwd, &state.session_rules)
    }

    /// May this principal use every mode that this action leads to?
    pub(super) fn guard_action(
        &self,
        who: &Principal,
        handle: &Handle,
        action: &Action,
    ) -> Result<(), Refusal> {
        let bypass = self.shared.policy.bypass;
        let guard = |mode: &str, asks| who.may_use_mode(mode, asks, bypass);
        let means = match action {
            Action::SetMode { mode } => {
                let asks = self.asks(handle, mode);
                // A mode that does not exist is refused for that reason, whoever asks for it.
                let missing =
                    asks == Asks::Unknown && handle.log.state().capabilities.has_mode(mode).is_err();
                if missing {
                    return Ok(());
                }
                guard(mode, asks)?;
                return self.guard_rules_of(handle, mode, asks);
            }
            Action::Answer { request, answer: Answer::Allow { mode, option, .. }, .. } => {
                let behind = option.as_ref().and_then(|option| mode_behind(handle, *request, option));
                for mode in mode.iter().chain(&behind) {
                    let asks = self.asks(handle, mode);
                    guard(mode, asks)?;
                    self.guard_rules_of(handle, mode, asks)?;
                }
                match option {
                    // The id of an option whose mode is not known may be the name of a mode.
                    Some(option) if behind.is_none() && self.asks(handle, option) == Asks::Nothing => {
                        guard(option, Asks::Nothing)?;
                        return self.guard_rules_of(handle, option, Asks::Nothing);
                    }
                    Some(option) => Means::Choice(option),
                    None => return Ok(()),
                }
            }
            Action::Native { body } => Means::Message(body),
            Action::SetEnvironment { variables } => Means::Variables(variables),
            _ => return Ok(()),
        };
        let agent = self.agent(&handle.log.state().summary.agent);
        match agent.and_then(|agent| agent.asks_nothing(means)) {
            Some(hidden) => {
                guard(&hidden, Asks::Nothing)?;
                let state = handle.log.state();
                if state.capabilities.rules == RulesBind::Enforced {
                    return Ok(());
                }
                self.no_deny_rule((&hidden, "acts"), &state.spec.cwd, &state.session_rules)
            }
            None => Ok(()),
        }
    }

    /// How much the agent of this session asks in a mode. The log of an older Portolan does not say; its agent does.
    fn asks(&self, handle: &Handle, mode: &str) -> Asks {
        let (marked, agent) = {
            let state = handle.log.state();
            (state.capabilities.mode_asks.get(mode).copied(), state.summary.agent.clone())
        };
        let by_agent = || self.agent(&agent).map_or(Asks::Unknown, |agent| agent.capabilities().asks(mode));
        marked.unwrap_or_else(by_agent)
    }
}

/// The mode to which an option of an open request leads.
fn mode_behind(handle: &Handle, request: RequestId, option: &str) -> Option<String> {
    let state = handle.log.state();
    let open = state.requests.iter().find(|open| open.request == request)?;
    open.ask.mode_behind(option).map(str::to_owned)
}
