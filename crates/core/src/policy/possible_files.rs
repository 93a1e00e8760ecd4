//! Possible files: what the arguments of a tool of an unknown kind may name.
//!
//! Nobody knows what such a tool does. So what stands under the usual names of arguments is taken for a file that the tool
//! may change. It only counts if it is in a protected place: then no mode and no rule that does not name it allows the call.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde_json::Value;

use super::{
    facts::Facts,
    places,
    tool::{Call, FILE_KEYS, Kind, WorksIn},
};

/// Where tools of unknown kinds name files besides: what they move or copy, and folders.
const MORE_KEYS: &str = "source sources src source_path destination dest dst destination_path from from_path to to_path \
    old_path new_path target target_path target_file relative_path relative_workspace_path folder dir root output \
    output_path";

/// How many names are looked for on the disk. All of them are compared with protected names.
const LOOKED_FOR: usize = 64;

/// What may be a file.
#[derive(Debug)]
pub(super) struct PossibleFile {
    /// The key of the input under which it stands.
    pub(super) key: String,
    /// As the call names it.
    text: String,
    /// The path whose real place must be known.
    pub(super) path: Option<String>,
}

impl PossibleFile {
    /// The protected places that it is in, by its name or by the place where it really lies.
    pub(super) fn guarded(&self, facts: &Facts) -> Vec<(places::Kind, String)> {
        let place = self.path.as_ref().and_then(|path| facts.places.get(path));
        let lies = place.into_iter().flat_map(|place| place.lies.iter().map(PathBuf::as_path));
        let all = std::iter::once(Path::new(&self.text)).chain(lies);
        let mut found: Vec<_> = all.flat_map(|path| places::guarded(path, Kind::Edit, facts)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// What a call may name as files.
pub(super) fn of(call: &Call<'_>, works_in: &WorksIn) -> Vec<PossibleFile> {
    let mut texts = Vec::new();
    for (key, value) in call.input.as_object().into_iter().flatten() {
        below(value, key, is_file_key(key), &mut texts);
    }
    let paths = texts.into_iter().filter_map(|(key, text)| Some((key, as_path(text)?)));
    paths
        .enumerate()
        .map(|(number, (key, text))| {
            let is_path = number < LOOKED_FOR && !text.is_empty() && !text.contains(char::is_control);
            let path = if is_path { works_in.path(text.clone()) } else { None };
            PossibleFile { key: key.to_owned(), text, path }
        })
        .collect()
}

/// The keys under which a value may name files, as [`plain`] spells them.
static KEYS: LazyLock<HashSet<String>> =
    LazyLock::new(|| FILE_KEYS.into_iter().chain(MORE_KEYS.split_ascii_whitespace()).map(plain).collect());

/// A key in the spelling that `file_path`, `filePath` and `file-path` share.
fn plain(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

fn is_file_key(key: &str) -> bool {
    KEYS.contains(&plain(key))
}

/// Finds every text that may name a file, with the first key on the way to it.
fn below<'a>(value: &'a Value, first: &'a str, is_named: bool, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::String(text) if is_named => found.push((first, text)),
        Value::Array(all) => all.iter().for_each(|value| below(value, first, is_named, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                // `{"files": {"a.rs": "its text"}}`
                if is_named {
                    found.push((first, key));
                }
                below(value, first, is_file_key(key), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The path that a text means; `None` for a page on the network, which is no file of this machine.
fn as_path(text: &str) -> Option<String> {
    let text = text.trim().replace('\\', "/");
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => Some(decoded(rest)),
        Some((scheme, _)) if ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) => None,
        _ => Some(text),
    }
}

/// The path of a `file:` address: each `%` with two digits stands for a byte.
fn decoded(path: &str) -> String {
    let mut out = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let Some((byte, rest)) = left.split_first() {
        let digit = |at: usize| (*rest.get(at)? as char).to_digit(16);
        let code = || u8::try_from(16 * digit(0)? + digit(1)?).ok();
        if let Some(code) = code().filter(|_| *byte == b'%') {
            out.push(code);
            left = &rest[2..];
        } else {
            out.push(*byte);
            left = rest;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
