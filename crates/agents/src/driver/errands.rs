//! Errands: what an agent wants done by us, and a translator cannot do, for it holds no files and no processes. A [`Desk`]
//! does it meanwhile, and the translator is told what came of it.

use std::{collections::HashMap, fmt};

use portolan_core::ports::Boxed;
use portolan_wire::jsonrpc::Error;
use serde_json::Value;
use tokio::task::{Id, JoinSet};

/// Errands of one agent that may be under way at once. Some wait for a process to end; an agent with more of them than
/// this does not wait for answers.
pub const MAX_ERRANDS: usize = 64;

/// Something to be done for the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Errand {
    /// Under which name the translator knows it.
    pub key: String,
    /// What, by the agent's own word for it.
    pub method: String,
    /// With what.
    pub params: Value,
}

/// What came of one.
pub type Done = Result<Value, Error>;

/// Where errands are done.
pub trait Desk: fmt::Debug + Send {
    /// Begins one. What is returned does not borrow the desk: several go on at once.
    fn begin(&mut self, method: &str, params: Value) -> Boxed<'static, Done>;

    /// The agent has ended: ends what is left of it.
    fn close(self: Box<Self>) -> Boxed<'static, ()>;
}

/// The errands of one agent.
#[derive(Debug, Default)]
pub(super) struct Errands {
    desk: Option<Box<dyn Desk>>,
    under_way: JoinSet<Done>,
    keys: HashMap<Id, String>,
}

impl Errands {
    pub(super) fn at(desk: Option<Box<dyn Desk>>) -> Self {
        Self { desk, ..Self::default() }
    }

    /// Begins one; says why where it cannot.
    pub(super) fn begin(&mut self, errand: Errand) -> Result<(), Box<Error>> {
        let Errand { key, method, params } = errand;
        let fault = |code, message: &str| Err(Box::new(Error { code, message: message.into(), data: None }));
        let Some(desk) = &mut self.desk else {
            return fault(Error::METHOD_NOT_FOUND, "nothing is done for this agent");
        };
        if self.under_way.len() >= MAX_ERRANDS {
            return fault(Error::INTERNAL, "too much is being done for this agent already");
        }
        let task = self.under_way.spawn(desk.begin(&method, params));
        self.keys.insert(task.id(), key);
        Ok(())
    }

    pub(super) fn any(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The next that is done. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<(String, Done)> {
        let (id, done) = match self.under_way.join_next_with_id().await? {
            Ok(done) => done,
            Err(error) => {
                let message = "a fault of ours in doing it".to_owned();
                (error.id(), Err(Error { code: Error::INTERNAL, message, data: None }))
            }
        };
        Some((self.keys.remove(&id)?, done))
    }

    /// The agent has ended.
    pub(super) async fn close(&mut self) {
        // Waited for: one that is just starting a command would else leave it behind the desk's back.
        self.under_way.shutdown().await;
        if let Some(desk) = self.desk.take() {
            desk.close().await;
        }
    }
}
