//! Portolan understands every input that the OpenAPI document allows: the test makes inputs from its schemas, for every
//! operation, and none is refused as malformed.

use std::collections::BTreeSet;

use ::http::header;
use axum::body::Body;
use proptest::{
    strategy::{Strategy, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::Map;

use super::{
    http::{Http, read},
    *,
};
use crate::native::rest::daemon::OPENAPI;
use portolan_host::door::LOGIN_PATH;

/// How many inputs are made for each operation.
const INPUTS: usize = 48;

/// Makes values that a schema allows, the same values every time.
struct Maker {
    document: Value,
    runner: TestRunner,
    session: String,
}

impl Maker {
    fn below(&mut self, most: usize) -> usize {
        self.one(0..most)
    }

    fn one<S: Strategy>(&mut self, strategy: S) -> S::Value {
        strategy.new_tree(&mut self.runner).unwrap().current()
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    /// The schema with its references resolved and one branch chosen.
    fn flat(&mut self, schema: &Value) -> Map<String, Value> {
        let Value::Object(schema) = schema else { return Map::new() };
        let mut flat = schema.clone();
        let mut parts = Vec::new();
        if let Some(Value::String(named)) = flat.remove("$ref") {
            parts.push(self.document.pointer(named.trim_start_matches('#')).expect(&named).clone());
        }
        for all in flat.remove("allOf").as_ref().and_then(Value::as_array).into_iter().flatten() {
            parts.push(all.clone());
        }
        for several in ["oneOf", "anyOf"] {
            if let Some(Value::Array(branches)) = flat.remove(several) {
                let chosen = self.below(branches.len());
                parts.push(branches[chosen].clone());
            }
        }
        for part in parts {
            let part = self.flat(&part);
            flat = merged(part, flat);
        }
        flat
    }

    /// A body that the schema allows. Branches are chosen without regard to other constraints, so some attempts fail.
    fn body(&mut self, schema: &Value) -> Value {
        let mut whole = schema.clone();
        whole["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&whole).unwrap();
        let mut tries = std::iter::repeat_with(|| self.value("", schema)).take(100);
        tries.find(|made| validator.is_valid(made)).expect("a value that the schema allows")
    }

    fn value(&mut self, name: &str, schema: &Value) -> Value {
        // Values that depend on this machine: an existing folder, an existing agent.
        match name {
            "cwd" => return json!("/"),
            "extra_dirs" => return json!(["/"]),
            "agent" if self.chance() => return json!("willing"),
            _ => {}
        }
        let schema = self.flat(schema);
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(several) = schema.get("enum").and_then(Value::as_array) {
            return several[self.below(several.len())].clone();
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(Value::Array(kinds)) => kinds[self.below(kinds.len())].as_str().unwrap().to_owned(),
            _ if schema.contains_key("properties") => "object".to_owned(),
            _ => {
                return [json!(null), json!(7), json!("x"), json!({"a": [1, {"b": null}]})][self.below(4)]
                    .clone();
            }
        };
        match kind.as_str() {
            "null" => Value::Null,
            "boolean" => json!(self.chance()),
            "integer" => {
                let least = schema.get("minimum").and_then(Value::as_u64).unwrap_or(0);
                let most = schema.get("maximum").and_then(Value::as_u64).unwrap_or(u64::from(u32::MAX));
                json!([least, most, self.one(least..=most), most.min(least + 3)][self.below(4)])
            }
            "number" => {
                assert_eq!(schema.get("exclusiveMinimum"), Some(&json!(0)), "the only kind there is");
                json!([f64::MIN_POSITIVE, 0.5, 1e300][self.below(3)])
            }
            "string" => json!(self.text(&schema)),
            "array" => self.array(name, &schema),
            "object" => self.object(&schema),
            other => panic!("a schema of type `{other}`"),
        }
    }

    fn text(&mut self, schema: &Map<String, Value>) -> String {
        let length =
            |key: &str, usual| schema.get(key).and_then(Value::as_u64).map_or(usual, |it| it as usize);
        let (least, most) = (length("minLength", 0), length("maxLength", 12));
        let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else {
            let count = self.one(least..=most);
            return self.one(proptest::collection::vec(proptest::char::any(), count)).into_iter().collect();
        };
        let bare = pattern.trim_start_matches('^').trim_end_matches('$');
        self.one(proptest::string::string_regex(bare).expect(pattern))
    }

    fn array(&mut self, name: &str, schema: &Map<String, Value>) -> Value {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
        let count = least + self.below(3);
        let items = schema.get("items").cloned().unwrap_or_default();
        let mut made: Vec<Value> = (0..count).map(|_| self.value(name, &items)).collect();
        if schema.get("uniqueItems") == Some(&json!(true)) {
            let mut seen = BTreeSet::new();
            made.retain(|item| seen.insert(item.to_string()));
        }
        json!(made)
    }

    fn object(&mut self, schema: &Map<String, Value>) -> Value {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut made = Map::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&name.as_str()) || self.chance() {
                made.insert(name.clone(), self.value(name, property));
            }
        }
        let Some(others) =
            schema.get("additionalProperties").filter(|others| others.is_object() || **others == json!(true))
        else {
            return json!(made);
        };
        let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0) as usize;
        let names = schema.get("propertyNames").and_then(Value::as_object).cloned().unwrap_or_default();
        for _ in 0..least + self.below(2) {
            let name = self.text(&names);
            made.insert(name, self.value("", others));
        }
        json!(made)
    }
}

/// A value for both schemas.
fn merged(mut one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in other {
        match (key.as_str(), one.remove(&key), value) {
            ("properties", Some(Value::Object(mut known)), Value::Object(more)) => {
                for (name, schema) in more {
                    let both = match known.remove(&name) {
                        Some(first) => json!({"allOf": [first, schema]}),
                        None => schema,
                    };
                    known.insert(name, both);
                }
                one.insert(key, Value::Object(known));
            }
            ("required", Some(Value::Array(mut known)), Value::Array(more)) => {
                known.extend(more);
                one.insert(key, Value::Array(known));
            }
            (_, _, value) => {
                one.insert(key, value);
            }
        }
    }
    one
}

/// Percent-encodes every byte except letters and digits.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| {
        if byte.is_ascii_alphanumeric() {
            text + &char::from(byte).to_string()
        } else {
            text + &format!("%{byte:02X}")
        }
    })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[tokio::test]
