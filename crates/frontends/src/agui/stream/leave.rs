//! A run whose client has closed its connection. A page reconnects; a plain client has stopped its run. The posted
//! message is sent in any case: only then it is certain which turn it reaches.

use tokio::time::{Instant, sleep_until};

use super::{
    GRACE, Kind,
    end::End,
    follow::{Follow, Goal},
};
use crate::agui::{OnClose, runs::Grace};

/// The meaning of the closed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A reload, or a closed laptop: the turn continues.
    GoesOn,
    /// A stop, unless another reader appears within [`GRACE`] after the message has reached the agent.
    Stops,
    /// A stop, within [`GRACE`] of now.
    StopsNow,
}

impl Follow<'_> {
    fn meaning(&self) -> Meaning {
        let is_page = self.task.agui.runs.has_connected(&self.task.client());
        match (self.task.kind, self.task.agui.settings.on_close) {
            (Kind::Connect, _) | (Kind::Run, OnClose::Continue) => Meaning::GoesOn,
            (Kind::Run, OnClose::Stop) => Meaning::StopsNow,
            (Kind::Run, OnClose::Auto) if is_page => Meaning::GoesOn,
            (Kind::Run, OnClose::Auto) => Meaning::Stops,
        }
    }

    /// The client's connection is closed.
    pub(super) async fn client_left(&mut self) -> End {
        let meaning = self.meaning();
        if meaning == Meaning::GoesOn && self.unsent().is_none() {
            return End::Finished;
        }
        let client = self.task.client();
        let prompt = match self.goal {
            Goal::Own(prompt) => Some(prompt),
            // The run continued a turn; that turn is stopped.
            Goal::Any => None,
        };
        let grace = match meaning {
            Meaning::GoesOn => None,
            Meaning::Stops | Meaning::StopsNow => {
                let grace = self.task.agui.runs.abandon(&self.joined.place, &client, prompt);
                if grace.is_none() {
                    // The client already sends something else.
                    return self.stop_left().await;
                }
                grace
            }
        };
        if let Some(end) = self.until_certain(meaning, grace).await {
            return end;
        }
        // Another reader keeps the run: this stream itself counts as one reader.
        let others = self.task.agui.registry.presence(self.joined.session).len() > 1;
        let came_back = self.task.agui.runs.has_connected(&client);
        if others || (came_back && meaning == Meaning::Stops) {
            return End::Finished;
        }
        self.stop_left().await
    }

    /// Waits until it is certain that the run must be stopped; or returns how it ended before. Meanwhile the agent is
    /// prepared and gets the message, the turn may end by itself, and the registry may stop.
    async fn until_certain(&mut self, meaning: Meaning, grace: Option<Grace>) -> Option<End> {
        let (mut put_out, stop) = (self.task.put_out(), self.joined.place.stop.clone());
        let overtaken = async {
            match &grace {
                Some(grace) => grace.overtaken.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(overtaken);
        let mut certain = (meaning == Meaning::StopsNow).then(|| Instant::now() + GRACE);
        let mut ignored = Vec::new();
        loop {
            if self.unsent().is_none() && certain.is_none() {
                if meaning == Meaning::GoesOn {
                    return Some(End::Finished);
                }
                certain = Some(Instant::now() + GRACE);
            }
            let ready_by = self.ready_by;
            // Every arm can be dropped and polled again: `self` keeps the state.
            tokio::select! {
                delivery = self.joined.reader.next() => {
                    ignored.clear();
                    if let Some(end) = self.take(delivery, &mut ignored) {
                        return Some(end);
                    }
                    if self.has_no_agent() {
                        // The message waits in the log, for the next client that continues the session.
                        return Some(End::Finished);
                    }
                }
                () = self.preparing.told() => {}
                // The agent gets the message when it starts; the page's tools are then those of the next run.
                () = sleep_until(ready_by.unwrap_or_else(Instant::now)), if ready_by.is_some() => {
                    return Some(End::Finished);
                }
                () = sleep_until(certain.unwrap_or_else(Instant::now)), if certain.is_some() => return None,
                () = &mut overtaken => return Some(End::Finished),
                () = stop.cancelled(), if self.unsent().is_some() => {
                    self.stopped().await;
                    return Some(End::Finished);
                }
                why = &mut put_out, if self.unsent().is_some() => {
                    self.put_out(why).await;
                    return Some(End::Finished);
                }
            }
        }
    }

    /// Stops a run whose client has disconnected.
    async fn stop_left(&mut self) -> End {
        let prompt = match self.goal {
            Goal::Own(prompt) => Some(prompt),
            Goal::Any => None,
        };
        let (registry, who) = (&self.task.agui.registry, &self.task.who);
        let action = self.joined.place.stop_of(prompt);
        let id = portolan_core::CommandId::random();
        if let Err(refusal) = registry.submit(who, self.joined.session, id, action).await {
            tracing::debug!(%refusal, "a run that its client left could not be stopped");
        }
        End::Finished
    }
}
