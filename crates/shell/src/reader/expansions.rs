//! What `$` and backquotes begin.

use super::arithmetic::Close;
use super::tree::{Inner, WrittenWord};
use super::words::{Place, Quoting};
use super::{Reader, Shared};
use crate::{Hidden, Unknown, Unreadable, Word, variables};

impl Reader<'_, '_, '_> {
    /// A `$` and what belongs to it.
    pub(super) fn dollar(&mut self, out: &mut WrittenWord, quoting: Quoting) -> Result<(), Unreadable> {
        let splits = quoting == Quoting::Outside(Place::Argument);
        match self.byte_after(1) {
            Some(b'(') if self.byte_after(2) == Some(b'(') => {
                self.at += 3;
                self.enter()?;
                self.arithmetic(&mut out.inside, Close::Brackets)?;
                self.leave();
                out.word.push_unknown(Unknown::Arithmetic);
            }
            Some(b'(') => {
                self.at += 2;
                let inner = self.substituted_list()?;
                out.inside.push(inner);
                out.word.push_unknown(Unknown::Substitution);
                out.word.splits |= splits;
            }
            Some(b'{') => {
                let start = self.at;
                self.at += 2;
                self.enter()?;
                self.parameter(&mut out.inside, quoting)?;
                self.leave();
                out.word.push_unknown(Unknown::Variable);
                let several = quoting == Quoting::Inside && self.text[start..self.at].contains('@');
                out.word.splits |= splits || several;
            }
            Some(b'[') => return Err(Unreadable::NotKnown("`$[`")),
            Some(b'\'') if quoting != Quoting::Inside => {
                self.at += 2;
                self.escaped(&mut out.word)?;
            }
            Some(b'"') if quoting != Quoting::Inside => {
                return Err(Unreadable::NotKnown("a quote that is translated"));
            }
            // Always numbers.
            Some(b'#' | b'?' | b'$') => {
                self.at += 2;
                out.word.push_unknown(Unknown::Arithmetic);
            }
            Some(b'@' | b'*' | b'-' | b'!' | b'0'..=b'9') => {
                let several = quoting == Quoting::Inside && self.byte_after(1) == Some(b'@');
                self.at += 2;
                out.word.push_unknown(Unknown::Variable);
                out.word.splits |= splits || several;
            }
            _ => {
                self.at += 1;
                if self.name().is_some() {
                    out.word.push_unknown(Unknown::Variable);
                    out.word.splits |= splits;
                } else {
                    out.word.push_text("$");
                }
            }
        }
        Ok(())
    }

    /// `${...}` behind its opening brace, up to and with the closing one.
    fn parameter(&mut self, inside: &mut Vec<Inner>, quoting: Quoting) -> Result<(), Unreadable> {
        if self.byte() == Some(b'#') {
            // The length, or the number of arguments.
            self.at += 1;
            if !self.take("}") {
                self.parameter_name(inside)?;
                self.close_parameter()?;
            }
            return Ok(());
        }
        let indirect = self.take("!");
        if indirect && self.take("}") {
            return Ok(());
        }
        let name = self.parameter_name(inside)?;
        if indirect {
            if self.take("*}") || self.take("@}") || (self.before_ends_list() && self.byte() == Some(b'}')) {
                self.take("}");
                return Ok(());
            }
            inside.push(Inner::Marker(Hidden::ExpandsValue));
        }
        let colon = self.take(":");
        match self.byte() {
            Some(sign @ (b'-' | b'=' | b'?' | b'+')) => {
                self.at += 1;
                if sign == b'=' {
                    self.shared.facts.set(&name, &Word::from_unknown(Unknown::Variable));
                    if variables::changes_what_runs(&name) {
                        inside.push(Inner::Marker(Hidden::ChangesWhatRuns(name)));
                    }
                }
                self.parameter_word(inside, quoting)
            }
            _ if colon => self.arithmetic(inside, Close::Brace),
            Some(b'}') => self.close_parameter(),
            Some(b'#' | b'%' | b'/' | b'^' | b',') => {
                self.at += 1;
                self.parameter_word(inside, quoting)
            }
            Some(b'@') => {
                self.at += 1;
                match self.byte() {
                    Some(b'U' | b'u' | b'L' | b'Q' | b'E' | b'A' | b'K' | b'a' | b'k') => {}
                    Some(b'P') => inside.push(Inner::Marker(Hidden::ExpandsValue)),
                    _ => return Err(Unreadable::NotKnown("this kind of `${...}`")),
                }
                self.at += 1;
                self.close_parameter()
            }
            None => Err(Unreadable::Unclosed("`${`")),
            Some(_) => Err(Unreadable::NotKnown("this kind of `${...}`")),
        }
    }

    fn close_parameter(&mut self) -> Result<(), Unreadable> {
        if self.take("}") { Ok(()) } else { Err(Unreadable::NotKnown("this kind of `${...}`")) }
    }

    /// Was the last thing that was read the index of a whole array?
    fn before_ends_list(&self) -> bool {
        self.text[..self.at].ends_with("[@]") || self.text[..self.at].ends_with("[*]")
    }

    /// The name of a parameter, with an index.
    fn parameter_name(&mut self, inside: &mut Vec<Inner>) -> Result<String, Unreadable> {
        let Some(name) = self.name() else {
            let start = self.at;
            match self.byte() {
                Some(b'0'..=b'9') => {
                    while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                        self.at += 1;
                    }
                }
                Some(b'@' | b'*' | b'?' | b'$') => self.at += 1,
                Some(_) => return Err(Unreadable::NotKnown("this kind of `${...}`")),
                None => return Err(Unreadable::Unclosed("`${`")),
            }
            return Ok(self.text[start..self.at].to_owned());
        };
        if self.take("[") {
            let allowed = |char: char| {
                char.is_ascii_alphanumeric()
                    || matches!(char, '_' | '-' | '+' | '.' | '/' | '$' | '@' | '*' | '#')
            };
            let length = self.rest().find(|char: char| !allowed(char)).unwrap_or(self.rest().len());
            let index = &self.rest()[..length];
            if index.is_empty() || self.byte_after(length) != Some(b']') {
                return Err(Unreadable::NotKnown("an index in `${...}`"));
            }
            if index != "@" && index != "*" {
                self.count_with(index, inside);
            }
            self.at += length + 1;
        }
        Ok(name)
    }

    /// The word behind the sign in `${x:-word}`, up to and with the closing brace.
    fn parameter_word(&mut self, inside: &mut Vec<Inner>, quoting: Quoting) -> Result<(), Unreadable> {
        let mut out = WrittenWord::default();
        loop {
            match self.byte() {
                None => return Err(Unreadable::Unclosed("`${`")),
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(b'\n' | b'{') => return Err(Unreadable::NotKnown("a brace or a new line in `${...}`")),
                Some(b'<' | b'>') if self.byte_after(1) == Some(b'(') => {
                    return Err(Unreadable::NotKnown("a process substitution in `${...}`"));
                }
                Some(b'\'' | b'"') if quoting == Quoting::Inside => {
                    return Err(Unreadable::NotKnown("a quote in a quoted `${...}`"));
                }
                Some(b'\\') => {
                    self.at += 1;
                    if matches!(self.char_outside_of_quotes()?, None | Some('\n')) {
                        return Err(Unreadable::NotKnown("a continued line in `${...}`"));
                    }
                }
                Some(byte) => {
                    if !self.quoted_or_expanded(byte, &mut out, quoting)? {
                        self.char_outside_of_quotes()?;
                    }
                }
            }
        }
        inside.append(&mut out.inside);
        Ok(())
    }

    /// `` `...` ``: everything up to the next backquote that is not escaped, read as a text of its own.
    pub(super) fn backquoted(&mut self, out: &mut WrittenWord, quoting: Quoting) -> Result<(), Unreadable> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.char() {
                None => return Err(Unreadable::Unclosed("a backquote")),
                Some('`') => break,
                Some('"') if quoting == Quoting::Inside => {
                    return Err(Unreadable::NotKnown("a quote in quoted backquotes"));
                }
                Some('\\') => match self.char() {
                    Some(char @ ('$' | '`' | '\\')) => text.push(char),
                    Some(char) => text.extend(['\\', char]),
                    None => return Err(Unreadable::Unclosed("a backquote")),
                },
                Some(char) => text.push(char),
            }
        }
        if text.contains('\n') {
            self.line_in_word()?;
        }
        let depth = self.depth + 1;
        let shared: &mut Shared<'_> = self.shared;
        let list = Reader::new(&text, depth, shared)?.whole_list()?;
        out.inside.push(Inner::List(list));
        out.word.push_unknown(Unknown::Substitution);
        out.word.splits |= quoting == Quoting::Outside(Place::Argument);
        Ok(())
    }

    /// `$'...'` behind its opening quote, up to and with the closing one.
    fn escaped(&mut self, word: &mut Word) -> Result<(), Unreadable> {
        let refused = Unreadable::NotKnown("this escape in `$'...'`");
        loop {
            let char = match self.char() {
                None => return Err(Unreadable::Unclosed("a quote")),
                Some('\'') => return Ok(()),
                Some('\\') => match self.char().ok_or(Unreadable::Unclosed("a quote"))? {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'e' | 'E' => '\u{1b}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    char @ ('\\' | '\'' | '"' | '?') => char,
                    'x' => self.code(16, 2).ok_or(refused.clone())?,
                    'u' => self.code(16, 4).ok_or(refused.clone())?,
                    'U' => self.code(16, 8).ok_or(refused.clone())?,
                    '0'..='7' => {
                        self.at -= 1;
                        self.code(8, 3).ok_or(refused.clone())?
                    }
                    _ => return Err(refused),
                },
                Some('\n') => {
                    self.line_in_word()?;
                    '\n'
                }
                Some(char) => char,
            };
            word.push_text(char.encode_utf8(&mut [0; 4]));
        }
    }

    /// The ASCII character with this code, of at most so many digits. Others depend on the locale.
    fn code(&mut self, radix: u32, most: usize) -> Option<char> {
        let digits = self.rest().chars().take(most).take_while(|char| char.is_digit(radix)).count();
        let code = u32::from_str_radix(&self.rest()[..digits], radix).ok()?;
        self.at += digits;
        char::from_u32(code).filter(|&char| char != '\0' && char.is_ascii())
    }
}
