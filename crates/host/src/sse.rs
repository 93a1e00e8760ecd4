//! A response that is a stream of server-sent events: its head, and a body of the chunks that one task makes. What the
//! chunks say is each protocol's own.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use tokio::sync::mpsc;

use crate::door::Farewell;

/// A comment after so long without an event keeps proxies from closing the stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// A client that takes nothing for so long is let go; it can come back and go on.
pub const STALLED: Duration = Duration::from_secs(10);

/// The response whose body is these chunks, until no more can come. One chunk at a time is on its way: while the network
/// takes nothing, its maker waits.
pub fn response() -> (mpsc::Sender<Bytes>, Response) {
    let (chunks, body) = mpsc::channel::<Bytes>(1);
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
    // Whoever makes the chunks says why when it ends.
    response.extensions_mut().insert(Farewell);
    (chunks, response)
}
