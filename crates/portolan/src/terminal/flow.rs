//! Running text in lines: takes pieces as they arrive, returns whole lines, keeps the unfinished line.
//!
//! Wraps at words so that prose stays readable, and knows just enough Markdown to show headings and code.

use unicode_width::UnicodeWidthChar as _;

use super::{
    clean::Cleaner,
    style::{Line, Style},
};

/// Text that becomes lines.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    cleaner: Cleaner,
    style: Style,
    columns: usize,
    indent: usize,
    unfinished: String,
    /// The unfinished line continues a wrapped line.
    continued: Option<Style>,
    in_code: bool,
    /// How many columns the unfinished line takes.
    used: usize,
    /// How many characters it has: some take no column.
    characters: usize,
    /// The start of the current word, if the line can be broken there.
    word: Option<usize>,
}

/// How many characters a line may have for each of its columns. Only characters without a width exceed the columns, and
/// no script needs so many of them.
const CHARACTERS_PER_COLUMN: usize = 16;

impl Flow {
    /// Text in `style`, at most `columns` wide including its indent.
    pub(crate) fn new(style: Style, columns: usize, indent: usize) -> Self {
        Self {
            cleaner: Cleaner::default(),
            style,
            columns: columns.saturating_sub(indent).max(10),
            indent,
            unfinished: String::new(),
            continued: None,
            in_code: false,
            used: 0,
            characters: 0,
            word: None,
        }
    }

    /// Takes the next piece and returns the finished lines. Reads each character once, however long a line is and
    /// however many pieces it comes in.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<Line> {
        let cleaned = self.cleaner.clean(piece);
        let mut lines = Vec::new();
        for character in cleaned.chars() {
            match character {
                '\n' => lines.push(self.finish_line()),
                _ => self.add(character, &mut lines),
            }
        }
        lines
    }

    fn add(&mut self, character: char, lines: &mut Vec<Line>) {
        let wide = character.width().unwrap_or(0);
        while !self.unfinished.is_empty() && !self.has_room(wide) {
            lines.push(self.break_line());
        }
        let begins_again = self.continued.is_some() && self.unfinished.is_empty();
        if character == ' ' && begins_again && !self.in_code {
            // The space at a line break belongs to neither half.
            return;
        }
        self.unfinished.push(character);
        self.used += wide;
        self.characters += 1;
        if character == ' ' && self.characters > 1 && !self.in_code {
            self.word = Some(self.unfinished.len());
        }
    }

    fn has_room(&self, wide: usize) -> bool {
        self.used.saturating_add(wide) <= self.columns
            && self.characters < self.columns.saturating_mul(CHARACTERS_PER_COLUMN)
    }

    /// Ends the line before the word that does not fit, or at the last column.
    fn break_line(&mut self) -> Line {
        let style = self.line_style(&self.unfinished);
        let at = self.word.take().unwrap_or(self.unfinished.len());
        let rest = self.unfinished.split_off(at);
        let text = std::mem::replace(&mut self.unfinished, rest);
        self.used = self.unfinished.chars().map(|character| character.width().unwrap_or(0)).sum();
        self.characters = self.unfinished.chars().count();
        self.continued = Some(style);
        Line::new(style, text.trim_end()).indented(self.indent)
    }

    /// The unfinished line, if there is one.
    pub(crate) fn unfinished(&self) -> Option<Line> {
        if self.unfinished.is_empty() {
            return None;
        }
        Some(Line::new(self.line_style(&self.unfinished), self.unfinished.clone()).indented(self.indent))
    }

    /// Ends the text: returns the unfinished line, if there is one.
    pub(crate) fn end(&mut self) -> Option<Line> {
        (!self.unfinished.is_empty()).then(|| self.finish_line())
    }

    fn finish_line(&mut self) -> Line {
        let text = std::mem::take(&mut self.unfinished);
        (self.used, self.characters, self.word) = (0, 0, None);
        let style = self.line_style(&text);
        if self.continued.take().is_none() && text.trim_start().starts_with("```") {
            self.in_code = !self.in_code;
        }
        Line::new(style, text).indented(self.indent)
    }

    fn line_style(&self, text: &str) -> Style {
        if let Some(style) = self.continued {
            return style;
        }
        if self.style != Style::Plain {
            return self.style;
        }
        let trimmed = text.trim_start();
        if self.in_code || trimmed.starts_with("```") {
            Style::Accent
        } else if trimmed.starts_with('#') {
            Style::Bold
        } else {
            Style::Plain
        }
    }
}

