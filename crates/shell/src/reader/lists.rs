//! Lists, chains and pipelines.

use super::tree::{Chain, Joint, List, Node, Pipeline};
use super::{Inner, Reader};
use crate::{Unreadable, Word};

/// Keywords that end a list. They belong to whoever began it.
const ENDS: &[&str] = &["then", "else", "elif", "fi", "do", "done", "esac", "}"];

impl Reader<'_, '_, '_> {
    /// Everything up to the end of the text.
    pub(super) fn whole_list(&mut self) -> Result<List, Unreadable> {
        let list = self.list()?;
        if self.at < self.text.len() {
            return Err(self.stray());
        }
        if !self.pending.is_empty() {
            return Err(Unreadable::Unclosed("a here-document"));
        }
        Ok(list)
    }

    /// A list with at least one command.
    pub(super) fn full_list(&mut self) -> Result<List, Unreadable> {
        let list = self.list()?;
        if list.items.is_empty() { Err(self.stray()) } else { Ok(list) }
    }

    /// Commands up to something that ends a list; that stays.
    pub(super) fn list(&mut self) -> Result<List, Unreadable> {
        self.enter()?;
        let mut list = List::default();
        self.blanks_and_lines()?;
        while !self.at_end_of_list() {
            let (first, rest) = self.chain()?;
            self.blanks()?;
            let mut background = false;
            let more = match self.byte() {
                Some(b'\n') => true,
                Some(b';') if !matches!(self.byte_after(1), Some(b';' | b'&')) => {
                    self.at += 1;
                    true
                }
                Some(b'&') if !matches!(self.byte_after(1), Some(b'&' | b'>')) => {
                    self.at += 1;
                    background = true;
                    true
                }
                _ => false,
            };
            list.items.push(Chain { first, rest, background });
            if !more {
                break;
            }
            self.blanks_and_lines()?;
        }
        self.leave();
        Ok(list)
    }

    fn at_end_of_list(&self) -> bool {
        match self.byte() {
            None | Some(b')') => true,
            Some(b';') => true,
            _ => self.at_end_keyword(),
        }
    }

    /// Does a keyword come next that ends a list?
    pub(super) fn at_end_keyword(&self) -> bool {
        ENDS.iter().any(|end| self.at_keyword(end))
    }

    /// Does this keyword come next, as a whole word?
    pub(super) fn at_keyword(&self, keyword: &str) -> bool {
        self.starts_with(keyword) && Self::ends_word(self.byte_after(keyword.len()))
            // A continued line behind it would make it another word.
            && !self.rest()[keyword.len()..].starts_with("\\\n")
    }

    /// Does a word end before this byte?
    pub(super) fn ends_word(byte: Option<u8>) -> bool {
        matches!(byte, None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>'))
    }

    /// Takes this keyword, which must come next.
    pub(super) fn keyword(&mut self, keyword: &str) -> Result<(), Unreadable> {
        if !self.at_keyword(keyword) {
            return Err(self.stray());
        }
        self.at += keyword.len();
        Ok(())
    }

    fn chain(&mut self) -> Result<(Pipeline, Vec<(Joint, Pipeline)>), Unreadable> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks()?;
            let joint = if self.take("&&") {
                Joint::And
            } else if self.take("||") {
                Joint::Or
            } else {
                return Ok((first, rest));
            };
            self.blanks_and_lines()?;
            rest.push((joint, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, Unreadable> {
        let mut negated = false;
        let mut timed = Vec::new();
        if self.at_keyword("!") {
            self.negation()?;
            negated = true;
        }
        if self.at_keyword("time") {
            self.at += "time".len();
            timed.push(Word::from_text("time"));
            self.blanks()?;
            if self.at_keyword("-p") {
                self.at += "-p".len();
                timed.push(Word::from_text("-p"));
                self.blanks()?;
            }
            if self.at_keyword("!") {
                self.negation()?;
                negated = !negated;
            }
            // Bash takes another option for the program; and in a substitution it does not know the bracket.
            if self.byte() == Some(b'-') || (self.byte() == Some(b'(') && self.substitutions > 0) {
                return Err(Unreadable::NotKnown("what stands behind `time`"));
            }
        }
        let mut stages = Vec::new();
        loop {
            let mut stage = self.command()?;
            if stages.is_empty() {
                put_before(&mut stage, &mut timed);
            }
            self.blanks()?;
            let pipe = self.byte() == Some(b'|') && self.byte_after(1) != Some(b'|');
            stages.push(stage);
            if !pipe {
                return Ok(Pipeline { negated, stages });
            }
            self.at += 1;
            if self.byte() == Some(b'&') {
                self.at += 1;
            }
            self.blanks_and_lines()?;
        }
    }

    fn negation(&mut self) -> Result<(), Unreadable> {
        // `!(a)` is a pattern in a shell with other settings.
        if self.byte_after(1) == Some(b'(') {
            return Err(Unreadable::NotKnown("`!(`"));
        }
        self.at += 1;
        self.blanks()
    }

    /// A list in brackets of a substitution, up to and with the closing bracket; the opening one is taken.
    pub(super) fn substituted_list(&mut self) -> Result<Inner, Unreadable> {
        let outside = std::mem::take(&mut self.pending);
        self.pending_outside += outside.len();
        self.substitutions += 1;
        let list = self.list()?;
        if !self.pending.is_empty() {
            return Err(Unreadable::Unclosed("a here-document"));
        }
        self.substitutions -= 1;
        self.pending_outside -= outside.len();
        self.pending = outside;
        if !self.take(")") {
            return Err(match self.byte() {
                None => Unreadable::Unclosed("a command substitution"),
                Some(_) => self.stray(),
            });
        }
        Ok(Inner::List(list))
    }
}

/// `time` is a word of the command it times, so that it shows where the command is shown.
fn put_before(stage: &mut Node, timed: &mut Vec<Word>) {
    if let Node::Simple(simple) = stage
        && !simple.words.is_empty()
    {
        let timed = timed.drain(..).map(|word| super::tree::WrittenWord { word, ..Default::default() });
        simple.words.splice(0..0, timed);
    }
}
