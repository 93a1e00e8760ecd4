//! The tools of pages, as a stream of events knows them.

use std::{fmt, sync::Arc};

use portolan_core::request::Request;

/// The tools of a page: their names, and which of them the agent may use without asking.
#[derive(Clone)]
pub struct PageNames {
    name: Arc<Namer>,
    allows: Arc<Allows>,
}

type Namer = dyn Fn(&str) -> Option<String> + Send + Sync;
type Allows = dyn Fn(&Request) -> bool + Send + Sync;

impl PageNames {
    /// `name` returns the page's own name of a tool, if the agent's name is that of a page's tool; `allows` says
    /// whether policy answers a request.
    pub fn new(
        name: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        allows: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: Arc::new(name), allows: Arc::new(allows) }
    }

    /// For a session without page tools.
    pub fn none() -> Self {
        Self::new(|_| None, |_| false)
    }

    /// The page's own name of a tool, if the agent's name is that of a page's tool.
    pub(super) fn of(&self, name: &str) -> Option<String> {
        (self.name)(name)
    }

    /// Does policy answer this request?
    pub(super) fn allows(&self, request: &Request) -> bool {
        (self.allows)(request)
    }
}

impl fmt::Debug for PageNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageNames")
    }
}
