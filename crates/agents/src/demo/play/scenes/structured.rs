//! A result that fits a JSON Schema: the simplest value that does.

use serde_json::{Map, Value, json};

use super::super::stage::{Played, Stage};

/// How deep a schema is followed: otherwise a schema that refers to itself never ends.
const DEPTH: usize = 16;

pub(super) async fn play(stage: &Stage) -> Played {
    if stage.with(|inner| inner.spec.json_schema.is_some()) {
        stage
            .say("This session has a JSON Schema. The result that fits it comes at the end of the turn.")
            .await
    } else {
        let words = "Start a session with a JSON Schema, and every turn ends with data that fits it. This session has \
                     no schema.";
        stage.say(words).await
    }
}

/// The simplest value that fits; none if no value fits, or if the schema is too complex for the demo.
pub(in super::super) fn example(schema: &Value) -> Option<Value> {
    value(schema, 0)
}

fn value(schema: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH {
        return None;
    }
    let schema = match schema {
        Value::Bool(true) => return Some(Value::Null),
        Value::Object(schema) => schema,
        _ => return None,
    };
    if let Some(only) = schema.get("const") {
        return Some(only.clone());
    }
    if let Some(choices) = schema.get("enum") {
        return choices.as_array()?.first().cloned();
    }
    if schema.contains_key("not") || schema.contains_key("$ref") {
        return None;
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            return choices.iter().find_map(|choice| value(choice, depth + 1));
        }
    }
    let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    Some(match kind {
        Some("object") => object(schema, depth)?,
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).min(8) as usize;
            let item = schema.get("items").map_or(Some(Value::Null), |items| value(items, depth + 1))?;
            Value::Array(vec![item; least])
        }
        Some("string") => {
            let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0).min(1000) as usize;
            let text = "portolan";
            Value::from(text.repeat(least.div_ceil(text.len()).max(1)))
        }
        Some("integer") => Value::from(schema.get("minimum").and_then(Value::as_i64).unwrap_or(1)),
        Some("number") => Value::from(schema.get("minimum").and_then(Value::as_f64).unwrap_or(1.5)),
        Some("boolean") => Value::Bool(true),
        Some(_) => Value::Null,
        None if schema.contains_key("properties") => object(schema, depth)?,
        None => json!({}),
    })
}

fn object(schema: &Map<String, Value>, depth: usize) -> Option<Value> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let fields = properties.iter().map(|(name, schema)| Some((name.clone(), value(schema, depth + 1)?)));
    fields.collect::<Option<Map<_, _>>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_value_fits_its_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "count": { "type": "integer", "minimum": 3 },
                "kind": { "enum": ["a", "b"] },
                "tags": { "type": "array", "items": { "type": "boolean" } },
            },
        });
        let expected = json!({ "name": "portolan", "count": 3, "kind": "a", "tags": [true] });
        assert_eq!(example(&schema), Some(expected));
    }

    #[test]
    fn a_schema_that_nothing_fits_has_no_example() {
        assert_eq!(example(&json!(false)), None);
        assert_eq!(example(&json!({ "type": "object", "properties": { "x": { "not": {} } } })), None);
    }
}
