//! How strangers are admitted to a frontend on a listener, other than by a token in the request.

use std::{fmt, sync::Arc};

use http::request::Parts;

use super::rules::Rules;

/// Some paths of a listener.
pub type Paths = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Checks whether a request shows a frontend's own secret instead of a token, such as an agent's secret for the tools
/// of a page.
pub type SecretCheck = Arc<dyn Fn(&Parts) -> SecretVerdict + Send + Sync>;

/// The result of checking a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretVerdict {
    /// The request is about something else.
    NotMine,
    /// The request shows the right secret.
    Right,
    /// The request shows a wrong secret, or none.
    Wrong,
}

/// On a request that showed the right secret of a frontend. The secret gives access only to that frontend's own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBySecret;

/// One exception from "a token in the request".
#[derive(Clone)]
pub enum Admit {
    /// Everyone may read these paths, such as the static files of the page.
    Open(Paths),
    /// A WebSocket may connect to these paths before it has shown a token: the frontend asks for the token, and lets
    /// the WebSocket do nothing until [`AccessCheck::introduce`](super::AccessCheck::introduce) knows it.
    Late(Paths),
    /// Requests that show the frontend's own secret. A wrong secret is refused.
    Secret(SecretCheck),
    /// Everything below this path has its own rules: whose pages are allowed there, and the form of refusals.
    Below(&'static str, Rules),
}

impl Admit {
    /// Everyone may read these paths.
    pub fn open(paths: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::Open(Arc::new(paths))
    }

    /// A WebSocket may connect to these paths before it has shown a token.
    pub fn late(paths: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::Late(Arc::new(paths))
    }

    /// Requests that show the frontend's own secret.
    pub fn secret(check: impl Fn(&Parts) -> SecretVerdict + Send + Sync + 'static) -> Self {
        Self::Secret(Arc::new(check))
    }

    /// The origins whose pages this admits.
    pub fn origins(&self) -> &[String] {
        match self {
            Self::Below(_, rules) => &rules.origins,
            Self::Open(_) | Self::Late(_) | Self::Secret(_) => &[],
        }
    }
}

impl fmt::Debug for Admit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(_) => f.write_str("Open"),
            Self::Late(_) => f.write_str("Late"),
            Self::Secret(_) => f.write_str("Secret"),
            Self::Below(base, rules) => f.debug_tuple("Below").field(base).field(rules).finish(),
        }
    }
}
