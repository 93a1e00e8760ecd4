//! Programs that run another program: where that one begins in their words.

mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::walk::joined;
use crate::{Hidden, Word, WrapperKind};
use table::{Bare, Options, Order, Rest, SPECS, Spec};

/// What a program does as a wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is none.
    None,
    /// It is one, but runs nothing here: `command -v git`.
    Alone,
    /// It cannot be told where what it runs begins.
    Hidden(Hidden, WrapperKind),
    /// The command begins behind so many words. These variables are set for it, and it runs as this user.
    Behind { kind: WrapperKind, words: usize, assignments: Vec<(String, Word)>, user: Option<String> },
    /// The command begins behind so many words, and gets more: for the mark, or at its end.
    Replacing { kind: WrapperKind, words: usize, mark: Option<String> },
    /// A shell runs this text, if it is known, behind so many words; one of them may be the text itself. It runs as this
    /// user.
    Text {
        kind: WrapperKind,
        words: usize,
        text: Option<String>,
        text_at: Option<usize>,
        user: Option<String>,
    },
}

/// The rows of each wrapper, in their order.
static BY_NAME: LazyLock<HashMap<&str, Vec<&Spec>>> = LazyLock::new(|| {
    let mut rows: HashMap<&str, Vec<&Spec>> = HashMap::new();
    for spec in SPECS {
        for name in spec.names.split(' ') {
            rows.entry(name).or_default().push(spec);
        }
    }
    rows
});

/// What the program of this name does with these words, itself the first.
pub(crate) fn step(name: &str, words: &[Word]) -> Step {
    for spec in BY_NAME.get(name).into_iter().flatten() {
        match behind_subcommand(spec, name, words) {
            Found::At(at) => {
                return apply(spec, name, words, at).unwrap_or_else(|hidden| Step::Hidden(hidden, spec.kind));
            }
            Found::Hidden(hidden) => return Step::Hidden(hidden, spec.kind),
            Found::Other => {}
        }
    }
    Step::None
}

enum Found {
    /// The words of the subcommand end here.
    At(usize),
    /// It is another subcommand.
    Other,
    Hidden(Hidden),
}

/// Takes the subcommand, with options before and between its words.
fn behind_subcommand(spec: &Spec, name: &str, words: &[Word]) -> Found {
    let mut at = 1;
    for part in spec.subcommand {
        match options(&spec.global, name, words, at) {
            Ok(read) => at = read.at,
            // It matters only if the subcommand may come later.
            Err(_) if !words[at..].iter().any(|word| word.is(part) || word.literal().is_none()) => {
                return Found::Other;
            }
            Err(hidden) => return Found::Hidden(hidden),
        }
        match words.get(at) {
            Some(word) if word.is(part) => at += 1,
            Some(word) if word.literal().is_none() => {
                return Found::Hidden(Hidden::WrapperWord(name.to_owned()));
            }
            _ => return Found::Other,
        }
    }
    Found::At(at)
}

