//! The middle of Portolan: what happened in a session ([`event`]), what a client asks ([`command`]), the one durable
//! log that holds both ([`log`]), and the task that owns each session ([`session`]).
//!
//! Core knows no sockets, no processes and no foreign protocol. The traits in [`ports`] separate core from its sides:
//! agents to the south, the store below, frontends (which call [`registry`]) to the north.

pub mod access;
pub mod audit;
pub mod capabilities;
pub mod command;
pub mod entry;
pub mod event;
pub mod ids;
pub mod log;
pub mod policy;
pub mod ports;
mod prompt;
pub mod registry;
pub mod request;
pub mod session;
#[cfg(feature = "schema")]
mod shape;
pub mod spec;
pub mod usage;
pub mod way_out;

pub use access::{Actor, Principal, Role};
pub use capabilities::Capabilities;
pub use command::{Action, Refusal, RefusalCode};
pub use entry::{Entry, Stored};
pub use event::{DaemonEvent, Event};
pub use ids::{CommandId, Generation, LogId, Millis, Position, RequestId, Seq, SessionId, TokenId};
pub use spec::SessionSpec;
pub use way_out::WayOut;
