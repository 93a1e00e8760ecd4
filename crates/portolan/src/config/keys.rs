//! Every key of the configuration, read from the types of the settings. `config` shows these keys, unknown keys are
//! compared with them, and docs/configuration.md is made from them. A setting is declared once, where it is used.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{Agent, Settings};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// A list of texts; in the environment separated by commas.
    List,
    /// Text by name.
    Table,
    /// Prices of models, by name.
    Prices,
}

impl Kind {
    /// The name of the type, for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Switch => "true or false",
            Self::List => "list of texts",
            Self::Table => "table of texts",
            Self::Prices => "table of prices",
        }
    }
}

/// One key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Its full name; `*` stands for any name.
    pub(crate) path: String,
    /// The type of its value.
    pub(crate) kind: Kind,
    /// The default, as in the file; empty means that there is none.
    pub(crate) default: String,
    /// What the key is for.
    pub(crate) doc: String,
}

/// Keys of an earlier version, and their names now.
pub(crate) const MOVED: &[(&str, &str)] = &[
    ("sessions.allow_bypass", "policy.allow_bypass"),
    ("insights.allow_bypass", "policy.allow_bypass"),
    ("requests.deadline_seconds", "policy.deadline_seconds"),
];

/// Every key, in the order of the settings.
pub(crate) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let inline = |settings: &mut SchemaSettings| settings.inline_subschemas = true;
    let schema = SchemaSettings::default().with(inline).into_generator().into_root_schema_for::<Settings>();
    let mut settings = Settings::default();
    settings.agents.each.insert(ANY.into(), Agent::default());
    // Our own types always serialise.
    let defaults = serde_json::to_value(&settings).unwrap_or_default();
    let mut keys = Vec::new();
    collect("", schema.as_value(), &defaults, &mut keys);
    keys
});

/// Stands for any name.
const ANY: &str = "*";

/// Adds the keys of a part of the settings: one value, or a table of values.
fn collect(path: &str, schema: &Value, default: &Value, keys: &mut Vec<Key>) {
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            collect(&inside(name), field, &default[name], keys);
        }
    }
    let has_tables = schema["additionalProperties"]["properties"].is_object() && default.get(ANY).is_some();
    if has_tables {
        collect(&inside(ANY), &schema["additionalProperties"], &default[ANY], keys);
    }
    if has_tables || schema["properties"].is_object() {
        return;
    }
    let doc = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
    let default = if default.is_null() { String::new() } else { default.to_string() };
    keys.push(Key { path: path.to_owned(), kind: kind(schema), default, doc });
}

fn kind(schema: &Value) -> Kind {
    let is = |name: &str| match &schema["type"] {
        Value::String(only) => only == name,
        Value::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    };
    if is("boolean") {
        Kind::Switch
    } else if is("integer") {
        Kind::Number
    } else if is("array") {
        Kind::List
    } else if !is("object") {
        Kind::Text
    } else if schema["additionalProperties"]["type"] == "string" {
        Kind::Table
    } else {
        Kind::Prices
    }
}

/// The environment variable of a key.
pub(crate) fn variable(path: &str) -> String {
    format!("PORTOLAN_{}", path.replace('.', "_").to_uppercase())
}

impl Key {
    /// The environment variable that sets this key. Keys of one agent have none, because users choose the agents' names.
    pub(crate) fn variable(&self) -> Option<String> {
        (!self.path.contains(ANY)).then(|| variable(&self.path))
    }

    /// Is this the key with that full name?
    pub(crate) fn matches(&self, path: &[&str]) -> bool {
        let own: Vec<&str> = self.path.split('.').collect();
        own.len() == path.len() && own.iter().zip(path).all(|(own, given)| *own == ANY || own == given)
    }

    /// Is this key below that path?
    pub(crate) fn lies_under(&self, path: &[&str]) -> bool {
        let own: Vec<&str> = self.path.split('.').collect();
        own.len() > path.len() && own.iter().zip(path).all(|(own, given)| *own == ANY || own == given)
    }
}

/// The key with that full name.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    let path: Vec<&str> = path.split('.').collect();
    KEYS.iter().find(|key| key.matches(&path))
}

/// The names that are valid as the last part of `path`.
pub(crate) fn siblings(path: &[&str]) -> Vec<&'static str> {
    let Some((_, parents)) = path.split_last() else { return Vec::new() };
    let mut names: Vec<&'static str> = KEYS
        .iter()
        .filter(|key| key.lies_under(parents))
        .filter_map(|key| key.path.split('.').nth(parents.len()))
        .filter(|name| *name != ANY)
        .collect();
    names.dedup();
    names
}

/// The candidate that is most similar to `given`, if one is similar enough.
pub(crate) fn similar<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Two words below this similarity only share letters.
    const ALIKE: f64 = 0.6;
    candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(given, candidate), candidate))
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_a_type_and_a_description() {
        let of = |path: &str| find(path).unwrap_or_else(|| panic!("no `{path}`"));
        assert!(KEYS.len() >= 40, "{}", KEYS.len());
        for key in KEYS.iter() {
            assert!(key.doc.ends_with('.') && !key.doc.contains('\n'), "{key:?}");
        }
        assert_eq!(
            (of("listen.address").kind, &*of("listen.address").default),
            (Kind::Text, "\"127.0.0.1:7420\"")
        );
        assert_eq!((of("listen.hosts").kind, &*of("listen.hosts").default), (Kind::List, "[]"));
        assert_eq!(
            (of("limits.liveness_seconds").kind, &*of("limits.liveness_seconds").default),
            (Kind::Number, "30")
        );
        assert_eq!(
            (of("policy.deadline_seconds").kind, &*of("policy.deadline_seconds").default),
            (Kind::Number, "")
        );
        assert_eq!((of("handheld.fill").kind, &*of("handheld.fill").default), (Kind::Switch, "true"));
        assert_eq!((of("agui.approvals").kind, &*of("agui.approvals").default), (Kind::Text, "\"event\""));
        assert_eq!(of("agents.mine.env").kind, Kind::Table);
        assert_eq!(of("agents.mine.prices").kind, Kind::Prices);
        assert_eq!(of("agents.mine.transport").kind, Kind::Text);
    }

    #[test]
    fn the_defaults_that_are_shown_are_the_defaults() {
        let mut text = String::from("[agents.x]\n");
        let mut others = String::new();
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            match key.path.strip_prefix("agents.*.") {
                Some(name) => text = format!("{text}{name} = {}\n", key.default),
                None => others = format!("{others}{} = {}\n", key.path, key.default),
            }
        }
        let read: Settings = toml::from_str(&(others + &text)).unwrap();
        let mut settings = Settings::default();
        settings.agents.each.insert("x".into(), Agent::default());
        assert_eq!(read, settings);
    }
}
