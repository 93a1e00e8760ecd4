//! The north side: one folder per protocol, and the one door they share.

pub mod agui;
pub mod door;
pub mod handheld;
pub mod insights;
pub mod native;
mod sse;

#[cfg(feature = "schema")]
pub use native::schema;
