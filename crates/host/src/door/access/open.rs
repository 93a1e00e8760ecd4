//! The check of paths: what everyone may read without a token.

use std::fmt;

use http::{Method, request::Parts};

use super::{HEALTH_PATH, LOGIN_PATH};
use crate::door::admit::Paths;

/// The paths that are open to everyone.
#[derive(Clone, Default)]
pub(super) struct OpenPaths(Vec<Paths>);

impl OpenPaths {
    pub(super) fn add(&mut self, paths: Paths) {
        self.0.push(paths);
    }

    /// Whether this request is for something that is open to everyone.
    pub(super) fn cover(&self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        match parts.method {
            Method::GET | Method::HEAD => path == HEALTH_PATH || self.0.iter().any(|open| open(path)),
            Method::POST => path == LOGIN_PATH,
            _ => false,
        }
    }
}

impl fmt::Debug for OpenPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenPaths").field(&self.0.len()).finish()
    }
}
