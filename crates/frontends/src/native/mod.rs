//! The native protocol: the full surface, by WebSocket and REST.

pub mod wire;
