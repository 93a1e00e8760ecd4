//! Cursor: one reader's place in a log.
//!
//! A cursor owns the last number delivered and the delivery mode. A cursor never blocks the writer and owns no queue:
//! it reads from the ring while it keeps up, and from the store after it fell behind. Joining late, reconnecting after
//! a drop and being slow are one code path, so there is no seam between history and live where an entry could get lost
//! or doubled.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

use super::{
    Folded, Log, Tip,
    delivery::{Closed, Delivery, Mode, Piece, Snapshot, Start},
    ring::Take,
};
use crate::{
    Entry, Seq,
    ports::{Page, StoreError},
};

/// One reader's place in a log. Dropping the cursor leaves the log.
pub struct Cursor<F: Folded> {
    log: Arc<Log<F>>,
    mode: Mode,
    tip: watch::Receiver<Tip>,
    /// Everything up to here was delivered, or is not for this reader.
    last: Seq,
    phase: Phase<F>,
}

impl<F: Folded> fmt::Debug for Cursor<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("log", &self.log.id())
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Phase<F: Folded> {
    /// Durable entries up to the snapshot, then the snapshot.
    Joining(Snapshot<F>),
    /// Every entry as it happens.
    Live,
    /// Durable entries up to `upto`, then what streamed since `since` into items still open.
    Behind { since: Seq, upto: Seq },
    /// Nothing more.
    Ended(Closed),
}

impl<F: Folded> Cursor<F> {
    /// A new reader of `log`.
    pub async fn join(log: Arc<Log<F>>, start: Start, mode: Mode) -> Result<Self, StoreError> {
        // From here on the ring keeps every appended entry, so nothing is lost between the snapshot and the ring.
        log.ring().join();
        let mut cursor =
            Self { tip: log.tips(), mode, last: Seq::ZERO, phase: Phase::Ended(Closed::Failed), log };
        let snapshot = cursor.log.snapshot();
        cursor.last = match start {
            Start::After(seq) => seq.min(snapshot.seq),
            Start::Tail(0) => snapshot.seq,
            Start::Tail(count) => {
                cursor.log.wait_visible(snapshot.seq).await;
                cursor.log.store().tail(cursor.log.id(), snapshot.seq, count).await?
            }
        };
        cursor.phase = Phase::Joining(snapshot);
        Ok(cursor)
    }

    /// Everything up to here was delivered.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Waits for the next delivery. Cancel-safe: a dropped call has delivered nothing.
    pub async fn next(&mut self) -> Delivery<F::Event, F> {
        loop {
            let step = match &self.phase {
                Phase::Joining(snapshot) => self.joining(snapshot.clone()).await,
                Phase::Live => self.live().await,
                Phase::Behind { since, upto } => self.behind(*since, *upto).await,
                Phase::Ended(why) => return Delivery::Closed(*why),
            };
            match step {
                Ok(Some(delivery)) => return delivery,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(log = %self.log.id(), %error, "a reader's history cannot be read");
                    self.phase = Phase::Ended(Closed::Failed);
                }
            }
        }
    }

    async fn joining(&mut self, snapshot: Snapshot<F>) -> Result<Option<Delivery<F::Event, F>>, StoreError> {
        if !self.log.wait_visible(snapshot.seq).await {
            self.phase = Phase::Ended(self.tip.borrow().closed.unwrap_or(Closed::Failed));
            return Ok(None);
        }
        if self.mode != Mode::Latest
            && let Some(pieces) = self.stored(snapshot.seq).await?
        {
            return Ok(Some(Delivery::Entries(pieces)));
        }
        self.last = snapshot.seq;
        self.phase = Phase::Live;
        Ok(Some(Delivery::Snapshot(snapshot)))
    }

    async fn behind(&mut self, since: Seq, upto: Seq) -> Result<Option<Delivery<F::Event, F>>, StoreError> {
        if !self.log.wait_visible(upto).await {
            self.phase = Phase::Ended(self.tip.borrow().closed.unwrap_or(Closed::Failed));
            return Ok(None);
        }
        if let Some(pieces) = self.stored(upto).await? {
            return Ok(Some(Delivery::Entries(pieces)));
        }
        if self.mode == Mode::Items {
            self.phase = Phase::Live;
            self.last = upto;
            return Ok(None);
        }
        let id = self.log.id();
        let (merged, at) = {
            let book = self.log.book();
            let ended = book.state().newest_end();
            if ended > upto {
                // An item that was open at `upto` has ended meanwhile: its text is in the entry that ended it, and must
                // be delivered before later streamed entries.
                self.phase = Phase::Behind { since, upto: ended };
                return Ok(None);
            }
            (book.state().merged(since, upto), book.at())
        };
        self.phase = Phase::Live;
        self.last = upto;
        // These pieces bring the reader up to `upto`, so `upto` is their number: numbers never go back.
        let piece = |event| Piece::Live(Arc::new(Entry::new(id, upto, at, None, event)));
        let pieces: Vec<_> = merged.into_iter().map(piece).collect();
        Ok((!pieces.is_empty()).then_some(Delivery::Entries(pieces)))
    }

    /// The next page of durable entries up to `upto`; `None` when there are no more.
    async fn stored(&mut self, upto: Seq) -> Result<Option<Vec<Piece<F::Event>>>, StoreError> {
        if self.last >= upto {
            return Ok(None);
        }
        let page = self.log.store().read(self.log.id(), self.last, upto, Page::HISTORY).await?;
        let Some(newest) = page.last() else { return Ok(None) };
        self.last = newest.seq;
        Ok(Some(page.into_iter().map(Piece::Stored).collect()))
    }

    async fn live(&mut self) -> Result<Option<Delivery<F::Event, F>>, StoreError> {
        let tip = *self.tip.borrow_and_update();
        if tip.visible > self.last {
            return Ok(self.pull(tip.visible).await);
        }
        if let Some(why) = tip.closed {
            self.phase = Phase::Ended(why);
            return Ok(None);
        }
        // The sender lives as long as `self.log`.
        let _ = self.tip.changed().await;
        Ok(None)
    }

    async fn pull(&mut self, visible: Seq) -> Option<Delivery<F::Event, F>> {
        let take = match self.mode {
            Mode::Every => Take::All,
            Mode::Items => Take::Durable,
            Mode::Latest => {
                let snapshot = self.log.snapshot();
                if !self.log.wait_visible(snapshot.seq).await {
                    self.last = visible;
                    return None;
                }
                self.last = snapshot.seq;
                return Some(Delivery::Snapshot(snapshot));
            }
        };
        let ring = self.log.ring();
        if !ring.reaches(self.last) {
            drop(ring);
            self.phase = Phase::Behind { since: self.last, upto: visible };
            return None;
        }
        let (pieces, reached) = ring.after(self.last, visible, take, Page::BATCH);
        drop(ring);
        self.last = reached;
        (!pieces.is_empty()).then_some(Delivery::Entries(pieces))
    }
}

impl<F: Folded> Drop for Cursor<F> {
    fn drop(&mut self) {
        self.log.ring().leave();
    }
}

impl<F: Folded> Log<F> {
    /// The number of readers.
    pub fn readers(&self) -> usize {
        self.ring().readers()
    }
}
