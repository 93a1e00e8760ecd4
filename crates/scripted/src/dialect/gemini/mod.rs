//! The Gemini API: `POST /v1beta/models/MODEL:streamGenerateContent` (server-sent events, as `alt=sse` asks),
//! `:generateContent`, `:countTokens`, and `GET /v1beta/models`.

mod failure;
mod request;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::{Dialect, Mint, Refusal, Route, Stream, event};
use crate::{
    asked::Asked,
    record::Credential,
    step::{Failure, Message},
};

/// Models that clients of this API know.
const MODELS: [&str; 2] = ["gemini-2.5-pro", "gemini-2.5-flash"];

#[derive(Debug)]
pub(super) struct Gemini;

/// The parts of a path: the model, and the method.
fn named(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/v1beta/models/")?.split_once(':')
}

impl Dialect for Gemini {
    fn route(&self, method: &Method, path: &str) -> Option<Route> {
        if method == Method::GET && path == "/v1beta/models" {
            return Some(Route::Models);
        }
        match named(path).filter(|_| method == Method::POST)?.1 {
            "streamGenerateContent" | "generateContent" => Some(Route::Reply),
            "countTokens" => Some(Route::Count),
            _ => None,
        }
    }

    fn credential<'a>(&self, headers: &'a HeaderMap) -> (Credential, Option<&'a str>) {
        let key = headers.get("x-goog-api-key").and_then(|key| key.to_str().ok());
        if key.is_some() { (Credential::ApiKey, key) } else { (Credential::None, None) }
    }

    fn read(&self, path: &str, _headers: &HeaderMap, body: &Value) -> Result<Asked, String> {
        let (model, task) = named(path).ok_or("the path names no model")?;
        request::read(model, task, body)
    }

    fn stream(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
        stream::stream(asked, message, mint)
    }

    fn whole(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
        stream::whole(asked, message, mint)
    }

    fn count(&self, tokens: u64) -> Value {
        json!({ "totalTokens": tokens })
    }

    fn models(&self, models: &[String]) -> Value {
        let named = |id: &str| {
            json!({ "name": format!("models/{id}"), "displayName": id,
                "supportedGenerationMethods": ["generateContent", "countTokens"] })
        };
        let models: Vec<Value> = if models.is_empty() {
            MODELS.into_iter().map(named).collect()
        } else {
            models.iter().map(|id| named(id)).collect()
        };
        json!({ "models": models })
    }

    fn refusal(&self, failure: &Failure, _request_id: &str) -> Refusal {
        Refusal { status: failure::status(failure.kind), body: failure::body(failure) }
    }

    fn broken(&self, failure: &Failure, _request_id: &str) -> Bytes {
        event(None, &failure::body(failure))
    }
}
