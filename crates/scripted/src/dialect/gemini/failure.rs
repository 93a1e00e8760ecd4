//! Errors of the Gemini API: status, its name, and the message by which clients recognise them.

use http::StatusCode;
use serde_json::{Value, json};

use crate::step::{Failure, FailureKind};

pub(super) fn status(kind: FailureKind) -> StatusCode {
    match kind {
        FailureKind::BadRequest | FailureKind::PromptTooLong | FailureKind::TooLarge => {
            StatusCode::BAD_REQUEST
        }
        FailureKind::Unauthorized => StatusCode::UNAUTHORIZED,
        FailureKind::Forbidden => StatusCode::FORBIDDEN,
        FailureKind::NotFound => StatusCode::NOT_FOUND,
        FailureKind::RateLimited | FailureKind::NoCredit => StatusCode::TOO_MANY_REQUESTS,
        FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        FailureKind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(super) fn body(failure: &Failure) -> Value {
    let (word, words) = match failure.kind {
        FailureKind::BadRequest => ("INVALID_ARGUMENT", "Request contains an invalid argument."),
        FailureKind::PromptTooLong => {
            ("INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed.")
        }
        FailureKind::TooLarge => ("INVALID_ARGUMENT", "Request payload size exceeds the limit."),
        FailureKind::Unauthorized => ("UNAUTHENTICATED", "API key not valid. Please pass a valid API key."),
        FailureKind::Forbidden => ("PERMISSION_DENIED", "The caller does not have permission."),
        FailureKind::NotFound => ("NOT_FOUND", "The model is not found."),
        FailureKind::RateLimited => ("RESOURCE_EXHAUSTED", "Resource has been exhausted."),
        FailureKind::NoCredit => ("RESOURCE_EXHAUSTED", "You exceeded your current quota."),
        FailureKind::Internal => ("INTERNAL", "An internal error has occurred."),
        FailureKind::Overloaded => ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    };
    let message = failure.message.as_deref().unwrap_or(words);
    let mut error = json!({ "code": status(failure.kind).as_u16(), "message": message, "status": word });
    if let Some(seconds) = failure.retry_after {
        error["details"] = json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s") }]);
    }
    json!({ "error": error })
}
