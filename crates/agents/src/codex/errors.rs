//! Errors of a turn, as kinds that a user understands. Pure.

use portolan_core::event::{ErrorInfo, ErrorKind};
use serde_json::Value;

use super::wire::TurnError;

/// The word and the HTTP status in `codexErrorInfo`, which is a word or an object with one key.
fn told(info: &Value) -> (String, Option<u64>) {
    match info {
        Value::String(word) => (word.clone(), None),
        Value::Object(one) => {
            let (word, detail) =
                one.iter().next().map_or(("", &Value::Null), |(word, detail)| (word, detail));
            (word.to_owned(), detail["httpStatusCode"].as_u64())
        }
        _ => (String::new(), None),
    }
}

/// The kind of an error.
pub(super) fn kind(error: &TurnError) -> ErrorKind {
    let (word, status) = told(&error.codex_error_info);
    let says = |words: &[&str]| {
        let text = error.message.to_lowercase();
        words.iter().any(|word| text.contains(word))
    };
    match (word.as_str(), status) {
        ("unauthorized", _) | (_, Some(401 | 403)) => ErrorKind::Auth,
        ("usageLimitExceeded", _) | (_, Some(402)) => ErrorKind::Billing,
        ("rateLimitExceeded", _) | (_, Some(429)) => ErrorKind::RateLimit,
        ("contextWindowExceeded", _) => ErrorKind::ContextFull,
        ("serverOverloaded", _) | (_, Some(503 | 529)) => ErrorKind::Overloaded,
        (_, Some(404)) => ErrorKind::ModelNotFound,
        (_, Some(400..=499)) => ErrorKind::InvalidRequest,
        ("internalServerError", _) | (_, Some(500..=599)) => ErrorKind::Server,
        ("httpConnectionFailed" | "responseStreamConnectionFailed" | "responseStreamDisconnected", None) => {
            ErrorKind::Network
        }
        ("badRequest", _) => ErrorKind::InvalidRequest,
        ("sandboxError", _) => ErrorKind::Agent,
        _ if says(&["missing environment variable", "not logged in", "api key"]) => ErrorKind::Auth,
        _ if says(&["\"error\"", "invalid_request"]) => ErrorKind::InvalidRequest,
        _ if says(&["stream disconnected", "connection", "network"]) => ErrorKind::Network,
        _ => ErrorKind::Unknown,
    }
}

/// The error as the session shows it.
pub(super) fn info(error: &TurnError) -> ErrorInfo {
    let kind = kind(error);
    let mut message = error.message.clone();
    if let Some(details) = error.additional_details.as_deref().filter(|details| !details.is_empty()) {
        message = format!("{message} ({details})");
    }
    if message.is_empty() {
        message = "Codex did not report what went wrong".into();
    }
    ErrorInfo { kind, message, way_out: way_out(kind).map(Into::into) }
}

fn way_out(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Auth => "log in with `codex login`, or set the key of your model provider for the daemon",
        ErrorKind::Billing => "wait until the limit is reset, add credit, or log in with another account",
        ErrorKind::RateLimit => "wait a little, then send the prompt again",
        ErrorKind::Overloaded => "try again in a moment, or change the model",
        ErrorKind::Server => "try again in a moment",
        ErrorKind::Network => {
            "check the connection, a proxy, and the model provider in `~/.codex/config.toml`"
        }
        ErrorKind::ContextFull => "send `/compact`, or start a new session",
        ErrorKind::ModelNotFound => "choose another model from the list of models",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_error_of_a_turn_is_a_kind_that_a_user_understands() {
        for (told, message, expected) in [
            (json!({ "httpConnectionFailed": { "httpStatusCode": 401 } }), "", ErrorKind::Auth),
            (json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 429 } }), "", ErrorKind::RateLimit),
            (json!("usageLimitExceeded"), "", ErrorKind::Billing),
            (json!("rateLimitExceeded"), "", ErrorKind::RateLimit),
            (json!("internalServerError"), "", ErrorKind::Server),
            (json!("serverOverloaded"), "", ErrorKind::Overloaded),
            (json!("contextWindowExceeded"), "", ErrorKind::ContextFull),
            (json!({ "httpConnectionFailed": { "httpStatusCode": null } }), "", ErrorKind::Network),
            (json!("other"), "{\"error\": {}}", ErrorKind::InvalidRequest),
            (json!("other"), "Missing environment variable: `KEY`.", ErrorKind::Auth),
            (json!({ "somethingNewer": 7 }), "who knows", ErrorKind::Unknown),
            (Value::Null, "who knows", ErrorKind::Unknown),
        ] {
            let error =
                TurnError { message: message.into(), codex_error_info: told, additional_details: None };
            assert_eq!(kind(&error), expected, "{error:?}");
            assert!(!info(&error).message.is_empty());
        }
    }
}
