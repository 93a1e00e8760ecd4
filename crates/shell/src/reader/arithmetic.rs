//! Where Bash counts: `(( ))`, `$(( ))`, indexes and offsets.
//!
//! Only digits, names, operators and expansions are read. The names are gathered, because Bash evaluates the
//! value of a variable in its turn and runs substitutions that it finds there: `x='a[$(cmd)]'; ((x))` runs `cmd`.

use super::Reader;
use super::tree::{Inner, WrittenWord};
use super::words::Quoting;
use crate::{Hidden, Unreadable, variables};

/// What ends the calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// `))`.
    Brackets,
    /// `))` of a `for ((`, with two `;` before it.
    Loop,
    /// `}`.
    Brace,
}

/// Variables that Bash itself sets to a text that others choose.
const SET_BY_BASH: &str = "
    _ REPLY OPTARG MAPFILE BASH_REMATCH PWD OLDPWD BASH_COMMAND BASH_ARGV BASH_ARGV0 BASH_EXECUTION_STRING DIRSTACK
    FUNCNAME COPROC COMP_LINE COMP_WORDS READLINE_LINE
";

impl Reader<'_, '_, '_> {
    /// A calculation behind its opening sign, up to and with the closing one.
    pub(super) fn arithmetic(&mut self, inside: &mut Vec<Inner>, close: Close) -> Result<(), Unreadable> {
        let mut depth = 0_usize;
        let mut semicolons = 0;
        loop {
            let Some(byte) = self.byte() else { return Err(Unreadable::Unclosed("a calculation")) };
            match byte {
                b')' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                b')' if close != Close::Brace && self.byte_after(1) == Some(b')') => {
                    self.at += 2;
                    if close == Close::Loop && semicolons != 2 {
                        return Err(Unreadable::Unexpected("a `for ((` without its three calculations"));
                    }
                    return Ok(());
                }
                b'}' if close == Close::Brace && depth == 0 => {
                    self.at += 1;
                    return Ok(());
                }
                b'(' => {
                    depth += 1;
                    self.at += 1;
                }
                b';' if close == Close::Loop && depth == 0 => {
                    semicolons += 1;
                    self.at += 1;
                }
                b'\n' => {
                    self.line_in_word()?;
                    self.at += 1;
                }
                b'$' => self.counted_expansion(inside)?,
                b'0'..=b'9' => {
                    while self
                        .byte()
                        .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"@_#".contains(&byte))
                    {
                        self.at += 1;
                    }
                }
                byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                    if let Some(name) = self.name() {
                        self.count(name, inside);
                    }
                }
                byte if b" \t+-*/%<>=!&|^~?:,[]".contains(&byte) => self.at += 1,
                _ => return Err(Unreadable::NotKnown("this kind of calculation")),
            }
        }
    }

    /// An expansion whose result Bash counts with.
    fn counted_expansion(&mut self, inside: &mut Vec<Inner>) -> Result<(), Unreadable> {
        let rest = &self.rest()[1..];
        let name = rest.strip_prefix('{').unwrap_or(rest);
        let length =
            name.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(name.len());
        let (name, behind) = name.split_at(length);
        let braces = rest.starts_with('{');
        if variables::is_name(name) && (!braces || behind.starts_with('}')) {
            self.count(name.to_owned(), inside);
        } else if !(rest.starts_with("((")
            || rest.starts_with("{#")
            || rest.starts_with(['#', '?', '$', '!']))
        {
            inside.push(Inner::Marker(Hidden::Counting("the result of an expansion".to_owned())));
        }
        let mut out = WrittenWord::default();
        let before = self.at;
        self.dollar(&mut out, Quoting::Inside)?;
        if self.at == before + 1 {
            return Err(Unreadable::NotKnown("this kind of calculation"));
        }
        inside.append(&mut out.inside);
        Ok(())
    }

    /// Bash counts with this variable.
    fn count(&mut self, name: String, inside: &mut Vec<Inner>) {
        if SET_BY_BASH.split_ascii_whitespace().any(|known| known == name) {
            inside.push(Inner::Marker(Hidden::Counting(format!("`${name}`"))));
        } else if variables::changes_what_runs(&name) {
            inside.push(Inner::Marker(Hidden::ChangesWhatRuns(name)));
        } else {
            self.shared.facts.counted.push(name);
        }
    }

    /// Bash counts with this text: an index, or an operand of `-eq`.
    pub(super) fn count_with(&mut self, text: &str, inside: &mut Vec<Inner>) {
        let mut rest = text.trim_matches('"');
        // A length is a number.
        if rest.strip_prefix("${#").is_some_and(|rest| !rest.contains('$')) {
            return;
        }
        while let Some(char) = rest.chars().next() {
            let length =
                rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(rest.len());
            if length > 0 {
                let name = &rest[..length];
                if variables::is_name(name) {
                    self.count(name.to_owned(), inside);
                }
                rest = &rest[length..];
                continue;
            }
            rest = &rest[char.len_utf8()..];
            let harmless = match char {
                '$' => rest.starts_with(|char: char| char.is_ascii_alphabetic() || "_{?#".contains(char)),
                '-' | '+' | '*' | '/' | '.' | ' ' | '"' | '}' | '@' | '#' => true,
                '{' => rest.starts_with(|char: char| char.is_ascii_alphabetic() || "_#".contains(char)),
                _ => false,
            };
            if !harmless {
                inside.push(Inner::Marker(Hidden::Counting("a text that is not known".to_owned())));
                return;
            }
        }
    }
}
