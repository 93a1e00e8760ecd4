//! Builtins of Bash that change what the rest of a text runs, or that run what they find in a value.

use crate::reader::Facts;
use crate::{Hidden, Unknown, Word, variables};

/// Builtins that change how the shell runs the rest.
const CHANGE_SHELL: &str = "
    alias unalias trap enable set shopt hash bind complete compgen compopt fc history
";

/// Why it cannot be seen what a builtin leads to.
pub(super) fn check(name: &str, arguments: &[Word], facts: &mut Facts) -> Vec<Hidden> {
    if CHANGE_SHELL.split_ascii_whitespace().any(|builtin| builtin == name) {
        return vec![Hidden::ChangesShell(name.to_owned())];
    }
    let mut names = Names { builtin: name, facts, hidden: Vec::new() };
    match name {
        "source" | "." => return vec![Hidden::Sourced],
        "let" => return vec![Hidden::Counting("the arguments of `let`".to_owned())],
        "export" | "declare" | "typeset" | "local" | "readonly" => names.declared(arguments),
        "unset" => names.unset(arguments),
        "read" => names.after_options(arguments, "ers", "dinNptu", "a"),
        "mapfile" | "readarray" => names.after_options(arguments, "t", "dnOsu", ""),
        "getopts" => names.after_options(arguments.get(1..).unwrap_or_default(), "", "", ""),
        "printf" => names.printed(arguments),
        "test" | "[" => names.tested(arguments),
        "wait" | "jobs" => {
            let suspicious =
                |word: &&Word| word.known_start().starts_with("-p") || word.known_start().starts_with("-x");
            if arguments
                .iter()
                .any(|word| suspicious(&word) || (word.literal().is_none() && word.is_flag_possible()))
            {
                names.hidden.push(Hidden::runs(name, "-x"));
            }
        }
        _ => {}
    }
    names.hidden
}

struct Names<'n> {
    builtin: &'n str,
    facts: &'n mut Facts,
    hidden: Vec<Hidden>,
}

impl Names<'_> {
    fn not_known(&mut self) {
        let hidden = Hidden::VariableNotKnown(self.builtin.to_owned());
        if !self.hidden.contains(&hidden) {
            self.hidden.push(hidden);
        }
    }

    /// The builtin sets a variable of this name.
    fn set(&mut self, name: &str, value: &Word) {
        // Bash evaluates an index: only a number is harmless.
        let plain = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => name,
        };
        if !variables::is_name(plain) {
            self.not_known();
        } else if variables::changes_what_runs(plain) {
            self.hidden.push(Hidden::ChangesWhatRuns(plain.to_owned()));
        } else {
            self.facts.set(plain, value);
        }
    }

    fn set_to_unknown(&mut self, word: &Word) {
        match word.literal() {
            Some(name) => self.set(&name, &Word::from_unknown(Unknown::Variable)),
            None => self.not_known(),
        }
    }

    fn declared(&mut self, arguments: &[Word]) {
        for word in arguments {
            let start = word.known_start();
            if let Some((name, rest)) = start.split_once('=') {
                // Only the pieces behind the name matter, and whether all of them are a number.
                let value = if word.literal().is_some() {
                    Word::from_text(rest)
                } else {
                    Word::from_unknown(Unknown::Variable)
                };
                self.set(name.strip_suffix('+').unwrap_or(name), &value);
                continue;
            }
            match word.literal() {
                Some(text) if text.starts_with(['-', '+']) => {
                    if !text.chars().skip(1).all(|letter| "aAxrgplu-".contains(letter)) {
                        self.hidden.push(Hidden::ChangesShell(self.builtin.to_owned()));
                    }
                }
                Some(name) if variables::is_name(&name) => {}
                _ => self.not_known(),
            }
        }
    }

    fn unset(&mut self, arguments: &[Word]) {
        for word in arguments {
            match word.literal() {
                Some(text) if text == "-v" => {}
                Some(text) if text.starts_with('-') => {
                    self.hidden.push(Hidden::ChangesShell(self.builtin.to_owned()));
                }
                _ => self.set_to_unknown(word),
            }
        }
    }

    /// Names behind options: those without a value, those with one, and those whose value is a name.
    fn after_options(&mut self, arguments: &[Word], flags: &str, values: &str, named: &str) {
        let mut words = arguments.iter();
        let mut options = true;
        while let Some(word) = words.next() {
            let Some(text) = word.literal() else {
                self.not_known();
                continue;
            };
            if !options || !text.starts_with('-') {
                options = false;
                self.set(&text, &Word::from_unknown(Unknown::Variable));
                continue;
            }
            if text == "--" {
                options = false;
                continue;
            }
            let mut letters = text[1..].chars();
            while let Some(letter) = letters.next() {
                if flags.contains(letter) {
                    continue;
                }
                let attached = letters.as_str().to_owned();
                let value = if attached.is_empty() {
                    words.next().cloned()
                } else {
                    Some(Word::from_text(&attached))
                };
                if named.contains(letter) {
                    match value {
                        Some(value) => self.set_to_unknown(&value),
                        None => self.not_known(),
                    }
                } else if !values.contains(letter) || value.is_some_and(|value| value.splits) {
                    self.hidden.push(Hidden::runs(self.builtin, &text));
                }
                break;
            }
        }
    }

    fn printed(&mut self, arguments: &[Word]) {
        let Some(first) = arguments.first() else { return };
        match first.literal() {
            Some(text) if text == "-v" => match arguments.get(1) {
                Some(name) => self.set_to_unknown(name),
                None => self.not_known(),
            },
            Some(text) if text.starts_with("-v") => {
                self.set(&text[2..], &Word::from_unknown(Unknown::Variable));
            }
            Some(_) => {}
            None if first.is_flag_possible() => self.not_known(),
            None => {}
        }
    }

    /// `test -v NAME` evaluates an index in the name; so an argument that may be `-v` hides what happens.
    fn tested(&mut self, arguments: &[Word]) {
        const BETWEEN: &str = "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ]";
        for (index, word) in arguments.iter().enumerate() {
            let next = arguments.get(index + 1);
            let bad = match word.literal() {
                Some(text) if text == "-v" || text == "-R" => {
                    let between = next.is_none_or(|next| next.is("]"));
                    !between && !next.and_then(Word::literal).is_some_and(|name| variables::is_name(&name))
                }
                Some(_) => false,
                None if word.splits => true,
                None => {
                    let previous =
                        index.checked_sub(1).and_then(|index| arguments.get(index)).and_then(Word::literal);
                    // Behind `-a` and `-o` a new expression begins.
                    let operand = previous.is_some_and(|text| {
                        !matches!(&*text, "-a" | "-o")
                            && (text.starts_with('-') || BETWEEN.split(' ').any(|sign| sign == text))
                    });
                    let compared = next.is_none_or(|next| {
                        next.literal().is_some_and(|text| BETWEEN.split(' ').any(|sign| sign == text))
                    });
                    word.is_flag_possible() && !compared && !operand
                }
            };
            if bad {
                self.not_known();
                return;
            }
        }
    }
}
