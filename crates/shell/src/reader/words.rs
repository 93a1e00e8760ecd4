//! Words: quoting, and what is expanded in them.

use super::Reader;
use super::tree::{Inner, WrittenWord};
use crate::{Unknown, Unreadable, Word};

/// Where a word stands, which decides what is expanded in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An argument: everything is expanded, and it may become several words.
    Argument,
    /// The value of an assignment, a here-string, an operand of `[[ ]]`: it stays one word, no file names.
    Value,
}

/// How what follows a `$` is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Outside(Place),
    /// In double quotes, or in a here-document.
    Inside,
}

/// From here on the word is not known: what it was before, and where that is in the text.
struct Cut {
    before: Word,
    at: usize,
    unknown: Unknown,
}

impl<'t> Reader<'t, '_, '_> {
    /// The word that comes next, if one does.
    pub(super) fn word(&mut self, place: Place) -> Result<Option<WrittenWord>, Unreadable> {
        let start = self.at;
        let mut out = WrittenWord { plain: Some(String::new()), ..Default::default() };
        let (mut bracket, mut brace): (Option<Cut>, Option<Cut>) = (None, None);
        let (mut separated, mut braces_expand) = (false, false);
        // Set behind an unquoted `=` or `:`, where `~` is expanded.
        let mut tilde_at = start;
        while let Some(byte) = self.byte() {
            let cut =
                |out: &WrittenWord, unknown| Some(Cut { before: out.word.clone(), at: self.at, unknown });
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' if self.byte_after(1) != Some(b'(') => break,
                b'<' | b'>' => {
                    self.process_substitution(start, &mut out)?;
                    continue;
                }
                b'\\' if self.byte_after(1) == Some(b'\n') => break,
                b'\\' => {
                    self.at += 1;
                    out.plain = None;
                    match self.char_outside_of_quotes()? {
                        Some(char) => out.word.push_text(char.encode_utf8(&mut [0; 4])),
                        None => return Err(Unreadable::Unexpected("a backslash at the end")),
                    }
                }
                b'\'' | b'"' | b'$' | b'`' => {
                    self.quoted_or_expanded(byte, &mut out, Quoting::Outside(place))?;
                }
                b'*' | b'?' if place == Place::Argument => {
                    out.plain = None;
                    self.at += 1;
                    out.word.push_unknown(Unknown::Glob);
                }
                b'[' if place == Place::Argument && !self.is_test(start) => {
                    out.plain = None;
                    bracket = bracket.or_else(|| cut(&out, Unknown::Glob));
                    self.at += 1;
                    out.word.push_text("[");
                }
                b'~' if self.at == tilde_at => self.tilde(&mut out),
                _ => {
                    match byte {
                        b'{' if place == Place::Argument => {
                            brace = brace.or_else(|| cut(&out, Unknown::Brace));
                        }
                        // Which braces belong together is a science in Bash: any that could count.
                        b',' => separated |= brace.is_some(),
                        b'.' => separated |= brace.is_some() && self.byte_after(1) == Some(b'.'),
                        b'}' => braces_expand |= separated,
                        _ => {}
                    }
                    let Some(char) = self.char_outside_of_quotes()? else { break };
                    if matches!(char, '=' | ':') {
                        tilde_at = self.at;
                    }
                    let mut buffer = [0; 4];
                    let text = char.encode_utf8(&mut buffer);
                    out.word.push_text(text);
                    if let Some(plain) = &mut out.plain {
                        plain.push_str(text);
                    }
                }
            }
            if out.is_process {
                return Err(Unreadable::NotKnown("a process substitution within a word"));
            }
        }
        if self.at == start {
            return Ok(None);
        }
        let brace = brace.filter(|_| braces_expand);
        if brace.is_some() {
            check_sequences(&self.text[start..self.at])?;
            out.plain = None;
        }
        let cut = match (bracket, brace) {
            (Some(bracket), Some(brace)) if brace.at < bracket.at => Some(brace),
            (bracket, brace) => bracket.or(brace),
        };
        if let Some(cut) = cut {
            out.word = self.cut_off(cut, out.word.splits);
        }
        Ok(Some(out))
    }

    /// What begins with this byte, if it is quoted or expanded; otherwise `false`, and nothing is taken.
    pub(super) fn quoted_or_expanded(
        &mut self,
        byte: u8,
        out: &mut WrittenWord,
        quoting: Quoting,
    ) -> Result<bool, Unreadable> {
        match byte {
            b'\'' => {
                self.at += 1;
                let text = self.single_quoted()?;
                out.word.push_text(text);
            }
            b'"' => {
                self.at += 1;
                self.double_quoted(out)?;
            }
            b'$' => self.dollar(out, quoting)?,
            b'`' => self.backquoted(out, quoting)?,
            _ => return Ok(false),
        }
        out.plain = None;
        Ok(true)
    }

