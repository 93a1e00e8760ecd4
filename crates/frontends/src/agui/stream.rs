//! One stream of events: a run, or a connect. One task makes it from a cursor over the session's log, and it always ends:
//! a client's run lasts until its body does.
//!
//! Nothing is queued but the one chunk on its way: while the network takes nothing, the session is not asked for more.

mod end;
mod follow;
mod open;

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use portolan_core::Principal;
use tokio::{sync::mpsc, time::timeout};
use tracing::Instrument as _;

use super::{
    Agui,
    project::Approvals,
    wire::{AguiEvent, RunInput},
};
use crate::door::Stay;

/// A comment after so long without an event keeps proxies from closing the stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A client that takes nothing for so long is let go; a page comes back and connects.
const STALLED: Duration = Duration::from_secs(10);

/// How long a run waits for a session that is starting.
pub(super) const STARTING: Duration = Duration::from_secs(15);

/// How long a run that was stopped waits for its turn to end.
const STOPPED: Duration = Duration::from_secs(10);

/// A prompt that was taken up and set off no turn within so long never will: a command that does its work at once.
const NO_TURN: Duration = Duration::from_secs(5);

/// How long after its connection closed a run waits for someone else to take an interest before it counts as stopped.
const GRACE: Duration = Duration::from_secs(3);

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Says something, or goes on.
    Run,
    /// The history, and what runs now. Changes nothing.
    Connect,
}

/// One request and everything that answering it needs.
#[derive(Debug)]
struct Task {
    agui: Agui,
    who: Principal,
    stay: Stay,
    agent: String,
    input: RunInput,
    out: Out,
}

/// Answers with a stream of events.
pub(super) fn open(
    agui: Agui,
    (who, stay): (Principal, Stay),
    kind: Kind,
    agent: String,
    mut input: RunInput,
) -> Response {
    if input.run_id.is_empty() {
        input.run_id = uuid::Uuid::new_v4().to_string();
    }
    let (chunks, body) = mpsc::channel::<Bytes>(1);
    let tracker = agui.connections.clone();
    let span = tracing::debug_span!("agui stream", ?kind, thread = input.thread_id);
    let out = Out { chunks, is_gone: false };
    let task = Task { agui, who, stay, agent, input, out };
    tracker.spawn(task.serve(kind).instrument(span));
    let body = stream::unfold(body, |mut body| async {
        let chunk = body.recv().await?;
        Some((Ok::<_, Infallible>(chunk), body))
    });
    let mut response = Body::from_stream(body).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Without it nginx would gather the events up.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The way to the client. Who is gone is told nothing more, and nothing waits for them.
#[derive(Debug)]
struct Out {
    chunks: mpsc::Sender<Bytes>,
    is_gone: bool,
}

impl Out {
    async fn send(&mut self, events: &mut Vec<AguiEvent>) {
        let bytes: Vec<u8> = events.drain(..).flat_map(|event| event.to_frame()).collect();
        if !bytes.is_empty() {
            self.write(bytes.into()).await;
        }
    }

    async fn write(&mut self, bytes: Bytes) {
        if !self.is_gone {
            self.is_gone = !matches!(timeout(STALLED, self.chunks.send(bytes)).await, Ok(Ok(())));
        }
    }

    async fn closed(&self) {
        if !self.is_gone {
            self.chunks.closed().await;
        }
    }
}

impl Task {
    /// How this client wants to be asked: it may say so in what its app adds to every request.
    fn approvals(&self) -> Approvals {
        match self.input.forwarded_props.get("approvals").and_then(serde_json::Value::as_str) {
            Some("interrupt") => Approvals::Interrupt,
            Some("event") => Approvals::Event,
            _ => self.agui.settings.approvals,
        }
    }
}
