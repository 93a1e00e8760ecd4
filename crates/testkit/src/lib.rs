//! Development only: what tests of several crates share.

pub mod daemon;
pub mod npm;
pub mod terminal;
