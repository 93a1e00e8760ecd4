//! One stream of events: a run, or a connect. One task makes it from a cursor over the session's log, and it always
//! ends: for a client, a run ends with its response body.
//!
//! At most one chunk is queued: while the network accepts nothing, the session is not read.

mod connect;
mod end;
mod follow;
mod heard;
mod leave;
mod open;
mod over;
mod prepare;

use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use portolan_core::{Principal, Role};
use tokio::{sync::mpsc, time::timeout};
use tracing::Instrument as _;

use super::{
    Agui,
    project::Approvals,
    prompt::{self, Brought},
    runs::{Client, Seat},
    wire::{AguiEvent, RunInput},
};
use portolan_host::{door::Stay, sse::STALLED};

/// How long a run waits for a session that is starting.
pub(super) const STARTING: Duration = Duration::from_secs(15);

/// How long a stopped run waits for the end of its turn.
const STOPPED: Duration = Duration::from_secs(10);

/// A consumed prompt that starts no turn within this time never will: it is a command that finishes at once.
const NO_TURN: Duration = Duration::from_secs(5);

/// How long after its connection closed a run waits for another reader before it counts as stopped.
const GRACE: Duration = Duration::from_secs(3);

/// The purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A run: sends a message, or continues.
    Run,
    /// A connect: the history and the running turn. Changes nothing.
    Connect,
}

/// One request and everything needed to answer it.
#[derive(Debug)]
struct Task {
    agui: Agui,
    who: Principal,
    stay: Stay,
    kind: Kind,
    agent: String,
    thread: String,
    run: String,
    approvals: Approvals,
    out: Out,
    _seat: Seat,
}

/// Answers with a stream of events, which has its place.
pub(super) fn open(
    agui: Agui,
    (who, stay): (Principal, Stay),
    kind: Kind,
    agent: String,
    mut input: RunInput,
    seat: Seat,
) -> Response {
    let (thread, mut run) = (std::mem::take(&mut input.thread_id), std::mem::take(&mut input.run_id));
    if run.is_empty() {
        run = uuid::Uuid::new_v4().to_string();
    }
    let (chunks, response) = portolan_host::sse::response();
    let tracker = agui.connections.clone();
    let span = tracing::debug_span!("agui stream", ?kind, thread);
    let approvals = prompt::approvals(&input).unwrap_or(agui.settings.approvals);
    // Only this part of the input is kept from now on.
    let brought = match kind {
        Kind::Run => Brought::of(input),
        Kind::Connect => Ok(Brought::default()),
    };
    let out = Out { chunks, is_gone: false };
    let task = Task { agui, who, stay, kind, agent, thread, run, approvals, out, _seat: seat };
    tracker.spawn(task.serve(brought).instrument(span));
    response
}

/// The channel to the client. A client that is gone gets nothing more, and nothing waits for it.
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
}

impl Task {
    /// The identity of this client across streams.
    fn client(&self) -> Client {
        Client { token: self.who.token.clone(), thread: self.thread.clone() }
    }

    /// May this client change anything in a session? A viewer leaves no trace.
    fn may_act(&self) -> bool {
        self.who.role >= Role::Operator
    }
}
