//! From text to a tree of commands, strictly: what the grammar here does not name is refused.
//!
//! One pass from left to right, with at most [`MAX_DEPTH`] levels of recursion and without going back, so the
//! time is linear in the text. Where Bash itself decides by trying (`$((` may be a subshell in a substitution),
//! the reader takes the usual meaning and refuses the text if it does not fit.

mod arithmetic;
mod compounds;
mod conditions;
mod expansions;
mod here_documents;
mod lists;
mod simple;
mod tree;
mod words;

pub(crate) use tree::{
    Body, Chain, Compound, Facts, Inner, Joint, List, Node, Pipeline, Redirection, RedirectionKind, Simple,
    Tree,
};

use here_documents::Pending;

use crate::{Unreadable, characters, limits::MAX_DEPTH};

/// Reads a whole text. `depth` is how deep it stands in others.
pub(crate) fn tree(text: &str, depth: usize, facts: &mut Facts) -> Result<Tree, Unreadable> {
    let mut shared = Shared { facts, here_documents: Vec::new(), moves: 0 };
    let mut reader = Reader::new(text, depth, &mut shared)?;
    let list = reader.whole_list()?;
    Ok(Tree { list, here_documents: shared.here_documents })
}

/// What the readers of a text and of the texts nested in it have in common.
struct Shared<'f> {
    facts: &'f mut Facts,
    here_documents: Vec<Vec<Inner>>,
    /// How many commands were read that may change the folder.
    moves: usize,
}

struct Reader<'t, 's, 'f> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Here-documents whose text begins after the next new line.
    pending: Vec<Pending>,
    /// So many here-documents wait outside of the substitution that is being read.
    pending_outside: usize,
    /// So many command or process substitutions are open.
    substitutions: usize,
    shared: &'s mut Shared<'f>,
}

impl<'t, 's, 'f> Reader<'t, 's, 'f> {
    fn new(text: &'t str, depth: usize, shared: &'s mut Shared<'f>) -> Result<Self, Unreadable> {
        if depth > MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        Ok(Self { text, at: 0, depth, pending: Vec::new(), pending_outside: 0, substitutions: 0, shared })
    }

    /// One level deeper. Whoever calls it takes the level back; after an error nothing is read any more.
    fn enter(&mut self) -> Result<(), Unreadable> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Unreadable::TooDeep) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn byte_after(&self, bytes: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + bytes).copied()
    }

    fn byte_before(&self) -> Option<u8> {
        self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at)).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Takes `text` if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Takes the next character.
    fn char(&mut self) -> Option<char> {
        let char = self.rest().chars().next()?;
        self.at += char.len_utf8();
        Some(char)
    }

    /// Takes the next character, which stands outside of quotes.
    fn char_outside_of_quotes(&mut self) -> Result<Option<char>, Unreadable> {
        let char = self.char();
        if let Some(char) = char {
            characters::check_outside_of_quotes(char)?;
        }
        Ok(char)
    }

    /// What comes next does not belong here.
    fn stray(&self) -> Unreadable {
        let end = self.rest().find([' ', '\t', '\n']).unwrap_or(self.rest().len());
        match &self.rest()[..end] {
            "" if self.rest().is_empty() => Unreadable::Unexpected("an end where more is expected"),
            "" => Unreadable::Unexpected("a blank or a new line where more is expected"),
            text => Unreadable::stray(text),
        }
    }

    /// Skips blanks, comments and lines that are continued; stays before a new line.
    fn blanks(&mut self) -> Result<(), Unreadable> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.byte_after(1) == Some(b'\n') => self.continuation()?,
                Some(b'#') if self.at_word_start() => {
                    while !matches!(self.byte(), None | Some(b'\n')) {
                        self.char_outside_of_quotes()?;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// A backslash and a new line, outside of quotes. Bash takes both out before anything else, so that what
    /// stands around them grows together; that is read only where a blank keeps it apart.
    fn continuation(&mut self) -> Result<(), Unreadable> {
        if !self.pending.is_empty() {
            return Err(Unreadable::NotKnown("a continued line with a here-document"));
        }
        let before = matches!(self.byte_before(), None | Some(b' ' | b'\t' | b'\n'));
        let after = matches!(self.byte_after(2), None | Some(b' ' | b'\t' | b'\n'));
        if !before && !after {
            return Err(Unreadable::NotKnown("a line that is continued within a word"));
        }
        self.at += 2;
        Ok(())
    }

    /// Does a word begin here, so that `#` begins a comment?
    fn at_word_start(&self) -> bool {
        matches!(
            self.byte_before(),
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
        )
    }

    /// Skips blanks, comments and new lines, and reads the here-documents that begin after those.
    fn blanks_and_lines(&mut self) -> Result<(), Unreadable> {
        loop {
            self.blanks()?;
            if self.byte() != Some(b'\n') {
                return Ok(());
            }
            self.line()?;
        }
    }

    /// Takes a new line and the here-documents after it.
    fn line(&mut self) -> Result<(), Unreadable> {
        if self.pending_outside > 0 {
            return Err(Unreadable::NotKnown("a new line in a substitution beside a here-document"));
        }
        self.at += 1;
        self.here_documents()
    }

    /// A new line within quotes or an expansion.
    fn line_in_word(&self) -> Result<(), Unreadable> {
        if self.pending.is_empty() && self.pending_outside == 0 {
            Ok(())
        } else {
            Err(Unreadable::NotKnown("a new line in a word beside a here-document"))
        }
    }
}
