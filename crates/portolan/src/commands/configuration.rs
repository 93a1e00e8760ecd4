//! config: shows the values in use, and their origins.

use serde_json::{Value, json};

use super::Context;
use crate::{
    arguments::Config,
    config::{
        Settings,
        keys::KEYS,
        load::{self, Loaded, Origin},
    },
    failure::Outcome,
    home::Home,
    output::{self, Format},
};

pub(super) fn run(context: &Context, verb: Option<Config>) -> Outcome {
    let home = Home::find()?;
    match verb {
        Some(Config::Path) => match context.format() {
            Format::Json => output::json(&json!({"path": home.config()})),
            Format::Plain => output::line(home.config().display().to_string()),
        },
        Some(Config::Check) => {
            let loaded = load::load(&home.config(), &[])?;
            for warning in &loaded.warnings {
                output::note(format!("warning: {warning}"));
            }
            match context.format() {
                Format::Json => output::json(&json!({"ok": true, "warnings": loaded.warnings})),
                Format::Plain => {
                    output::note("the configuration is valid");
                    Ok(())
                }
            }
        }
        None => {
            let loaded = load::load(&home.config(), &[])?;
            let rows = effective(&loaded);
            match context.format() {
                Format::Json => {
                    let values: Vec<Value> = rows
                        .iter()
                        .map(|row| json!({"key": row.key, "value": row.value, "origin": row.origin.to_string()}))
                        .collect();
                    output::json(&values)
                }
                Format::Plain => {
                    let rows: Vec<Vec<String>> = rows
                        .iter()
                        .map(|row| vec![row.key.clone(), shown(&row.value), row.origin.to_string()])
                        .collect();
                    output::raw(output::table(&rows).as_bytes())
                }
            }
        }
    }
}

struct Row {
    key: String,
    value: Value,
    origin: Origin,
}

/// Every key with its value and its origin. Environment variables of agents are shown by name only.
fn effective(loaded: &Loaded) -> Vec<Row> {
    let values = serde_json::to_value(&loaded.settings).unwrap_or_default();
    let mut rows = Vec::new();
    for key in KEYS.iter() {
        match key.path.strip_prefix("agents.*.") {
            None => rows.push(row(loaded, &values, key.path.clone())),
            Some(name) => {
                for agent in loaded.settings.agents.keys() {
                    rows.push(row(loaded, &values, format!("agents.{agent}.{name}")));
                }
            }
        }
    }
    rows
}

fn row(loaded: &Loaded, values: &Value, path: String) -> Row {
    let pointer = format!("/{}", path.replace('.', "/"));
    let mut value = values.pointer(&pointer).cloned().unwrap_or_default();
    if path.rsplit('.').next() == Some("env")
        && let Value::Object(variables) = &mut value
    {
        for (_, value) in variables.iter_mut() {
            *value = Value::from("•••");
        }
    }
    let origin = loaded.origins.get(&path).cloned().unwrap_or(Origin::Default);
    Row { key: path, value, origin }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The settings of this home, for commands that need some of them.
pub(super) fn settings(home: &Home) -> Outcome<Settings> {
    Ok(load::load(&home.config(), &[])?.settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_their_origin_and_secrets_are_hidden() {
        let text = "[log]\nlevel = \"debug\"\n[agents.claude]\nenv = { KEY = \"hidden\" }\n";
        let loaded = load::assemble(text, [], &[]).unwrap();
        let rows: Vec<(String, String, String)> = effective(&loaded)
            .into_iter()
            .map(|row| (row.key, shown(&row.value), row.origin.to_string()))
            .filter(|(_, _, origin)| origin != "default")
            .collect();
        let expected = [
            ("log.level", "debug", "portolan.toml:2"),
            ("agents.claude.env", r#"{"KEY":"•••"}"#, "portolan.toml:4"),
        ]
        .map(|(key, value, origin)| (key.to_owned(), value.to_owned(), origin.to_owned()));
        assert_eq!(rows, expected);
    }
}
