//! Texts that are run in their turn: `sh -c TEXT`, `eval TEXT`, `ssh HOST TEXT`.

use super::commands::Peeled;
use super::places::Place;
use super::{Context, Outcome, Walk, is_elsewhere};
use crate::limits::{MAX_CARRIED_BYTES, MAX_TEXTS};
use crate::{Hidden, Unreadable, Word, WrapperKind, characters, reader};

/// Shells whose language is read here, or near enough: the text is read as Bash reads it.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];

/// Shells with languages of their own.
const OTHER_SHELLS: &[&str] =
    &["fish", "csh", "tcsh", "nu", "pwsh", "powershell", "elvish", "xonsh", "rc", "es", "yash"];

/// Options of shells without a value that do not change what the text means.
const FLAGS: &str = "aefluvxpCE";

/// Values of `-o` that do not change what the text means.
const SETTINGS: &[&str] =
    &["pipefail", "errexit", "nounset", "xtrace", "verbose", "noclobber", "noglob", "errtrace"];

/// Long options of `bash` that do not change what the text means.
const LONG: &[&str] = &["--login", "--norc", "--noprofile", "--noediting", "--verbose"];

/// Which shell runs the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    /// Another one, so that it does not move this one.
    Own,
    /// This one.
    This,
}

/// What a command runs as a text.
pub(super) enum Text {
    None,
    Literal(String, Shell),
    Hidden(Hidden),
}

/// The text that a shell or `eval` runs. `words` begin with the program.
pub(super) fn of(name: &str, words: &[Word]) -> Text {
    let arguments = words.get(1..).unwrap_or_default();
    if SHELLS.contains(&name) {
        return shell(name, arguments);
    }
    if OTHER_SHELLS.contains(&name) {
        return Text::Hidden(Hidden::ShellInput(name.to_owned()));
    }
    if name == "eval" {
        let arguments =
            if arguments.first().is_some_and(|first| first.is("--")) { &arguments[1..] } else { arguments };
        return match joined(arguments) {
            Some(text) if !text.starts_with('-') => Text::Literal(text, Shell::This),
            _ => Text::Hidden(Hidden::ShellText(name.to_owned())),
        };
    }
    Text::None
}

/// The words with blanks between them, if all are known.
pub(crate) fn joined(words: &[Word]) -> Option<String> {
    let words: Option<Vec<_>> = words.iter().map(Word::literal).collect();
    words.map(|words| words.join(" "))
}

fn shell(name: &str, arguments: &[Word]) -> Text {
    let option = |option: &str| {
        Text::Hidden(Hidden::ShellOption { shell: name.to_owned(), option: option.to_owned() })
    };
    let mut has_text = false;
    let mut arguments = arguments.iter();
    let mut ended = false;
    loop {
        let Some(word) = arguments.next() else {
            return Text::Hidden(if has_text {
                Hidden::ShellText(name.to_owned())
            } else {
                Hidden::ShellInput(name.to_owned())
            });
        };
        let Some(text) = word.literal() else {
            return Text::Hidden(Hidden::ShellText(name.to_owned()));
        };
        if ended || !text.starts_with(['-', '+']) {
            return if has_text {
                Text::Literal(text.into_owned(), Shell::Own)
            } else {
                Text::Hidden(Hidden::ShellFile(name.to_owned()))
            };
        }
        if text == "--" || text == "-" {
            ended = true;
        } else if text.starts_with("--") {
            if matches!(&*text, "--version" | "--help") {
                return Text::None;
            }
            if !LONG.contains(&&*text) {
                return option(&text);
            }
        } else {
            for letter in text.chars().skip(1) {
                match letter {
                    'c' if text.starts_with('-') => has_text = true,
                    'o' => {
                        let setting = arguments.next().and_then(Word::literal);
                        if !setting.is_some_and(|setting| SETTINGS.contains(&&*setting)) {
                            return option(&text);
                        }
                    }
                    letter if FLAGS.contains(letter) => {}
                    _ => return option(&text),
                }
            }
        }
    }
}

impl Walk {
    /// The parts of a text that a command runs.
    pub(super) fn text(
        &mut self,
        text: &str,
        around: &Peeled,
        context: Context<'_>,
        place: Place,
        shell: Shell,
    ) -> Result<Outcome, Unreadable> {
        if context.texts >= MAX_TEXTS {
            return Err(Unreadable::TooManyTexts);
        }
        characters::check(text)?;
        let carried = around.carried();
        let bytes = carried.whole.iter().map(Word::bytes).sum::<usize>()
            + carried
                .assignments
                .iter()
                .map(|assignment| assignment.name.len() + assignment.value.bytes())
                .sum::<usize>();
        if bytes > MAX_CARRIED_BYTES {
            return Err(Unreadable::TooMuchBeforeText);
        }
        let tree = reader::tree(text, context.depth, &mut self.facts)?;
        let moved = is_elsewhere(&carried.wrappers)
            || carried.wrappers.iter().any(|wrapper| wrapper.kind == WrapperKind::Privilege);
        let start = if moved { Place::Unknown } else { place.clone() };
        let inner = Context { tree: &tree, carried: &carried, texts: context.texts + 1, ..context };
        let outcome = self.list(&tree.list, inner, start)?;
        Ok(match shell {
            Shell::This => outcome,
            Shell::Own => Outcome::stays(place, outcome.last),
        })
    }
}
