//! What the tests of all agents share: pinned programs from npm, a listener for agents that dial in, the page.

pub(crate) mod listener;
pub(crate) mod npm;
pub(crate) mod page;
