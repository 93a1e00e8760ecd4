//! How strangers are admitted to what a frontend has on a listener, where a token in the request is not the way.

use std::{fmt, sync::Arc};

use http::request::Parts;

use super::rules::Rules;

/// Some paths of a listener.
pub type Paths = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Checks whether a request shows a secret of a frontend's own instead of a token, such as an agent's to the tools of a page.
pub type SecretCheck = Arc<dyn Fn(&Parts) -> SecretVerdict + Send + Sync>;

/// What the check of a secret finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretVerdict {
    /// The request is about something else.
    NotMine,
    /// The request shows the right secret.
    Right,
    /// The request shows a wrong secret, or none.
    Wrong,
}

/// On a request that showed the right secret of a frontend's own. It opens only what that frontend has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBySecret;

/// One exception from "a token in the request".
#[derive(Clone)]
pub enum Admit {
    /// Anyone may read these paths, such as the static files of the page.
    Open(Paths),
    /// A WebSocket may come to these paths before it has shown a token: the frontend there asks for it, and lets the
    /// WebSocket do nothing until [`AccessCheck::introduce`](super::AccessCheck::introduce) knows it.
    Late(Paths),
    /// Requests that show a secret of the frontend's own. Those that show a wrong one are refused.
    Secret(SecretCheck),
    /// What lies below this path has rules of its own: whose pages may come there, and how refusals read.
    Below(&'static str, Rules),
}

impl Admit {
    /// Anyone may read these paths.
    pub fn open(paths: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::Open(Arc::new(paths))
    }

    /// A WebSocket may come to these paths before it has shown a token.
    pub fn late(paths: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::Late(Arc::new(paths))
    }

    /// Requests that show a secret of the frontend's own.
    pub fn secret(check: impl Fn(&Parts) -> SecretVerdict + Send + Sync + 'static) -> Self {
        Self::Secret(Arc::new(check))
    }

    /// The origins whose pages are let in by this.
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
