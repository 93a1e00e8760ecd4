//! Errors of both OpenAI APIs: status, code and the message by which clients recognise them.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    dialect::Refusal,
    step::{Failure, FailureKind},
};

/// The error response.
pub(in crate::dialect) fn refusal(failure: &Failure) -> Refusal {
    Refusal { status: status(failure.kind), body: body(failure) }
}

fn status(kind: FailureKind) -> StatusCode {
    match kind {
        FailureKind::BadRequest | FailureKind::PromptTooLong => StatusCode::BAD_REQUEST,
        FailureKind::Unauthorized => StatusCode::UNAUTHORIZED,
        FailureKind::Forbidden => StatusCode::FORBIDDEN,
        FailureKind::NotFound => StatusCode::NOT_FOUND,
        FailureKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        FailureKind::RateLimited | FailureKind::NoCredit => StatusCode::TOO_MANY_REQUESTS,
        FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        FailureKind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(in crate::dialect) fn body(failure: &Failure) -> Value {
    let (kind, code, words) = match failure.kind {
        FailureKind::BadRequest => ("invalid_request_error", Value::Null, "Invalid request"),
        FailureKind::PromptTooLong => (
            "invalid_request_error",
            json!("context_length_exceeded"),
            "Your input exceeds the context window of this model",
        ),
        FailureKind::NoCredit => {
            ("insufficient_quota", json!("insufficient_quota"), "You exceeded your current quota")
        }
        FailureKind::Unauthorized => {
            ("invalid_request_error", json!("invalid_api_key"), "Incorrect API key provided")
        }
        FailureKind::Forbidden => ("invalid_request_error", Value::Null, "You may not do this"),
        FailureKind::NotFound => ("invalid_request_error", json!("model_not_found"), "Not found"),
        FailureKind::TooLarge => ("invalid_request_error", Value::Null, "The request is too large"),
        FailureKind::RateLimited => ("requests", json!("rate_limit_exceeded"), "Rate limit reached"),
        FailureKind::Internal => ("server_error", json!("server_error"), "The server had an error"),
        FailureKind::Overloaded => {
            ("server_error", json!("server_is_overloaded"), "The server is overloaded")
        }
    };
    let message = failure.message.as_deref().unwrap_or(words);
    json!({ "error": { "type": kind, "code": code, "message": message, "param": null } })
}
