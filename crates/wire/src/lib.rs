//! Framing for both sides of Portolan, and nothing else: where one message ends and the next begins, and how large a
//! message may be.
//!
//! Knows bytes, lines, limits, the envelope of JSON-RPC and the frames of WebSocket. Knows no message of any protocol
//! and no session, and opens no socket.

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod jsonrpc;
pub mod limits;
pub mod ndjson;
pub mod sse;
pub mod websocket;
