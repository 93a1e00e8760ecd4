//! What the terminal client shows and what its keys mean. Pure: entries and keys in, lines and wishes out; no
//! terminal, no connection, no clock. `commands::attach` does the rest.
//!
//! - [`beyond`]: what of an input its diffs do not show
//! - [`clean`]: makes an agent's text safe to print
//! - [`style`], [`flow`], [`diff`]: lines
//! - [`transcript`]: entries to lines, each text printed once
//! - [`remarks`]: entries that are a line of their own
//! - [`requests`]: what waits for an answer, and how it was answered
//! - [`status`]: the line below everything
//! - [`keys`]: what a key means now

mod beyond;
pub(crate) mod clean;
pub(crate) mod diff;
mod flow;
pub(crate) mod keys;
mod remarks;
pub(crate) mod requests;
pub(crate) mod status;
pub(crate) mod style;
mod tools;
pub(crate) mod transcript;

#[cfg(test)]
mod goldens;
