//! A session: one conversation with one agent, owned by one task.

pub mod state;
