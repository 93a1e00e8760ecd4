//! Checks that texts in the crates below the command line name no command of it.
//!
//! A phone, an editor and a program that embeds Portolan show the same texts, but have no such commands. A refusal
//! carries a `WayOut` instead, and each frontend writes its own text for it. Comments and tests may name commands.

use std::path::Path;

use anyhow::Result;

use crate::project::{files, read};

/// The crates whose texts appear outside of the command line too.
const BELOW: [&str; 10] =
    ["agents", "client", "core", "embed", "frontends", "holder", "host", "protocol", "store", "wire"];

/// The beginning of a command in a text.
const COMMAND: &str = "`portolan ";

/// The places where a string literal outside of tests names a command.
fn commands(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in BELOW {
        let folder = Path::new("crates").join(name).join("src");
        for file in files(&root.join(&folder), &["rs"])? {
            if file.iter().any(|part| part == "tests" || part == "tests.rs") {
                continue;
            }
            let text = read(&root.join(&folder).join(&file))?;
            let naming =
                literals(without_tests(&text)).into_iter().filter(|(_, text)| text.contains(COMMAND));
            found.extend(naming.map(|(line, _)| format!("{}:{line}", folder.join(&file).display())));
        }
    }
    Ok(found)
}

/// A file up to its test module, which is last in the file.
fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod tests {").map_or(text, |end| text.get(..end).unwrap_or(text))
}

/// The string literals of a Rust file as written, each with its first line number.
fn literals(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut line, mut rest) = (Vec::new(), 1, text);
    while let Some(first) = rest.chars().next() {
        let (length, is_literal) = token(rest, first);
        let (taken, left) = rest.split_at(length);
        if is_literal {
            found.push((line, taken));
        }
        line += taken.matches('\n').count();
        rest = left;
    }
    found
}

/// The length of the next token, and whether the token is a string.
fn token(rest: &str, first: char) -> (usize, bool) {
    let until = |from: usize, end: &str| {
        let after = rest.get(from..).and_then(|after| after.find(end));
        after.map_or(rest.len(), |at| from + at + end.len())
    };
    match first {
        '/' if rest.starts_with("//") => (until(2, "\n"), false),
        '/' if rest.starts_with("/*") => (until(2, "*/"), false),
        '"' => (quoted(rest, '"'), true),
        // A lifetime has no second quote.
        '\'' if rest.starts_with("'\\") || rest.chars().nth(2) == Some('\'') => (quoted(rest, '\''), false),
        'r' if rest.starts_with("r\"") || rest.starts_with("r#") => {
            let hashes = rest.bytes().skip(1).take_while(|byte| *byte == b'#').count();
            // An identifier such as `r#type` has no quote.
            if rest.as_bytes().get(1 + hashes) == Some(&b'"') {
                (until(2 + hashes, &format!("\"{}", "#".repeat(hashes))), true)
            } else {
                (1, false)
            }
        }
        // A character in the middle of a word is part of the word.
        first if first.is_alphanumeric() || first == '_' => {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            // Only the prefix of `br"`.
            (if rest.starts_with("br") && word == 2 { 1 } else { word }, false)
        }
        first => (first.len_utf8(), false),
    }
}

/// The length of a quoted string, including both quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn only_the_command_line_names_its_commands() {
    let found = commands(&crate::project::root()).unwrap();
    assert!(
        found.is_empty(),
        "these texts name a command; say what is wrong, and give the refusal a `WayOut`: {found:#?}"
    );
}

#[test]
fn a_command_is_found_in_every_kind_of_string_and_nowhere_else() {
    let text = r##"
//! `portolan comment`
/* "`portolan block`" */
const QUOTE: char = '"'; // "`portolan trailing`"
fn one<'a>(text: &'a str) { say("a \" and `portolan ls`"); }
const RAW: &[u8] = br#"`portolan "raw"`"#;
#[error("`portolan \
    attribute`")]
fn r#type() { bar("portolan plain") }
#[cfg(test)]
mod tests { const A: &str = "`portolan test`"; }
"##;
    let found = literals(without_tests(text)).into_iter().filter(|(_, text)| text.contains(COMMAND));
    let found: Vec<_> = found.map(|(line, _)| line).collect();
    assert_eq!(found, [5, 6, 7]);
}
