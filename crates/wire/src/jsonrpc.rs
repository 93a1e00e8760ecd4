//! JSON-RPC between two equals: both may ask, both may tell, one message per line.
//!
//! Owns the envelope, and the map of what we asked and wait for. Knows no method: parameters and results stay raw text,
//! so that whatever a newer peer adds is carried through. Reads leniently (the `jsonrpc` member may be missing, fields
//! may be more) and writes strictly.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json, value::RawValue};

/// The name of a request. Numbers and texts are different names, and are sent back as they came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number; zero is one like any other.
    Number(i64),
    /// A text.
    Text(String),
}

impl Id {
    /// As a key that no id of the other kind has.
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
    /// In words.
    #[serde(default)]
    pub message: String,
    /// What else is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Error {
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters make no sense.
    pub const INVALID_PARAMS: i64 = -32602;
    /// It went wrong here.
    pub const INTERNAL: i64 = -32603;
}

/// What the other side says.
#[derive(Debug)]
pub enum Message<'a> {
    /// It asks, and waits for the answer.
    Request {
        /// The name to answer to.
        id: Id,
        /// What it wants done.
        method: String,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// It tells.
    Notification {
        /// What happened.
        method: String,
        /// The details.
        params: Option<&'a RawValue>,
    },
    /// It answers.
    Response {
        /// What it answers to.
        id: Id,
        /// The result, or why there is none.
        result: Result<Option<&'a RawValue>, Error>,
    },
}

/// A line that is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Not JSON, or not an object.
    #[error("{0}")]
    Form(String),
    /// An object that neither asks, tells nor answers.
    #[error("neither a request nor a notification nor a response")]
    Nothing,
    /// Its id is neither a number nor a text.
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

/// A member that is there, be it null: a result may well be.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(source: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(source).map(Some)
}

/// Reads one line.
pub fn read(line: &str) -> Result<Message<'_>, Unread> {
    if !line.trim_start().starts_with('{') {
        // A list of the right parts would be read as an object as well.
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

/// An error in whatever form it came.
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
    /// With the member `jsonrpc`, as the standard says.
    #[default]
    Standard,
    /// Without it.
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

/// Requests of ours that may wait for their answer at once. Each of them has a time limit, so that more than this means
/// a peer that answers nothing.
pub const MAX_PENDING: usize = 1024;

/// What we asked and wait for, by the number that we gave it.
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
    /// Remembers what is about to be asked, and gives the id to ask it under; gives it back where too much waits.
    pub fn ask(&mut self, what: T) -> Result<Id, T> {
        if self.open.len() >= MAX_PENDING {
            return Err(what);
        }
        self.last += 1;
        self.open.insert(self.last, what);
        Ok(Id::Number(self.last))
    }

    /// What this answers; nothing where it was never asked, or is answered or given up already.
    pub fn settle(&mut self, id: &Id) -> Option<T> {
        match id {
            Id::Number(number) => self.open.remove(number),
            // We give out numbers only.
            Id::Text(_) => None,
        }
    }

    /// The ids of those that fit, oldest first.
    pub fn find(&self, mut fits: impl FnMut(&T) -> bool) -> Vec<Id> {
        let mut found: Vec<i64> =
            self.open.iter().filter(|(_, what)| fits(what)).map(|(id, _)| *id).collect();
        found.sort_unstable();
        found.into_iter().map(Id::Number).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// None waits.
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
            Ok(Message::Notification { method, params }) => format!("tells {method} {}", raw(params)),
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
            (r#"{"method":"a","params":[],"emittedAtMs":7}"#, "tells a []"),
            (r#"{"id":null,"method":"a"}"#, "tells a -"),
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
    fn what_is_written_is_read_as_what_it_was() {
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
                "tells m -",
                r#"answers "x\"y" {}"#,
                r#"fails "x\"y" -32601 no such method"#,
            ];
            assert_eq!(shown, expected);
            assert_eq!(lines[0].get("jsonrpc").is_some(), dialect == Dialect::Standard);
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_only_for_what_was_asked() {
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
