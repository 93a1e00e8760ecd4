//! JSON Schema of the insights protocol, written from its types. The file is checked in; a test fails when it differs
//! from the output of this code, and every test checks every message against it.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::wire::{ClientMessage, ServerMessage};

/// Every generated file: its path from the root of the repository, and its text.
pub fn generate() -> Vec<(&'static str, String)> {
    vec![("schemas/insights.schema.json", format!("{:#}\n", json_schema()))]
}

fn json_schema() -> Value {
    // A client may leave fields out, but the server always sends them: the same types need two schemas.
    let mut client = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut server = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let any_of = [client.subschema_for::<ClientMessage>(), server.subschema_for::<ServerMessage>()];
    let mut types = client.take_definitions(true);
    types.extend(server.take_definitions(true));
    for message in variants(&mut types, "ClientMessage") {
        message["properties"]["id"] = json!({
            "description": "An id of the client's own, a UUID. A second message with the same id has no effect. The server never sends the id back.",
            "type": ["string", "null"],
        });
    }
    for message in variants(&mut types, "ServerMessage") {
        message["additionalProperties"] = false.into();
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The insights protocol of Portolan",
        "description": "One message. docs/frontends/insights.md says what they mean. Readers ignore types that they \
                        do not know.",
        "anyOf": any_of,
        "$defs": types,
    })
}

fn variants<'t>(
    types: &'t mut serde_json::Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'t mut Value> {
    types.get_mut(name).and_then(|message| message["oneOf"].as_array_mut()).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_schema_in_the_repository_is_what_the_types_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (path, text) in generate() {
            if std::env::var_os("UPDATE").is_some() {
                fs::write(root.join(path), &text).unwrap();
            }
            let found = fs::read_to_string(root.join(path)).unwrap_or_default();
            assert!(found == text, "{path} is not up to date; run `cargo xtask schemas`");
        }
    }

    #[test]
    fn the_schema_knows_every_message() {
        let schema = json_schema();
        let types = |name: &str| -> Vec<String> {
            let variants = schema["$defs"][name]["oneOf"].as_array().unwrap();
            variants.iter().map(|it| it["properties"]["type"]["const"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(types("ClientMessage"), ClientMessage::TYPES);
        assert_eq!(types("ServerMessage").len(), 17);
    }
}
