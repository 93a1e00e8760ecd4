//! Running text in lines: takes pieces as they arrive, gives whole lines, keeps the unfinished one.
//!
//! Wraps at words so that prose stays readable, and knows just enough Markdown to show headings and code.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{
    clean::Cleaner,
    style::{Line, Style},
};

/// Text on its way to the screen.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    cleaner: Cleaner,
    style: Style,
    columns: usize,
    indent: usize,
    unfinished: String,
    /// The unfinished line goes on one that was wrapped.
    continued: Option<Style>,
    in_code: bool,
}

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
        }
    }

    /// The next piece: the lines it finishes.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<Line> {
        let cleaned = self.cleaner.clean(piece);
        let mut lines = Vec::new();
        for part in cleaned.split_inclusive('\n') {
            let (text, ended) = match part.strip_suffix('\n') {
                Some(text) => (text, true),
                None => (part, false),
            };
            self.unfinished.push_str(text);
            self.wrap(&mut lines);
            if ended {
                lines.push(self.finish_line());
            }
        }
        lines
    }

    /// The unfinished line, where there is one.
    pub(crate) fn unfinished(&self) -> Option<Line> {
        if self.unfinished.is_empty() {
            return None;
        }
        Some(Line::new(self.line_style(&self.unfinished), self.unfinished.clone()).indented(self.indent))
    }

    /// Nothing more comes: the unfinished line, where there is one.
    pub(crate) fn end(&mut self) -> Option<Line> {
        (!self.unfinished.is_empty()).then(|| self.finish_line())
    }

    fn finish_line(&mut self) -> Line {
        let text = std::mem::take(&mut self.unfinished);
        let style = self.line_style(&text);
        if self.continued.take().is_none() && text.trim_start().starts_with("```") {
            self.in_code = !self.in_code;
        }
        Line::new(style, text).indented(self.indent)
    }

    fn wrap(&mut self, lines: &mut Vec<Line>) {
        while self.unfinished.width() > self.columns {
            let at = break_at(&self.unfinished, self.columns, self.in_code);
            let style = self.line_style(&self.unfinished);
            let rest = self.unfinished.split_off(at);
            let text = std::mem::replace(&mut self.unfinished, rest);
            if !self.in_code {
                let kept = self.unfinished.trim_start_matches(' ').len();
                self.unfinished.drain(..self.unfinished.len() - kept);
            }
            self.continued = Some(style);
            lines.push(Line::new(style, text.trim_end()).indented(self.indent));
        }
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

/// Where to break a line that is too long: after the last space that fits, else where the room ends.
fn break_at(text: &str, columns: usize, in_code: bool) -> usize {
    let mut used = 0;
    let mut end = text.len();
    let mut space = None;
    for (at, character) in text.char_indices() {
        used += character.width().unwrap_or(0);
        if used > columns {
            end = at;
            break;
        }
        if character == ' ' {
            space = Some(at + 1);
        }
    }
    // At least one character goes, or this would never end.
    let first = text.chars().next().map_or(1, char::len_utf8);
    match space {
        Some(space) if !in_code && space > first => space,
        _ => end.max(first),
    }
}

#[cfg(test)]
mod tests {
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
    fn any_cut_of_the_text_gives_the_same_lines() {
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
}
