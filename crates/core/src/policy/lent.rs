//! What frontends lend to a session while they are there.

use std::sync::Arc;

use super::{Mode, RuleSet};

/// What one session is lent.
#[derive(Clone, Debug, Default)]
pub struct Lent {
    /// Rules, such as those for the tools that a page offers.
    pub rules: Arc<RuleSet>,
    /// Whether the mode `default` counts as `acceptEdits`, because of a switch such as the handheld's auto-edit.
    pub accepts_edits: bool,
}

impl Lent {
    /// The mode that decides, where the session is in `mode`. Any mode that a person has chosen stays.
    pub fn mode(&self, mode: Mode) -> Mode {
        match mode {
            Mode::Default if self.accepts_edits => Mode::AcceptEdits,
            mode => mode,
        }
    }
}
