//! Sets one value by its full name: reads it from text, checks it alone, puts it into its table.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Origin, Settings, one_line};
use crate::config::keys::{Key, Kind};

/// Sets one value from text.
pub(super) fn put(
    table: &mut Table,
    key: &Key,
    path: &str,
    text: &str,
    origin: Origin,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), String> {
    let wrong = |why: &str| format!("{origin}: `{path}`: {why}");
    let wanted = |what: &str| wrong(&format!("`{text}` is wrong; give {what}"));
    let value = match key.kind {
        Kind::Text => Value::String(text.to_owned()),
        Kind::Number => Value::Integer(text.parse().map_err(|_| wanted("a whole number"))?),
        Kind::Switch => Value::Boolean(text.parse().map_err(|_| wanted("`true` or `false`"))?),
        Kind::List => Value::Array(
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(Value::from).collect(),
        ),
        Kind::Table | Kind::Prices => return Err(wrong("a table can only be set in portolan.toml")),
    };
    // Checks the value alone first, so that the error names the variable or option that set it.
    alone(path, value.clone()).map_err(|why| wrong(&why))?;
    insert(table, path, value);
    origins.insert(path.to_owned(), origin);
    Ok(())
}

/// Checks this value alone; the error is the reason.
pub(super) fn alone(path: &str, value: Value) -> Result<(), String> {
    let mut table = Table::new();
    insert(&mut table, path, value);
    table.try_into::<Settings>().map(drop).map_err(|error| one_line(error.message()))
}

/// The value with that name.
pub(super) fn get<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let mut names = path.split('.');
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

/// Takes the value with that name out, and every table that is empty without it.
pub(super) fn remove(table: &mut Table, path: &str) -> Option<Value> {
    let Some((first, rest)) = path.split_once('.') else { return table.remove(path) };
    let Some(Value::Table(inner)) = table.get_mut(first) else { return None };
    let value = remove(inner, rest);
    if inner.is_empty() {
        table.remove(first);
    }
    value
}

/// Puts a value under that name.
pub(super) fn insert(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
