//! A short form of a request, for the daemon's log and the inbox: the session's own log holds the whole request, and an
//! input may be large.

use serde_json::Value;

use super::{Ask, Request};

/// A request up to this many bytes is repeated whole. Most are: a command, a path, a few questions.
const WHOLE: usize = 8 * 1024;

/// How many characters of a long text are kept, enough for a line in a list.
const CHARACTERS: usize = 200;

/// How many elements of a long list are kept.
const ELEMENTS: usize = 4;

impl Request {
    /// The request as the daemon's log holds it. A large request is `shortened`: to answer it, read the session's own
    /// entry.
    #[must_use]
    pub fn brief(&self) -> Self {
        // Our own types serialise.
        let mut ask = serde_json::to_value(&self.ask).unwrap_or_default();
        if ask.to_string().len() <= WHOLE {
            return self.clone();
        }
        shorten(&mut ask);
        let nothing = || Ask::Other { name: self.ask.kind().to_owned(), body: Value::Null };
        // Many names with long texts may still be too much.
        let short = Some(ask).filter(|ask| ask.to_string().len() <= WHOLE);
        let ask = short.and_then(|ask| serde_json::from_value(ask).ok()).unwrap_or_else(nothing);
        Self { ask, shortened: true, ..self.clone() }
    }
}

/// Keeps the beginning of every text and list, so that the value keeps its shape.
pub(crate) fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(CHARACTERS) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(elements) => {
            elements.truncate(ELEMENTS);
            elements.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Generation, Millis, RequestId};

    fn asks(ask: Ask) -> Request {
        Request {
            request: RequestId(7),
            generation: Generation(1),
            ask,
            parent: None,
            tool: Some("call".into()),
            digest: "digest of all of it".into(),
            opened_at: Millis(5),
            deadline: None,
            shortened: false,
            policy: None,
            suggested_rule: None,
        }
    }

    fn permission(input: Value) -> Request {
        asks(Ask::Permission {
            tool_name: "Write".into(),
            input,
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            folder: None,
            suggestions: vec![],
            options: vec![],
        })
    }

    #[test]
    fn a_small_request_is_repeated_whole_and_a_large_one_shortened() {
        let small = permission(json!({ "file_path": "/a", "content": "x".repeat(4000) }));
        assert_eq!(small.brief(), small);
        let large = permission(
            json!({ "file_path": "/a", "content": "é".repeat(1_000_000), "list": vec![1; 9_000] }),
        );
        let brief = large.brief();
        assert!(brief.shortened && serde_json::to_vec(&brief).unwrap().len() < 1024);
        assert_eq!((brief.request, &brief.digest, &brief.tool), (large.request, &large.digest, &large.tool));
        assert_eq!(brief.ask.title(), large.ask.title(), "a list shows the same line");
        let Ask::Permission { input, .. } = &brief.ask else { unreachable!("still a permission") };
        assert_eq!(input["content"], format!("{}…", "é".repeat(CHARACTERS)));
        assert_eq!(input["list"], json!([1, 1, 1, 1]));
    }

    #[test]
    fn whatever_is_asked_fits() {
        let names: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("name {n}"), json!(n))).collect();
        for ask in [
            permission(Value::Object(names)).ask,
            Ask::Plan { plan: Some("# plan ".repeat(10_000)), input: Value::Null },
            Ask::Other { name: "n".repeat(100_000), body: Value::Null },
            Ask::Hook { event: "e".into(), input: json!(vec!["x".repeat(300); 5_000]) },
        ] {
            let brief = asks(ask).brief();
            assert!(brief.shortened && serde_json::to_vec(&brief).unwrap().len() <= WHOLE + 1024);
        }
    }
}
