//! The log on disk: engines behind [`portolan_core::ports::Store`].
//!
//! [`SqliteStore`] is the default, [`MemoryStore`] is for tests. Every engine passes the one suite in `contract`;
//! what a write may hold is decided in `rules`, for all of them alike. No engine knows what an entry means.
//!
//! What all engines add to the words of the trait:
//! - A log is there from the first entry, reserved number, chunk, checkpoint, command or copy on; a summary or a
//!   record alone makes none. Trimming forgets entries, never the last number.
//! - A write that can never succeed (a number twice, another session's summary, a copy into a log with entries)
//!   is a bug of its sender. Nothing of it is written, its `done` is dropped without being called, so that whoever
//!   waits on a channel inside it learns of it, the reason is logged and is the store's health until the next
//!   commit, and all other writes go on.
//! - On disk the daemon's log is a chain of hashes: see [`chain`].
//! - A flush also waits until what was deleted has given its room back, so that the size after it is true.

mod memory;
mod rules;
mod sqlite;

#[cfg(test)]
mod contract;

pub use memory::MemoryStore;
pub use sqlite::{
    Durability, SqliteStore,
    chain::{self, Broken, Head, Verified},
};
