//! Results of commands for people: any answer of an agent, as lines and tables instead of JSON. Does not know the
//! fields of any agent; programs use `--json`.

use std::fmt::Write as _;

use portolan_core::event::McpServer;
use serde_json::{Map, Value};

use crate::{output::table, terminal::clean};

/// How deep nested values are laid out; deeper values are shown as JSON.
const DEEPEST: usize = 6;

/// MCP servers in a table.
pub(super) fn servers(servers: &[McpServer]) -> String {
    if servers.is_empty() {
        return "no MCP servers\n".to_owned();
    }
    let mut rows = vec![["SERVER", "STATUS", "TOOLS", ""].map(str::to_owned).to_vec()];
    for server in servers {
        rows.push(vec![
            clean::line(&server.name),
            clean::line(&server.status),
            server.tools.len().to_string(),
            clean::line(server.error.as_deref().unwrap_or_default()),
        ]);
    }
    table(&rows)
}

/// Any answer.
pub(super) fn answer(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Object(map) if map.len() == 1 && map.contains_key("servers") => {
            match serde_json::from_value::<Vec<McpServer>>(map["servers"].clone()) {
                Ok(found) => servers(&found),
                Err(_) => fields(map, 0),
            }
        }
        other => one(other, 0),
    }
}

fn one(value: &Value, depth: usize) -> String {
    match value {
        Value::Object(map) if depth < DEEPEST => fields(map, depth),
        Value::Array(all) if depth < DEEPEST => list(all, depth),
        plain => format!("{}{}\n", indent(depth), scalar(plain)),
    }
}

/// Fields with one value come first, in a column; fields with more values follow under their names.
fn fields(map: &Map<String, Value>, depth: usize) -> String {
    let (plain, nested): (Vec<_>, Vec<_>) = map.iter().partition(|(_, value)| is_scalar(value));
    let rows: Vec<Vec<String>> =
        plain.iter().map(|(name, value)| vec![indent(depth) + &label(name), scalar(value)]).collect();
    let mut out = table(&rows);
    for (name, value) in nested {
        if !is_empty(value) {
            // Writing into a string cannot fail.
            let _ = write!(out, "{}{}\n{}", indent(depth), label(name), one(value, depth + 1));
        }
    }
    out
}

/// Items of one kind as a table of their single values; other items one by one.
fn list(all: &[Value], depth: usize) -> String {
    let objects: Vec<&Map<String, Value>> = all.iter().filter_map(Value::as_object).collect();
    if objects.len() != all.len() {
        return all
            .iter()
            .map(|value| one(value, if is_scalar(value) { depth } else { depth + 1 }))
            .collect();
    }
    let mut columns: Vec<&String> = Vec::new();
    for (name, value) in objects.iter().flat_map(|object| object.iter()) {
        if is_scalar(value) && !columns.contains(&name) {
            columns.push(name);
        }
    }
    let cell = |object: &Map<String, Value>, name: &String| {
        object.get(name).filter(|value| is_scalar(value)).map(scalar).unwrap_or_default()
    };
    let row = |cells: Vec<String>| {
        let mut cells = cells;
        if let Some(first) = cells.first_mut() {
            *first = indent(depth) + first;
        }
        cells
    };
    let mut rows = vec![row(columns.iter().map(|name| label(name).to_uppercase()).collect())];
    rows.extend(objects.iter().map(|object| row(columns.iter().map(|name| cell(object, name)).collect())));
    table(&rows)
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Object(_) | Value::Array(_))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(all) => all.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean::line(text),
        other => clean::line(&other.to_string()),
    }
}

/// The name of a field as words: `totalTokens` and `total_tokens` are "total tokens".
fn label(name: &str) -> String {
    let mut out = String::new();
    let mut small = false;
    for character in clean::line(name).chars() {
        match character {
            '_' => out.push(' '),
            _ if character.is_uppercase() && small => {
                out.push(' ');
                out.extend(character.to_lowercase());
            }
            _ => out.push(character),
        }
        small = character.is_lowercase();
    }
    out
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_answer_becomes_lines_and_tables() {
        let value = json!({
            "totalTokens": 42, "model": "large\u{1b}[2J", "none": null,
            "categories": [{"name": "tools", "tokens": 2, "more": {"x": 1}}, {"name": "a long one", "tokens": 40}],
            "empty": [], "skills": {"total_skills": 1, "names": ["one", "two"]},
        });
        let expected = "\
total tokens  42
model         large
none          -
categories
  NAME        TOKENS
  tools       2
  a long one  40
skills
  total skills  1
  names
    one
    two
";
        assert_eq!(answer(&value), expected);
        assert_eq!(answer(&json!("text")), "text\n");
        assert_eq!(answer(&Value::Null), "");
    }

    #[test]
    fn deeply_nested_values_are_cut_off_as_json() {
        let mut value = json!("x");
        for _ in 0..100 {
            value = json!([value]);
        }
        assert!(answer(&value).contains("[["), "shown as JSON");
    }
}
