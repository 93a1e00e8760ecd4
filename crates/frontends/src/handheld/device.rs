//! The connection of one device: sends the newest faces, handles one message at a time.
//!
//! No pings: the app never answers one. TCP itself detects a device that is gone (keep-alive, see [`super::listen`]),
//! and unsent bytes that wait for too long end the connection. Nothing is queued for the device meanwhile; when it
//! reads again, it gets the newest faces. So a device has its own loop instead of the door's
//! ([`portolan_host::door::Connection`]), which pings clients and sends them everything.
//!
//! The meaning of a press or text is decided when it is read, from what the device has confirmed ([`InFlight`]) and for
//! how long; a prompt counts only after all earlier messages were read.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use portolan_core::Principal;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::broadcast::error::RecvError,
    task::coop::has_budget_remaining,
    time::{Instant, sleep_until},
};

use super::{
    desk::{Desk, Panel},
    devices::Peer,
    in_flight::InFlight,
    parse::{self, Button, FromDevice},
    session_slots::SessionSlots,
    wire::{AutoEdit, SpawnResult},
};
use portolan_host::door::Stall;
use portolan_wire::websocket::{Lost, Received, Socket};

/// How often a face is refreshed without an event: a running tool shows its seconds.
const TICK: Duration = Duration::from_secs(1);

/// How long unsent bytes may take at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// How many spawn results may wait for the network; older results are worthless.
const RESULTS: usize = 8;

/// Normal end.
const CLOSE_NORMAL: u16 = 1000;

/// The server goes away.
const CLOSE_GOING: u16 = 1001;

/// A message of a device that is being carried out.
type Doing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happened on the wire.
enum Wire {
    /// All unsent bytes are sent.
    Flushed,
    /// The device sent a message.
    Received(Received),
    /// Nothing more can be read or written.
    Lost(Lost),
}

/// Whether the device is read: only one message is carried out at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ear {
    Open,
    Shut,
}

/// How a connection ends.
enum Ending {
    /// With this code.
    Close(u16),
    /// Without a close frame, because the device is gone.
    Gone,
}

/// Who is connected.
#[derive(Debug)]
pub(super) struct Visitor {
    /// Its identity for core.
    pub(super) who: Principal,
    /// Its address.
    pub(super) peer: Peer,
    /// The bytes on their way to the device.
    pub(super) in_flight: Arc<InFlight>,
}

struct Connection<S> {
    session_slots: SessionSlots,
    who: Principal,
    peer: Peer,
    in_flight: Arc<InFlight>,
    socket: Socket<S>,
    desk: Desk,
    results: Vec<SpawnResult>,
    doing: Option<Doing>,
    /// A device that takes no byte for too long counts as gone: it can reconnect.
    stall: Stall,
}

