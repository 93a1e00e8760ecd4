//! Errors, as kinds that a user understands, each with a way out. Pure.

use portolan_core::event::{ErrorInfo, ErrorKind};

/// Everything that the CLI reports about a failed request to the model. It never reports all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    /// The CLI's own word, such as `rate_limit`. Newer versions have further words.
    pub(super) word: Option<String>,
    /// The HTTP status, if there was an answer.
    pub(super) status: Option<u16>,
    /// Why the turn ended, such as `prompt_too_long`.
    pub(super) terminal: Option<String>,
    /// Why the model stopped, such as `refusal`.
    pub(super) stop_reason: Option<String>,
    /// The message.
    pub(super) text: String,
}

impl Trouble {
    /// The error as a kind, with the message and a way out.
    pub(super) fn info(&self) -> ErrorInfo {
        let kind = self.kind();
        let message = if self.text.is_empty() { self.unspoken() } else { self.text.clone() };
        ErrorInfo { kind, message, way_out: way_out(kind).map(Into::into) }
    }

    fn unspoken(&self) -> String {
        match (&self.word, self.status) {
            (Some(word), Some(status)) => format!("the model's service answered {status} ({word})"),
            (None, Some(status)) => format!("the model's service answered {status}"),
            (Some(word), None) if word != "unknown" => format!("the request to the model failed ({word})"),
            (_, None) => "no answer from the model's service".into(),
        }
    }

    fn kind(&self) -> ErrorKind {
        if self.terminal.as_deref() == Some("prompt_too_long") || self.says(&["prompt is too long"]) {
            return ErrorKind::ContextFull;
        }
        if self.stop_reason.as_deref() == Some("refusal") {
            return ErrorKind::Refused;
        }
        match self.word.as_deref() {
            // Some versions report it as `rate_limit`, some as `server_error`.
            _ if self.status() == Some(529) => ErrorKind::Overloaded,
            Some("authentication_failed") => ErrorKind::Auth,
            Some("billing_error") => ErrorKind::Billing,
            Some("rate_limit") => ErrorKind::RateLimit,
            Some("overloaded") => ErrorKind::Overloaded,
            Some("model_not_found") => ErrorKind::ModelNotFound,
            Some("max_output_tokens") => ErrorKind::OutputLimit,
            Some("invalid_request") => ErrorKind::InvalidRequest,
            // `server_error` stands for a busy service, a broken service and no service at all.
            _ => self.kind_by_status(),
        }
    }

    /// Versions up to 2.1.89 report the status only in the text: `API Error: 429 {"type":"error",…}`.
    fn status(&self) -> Option<u16> {
        let in_words = || self.text.strip_prefix("API Error: ")?.get(..3)?.parse().ok();
        self.status.or_else(in_words)
    }

