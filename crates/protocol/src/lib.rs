//! The native protocol: its frames, the REST bodies, and their schemas. This crate does no I/O: servers and clients
//! share it.
//!
//! A frame is one JSON object per WebSocket text frame. docs/protocol.md specifies the frames.
//!
//! Core makes entries, daemon entries and snapshots once and passes them through; [`LogFrame`] is for readers of those
//! frames. Readers must ignore unknown fields, frame types and enum values: additions are not a new version.

mod client;
mod log;
#[cfg(feature = "schema")]
pub mod schema;
mod server;

pub use client::{
    ArchivePast, Call, ClientFrame, ClientInfo, CreateSession, CreateToken, Greeting, SendCommand,
    SimulateRule, TakeUpPast, TestRule,
};
pub use log::LogFrame;
pub use server::{
    AgentsRunning, BrowserInfo, ClosingReason, Limits, ReplyBody, ServerFrame, ServerInfo, TokenInfo, You,
};

/// The message for a path that does not exist, so that a client can distinguish a wrong path from a missing thing.
pub const NO_SUCH_PATH: &str =
    "this path does not exist; docs/protocol.md and `/openapi.json` list the paths";

/// The version of the protocol. The version changes only when an older client can no longer work.
pub const PROTOCOL: u32 = 1;
