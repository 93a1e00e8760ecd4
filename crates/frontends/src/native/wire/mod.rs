//! The native protocol's frames: one JSON object per WebSocket text frame. docs/protocol.md specifies them.
//!
//! Entries, daemon entries and snapshots are made by core, once, and passed through; [`LogFrame`] is for those who read
//! them. Readers must ignore fields, frame types and enum values they do not know: additions are not a new version.

mod client;
mod log;
mod server;

pub use client::{ArchivePast, ClientFrame, ClientInfo, CreateSession, CreateToken, SendCommand, TakeUpPast};
pub use log::LogFrame;
pub use server::{
    AgentsRunning, BrowserInfo, ClosingReason, Limits, ReplyBody, ServerFrame, ServerInfo, TokenInfo, You,
};

/// The version of the protocol. It changes only when an older client can no longer work.
pub const PROTOCOL: u32 = 1;
