//! An MCP server over stdio for the scenarios that try MCP servers: the tool `depth` answers, the tool `moor` first
//! asks the user for a berth (an elicitation). It answers the requests that an agent sends to such a server, and
//! nothing else; it ends with its input.

use std::io::{self, BufRead as _, Read as _, Write as _};

use serde_json::{Value, json};

/// The longest line that is read: many times what an agent sends.
const LONGEST: u64 = 1024 * 1024;

/// The id of the one question that the server can ask at a time.
const QUESTION: &str = "which-berth";

fn main() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut harbour = Harbour::default();
    loop {
        let mut line = String::new();
        if input.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(said) = harbour.hear(&message) {
            writeln!(output, "{said}")?;
            output.flush()?;
        }
    }
}

#[derive(Debug, Default)]
struct Harbour {
    /// The agent reports that it can ask its user.
    can_ask: bool,
    /// The call that waits for the user.
    mooring: Option<Value>,
}

impl Harbour {
    /// The reply to a message; none if it needs no answer.
    fn hear(&mut self, message: &Value) -> Option<Value> {
        let id = message.get("id").filter(|id| !id.is_null())?;
        let Some(method) = message["method"].as_str() else { return self.answered(id, message) };
        let parameters = &message["params"];
        let result = match method {
            "initialize" => {
                self.can_ask = parameters["capabilities"]["elicitation"].is_object();
                json!({
                    "protocolVersion": parameters["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "contract-tool-server", "version": env!("CARGO_PKG_VERSION") },
                })
            }
            "ping" => json!({}),
            "tools/list" => json!({ "tools": [
                {
                    "name": "depth",
                    "description": "How deep the water is at a berth",
                    "inputSchema": {
                        "type": "object",
                        "properties": { "berth": { "type": "string" } },
                        "required": ["berth"],
                    },
                },
                {
                    "name": "moor",
                    "description": "Moors at a berth that the user chooses",
                    "inputSchema": { "type": "object", "properties": {} },
                },
            ] }),
            "tools/call" if parameters["name"] == "moor" && self.can_ask => {
                self.mooring = Some(id.clone());
                return Some(question());
            }
            "tools/call" if parameters["name"] == "moor" => text("nobody can be asked here"),
            "tools/call" => {
                let berth = parameters["arguments"]["berth"].as_str().unwrap_or("nowhere");
                text(&format!("berth {berth} is 12 fathoms deep"))
            }
            other => {
                let error = json!({ "code": -32601, "message": format!("no method `{other}`") });
                return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    /// The user's answer ends the call that waited for it.
    fn answered(&mut self, id: &Value, message: &Value) -> Option<Value> {
        let call = self.mooring.take().filter(|_| id == QUESTION)?;
        let told = match message["result"]["action"].as_str() {
            Some("accept") => {
                format!(
                    "moored at berth {}",
                    message["result"]["content"]["berth"].as_str().unwrap_or("nowhere")
                )
            }
            Some(other) => format!("not moored: {other}"),
            None => format!("not moored: {}", message["error"]["message"]),
        };
        Some(json!({ "jsonrpc": "2.0", "id": call, "result": text(&told) }))
    }
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn question() -> Value {
    json!({ "jsonrpc": "2.0", "id": QUESTION, "method": "elicitation/create", "params": {
        "message": "Which berth?",
        "requestedSchema": {
            "type": "object",
            "properties": { "berth": { "type": "string", "title": "Berth" } },
            "required": ["berth"],
        },
    } })
}
