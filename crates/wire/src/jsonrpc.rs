//! JSON-RPC between two peers: both may send requests and notifications, one message per line.
//!
//! Owns the envelope, and the map of our open requests. Knows no method: parameters and results stay raw text, so that
//! additions of a newer peer are passed through. Reads leniently (the `jsonrpc` member may be missing, unknown fields
//! are accepted) and writes strictly.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json, value::RawValue};

/// The id of a request. Numbers and texts are different ids, and are sent back unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number; zero is allowed.
    Number(i64),
    /// A text.
    Text(String),
}

impl Id {
    /// A key that no id of the other kind has.
    pub fn key(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => Value::from(text.as_str()).to_string(),
        }
    }
}

/// Why a request was not answered with a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// The sender's number for the kind of error.
    #[serde(default)]
    pub code: i64,
    /// The error, in words.
    #[serde(default)]
    pub message: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Error {
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are not valid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An internal error.
    pub const INTERNAL: i64 = -32603;
}

/// A message from the other side.
#[derive(Debug)]
pub enum Message<'a> {
    /// A request, which waits for an answer.
    Request {
        /// The id for the answer.
        id: Id,
        /// The method.
        method: String,
        /// The parameters.
        params: Option<&'a RawValue>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<&'a RawValue>,
    },
    /// An answer.
    Response {
        /// The id of the request.
        id: Id,
        /// The result, or why there is none.
        result: Result<Option<&'a RawValue>, Error>,
    },
}

/// A line that is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Not JSON, or not an object.
    #[error("{0}")]
    Form(String),
    /// An object that is neither a request, a notification nor an answer.
    #[error("neither a request nor a notification nor a response")]
    Nothing,
    /// The id is neither a number nor a text.
    #[error("its id is neither a whole number nor a text")]
    Id,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// A present member, even if it is null: a result may be null.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(source: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(source).map(Some)
}

/// Reads one line.
pub fn read(line: &str) -> Result<Message<'_>, Unread> {
    if !line.trim_start().starts_with('{') {
        // A list of the right parts would also be read as an object.
        return Err(Unread::Form("not an object".into()));
    }
    let envelope: Envelope<'_> =
        serde_json::from_str(line).map_err(|error| Unread::Form(error.to_string()))?;
    let id = envelope.id.filter(|raw| raw.get() != "null");
    let id = id.map(|raw| serde_json::from_str(raw.get()).map_err(|_| Unread::Id)).transpose()?;
    match (id, envelope.method) {
        (Some(id), Some(method)) => Ok(Message::Request { id, method, params: envelope.params }),
        (None, Some(method)) => Ok(Message::Notification { method, params: envelope.params }),
        (Some(id), None) => {
            let error = envelope.error.filter(|raw| raw.get() != "null");
            match (error, envelope.result) {
                (Some(error), _) => Ok(Message::Response { id, result: Err(failure(error)) }),
                (None, Some(result)) => Ok(Message::Response { id, result: Ok(Some(result)) }),
                (None, None) => Err(Unread::Nothing),
            }
        }
        (None, None) => Err(Unread::Nothing),
    }
}

/// An error in any form.
fn failure(raw: &RawValue) -> Error {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| Error {
        code: 0,
        message: "an error that cannot be read".into(),
        data: serde_json::from_str(raw.get()).ok(),
    })
}

/// How messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// With the member `jsonrpc`, as the standard requires.
    #[default]
    Standard,
    /// Without the member `jsonrpc`.
    Bare,
}

impl Dialect {
    fn envelope(self, mut message: Value) -> Value {
        if self == Self::Standard {
            message["jsonrpc"] = json!("2.0");
        }
        message
    }

