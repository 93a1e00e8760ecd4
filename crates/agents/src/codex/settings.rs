//! The mode that a thread begins in: always set, and compared with what Codex says of it.
//!
//! Told over the line and not when the thread begins: Codex would then write into the user's configuration that it trusts
//! this folder for good.

use portolan_core::{
    Event,
    event::{AgentInfo, ErrorInfo, ErrorKind, Level},
};
use serde_json::Value;

use super::{
    calls::What,
    modes,
    translate::{Begin, Translate, notice},
    wire::some_text,
};
use crate::driver::{Timer, Turnout};

/// Runs while Codex has taken a mode and not said yet that it is in it. Requests count theirs from one.
pub(super) const SAYS_SO: Timer = Timer(u64::MAX);

impl Translate {
    /// The mode to begin in: the one that was asked for, else the one that Codex has begun in, where it asks in it.
    pub(super) fn choose_mode(&mut self, begun: &Value, out: &mut Turnout) {
        let (policy, sandbox) = (&begun["approvalPolicy"], &begun["sandbox"]);
        let own = modes::named(policy, sandbox, &Value::Null);
        if self.setup.mode.is_none() {
            let asks = own.clone().filter(|_| modes::may_begin(policy, sandbox));
            if let (None, Some(own)) = (&asks, &own) {
                let text = format!(
                    "the configuration of Codex has the mode `{own}`, in which it acts without asking; the session begins \
                     in `{}`. To have the other one, name it when you start the session",
                    modes::ASKS
                );
                notice(Level::Warning, Some(text), out);
            }
            self.setup.mode = Some(asks.unwrap_or_else(|| modes::ASKS.to_owned()));
        }
        // Where another is to follow it is not told: it would be what a later start asks for.
        self.threads.mode = own.filter(|own| self.setup.mode.as_ref() == Some(own));
    }

    /// Without the mode that was chosen nothing begins: in another one Codex might do unasked what it was to ask about.
    pub(super) fn set_first_mode(&mut self, out: &mut Turnout) {
        let Some(wanted) = self.setup.mode.clone() else { return self.become_ready(out) };
        let holds = self.threads.mode.is_some();
        // One that was taken up may still be planning, which it does not tell when it begins.
        if holds && self.setup.extra.is_empty() && self.setup.begin == Begin::Start {
            return self.become_ready(out);
        }
        match self.mode_settings(&wanted) {
            Some(settings) => {
                let params = self.of_thread(settings);
                self.ask(None, What::FirstMode, "thread/settings/update", Some(params), out);
            }
            // Settings of the user's own that have no name here, and hold already.
            None if holds => self.become_ready(out),
            None => self.mode_not_taken("Codex has no such mode", out),
        }
    }

    /// It has taken the mode. That it is in it is told apart, where anything has changed.
    pub(super) fn mode_taken(&mut self, out: &mut Turnout) {
        if self.is_ready {
            return;
        }
        if self.threads.mode == self.setup.mode {
            return self.become_ready(out);
        }
        out.set_timer(SAYS_SO, self.setup.patience);
    }

    pub(super) fn mode_not_said(&mut self, out: &mut Turnout) {
        if !self.is_ready {
            let within = self.setup.patience.as_secs_f32();
            let other = self.threads.other_mode.take();
            let other = other.map(|other| format!(", but that it is in `{other}`")).unwrap_or_default();
            let why = format!("Codex did not say within {within} s that it is in that mode{other}");
            self.mode_not_taken(&why, out);
        }
    }

    pub(super) fn mode_not_taken(&mut self, error: &str, out: &mut Turnout) {
        let wanted = self.setup.mode.clone().unwrap_or_default();
        let error = ErrorInfo {
            kind: ErrorKind::InvalidRequest,
            message: format!("the session could not begin in the mode `{wanted}`: {error}"),
            way_out: Some(format!("start it in another mode; Codex has {}", modes::names().join(", "))),
        };
        let why = error.message.clone();
        out.event(Event::Failure { error, recoverable: false });
        out.give_up(why);
    }

    pub(super) fn settings_updated(&mut self, settings: &Value, out: &mut Turnout) {
        let model = some_text(settings, "model").filter(|model| self.threads.model.as_ref() != Some(model));
        let mode = modes::named(
            &settings["approvalPolicy"],
            &settings["sandboxPolicy"],
            &settings["collaborationMode"],
        )
        .filter(|mode| self.threads.mode.as_ref() != Some(mode));
        if model.is_none() && mode.is_none() {
            return;
        }
        if !self.is_ready && mode.is_some() && mode != self.setup.mode {
            // The one before the one that was set, or instead of it.
            self.threads.other_mode = mode;
            return;
        }
        self.threads.model = model.clone().or(self.threads.model.take());
        self.threads.mode = mode.clone().or(self.threads.mode.take());
        let begins = mode.is_some() && !self.is_ready;
        let info = AgentInfo { model, mode, ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
        if begins {
            out.clear_timer(SAYS_SO);
            self.become_ready(out);
        }
    }
}
