//! The mode that an agent reports. Policy goes by the mode that people set, so a report never widens what happens without
//! a person: an agent that puts itself into such a mode is shown in it, and the session stays in its own.

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::{
    Actor, Capabilities, Event, Millis,
    capabilities::{Asks, RulesBind, shown},
    event::{AgentInfo, Level, Setting},
    log::Book,
    policy::{Rule, rule::denies_in},
    request::{Answer, Ask},
    session::state::State,
};

/// The mode to which a person's answer leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Led {
    /// A plan was approved: the agent leaves the mode in which it plans.
    Plan,
    /// The answer names this mode, or is an option of the agent that leads to it. An older Portolan kept the id of the
    /// option, which may be the name of the mode.
    #[serde(alias = "option")]
    Mode(String),
}

impl Led {
    /// Where this answer of a person leads, if it leads to a mode.
    pub(super) fn by(ask: &Ask, answer: &Answer) -> Option<Self> {
        let Answer::Allow { mode, option, .. } = answer else { return None };
        match (mode, option, ask) {
            (Some(mode), ..) => Some(Self::Mode(mode.clone())),
            (None, Some(option), _) => ask.mode_behind(option).map(|mode| Self::Mode(mode.to_owned())),
            (None, None, Ask::Plan { .. }) => Some(Self::Plan),
            (None, None, _) => None,
        }
    }

    /// The registry has checked that the person may use the mode to which the answer leads.
    fn leads_to(&self, can: &Capabilities, mode: &str) -> bool {
        match self {
            Self::Plan => !widens(can, None, mode),
            Self::Mode(named) => named == mode,
        }
    }
}

/// Would more happen without a person in the mode `to` than in the mode `from`?
fn widens(can: &Capabilities, from: Option<&str>, to: &str) -> bool {
    let asks_less = match (from.map(|from| can.asks(from)), can.asks(to)) {
        (_, Asks::Everything) | (Some(Asks::Nothing), Asks::Some) | (None, Asks::Unknown) => false,
        (before, after) => before != Some(after),
    };
    asks_less || can.meaning(Some(to)).widens(can.meaning(from))
}

/// What a reported mode is for the session.
enum Reported {
    /// The session is in this mode.
    OfSession(String),
    /// The agent works in this mode, and the session stays in its own.
    Own(String),
    /// Nothing new.
    Known,
}

impl Machine {
    /// Takes the mode that the agent reports about itself; returns what is left of the report.
    pub(super) fn take_mode_of(&self, book: &mut Book<State>, now: Millis, mut info: AgentInfo) -> AgentInfo {
        let Some(mode) = info.mode.take() else { return info };
        let state = book.state();
        // The report itself may say what its mode means.
        let can = info.capabilities.as_deref().unwrap_or(&state.capabilities);
        let reported = self.reported(state, can, mode);
        self.note_mode(book, now, reported, info)
    }

    /// Takes a change of mode that the agent reports; returns the event that says it, if there is anything new.
    pub(super) fn take_changed_mode(
        &self,
        book: &mut Book<State>,
        now: Millis,
        mode: String,
    ) -> Option<Event> {
        let reported = self.reported(book.state(), &book.state().capabilities, mode);
        if let Reported::OfSession(mode) = reported {
            return Some(Event::SettingChanged { setting: Setting::Mode { mode } });
        }
        let info = self.note_mode(book, now, reported, AgentInfo::default());
        (info != AgentInfo::default()).then(|| Event::AgentInfo { info: Box::new(info) })
    }

    fn reported(&self, state: &State, can: &Capabilities, mode: String) -> Reported {
        let session = state.summary.mode.as_deref();
        if session == Some(&mode) {
            return Reported::OfSession(mode);
        }
        if let Some(session) = session
            && can.working_mode(session) == mode
        {
            // The agent works in its asking mode while Portolan answers in its place.
            let is_back = state.agent.own_mode.is_some();
            return if is_back { Reported::OfSession(session.to_owned()) } else { Reported::Known };
        }
        let wanted = self.told.values().flatten().find_map(|setting| match setting {
            Setting::Mode { mode: wanted } if can.working_mode(wanted) == mode => Some(wanted),
            _ => None,
        });
        if let Some(wanted) = wanted {
            // The agent's receipt sets it, if the session's mode has another name.
            return if *wanted == mode { Reported::OfSession(mode) } else { Reported::Known };
        }
        let is_led = self.memory.led.as_ref().is_some_and(|led| led.leads_to(can, &mode));
        if is_led || !widens(can, session, &mode) {
            return Reported::OfSession(mode);
        }
        if state.agent.own_mode.as_ref() == Some(&mode) { Reported::Known } else { Reported::Own(mode) }
    }

    fn note_mode(
        &self,
        book: &mut Book<State>,
        now: Millis,
        reported: Reported,
        info: AgentInfo,
    ) -> AgentInfo {
        match reported {
            Reported::Known => info,
            Reported::OfSession(mode) => AgentInfo { mode: Some(mode), ..info },
            Reported::Own(mode) => {
                let text = self.words_for_own(book.state(), now, &mode);
                book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
                AgentInfo { own_mode: Some(mode), ..info }
            }
        }
    }

