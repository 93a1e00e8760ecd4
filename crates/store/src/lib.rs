//! The log on disk: engines behind [`portolan_core::ports::Store`].
//!
//! [`SqliteStore`] is the default, [`MemoryStore`] is for tests, and [`Archive`] only reads a database. Every engine passes the one suite in `contract`;
//! `rules` decides what a write may hold, equally for all engines. No engine knows the meaning of an entry.
//!
//! All engines add to the trait:
//! - A log exists from its first entry, reserved number, chunk, checkpoint, command or copy on; a summary or a record
//!   alone creates no log. Trimming forgets entries, never the last number.
//! - A write that can never succeed (a number twice, another session's summary, a copy into a log with entries) is a
//!   bug of its sender. Nothing of it is written, and its `done` is dropped uncalled, so that a waiting channel inside
//!   it is informed. The reason is logged and is the store's health until the next commit, and all other writes
//!   continue.
//! - On disk the daemon's log is a chain of hashes: see [`chain`].
//! - A flush also waits until deleted entries have released their room, so that the size after it is correct.

mod memory;
mod rules;
mod sqlite;

#[cfg(test)]
mod contract;

pub use memory::MemoryStore;
pub use sqlite::{
    Archive, Durability, SqliteStore,
    chain::{self, Broken, Head, Verified},
};
