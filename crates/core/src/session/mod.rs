//! A session: one conversation with one agent, owned by one task.
//!
//! - [`state`]: the state of a session, a fold of its entries
//! - `fold`: how each entry changes the state
//! - [`machine`]: pure decisions for every command and report: what to append and which instructions to send
//! - `crew`: how many agents run at once, and which one makes room for another
//! - `marks`: how many of the agent's reports are recorded
//! - `parts`: items that grow without end, in parts
//! - [`open`]: the open things by name, however many
//! - `stop_handle`: control of the agent while nothing can be recorded
//! - `settle`: how everything left open is closed when an agent or the daemon has ended
//! - `task`: the loop that owns a session

mod chunks;
pub(crate) mod crew;
mod fold;
pub mod machine;
pub(crate) mod marks;
pub mod open;
mod parts;
pub(crate) mod settle;
pub mod spending;
pub mod state;
pub(crate) mod stop_handle;
pub(crate) mod task;
#[cfg(test)]
mod tests;
