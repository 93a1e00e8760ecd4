//! Errors of the Anthropic API: status, type and the message by which clients recognise them.

use http::StatusCode;
use serde_json::{Value, json};

use crate::step::{Failure, FailureKind};

pub(super) fn status(kind: FailureKind) -> StatusCode {
    let code = match kind {
        FailureKind::BadRequest | FailureKind::PromptTooLong | FailureKind::NoCredit => 400,
        FailureKind::Unauthorized => 401,
        FailureKind::Forbidden => 403,
        FailureKind::NotFound => 404,
        FailureKind::TooLarge => 413,
        FailureKind::RateLimited => 429,
        FailureKind::Internal => 500,
        FailureKind::Overloaded => 529,
    };
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub(super) fn body(failure: &Failure, request_id: &str) -> Value {
    let (kind, words) = match failure.kind {
        FailureKind::BadRequest => ("invalid_request_error", "messages: invalid request"),
        FailureKind::PromptTooLong => {
            ("invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")
        }
        FailureKind::NoCredit => (
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
        ),
        FailureKind::Unauthorized => ("authentication_error", "invalid x-api-key"),
        FailureKind::Forbidden => {
            ("permission_error", "Your API key does not have permission to use the specified resource")
        }
        FailureKind::NotFound => ("not_found_error", "Not found"),
        FailureKind::TooLarge => ("request_too_large", "Request exceeds the maximum size"),
        FailureKind::RateLimited => {
            ("rate_limit_error", "This request would exceed the rate limit of your organization")
        }
        FailureKind::Internal => ("api_error", "Internal server error"),
        FailureKind::Overloaded => ("overloaded_error", "Overloaded"),
    };
    let message = failure.message.as_deref().unwrap_or(words);
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
}
