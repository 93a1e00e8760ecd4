//! Asking an agent something outside of any session, over JSON-RPC: started, asked, ended. What it asks meanwhile is
//! declined, so that it does not wait; what it tells is for whoever wants it.
//!
//! However it is let go of, nothing of it is left behind.

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

/// The longest line that is read of an answer. A page of a list is far shorter; a piece of a conversation can be a picture.
const LONGEST: usize = 16 * 1024 * 1024;

/// An agent that is asked.
#[derive(Debug)]
pub(crate) struct Asking {
    agent: String,
    dialect: Dialect,
    /// There until it is ended.
    child: Option<Child>,
    input: Option<ChildStdin>,
    output: Lines<ChildStdout>,
    asked: i64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The agent says why.
    #[error("{}", .0.message)]
    Refused(Box<Error>),
    /// It says nothing, or is not there.
    #[error("{0}")]
    Silent(String),
}

/// What was heard of it.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The answer to what was asked under this id.
    Answer(Id, Result<Value, Error>),
    /// Something that it tells.
    Told {
        /// What.
        method: String,
        /// With what.
        params: Value,
        /// All of it as it came.
        line: String,
    },
}

impl Asking {
    /// Starts it.
    pub(crate) async fn begin(program: Program, home_key: &str, dialect: Dialect) -> Result<Self, Trouble> {
        let agent = program.agent.clone();
        let started = Child::start(program, home_key, SessionId::new()).await;
        let (child, Pipes { input, output }) = started.map_err(|error| Trouble::Silent(error.to_string()))?;
        let output = Lines::new(output, LONGEST);
        Ok(Self { agent, dialect, child: Some(child), input: Some(input), output, asked: 0 })
    }

    /// Ends it: it is given this long to go by itself once its input is closed, and then all of it is killed.
    pub(crate) async fn end(mut self, within: Duration) {
        drop(self.input.take());
        if let Some(child) = &self.child {
            // Whether it goes by itself, and how, does not matter. Let go of meanwhile, it is ended by the drop below.
            let _ = timeout(within, child.ended()).await;
        }
        if let Some(child) = self.child.take() {
            // On a task of its own, which ends what the agent started even where nobody waits for it.
            let _ = tokio::spawn(async move { child.end(vec![]).await }).await;
        }
    }

    /// Asks; gives the id that the answer will have.
    pub(crate) async fn send(&mut self, method: &str, params: Option<Value>) -> Result<Id, Trouble> {
        self.asked += 1;
        let id = Id::Number(self.asked);
        let message = self.dialect.request(&id, method, params);
        self.write(&message).await?;
        Ok(id)
    }

    /// Asks, and passes over everything that is not the answer.
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

    /// What it says next. Waits for as long as that takes. What cannot be read is passed over.
    pub(crate) async fn next(&mut self) -> Result<Heard, Trouble> {
        loop {
            let Ok(Some(line)) = self.output.next_line().await else {
                let ended = format!("agent `{}` ended before it had answered", self.agent);
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
                    self.dialect.error(&id, Error::METHOD_NOT_FOUND, "nothing is done here: it is only asked")
                }
                Err(_) => continue,
            };
            self.write(&declined).await?;
        }
    }

    /// Writes a message.
    pub(crate) async fn write(&mut self, message: &Value) -> Result<(), Trouble> {
        let lost = |error| Trouble::Silent(format!("agent `{}` takes no question: {error}", self.agent));
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
