//! What the terminal client shows and what its keys mean. Pure: takes entries and keys, returns lines and wishes; uses
//! no terminal, no connection, no clock. `commands::attach` does the rest.
//!
//! - [`beyond`]: the fields of an input that its diffs do not show
//! - [`clean`]: makes an agent's text safe to print
//! - [`style`], [`flow`], [`diff`]: lines
//! - [`transcript`]: entries to lines, each text printed once
//! - [`remarks`]: entries that become one line
//! - [`requests`]: open requests, and their outcomes
//! - [`status`]: the status line
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
