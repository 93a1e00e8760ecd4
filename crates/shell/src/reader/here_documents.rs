//! Here-documents: where they begin and end, and what is expanded in them.

use super::Reader;
use super::tree::WrittenWord;
use crate::Unreadable;

/// What happens to tabs at the beginning of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tabs {
    Kept,
    /// `<<-`.
    Stripped,
}

/// A here-document whose text has not begun.
#[derive(Debug)]
pub(super) struct Pending {
    number: usize,
    tabs: Tabs,
    delimiter: String,
    /// The delimiter has quotes, so nothing is expanded.
    quoted: bool,
}

impl Reader<'_, '_, '_> {
    /// The delimiter behind `<<`. Gives the number of the here-document.
    pub(super) fn delimiter(&mut self, tabs: Tabs) -> Result<usize, Unreadable> {
        let mut delimiter = String::new();
        let mut quote = None;
        let mut quoted = false;
        loop {
            match self.byte() {
                Some(byte @ (b'\'' | b'"')) if quote.is_none_or(|quote| quote == byte) => {
                    quote = if quote.is_none() { Some(byte) } else { None };
                    quoted = true;
                }
                Some(b'\\') if quote.is_none() => {
                    quoted = true;
                    self.at += 1;
                    match self.byte() {
                        Some(byte) if is_delimiter(byte) => delimiter.push(char::from(byte)),
                        _ => return Err(Unreadable::NotKnown("this delimiter of a here-document")),
                    }
                }
                Some(byte) if is_delimiter(byte) => delimiter.push(char::from(byte)),
                byte if quote.is_none() && Self::ends_word(byte) && byte != Some(b'(') => break,
                _ => return Err(Unreadable::NotKnown("this delimiter of a here-document")),
            }
            self.at += 1;
        }
        if delimiter.is_empty() {
            return Err(Unreadable::NotKnown("this delimiter of a here-document"));
        }
        let number = self.shared.here_documents.len();
        self.shared.here_documents.push(Vec::new());
        self.pending.push(Pending { number, tabs, delimiter, quoted });
        Ok(number)
    }

    /// The texts of the here-documents that wait; the new line before them is taken.
    pub(super) fn here_documents(&mut self) -> Result<(), Unreadable> {
        for pending in std::mem::take(&mut self.pending) {
            let start = self.at;
            let end = loop {
                if self.at >= self.text.len() {
                    return Err(Unreadable::Unclosed("a here-document"));
                }
                let rest = self.rest();
                let line_at = self.at;
                let length = rest.find('\n').unwrap_or(rest.len());
                let line = &rest[..length];
                self.at += (length + 1).min(rest.len());
                let shown = match pending.tabs {
                    Tabs::Kept => line,
                    Tabs::Stripped => line.trim_start_matches('\t'),
                };
                if shown == pending.delimiter {
                    break line_at;
                }
                if shown.starts_with(&pending.delimiter) {
                    // In a substitution Bash also ends a here-document at `EOF)`.
                    return Err(Unreadable::NotKnown("a line that begins like the end of the here-document"));
                }
                let backslashes = line.len() - line.trim_end_matches('\\').len();
                if !pending.quoted && backslashes % 2 == 1 {
                    return Err(Unreadable::NotKnown("a continued line in a here-document"));
                }
            };
            if !pending.quoted {
                let text = &self.text[start..end];
                let depth = self.depth + 1;
                let mut reader = Reader::new(text, depth, &mut *self.shared)?;
                let mut out = WrittenWord::default();
                while reader.at < text.len() {
                    reader.quoted_char(&mut out)?;
                }
                self.shared.here_documents[pending.number] = out.inside;
            }
        }
        Ok(())
    }
}

fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+')
}
