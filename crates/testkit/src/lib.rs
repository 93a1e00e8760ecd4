//! Development only: what the tests of several crates share.

pub mod agents;
pub mod armed;
pub mod daemon;
pub mod handheld;
pub mod instructions;
pub mod npm;
pub mod replay;
pub mod sessions;
pub mod terminal;