fn apply(spec: &Spec, name: &str, words: &[Word], at: usize) -> Result<Step, Hidden> {
    if spec.rest == Rest::Option {
        return option_text(spec, name, words, at);
    }
    let mut read = options(&spec.options, name, words, at)?;
    if read.alone {
        return Ok(Step::Alone);
    }
    for _ in 0..spec.operands {
        let Some(word) = words.get(read.at) else { break };
        if word.may_be_many() || (word.literal().is_none() && word.is_flag_possible()) {
            return Err(Hidden::WrapperWord(name.to_owned()));
        }
        read.at += 1;
        if spec.order == Order::Anywhere && !read.ended {
            let more = options(&spec.options, name, words, read.at)?;
            read = Read { at: more.at, found: [read.found, more.found].concat(), ..more };
        }
    }
    let user = user(spec, &read, words);
    for (option, value) in &read.found {
        let setting = value.as_ref().and_then(Word::literal);
        if option == "o"
            && !spec.settings.is_empty()
            && !setting.as_ref().is_some_and(|setting| is_harmless(spec.settings, setting))
        {
            let option = setting.map_or_else(|| "-o".to_owned(), |setting| format!("-o {setting}"));
            return Err(Hidden::WrapperOption { wrapper: name.to_owned(), option });
        }
    }
    let kind = spec.kind;
    if spec.rest == Rest::CommandOrOption
        && words.get(read.at).is_some_and(|word| word.is("-c") || word.is("--command"))
    {
        let text = words.get(read.at + 1).and_then(Word::literal).map(Cow::into_owned);
        return Ok(Step::Text { kind, words: read.at, text, text_at: None, user });
    }
    let mut assignments = Vec::new();
    if spec.rest == Rest::Assignments {
        while let Some(word) = words.get(read.at) {
            if let Some((variable, _)) = word.known_start().split_once('=') {
                if word.splits {
                    return Err(Hidden::WrapperWord(name.to_owned()));
                }
                assignments.push((variable.to_owned(), behind(word, variable.len() + 1)));
            } else if word.literal().is_none() {
                // It may be one as well as the program.
                return Err(Hidden::WrapperWord(name.to_owned()));
            } else {
                break;
            }
            read.at += 1;
        }
    }
    let at = read.at;
    if at >= words.len() && spec.rest != Rest::Fed {
        return match spec.bare {
            Bare::Own => Ok(Step::Alone),
            Bare::Shell => Err(Hidden::ShellInput(name.to_owned())),
        };
    }
    Ok(match spec.rest {
        Rest::TextOrCommand if read.has(&["x", "exec"]) => {
            Step::Behind { kind, words: at, assignments, user }
        }
        Rest::Text | Rest::TextOrCommand => {
            Step::Text { kind, words: at, text: joined(&words[at..]), text_at: None, user }
        }
        Rest::Fed => {
            let mark = match read.value(&["I", "J", "i", "replace"]) {
                None => None,
                // Without a value of its own it is this one.
                Some(None) => Some("{}".to_owned()),
                Some(Some(word)) => {
                    Some(word.literal().ok_or_else(|| Hidden::WrapperWord(name.to_owned()))?.into_owned())
                }
            };
            Step::Replacing { kind, words: at, mark }
        }
        _ => Step::Behind { kind, words: at, assignments, user },
    })
}

/// As whom a wrapper that changes who runs the program runs it: the value of its option, or else the word before the
/// program.
fn user(spec: &Spec, read: &Read, words: &[Word]) -> Option<String> {
    if spec.kind != WrapperKind::Privilege {
        return None;
    }
    let named = read.value(&["u", "user"]).flatten();
    let operand = || words.get(read.at.checked_sub(1)?).filter(|_| spec.operands > 0);
    named.or_else(operand).map(name_of)
}

/// The name of a user; empty if it is not known.
fn name_of(word: &Word) -> String {
    word.literal().unwrap_or_default().into_owned()
}

/// `su`: the text is the value of an option, and options may stand anywhere.
fn option_text(spec: &Spec, name: &str, words: &[Word], mut at: usize) -> Result<Step, Hidden> {
    let mut text = None;
    let mut user = None;
    let mut operands = 0;
    while at < words.len() {
        let read = options(&spec.options, name, words, at)?;
        if let Some(Some(word)) = read.value(&["c", "command"]) {
            text = Some(word.clone());
        }
        at = read.at;
        if let Some(word) = words.get(at) {
            if word.literal().is_none() {
                return Err(Hidden::WrapperWord(name.to_owned()));
            }
            user = Some(name_of(word));
            operands += 1;
            at += 1;
        }
    }
    match text {
        // More than the name of a user goes to the shell, which may be asked to do anything by it.
        Some(text) if operands <= 1 => {
            let text = text.literal().map(Cow::into_owned);
            let text_at = words.iter().rposition(|word| {
                word.literal().zip(text.as_ref()).is_some_and(|(word, text)| word.ends_with(text.as_str()))
            });
            Ok(Step::Text { kind: spec.kind, words: words.len(), text, text_at, user })
        }
        _ => Err(Hidden::ShellInput(name.to_owned())),
    }
}

