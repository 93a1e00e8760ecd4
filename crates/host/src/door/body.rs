//! Bodies from outside: bounded in bytes, in time and in depth before anything reads them.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
};
use http::{HeaderMap, StatusCode, header};
use http_body_util::Limited;
use hyper::body::Body as _;
use portolan_core::RefusalCode;
use serde::de::DeserializeOwned;

use super::{
    admit::KnownBySecret,
    denied::Denied,
    guard::Guest,
    lasting::{StayOver, put_out},
    settings::{DoorLimits, JSON_DEPTH},
    watched::{self, Polled, Watch, Watched},
};

/// Puts the bounds around a body. A body that declares too great a length is refused unread.
pub(super) fn bounded(headers: &HeaderMap, body: Body, most: Most) -> Result<Body, Denied> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > most.bytes as u64) {
        return Err(too_long());
    }
    // Most requests have no body; they need no timer.
    if body.is_end_stream() {
        return Ok(body);
    }
    let watch = InTime(Box::pin(tokio::time::sleep(most.time)));
    Ok(Body::new(Limited::new(Watched { body, watch }, most.bytes)))
}

/// The bounds of a body, in bytes and in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    bytes: usize,
    time: Duration,
}

/// The largest body from an unknown client: a ticket, with a large margin. Every connection may bring one, so thousands
/// of them must fit into memory.
const STRANGERS_BYTES: usize = 4 * 1024;

impl DoorLimits {
    /// The bounds of the body of a request that passed the checks.
    pub(super) fn body_of(&self, request: &http::Extensions) -> Most {
        if request.get::<Guest>().is_some() || request.get::<KnownBySecret>().is_some() {
            Most { bytes: self.body_bytes, time: self.body }
        } else {
            Most { bytes: self.body_bytes.min(STRANGERS_BYTES), time: self.body.min(self.head) }
        }
    }
}

fn too_long() -> Denied {
    Denied::new(StatusCode::PAYLOAD_TOO_LARGE, RefusalCode::Invalid, "the request's body is too long")
}

/// A body must be complete by a certain time: a slow sender holds nothing for long.
struct InTime(Pin<Box<tokio::time::Sleep>>);

#[derive(Debug, thiserror::Error)]
#[error("the request's body took too long")]
struct TooSlow;

impl Watch for InTime {
    fn poll(&mut self, body: &mut Body, context: &mut Context<'_>) -> Polled {
        match watched::next(body, context) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => self.0.as_mut().poll(context).map(|()| Some(Err(TooSlow.into()))),
        }
    }
}

/// A JSON body. Refuses another content type (a foreign page's form could send that), too much depth and invalid JSON,
/// each in plain words.
#[derive(Clone, Copy, Debug)]
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Denied;

    async fn from_request(request: Request, _: &S) -> Result<Self, Denied> {
        let invalid = |status, message: String| Denied::new(status, RefusalCode::Invalid, message);
        let is_json =
            request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|text| {
                text.split(';')
                    .next()
                    .is_some_and(|mime| mime.trim().eq_ignore_ascii_case("application/json"))
            });
        if !is_json {
            let message = "the body must be JSON: send `Content-Type: application/json`";
            return Err(invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, message.into()));
        }
        let bytes = collect(request.into_body()).await?;
        if json_depth_exceeds(&bytes, JSON_DEPTH) {
            return Err(invalid(
                StatusCode::BAD_REQUEST,
                format!("the body nests deeper than {JSON_DEPTH} levels"),
            ));
        }
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Self).map_err(|error| {
            invalid(StatusCode::BAD_REQUEST, format!("the body cannot be read: {}", reason(&error)))
        })
    }
}

/// The whole body, within the bounds of the door.
pub async fn collect(body: Body) -> Result<Bytes, Denied> {
    use http_body_util::{BodyExt as _, LengthLimitError};
    let error = match body.collect().await {
        Ok(collected) => return Ok(collected.to_bytes()),
        Err(error) => error,
    };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Err(too_long());
        }
        if let Some(StayOver(why)) = error.downcast_ref() {
            return Err(put_out(*why));
        }
        if error.is::<TooSlow>() {
            return Err(Denied::new(StatusCode::REQUEST_TIMEOUT, RefusalCode::Invalid, TooSlow.to_string()));
        }
        cause = error.source();
    }
    Err(Denied::new(StatusCode::BAD_REQUEST, RefusalCode::Invalid, "the request's body broke off"))
}

/// How much of a parser's error is repeated, in bytes: the error quotes the input, which may be long and unprintable.
const REASON: usize = 400;

/// Why JSON cannot be read, in a form that a message can repeat.
pub fn reason(error: &serde_json::Error) -> String {
    let mut told = String::new();
    for character in error.to_string().chars() {
        if told.len() >= REASON {
            told.push('…');
            break;
        }
        if character.is_control() {
            told.extend(character.escape_debug());
        } else {
            told.push(character);
        }
    }
    told
}

/// Whether JSON text nests deeper than `levels`. The parser decides whether the text is JSON.
pub fn json_depth_exceeds(text: &[u8], levels: usize) -> bool {
    portolan_wire::limits::check_depth(text, levels).is_err()
}
