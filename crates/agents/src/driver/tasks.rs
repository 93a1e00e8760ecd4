//! Tasks: work that an agent wants Portolan to do and that a translator cannot do, because it has no files and no
//! processes. A [`Desk`] does it in parallel, and the translator gets the result.

use std::{collections::HashMap, fmt};

use portolan_core::ports::Boxed;
use portolan_wire::jsonrpc::Error;
use serde_json::Value;
use tokio::task::{Id, JoinSet};

/// Tasks of one agent that may run at once. Some wait for a process to end; an agent with more tasks does not wait
/// for answers.
pub const MAX_TASKS: usize = 64;

/// Work for the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverTask {
    /// The translator's key for it.
    pub key: String,
    /// The agent's own name for it.
    pub method: String,
    /// The parameters.
    pub params: Value,
}

/// The result of a task.
pub type Done = Result<Value, Error>;

/// The place where tasks are done.
pub trait Desk: fmt::Debug + Send {
    /// Begins a task. The future does not borrow the desk: several tasks run at once.
    fn begin(&mut self, method: &str, params: Value) -> Boxed<'static, Done>;

    /// The agent has ended: ends everything that is left.
    fn close(self: Box<Self>) -> Boxed<'static, ()>;
}

/// The tasks of one agent.
#[derive(Debug, Default)]
pub(super) struct DriverTasks {
    desk: Option<Box<dyn Desk>>,
    under_way: JoinSet<Done>,
    keys: HashMap<Id, String>,
}

impl DriverTasks {
    pub(super) fn at(desk: Option<Box<dyn Desk>>) -> Self {
        Self { desk, ..Self::default() }
    }

    /// Begins a task, or returns why it cannot.
    pub(super) fn begin(&mut self, task: DriverTask) -> Result<(), Box<Error>> {
        let DriverTask { key, method, params } = task;
        let fault = |code, message: &str| Err(Box::new(Error { code, message: message.into(), data: None }));
        let Some(desk) = &mut self.desk else {
            return fault(Error::METHOD_NOT_FOUND, "requests of this agent are not supported");
        };
        if self.under_way.len() >= MAX_TASKS {
            return fault(Error::INTERNAL, "too many requests of this agent are in progress");
        }
        let task = self.under_way.spawn(desk.begin(&method, params));
        self.keys.insert(task.id(), key);
        Ok(())
    }

    pub(super) fn any(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The next finished task. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<(String, Done)> {
        let (id, done) = match self.under_way.join_next_with_id().await? {
            Ok(done) => done,
            Err(error) => {
                let message = "internal error while handling the request".to_owned();
                (error.id(), Err(Error { code: Error::INTERNAL, message, data: None }))
            }
        };
        Some((self.keys.remove(&id)?, done))
    }

    /// The agent has ended.
    pub(super) async fn close(&mut self) {
        // Awaited: otherwise a task that is just starting a command leaves that command unknown to the desk.
        self.under_way.shutdown().await;
        if let Some(desk) = self.desk.take() {
            desk.close().await;
        }
    }
}
