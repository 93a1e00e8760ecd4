//! Agents for tests: what an agent is to core, without a process behind it.
//!
//! Every one of them is a [`Puppet`]: a test sets what it says about itself. Its [`Strings`] decide what it does; their
//! holder is the test itself, a scene that reads each prompt (`actor.rs`), or a recorded conversation (`recorded.rs`).

mod actor;
mod moves;
mod puppet;
pub mod recorded;
mod strings;

pub use self::{
    actor::{Cut, Played, Settled},
    moves::{OWN_WORDS, exit, finished, message, permission},
    puppet::{Puppet, Starts},
    recorded::Recording,
    strings::{Strings, Told},
};
