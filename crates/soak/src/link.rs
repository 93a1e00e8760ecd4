//! A connection whose frames are only parsed as JSON: a faulty server must be able to show its faults.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use portolan_client::{Address, Attempt, Connection, Token};
use portolan_protocol::ClientInfo;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::record::{DAEMON, Entry};

/// How long a reply may take before it counts as missing. Far longer than it should, so that a busy machine fails no
/// test.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// How many frames may come before the answer to a call.
const SET_ASIDE: usize = 1_000_000;

/// The address of a daemon, and a token for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// `127.0.0.1:1234`.
    pub address: String,
    /// A token's secret.
    pub token: String,
}

/// A received frame.
#[derive(Clone, Debug)]
pub enum Frame {
    /// An entry of a session or of the daemon.
    Entry {
        /// The session's id, or [`DAEMON`].
        log: String,
        /// The entry.
        entry: Entry,
    },
    /// A snapshot of a log.
    Snapshot {
        /// The session's id, or [`DAEMON`].
        log: String,
        /// The last entry in the snapshot.
        seq: u64,
        /// The state.
        state: Value,
    },
    /// The answer to our frame.
    Reply {
        /// The id of our frame.
        id: String,
        /// The whole answer.
        body: Value,
    },
    /// The refusal of our frame.
    Error {
        /// The id of our frame.
        id: String,
        /// The whole answer.
        body: Value,
    },
    /// Anything else.
    Other(Value),
}

/// A connection. Dropping it disconnects without a close frame.
#[derive(Debug)]
pub struct Link {
    connection: Connection,
    aside: std::collections::VecDeque<Frame>,
}

/// How a client connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// The size of the kernel's buffer for unread bytes.
    pub receive_buffer: Option<u32>,
}

impl Link {
    /// Connects and greets.
    pub async fn open(door: &Door, name: &str) -> Result<Self> {
        Self::open_as(door, name, Manner::default()).await
    }

    /// The same, with these options.
    pub async fn open_as(door: &Door, name: &str, manner: Manner) -> Result<Self> {
        let (url, token) = (format!("http://{}", door.address), Token::new(&door.token));
        let address = Address::Url { url, token, ca_file: None, receive_buffer: manner.receive_buffer };
        let client = ClientInfo { name: name.to_owned(), version: "0".to_owned() };
        let connection = Connection::open(&address, client, Attempt::First).await?;
        Ok(Self { connection, aside: std::collections::VecDeque::new() })
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &Value) -> Result<()> {
        Ok(self.connection.send(frame).await?)
    }

