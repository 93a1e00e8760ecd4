//! The handshake by which a request becomes a WebSocket.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// A request that may become a WebSocket.
#[derive(Debug)]
pub struct Upgrade {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Upgrade {
    /// Checks the handshake (RFC 6455, 4.2.1); the error says what is wrong.
    pub fn of(parts: &mut Parts) -> Result<Self, (StatusCode, &'static str)> {
        if parts.method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET"));
        }
        if !names(&parts.headers, &header::CONNECTION, "upgrade")
            || !names(&parts.headers, &header::UPGRADE, "websocket")
        {
            return Err((
                StatusCode::UPGRADE_REQUIRED,
                "this path accepts only WebSocket; see docs/protocol.md",
            ));
        }
        if parts.headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err((StatusCode::BAD_REQUEST, "only WebSocket version 13 is supported"));
        }
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
        let key =
            key.ok_or((StatusCode::BAD_REQUEST, "the Sec-WebSocket-Key is missing or has the wrong length"))?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()))
            .map_err(|_| (StatusCode::BAD_REQUEST, "the Sec-WebSocket-Key cannot be used"))?;
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or((StatusCode::UPGRADE_REQUIRED, "this connection cannot be upgraded"))?;
        Ok(Self { accept, upgrade })
    }

    /// The answer to the request, and the byte stream after the answer is sent.
    pub fn accept(self) -> (Response<Body>, impl Future<Output = Option<TokioIo<Upgraded>>>) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        (response, async { self.upgrade.await.ok().map(TokioIo::new) })
    }
}

/// Does this comma-separated header name `what`, in upper or lower case?
fn names(headers: &HeaderMap, header: &header::HeaderName, what: &str) -> bool {
    let values = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(what))
}
