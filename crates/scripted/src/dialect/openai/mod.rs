//! The OpenAI Responses API: `POST /v1/responses`, streamed and whole.

pub(super) mod failure;
mod request;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::{Dialect, Mint, Refusal, Route, Stream};
use crate::{
    asked::Asked,
    step::{Failure, Message},
};

/// The list of models, in the form of both OpenAI APIs.
pub(super) fn models(models: &[String]) -> Value {
    let data: Vec<Value> = models.iter().map(|id| json!({ "id": id, "object": "model" })).collect();
    json!({ "object": "list", "data": data })
}

#[derive(Debug)]
pub(super) struct Responses;

impl Dialect for Responses {
    fn route(&self, method: &Method, path: &str) -> Option<Route> {
        (method == Method::POST && path == "/v1/responses").then_some(Route::Reply)
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
        json!({ "input_tokens": tokens })
    }

    fn models(&self, models: &[String]) -> Value {
        self::models(models)
    }

    fn refusal(&self, failure: &Failure, _request_id: &str) -> Refusal {
        failure::refusal(failure)
    }

    fn broken(&self, failure: &Failure, request_id: &str) -> Bytes {
        let error = failure::body(failure)["error"].clone();
        let response = json!({ "id": request_id, "status": "failed", "error": error });
        stream::event(&json!({ "type": "response.failed", "response": response }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::step::{Reply, call, text, thinking, tools};

    #[test]
    fn a_request_is_read_as_prompts_calls_and_results() {
        let body = json!({
            "model": "m", "stream": true, "prompt_cache_key": "s", "instructions": "be brief",
            "tools": [{ "type": "function", "name": "exec_command" },
                      { "type": "namespace", "name": "mcp__harbour", "tools": [{ "name": "depth" }] }],
            "input": [
                { "type": "additional_tools", "role": "developer", "tools": [{ "type": "custom", "name": "exec" }] },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "<environment_context>x" }] },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go" }, { "type": "input_image" }] },
                { "type": "reasoning" },
                { "type": "function_call", "call_id": "c", "name": "exec_command" },
                { "type": "function_call_output", "call_id": "c", "output": "done" },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "The user declined this tool call: no" }] },
            ],
        });
        let asked = request::read(&body).unwrap_or_default();
        assert_eq!((asked.prompt(), asked.prompts.len(), asked.turns, asked.images), ("go", 1, 1, 1));
        assert_eq!(asked.tools, ["exec_command", "mcp__harbour/depth", "exec"]);
        assert_eq!(
            asked.results.iter().map(|it| (&*it.name, &*it.text)).collect::<Vec<_>>(),
            [("exec_command", "done")]
        );
        assert_eq!(asked.notes, ["The user declined this tool call: no"]);
        assert!(request::read(&json!({})).is_err());
    }

    #[test]
    fn a_turn_is_items_of_the_kinds_that_clients_know() {
        let calls = [
            call("mcp__harbour/depth", json!({ "berth": 7 })),
            call("apply_patch", json!({ "input": "patch" })),
        ];
        let step = thinking("hm").and(text("hello")).and(tools(calls));
        let Reply::Say(message) = step.reply else { panic!("a message") };
        let whole = Responses.whole(&Asked::default(), &message, &mut |prefix| format!("{prefix}1"));
        let kinds: Vec<_> =
            whole["output"].as_array().into_iter().flatten().map(|item| item["type"].clone()).collect();
        assert_eq!(kinds, ["reasoning", "message", "function_call", "custom_tool_call"]);
        assert_eq!(
            (&whole["output"][2]["namespace"], &whole["output"][2]["name"]),
            (&json!("mcp__harbour"), &json!("depth"))
        );
        assert_eq!(whole["output"][3]["input"], "patch");
        let stream = Responses.stream(&Asked::default(), &message, &mut |prefix| format!("{prefix}1"));
        let last = stream
            .closing
            .last()
            .map(|beat| String::from_utf8_lossy(&beat.bytes).into_owned())
            .unwrap_or_default();
        assert!(last.starts_with("event: response.completed"), "{last}");
    }
}
