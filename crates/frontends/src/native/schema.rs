//! Every generated file of the native protocol: JSON Schema and TypeScript from frames, OpenAPI from the table of
//! routes.
//!
//! The files under `schemas/` are checked in; a test fails when they differ from the output of this code.

use portolan_core::{
    Refusal,
    policy::{BudgetDraft, RuleDraft},
    ports::LogIn,
};
use portolan_protocol::{
    ArchivePast, CreateSession, CreateToken, PROTOCOL, ReplyBody, SendCommand, SimulateRule, TakeUpPast,
    TestRule,
    schema::{EXACT, bound, json_schema, typescript},
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::rest::{
    route::{Gives, Method, Needs, Parameter, Route, Shape},
    table,
};

/// Every generated file: its path from the root of the repository, and its text.
pub fn generate() -> Vec<(&'static str, String)> {
    vec![
        ("schemas/protocol.schema.json", pretty(&json_schema())),
        ("schemas/protocol.ts", typescript()),
        // The client's package must be self-contained.
        ("web/client/src/protocol.ts", typescript()),
        ("schemas/openapi.json", pretty(&openapi())),
    ]
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

// --------------------------------------------------------------------------------------- OpenAPI

fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    component::<CreateSession>(&mut generator);
    component::<TakeUpPast>(&mut generator);
    component::<ArchivePast>(&mut generator);
    component::<LogIn>(&mut generator);
    component::<SendCommand>(&mut generator);
    component::<CreateToken>(&mut generator);
    component::<RuleDraft>(&mut generator);
    component::<BudgetDraft>(&mut generator);
    component::<TestRule>(&mut generator);
    component::<SimulateRule>(&mut generator);
    component::<ReplyBody>(&mut generator);
    component::<Refusal>(&mut generator);
    let mut schemas = generator.take_definitions(true);
    let replies = schemas.remove("ReplyBody").unwrap_or_default();
    for reply in replies["oneOf"].as_array().into_iter().flatten() {
        if let Some(name) = reply["properties"]["reply"]["const"].as_str() {
            schemas.insert(reply_name(name), reply.clone());
        }
    }
    schemas.insert("BrowserLogin".into(), object(&[("ticket", "The ticket, which works only once.")]));
    schemas.insert(
        "Key".into(),
        object(&[("key", "Keep the key in the origin's storage, and send it with every request.")]),
    );
    schemas.insert(
        "Error".into(),
        json!({"type": "object", "required": ["error"], "properties": {"error": reference("Refusal")}}),
    );
    schemas.values_mut().for_each(bound);
    let mut paths = Map::new();
    for route in table() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[method(route.method)] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portolan",
            "version": PROTOCOL.to_string(),
            "description": "The native protocol by REST and SSE. The same commands go by WebSocket; docs/protocol.md \
                            in the repository specifies both.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "security": [{"bearer": []}, {"cookie": [], "key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": portolan_host::door::COOKIE},
                "key": {"type": "apiKey", "in": "header", "name": portolan_host::door::KEY_HEADER},
            },
            "schemas": schemas,
        },
    })
}

fn component<T: JsonSchema>(generator: &mut SchemaGenerator) {
    // The result is only a reference; the schema itself stays in the generator.
    let _ = generator.subschema_for::<T>();
}

fn object(fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, about)| ((*name).to_owned(), json!({"type": "string", "description": about})))
        .collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn method(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

/// `token_list` becomes `TokenListReply`.
fn reply_name(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    format!("{}Reply", words.collect::<String>())
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(route: &Route) -> Value {
    let content = |kind: &str, schema: Value| json!({kind: {"schema": schema}});
    let answer = match route.gives {
        Gives::Reply(name) => {
            json!({"description": "As asked.", "content": content("application/json", reference(&reply_name(name)))})
        }
        Gives::Key => {
            json!({"description": "Logged in.", "content": content("application/json", reference("Key"))})
        }
        Gives::Text(kind) => {
            json!({"description": "As asked.", "content": content(kind, json!({"type": "string"}))})
        }
        Gives::Nothing => json!({"description": "Done."}),
        Gives::Switch => json!({"description": "The connection is a WebSocket now."}),
    };
    let role = match route.needs {
        Needs::Nobody => "No token is needed.",
        Needs::Viewer => "A token of any role.",
        Needs::Operator => "A token with the role operator or owner.",
        Needs::Owner => "A token with the role owner.",
    };
    let refused =
        json!({"description": "Refused.", "content": content("application/json", reference("Error"))});
    let mut operation = json!({
        "summary": route.summary,
        "description": role,
        "responses": {route.status.to_string(): answer, "default": refused},
    });
    if route.needs == Needs::Nobody {
        operation["security"] = json!([]);
    }
    if !route.parameters.is_empty() {
        operation["parameters"] = route.parameters.iter().map(parameter).collect();
    }
    if let Some(name) = route.takes {
        let body = content("application/json", reference(name));
        operation["requestBody"] = json!({"required": true, "content": body});
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.about,
        "schema": match parameter.shape {
            Shape::Text => json!({"type": "string", "minLength": 1}),
            Shape::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
            Shape::AtMost(characters) => json!({"type": "string", "maxLength": characters}),
            Shape::Flag => json!({"type": "boolean"}),
            Shape::Entry => json!({"type": "integer", "minimum": 0, "maximum": EXACT}),
            Shape::Count(least) => json!({"type": "integer", "minimum": least, "maximum": u32::MAX}),
            Shape::Only(text) => json!({"type": "string", "const": text}),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    // covers: 003-173
    #[test]
    fn the_files_in_the_repository_are_what_the_types_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (path, text) in generate() {
            if std::env::var_os("UPDATE").is_some() {
                fs::write(root.join(path), &text).unwrap();
            }
            let found = fs::read_to_string(root.join(path)).unwrap_or_default();
            assert!(
                found == text,
                "{path} is not up to date; run this test with UPDATE=1 and look at the diff"
            );
        }
    }

    #[test]
    fn every_type_that_the_routes_name_is_in_the_document() {
        let document = openapi();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for name in text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(schemas.contains_key(name), "no schema `{name}`");
        }
    }
}
