//! Frames for a WebSocket client as bytes, and the bytes that the network has not taken yet.
//!
//! Small frames are collected in one buffer, so that a batch is one write; large frames are shared with every other
//! reader and never copied. The caller limits how much may wait here: see [`Outbound::unsent`].

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

/// Payloads from this size on are shared instead of copied: below it, one copy costs less than one more slice for the
/// kernel.
const SHARE_FROM: usize = 8 * 1024;

/// How much of its buffer an idle connection may keep; a session with its reader may cost 64 KiB in all.
const KEPT_WHEN_IDLE: usize = 4 * 1024;

/// How many slices the kernel gets at once; more gain nothing.
const SLICES: usize = 16;

/// The bytes to write.
#[derive(Debug, Default)]
pub struct Outbound {
    /// Written first.
    sealed: VecDeque<Bytes>,
    /// Written next; the first `written` bytes are already gone.
    open: Vec<u8>,
    written: usize,
    unsent: usize,
}

impl Outbound {
    /// Adds a text frame; a large one is shared with its other senders. The payload must be UTF-8: everything we send
    /// is our own JSON.
    pub fn text(&mut self, payload: &Bytes) {
        self.frame(0x81, payload);
    }

    /// Adds a ping.
    pub(super) fn ping(&mut self) {
        self.frame(0x89, &Bytes::new());
    }

    /// Adds a pong with the bytes of its ping.
    pub(super) fn pong(&mut self, payload: Bytes) {
        self.frame(0x8A, &payload);
    }

    /// Adds a close with this code.
    pub(super) fn close(&mut self, code: u16) {
        self.frame(0x88, &Bytes::copy_from_slice(&code.to_be_bytes()));
    }

    fn frame(&mut self, first: u8, payload: &Bytes) {
        let before = self.open.len();
        self.open.push(first);
        match payload.len() {
            short @ 0..=125 => self.open.push(short as u8),
            medium @ 126..=0xFFFF => {
                self.open.push(126);
                self.open.extend_from_slice(&(medium as u16).to_be_bytes());
            }
            long => {
                self.open.push(127);
                self.open.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        if payload.len() < SHARE_FROM {
            self.open.extend_from_slice(payload);
            self.unsent += self.open.len() - before;
            return;
        }
        self.unsent += self.open.len() - before + payload.len();
        let mut head = Bytes::from(std::mem::take(&mut self.open));
        head.advance(std::mem::take(&mut self.written));
        self.sealed.push_back(head);
        self.sealed.push_back(payload.clone());
    }

    /// Bytes that the network has not taken yet.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Nothing will be added for a while: frees the memory that a burst took.
    pub(super) fn rest(&mut self) {
        if self.unsent == 0 && self.open.capacity() > KEPT_WHEN_IDLE {
            self.open = Vec::new();
        }
        if self.sealed.is_empty() && self.sealed.capacity() > 0 {
            self.sealed = VecDeque::new();
        }
    }

    /// Writes until nothing is left.
    pub(super) fn poll_write_out<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unsent > 0 {
            let written = if self.sealed.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(context, &self.open[self.written..]))?
            } else {
                let mut slices = [io::IoSlice::new(&[]); SLICES];
                let mut used = 0;
                let open = &self.open[self.written..];
                for part in self.sealed.iter().map(|part| &part[..]).chain([open]).take(SLICES) {
                    slices[used] = io::IoSlice::new(part);
                    used += 1;
                }
                ready!(Pin::new(&mut *io).poll_write_vectored(context, &slices[..used]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Pin::new(io).poll_flush(context)
    }

    fn advance(&mut self, mut written: usize) {
        self.unsent -= written;
        while let Some(part) = self.sealed.front_mut() {
            let gone = written.min(part.len());
            part.advance(gone);
            written -= gone;
            if !part.is_empty() {
                return;
            }
            self.sealed.pop_front();
        }
        self.written += written;
        if self.written == self.open.len() {
            self.open.clear();
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes at most this many bytes per write.
    struct Narrow {
        width: usize,
        taken: Vec<u8>,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let width = self.width.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..width]);
            Poll::Ready(Ok(width))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn write_out(outbound: &mut Outbound, width: usize) -> Vec<u8> {
        let mut narrow = Narrow { width, taken: Vec::new() };
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(outbound.poll_write_out(&mut narrow, &mut context).is_ready());
        narrow.taken
    }

    fn expected(payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x81];
        match payload.len() {
            short @ 0..=125 => out.push(short as u8),
            medium @ 126..=65_535 => out.extend([&[126][..], &(medium as u16).to_be_bytes()].concat()),
            long => out.extend([&[127][..], &(long as u64).to_be_bytes()].concat()),
        }
        out.extend_from_slice(payload);
        out
    }

    proptest! {
        #[test]
        fn every_byte_leaves_once_and_in_order_whatever_the_network_takes_at_a_time(
            sizes in prop::collection::vec(prop::sample::select(
                vec![0_usize, 1, 125, 126, 1000, SHARE_FROM - 1, SHARE_FROM, 65_535, 65_536]), 0..20),
            width in prop::sample::select(vec![61_usize, 4096, 1 << 20]),
        ) {
            let mut outbound = Outbound::default();
            let mut wanted = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let payload = vec![b'a' + (index % 26) as u8; size];
                wanted.extend(expected(&payload));
                outbound.text(&payload.into());
            }
            prop_assert_eq!(outbound.unsent(), wanted.len());
            prop_assert_eq!(write_out(&mut outbound, width), wanted);
            prop_assert_eq!(outbound.unsent(), 0);
        }
    }

    #[test]
    fn a_large_payload_is_shared_not_copied() {
        let payload = Bytes::from(vec![b'x'; SHARE_FROM]);
        let mut outbound = Outbound::default();
        outbound.text(&payload);
        assert!(outbound.sealed.iter().any(|part| part.as_ptr() == payload.as_ptr()));
    }

    #[test]
    fn an_idle_connection_frees_the_memory_of_a_burst() {
        let mut outbound = Outbound::default();
        for _ in 0..1000 {
            outbound.text(&Bytes::from_static(&[b'x'; 1000]));
        }
        write_out(&mut outbound, usize::MAX);
        outbound.rest();
        assert!(outbound.open.capacity() <= KEPT_WHEN_IDLE && outbound.sealed.capacity() == 0);
    }
}
