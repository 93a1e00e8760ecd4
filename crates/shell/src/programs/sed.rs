//! `sed`: whether its script runs commands or touches other files.
//!
//! The script is read command by command; one that is not known here counts as one that runs something.

use std::borrow::Cow;

use crate::{Hidden, Word};

/// Why it cannot be seen what `sed` does with these arguments.
pub(super) fn check(name: &str, arguments: &[Word]) -> Option<Hidden> {
    let mut scripts: Vec<String> = Vec::new();
    let mut operands: Vec<&Word> = Vec::new();
    let mut words = arguments.iter().peekable();
    let mut ended = false;
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            if word.is_flag_possible() && !ended {
                return Some(Hidden::MayBeOption(name.to_owned()));
            }
            operands.push(word);
            continue;
        };
        if ended || text == "-" || !text.starts_with('-') {
            operands.push(word);
            continue;
        }
        match &*text {
            "--" => ended = true,
            "--quiet" | "--silent" | "--debug" | "--posix" | "--regexp-extended" | "--separate"
            | "--sandbox" | "--unbuffered" | "--null-data" | "--in-place" | "--version" | "--help" => {}
            long if long.starts_with("--in-place=") => {}
            long if long.starts_with("--") => match long.strip_prefix("--expression=") {
                Some(script) => scripts.push(script.to_owned()),
                None => return Some(Hidden::runs(name, long)),
            },
            short => {
                let mut letters = short[1..].chars();
                while let Some(letter) = letters.next() {
                    match letter {
                        'n' | 'E' | 'r' | 's' | 'u' | 'z' => {}
                        'i' => {
                            // Elsewhere than in GNU sed, the suffix is a word of its own, mostly an empty one.
                            if letters.as_str().is_empty() && words.peek().is_some_and(|word| word.is("")) {
                                words.next();
                            }
                            break;
                        }
                        'e' => {
                            let attached = letters.as_str();
                            let script = if attached.is_empty() {
                                words.next().and_then(Word::literal).map(Cow::into_owned)
                            } else {
                                Some(attached.to_owned())
                            };
                            match script {
                                Some(script) => scripts.push(script),
                                None => return Some(Hidden::MayBeOption(name.to_owned())),
                            }
                            break;
                        }
                        _ => return Some(Hidden::runs(name, short)),
                    }
                }
            }
        }
    }
    if scripts.is_empty() {
        let script = operands.first()?;
        let Some(script) = script.literal() else { return Some(Hidden::MayBeOption(name.to_owned())) };
        scripts.push(script.into_owned());
    }
    scripts
        .iter()
        .find_map(|script| Script { rest: script }.first_unknown())
        .map(|part| Hidden::runs(name, &part))
}

struct Script<'s> {
    rest: &'s str,
}

