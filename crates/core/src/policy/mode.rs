//! Modes: what happens to a call that no rule decides.
//!
//! A mode means the same for every agent. An agent's own modes are mapped onto these and keep their names.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::tool::{KINDS, Kind};

/// What happens to a call that no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// A person is asked, except about reading in the project.
    #[default]
    Default,
    /// Files in the project are changed without asking.
    AcceptEdits,
    /// The agent reads and plans. Nothing changes.
    Plan,
    /// Nobody is asked. The call is denied.
    DontAsk,
    /// Nobody is asked. The call is allowed.
    BypassPermissions,
}

/// Every mode.
pub const MODES: [Mode; 5] =
    [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::DontAsk, Mode::BypassPermissions];

/// A field of the table of modes and kinds. A later answer lets more happen without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Deny.
    Deny,
    /// Ask.
    Ask,
    /// Allow if everything that the call names is in the project; ask otherwise.
    AllowInside,
    /// Allow.
    Allow,
}

impl Mode {
    /// The mode as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// Does this mode let more happen without a person than `than` does?
    pub fn widens(self, than: Self) -> bool {
        KINDS.iter().any(|kind| self.answer(*kind) > than.answer(*kind))
    }

    /// What this mode answers to a call of this kind.
    pub fn answer(self, kind: Kind) -> Answer {
        match (self, kind) {
            (Self::BypassPermissions, _) => Answer::Allow,
            (Self::DontAsk, _) => Answer::Deny,
            (Self::Default | Self::AcceptEdits | Self::Plan, Kind::Read)
            | (Self::AcceptEdits, Kind::Edit) => Answer::AllowInside,
            (Self::Plan, Kind::Network) | (Self::Default | Self::AcceptEdits, _) => Answer::Ask,
            (Self::Plan, Kind::Edit | Kind::Run | Kind::Unknown) => Answer::Deny,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = MODES.iter().find(|mode| mode.word() == text);
        known.copied().ok_or_else(|| {
            let all: Vec<_> = MODES.iter().map(|mode| mode.word()).collect();
            format!("unknown mode `{}`; use {}", text.escape_debug(), all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 002-066, 002-067, 002-069, 002-145
    #[test]
    fn every_mode_answers_every_kind_as_the_docs_say() {
        use Answer::{Allow, AllowInside, Ask, Deny};
        let table = |mode: Mode| KINDS.map(|kind| mode.answer(kind));
        assert_eq!(table(Mode::Default), [AllowInside, Ask, Ask, Ask, Ask]);
        assert_eq!(table(Mode::AcceptEdits), [AllowInside, AllowInside, Ask, Ask, Ask]);
        assert_eq!(table(Mode::Plan), [AllowInside, Deny, Deny, Ask, Deny]);
        assert_eq!(table(Mode::DontAsk), [Deny; 5]);
        assert_eq!(table(Mode::BypassPermissions), [Allow; 5]);
        assert_eq!(Mode::default(), Mode::Default);
    }

    #[test]
    fn a_mode_is_read_by_its_word() {
        for mode in MODES {
            assert_eq!(mode.word().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.word());
        }
        assert!(
            "yolo"
                .parse::<Mode>()
                .unwrap_err()
                .ends_with("use default, acceptEdits, plan, dontAsk, bypassPermissions")
        );
    }
}
