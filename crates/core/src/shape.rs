//! Rules for values beyond their type, for the schemas: patterns, lengths and bounds. Everything that core refuses as
//! `invalid` from the value alone is here, so that core accepts whatever a schema allows.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Text that is not only white space. U+0085 is white space to Rust and not to the patterns of JSON Schema.
const SOMETHING: &str = r"[^\s\u0085]";

/// Text with something visible: see `prompt::says`.
const VISIBLE: &str = r"[^\s\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0]";

/// A full session id.
pub(crate) const SESSION: &str = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$";

/// Any other id.
pub(crate) const ID: &str = "^[A-Za-z0-9._:-]{1,64}$";

/// A prompt.
pub(crate) fn prompt(_: &mut SchemaGenerator) -> Schema {
    let text = json_schema!({
        "description": "Text, usually Markdown.",
        "type": "object",
        "required": ["type", "text"],
        "properties": {"type": {"const": "text"}, "text": {"type": "string", "pattern": VISIBLE}},
    });
    let image = json_schema!({
        "description": "A picture.",
        "type": "object",
        "required": ["type", "media_type", "data"],
        "properties": {
            "type": {"const": "image"},
            "media_type": {"type": "string", "pattern": "^image/[A-Za-z0-9.+-]+$"},
            "data": {
                "description": "Base64.",
                "type": "string",
                "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$",
            },
        },
    });
    let resource = json_schema!({
        "description": "A file or another thing with a URI.",
        "type": "object",
        "required": ["type", "uri"],
        "properties": {
            "type": {"const": "resource"},
            "uri": {"type": "string", "pattern": VISIBLE},
            "name": {"type": ["string", "null"]},
            "text": {"type": ["string", "null"]},
        },
    });
    json_schema!({"type": "array", "items": {"oneOf": [text, image, resource]}})
}

/// A prompt that is required.
pub(crate) fn some_prompt(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = prompt(generator);
    schema.insert("minItems".into(), 1.into());
    schema
}

/// Environment variables by name.
pub(crate) fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": {"pattern": r"^[^=\u0000]+$"},
        "additionalProperties": {"type": "string", "pattern": r"^[^\u0000]*$"},
    })
}

/// Environment variables that are required.
pub(crate) fn some_variables(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = variables(generator);
    schema.insert("minProperties".into(), 1.into());
    schema
}

/// A session's name.
pub(crate) fn title(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": crate::spec::MAX_NAME, "pattern": SOMETHING})
}

/// A folder, or nothing.
pub(crate) fn folder(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^(/[^\u0000]*)?$"})
}

/// Folders.
pub(crate) fn folders(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "pattern": r"^/[^\u0000]*$"}})
}

/// A secret that is not empty.
pub(crate) fn secret(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": SOMETHING})
}
