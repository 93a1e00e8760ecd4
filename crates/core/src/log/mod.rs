//! The log: one writer, any number of cursors.

pub mod delivery;
