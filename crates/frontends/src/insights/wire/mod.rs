//! The messages of the insights protocol, both ways. They never leave this folder.
//!
//! Six messages of the client and twelve of the server are the protocol's own; the rest, each marked *addition*, are
//! ours. A server's message always has every field, with an explicit `null` for a missing value; only fields that are
//! additions are left out.

mod client;
mod server;

pub use self::{client::*, server::*};
