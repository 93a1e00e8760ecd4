//! The prompt line: its text, the cursor in it, and the lines that were sent before.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal::{
    clean,
    style::{Line, Style},
};

/// A line that is being typed.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptLine {
    text: Vec<char>,
    cursor: usize,
    history: Vec<String>,
    recalled: Option<usize>,
}

/// Whether the typed text is readable on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Open,
    Hidden,
}

impl PromptLine {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn insert(&mut self, character: char) {
        self.text.insert(self.cursor, character);
        self.cursor += 1;
    }

    pub(super) fn paste(&mut self, text: &str) {
        let text: Vec<char> = text.replace("\r\n", "\n").replace('\r', "\n").chars().collect();
        let pasted = text.len();
        self.text.splice(self.cursor..self.cursor, text);
        self.cursor += pasted;
    }

    /// Deletes the character before the cursor.
    pub(super) fn backspace(&mut self) {
        if self.cursor > 0 {
            self.cursor -= 1;
            self.text.remove(self.cursor);
        }
    }

    /// Deletes the character at the cursor.
    pub(super) fn delete(&mut self) {
        if self.cursor < self.text.len() {
            self.text.remove(self.cursor);
        }
    }

    /// Deletes the word before the cursor.
    pub(super) fn delete_word(&mut self) {
        let kept = self.text[..self.cursor].iter().collect::<String>();
        let kept = kept.trim_end().rfind(' ').map_or(0, |at| kept[..=at].chars().count());
        self.text.drain(kept..self.cursor);
        self.cursor = kept;
    }

    pub(super) fn left(&mut self) {
        self.cursor = self.cursor.saturating_sub(1);
    }

    pub(super) fn right(&mut self) {
        self.cursor = (self.cursor + 1).min(self.text.len());
    }

    pub(super) fn start(&mut self) {
        self.cursor = 0;
    }

    pub(super) fn end(&mut self) {
        self.cursor = self.text.len();
    }

    /// The line that was sent before the one shown.
    pub(super) fn earlier(&mut self) {
        self.recall(self.recalled.unwrap_or(self.history.len()).checked_sub(1));
    }

    /// The line that was sent after the one shown; after the last one, an empty line.
    pub(super) fn later(&mut self) {
        self.recall(self.recalled.map(|at| at + 1));
    }

    fn recall(&mut self, at: Option<usize>) {
        match at.and_then(|at| Some((at, self.history.get(at)?.clone()))) {
            Some((at, text)) => {
                self.text = text.chars().collect();
                self.recalled = Some(at);
            }
            None if at.is_some() => self.clear(),
            None => {}
        }
        self.cursor = self.text.len();
    }

    /// Adds a sent line to the history.
    pub(super) fn remember(&mut self, text: String) {
        self.history.push(text);
    }

    /// Takes the text and empties the line.
    pub(super) fn take(&mut self) -> String {
        let text = self.text.iter().collect();
        self.clear();
        text
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.recalled = None;
    }

    /// The line after its label, and the column of the cursor in it.
    pub(super) fn shown(&self, label: String, sight: Sight, columns: usize) -> (Line, usize) {
        let shown = |character: &char| match character {
            _ if sight == Sight::Hidden => '•',
            '\n' => '⏎',
            other => *other,
        };
        let room = columns.saturating_sub(label.width() + 2).max(1);
        // The part around the cursor, if the line is wider than the screen. Only the shown part is read, because the
        // line may be a whole pasted file.
        let width = |character: char| character.width().unwrap_or(0);
        let mut before = 0;
        let kept = self.text[..self.cursor].iter().rev().map(shown).take_while(|character| {
            before += width(*character);
            before <= room
        });
        let start = self.cursor - kept.take(room.saturating_mul(2)).count();
        let column =
            label.width() + self.text[start..self.cursor].iter().map(shown).map(width).sum::<usize>();
        let rest: String = self.text[start..].iter().map(shown).take(room.saturating_mul(3)).collect();
        let line = Line::new(Style::Bold, label).and(Style::Plain, clean::visible(&rest));
        (line, column)
    }
}