/// Is `NAME=VALUE`, or `NAME VALUE`, one of these settings?
fn is_harmless(settings: &str, setting: &str) -> bool {
    let name = setting.split(['=', ' ', '\t']).next().unwrap_or_default().to_ascii_lowercase();
    settings.split_ascii_whitespace().any(|known| known == name)
}

/// A word without its first bytes, which are literal.
fn behind(word: &Word, bytes: usize) -> Word {
    let mut value = Word { pieces: Vec::new(), splits: word.splits };
    value.push_text(&word.known_start()[bytes..]);
    value.push_word(&Word { pieces: word.pieces.get(1..).unwrap_or_default().to_vec(), splits: word.splits });
    value
}

/// Options that were read.
#[derive(Clone, Debug, Default)]
struct Read {
    /// Behind them.
    at: usize,
    /// They end with `--`.
    ended: bool,
    /// One of them means that nothing is run.
    alone: bool,
    found: Vec<(String, Option<Word>)>,
}

impl Read {
    fn has(&self, names: &[&str]) -> bool {
        self.value(names).is_some()
    }

    /// The value of the last of these options, if there is one.
    #[expect(clippy::option_option, reason = "no such option, or one without a value")]
    fn value(&self, names: &[&str]) -> Option<Option<&Word>> {
        self.found
            .iter()
            .rev()
            .find(|(name, _)| names.contains(&name.as_str()))
            .map(|(_, value)| value.as_ref())
    }
}

/// Reads options up to the first word that is none.
fn options(known: &Options, wrapper: &str, words: &[Word], at: usize) -> Result<Read, Hidden> {
    let is = |list: &str, name: &str| list.split_ascii_whitespace().any(|known| known == name);
    let not_known = || Hidden::WrapperWord(wrapper.to_owned());
    let mut read = Read { at, ..Default::default() };
    while let Some(word) = words.get(read.at) {
        let Some(text) = word.literal() else {
            // `--option=$X` is one option, whatever the value.
            let long = word.known_start().strip_prefix("--").and_then(|start| start.split_once('='));
            match long {
                Some((name, _)) if !word.may_be_many() && is(known.long_values, name) => {
                    read.found.push((name.to_owned(), Some(behind(word, name.len() + 3))));
                    read.at += 1;
                    continue;
                }
                _ if word.is_flag_possible() => return Err(not_known()),
                _ => break,
            }
        };
        if text == "--" {
            read.at += 1;
            read.ended = true;
            break;
        }
        if text == "-" && known.flags.contains('-') {
            read.at += 1;
            continue;
        }
        if text == "-" || !text.starts_with('-') {
            break;
        }
        let refused =
            || Hidden::WrapperOption { wrapper: wrapper.to_owned(), option: text.clone().into_owned() };
        let next = |read: &mut Read| match words.get(read.at + 1) {
            Some(value) if !value.may_be_many() => {
                read.at += 1;
                Ok(value.clone())
            }
            _ => Err(not_known()),
        };
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let value = match value {
                None if is("help version", name) => {
                    read.alone = true;
                    None
                }
                None if is(known.long, name) || is(known.long_attached, name) => None,
                None if is(known.long_values, name) => Some(next(&mut read)?),
                Some(value) if is(known.long_values, name) || is(known.long_attached, name) => {
                    Some(Word::from_text(value))
                }
                _ => return Err(refused()),
            };
            read.found.push((name.to_owned(), value));
        } else {
            let mut letters = text[1..].chars();
            while let Some(letter) = letters.next() {
                let attached = letters.as_str();
                let value = if known.alone.contains(letter) {
                    read.alone = true;
                    None
                } else if known.flags.contains(letter) && letter != '#' {
                    None
                } else if known.values.contains(letter) {
                    let value =
                        if attached.is_empty() { next(&mut read)? } else { Word::from_text(attached) };
                    letters = "".chars();
                    Some(value)
                } else if known.attached.contains(letter) {
                    letters = "".chars();
                    (!attached.is_empty()).then(|| Word::from_text(attached))
                } else if known.flags.contains('#') && letter.is_ascii_digit() {
                    None
                } else {
                    return Err(refused());
                };
                read.found.push((letter.to_string(), value));
            }
        }
        read.at += 1;
    }
    Ok(read)
}