async fn whatever_the_openapi_document_allows_is_not_refused_as_malformed() {
    let mut http = Http::with(Stand::under(vec![obedient(), willing()], Policy::default()).await).await;
    // Small, so that its files are listed quickly.
    let folder = tempfile::tempdir().unwrap();
    let spec = json!({"agent": "willing", "cwd": folder.path()});
    let (_, made) = http.post("/api/v1/sessions", json!({"spec": spec})).await;
    let session = made["session"]["session"].as_str().unwrap().to_owned();
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut maker = Maker { document: document.clone(), runner: TestRunner::deterministic(), session };
    let mut refused = BTreeSet::new();
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let label = format!("{} {path}", method.to_uppercase());
            // No rate limit.
            http.secret = http.stand.native.tokens.create(&label, Role::Owner, None, None).await.unwrap().1;
            // A client that guesses tickets is locked out.
            let inputs = if path == LOGIN_PATH { 2 } else { INPUTS };
            for _ in 0..inputs {
                let (mut address, mut query) = (path.clone(), Vec::new());
                let mut headers = Vec::new();
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    let name = parameter["name"].as_str().unwrap();
                    if parameter["required"] != true && maker.chance() {
                        continue;
                    }
                    let known =
                        name == "id" && path.contains("/sessions/") && method == "get" && maker.chance();
                    let value =
                        if known { json!(maker.session) } else { maker.value(name, &parameter["schema"]) };
                    let value = plain(&value);
                    match parameter["in"].as_str().unwrap() {
                        "path" => address = address.replace(&format!("{{{name}}}"), &escaped(&value)),
                        "query" => query.push(format!("{name}={}", escaped(&value))),
                        _ => headers.push((name.to_owned(), value)),
                    }
                }
                if !query.is_empty() {
                    address = format!("{address}?{}", query.join("&"));
                }
                let mut request = http.request(&method.to_uppercase(), &address);
                for (name, value) in &headers {
                    request = request.header(name, value);
                }
                let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                let mut sent = Value::Null;
                let body = if schema.is_null() {
                    Body::empty()
                } else {
                    sent = maker.body(schema);
                    request = request.header(header::CONTENT_TYPE, "application/json");
                    Body::from(sent.to_string())
                };
                let response = http.send(request, body).await;
                let status = response.status().as_u16();
                if status < 300 {
                    continue;
                }
                let (_, told) = read(response).await;
                let code = told["error"]["code"].as_str().unwrap_or("none").to_owned();
                // There is no connection for a WebSocket here; but the request was understood.
                let message = told["error"]["message"].as_str().unwrap_or_default();
                if message == "this connection cannot be upgraded" {
                    continue;
                }
                // The same short name was made before: the name itself is valid.
                if message.starts_with("a token `") {
                    continue;
                }
                // What the text of a rule means, and whether its folder is there, no schema can say.
                if label.contains("/api/v1/rules") || label.contains("/api/v1/policy/") {
                    assert!(matches!(status, 400 | 404), "{label}: {status} {message}");
                    continue;
                }
                // Nor whether the folder of a project is there.
                if label.contains("/api/v1/budgets") && message.contains("is not a folder") {
                    continue;
                }
                if code == "invalid" || matches!(status, 400 | 405 | 413 | 415 | 429 | 500..) {
                    refused
                        .insert(format!("{label}: {status} {} {address} {sent}", told["error"]["message"]));
                }
            }
        }
    }
    assert!(operations > 30, "{operations}");
    let shown: Vec<_> = refused.iter().take(20).collect();
    assert!(refused.is_empty(), "{} inputs were refused: {shown:#?}", refused.len());
}

