//! The mode that a thread begins in: always set, and compared with the mode that Codex reports.
//!
//! Sent as a separate message and not when the thread begins: otherwise Codex would write into the user's configuration
//! that it trusts this folder permanently.

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
use crate::driver::{Output, Timer};

/// Runs while Codex has taken a mode and not reported it yet. Timers of requests count from one.
pub(super) const SAYS_SO: Timer = Timer(u64::MAX);

impl Translate {
    /// The mode to begin in: the requested mode, otherwise the mode that Codex began in, if it asks in that mode.
    pub(super) fn choose_mode(&mut self, begun: &Value, out: &mut Output) {
        let (policy, sandbox) = (&begun["approvalPolicy"], &begun["sandbox"]);
        let own = modes::named(policy, sandbox, &Value::Null);
        if self.setup.mode.is_none() {
            let asks = own.clone().filter(|_| modes::may_begin(policy, sandbox));
            if let (None, Some(own)) = (&asks, &own) {
                let text = format!(
                    "the configuration of Codex sets the mode `{own}`, which acts without asking; the \
                     session begins in `{}` instead. To use `{own}`, name it when you start the session",
                    modes::ASKS
                );
                notice(Level::Warning, Some(text), out);
            }
            self.setup.mode = Some(asks.unwrap_or_else(|| modes::ASKS.to_owned()));
        }
        // If another mode follows, this one is not reported: a later start would ask for it.
        self.threads.mode = own.filter(|own| self.setup.mode.as_ref() == Some(own));
    }

    /// Without the chosen mode nothing begins: in another mode Codex might act without asking.
    pub(super) fn set_first_mode(&mut self, out: &mut Output) {
        let Some(wanted) = self.setup.mode.clone() else { return self.become_ready(out) };
        let holds = self.threads.mode.is_some();
        // A resumed thread may still be planning, which it does not report when it begins.
        if holds && self.setup.extra.is_empty() && self.setup.begin == Begin::Start {
            return self.become_ready(out);
        }
        match self.mode_settings(&wanted) {
            Some(settings) => {
                let params = self.of_thread(settings);
                self.ask(None, What::FirstMode, "thread/settings/update", Some(params), out);
            }
            // Settings of the user that have no name here, and already hold.
            None if holds => self.become_ready(out),
            None => self.mode_not_taken("Codex has no such mode", out),
        }
    }

    /// Codex took the mode. It reports the new mode separately, if anything has changed.
    pub(super) fn mode_taken(&mut self, out: &mut Output) {
        if self.is_ready {
            return;
        }
        if self.threads.mode == self.setup.mode {
            return self.become_ready(out);
        }
        out.set_timer(SAYS_SO, self.setup.patience);
    }

    pub(super) fn mode_not_said(&mut self, out: &mut Output) {
        if !self.is_ready {
            let within = self.setup.patience.as_secs_f32();
            let other = self.threads.other_mode.take();
            let other = other.map(|other| format!("; it reports `{other}`")).unwrap_or_default();
            let why = format!("Codex did not report that mode within {within} s{other}");
            self.mode_not_taken(&why, out);
        }
    }

    pub(super) fn mode_not_taken(&mut self, error: &str, out: &mut Output) {
        let wanted = self.setup.mode.clone().unwrap_or_default();
        let error = ErrorInfo {
            kind: ErrorKind::InvalidRequest,
            message: format!("the session could not begin in the mode `{wanted}`: {error}"),
            way_out: Some(format!("start the session in another mode: {}", modes::names().join(", "))),
        };
        let why = error.message.clone();
        out.event(Event::Failure { error, recoverable: false });
        out.give_up(why);
    }

    pub(super) fn settings_updated(&mut self, settings: &Value, out: &mut Output) {
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
            // The mode before the one that was set, or instead of it.
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
