//! What reaches the task of a session: its handle, and the messages in its mailbox.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    Refusal, SessionId,
    command::{Command, CommandKey, Receipt},
    log::{Log, delivery::Presence},
    registry::Asked,
    session::{state::State, stop_handle::StopHandle},
};

/// Commands that wait for the session task. A full mailbox means that the task is overloaded; senders are asked to
/// wait.
pub(crate) const MAILBOX: usize = 64;

/// Messages to the task.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Run this command. The answer comes at once; it holds when its entry is visible.
    Command { command: Box<Command>, reply: oneshot::Sender<Result<Receipt, Refusal>> },
    /// Start the agent of a new session.
    Begin,
    /// An accepted prompt comes again: if the daemon's end parked it, start the agent. Without a key, any parked prompt
    /// counts.
    Again { key: Option<CommandKey>, reply: oneshot::Sender<Result<(), Refusal>> },
    /// End the task, and first the agent unless it is to be kept: after the running turn or this time.
    ShutDown { grace: Duration, agents: AgentsAtShutdown, reply: oneshot::Sender<()> },
    /// End the agent and the log.
    Delete { reply: oneshot::Sender<()> },
}

/// An open session.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: SessionId,
    pub(crate) log: Arc<Log<State>>,
    pub(crate) mailbox: mpsc::Sender<Mail>,
    pub(crate) presence: watch::Sender<Arc<Vec<Presence>>>,
    /// Prompts that are held back from the agent, and by how many holders.
    pub(crate) held: watch::Sender<HashMap<CommandKey, u32>>,
    /// Stops and interrupts the agent while nothing can be recorded.
    pub(crate) agent: StopHandle,
    pub(crate) asked: Asked,
}

/// What a shutdown does with running agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentsAtShutdown {
    /// They end.
    End,
    /// Those that outlive the daemon go on; the others end.
    Keep,
}
