//! Rules of a frontend for its part of a listener: whose pages are allowed, and the form of its refusals.

use serde_json::Value;

use super::{authority::Origin, denied::Denied};

/// A frontend's rules for everything below its path.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Origins whose pages may use these paths, and nothing else.
    pub origins: Vec<String>,
    /// The setting that holds these origins: a refused page is asked to add its origin there.
    pub setting: &'static str,
    /// The body of a refusal, in the form of the frontend's clients.
    pub refusal: fn(&Denied) -> Value,
}

/// The rules below a path.
#[derive(Clone, Debug)]
pub(super) struct Below {
    pub(super) base: &'static str,
    pub(super) origins: Vec<Origin>,
    pub(super) setting: &'static str,
    pub(super) refusal: fn(&Denied) -> Value,
}

impl Below {
    /// Do the rules apply to this path?
    pub(super) fn covers(&self, path: &str) -> bool {
        path.strip_prefix(self.base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
