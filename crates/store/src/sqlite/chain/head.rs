//! A seal, and the head that people write down.

use std::{fmt, str::FromStr};

use portolan_core::Seq;
use sha2::{Digest as _, Sha256};

/// A seal: its content and its text form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal([u8; 32]);

impl Seal {
    /// The seal before the first entry.
    pub(super) const NONE: Self = Self([0; 32]);

    /// The seal of an entry that follows the one with this seal.
    pub(super) fn next(self, seq: Seq, frame: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(self.0).chain_update(seq.0.to_be_bytes()).chain_update(frame);
        Self(hash.finalize().into())
    }

    /// A seal from its form in the database.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The seal's form in the database.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An entry and its seal, as people write it down: `NUMBER:SEAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The entry.
    pub seq: Seq,
    /// The entry's seal.
    pub seal: Seal,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.seal)
    }
}

impl FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Self, NotAHead> {
        let (seq, seal) = text.trim().split_once(':').ok_or(NotAHead)?;
        let mut bytes = [0; 32];
        if seal.len() != 64 || !seal.is_ascii() {
            return Err(NotAHead);
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&seal[2 * index..2 * index + 2], 16).map_err(|_| NotAHead)?;
        }
        // "+5" is also a number for the standard library; a head is written in one way only.
        let plain = seq.bytes().all(|byte| byte.is_ascii_digit());
        let seq = seq.parse().ok().filter(|_| plain).ok_or(NotAHead)?;
        let head = Self { seq: Seq(seq), seal: Seal(bytes) };
        if seal.bytes().any(|byte| byte == b'+') { Err(NotAHead) } else { Ok(head) }
    }
}

/// The text is not a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAHead;

impl fmt::Display for NotAHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a head is an entry's number, a colon and 64 hexadecimal digits")
    }
}

impl std::error::Error for NotAHead {}
