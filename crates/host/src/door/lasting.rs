//! Request and response bodies that last no longer than their guest's stay.

use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use http::StatusCode;
use hyper::body::Body as _;
use portolan_core::{RefusalCode, ports::Boxed};

use super::{
    denied::Denied,
    stay::{Over, Stay},
    watched::{self, Polled, Watch, Watched},
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
    if body.is_end_stream() { body } else { Body::new(Watched { body, watch: While(stay) }) }
}

struct While(Stay);

impl Watch for While {
    fn poll(&mut self, body: &mut Body, context: &mut Context<'_>) -> Polled {
        let frame = ready!(watched::next(body, context));
        Poll::Ready(match self.0.ended() {
            Some(why) => Some(Err(StayOver(why).into())),
            None => frame,
        })
    }
}

/// The body of a response: ended when the stay is over and the moment for a farewell has passed.
pub(super) fn response(body: Body, stay: Stay, farewell: Duration) -> Body {
    let watch = Until { stay, farewell, over: None };
    if body.is_end_stream() { body } else { Body::new(Watched { body, watch }) }
}

struct Until {
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

impl Watch for Until {
    fn poll(&mut self, body: &mut Body, context: &mut Context<'_>) -> Polled {
        if self.stay.is_over()
            && let Poll::Ready(why) = self.poll_over(context)
        {
            return Poll::Ready(Some(Err(StayOver(why).into())));
        }
        match watched::next(body, context) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => self.poll_over(context).map(|why| Some(Err(StayOver(why).into()))),
        }
    }
}
