//! The north side: one folder per protocol. They stand on `portolan-host`.

pub mod agui;
pub mod handheld;
pub mod insights;
pub mod native;

#[cfg(feature = "schema")]
pub use native::schema;