impl Script<'_> {
    /// The first command that is not known to be harmless, as far as it goes.
    fn first_unknown(mut self) -> Option<String> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
            if self.rest.is_empty() {
                return None;
            }
            let before = self.rest;
            if self.command().is_none() {
                return Some(before.to_owned());
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let char = self.rest.chars().next()?;
        self.rest = &self.rest[char.len_utf8()..];
        Some(char)
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Reads one command. `None` if it is not known.
    fn command(&mut self) -> Option<()> {
        if self.address()? {
            self.blanks();
            if self.rest.starts_with(',') {
                self.next();
                self.blanks();
                if self.rest.starts_with(['+', '~']) {
                    self.next();
                }
                if !self.address()? {
                    return None;
                }
            }
        }
        self.rest = self.rest.trim_start_matches([' ', '\t', '!']);
        match self.next()? {
            '{' => return Some(()),
            '#' => {
                self.line();
                return Some(());
            }
            'd' | 'D' | 'p' | 'P' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | '=' | 'z' | 'F' => {}
            'q' | 'Q' | 'l' | 'L' => {
                self.blanks();
                self.digits();
            }
            's' => {
                let delimiter = self.next().filter(|char| !matches!(char, '\\' | '\n'))?;
                self.delimited(delimiter)?;
                self.delimited(delimiter)?;
                self.rest = self.rest.trim_start_matches(['g', 'p', 'i', 'I', 'm', 'M']);
                self.digits();
                self.rest = self.rest.trim_start_matches(['g', 'p', 'i', 'I', 'm', 'M']);
            }
            'y' => {
                let delimiter = self.next().filter(|char| !matches!(char, '\\' | '\n'))?;
                self.delimited(delimiter)?;
                self.delimited(delimiter)?;
            }
            'a' | 'i' | 'c' => {
                // Text up to the end of a line that no backslash continues.
                loop {
                    let line = self.line();
                    if !line.ends_with('\\') || self.rest.is_empty() {
                        return Some(());
                    }
                }
            }
            'b' | 't' | 'T' | ':' => {
                self.rest = self.rest.trim_start_matches([' ', '\t']);
                self.rest = self.rest.trim_start_matches(|char: char| {
                    char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.')
                });
            }
            _ => return None,
        }
        self.blanks();
        let ended = self.rest.is_empty() || self.rest.starts_with([';', '\n', '}', '#']);
        ended.then_some(())
    }

    fn line(&mut self) -> &str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    fn digits(&mut self) {
        self.rest = self.rest.trim_start_matches(|char: char| char.is_ascii_digit());
    }

    /// Reads an address, if there is one. `None` if it is not known.
    fn address(&mut self) -> Option<bool> {
        let delimiter = match self.rest.chars().next() {
            Some('$') => {
                self.next();
                return Some(true);
            }
            Some(char) if char.is_ascii_digit() => {
                self.digits();
                if self.rest.starts_with('~') {
                    self.next();
                    self.digits();
                }
                return Some(true);
            }
            Some('/') => '/',
            Some('\\') => {
                self.next();
                self.rest.chars().next()?
            }
            _ => return Some(false),
        };
        self.next();
        self.delimited(delimiter)?;
        self.rest = self.rest.trim_start_matches(['I', 'M']);
        Some(true)
    }

    /// Reads up to and with the delimiter. Brackets are not understood: a delimiter in one is refused.
    fn delimited(&mut self, delimiter: char) -> Option<()> {
        let mut in_brackets = false;
        loop {
            match self.next()? {
                '\\' => {
                    self.next()?;
                }
                char if char == delimiter => return (!in_brackets).then_some(()),
                '[' => in_brackets = true,
                ']' => in_brackets = false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str]) -> Option<Hidden> {
        let words: Vec<Word> = arguments.iter().map(|text| Word::from_text(text)).collect();
        super::check("sed", &words)
    }

    #[test]
    fn script_that_only_edits_is_seen() {
        for arguments in [
            &["s/a/b/g", "f"][..],
            &["-n", "10,20p", "f"],
            &["-i", "s|a/b|c|", "f"],
            &["-i", "", "-e", "1d", "f"],
            &["-E", "/x[0-9]+/,$ { s/a\\/b/c/2; d }"],
            &["-e", "a\\\ntext w x\\\nmore", "-e", "$!N;P;D"],
            &["y/abc/def/;q5"],
            &[":a;N;$!ba;s/\\n/ /g"],
        ] {
            assert_eq!(check(arguments), None, "{arguments:?}");
        }
    }

    #[test]
    fn script_that_runs_or_touches_other_files_is_hidden() {
        for arguments in [
            &["s/a/id/e", "f"][..],
            &["1e id", "f"],
            &["w out", "f"],
            &["s/a/b/w out", "f"],
            &["s/a/b/gw out", "f"],
            &["r /etc/passwd", "f"],
            &["-f", "x.sed", "f"],
            &["-n", "1d;e", "f"],
            &["/a/{e id\n}", "f"],
            &["s/[/]/x/e;s/]/b/", "f"],
            &["-ne", "1!e id", "f"],
            &["--expression=e id", "f"],
            &["\\,a,e id", "f"],
        ] {
            assert!(check(arguments).is_some(), "{arguments:?}");
        }
    }
}
