//! Dialects: the form of one model API. The seam between a script and its bytes.
//!
//! A dialect is pure. It reads a request into [`Asked`], and writes a [`Message`] or a [`Failure`] as the real API
//! would; it knows nothing of sockets, waiting or rules. Another API is one more folder here and one more line in
//! `all`.

mod anthropic;
mod chat;
mod gemini;
mod openai;

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header::AUTHORIZATION};
use portolan_wire::sse;
use serde_json::Value;

use crate::{
    asked::Asked,
    record::Credential,
    step::{Failure, Message},
};

/// All dialects. The first one also answers paths that belong to none.
pub(crate) fn all() -> &'static [&'static dyn Dialect] {
    &[&anthropic::Anthropic, &openai::Responses, &chat::ChatCompletions, &gemini::Gemini]
}

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A turn of the model.
    Reply,
    /// How many tokens a request has.
    Count,
    /// The list of models.
    Models,
}

/// Gives new ids that begin with the given prefix.
pub type Mint<'a> = &'a mut dyn FnMut(&str) -> String;

/// A piece of a stream, and the wait before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The wait before it.
    pub wait: Duration,
    /// The bytes.
    pub bytes: Bytes,
}

/// A streamed turn, in two parts: a stream that is to be cut off ends between them, inside its last block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// From the first byte to the last delta.
    pub opening: Vec<Beat>,
    /// The end of the stream.
    pub closing: Vec<Beat>,
}

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Value,
}

/// One model API.
pub trait Dialect: Send + Sync + fmt::Debug {
    /// The purpose of this method and path, if they belong to this API.
    fn route(&self, method: &Method, path: &str) -> Option<Route>;
    /// The key of a request, and its kind: a bearer token for most APIs.
    fn credential<'a>(&self, headers: &'a HeaderMap) -> (Credential, Option<&'a str>) {
        bearer(headers)
    }
    /// Reads a request, or returns why it cannot be read.
    fn read(&self, path: &str, headers: &HeaderMap, body: &Value) -> Result<Asked, String>;
    /// A turn as a stream.
    fn stream(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream;
    /// A turn as one body.
    fn whole(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Value;
    /// A token count.
    fn count(&self, tokens: u64) -> Value;
    /// A list of models; the dialect's own if `models` is empty.
    fn models(&self, models: &[String]) -> Value;
    /// An error in place of an answer.
    fn refusal(&self, failure: &Failure, request_id: &str) -> Refusal;
    /// An error inside a stream.
    fn broken(&self, failure: &Failure, request_id: &str) -> Bytes;
    /// The header in which the API names a request, and the prefix of such a name.
    fn request_id(&self) -> (&'static str, &'static str) {
        ("x-request-id", "req_")
    }
}

fn bearer(headers: &HeaderMap) -> (Credential, Option<&str>) {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if bearer.is_some() { (Credential::Bearer, bearer) } else { (Credential::None, None) }
}

/// A server-sent event.
fn event(name: Option<&str>, data: &Value) -> Bytes {
    let mut bytes = Vec::new();
    sse::encode(None, name, data.to_string().as_bytes(), &mut bytes);
    bytes.into()
}