    /// Says that one of these new rules may not stop the running agent.
    pub fn note_unbound<'a>(
        &self,
        book: &mut Book<State>,
        now: Millis,
        added: impl Iterator<Item = &'a Rule>,
    ) {
        let state = book.state();
        let Some(rule) = denies_in(added, &state.spec.cwd, now) else { return };
        let mode = state.agent.own_mode.as_ref().or(state.summary.mode.as_ref());
        let binds = match mode {
            Some(mode) => state.capabilities.rules_bind(mode),
            None => state.capabilities.rules == RulesBind::Enforced,
        };
        if !self.is_running() || binds {
            return;
        }
        let mode = mode.map_or_else(|| "its mode".to_owned(), |mode| format!("the mode `{}`", shown(mode)));
        let text = format!(
            "the new rule `{}` may not stop the agent: in {mode} the agent may act without asking. Set a mode that asks, \
             or stop the session",
            rule.line()
        );
        book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
    }

    fn words_for_own(&self, state: &State, now: Millis, mode: &str) -> String {
        let session = state.summary.mode.as_deref().unwrap_or("default");
        let rules = self.rules.iter().chain(&state.session_rules);
        let binds = state.capabilities.rules_bind(mode);
        let beyond = denies_in(rules, &state.spec.cwd, now).filter(|_| !binds).map(|rule| {
            format!(
                "; in its own mode the agent acts without asking, so the rule `{}` cannot stop the agent: set the mode \
                 again, or stop the session",
                rule.line()
            )
        });
        format!(
            "the agent reports a mode of its own, `{}`, which nobody set through Portolan; Portolan still decides by \
             the mode `{}`{}",
            shown(mode),
            shown(session),
            beyond.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use serde_json::Value;

    use super::*;
    use crate::{
        policy::Mode,
        request::{AskOption, Scope, Verdict},
    };

    fn can() -> Capabilities {
        let asks: IndexMap<String, Asks> = [
            ("ask", Asks::Everything),
            ("plan", Asks::Everything),
            ("acceptEdits", Asks::Some),
            ("off", Asks::Nothing),
        ]
        .map(|(mode, asks)| (mode.to_owned(), asks))
        .into();
        let means =
            [("plan", Mode::Plan), ("acceptEdits", Mode::AcceptEdits), ("off", Mode::BypassPermissions)];
        let mode_means = means.map(|(mode, means)| (mode.to_owned(), means)).into();
        Capabilities { mode_asks: asks, mode_means, ..Capabilities::default() }
    }

    #[test]
    fn a_mode_widens_if_more_happens_there_without_a_person() {
        let can = can();
        for (from, to, wider) in [
            (None, "ask", false),
            (None, "never heard of", false),
            (None, "acceptEdits", true),
            (Some("ask"), "plan", false),
            (Some("plan"), "ask", true),
            (Some("ask"), "acceptEdits", true),
            (Some("acceptEdits"), "ask", false),
            (Some("off"), "acceptEdits", false),
            (Some("ask"), "off", true),
            (Some("ask"), "never heard of", true),
            (Some("never heard of"), "another", false),
            (Some("never heard of"), "acceptEdits", true),
        ] {
            assert_eq!(widens(&can, from, to), wider, "{from:?} {to}");
        }
    }

    #[test]
    fn an_answer_leads_only_to_the_mode_that_it_names() {
        let can = can();
        let leading = |mode: Option<&str>| AskOption {
            mode: mode.map(str::to_owned),
            ..AskOption::new("exit-plan-accept-edits", "Yes", Verdict::Allow)
        };
        let asked = |mode| Ask::permission("ExitPlanMode", Value::Null).with_options(vec![leading(mode)]);
        let plan = Ask::Plan { plan: None, input: Value::Null };
        let answer = |mode: Option<&str>, option: Option<&str>| Answer::Allow {
            input: None,
            scope: Scope::Once,
            mode: mode.map(str::to_owned),
            option: option.map(str::to_owned),
        };
        let chosen = || answer(None, Some("exit-plan-accept-edits"));
        for (ask, answer, mode, leads) in [
            (asked(Some("acceptEdits")), chosen(), "acceptEdits", true),
            (asked(Some("acceptEdits")), chosen(), "off", false),
            (asked(Some("off")), chosen(), "off", true),
            (asked(None), chosen(), "acceptEdits", false),
            (asked(Some("acceptEdits")), answer(None, Some("another")), "acceptEdits", false),
            (asked(Some("acceptEdits")), answer(None, None), "acceptEdits", false),
            (plan.clone(), answer(Some("off"), None), "off", true),
            (plan.clone(), answer(Some("ask"), None), "off", false),
            (plan.clone(), answer(None, None), "ask", true),
            (plan, answer(None, None), "acceptEdits", false),
        ] {
            let led = Led::by(&ask, &answer);
            assert_eq!(led.as_ref().is_some_and(|led| led.leads_to(&can, mode)), leads, "{led:?} {mode}");
        }
    }
}
