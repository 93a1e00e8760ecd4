//! Rules: what people have decided beforehand.
//!
//! A rule is `allow`, `ask` or `deny` for a tool, or for some of its calls. Here is what a rule is made of, how its text is
//! read, and what is refused. Which calls a rule covers is decided in [`cover`](super::cover), and what follows from all
//! rules together in [`decide`](mod@super::decide).

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Actor, Millis, Seq, SessionId};

/// Rules that one daemon keeps, those of sessions included. A decision looks at every one of them.
pub const RULES: usize = 2000;

/// The longest `TOOL(PATTERN)`, in bytes. It is read again at every decision.
pub const TEXT: usize = 1024;

/// The longest comment, in characters.
pub const COMMENT: usize = 500;

/// Examples that one rule may carry, of both kinds together.
pub const EXAMPLES: usize = 50;

/// The id of a rule: eight characters that people can type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(transparent)]
pub struct RuleId(pub String);

impl RuleId {
    /// A new id.
    pub fn random() -> Self {
        let id = uuid::Uuid::new_v4().simple().to_string();
        Self(id[..8].to_owned())
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a rule answers. A later one beats an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The call runs without asking.
    Allow,
    /// A person is asked, whatever the mode.
    Ask,
    /// The call does not run.
    Deny,
}

impl Effect {
    /// The effect as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Effect {
    type Err = BadRule;
    fn from_str(text: &str) -> Result<Self, BadRule> {
        match text {
            "allow" => Ok(Self::Allow),
            "ask" => Ok(Self::Ask),
            "deny" => Ok(Self::Deny),
            other => Err(BadRule(format!("unknown effect `{other}`; use allow, deny or ask"))),
        }
    }
}

/// What makes a folder the same folder: its place on the disk, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Identity {
    /// The device.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub device: u64,
    /// The inode on it.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub inode: u64,
}

/// Where a rule holds. A later scope is narrower than an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RuleScope {
    /// In every session.
    User,
    /// In every session that works in this folder or below it.
    Project {
        /// The first 16 hex digits of the SHA-256 of the folder's path.
        id: String,
        /// The folder, with every link followed.
        #[cfg_attr(feature = "schema", ts(type = "string"))]
        folder: PathBuf,
        /// The folder that stood there when the rule was made. The rule is suspended while another one does.
        identity: Identity,
    },
    /// In one session.
    Session {
        /// Which.
        session: SessionId,
    },
}

impl RuleScope {
    /// How narrow the scope is; a larger number is narrower.
    pub fn rank(&self) -> u8 {
        match self {
            Self::User => 0,
            Self::Project { .. } => 1,
            Self::Session { .. } => 2,
        }
    }
}

impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Project { folder, .. } => write!(f, "project:{}", folder.display()),
            Self::Session { session } => write!(f, "session:{session}"),
        }
    }
}

/// The first rule that denies something in a session that works in this folder.
pub(crate) fn denies_in<'a>(
    mut rules: impl Iterator<Item = &'a Rule>,
    folder: &Path,
    now: Millis,
) -> Option<&'a Rule> {
    rules.find(|rule| {
        let here = match &rule.scope {
            RuleScope::Project { folder: project, .. } => folder.starts_with(project),
            RuleScope::User | RuleScope::Session { .. } => true,
        };
        rule.effect == Effect::Deny && here && !rule.is_expired(now)
    })
}

/// An example that a rule carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Example {
    /// The tool that is called.
    pub tool: String,
    /// What the tool is called with.
    pub input: Value,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Rule {
    /// Its id.
    pub rule: RuleId,
    /// What it answers.
    pub effect: Effect,
    /// `TOOL` or `TOOL(PATTERN)`.
    pub text: String,
    /// Where it holds.
    pub scope: RuleScope,
    /// A deny that yields to an allow of a narrower scope.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub overridable: bool,
    /// After this time the rule answers nothing; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// Why it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When it was made.
    pub made_at: Millis,
    /// Who made it, and through which frontend.
    pub made_by: Actor,
    /// Calls that the rule must cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "match")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Example>>", optional))]
    pub matches: Vec<Example>,
    /// Calls that the rule must not cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "not_match")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Example>>", optional))]
    pub does_not_match: Vec<Example>,
}

impl Rule {
    /// A rule that holds in one session, made by the entry with this number.
    pub(crate) fn of_session(
        session: SessionId,
        seq: Seq,
        at: Millis,
        by: Option<&Actor>,
        effect: Effect,
        text: &str,
    ) -> Self {
        Self {
            rule: RuleId(format!("s{seq}")),
            effect,
            text: text.to_owned(),
            scope: RuleScope::Session { session },
            overridable: false,
            expires_at: None,
            comment: None,
            made_at: at,
            made_by: by.cloned().unwrap_or(Actor::Daemon),
            matches: vec![],
            does_not_match: vec![],
        }
    }

    /// The rule as people read it: `deny Bash(rm -r)`.
    pub fn line(&self) -> String {
        format!("{} {}", self.effect, self.text)
    }

    /// Has its time passed?
    pub fn is_expired(&self, now: Millis) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// What someone asks a new rule to be. Who made it, when, and the folder's identity are added by the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct RuleDraft {
    /// What it answers.
    pub effect: Effect,
    /// `TOOL` or `TOOL(PATTERN)`.
    pub text: String,
    /// Where it holds.
    #[serde(default)]
    #[cfg_attr(feature = "schema", ts(as = "Option<ScopeDraft>", optional))]
    pub scope: ScopeDraft,
    /// A deny that yields to an allow of a narrower scope.
    #[serde(default)]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub overridable: bool,
    /// It ends after so many seconds; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub expires_in_seconds: Option<u64>,
    /// Why it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Calls that the rule must cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "match")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Example>>", optional))]
    pub matches: Vec<Example>,
    /// Calls that the rule must not cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "not_match")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<Example>>", optional))]
    pub does_not_match: Vec<Example>,
}

