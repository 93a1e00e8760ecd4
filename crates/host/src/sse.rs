//! A response that is a stream of server-sent events: its head, and a body of chunks from one task. Each protocol
//! defines the content of the chunks.

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

/// A comment after this time without an event keeps proxies from closing the stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// A client that reads nothing for this long is dropped; the client can reconnect and continue.
pub const STALLED: Duration = Duration::from_secs(10);

/// The response with these chunks as its body, until no more can come. One chunk at a time is on its way: while the
/// network accepts nothing, its maker waits.
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
        // Without this header nginx would buffer the events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    // The maker of the chunks sends the reason when it ends.
    response.extensions_mut().insert(Farewell);
    (chunks, response)
}
