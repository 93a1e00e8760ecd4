//! Lines as the terminal client shows them: text with styles, painted only at the very end.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// No style.
    #[default]
    Plain,
    /// Thinking, remarks.
    Dim,
    /// Headings, prompts.
    Bold,
    /// Names of tools, code.
    Accent,
    /// Added lines, things that went well.
    Good,
    /// Removed lines, things that went wrong.
    Bad,
    /// Warnings.
    Warning,
}

impl Style {
    fn codes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\u{1b}[2m",
            Self::Bold => "\u{1b}[1m",
            Self::Accent => "\u{1b}[36m",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Warning => "\u{1b}[33m",
        }
    }
}

/// Whether lines are painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    /// With colours.
    On,
    /// Without colours.
    Off,
}

impl Colours {
    /// On if `allowed`.
    pub(crate) fn when(allowed: bool) -> Self {
        if allowed { Self::On } else { Self::Off }
    }
}

/// One line of pieces. The text in it is clean: no control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(pub(crate) Vec<(Style, String)>);

impl Line {
    /// A line in one style.
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self(vec![(style, text.into())])
    }
    /// An empty line.
    pub(crate) fn empty() -> Self {
        Self::default()
    }
    /// The same line with more text at its end.
    pub(crate) fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }
    /// The same line, indented.
    pub(crate) fn indented(mut self, columns: usize) -> Self {
        if columns > 0 && !self.0.is_empty() {
            self.0.insert(0, (Style::Plain, " ".repeat(columns)));
        }
        self
    }
    /// The width of the line in columns.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }
    /// The text without styles.
    pub(crate) fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
    /// The text with escape sequences for a terminal.
    pub(crate) fn paint(&self, colours: Colours) -> String {
        if colours == Colours::Off {
            return self.plain();
        }
        let mut out = String::new();
        for (style, text) in &self.0 {
            match style.codes() {
                "" => out.push_str(text),
                codes => {
                    out.push_str(codes);
                    out.push_str(text);
                    out.push_str("\u{1b}[0m");
                }
            }
        }
        out
    }
    /// The line cut to this many columns, with a mark if something was cut.
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        let mut out = Vec::new();
        for (style, text) in self.0 {
            let mut kept = String::new();
            let mut full = false;
            for character in text.chars() {
                let wide = character.width().unwrap_or(0);
                if wide > room {
                    full = true;
                    break;
                }
                room -= wide;
                kept.push(character);
            }
            out.push((style, kept));
            if full {
                out.push((style, "…".into()));
                break;
            }
        }
        Self(out)
    }
    /// The line wrapped into lines of this many columns: nothing is cut off.
    pub(crate) fn wrapped(self, columns: usize) -> Vec<Self> {
        let columns = columns.max(1);
        if self.width() <= columns {
            return vec![self];
        }
        let mut lines = vec![Self::default()];
        let mut used = 0;
        for (style, text) in self.0 {
            let mut kept = String::new();
            for character in text.chars() {
                let wide = character.width().unwrap_or(0);
                if used + wide > columns {
                    if let Some(line) = lines.last_mut() {
                        line.0.push((style, std::mem::take(&mut kept)));
                    }
                    lines.push(Self::default());
                    used = 0;
                }
                used += wide;
                kept.push(character);
            }
            if let Some(line) = lines.last_mut() {
                line.0.push((style, kept));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_columns_and_not_by_letters() {
        let line = Line::new(Style::Plain, "日本語").and(Style::Bold, "abc");
        assert_eq!(line.width(), 9);
        assert_eq!(line.clone().cut(9).plain(), "日本語abc");
        assert_eq!(line.clone().cut(6).plain(), "日本…");
        assert_eq!(line.cut(8).plain(), "日本語a…");
    }

    #[test]
    fn wrapping_loses_nothing() {
        let line = Line::new(Style::Plain, "abcdef").and(Style::Bold, "ghij");
        let lines: Vec<String> = line.wrapped(4).iter().map(Line::plain).collect();
        assert_eq!(lines, ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn colours_are_painted_only_where_wanted() {
        let line = Line::new(Style::Bad, "x").and(Style::Plain, "y");
        assert_eq!(line.paint(Colours::On), "\u{1b}[31mx\u{1b}[0my");
        assert_eq!(line.paint(Colours::Off), "xy");
    }
}
