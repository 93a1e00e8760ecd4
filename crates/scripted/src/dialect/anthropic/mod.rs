//! The Anthropic Messages API: `POST /v1/messages`, streamed and whole, `POST /v1/messages/count_tokens` and
//! `GET /v1/models`.

mod failure;
mod notes;
mod request;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::{Dialect, Mint, Refusal, Route, Stream, bearer, event};
use crate::{
    asked::Asked,
    record::Credential,
    step::{Failure, Message},
};

/// Models that clients of this API know.
const MODELS: [&str; 3] = ["claude-opus-5-5", "claude-sonnet-4-6", "claude-haiku-4-5"];

#[derive(Debug)]
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn route(&self, method: &Method, path: &str) -> Option<Route> {
        match (method, path) {
            (&Method::POST, "/v1/messages") => Some(Route::Reply),
            (&Method::POST, "/v1/messages/count_tokens") => Some(Route::Count),
            (&Method::GET, "/v1/models") => Some(Route::Models),
            _ => None,
        }
    }

    fn credential<'a>(&self, headers: &'a HeaderMap) -> (Credential, Option<&'a str>) {
        if let Some(key) = headers.get("x-api-key") {
            return (Credential::ApiKey, key.to_str().ok());
        }
        bearer(headers)
    }

    fn read(&self, _path: &str, headers: &HeaderMap, body: &Value) -> Result<Asked, String> {
        request::read(headers, body)
    }

    fn stream(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
        stream::stream(asked, message, mint)
    }

    fn whole(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
        stream::whole(asked, message, mint)
    }

    fn count(&self, tokens: u64) -> Value {
        json!({ "input_tokens": tokens })
    }

    fn models(&self, models: &[String]) -> Value {
        let named = |id: &str| json!({"type": "model", "id": id, "display_name": id, "created_at": "2025-01-01T00:00:00Z"});
        let data: Vec<Value> = if models.is_empty() {
            MODELS.into_iter().map(named).collect()
        } else {
            models.iter().map(|id| named(id)).collect()
        };
        let end = |model: Option<&Value>| model.map_or(Value::Null, |model| model["id"].clone());
        json!({"first_id": end(data.first()), "last_id": end(data.last()), "data": data, "has_more": false})
    }

    fn refusal(&self, failure: &Failure, request_id: &str) -> Refusal {
        Refusal { status: failure::status(failure.kind), body: failure::body(failure, request_id) }
    }

    fn broken(&self, failure: &Failure, request_id: &str) -> Bytes {
        event(Some("error"), &failure::body(failure, request_id))
    }

    fn request_id(&self) -> (&'static str, &'static str) {
        ("request-id", "req_")
    }
}
