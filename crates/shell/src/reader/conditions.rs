//! `[[ ... ]]`.

use super::Reader;
use super::tree::{Body, Inner, WrittenWord};
use super::words::{Place, Quoting};
use crate::{Hidden, Unreadable, variables};

/// Operators with one operand: `-` and one of these.
const UNARY: &str = "abcdefghkprstuwxGLNOSnzovR";

/// Operators between two operands that count.
const COUNTING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Other operators between two operands.
const COMPARING: &[&str] = &["==", "=~", "=", "!=", "-nt", "-ot", "-ef"];

impl Reader<'_, '_, '_> {
    /// A condition behind `[[`, up to and with `]]`.
    pub(super) fn condition(&mut self) -> Result<Body, Unreadable> {
        let mut inside = Vec::new();
        self.alternatives(&mut inside)?;
        self.keyword("]]")?;
        Ok(Body::Test(inside))
    }

    /// Terms joined by `&&` and `||`.
    fn alternatives(&mut self, inside: &mut Vec<Inner>) -> Result<(), Unreadable> {
        self.enter()?;
        loop {
            self.blanks_and_lines()?;
            self.term(inside)?;
            self.blanks_and_lines()?;
            if !(self.take("&&") || self.take("||")) {
                break;
            }
        }
        self.leave();
        Ok(())
    }

    fn term(&mut self, inside: &mut Vec<Inner>) -> Result<(), Unreadable> {
        while self.at_keyword("!") {
            self.at += 1;
            self.blanks()?;
        }
        if self.take("(") {
            self.alternatives(inside)?;
            return if self.take(")") { Ok(()) } else { Err(self.stray()) };
        }
        let start = self.at;
        let first = self.operand()?;
        let first_text = &self.text[start..self.at];
        self.blanks()?;
        if let Some(letter) = first.plain.as_deref().and_then(|plain| plain.strip_prefix('-'))
            && letter.len() == 1
            && UNARY.contains(letter)
        {
            let start = self.at;
            let operand = self.operand()?;
            let text = &self.text[start..self.at];
            if operand.plain.as_deref().is_some_and(is_operator) {
                return Err(Unreadable::stray(text));
            }
            // Bash evaluates an index in the name.
            if "vR".contains(letter) && !operand.plain.as_deref().is_some_and(variables::is_name) {
                inside.push(Inner::Marker(Hidden::Counting("the name of a variable".to_owned())));
            }
            inside.extend(operand.inside);
            return Ok(());
        }
        if first.plain.as_deref().is_some_and(is_operator) {
            return Err(Unreadable::stray(first_text));
        }
        inside.extend(first.inside);
        let operator = COUNTING.iter().chain(COMPARING).chain(&["<", ">"]).find(|operator| {
            self.starts_with(operator) && matches!(self.byte_after(operator.len()), Some(b' ' | b'\t'))
        });
        let Some(&operator) = operator else { return Ok(()) };
        self.at += operator.len();
        self.blanks()?;
        if operator == "=~" {
            return self.expression(inside);
        }
        let start = self.at;
        let second = self.operand()?;
        if COUNTING.contains(&operator) {
            self.count_with(first_text, inside);
            let second_text = &self.text[start..self.at];
            self.count_with(second_text, inside);
        }
        inside.extend(second.inside);
        Ok(())
    }

    fn operand(&mut self) -> Result<WrittenWord, Unreadable> {
        if self.at_keyword("]]") {
            return Err(self.stray());
        }
        let word = self.word(Place::Value)?.ok_or_else(|| self.stray())?;
        if word.is_process || self.byte() == Some(b'(') {
            return Err(Unreadable::NotKnown("a bracket right behind a word"));
        }
        Ok(word)
    }

    /// The regular expression behind `=~`: one word in which brackets and `|` mean nothing to the shell.
    fn expression(&mut self, inside: &mut Vec<Inner>) -> Result<(), Unreadable> {
        let mut out = WrittenWord::default();
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.byte() {
                None => return Err(Unreadable::Unclosed("`[[`")),
                Some(b' ' | b'\t' | b'\n') if depth == 0 && self.at > start => break,
                Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'<' | b'>') => {
                    return Err(Unreadable::NotKnown("this regular expression"));
                }
                Some(b'(') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b')') => {
                    depth = depth.checked_sub(1).ok_or(Unreadable::NotKnown("this regular expression"))?;
                    self.at += 1;
                }
                Some(b'\\') => {
                    self.at += 1;
                    if matches!(self.char_outside_of_quotes()?, None | Some('\n')) {
                        return Err(Unreadable::NotKnown("a continued line in a word"));
                    }
                }
                Some(byte) => {
                    if !self.quoted_or_expanded(byte, &mut out, Quoting::Outside(Place::Value))? {
                        self.char_outside_of_quotes()?;
                    }
                }
            }
        }
        if depth > 0 {
            return Err(Unreadable::NotKnown("this regular expression"));
        }
        inside.append(&mut out.inside);
        Ok(())
    }
}

fn is_operator(word: &str) -> bool {
    COUNTING.contains(&word) || COMPARING.contains(&word) || matches!(word, "!" | "]]" | "-a" | "-o")
}
