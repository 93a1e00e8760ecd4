//! A session: one conversation with one agent, owned by one task.
//!
//! - [`state`]: the state of a session, a fold of its entries
//! - `fold`: how each entry changes it
//! - [`machine`]: pure decisions, what to append and what to tell the agent, for every command and report
//! - `crew`: how many agents run at once, and which of them makes room for another
//! - `marks`: how many of the agent's reports are recorded
//! - `parts`: items that grow without end, in parts
//! - [`open`]: what is open by its name, however much
//! - `reins`: a hold on the agent for when nothing can be recorded
//! - `settle`: how everything left open is closed when an agent or the daemon has ended
//! - `task`: the loop that owns a session

mod chunks;
pub(crate) mod crew;
mod fold;
pub mod machine;
pub(crate) mod marks;
pub mod open;
mod parts;
pub(crate) mod reins;
pub(crate) mod settle;
pub mod state;
pub(crate) mod task;
#[cfg(test)]
mod tests;
