//! What frontends lend to a session while they are there.

use std::sync::Arc;

use super::{Mode, RuleSet};

/// What one session is lent.
#[derive(Clone, Debug, Default)]
pub struct Lent {
    /// Rules, such as those for the tools that a page offers.
    pub rules: Arc<RuleSet>,
    /// Who lets the mode `default` count as `acceptEdits`, such as the handheld's auto-edit.
    pub accepts_edits: Option<Arc<str>>,
}

impl Lent {
    /// The mode that decides, where the session is in `mode`. Any mode that a person has chosen stays.
    pub fn mode(&self, mode: Mode) -> Mode {
        match mode {
            Mode::Default if self.accepts_edits.is_some() => Mode::AcceptEdits,
            mode => mode,
        }
    }

    /// The mode that decided, with who set it if the session itself is in another mode.
    pub fn words(&self, decided: Mode, of_session: Mode) -> String {
        match &self.accepts_edits {
            Some(lender) if decided != of_session => format!("mode {decided}, set by {lender}"),
            _ => format!("mode {decided}"),
        }
    }
}
