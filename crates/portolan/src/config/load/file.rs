//! Reads portolan.toml: compares its keys with the known keys, checks its values one by one, and reports each error
//! with its line.

use std::{collections::BTreeMap, ops::Range};

use toml::{
    Spanned, Table,
    de::{DeTable, DeValue},
};

use super::{
    Origin, Settings, did_you_mean,
    keys::{self, KEYS},
    moved, one_line,
    values::{alone, get, insert, remove},
};

/// Reads the file; keys under their old names are warnings. The error lists every unknown key and every invalid value,
/// each with its line.
pub(super) fn read(
    text: &str,
    origins: &mut BTreeMap<String, Origin>,
    warnings: &mut Vec<String>,
) -> Result<Table, Vec<String>> {
    let spanned =
        DeTable::parse(text).map_err(|error| vec![at(text, error.span(), &one_line(error.message()))])?;
    let mut walk = Walk { text, problems: Vec::new(), values: Vec::new(), moved: Vec::new() };
    walk.table(&mut Vec::new(), spanned.get_ref());
    let mut table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| vec![at(text, error.span(), &one_line(error.message()))])?;
    for (old, new, span) in walk.moved.clone() {
        warnings.push(at(text, Some(span.clone()), &moved(old, new)));
        let value = remove(&mut table, old);
        if let (Some(value), None) = (value, get(&table, new)) {
            insert(&mut table, new, value);
            walk.values.push((new.to_owned(), span));
        }
    }
    for (path, span) in walk.values.clone() {
        if let Some(Err(why)) = get(&table, &path).map(|value| alone(&path, value.clone())) {
            walk.problem(span, &format!("`{path}`: {why}"));
        }
    }
    if !walk.problems.is_empty() {
        walk.problems.sort_by_key(|(line, _)| *line);
        return Err(walk.problems.into_iter().map(|(_, problem)| problem).collect());
    }
    // A file with an old name has had its values checked one by one.
    if walk.moved.is_empty()
        && let Err(error) = toml::from_str::<Settings>(text)
    {
        let span = error.span();
        let path = walk
            .values
            .iter()
            .find(|(_, value)| {
                span.as_ref().is_some_and(|span| value.start <= span.start && span.end <= value.end)
            })
            .map(|(path, _)| format!("`{path}`: "))
            .unwrap_or_default();
        return Err(vec![at(text, span, &format!("{path}{}", one_line(error.message())))]);
    }
    for (path, span) in walk.values {
        origins.insert(path, Origin::File(line_of(text, span.start)));
    }
    Ok(table)
}

/// A walk over the file that compares its keys with the known keys.
struct Walk<'t> {
    text: &'t str,
    /// The errors, each with its line.
    problems: Vec<(usize, String)>,
    /// Full name and place of every value.
    values: Vec<(String, Range<usize>)>,
    /// Old name, new name and place of every value under an old name.
    moved: Vec<(&'static str, &'static str, Range<usize>)>,
}

impl Walk<'_> {
    fn problem(&mut self, at_name: Range<usize>, text: &str) {
        let line = line_of(self.text, at_name.start);
        self.problems.push((line, at(self.text, Some(at_name), text)));
    }

    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (name, value) in table {
            path.push(name.get_ref().to_string());
            self.value(path, name.span(), value);
            path.pop();
        }
    }

    fn value(&mut self, path: &mut Vec<String>, at_name: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let full = path.join(".");
        let old = keys::MOVED.iter().find(|(old, _)| *old == full);
        let holds_old = keys::MOVED.iter().any(|(old, _)| old.starts_with(&format!("{full}.")));
        if let Some((old, new)) = old {
            self.moved.push((old, new, value.span()));
        } else if KEYS.iter().any(|key| key.matches(&names)) {
            self.values.push((path.join("."), value.span()));
        } else if holds_old || KEYS.iter().any(|key| key.lies_under(&names)) {
            if let DeValue::Table(inner) = value.get_ref() {
                self.table(path, inner);
            } else {
                let text =
                    format!("`{}` must be a table, not `{}`", path.join("."), value.get_ref().type_str());
                self.problem(at_name, &text);
            }
        } else {
            let last = names.last().copied().unwrap_or_default();
            let meant = keys::similar(last, keys::siblings(&names));
            let text = format!("unknown key `{}`{}", path.join("."), did_you_mean(meant));
            self.problem(at_name, &text);
        }
    }
}

fn at(text: &str, span: Option<Range<usize>>, message: &str) -> String {
    match span {
        Some(span) => format!("portolan.toml:{}: {message}", line_of(text, span.start)),
        None => format!("portolan.toml: {message}"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
