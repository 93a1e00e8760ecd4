//! Errors of ACP agents as kinds that a user understands. Agents disagree about codes, so their messages count too.

use portolan_core::event::{ErrorInfo, ErrorKind};
use portolan_wire::jsonrpc::Error;

/// The agent asks for a login.
pub(super) const AUTH_REQUIRED: i64 = -32000;

/// The message, with the details that most agents put beside it.
pub(super) fn words(error: &Error) -> String {
    let data = error.data.as_ref();
    let details = data.and_then(|data| {
        let told = ["details", "message", "error"].iter().find_map(|key| data[*key].as_str());
        told.or_else(|| data.as_str()).filter(|details| !error.message.contains(details))
    });
    match (error.message.trim(), details) {
        ("", None) => format!("error {} without a message", error.code),
        ("", Some(details)) => details.to_owned(),
        (message, None) => message.to_owned(),
        (message, Some(details)) => format!("{message}: {details}"),
    }
}

/// The agent asks for a login.
pub(super) fn wants_login(error: &Error) -> bool {
    error.code == AUTH_REQUIRED || kind(error) == ErrorKind::Auth
}

/// The conversation does not exist. Seven agents have six ways to say it.
pub(super) fn is_lost(error: &Error) -> bool {
    let said = words(error).to_lowercase();
    error.code == -32002
        || [
            "not found",
            "no rollout found",
            "unknown session",
            "invalid session",
            "does not exist",
            "no previous sessions",
            "no such session",
        ]
        .iter()
        .any(|sign| said.contains(sign))
}

/// The numbers that stand alone. Agents quote the ids of requests in their errors; three digits inside an id are not a
/// status.
fn numbers(said: &str) -> impl Iterator<Item = &str> {
    said.split(|sign: char| !(sign.is_alphanumeric() || matches!(sign, '_' | '-')))
        .filter(|word| word.bytes().all(|sign| sign.is_ascii_digit()))
}

fn kind(error: &Error) -> ErrorKind {
    // Gemini and Qwen put the status of the model's service where the code belongs.
    match error.code {
        401 | 403 => return ErrorKind::Auth,
        402 => return ErrorKind::Billing,
        429 => return ErrorKind::RateLimit,
        503 | 529 => return ErrorKind::Overloaded,
        _ => {}
    }
    let said = words(error).to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    let status = |statuses: &[&str]| numbers(&said).any(|number| statuses.contains(&number));
    if error.code == AUTH_REQUIRED
        || status(&["401", "403"])
        || says(&["unauthorized", "authentication", "api key", "not logged in"])
    {
        ErrorKind::Auth
    } else if status(&["402"]) || says(&["quota", "billing", "credit"]) {
        ErrorKind::Billing
    } else if status(&["429"]) || says(&["rate limit", "too many requests"]) {
        ErrorKind::RateLimit
    } else if status(&["503", "529"]) || says(&["overloaded", "at capacity"]) {
        ErrorKind::Overloaded
    } else if says(&["context length", "context window", "prompt is too long", "too many tokens"]) {
        ErrorKind::ContextFull
    } else if status(&["404"]) || says(&["model not found", "no such model", "unknown model"]) {
        ErrorKind::ModelNotFound
    } else if says(&[
        "econnrefused",
        "enotfound",
        "connection",
        "network",
        "fetch failed",
        "error sending request",
        "cannot connect",
        "could not connect",
        "unable to connect",
        "econnreset",
        "etimedout",
        "eai_again",
        "ehostunreach",
        "enetunreach",
        "socket hang up",
        "timed out",
    ]) {
        ErrorKind::Network
    } else if status(&["500", "502"]) || says(&["server error"]) {
        ErrorKind::Server
    } else if error.code == Error::INVALID_PARAMS
        || status(&["400"])
        || says(&["invalid request", "bad request"])
    {
        ErrorKind::InvalidRequest
    } else {
        ErrorKind::Unknown
    }
}

