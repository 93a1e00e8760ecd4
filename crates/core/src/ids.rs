//! Ids. Each id is a type of its own, so that one id cannot be used in place of another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of a session. Ids are time-ordered: newer sessions sort after older ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS), ts(as = "String"))]
#[serde(transparent)]
pub struct SessionId(Uuid);

/// An id in a schema: a text of this pattern, without a name of its own.
#[cfg(feature = "schema")]
macro_rules! id_schema {
    ($name:ident, $pattern:expr) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}
#[cfg(feature = "schema")]
id_schema!(SessionId, crate::shape::SESSION);

impl SessionId {
    /// A new id that has never been used.
    #[expect(clippy::new_without_default, reason = "a default id would suggest that two of them are equal")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// When the id was made, if the id holds a time.
    pub fn made_at(self) -> Option<Millis> {
        let (seconds, nanos) = self.0.get_timestamp()?.to_unix();
        let millis = seconds.checked_mul(1000)?.checked_add(u64::from(nanos) / 1_000_000)?;
        i64::try_from(millis).ok().map(Millis)
    }

    /// Is this the beginning or the end of the id? The beginning is a time and stays the same for days; the end is
    /// random.
    pub fn is_named_by(self, part: &str) -> bool {
        let text = self.to_string();
        text.starts_with(part) || text.ends_with(part)
    }

    /// The length of an id as text.
    pub const TEXT: usize = uuid::fmt::Hyphenated::LENGTH;

    /// Writes the id as text into an existing buffer.
    pub fn text(self, place: &mut [u8; Self::TEXT]) -> &str {
        self.0.hyphenated().encode_lower(place)
    }

    /// The id with these 128 bits, for tests and for stores that keep ids as bytes.
    pub const fn from_u128(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// The number of an entry in its log. The first entry has number 1; 0 means "before everything". Numbers only grow and
/// are never used twice; gaps are normal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS), ts(as = "u32"))]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first entry.
    pub const ZERO: Self = Self(0);
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
    /// The number before this one; zero stays zero.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of a durable entry in the order in which all logs were written. Positions only grow, and none is used
/// twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS), ts(as = "u32"))]
#[serde(transparent)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Position {
    /// Before the first position.
    pub const ZERO: Self = Self(0);
}

/// The number of a start of the agent in its session: 1 for the first process, one more for each later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS), ts(as = "u32"))]
#[serde(transparent)]
pub struct Generation(pub u32);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a request: the number of the entry that opened it, so the id is unique in its session for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS), ts(as = "u32"))]
#[serde(transparent)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS), ts(as = "u32"))]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// The time of the wall clock. Core takes time from its injected clock instead; the crates around core use this.
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// A log: the daemon's own, or a session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogId {
    /// Sessions created, changed and ended, requests opened and closed, tokens.
    Daemon,
    /// Everything that happened in one session.
    Session(SessionId),
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daemon => f.write_str("daemon"),
            Self::Session(id) => id.fmt(f),
        }
    }
}

impl FromStr for LogId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "daemon" { Ok(Self::Daemon) } else { text.parse().map(Self::Session) }
    }
}

/// The text is empty, too long, or holds a character that an id may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id has 1 to {max} characters from A-Z a-z 0-9 . _ : -")]
pub struct BadId {
    max: usize,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(ts_rs::TS), ts(as = "String"))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);
        #[cfg(feature = "schema")]
        id_schema!($name, crate::shape::ID);

        impl $name {
            /// The longest text such an id may have, in bytes.
            pub const MAX: usize = $max;
            /// A new random id.
            pub fn random() -> Self {
                Self(Uuid::now_v7().simple().to_string())
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                let fits = !text.is_empty() && text.len() <= $max;
                let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b));
                if fits && plain { Ok(Self(text)) } else { Err(BadId { max: $max }) }
            }
        }
        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::try_from(text.to_owned())
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A command's id, made by its sender. The id belongs to one token and one session: the same id never runs twice.
    CommandId, 64
}
text_id! {
    /// The public name of a token, not the token's secret.
    TokenId, 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_a_foreign_character_is_refused() {
        assert!("a b".parse::<CommandId>().is_err());
        assert!("".parse::<CommandId>().is_err());
        assert!("x".repeat(65).parse::<CommandId>().is_err());
        assert!("c-1_2.3:4".parse::<CommandId>().is_ok());
        assert!(serde_json::from_str::<CommandId>("\"\\n\"").is_err());
    }

    #[test]
    fn a_log_id_reads_back_from_its_text() {
        let session = LogId::Session(SessionId::new());
        assert_eq!(session.to_string().parse(), Ok(session));
        assert_eq!("daemon".parse(), Ok(LogId::Daemon));
    }
}