impl RuleDraft {
    /// A draft without conditions, comment or examples.
    pub fn new(effect: Effect, text: impl Into<String>, scope: ScopeDraft) -> Self {
        Self {
            effect,
            text: text.into(),
            scope,
            overridable: false,
            expires_in_seconds: None,
            comment: None,
            matches: vec![],
            does_not_match: vec![],
        }
    }

    /// The draft as a rule of one session, made by the entry with this number.
    pub(crate) fn of_session(self, session: SessionId, seq: Seq, at: Millis, by: &Actor) -> Rule {
        let rule = Rule::of_session(session, seq, at, Some(by), self.effect, &self.text);
        self.into_rule(rule.rule, rule.scope, at, by.clone())
    }

    /// The draft as a rule.
    pub fn into_rule(self, rule: RuleId, scope: RuleScope, at: Millis, by: Actor) -> Rule {
        let expires_at = self.expires_in_seconds.map(|seconds| {
            let span = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
            Millis(at.0.saturating_add(span))
        });
        Rule {
            rule,
            effect: self.effect,
            text: self.text,
            scope,
            overridable: self.overridable,
            expires_at,
            comment: self.comment,
            made_at: at,
            made_by: by,
            matches: self.matches,
            does_not_match: self.does_not_match,
        }
    }
}

/// Where a new rule is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScopeDraft {
    /// In every session.
    #[default]
    User,
    /// In every session in this folder and below it.
    Project {
        /// An absolute path on the daemon's machine.
        #[cfg_attr(feature = "schema", ts(type = "string"))]
        folder: PathBuf,
    },
    /// In one session.
    Session {
        /// Which.
        session: SessionId,
    },
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRule(pub String);

/// The tool's part and the pattern's part of `TOOL(PATTERN)`.
pub fn split(text: &str) -> Result<(&str, Option<&str>), BadRule> {
    let bad = |why: &str| Err(BadRule(format!("`{}` {why}", text.escape_debug())));
    if text.len() > TEXT {
        return Err(BadRule(format!("a rule has at most {TEXT} bytes")));
    }
    if text.chars().any(char::is_control) {
        return bad("contains a control character");
    }
    let (tool, pattern) = match text.split_once('(') {
        None => (text, None),
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(pattern) => (tool, Some(pattern)),
            None => return bad("needs a closing `)`"),
        },
    };
    if tool.is_empty() || tool.contains(|c: char| c.is_whitespace() || "()".contains(c)) {
        return bad("needs the name of a tool: `TOOL` or `TOOL(PATTERN)`");
    }
    if pattern.is_some_and(|pattern| pattern.trim().is_empty()) {
        return bad("has an empty pattern; leave the brackets out to cover every call");
    }
    Ok((tool, pattern))
}

/// Can this name stand in a rule for exactly this tool? An agent chooses the names of its tools: a `*` or a leading `@`
/// would cover other tools too, and a blank or a bracket would make a rule that nobody can read.
pub fn is_plain_name(tool: &str) -> bool {
    !tool.contains('*') && !tool.starts_with('@') && matches!(split(tool), Ok((_, None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_stands_for_exactly_one_tool() {
        for plain in ["Bash", "mcp__db__query", "read-file", "a.b", "réseau"] {
            assert!(is_plain_name(plain), "{plain}");
        }
        let long = "x".repeat(TEXT + 1);
        for other in
            ["", "*", "mcp__*", "@run", "Run a command", "Bash(ls)", "Bash)", "a\u{7}", "a\u{a0}b", &long]
        {
            assert!(!is_plain_name(other), "{other:?}");
        }
    }

    // covers: 002-061
    #[test]
    fn the_text_of_a_rule_is_a_tool_and_perhaps_a_pattern() {
        assert_eq!(split("Bash"), Ok(("Bash", None)));
        assert_eq!(split("Bash(npm run *)"), Ok(("Bash", Some("npm run *"))));
        assert_eq!(split("Bash(echo (x))"), Ok(("Bash", Some("echo (x)"))));
        assert_eq!(split("mcp__*(key=a)"), Ok(("mcp__*", Some("key=a"))));
        for bad in ["", "(x)", "Bash()", "Bash( )", "Bash(x", "Ba sh", "Bash(a\u{7})"] {
            assert!(split(bad).is_err(), "{bad:?}");
        }
        assert!(split(&"x".repeat(TEXT + 1)).is_err());
    }

    #[test]
    fn ids_are_short_and_differ() {
        let (one, other) = (RuleId::random(), RuleId::random());
        assert_eq!(one.0.len(), 8);
        assert_ne!(one, other);
    }

    #[test]
    fn a_deny_is_more_than_an_ask_and_an_ask_more_than_an_allow() {
        assert!(Effect::Deny > Effect::Ask && Effect::Ask > Effect::Allow);
        for effect in [Effect::Allow, Effect::Ask, Effect::Deny] {
            assert_eq!(effect.word().parse::<Effect>(), Ok(effect));
        }
        assert_eq!(
            "Allow".parse::<Effect>().unwrap_err().0,
            "unknown effect `Allow`; use allow, deny or ask"
        );
    }
}