#[test]
fn the_schemas_allow_what_the_documentation_shows() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let allows = |name: &str, value: Value| {
        let mut schema = json!({"$ref": format!("#/components/schemas/{name}")});
        schema["components"] = document["components"].clone();
        jsonschema::validator_for(&schema).unwrap().is_valid(&value)
    };
    let image = json!({"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="});
    let words = json!({"type": "text", "text": "\u{4f60}\u{597d}"});
    assert!(allows("SendCommand", json!({"name": "prompt", "content": [words, image]})));
    assert!(allows("SendCommand", json!({"id": "c-1", "name": "rename", "to": "new name"})));
    assert!(!allows("SendCommand", json!({"name": "prompt", "content": []})));
    assert!(!allows("SendCommand", json!({"name": "prompt", "content": [{"type": "text", "text": " "}]})));
    assert!(!allows("SendCommand", json!({"id": "no good", "name": "interrupt"})));
    assert!(allows("CreateSession", json!({"spec": {"agent": "demo", "cwd": "/home/ada", "name": "x"}})));
    let fork = json!({"session": "019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10"});
    assert!(allows("CreateSession", json!({"spec": {"agent": "demo", "fork": fork}})));
    assert!(!allows("CreateSession", json!({"spec": {"agent": "demo"}})));
    assert!(allows("TakeUpPast", json!({"past": "0aaaaaaa", "spec": {"agent": ""}})));
    assert!(!allows("TakeUpPast", json!({"past": "0aaaaaaa", "spec": {"agent": "", "resume": "x"}})));
    assert!(allows(
        "CreateToken",
        json!({"name": "Ada's phone", "role": "operator", "expires_in_seconds": 60})
    ));
    assert!(!allows("CreateToken", json!({"name": " ", "role": "operator"})));
}
