//! The door's answer to a refused request: a status and core's refusal as JSON, `{"error": {code, message}}`.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use portolan_core::{Refusal, RefusalCode};
use serde_json::json;

/// A refusal on its way out as an HTTP response. Frontends make theirs from a [`Refusal`].
#[derive(Clone, Debug, PartialEq)]
pub struct Denied {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason.
    pub refusal: Refusal,
}

impl Denied {
    /// A refusal with its own status.
    pub fn new(status: StatusCode, code: RefusalCode, message: impl Into<String>) -> Self {
        Self { status, refusal: Refusal::new(code, message) }
    }

    /// An unknown client.
    pub fn unauthenticated() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            RefusalCode::Unauthenticated,
            "a valid token is needed: send `Authorization: Bearer TOKEN`, or log in with a ticket",
        )
    }

    /// Too many requests; come back after this time.
    pub fn too_often(message: impl Into<String>, retry_after_ms: u32) -> Self {
        Self { status: StatusCode::TOO_MANY_REQUESTS, refusal: Refusal::busy(message, retry_after_ms) }
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.code {
            RefusalCode::NotFound => StatusCode::NOT_FOUND,
            RefusalCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            RefusalCode::Forbidden => StatusCode::FORBIDDEN,
            RefusalCode::Unsupported | RefusalCode::AgentRefused => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalCode::Invalid => StatusCode::BAD_REQUEST,
            RefusalCode::Busy => StatusCode::TOO_MANY_REQUESTS,
            RefusalCode::AlreadyClosed
            | RefusalCode::Stale
            | RefusalCode::NotRunning
            | RefusalCode::Ended => StatusCode::CONFLICT,
            RefusalCode::StoreFailing | RefusalCode::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            RefusalCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, refusal }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let retry = self.refusal.retry_after_ms.map(|ms| HeaderValue::from(ms.div_ceil(1000)));
        let mut response = (self.status, Json(json!({ "error": self.refusal }))).into_response();
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // For the guard, if the frontend has its own form.
        response.extensions_mut().insert(self);
        response
    }
}
