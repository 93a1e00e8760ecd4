//! The loop by itself, with a protocol that the test controls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{FutureExt as _, SinkExt as _};
use tokio::{
    io::{DuplexStream, duplex},
    task::JoinHandle,
    time::Instant,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::*;

/// Repeats what it gets, and does one thing at a time.
struct Toy {
    under_way: Option<Boxed<'static, ()>>,
    /// What "work" waits for.
    permit: CancellationToken,
    is_done: Arc<AtomicBool>,
    /// The stay that "enter" gives.
    other: Stay,
}

impl Protocol for Toy {
    fn takes_more(&self) -> bool {
        self.under_way.is_none()
    }

    fn receive(&mut self, message: &Bytes, out: &mut Outbound) -> Option<Stay> {
        match &message[..] {
            b"enter" => return Some(self.other.clone()),
            b"work" => {
                let permit = self.permit.clone();
                self.under_way = Some(Box::pin(async move { permit.cancelled().await }));
            }
            b"much" => out.text(&Bytes::from(vec![b'x'; 2 * FULL])),
            other => out.text(&Bytes::copy_from_slice(other)),
        }
        None
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, out: &mut Outbound) -> Poll<()> {
        let Some(under_way) = &mut self.under_way else { return Poll::Pending };
        ready!(under_way.poll_unpin(context));
        self.under_way = None;
        self.is_done.store(true, Ordering::Relaxed);
        out.text(&Bytes::from_static(b"done"));
        Poll::Ready(())
    }

    fn poll_entries(&mut self, _: &mut Context<'_>, _: &mut Outbound) -> Poll<()> {
        Poll::Pending
    }

    fn is_answering(&self) -> bool {
        self.under_way.is_some()
    }

    fn leave(&mut self) {}
}

struct Stand {
    client: WebSocketStream<DuplexStream>,
    served: JoinHandle<Ending>,
    /// Cancelled, it ends the stay of the client.
    revoked: CancellationToken,
    /// Cancelled, it ends the host.
    stopping: CancellationToken,
    /// The same as `revoked` for the stay that "enter" gives.
    other_revoked: CancellationToken,
    permit: CancellationToken,
    is_done: Arc<AtomicBool>,
}

impl Stand {
    async fn new() -> Self {
        let (ours, theirs) = duplex(1024);
        let (revoked, other_revoked) = (CancellationToken::new(), CancellationToken::new());
        let (permit, is_done) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let other = Stay::until(other_revoked.clone());
        let toy = Toy { under_way: None, permit: permit.clone(), is_done: Arc::clone(&is_done), other };
        let (stay, stopping) = (Stay::until(revoked.clone()), CancellationToken::new());
        let ends = stopping.clone();
        let served = tokio::spawn(async move {
            let mut connection = Connection::new(theirs, 1024, stay, ends);
            let ending = connection.run(toy).await;
            connection
                .close(ending, |_| LastWords { patience: Duration::ZERO, ..LastWords::code(4000) })
                .await;
            ending
        });
        let client = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        Self { client, served, revoked, stopping, other_revoked, permit, is_done }
    }

    async fn say(&mut self, text: &str) {
        self.client.send(Message::text(text.to_owned())).await.unwrap();
    }

    /// Says something and waits until it was read.
    async fn have_read(&mut self, text: &str) {
        self.say(text).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_changes_the_stay_changes_what_ends_the_connection() {
    let mut stand = Stand::new().await;
    stand.have_read("enter").await;
    stand.revoked.cancel();
    stand.have_read("hello").await;
    assert!(!stand.served.is_finished(), "the first stay counts no longer");
    stand.other_revoked.cancel();
    assert_eq!(stand.served.await.unwrap(), Ending::Close(Cause::StayOver));
}

#[tokio::test(start_paused = true)]
async fn calls_are_finished_and_answered_before_the_connection_ends() {
    let mut stand = Stand::new().await;
    stand.have_read("work").await;
    stand.stopping.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stand.permit.cancel();
    assert_eq!(stand.client.next().await.unwrap().unwrap(), Message::text("done"));
    assert_eq!(stand.served.await.unwrap(), Ending::Close(Cause::Stopping));
    assert!(stand.is_done.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn calls_are_given_up_when_the_stay_ends_meanwhile() {
    let mut stand = Stand::new().await;
    let begun = Instant::now();
    stand.have_read("work").await;
    stand.stopping.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stand.revoked.cancel();
    assert_eq!(stand.served.await.unwrap(), Ending::Close(Cause::Stopping));
    assert!(begun.elapsed() < FAREWELL && !stand.is_done.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_for_a_client_whose_stay_is_over() {
    let mut stand = Stand::new().await;
    stand.have_read("work").await;
    stand.revoked.cancel();
    stand.permit.cancel();
    assert_eq!(stand.served.await.unwrap(), Ending::Close(Cause::StayOver));
    assert!(!stand.is_done.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stay_reaches_a_client_that_reads_nothing() {
    let mut stand = Stand::new().await;
    let begun = Instant::now();
    stand.have_read("much").await;
    stand.revoked.cancel();
    assert_eq!(stand.served.await.unwrap(), Ending::Close(Cause::StayOver));
    assert!(begun.elapsed() < Stall::LIMIT, "before the network has stalled for too long");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_closed_after_the_limit_and_not_earlier() {
    let mut stand = Stand::new().await;
    let begun = Instant::now();
    stand.say("much").await;
    assert_eq!(stand.served.await.unwrap(), Ending::Close(Cause::TooSlow));
    // The shutdown of a stream that nobody reads takes no time: only the limit does.
    assert_eq!(begun.elapsed(), Stall::LIMIT);
}
