//! Reads the JSON of an agent's own protocol. Lenient: what is missing or has another form is nothing.

use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

/// Reads raw JSON; nothing if it is absent or has another form.
pub(crate) fn open<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// A text in an object; empty if missing.
pub(crate) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// A text in an object, if present.
pub(crate) fn some_text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