#[cfg(test)]
mod tests {
    use portolan_testkit::instructions::{per_round, rounds};

    use super::*;

    fn all(pieces: &[&str], columns: usize) -> Vec<String> {
        let mut flow = Flow::new(Style::Plain, columns, 0);
        let mut lines: Vec<Line> = pieces.iter().flat_map(|piece| flow.push(piece)).collect();
        lines.extend(flow.end());
        lines.iter().map(Line::plain).collect()
    }

    #[test]
    fn prose_is_wrapped_at_words() {
        assert_eq!(all(&["the quick brown fox\njumps"], 10), ["the quick", "brown fox", "jumps"]);
        assert_eq!(all(&["abcdefghijklmno"], 10), ["abcdefghij", "klmno"]);
    }

    #[test]
    fn the_text_gives_the_same_lines_wherever_it_is_cut() {
        let text = "# Title\nsome words that are wrapped 日本語日本語\n```rust\nfn main() {}\n```\nend";
        let whole = all(&[text], 12);
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            assert_eq!(all(&[&text[..cut], &text[cut..]], 12), whole, "cut at {cut}");
        }
    }

    #[test]
    fn headings_and_code_have_a_style() {
        let mut flow = Flow::new(Style::Plain, 80, 2);
        let lines = flow.push("# a\n```\ncode # x\n```\nb\n");
        let styles: Vec<Style> =
            lines.iter().filter_map(|line| line.0.last()).map(|(style, _)| *style).collect();
        assert_eq!(styles, [Style::Bold, Style::Accent, Style::Accent, Style::Accent, Style::Plain]);
        assert_eq!(lines[2].plain(), "  code # x");
    }

    #[test]
    fn the_spaces_at_which_a_line_is_broken_are_the_same_for_every_cut() {
        let text = "abcdefghij   klm   nopqrstuvwxyz 日本語日本語 \u{301}\u{301}x";
        let whole = all(&[text], 10);
        assert_eq!(whole[..2], ["abcdefghij", "klm"]);
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            assert_eq!(all(&[&text[..cut], &text[cut..]], 10), whole, "cut at {cut}");
        }
    }

    #[test]
    fn characters_without_a_width_do_not_make_an_endless_line() {
        let lines = all(&["\u{301}".repeat(1000).as_str()], 10);
        assert!(lines.iter().all(|line| line.chars().count() <= 10 * CHARACTERS_PER_COLUMN));
        assert_eq!(lines.concat().chars().count(), 1000);
    }

    /// How many characters each counted round adds to a line.
    const ADDED: u64 = 20;

    /// The highest cost of a character, in instructions of an unoptimised build. Reading the whole line for each new
    /// character costs many times as much.
    const MOST: u64 = 4_000;

    fn one_long_line() -> String {
        "the quick brown fox ".repeat((rounds() * ADDED / 20) as usize)
    }

    #[test]
    fn counted_a_line_that_comes_whole() {
        let mut flow = Flow::new(Style::Plain, 80, 0);
        assert!(flow.push(&one_long_line()).len() as u64 <= rounds());
    }

    #[test]
    fn counted_a_line_that_streams_into_a_pipe() {
        let mut flow = Flow::new(Style::Plain, usize::MAX, 0);
        for word in one_long_line().split_inclusive(' ') {
            assert_eq!(flow.push(word), []);
        }
    }

    #[test]
    fn the_cost_per_character_does_not_grow_with_the_line() {
        let whole = per_round("terminal::flow::tests::counted_a_line_that_comes_whole") / ADDED;
        assert!(whole < MOST, "{whole} instructions per character of a line of 40,000");
        let streamed = per_round("terminal::flow::tests::counted_a_line_that_streams_into_a_pipe") / ADDED;
        assert!(streamed < MOST, "{streamed} instructions per character of a line of 40,000");
    }
}