/// Serves one device until either side ends the connection, or the device is revoked.
pub(super) async fn serve<S>(session_slots: SessionSlots, visitor: Visitor, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _counted = session_slots.count();
    let Visitor { who, peer, in_flight } = visitor;
    tracing::info!(device = who.name, "connected");
    let name = who.name.clone();
    let mut connection = Connection {
        socket: Socket::new(io, parse::MESSAGE_LIMIT),
        session_slots,
        who,
        peer,
        in_flight,
        desk: Desk::default(),
        results: Vec::new(),
        doing: None,
        stall: Stall::default(),
    };
    let ending = connection.run().await;
    if let Ending::Close(code) = ending {
        connection.socket.feed_close(code);
        let farewell = async {
            let _ = connection.socket.flush().await;
            connection.socket.shut_down().await;
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
    tracing::info!(device = name, "disconnected");
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> Ending {
        let session_slots = self.session_slots.clone();
        let stopping = session_slots.stopping();
        let mut changes = self.session_slots.changes();
        let mut rounds = self.session_slots.rounds();
        let mut spawned = self.session_slots.spawned();
        let mut put_out = std::pin::pin!(session_slots.devices().until_put_out(self.peer));
        loop {
            let wake = self.send_what_is_due();
            if self.is_stalled() {
                tracing::debug!(device = self.who.name, "takes nothing any more");
                return Ending::Gone;
            }
            let (socket, desk, doing) = (&mut self.socket, &mut self.desk, &mut self.doing);
            let ear = if doing.is_none() { Ear::Open } else { Ear::Shut };
            // Every arm is cancel-safe: what is half read, half written or half done stays in `self`.
            tokio::select! {
                () = stopping.cancelled() => return Ending::Close(CLOSE_GOING),
                () = put_out.as_mut() => return Ending::Close(CLOSE_NORMAL),
                wire = next(socket, desk, ear) => {
                    if let Some(ending) = self.on_wire(wire) {
                        return ending;
                    }
                }
                () = finish(doing) => self.doing = None,
                // `SessionSlots` keeps the senders.
                _ = changes.changed() => {}
                _ = rounds.changed() => self.desk.send_all_again(),
                result = spawned.recv() => match result {
                    Ok(result) => self.note_result(result),
                    // Some results were missed.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ending::Close(CLOSE_GOING),
                },
                () = sleep_until(wake) => {}
            }
        }
    }

    fn note_result(&mut self, result: SpawnResult) {
        if self.results.len() < RESULTS {
            self.results.push(result);
        }
    }

    /// Writes to the socket if everything before is sent. Returns the latest time of the next call.
    fn send_what_is_due(&mut self) -> Instant {
        let now = Instant::now();
        self.look_what_arrived(now);
        if self.socket.unsent() == 0 {
            for result in self.results.drain(..) {
                self.socket.feed(&result.frame());
            }
            for status in self.desk.due(&self.session_slots.slots(), now) {
                self.socket.feed(&status.frame());
            }
            self.desk.sent_upto(self.socket.sent() + self.socket.unsent() as u64, now);
        }
        self.desk.wait(now).unwrap_or(now + TICK).min(now + TICK)
    }

    fn look_what_arrived(&mut self, now: Instant) {
        if self.desk.wants_to_know(now) {
            // The bytes in the kernel are the last bytes that it accepted.
            let arrived = self.socket.sent().saturating_sub(self.in_flight.unconfirmed());
            self.desk.arrived_upto(arrived, now);
        }
    }

    fn is_stalled(&mut self) -> bool {
        if self.socket.unsent() == 0 {
            self.stall.ends();
        } else {
            self.stall.waits(self.socket.sent());
        }
        self.stall.is_too_long()
    }

    fn on_wire(&mut self, wire: Wire) -> Option<Ending> {
        match wire {
            Wire::Flushed | Wire::Received(Received::Pong) => None,
            Wire::Received(Received::Ping(payload)) => {
                self.socket.feed_pong(payload);
                None
            }
            Wire::Received(Received::Close(code)) => Some(Ending::Close(code.unwrap_or(CLOSE_NORMAL))),
            // A device that was just revoked may do nothing any more.
            Wire::Received(Received::Message(_)) if !self.session_slots.devices().admits(self.peer) => {
                Some(Ending::Close(CLOSE_NORMAL))
            }
            Wire::Received(Received::Message(text)) => {
                self.on_message(&text);
                None
            }
            Wire::Lost(Lost::Gone) => Some(Ending::Gone),
            Wire::Lost(Lost::Violation(violation)) => Some(Ending::Close(violation.code())),
        }
    }

    fn on_message(&mut self, text: &[u8]) {
        let message = match parse::parse(text) {
            Ok(message) => message,
            Err(why) => {
                // The app escapes nothing, so an invalid message can happen; the next message may be fine.
                tracing::debug!(device = self.who.name, %why, "a message was ignored");
                return;
            }
        };
        let (session_slots, who) = (self.session_slots.clone(), self.who.clone());
        match message {
            FromDevice::Press { to, button: Button::Escape } => {
                if let Some(slot) = session_slots.route(&to) {
                    self.doing = Some(Box::pin(async move { session_slots.interrupt(&who, slot).await }));
                }
            }
            FromDevice::Press { to, button } => {
                let Some(slot) = session_slots.route(&to) else { return };
                let asked = match self.desk.panel(slot) {
                    Panel::Seen(asked) => asked,
                    // The press is not for a prompt that just appeared: a double press never approves the next prompt.
                    Panel::New(asked) => return session_slots.too_early(slot, &asked),
                    Panel::Empty => return,
                };
                self.doing =
                    Some(Box::pin(async move { session_slots.press(&who, slot, asked, button).await }));
            }
            FromDevice::Command { to, text } => {
                let Some(slot) = session_slots.route(&to) else { return };
                let panel = self.desk.panel(slot);
                self.doing = Some(Box::pin(async move { session_slots.say(&who, slot, panel, text).await }));
            }
            FromDevice::AutoEdit(on) => {
                let (peer, wanted) = (self.peer, if on { AutoEdit::On } else { AutoEdit::Off });
                // Runs to its end even if the connection is lost, so that the log and the slots agree.
                let set = session_slots
                    .clone()
                    .tasks()
                    .spawn(async move { session_slots.set_auto_edit(&who, peer, wanted).await });
                self.doing = Some(Box::pin(async move { drop(set.await) }));
            }
            FromDevice::Spawn(slot) => {
                // An agent may take seconds to start; the buttons work meanwhile.
                self.session_slots.spawn_task(async move { session_slots.spawn(&who, slot).await });
            }
        }
    }
}

/// Writes unsent bytes; reads if no message is being carried out.
async fn next<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut Socket<S>, desk: &mut Desk, ear: Ear) -> Wire {
    poll_fn(|context| {
        if socket.unsent() > 0 {
            match socket.poll_flush(context) {
                Poll::Ready(Ok(())) => return Poll::Ready(Wire::Flushed),
                Poll::Ready(Err(_)) => return Poll::Ready(Wire::Lost(Lost::Gone)),
                Poll::Pending => {}
            }
        }
        if ear == Ear::Shut {
            return Poll::Pending;
        }
        match socket.poll_receive(context) {
            Poll::Ready(Ok(received)) => Poll::Ready(Wire::Received(received)),
            Poll::Ready(Err(lost)) => Poll::Ready(Wire::Lost(lost)),
            Poll::Pending => {
                // Without a budget, the runtime reports "pending" even if there is something to read.
                if has_budget_remaining() {
                    desk.all_is_read(Instant::now());
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// Returns when the current message is carried out; never if there is none.
async fn finish(doing: &mut Option<Doing>) {
    match doing {
        Some(doing) => doing.await,
        None => std::future::pending().await,
    }
}
