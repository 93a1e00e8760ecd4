//! `awk`: whether its program runs commands or writes files.

use crate::{Hidden, Word};

/// What a program contains that runs a command, loads another program or calls a function by a name made up.
const RUNS: &[&str] = &["system", "getline", "@", "close", "fflush"];

/// Why it cannot be seen what `awk` runs with these arguments.
pub(super) fn check(name: &str, arguments: &[Word]) -> Option<Hidden> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            // `-v x="$X"` and the like are taken below with their option.
            return Some(Hidden::MayBeOption(name.to_owned()));
        };
        match &*text {
            "-F" | "-v" | "--field-separator" | "--assign" => {
                if words.next().is_some_and(|value| value.splits) {
                    return Some(Hidden::MayBeOption(name.to_owned()));
                }
            }
            "--" => return program(name, words.next()?),
            "--version" | "--help" | "-V" => {}
            option if option.starts_with("-F") || option.starts_with("-v") => {}
            option if option.starts_with('-') && option.len() > 1 => return Some(Hidden::runs(name, option)),
            _ => return program(name, word),
        }
    }
    None
}

fn program(name: &str, word: &Word) -> Option<Hidden> {
    let Some(text) = word.literal() else { return Some(Hidden::MayBeOption(name.to_owned())) };
    // `||` is "or"; any other `|` is a pipe, or stands in an expression where it is one.
    let pipe = text.replace("||", "").contains('|');
    let writes = text.contains('>') && text.contains("print");
    let found = RUNS.iter().find(|part| text.contains(**part)).copied();
    found.or(pipe.then_some("|")).or(writes.then_some(">")).map(|part| Hidden::runs(name, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str]) -> Option<Hidden> {
        let words: Vec<Word> = arguments.iter().map(|text| Word::from_text(text)).collect();
        super::check("awk", &words)
    }

    #[test]
    fn program_that_only_prints_is_seen() {
        for arguments in
            [&["{print $1}"][..], &["-F:", "$3 > 5 || /x/ {n++} END{}", "f"], &["-v", "x=1", "{print x}"]]
        {
            assert_eq!(check(arguments), None, "{arguments:?}");
        }
    }

    #[test]
    fn program_that_runs_or_writes_is_hidden() {
        for arguments in [
            &["BEGIN{system(\"id\")}"][..],
            &["{print | \"sh\"}"],
            &["{\"id\" | getline x}"],
            &["{print > \"f\"}"],
            &["-f", "prog.awk"],
            &["-F", ":", "--", "BEGIN{system(\"id\")}"],
            &["-v", "f=system", "BEGIN{@f(\"id\")}"],
            &["-i", "inplace", "1"],
        ] {
            assert!(check(arguments).is_some(), "{arguments:?}");
        }
    }
}
