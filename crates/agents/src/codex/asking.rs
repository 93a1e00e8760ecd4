//! Asks Codex something outside of any session: a separate process is started for it and ended after it.

use std::{collections::VecDeque, time::Duration};

use serde_json::Value;

use super::{
    probe::Prober,
    translate::{DIALECT, hello},
};
use crate::{
    child::Program,
    driver::asking::{self, Heard, Trouble},
};

/// How long one question may take. A cold start reads a large program from disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to end after its input is closed.
const GOODBYE: Duration = Duration::from_secs(2);

/// Kept notifications of the awaited kind: one would be enough.
const MAX_HEARD: usize = 8;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Codex is not installed.
    NotInstalled(String),
    /// Codex refused, with its message.
    Refused(String),
    /// Codex could not be started, or ended, or was silent for too long.
    Lost(String),
}

impl From<Trouble> for Unanswered {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(error) => Self::Refused(error.message),
            Trouble::Silent(why) => Self::Lost(why),
        }
    }
}

/// Starts a Codex, waits until it has started, and ends it.
pub(super) async fn start_once(program: Program, home_key: &str) -> Result<(), Unanswered> {
    Asking::start(program, home_key.to_owned(), "").await?.end().await;
    Ok(())
}

/// A process that is asked. If it is dropped without [`Asking::end`], it is killed.
#[derive(Debug)]
pub(super) struct Asking {
    codex: asking::Asking,
    /// The notification that may be awaited, and what came of it before anyone waited.
    listens_for: &'static str,
    heard: VecDeque<Value>,
    /// The key of the home, which marks Portolan's own agents.
    pub(super) home_key: String,
}

impl Asking {
    pub(super) async fn begin(prober: &Prober) -> Result<Self, Unanswered> {
        Self::begin_listening(prober, "").await
    }

    /// As `begin`, with a notification that [`Asking::hear`] may await.
    pub(super) async fn begin_listening(
        prober: &Prober,
        listens_for: &'static str,
    ) -> Result<Self, Unanswered> {
        prober.program().map_err(Unanswered::NotInstalled)?;
        let (program, home_key) = prober.app_server().await.map_err(Unanswered::Lost)?;
        prober.prepare_home(&program).await;
        Self::start(program, home_key, listens_for).await
    }

    async fn start(
        program: Program,
        home_key: String,
        listens_for: &'static str,
    ) -> Result<Self, Unanswered> {
        let codex = asking::Asking::begin(program, &home_key, DIALECT).await?;
        let mut asking = Self { codex, listens_for, heard: VecDeque::new(), home_key };
        let begun = asking.ask("initialize", Some(hello())).await;
        if let Err(error) = begun {
            asking.end().await;
            return Err(error);
        }
        asking.codex.write(&DIALECT.notification("initialized", None)).await?;
        Ok(asking)
    }

    pub(super) async fn end(self) {
        self.codex.end(GOODBYE).await;
    }

    /// Asks, and ignores everything that is not the answer, except the awaited notification.
    pub(super) async fn ask(&mut self, method: &str, params: Option<Value>) -> Result<Value, Unanswered> {
        let silent = || Unanswered::Lost(format!("codex did not answer `{method}` in time"));
        tokio::time::timeout(PATIENCE, self.answer_to(method, params)).await.map_err(|_| silent())?
    }

    async fn answer_to(&mut self, method: &str, params: Option<Value>) -> Result<Value, Unanswered> {
        let wanted = self.codex.send(method, params).await?;
        loop {
            match self.codex.next().await? {
                Heard::Answer(id, result) if id == wanted => {
                    return result.map_err(|error| Unanswered::Refused(error.message));
                }
                Heard::Told { method, params, .. }
                    if method == self.listens_for && self.heard.len() < MAX_HEARD =>
                {
                    self.heard.push_back(params);
                }
                _ => {}
            }
        }
    }

    /// Waits for the notification, however long that takes: the caller sets the limit.
    pub(super) async fn hear(&mut self) -> Result<Value, Unanswered> {
        loop {
            if let Some(told) = self.heard.pop_front() {
                return Ok(told);
            }
            if let Heard::Told { method, params, .. } = self.codex.next().await?
                && method == self.listens_for
            {
                self.heard.push_back(params);
            }
        }
    }
}
