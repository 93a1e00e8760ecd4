//! Asks an agent something outside of any session, over JSON-RPC: start it, ask it, end it. Its own requests are
//! declined, so that it does not wait; its notifications go to the caller.
//!
//! However it is dropped, nothing of it is left behind.

use std::time::Duration;

use portolan_core::SessionId;
use portolan_wire::{
    jsonrpc::{self, Dialect, Error, Id, Message},
    limits,
    ndjson::{Line, Lines},
};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, ChildStdout},
    runtime::Handle,
    time::timeout,
};

use crate::child::{Child, Pipes, Program};

/// The longest line of an answer. A page of a list is far shorter; a piece of a conversation can be a picture.
const LONGEST: usize = 16 * 1024 * 1024;

/// An agent that is asked.
#[derive(Debug)]
pub(crate) struct Asking {
    agent: String,
    dialect: Dialect,
    /// Present until it is ended.
    child: Option<Child>,
    input: Option<ChildStdin>,
    output: Lines<ChildStdout>,
    asked: i64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The agent refused, with the reason.
    #[error("{}", .0.message)]
    Refused(Box<Error>),
    /// The agent does not answer, or does not run.
    #[error("{0}")]
    Silent(String),
}

/// A message from the agent.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The answer to the request with this id.
    Answer(Id, Result<Value, Error>),
    /// A notification.
    Told {
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
        /// The whole line.
        line: String,
    },
}

impl Asking {
    /// Starts the agent.
    pub(crate) async fn begin(program: Program, home_key: &str, dialect: Dialect) -> Result<Self, Trouble> {
        let agent = program.agent.clone();
        let started = Child::start(program, home_key, SessionId::new()).await;
        let (child, Pipes { input, output }) = started.map_err(|error| Trouble::Silent(error.to_string()))?;
        let output = Lines::new(output, LONGEST);
        Ok(Self { agent, dialect, child: Some(child), input: Some(input), output, asked: 0 })
    }

    /// Ends the agent: it gets this long to end by itself after its input is closed, and then everything is killed.
    pub(crate) async fn end(mut self, within: Duration) {
        drop(self.input.take());
        if let Some(child) = &self.child {
            // Whether and how it ends by itself does not matter. If this future is dropped meanwhile, the drop below
            // ends the agent.
            let _ = timeout(within, child.ended()).await;
        }
        if let Some(child) = self.child.take() {
            // On its own task, which ends everything that the agent started even if nobody waits for it.
            let _ = tokio::spawn(async move { child.end(vec![]).await }).await;
        }
    }

    /// Sends a request; returns the id of its answer.
    pub(crate) async fn send(&mut self, method: &str, params: Option<Value>) -> Result<Id, Trouble> {
        self.asked += 1;
        let id = Id::Number(self.asked);
        let message = self.dialect.request(&id, method, params);
        self.write(&message).await?;
        Ok(id)
    }

    /// Sends a request, and ignores everything that is not the answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        params: Value,
        patience: Duration,
    ) -> Result<Value, Trouble> {
        let agent = self.agent.clone();
        let answered = async {
            let wanted = self.send(method, Some(params)).await?;
            loop {
                if let Heard::Answer(id, answer) = self.next().await?
                    && id == wanted
                {
                    return answer.map_err(|error| Trouble::Refused(Box::new(error)));
                }
            }
        };
        let seconds = patience.as_secs_f32();
        timeout(patience, answered).await.unwrap_or_else(|_| {
            Err(Trouble::Silent(format!("agent `{agent}` did not answer `{method}` within {seconds} s")))
        })
    }

    /// The next message. Waits for as long as it takes. Unreadable lines are ignored.
    pub(crate) async fn next(&mut self) -> Result<Heard, Trouble> {
        loop {
            let Ok(Some(line)) = self.output.next_line().await else {
                let ended = format!("agent `{}` ended before it answered", self.agent);
                return Err(Trouble::Silent(ended));
            };
            let Line::Text(line) = line else { continue };
            if limits::check_depth(line.as_bytes(), limits::MAX_DEPTH).is_err() {
                continue;
            }
            let open = |raw: Option<&serde_json::value::RawValue>| {
                raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
            };
            let declined = match jsonrpc::read(line) {
                Ok(Message::Response { id, result }) => return Ok(Heard::Answer(id, result.map(open))),
                Ok(Message::Notification { method, params }) => {
                    let (params, line) = (open(params), line.to_owned());
                    return Ok(Heard::Told { method, params, line });
                }
                Ok(Message::Request { id, .. }) => {
                    self.dialect.error(&id, Error::METHOD_NOT_FOUND, "requests are not supported here")
                }
                Err(_) => continue,
            };
            self.write(&declined).await?;
        }
    }

    /// Writes a message.
    pub(crate) async fn write(&mut self, message: &Value) -> Result<(), Trouble> {
        let lost = |error| Trouble::Silent(format!("agent `{}` cannot be asked: {error}", self.agent));
        let Some(input) = &mut self.input else { return Ok(()) };
        input.write_all(format!("{message}\n").as_bytes()).await.map_err(lost)?;
        input.flush().await.map_err(lost)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let (Some(child), Ok(runtime)) = (self.child.take(), Handle::try_current()) {
            runtime.spawn(async move { child.end(vec![]).await });
        }
    }
}
