//! An MCP server over stdio with one tool, `depth`, for the scenario that tries MCP servers. It answers what an agent
//! asks of such a server, and nothing else; it ends when its input does.

use std::io::{self, BufRead as _, Read as _, Write as _};

use serde_json::{Value, json};

/// The longest line read: many times what an agent sends.
const LONGEST: u64 = 1024 * 1024;

fn main() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let mut line = String::new();
        if input.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(answer) = answer(&message) {
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
    }
}

/// The answer to a message; none to what is no request.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id").filter(|id| !id.is_null())?;
    let parameters = &message["params"];
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "contract-tool-server", "version": env!("CARGO_PKG_VERSION") },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [{
            "name": "depth",
            "description": "How deep the water is at a berth",
            "inputSchema": {
                "type": "object",
                "properties": { "berth": { "type": "string" } },
                "required": ["berth"],
            },
        }] }),
        "tools/call" => {
            let berth = parameters["arguments"]["berth"].as_str().unwrap_or("nowhere");
            json!({ "content": [{ "type": "text", "text": format!("berth {berth} is 12 fathoms deep") }] })
        }
        other => {
            let error = json!({ "code": -32601, "message": format!("no method `{other}`") });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