    fn kind_by_status(&self) -> ErrorKind {
        match self.status() {
            Some(401 | 403) => ErrorKind::Auth,
            Some(402) => ErrorKind::Billing,
            Some(404) => ErrorKind::ModelNotFound,
            Some(413) => ErrorKind::ContextFull,
            Some(429) => ErrorKind::RateLimit,
            Some(529) => ErrorKind::Overloaded,
            Some(400..=499) => ErrorKind::InvalidRequest,
            Some(500..=599) => ErrorKind::Server,
            _ if self.says(&["not logged in", "/login", "api key"]) => ErrorKind::Auth,
            _ if self.says(&["credit balance"]) => ErrorKind::Billing,
            _ if self.says(&["overloaded"]) => ErrorKind::Overloaded,
            _ if self.says(&["connect", "econn", "enotfound", "network", "fetch failed", "timed out"]) => {
                ErrorKind::Network
            }
            _ if self.word.as_deref() == Some("server_error") => ErrorKind::Server,
            _ => ErrorKind::Unknown,
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        let text = self.text.to_lowercase();
        words.iter().any(|word| text.contains(word))
    }
}

/// What the user can do about the error.
pub(super) fn way_out(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Auth => "log in with `claude /login`, or set ANTHROPIC_API_KEY for the daemon",
        ErrorKind::Billing => "add credit, or log in with another account",
        ErrorKind::RateLimit => "wait a little, then send the prompt again",
        ErrorKind::Overloaded => "try again in a moment, or change the model",
        ErrorKind::Server => "try again in a moment",
        ErrorKind::Network => "check the connection, a proxy, and ANTHROPIC_BASE_URL",
        ErrorKind::ContextFull => "send `/compact`, or start a new session",
        ErrorKind::ModelNotFound => "choose another model from the list of models",
        ErrorKind::OutputLimit => "ask for the rest, or for less at once",
        ErrorKind::Refused => "rephrase the prompt, or change the model",
        ErrorKind::InvalidRequest
        | ErrorKind::Limit
        | ErrorKind::Agent
        | ErrorKind::Protocol
        | ErrorKind::Unknown => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(word: &str, status: Option<u16>, text: &str) -> ErrorKind {
        Trouble { word: Some(word.into()), status, text: text.into(), ..Trouble::default() }.info().kind
    }

    // covers: 000-017, 000-018, 000-019, 000-020
    #[test]
    fn every_error_of_the_cli_is_a_kind_that_a_user_understands() {
        let refused = "API Error: Connection refused - a firewall or proxy may be blocking it (ECONNREFUSED)";
        for (word, status, text, expected) in [
            ("authentication_failed", Some(401), "Invalid API key", ErrorKind::Auth),
            ("authentication_failed", None, "Not logged in · Please run /login", ErrorKind::Auth),
            ("billing_error", Some(400), "Credit balance is too low", ErrorKind::Billing),
            ("rate_limit", Some(429), "API Error: Request rejected (429)", ErrorKind::RateLimit),
            ("server_error", Some(500), "API Error: 500 Internal server error", ErrorKind::Server),
            ("server_error", Some(529), "API Error: Repeated 529 Overloaded errors", ErrorKind::Overloaded),
            ("server_error", None, "API Error: Repeated 529 Overloaded errors", ErrorKind::Overloaded),
            ("overloaded", Some(529), "", ErrorKind::Overloaded),
            ("rate_limit", Some(529), "", ErrorKind::Overloaded),
            ("server_error", None, refused, ErrorKind::Network),
            ("model_not_found", Some(404), "There's an issue with the model", ErrorKind::ModelNotFound),
            ("invalid_request", Some(400), "Prompt is too long · limit 200000", ErrorKind::ContextFull),
            ("max_output_tokens", None, "exceeded the output token maximum", ErrorKind::OutputLimit),
            ("unknown", Some(400), "API Error: 400 bad request", ErrorKind::InvalidRequest),
            ("something_newer", None, "who knows", ErrorKind::Unknown),
            ("something_newer", Some(503), "who knows", ErrorKind::Server),
        ] {
            assert_eq!(kind(word, status, text), expected, "{word} {status:?} {text}");
        }
    }

    #[test]
    fn an_error_that_old_versions_report_only_as_text_has_its_kind_and_a_way_out() {
        for (status, expected) in [
            (401, ErrorKind::Auth),
            (429, ErrorKind::RateLimit),
            (500, ErrorKind::Server),
            (529, ErrorKind::Overloaded),
        ] {
            let text = format!(r#"API Error: {status} {{"type":"error","error":{{"message":"so it is"}}}}"#);
            let info = Trouble { text, ..Trouble::default() }.info();
            assert_eq!(info.kind, expected, "{status}");
            assert!(info.way_out.is_some(), "{status}");
        }
        let other = Trouble { text: "API Error: who knows".into(), ..Trouble::default() };
        assert_eq!(other.info().kind, ErrorKind::Unknown);
    }

    #[test]
    fn an_error_without_a_message_still_has_a_text() {
        let trouble = Trouble { word: Some("rate_limit".into()), status: Some(429), ..Trouble::default() };
        assert_eq!(trouble.info().message, "the model's service answered 429 (rate_limit)");
        assert!(trouble.info().way_out.is_some());
    }
}
