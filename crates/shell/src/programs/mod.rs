//! Programs that can run something because of an option or an argument.
//!
//! What is not in the tables is a program that only does what it is for. An argument that is not known before it
//! runs may be any option, so for a program in the tables it hides what runs.

mod awk;
mod find;
mod git;
mod interpreters;
mod sed;
mod table;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::{Hidden, Word};
use table::{PROGRAMS, Row};

/// Every name in [`table::RUNS_OTHERS`]. Each command is looked up, so the tables are not read again each time.
static RUNS_OTHERS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| table::RUNS_OTHERS.split_ascii_whitespace().collect());

/// The row of each program. The first row that names it counts.
static ROWS: LazyLock<HashMap<&str, &Row>> = LazyLock::new(|| {
    let mut rows = HashMap::new();
    for row in PROGRAMS {
        for name in row.names.split(' ') {
            rows.entry(name).or_insert(row);
        }
    }
    rows
});

/// What is known of a program with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Why it cannot be seen what it runs.
    pub(crate) hidden: Vec<Hidden>,
    /// What it runs.
    pub(crate) runs: Vec<Run>,
}

/// A command that a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) words: Vec<Word>,
    /// It runs in the folder of each file, whichever that is.
    pub(crate) in_its_folder: bool,
}

impl From<Option<Hidden>> for Checked {
    fn from(hidden: Option<Hidden>) -> Self {
        Self { hidden: hidden.into_iter().collect(), runs: Vec::new() }
    }
}

/// What the program of this name does with these arguments.
pub(crate) fn check(name: &str, arguments: &[Word]) -> Checked {
    match name {
        "find" | "gfind" => return find::check(name, arguments),
        "git" => return git::check(arguments).into(),
        "sed" | "gsed" => return sed::check(name, arguments).into(),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => return awk::check(name, arguments).into(),
        _ => {}
    }
    if let Some(hidden) = interpreters::check(name, arguments) {
        return hidden.into();
    }
    if RUNS_OTHERS.contains(name) || is_loader(name) {
        return Some(Hidden::RunsOthers(name.to_owned())).into();
    }
    ROWS.get(name).and_then(|row| by_row(row, name, arguments)).into()
}

/// The dynamic loader runs the program that it is given.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux")
        || name.starts_with("ld-musl")
        || name.starts_with("ld.so")
        || name.starts_with("ld64.so")
}

fn by_row(row: &Row, name: &str, arguments: &[Word]) -> Option<Hidden> {
    options(name, arguments, row.short, row.long).or_else(|| subcommand(row, name, arguments)).or_else(|| {
        arguments.iter().find_map(|word| {
            let start = word.known_start();
            let is_word = word
                .literal()
                .is_some_and(|text| row.words.split_ascii_whitespace().any(|known| known == text));
            let begins =
                row.beginnings.split_ascii_whitespace().any(|beginning| start.starts_with(beginning));
            let contains = row.parts.split_ascii_whitespace().any(|part| start.contains(part));
            (is_word || begins || contains).then(|| Hidden::runs(name, start))
        })
    })
}

/// A subcommand that runs something: the first word that is neither an option nor may be the value of one.
fn subcommand(row: &Row, name: &str, arguments: &[Word]) -> Option<Hidden> {
    let mut before = "";
    for word in arguments {
        let start = word.known_start();
        if !start.starts_with('-') {
            if word
                .literal()
                .is_some_and(|text| row.subcommands.split_ascii_whitespace().any(|known| known == text))
            {
                return Some(Hidden::runs(name, start));
            }
            if !before.starts_with('-') {
                return None;
            }
        }
        before = start;
    }
    None
}

/// The first argument that is one of these options, or may be one. Letters count wherever they stand behind a
/// `-`, and the beginning of a long option counts as the option.
fn options(name: &str, arguments: &[Word], short: &str, long: &str) -> Option<Hidden> {
    let mut ended = false;
    for (index, word) in arguments.iter().enumerate() {
        let start = word.known_start();
        let literal = word.literal().is_some();
        if literal && start == "--" {
            // Unless it is the value of the option before it.
            ended |= index == 0 || !arguments[index - 1].is_flag_possible();
            continue;
        }
        if !start.starts_with('-') {
            if !literal && !ended && word.is_flag_possible() {
                return Some(Hidden::MayBeOption(name.to_owned()));
            }
            continue;
        }
        if !literal && !ended && (word.splits || !start.contains('=')) {
            return Some(Hidden::MayBeOption(name.to_owned()));
        }
        if is_option(start, short, long) {
            return Some(Hidden::runs(name, start));
        }
    }
    None
}

/// Is this word, which begins with `-`, one of these options?
fn is_option(word: &str, short: &str, long: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    let matches_long = long.split_ascii_whitespace().any(|option| {
        if let Some(single) = option.strip_prefix(':') {
            // An option such as `-exec` of programs that do not bundle letters.
            name.trim_start_matches('-') == single
        } else {
            name.len() > 2 && name.strip_prefix("--").is_some_and(|name| option.starts_with(name))
        }
    });
    matches_long || (!word.starts_with("--") && word.chars().skip(1).any(|letter| short.contains(letter)))
}