/// The error as the session shows it; `login` is what the user can do to log in.
pub(super) fn info(error: &Error, login: &str) -> ErrorInfo {
    let kind = kind(error);
    let way_out = match kind {
        ErrorKind::Auth => Some(login.to_owned()),
        ErrorKind::Billing => {
            Some("wait until the limit is reset, add credit, or use another account".into())
        }
        ErrorKind::RateLimit => Some("wait a little, then send the prompt again".into()),
        ErrorKind::Overloaded | ErrorKind::Server => Some("try again in a moment".into()),
        ErrorKind::Network => Some("check the connection, a proxy, and the agent's model provider".into()),
        ErrorKind::ContextFull => {
            Some("make the context smaller with the agent's own command, or start a new session".into())
        }
        ErrorKind::ModelNotFound => Some("choose another model from the list of models".into()),
        ErrorKind::InvalidRequest => Some("change the prompt or the model".into()),
        // No better way out is known.
        _ => Some("send the prompt again; if that does not help, stop the session and resume it".into()),
    };
    ErrorInfo { kind, message: words(error), way_out }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: i64, message: &str, data: serde_json::Value) -> Error {
        Error { code, message: message.into(), data: Some(data).filter(|data| !data.is_null()) }
    }

    #[test]
    fn a_lost_conversation_is_recognised_in_every_wording() {
        for lost in [
            error(-32002, "Resource not found", json!({ "sessionId": "x" })),
            error(-32603, "Internal error", json!({ "details": "no rollout found for thread id x" })),
            error(-32603, "Internal error", json!({ "details": "Invalid session identifier \"x\"." })),
            error(-32602, "Session x not found", json!({ "sessionId": "x" })),
            error(-32603, "Internal error", json!({ "details": "unknown session: x" })),
        ] {
            assert!(is_lost(&lost), "{lost:?}");
        }
        assert!(!is_lost(&error(-32603, "Internal error", json!({ "details": "Request was aborted." }))));
    }

    #[test]
    fn every_error_is_a_kind_that_a_user_understands() {
        for (error, expected) in [
            (error(AUTH_REQUIRED, "Authentication required", json!(null)), ErrorKind::Auth),
            (error(-32603, "Internal error", json!({ "details": "HTTP 429" })), ErrorKind::RateLimit),
            (error(-32603, "fetch failed", json!(null)), ErrorKind::Network),
            // OpenCode 1.18.33, without a network.
            (
                error(
                    -32603,
                    "Internal error: Cannot connect to API: Unable to connect. Is the computer able to access the url?",
                    json!({ "service": "session", "errorName": "APIError" }),
                ),
                ErrorKind::Network,
            ),
            (error(-32603, "getaddrinfo EAI_AGAIN api.harbour.example", json!(null)), ErrorKind::Network),
            (error(-32603, "read ECONNRESET", json!(null)), ErrorKind::Network),
            (
                error(429, "Resource has been exhausted (e.g. check quota).", json!(null)),
                ErrorKind::RateLimit,
            ),
            (error(401, "{}", json!(null)), ErrorKind::Auth),
            (error(503, "The model is busy", json!(null)), ErrorKind::Overloaded),
            (error(-32603, "Selected model is at capacity.", json!(null)), ErrorKind::Overloaded),
            (error(-32603, "Internal error", json!("context window exceeded")), ErrorKind::ContextFull),
            (error(-32602, "Invalid params", json!(null)), ErrorKind::InvalidRequest),
            (error(1, "", json!(null)), ErrorKind::Unknown),
            // Codex includes the id of the request; this id contains `403`.
            (
                error(
                    -32603,
                    "exceeded retry limit, last status: 429 Too Many Requests, request id: req_01a1e540312f74dd",
                    json!(null),
                ),
                ErrorKind::RateLimit,
            ),
            (error(-32603, "Internal error, request 8f2b-401-7c", json!(null)), ErrorKind::Unknown),
            (error(-32603, "Forbidden (403)", json!(null)), ErrorKind::Auth),
            (error(-32603, "status=429.", json!(null)), ErrorKind::RateLimit),
        ] {
            let info = info(&error, "log in");
            assert_eq!(info.kind, expected, "{error:?}");
            assert!(!info.message.is_empty());
            assert_eq!(info.way_out.as_deref() == Some("log in"), expected == ErrorKind::Auth);
            assert!(info.way_out.is_some(), "no way out of {error:?}");
        }
    }
}
