//! Asking Codex something outside of any session: a process of its own is started for it and ended after it.

use std::{collections::VecDeque, time::Duration};

use portolan_core::SessionId;
use portolan_wire::{
    jsonrpc::{self, Id, Message},
    ndjson::{Line, Lines, MAX_LINE},
};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStdin, ChildStdout},
};

use super::{probe::Prober, translate::DIALECT, wire};
use crate::child::{Child, Pipes};

/// How long one question may take. A cold start reads a large program from disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to end once its input is closed.
const GOODBYE: Duration = Duration::from_secs(2);

/// What Codex has told meanwhile of what is waited for: one would do.
const MAX_HEARD: usize = 8;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// There is no Codex here.
    NotInstalled(String),
    /// It would not, in its own words.
    Refused(String),
    /// It could not be started, or ended, or was silent for too long.
    Lost(String),
}

/// A process that is asked. Dropped without [`Asking::end`] it is killed.
#[derive(Debug)]
pub(super) struct Asking {
    child: Child,
    input: ChildStdin,
    output: Lines<ChildStdout>,
    asked: i64,
    /// The notification that may be waited for, and what it told before anyone did.
    listens_for: &'static str,
    heard: VecDeque<Value>,
}

impl Asking {
    pub(super) async fn begin(prober: &Prober) -> Result<Self, Unanswered> {
        Self::begin_listening(prober, "").await
    }

    /// One of whose notifications may be waited for by [`Asking::hear`].
    pub(super) async fn begin_listening(
        prober: &Prober,
        listens_for: &'static str,
    ) -> Result<Self, Unanswered> {
        prober.program().map_err(Unanswered::NotInstalled)?;
        let (program, home_key) = prober.app_server().await.map_err(Unanswered::Lost)?;
        let started = Child::start(program, &home_key, SessionId::new()).await;
        let (child, Pipes { input, output }) =
            started.map_err(|error| Unanswered::Lost(error.to_string()))?;
        let (output, heard) = (Lines::new(output, MAX_LINE), VecDeque::new());
        let mut asking = Self { child, input, output, asked: 0, listens_for, heard };
        let client = json!({ "name": "portolan", "title": "Portolan", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } });
        let begun = asking.ask("initialize", Some(params)).await;
        if let Err(error) = begun {
            asking.end().await;
            return Err(error);
        }
        asking.write(&DIALECT.notification("initialized", None)).await?;
        Ok(asking)
    }

    pub(super) async fn end(self) {
        drop(self.input);
        // It ends with its input; what does not is killed with all it started.
        let _ = tokio::time::timeout(GOODBYE, self.child.ended()).await;
        let _ = self.child.end(vec![]).await;
    }

    async fn write(&mut self, message: &Value) -> Result<(), Unanswered> {
        let lost = |error| Unanswered::Lost(format!("codex takes no question: {error}"));
        self.input.write_all(format!("{message}\n").as_bytes()).await.map_err(lost)?;
        self.input.flush().await.map_err(lost)
    }

    /// Asks, and passes over everything that is not the answer, but for what is listened for.
    pub(super) async fn ask(&mut self, method: &str, params: Option<Value>) -> Result<Value, Unanswered> {
        let silent = || Unanswered::Lost(format!("codex did not answer `{method}` in time"));
        tokio::time::timeout(PATIENCE, self.answer_to(method, params)).await.map_err(|_| silent())?
    }

    async fn answer_to(&mut self, method: &str, params: Option<Value>) -> Result<Value, Unanswered> {
        self.asked += 1;
        let wanted = Id::Number(self.asked);
        self.write(&DIALECT.request(&wanted, method, params)).await?;
        loop {
            match self.next(method).await? {
                Said::Answer(id, result) if id == wanted => return result.map_err(Unanswered::Refused),
                Said::Heard(told) if self.heard.len() < MAX_HEARD => self.heard.push_back(told),
                _ => {}
            }
        }
    }

    /// Waits for what is listened for, however long that takes: whoever waits knows how long that may be.
    pub(super) async fn hear(&mut self) -> Result<Value, Unanswered> {
        loop {
            if let Some(told) = self.heard.pop_front() {
                return Ok(told);
            }
            if let Said::Heard(told) = self.next(self.listens_for).await? {
                self.heard.push_back(told);
            }
        }
    }

    async fn next(&mut self, waits_for: &str) -> Result<Said, Unanswered> {
        let line = self.output.next_line().await;
        let Ok(Some(line)) = line else {
            return Err(Unanswered::Lost(format!("codex ended before it told `{waits_for}`")));
        };
        let Line::Text(line) = line else { return Ok(Said::Else) };
        Ok(match jsonrpc::read(line) {
            Ok(Message::Response { id, result }) => {
                let result = result.map(|result| wire::open(result).unwrap_or_default());
                Said::Answer(id, result.map_err(|error| error.message))
            }
            Ok(Message::Notification { method, params }) if method == self.listens_for => {
                Said::Heard(wire::open(params).unwrap_or_default())
            }
            _ => Said::Else,
        })
    }
}

/// A line of Codex.
enum Said {
    Answer(Id, Result<Value, String>),
    Heard(Value),
    Else,
}
