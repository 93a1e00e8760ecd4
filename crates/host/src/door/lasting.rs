//! Request and response bodies that last no longer than their guest's stay.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use http::StatusCode;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use portolan_core::{RefusalCode, ports::Boxed};

use super::{
    denied::Denied,
    stay::{Over, Stay},
};

/// The refusal for a guest whose stay is over.
pub(super) fn put_out(why: Over) -> Denied {
    let message = match why {
        Over::Token => "the token was revoked, replaced or expired during the request; use a valid token",
        Over::Login => "this browser was logged out during the request; log in again with a new ticket",
    };
    Denied::new(StatusCode::UNAUTHORIZED, RefusalCode::Unauthenticated, message)
}

/// The stay is over.
#[derive(Debug, thiserror::Error)]
#[error("the client lost its access while this request ran")]
pub(super) struct StayOver(pub(super) Over);

/// The body of a request. The guard ends the whole request when the stay is over. Here every later piece is checked
/// too, including the last one, so that nothing acts on a body that was complete too late.
pub(super) fn request(body: Body, stay: Stay) -> Body {
    if body.is_end_stream() { body } else { Body::new(While { body, stay }) }
}

struct While {
    body: Body,
    stay: Stay,
}

impl HttpBody for While {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        match self.stay.ended() {
            Some(why) => Poll::Ready(Some(Err(StayOver(why).into()))),
            None => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response: ended when the stay is over and the moment for a farewell has passed.
pub(super) fn response(body: Body, stay: Stay, farewell: Duration) -> Body {
    if body.is_end_stream() { body } else { Body::new(Until { body, stay, farewell, over: None }) }
}

struct Until {
    body: Body,
    stay: Stay,
    farewell: Duration,
    /// Waits for the end. Most bodies are complete at once and need no wait.
    over: Option<Boxed<'static, Over>>,
}

impl Until {
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        let (stay, farewell) = (&self.stay, self.farewell);
        let over = self.over.get_or_insert_with(|| {
            let stay = stay.clone();
            Box::pin(async move {
                let why = stay.over().await;
                if !farewell.is_zero() {
                    tokio::time::sleep(farewell).await;
                }
                why
            })
        });
        over.as_mut().poll(context)
    }
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.stay.is_over()
            && let Poll::Ready(why) = this.poll_over(context)
        {
            return Poll::Ready(Some(Err(StayOver(why).into())));
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        this.poll_over(context).map(|why| Some(Err(StayOver(why).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
