//! The OpenAI Chat Completions API, which most other providers speak too: `POST /v1/chat/completions`, streamed and
//! whole. Its list of models has the same path as the Messages API's, which answers it in a form that fits both.

mod request;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::{
    Dialect, Mint, Refusal, Route, Stream, event,
    openai::{self, failure},
};
use crate::{
    asked::Asked,
    step::{Failure, Message},
};

#[derive(Debug)]
pub(super) struct ChatCompletions;

impl Dialect for ChatCompletions {
    fn route(&self, method: &Method, path: &str) -> Option<Route> {
        (method == Method::POST && path == "/v1/chat/completions").then_some(Route::Reply)
    }

    fn read(&self, _path: &str, _headers: &HeaderMap, body: &Value) -> Result<Asked, String> {
        request::read(body)
    }

    fn stream(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Stream {
        stream::stream(asked, message, mint)
    }

    fn whole(&self, asked: &Asked, message: &Message, mint: Mint<'_>) -> Value {
        stream::whole(asked, message, mint)
    }

    fn count(&self, tokens: u64) -> Value {
        json!({ "total_tokens": tokens })
    }

    fn models(&self, models: &[String]) -> Value {
        openai::models(models)
    }

    fn refusal(&self, failure: &Failure, _request_id: &str) -> Refusal {
        failure::refusal(failure)
    }

    fn broken(&self, failure: &Failure, _request_id: &str) -> Bytes {
        event(None, &failure::body(failure))
    }
}
