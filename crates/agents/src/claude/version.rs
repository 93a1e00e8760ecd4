//! The CLI's version, and what depends on it.

use std::{fmt, str::FromStr};

use indexmap::IndexMap;
use portolan_core::{
    capabilities::Asks,
    policy::{Mode, mode::MODES},
};

/// A version such as `2.1.325`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The oldest version that was seen to work with Portolan. 1.0.30 has no control requests.
    pub const OLDEST: Self = Self(1, 0, 128);
    /// The first seen version that takes MCP servers in a message.
    const TAKES_SERVERS: Self = Self(2, 1, 42);
    /// The last version that dials any host but the vendor's own.
    pub const LAST_TO_DIAL_IN: Self = Self(2, 1, 120);
    /// The first seen version that reports the state of each prompt by its uuid.
    const TELLS_OF_PROMPTS: Self = Self(2, 1, 325);
    /// The first seen version that has the mode `auto`.
    const HAS_AUTO: Self = Self(2, 1, 121);
    /// The first seen version that takes the system prompt in pieces.
    const SYSTEM_PROMPT_IN_PIECES: Self = Self(2, 1, 120);
    /// The first seen version that forwards messages of subagents.
    const FORWARDS_SUBAGENTS: Self = Self(2, 1, 120);

    /// The first seen version that reports which environment variables it took.
    const TELLS_OF_ENVIRONMENT: Self = Self(2, 1, 325);

    /// Reads the output of `claude --version`: `2.1.325 (Claude Code)`. Another program prints something else.
    pub(super) fn told(output: &str) -> Option<Self> {
        output.contains("(Claude Code)").then(|| output.parse().ok()).flatten()
    }

    /// Whether it still dials in.
    pub fn dials_in(self) -> bool {
        self <= Self::LAST_TO_DIAL_IN
    }

    /// Whether the state of prompts is known without echoes.
    pub(super) fn tells_of_prompts(self) -> bool {
        self >= Self::TELLS_OF_PROMPTS
    }

    /// Whether it answers a change of the environment.
    pub(super) fn tells_of_environment(self) -> bool {
        self >= Self::TELLS_OF_ENVIRONMENT
    }

    /// Whether it takes MCP servers in a message.
    pub(super) fn takes_servers(self) -> bool {
        self >= Self::TAKES_SERVERS
    }

    pub(super) fn forwards_subagents(self) -> bool {
        self >= Self::FORWARDS_SUBAGENTS
    }

    pub(super) fn takes_system_prompt_in_pieces(self) -> bool {
        self >= Self::SYSTEM_PROMPT_IN_PIECES
    }
}

/// The permission modes of a version; all modes if the version is not known.
pub(super) fn modes(version: Option<Version>) -> Vec<String> {
    let mut modes = vec!["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk"];
    if version.is_none_or(|version| version >= Version::HAS_AUTO) {
        modes.push("auto");
    }
    modes.into_iter().map(Into::into).collect()
}

/// How much Claude Code asks in each of its modes.
const ASKS: [(&str, Asks); 6] = [
    ("default", Asks::Everything),
    ("acceptEdits", Asks::Some),
    ("plan", Asks::Everything),
    // It denies what it would otherwise ask about.
    ("dontAsk", Asks::Everything),
    // A model decides what it may do.
    ("auto", Asks::Nothing),
    ("bypassPermissions", Asks::Nothing),
];

/// How much each mode asks. A version without a mode refuses it by name, so the marks are the same for all.
pub(super) fn mode_asks() -> IndexMap<String, Asks> {
    ASKS.map(|(mode, asks)| (mode.into(), asks)).into()
}

/// The meaning of its modes. In those that Portolan answers in, Claude Code itself works in `default`. `auto` means
/// nothing here: a model decides.
pub(super) fn mode_means() -> IndexMap<String, Mode> {
    MODES.iter().map(|mode| (mode.word().to_owned(), *mode)).collect()
}

/// How much this mode asks.
pub(super) fn asks(mode: &str) -> Asks {
    ASKS.iter().find(|(known, _)| *known == mode).map_or(Asks::Unknown, |(_, asks)| *asks)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = ();
    /// Reads the first word.
    fn from_str(text: &str) -> Result<Self, ()> {
        let number = text.split_whitespace().next().ok_or(())?.trim_start_matches('v');
        let number = number.split(['-', '+']).next().ok_or(())?;
        let mut parts = number.split('.').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(a)), Some(Ok(b)), Some(Ok(c)), None) => Ok(Self(a, b, c)),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_cli_is_a_version() {
        assert_eq!("2.1.325 (Claude Code)\n".parse(), Ok(Version(2, 1, 325)));
        assert_eq!("v2.1.42-beta.1".parse(), Ok(Version(2, 1, 42)));
        for text in ["", "Claude Code", "2.1", "2.1.x", "2.1.3.4"] {
            assert_eq!(text.parse::<Version>(), Err(()), "{text:?}");
        }
        assert_eq!(Version::told("2.1.325 (Claude Code)\n"), Some(Version(2, 1, 325)));
        for other in ["2.1.325", "sleep (GNU coreutils) 9.1", "9.1.0 (Harbour Code)", "(Claude Code)"] {
            assert_eq!(Version::told(other), None, "{other:?}");
        }
    }

    // covers: 003-020, 004-042, 004-106
    #[test]
    fn each_version_has_its_own_modes() {
        let old = modes(Some(Version(2, 1, 120)));
        assert_eq!(old, ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk"]);
        assert!(modes(Some(Version(2, 1, 325))).contains(&"auto".into()));
        assert!(modes(None).contains(&"auto".into()));
    }
}
