//! What the tests of all agents share: a listener for agents that dial in, the page.

pub(crate) mod listener;
pub(crate) mod page;