    /// `<(...)` or `>(...)`, in a word that begins at `start`.
    fn process_substitution(&mut self, start: usize, out: &mut WrittenWord) -> Result<(), Unreadable> {
        if self.at != start && self.byte_before() != Some(b'=') {
            return Err(Unreadable::NotKnown("a process substitution within a word"));
        }
        out.plain = None;
        out.is_process = self.at == start;
        self.at += 2;
        let inner = self.substituted_list()?;
        if matches!(&inner, Inner::List(list) if list.items.is_empty()) {
            // Bash leaves out the word.
            return Err(Unreadable::NotKnown("an empty process substitution"));
        }
        out.inside.push(inner);
        out.word.push_unknown(Unknown::Substitution);
        Ok(())
    }

    /// `~`, and the name behind it.
    fn tilde(&mut self, out: &mut WrittenWord) {
        out.plain = None;
        self.at += 1;
        let name_at = self.at;
        while self.byte().is_some_and(is_user) {
            self.at += 1;
        }
        out.word.push_unknown(Unknown::Tilde);
        if self.at > name_at {
            // `~ada` is the home folder of somebody else, and `~-` is none.
            out.word.push_unknown(Unknown::Variable);
        }
    }

    /// A word up to where it is no longer known; it may become several words if `splits`.
    fn cut_off(&self, cut: Cut, splits: bool) -> Word {
        let mut word = cut.before;
        word.push_unknown(cut.unknown);
        // A wildcard stands for no `/`, and braces for no `..`; but what was cut off may have them.
        let more = if cut.unknown == Unknown::Glob { "/" } else { ".." };
        if self.text[cut.at..self.at].contains(more) {
            word.push_unknown(Unknown::Variable);
        }
        word.splits = splits;
        word
    }

    /// Is the `[` that comes next a word of its own, as in `[ -f x ]`?
    fn is_test(&self, start: usize) -> bool {
        self.at == start && Self::ends_word(self.byte_after(1))
    }

    /// The text up to the closing quote; the opening one is taken.
    pub(super) fn single_quoted(&mut self) -> Result<&'t str, Unreadable> {
        let length = self.rest().find('\'').ok_or(Unreadable::Unclosed("a quote"))?;
        let text = &self.rest()[..length];
        if text.contains('\n') {
            self.line_in_word()?;
        }
        self.at += length + 1;
        Ok(text)
    }

    /// Up to and with the closing quote; the opening one is taken.
    pub(super) fn double_quoted(&mut self, out: &mut WrittenWord) -> Result<(), Unreadable> {
        loop {
            match self.byte() {
                None => return Err(Unreadable::Unclosed("a quote")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.quoted_char(out)?,
            }
        }
    }

    /// The next character, or what it begins, in double quotes or in a here-document.
    pub(super) fn quoted_char(&mut self, out: &mut WrittenWord) -> Result<(), Unreadable> {
        match self.byte() {
            Some(b'$') => self.dollar(out, Quoting::Inside),
            Some(b'`') => self.backquoted(out, Quoting::Inside),
            Some(b'\\') => {
                let next = self.byte_after(1);
                match next {
                    Some(b'$' | b'`' | b'"' | b'\\') => {
                        let at = self.at + 1;
                        out.word.push_text(&self.text[at..=at]);
                        self.at += 2;
                    }
                    Some(b'\n') => {
                        // Both vanish before anything is expanded, so a name before them could grow.
                        let grows = matches!(out.word.pieces.last(), Some(crate::Piece::Unknown(_)));
                        if grows || self.byte_before() == Some(b'$') {
                            return Err(Unreadable::NotKnown("a continued line behind a variable"));
                        }
                        self.line_in_word()?;
                        self.at += 2;
                    }
                    _ => {
                        out.word.push_text("\\");
                        self.at += 1;
                    }
                }
                Ok(())
            }
            _ => {
                if self.byte() == Some(b'\n') {
                    self.line_in_word()?;
                }
                let start = self.at;
                self.char();
                self.at += self.rest().find(['$', '`', '\\', '"', '\n']).unwrap_or(self.rest().len());
                out.word.push_text(&self.text[start..self.at]);
                Ok(())
            }
        }
    }
}

fn is_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'+')
}

/// Refuses a sequence such as `{Z..a}`: it makes characters that Bash then reads as quotes.
fn check_sequences(source: &str) -> Result<(), Unreadable> {
    let mut before = "";
    for after in source.split("..") {
        if let Some(from) = before.rsplit('{').next().filter(|from| before.len() > from.len())
            && let (Some(from), Some(to)) = (only_char(from), after.chars().next())
        {
            let same = |is: fn(&char) -> bool| is(&from) && is(&to);
            let known = same(char::is_ascii_digit)
                || same(char::is_ascii_lowercase)
                || same(char::is_ascii_uppercase);
            let negative = from.is_ascii_digit() && to == '-';
            if !(known || negative) {
                return Err(Unreadable::NotKnown("a sequence of characters in braces"));
            }
        }
        before = after;
    }
    Ok(())
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}
