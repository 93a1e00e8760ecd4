//! The native protocol: its frames, the bodies of REST, and their schemas. No I/O: servers and clients share it.
//!
//! Frames: one JSON object per WebSocket text frame. docs/protocol.md specifies them.
//!
//! Entries, daemon entries and snapshots are made by core, once, and passed through; [`LogFrame`] is for those who read
//! them. Readers must ignore fields, frame types and enum values they do not know: additions are not a new version.

mod client;
mod log;
#[cfg(feature = "schema")]
pub mod schema;
mod server;

pub use client::{
    ArchivePast, Call, ClientFrame, ClientInfo, CreateSession, CreateToken, Greeting, SendCommand, TakeUpPast,
};
pub use log::LogFrame;
pub use server::{
    AgentsRunning, BrowserInfo, ClosingReason, Limits, ReplyBody, ServerFrame, ServerInfo, TokenInfo, You,
};

/// What a client is told at a path that does not exist, so that it can tell this from a thing that does not.
pub const NO_SUCH_PATH: &str = "there is nothing here; docs/protocol.md and `/openapi.json` list the paths";

/// The version of the protocol. It changes only when an older client can no longer work.
pub const PROTOCOL: u32 = 1;
