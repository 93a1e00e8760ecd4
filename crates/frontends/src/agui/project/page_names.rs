//! What a stream of events knows of the tools of pages.

use std::{fmt, sync::Arc};

use portolan_core::request::Request;

/// What is known of the tools of a page: their names, and which of them the agent may use without anyone being asked.
#[derive(Clone)]
pub struct PageNames {
    name: Arc<Namer>,
    allows: Arc<Allows>,
}

type Namer = dyn Fn(&str) -> Option<String> + Send + Sync;
type Allows = dyn Fn(&Request) -> bool + Send + Sync;

impl PageNames {
    /// `name` gives the page's own name of a tool, where the agent's name of it is that of a page's tool; `allows` says
    /// whether a request is answered by policy.
    pub fn new(
        name: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        allows: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: Arc::new(name), allows: Arc::new(allows) }
    }

    /// Where no page offers anything.
    pub fn none() -> Self {
        Self::new(|_| None, |_| false)
    }

    /// The page's own name of a tool, where the agent's name of it is that of a page's tool.
    pub(super) fn of(&self, name: &str) -> Option<String> {
        (self.name)(name)
    }

    /// Is this request answered by policy?
    pub(super) fn allows(&self, request: &Request) -> bool {
        (self.allows)(request)
    }
}

impl fmt::Debug for PageNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageNames")
    }
}
