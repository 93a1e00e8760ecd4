//! Framing for both sides of Portolan, and nothing else: where one message ends and the next begins, and how
//! large one may be.
//!
//! Knows bytes, lines, limits, and the envelope of JSON-RPC. Knows no message of any protocol, no session and no socket.

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod jsonrpc;
pub mod limits;
pub mod ndjson;
pub mod sse;