    /// A request.
    pub fn request(self, id: &Id, method: &str, params: Option<Value>) -> Value {
        let mut message = json!({ "id": id, "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        self.envelope(message)
    }

    /// A notification.
    pub fn notification(self, method: &str, params: Option<Value>) -> Value {
        let mut message = json!({ "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        self.envelope(message)
    }

    /// The answer to a request.
    pub fn result(self, id: &Id, result: Value) -> Value {
        let mut message = json!({ "id": id });
        message["result"] = result;
        self.envelope(message)
    }

    /// Why a request has no result.
    pub fn error(self, id: &Id, code: i64, words: &str) -> Value {
        self.envelope(json!({ "id": id, "error": { "code": code, "message": words } }))
    }
}

/// How many of our requests may be open at once. Each has a time limit, so more than this means a peer that answers
/// nothing.
pub const MAX_PENDING: usize = 1024;

/// Our open requests, by their number.
#[derive(Debug)]
pub struct Pending<T> {
    last: i64,
    open: HashMap<i64, T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { last: 0, open: HashMap::new() }
    }
}

impl<T> Pending<T> {
    /// Remembers a new request, and returns its id; returns the request if too many are open.
    pub fn ask(&mut self, what: T) -> Result<Id, T> {
        if self.open.len() >= MAX_PENDING {
            return Err(what);
        }
        self.last += 1;
        self.open.insert(self.last, what);
        Ok(Id::Number(self.last))
    }

    /// The request that this answers; `None` if it was never sent, or is already answered or given up.
    pub fn settle(&mut self, id: &Id) -> Option<T> {
        match id {
            Id::Number(number) => self.open.remove(number),
            // Our ids are numbers only.
            Id::Text(_) => None,
        }
    }

    /// The ids of the requests that match, oldest first.
    pub fn find(&self, mut fits: impl FnMut(&T) -> bool) -> Vec<Id> {
        let mut found: Vec<i64> =
            self.open.iter().filter(|(_, what)| fits(what)).map(|(id, _)| *id).collect();
        found.sort_unstable();
        found.into_iter().map(Id::Number).collect()
    }

    /// The number of open requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no request is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let raw = |raw: Option<&RawValue>| raw.map_or("-".to_owned(), |raw| raw.get().to_owned());
        match read(line) {
            Ok(Message::Request { id, method, params }) => {
                format!("asks {} {method} {}", id.key(), raw(params))
            }
            Ok(Message::Notification { method, params }) => format!("notifies {method} {}", raw(params)),
            Ok(Message::Response { id, result: Ok(result) }) => {
                format!("answers {} {}", id.key(), raw(result))
            }
            Ok(Message::Response { id, result: Err(error) }) => {
                format!("fails {} {} {}", id.key(), error.code, error.message)
            }
            Err(error) => format!("unread: {error}"),
        }
    }

    #[test]
    fn every_kind_of_message_is_read_with_or_without_the_member_jsonrpc() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":0,"method":"a","params":{"b":1}}"#, r#"asks 0 a {"b":1}"#),
            (r#"{"id":"0","method":"a"}"#, r#"asks "0" a -"#),
            (r#"{"method":"a","params":[],"emittedAtMs":7}"#, "notifies a []"),
            (r#"{"id":null,"method":"a"}"#, "notifies a -"),
            (r#"{"id":3,"result":null}"#, "answers 3 null"),
            (r#"{"id":3,"result":{}}"#, "answers 3 {}"),
            (r#"{"error":{"code":-32600,"message":"no"},"id":3}"#, "fails 3 -32600 no"),
            (r#"{"error":"no","id":3}"#, "fails 3 0 an error that cannot be read"),
            (r#"{"id":3,"error":null,"result":1}"#, "answers 3 1"),
            (r#"{"id":99}"#, "unread: neither a request nor a notification nor a response"),
            (r#"{"id":{},"method":"a"}"#, "unread: its id is neither a whole number nor a text"),
            (r#"{"id":1.5,"method":"a"}"#, "unread: its id is neither a whole number nor a text"),
            (r#"[1,"a"]"#, "unread: not an object"),
            ("hello", "unread: not an object"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }

    #[test]
    fn a_written_message_reads_back_as_itself() {
        for dialect in [Dialect::Standard, Dialect::Bare] {
            let id = Id::Text("x\"y".into());
            let lines = [
                dialect.request(&id, "m", Some(json!({ "a": 1 }))),
                dialect.notification("m", None),
                dialect.result(&id, json!({})),
                dialect.error(&id, Error::METHOD_NOT_FOUND, "no such method"),
            ];
            let shown: Vec<_> = lines.iter().map(|line| shown(&line.to_string())).collect();
            let expected = [
                r#"asks "x\"y" m {"a":1}"#,
                "notifies m -",
                r#"answers "x\"y" {}"#,
                r#"fails "x\"y" -32601 no such method"#,
            ];
            assert_eq!(shown, expected);
            assert_eq!(lines[0].get("jsonrpc").is_some(), dialect == Dialect::Standard);
        }
    }

    #[test]
    fn an_answer_is_accepted_once_and_only_for_an_open_request() {
        let mut pending = Pending::default();
        let id = pending.ask("first").unwrap();
        assert_eq!(pending.settle(&Id::Text("1".into())), None);
        assert_eq!(pending.settle(&Id::Number(7)), None);
        assert_eq!(pending.settle(&id), Some("first"));
        assert_eq!(pending.settle(&id), None);
        assert!(pending.is_empty());
    }

    #[test]
    fn no_more_than_the_bound_waits() {
        let mut pending = Pending::default();
        for number in 0..MAX_PENDING {
            pending.ask(number).unwrap();
        }
        assert_eq!(pending.ask(7), Err(7));
        assert_eq!(pending.len(), MAX_PENDING);
        assert_eq!(pending.find(|number| *number < 2), [Id::Number(1), Id::Number(2)]);
    }
}
