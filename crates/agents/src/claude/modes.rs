//! The permission mode that a session begins in: always set, and compared with the mode that the CLI reports.

use portolan_core::{
    Event,
    event::{AgentInfo, ErrorInfo, ErrorKind, Level},
};
use serde_json::{json, value::RawValue};

use super::{control::What, translate::Translate, wire};
use crate::driver::Output;

impl Translate {
    /// The mode is on the command line already. The reported mode counts: some versions begin in another one.
    pub(super) fn set_first_mode(&mut self, out: &mut Output) {
        if self.known.mode.as_ref() == Some(&self.setup.mode) {
            return self.set_first_servers(out);
        }
        let request = json!({ "subtype": "set_permission_mode", "mode": self.setup.mode });
        self.ask(None, What::FirstMode, request, out);
    }

    pub(super) fn first_mode_set(&mut self, response: Option<&RawValue>, out: &mut Output) {
        let told = wire::value(response)["mode"].as_str().map(str::to_owned);
        let mode = self.setup.mode.clone();
        if let Some(told) = told.filter(|told| *told != mode) {
            return self.mode_differs(&format!("it reports the mode `{told}`"), out);
        }
        self.known.mode = Some(mode.clone());
        let info = AgentInfo { mode: Some(mode), ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
        self.set_first_servers(out);
    }

    /// In another mode Claude Code might act without asking, so it gets no more messages.
    pub(super) fn mode_differs(&self, why: &str, out: &mut Output) {
        let wanted = &self.setup.mode;
        let message = format!("Claude Code does not work in the mode `{wanted}`: {why}");
        let way_out = format!(
            "start the session in another mode ({}), check the settings of Claude Code for a mode, or \
             install another version",
            self.setup.modes.join(", ")
        );
        let error = ErrorInfo { kind: ErrorKind::Agent, message: message.clone(), way_out: Some(way_out) };
        out.event(Event::Failure { error, recoverable: false });
        out.give_up(message);
    }

    /// Whether the turn's mode is the one that was set. In the first turn any other mode is a fault; later, an
    /// unreported change is shown as a notice.
    pub(super) fn mode_is_known(&mut self, told: Option<&str>, out: &mut Output) -> bool {
        let first = !std::mem::replace(&mut self.has_told_mode, true);
        let (Some(told), Some(known)) = (told, self.known.mode.as_deref()) else { return true };
        if told == known || self.control.is_setting_any_mode() {
            return true;
        }
        if first && known == self.setup.mode {
            self.mode_differs(&format!("its first turn begins in the mode `{told}`"), out);
            return false;
        }
        let text = format!("the mode of Claude Code changed from `{known}` to `{told}`");
        out.event(Event::Notice { level: Level::Warning, text });
        true
    }
}
