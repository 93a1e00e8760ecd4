//! The tools of pages, as a stream of events knows them.

use std::{fmt, sync::Arc};

/// The names of a page's tools.
#[derive(Clone)]
pub struct PageNames {
    name: Arc<Namer>,
}

type Namer = dyn Fn(&str) -> Option<String> + Send + Sync;

impl PageNames {
    /// `name` returns the page's own name of a tool, if the agent's name is that of a page's tool.
    pub fn new(name: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { name: Arc::new(name) }
    }

    /// For a session without page tools.
    pub fn none() -> Self {
        Self::new(|_| None)
    }

    /// The page's own name of a tool, if the agent's name is that of a page's tool.
    pub(super) fn of(&self, name: &str) -> Option<String> {
        (self.name)(name)
    }
}

impl fmt::Debug for PageNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageNames")
    }
}
