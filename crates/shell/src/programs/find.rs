//! `find`: the commands that it runs.

use super::{Checked, Run};
use crate::{Hidden, Unknown, Word};

/// Actions that run a command, up to `;` or `+`.
const RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Actions that write a file of that name, and options that take more names from a file.
const WRITES: &[&str] = &["-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"];

/// What `find` runs with these arguments.
pub(super) fn check(name: &str, arguments: &[Word]) -> Checked {
    let mut checked = Checked::default();
    let file = file_word(arguments);
    let mut words = arguments;
    while let [word, rest @ ..] = words {
        words = rest;
        let Some(text) = word.literal() else {
            if word.is_flag_possible() {
                checked.hidden = vec![Hidden::MayBeOption(name.to_owned())];
            }
            continue;
        };
        if WRITES.contains(&&*text) {
            checked.hidden.push(Hidden::runs(name, &text));
        }
        if RUNS.contains(&&*text) {
            let in_its_folder = text.ends_with("dir");
            let end = rest
                .iter()
                .enumerate()
                .position(|(index, word)| {
                    word.is(";") || (word.is("+") && index > 0 && rest[index - 1].is("{}"))
                })
                .unwrap_or(rest.len());
            let file = if in_its_folder { &in_folder() } else { &file };
            let command = rest[..end].iter().map(|word| word.replace("{}", file)).collect();
            checked.runs.push(Run { words: command, in_its_folder });
            words = rest.get(end + 1..).unwrap_or_default();
        }
    }
    checked
}

/// What stands for `{}`: it begins with the folder that is searched, if that is one.
fn file_word(arguments: &[Word]) -> Word {
    let starts: Vec<&Word> = arguments
        .iter()
        .take_while(|word| {
            let start = word.known_start();
            !start.starts_with(['-', '(', '!'])
        })
        .collect();
    let mut word = match starts.as_slice() {
        [] => Word::from_text("."),
        [only] if only.literal().is_some_and(|text| !text.is_empty()) => (*only).clone(),
        _ => Word::default(),
    };
    // Unlike a wildcard of the shell, it also goes into folders and finds hidden files.
    word.push_unknown(Unknown::Variable);
    word.push_unknown(Unknown::Glob);
    word
}

fn in_folder() -> Word {
    let mut word = Word::from_text("./");
    word.push_unknown(Unknown::Variable);
    word.push_unknown(Unknown::Glob);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<Word> {
        text.iter().map(|text| Word::from_text(text)).collect()
    }

    #[test]
    fn command_of_exec_is_found() {
        let checked =
            check("find", &words(&["src", "-name", "x", "-exec", "rm", "-f", "{}", ";", "-delete"]));
        let mut file = Word::from_text("src");
        file.push_unknown(Unknown::Variable);
        file.push_unknown(Unknown::Glob);
        let run = Run { words: [words(&["rm", "-f"]), vec![file]].concat(), in_its_folder: false };
        assert_eq!(checked, Checked { hidden: Vec::new(), runs: vec![run] });
    }

    #[test]
    fn every_command_is_found() {
        let checked = check("find", &words(&["-execdir", "a", "{}", "+", "-ok", "b", ";", "-exec", "c"]));
        let programs: Vec<_> =
            checked.runs.iter().map(|run| (run.words[0].known_start(), run.in_its_folder)).collect();
        assert_eq!(programs, [("a", true), ("b", false), ("c", false)]);
    }

    #[test]
    fn written_file_is_hidden() {
        assert_eq!(
            check("find", &words(&[".", "-fprintf", "x", "%p"])).hidden,
            [Hidden::runs("find", "-fprintf")]
        );
        assert_eq!(check("find", &words(&[".", "-delete"])), Checked::default());
    }
}
