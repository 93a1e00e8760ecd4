//! A body under watch: every poll goes through a [`Watch`], which may end the body early.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// What a poll of a body gives.
pub(super) type Polled = Poll<Option<Result<Frame<Bytes>, axum::BoxError>>>;

/// Polls a body, and decides what the reader gets.
pub(super) trait Watch: Unpin {
    /// The next piece of the body; an error ends the body.
    fn poll(&mut self, body: &mut Body, context: &mut Context<'_>) -> Polled;
}

/// A body and its watch.
pub(super) struct Watched<W> {
    pub(super) body: Body,
    pub(super) watch: W,
}

impl<W: Watch> HttpBody for Watched<W> {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let Self { body, watch } = self.get_mut();
        watch.poll(body, context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The next piece as the body has it.
pub(super) fn next(body: &mut Body, context: &mut Context<'_>) -> Polled {
    Pin::new(body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
}
