//! Secrets: 256 random bits as text, and the digest, which is all that is kept of them.
//!
//! A secret never appears in a log: its `Debug` is masked, and [`mask`] hides secrets in other text.

use std::{borrow::Cow, fmt};

use portolan_core::{Refusal, RefusalCode};
use serde::{Deserialize, Serialize, de::Error as _};
use sha2::Digest as _;
use subtle::{Choice, ConstantTimeEq};

/// The number of random bytes in a secret: too many to guess, so that a fast hash without a salt is enough.
const BYTES: usize = 32;

/// The kind of a secret; the secret begins with these characters, so that people and scanners recognise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A token: `ptl_`.
    Token,
    /// A one-time ticket: `ptt_`.
    Ticket,
    /// A browser's cookie: `ptc_`.
    Cookie,
    /// A browser's key: `ptk_`.
    Key,
    /// An agent's secret for the tools of a page: `ptp_`.
    PageTools,
}

impl SecretKind {
    const ALL: [Self; 5] = [Self::Token, Self::Ticket, Self::Cookie, Self::Key, Self::PageTools];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Token => "ptl_",
            Self::Ticket => "ptt_",
            Self::Cookie => "ptc_",
            Self::Key => "ptk_",
            Self::PageTools => "ptp_",
        }
    }
}

/// A secret in clear text. Given out once, then forgotten.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new secret.
    pub fn random(kind: SecretKind) -> Result<Self, Refusal> {
        let mut bytes = [0_u8; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            Refusal::new(RefusalCode::Internal, format!("the system gave no random numbers: {error}"))
        })?;
        Ok(Self(format!("{}{}", kind.prefix(), hex(&bytes))))
    }

    /// Reads a secret of this kind; `None` if the text cannot be one.
    pub fn parse(kind: SecretKind, text: &str) -> Option<Self> {
        let rest = text.strip_prefix(kind.prefix())?;
        let fits = rest.len() == 2 * BYTES && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| Self(text.to_owned()))
    }

    /// A text that a client sent, whatever it looks like.
    pub fn sent(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The digest, which is all that is kept.
    pub fn digest(&self) -> Digest {
        Digest(sha2::Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// SHA-256 of a secret. Compared in constant time only.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Whether both are equal, in a time that does not depend on where they differ.
    pub fn same(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }

    /// As text.
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0_u8; 32];
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(***)")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| D::Error::custom("a digest has 64 hexadecimal digits"))
    }
}

/// The text with everything that could be one of our secrets hidden. For paths and other text in logs.
pub fn mask(text: &str) -> Cow<'_, str> {
    let first = |text: &str| SecretKind::ALL.iter().filter_map(|kind| text.find(kind.prefix())).min();
    let Some(mut start) = first(text) else { return Cow::Borrowed(text) };
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (before, secret) = rest.split_at(start);
        let (prefix, tail) = secret.split_at(4);
        masked.push_str(before);
        masked.push_str(prefix);
        masked.push_str("***");
        rest = tail.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        match first(rest) {
            Some(next) => start = next,
            None => break,
        }
    }
    masked.push_str(rest);
    Cow::Owned(masked)
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_back_and_its_digest_survives_json() {
        let secret = Secret::random(SecretKind::Token).unwrap();
        let again = Secret::parse(SecretKind::Token, secret.expose()).unwrap();
        let digest: Digest = serde_json::from_str(&serde_json::to_string(&again.digest()).unwrap()).unwrap();
        assert!(bool::from(digest.same(&secret.digest())));
        assert_eq!(secret.expose().len(), 4 + 64);
        assert!(Secret::parse(SecretKind::Ticket, secret.expose()).is_none());
        assert!(Secret::parse(SecretKind::Token, "ptl_short").is_none());
    }

    #[test]
    fn neither_debug_nor_a_masked_text_shows_a_secret() {
        let secret = Secret::random(SecretKind::Key).unwrap();
        assert_eq!(format!("{secret:?}{:?}", secret.digest()), "Secret(***)Digest(***)");
        let text = format!("/a/{}/b ptt_{}é", secret.expose(), "0".repeat(64));
        assert_eq!(mask(&text), "/a/ptk_***/b ptt_***é");
        assert_eq!(mask("/api/v1/sessions"), "/api/v1/sessions");
    }
}
