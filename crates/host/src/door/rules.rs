//! Rules of a frontend for its part of a listener: whose pages may come, and how its clients read a refusal.

use serde_json::Value;

use super::{authority::Origin, denied::Denied};

/// What a frontend says about everything below its path.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Origins whose pages may come to it, and to nothing else.
    pub origins: Vec<String>,
    /// Where in the configuration they stand: a page that is refused is told to add its origin there.
    pub setting: &'static str,
    /// The body of a refusal, as the frontend's clients read it.
    pub refusal: fn(&Denied) -> Value,
}

/// The rules that hold below a path.
#[derive(Clone, Debug)]
pub(super) struct Below {
    pub(super) base: &'static str,
    pub(super) origins: Vec<Origin>,
    pub(super) setting: &'static str,
    pub(super) refusal: fn(&Denied) -> Value,
}

impl Below {
    /// Do they hold for this path?
    pub(super) fn covers(&self, path: &str) -> bool {
        path.strip_prefix(self.base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
