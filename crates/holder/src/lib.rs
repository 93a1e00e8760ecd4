//! Agents outlive the daemon.
//!
//! A *holder* is a process of its own for one running agent. It runs what otherwise runs in the daemon: the agent's
//! driver, translator and child process. A daemon connects to the holder's socket, gives instructions and gets reports.
//! The holder keeps each report until a daemon has recorded it, so that a daemon may end at any moment and the next one
//! goes on. [`hold()`] is the holder's side; [`Held`] is the daemon's side, an agent like any other.
//!
//! This crate knows no agent and no configuration: the program that uses it says how an agent is made from a launch.

mod business;
mod cgroup;
mod connect;
mod frames;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod held;
mod hold;
mod lock;
mod place;
mod relay;
mod run_folder;
mod spool;
#[cfg(test)]
mod tests;
mod tmux;
mod written;

pub use self::{
    cgroup::{Containment, Manager, Service},
    frames::{Linger, PROTOCOL, State, Status},
    held::{Held, Holders, Settings},
    hold::{Hold, HoldError, hold},
    place::Place,
    run_folder::RunFolder,
    written::Written,
};