    /// The next frame. Cancel-safe.
    pub async fn next(&mut self) -> Result<Frame> {
        match self.aside.pop_front() {
            Some(frame) => Ok(frame),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Frame> {
        parse(&self.connection.next().await?)
    }

    /// Sends a frame under a new id and waits for its answer. Other frames are kept for [`Link::next`].
    pub async fn call(&mut self, mut frame: Value) -> Result<Value> {
        // An id is valid for all connections of a token, and across restarts of the daemon.
        static CALLS: AtomicU64 = AtomicU64::new(0);
        frame["id"] = json!(format!("call-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed)));
        self.ask(frame).await
    }

    /// The same for a frame that has an id.
    pub async fn ask(&mut self, frame: Value) -> Result<Value> {
        let own = frame["id"].as_str().unwrap_or_default().to_owned();
        self.send(&frame).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let read = timeout_at(deadline, self.read()).await;
            match read.with_context(|| format!("no answer to {frame}"))?? {
                Frame::Reply { id, body } if id == own => return Ok(body),
                Frame::Error { id, body } if id == own => bail!("refused: {body}"),
                other if self.aside.len() < SET_ASIDE => self.aside.push_back(other),
                _ => bail!("{SET_ASIDE} frames came, but no answer to {frame}"),
            }
        }
    }

    /// Waits for a frame that `wanted` accepts.
    pub async fn until<T>(&mut self, what: &str, wanted: impl FnMut(&Frame) -> Option<T>) -> Result<T> {
        self.until_within(PATIENCE, what, wanted).await
    }

    /// The same, with this timeout.
    pub async fn until_within<T>(
        &mut self,
        patience: Duration,
        what: &str,
        mut wanted: impl FnMut(&Frame) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + patience;
        loop {
            let frame = timeout_at(deadline, self.next()).await;
            let frame = frame.with_context(|| format!("{what} did not come"))??;
            if let Some(found) = wanted(&frame) {
                return Ok(found);
            }
        }
    }

    /// Creates a session of the demo agent in this folder.
    pub async fn create(&mut self, agent: &str, folder: &std::path::Path) -> Result<String> {
        let spec = json!({ "agent": agent, "cwd": folder });
        let reply = self.call(json!({ "type": "create", "spec": spec })).await?;
        Ok(reply["session"]["session"].as_str().context("a session without an id")?.to_owned())
    }

    /// Sends a command to a session.
    pub async fn command(&mut self, session: &str, command: Value) -> Result<Value> {
        self.call(json!({ "type": "command", "session": session, "command": command })).await
    }

    /// Sends a prompt to a session.
    pub async fn prompt(&mut self, session: &str, text: &str) -> Result<Value> {
        self.command(session, prompt(text)).await
    }

    /// Joins a session after this number.
    pub async fn attach(&mut self, session: &str, after: u64) -> Result<()> {
        let start = json!({ "after": after });
        self.call(json!({ "type": "attach", "session": session, "start": start })).await.map(drop)
    }

    /// The state of a session.
    pub async fn state(&mut self, session: &str) -> Result<Value> {
        Ok(self.call(json!({ "type": "state", "session": session })).await?["state"].take())
    }

    /// Waits until the state of a session is as wanted.
    pub async fn until_state(
        &mut self,
        session: &str,
        what: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.state(session).await?;
            if wanted(&state) {
                return Ok(state);
            }
            if Instant::now() > deadline {
                bail!("{what} did not come: {state}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The action of a prompt with this text.
pub fn prompt(text: &str) -> Value {
    json!({ "name": "prompt", "content": [{ "type": "text", "text": text }] })
}

/// The history of a session (or of the daemon), as a new client gets it: every durable entry up to now.
pub async fn history(door: &Door, log: &str) -> Result<Vec<Entry>> {
    let mut link = Link::open(door, "historian").await?;
    let start = json!({ "after": 0 });
    let ask = if log == DAEMON {
        json!({ "type": "subscribe", "start": start })
    } else {
        json!({ "type": "attach", "session": log, "start": start })
    };
    link.call(ask).await?;
    let mut entries = Vec::new();
    link.until("the end of the history", |frame| match frame {
        Frame::Entry { entry, .. } => {
            entries.push(entry.clone());
            None
        }
        Frame::Snapshot { .. } => Some(()),
        _ => None,
    })
    .await?;
    Ok(entries)
}

fn parse(text: &str) -> Result<Frame> {
    let frame: Value = serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?;
    let id = || frame["id"].as_str().unwrap_or_default().to_owned();
    let log = || frame["session"].as_str().unwrap_or(DAEMON).to_owned();
    Ok(match frame["type"].as_str().unwrap_or_default() {
        "entry" | "daemon" => {
            let entry = Entry::read(text, &frame).with_context(|| format!("not an entry: {text}"))?;
            Frame::Entry { log: log(), entry }
        }
        "snapshot" | "daemon_snapshot" => {
            let seq = frame["seq"].as_u64().context("a snapshot without a number")?;
            Frame::Snapshot { log: log(), seq, state: frame["state"].clone() }
        }
        "reply" => Frame::Reply { id: id(), body: frame },
        "error" => Frame::Error { id: id(), body: frame },
        _ => Frame::Other(frame),
    })
}
