//! Makes text from agents safe to print. An agent's text may come from a web page or a file that tries to move the
//! cursor, write to the clipboard, fake a prompt or reverse text.
//!
//! [`Cleaner`] drops colours and other escape sequences from running text; [`visible`] hides nothing and is for text
//! that somebody is about to approve. Neither lets a control character through.

use std::fmt::Write as _;

/// The longest escape string (OSC, DCS, …) that is dropped. A longer string is not a title or a link but an attempt to
/// hide text, so it is shown.
const LONGEST_STRING: usize = 4096;

/// Removes escape sequences from text that arrives in pieces. Keeps line ends; tabs become spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    hidden: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    Control,
    String,
    StringEscape,
    CarriageReturn,
}

impl Cleaner {
    /// Cleans the next piece. A sequence that is cut at its end continues in the next piece.
    pub(crate) fn clean(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.character(character, &mut out);
        }
        out
    }

    fn character(&mut self, character: char, out: &mut String) {
        match self.state {
            State::Text => self.text(character, out),
            State::CarriageReturn => {
                // After a lone carriage return, new text would overwrite earlier text.
                self.state = State::Text;
                out.push('\n');
                if character != '\n' {
                    self.text(character, out);
                }
            }
            State::Escape => match character {
                '[' => self.state = State::Control,
                ']' | 'P' | 'X' | '^' | '_' => {
                    self.state = State::String;
                    self.hidden.clear();
                }
                _ => {
                    // Sequences of two characters; anything else is shown.
                    self.state = State::Text;
                    if !character.is_ascii_graphic() {
                        out.push('\u{241b}');
                        self.text(character, out);
                    }
                }
            },
            State::Control => match character {
                ' '..='?' => {}
                '@'..='~' => self.state = State::Text,
                _ => {
                    self.state = State::Text;
                    self.text(character, out);
                }
            },
            State::String => match character {
                '\u{7}' | '\u{9c}' => self.state = State::Text,
                '\u{1b}' => self.state = State::StringEscape,
                '\n' => self.reveal(character, out),
                _ => {
                    self.hidden.push(character);
                    if self.hidden.len() > LONGEST_STRING {
                        self.state = State::Text;
                        let hidden = std::mem::take(&mut self.hidden);
                        out.push('\u{241b}');
                        for character in hidden.chars() {
                            self.text(character, out);
                        }
                    }
                }
            },
            State::StringEscape => {
                if character == '\\' {
                    self.state = State::Text;
                } else {
                    self.state = State::Escape;
                    self.character(character, out);
                }
            }
        }
    }

    /// An escape string without an end is shown as text.
    fn reveal(&mut self, end: char, out: &mut String) {
        self.state = State::Text;
        out.push('\u{241b}');
        let hidden = std::mem::take(&mut self.hidden);
        for character in hidden.chars() {
            self.text(character, out);
        }
        self.text(end, out);
    }

    fn text(&mut self, character: char, out: &mut String) {
        match character {
            '\u{1b}' => self.state = State::Escape,
            '\r' => self.state = State::CarriageReturn,
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\u{9b}' => self.state = State::Control,
            other => push_visible(other, out),
        }
    }
}

/// Cleans a whole running text.
pub(crate) fn text(all: &str) -> String {
    Cleaner::default().clean(all)
}

/// Running text as one line.
pub(crate) fn line(all: &str) -> String {
    let cleaned = text(all);
    let mut parts = cleaned.split_whitespace();
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(' ');
        out.push_str(part);
    }
    out
}

/// Text with nothing hidden: control characters, escape sequences and invisible characters become visible. Line ends
/// stay.
pub(crate) fn visible(all: &str) -> String {
    let mut out = String::with_capacity(all.len());
    for character in all.chars() {
        match character {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            other if is_invisible(other) => push_named(other, &mut out),
            other => push_visible(other, &mut out),
        }
    }
    out
}

/// Pushes a character, or its code if the character is not visible.
fn push_visible(character: char, out: &mut String) {
    match character {
        // The symbols that Unicode has for control characters.
        '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}')),
        '\u{7f}' => out.push('\u{2421}'),
        _ if is_hidden(character) => push_named(character, out),
        _ => out.push(character),
    }
}

fn push_named(character: char, out: &mut String) {
    // Writing into a string cannot fail.
    let _ = write!(out, "<U+{:04X}>", character as u32);
}

/// Invisible characters that languages and emoji need. In text that somebody must approve, they could hide something.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{200c}' | '\u{200d}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

/// Invisible characters that change the visible text: C1 controls, text direction, zero width, line separators, tags.
pub(crate) fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_links_and_clipboard_writes_are_dropped() {
        assert_eq!(text("\u{1b}[1;31mred\u{1b}[0m"), "red");
        assert_eq!(text("\u{1b}]0;title\u{7}a"), "a");
        assert_eq!(text("\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\!"), "link!");
        assert_eq!(text("\u{1b}]52;c;cm0gLXJmIC8=\u{7}x"), "x");
        assert_eq!(text("\u{9b}2Jx"), "x");
        assert_eq!(text("a\u{1b}cb"), "ab");
    }

    #[test]
    fn a_sequence_that_is_cut_in_two_is_also_dropped() {
        let whole = "a\u{1b}[31mb\u{1b}]8;;u\u{1b}\\c\r\nd\u{202e}";
        let expected = text(whole);
        assert_eq!(expected, "abc\nd<U+202E>");
        for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
            let mut cleaner = Cleaner::default();
            let pieces = cleaner.clean(&whole[..cut]) + &cleaner.clean(&whole[cut..]);
            assert_eq!(pieces, expected, "cut at {cut}");
        }
    }

    #[test]
    fn an_escape_string_without_an_end_hides_nothing() {
        assert_eq!(text("\u{1b}]0;rm -rf /\nnext"), "\u{241b}0;rm -rf /\nnext");
        let long = format!("\u{1b}]0;{}seen", "x".repeat(LONGEST_STRING));
        assert!(text(&long).ends_with("seen"));
    }

    #[test]
    fn no_control_character_passes() {
        for code in (0..0x300).chain(0x2000..0x2070).chain(0xfe00..0xff00).chain(0xe0000..0xe0080) {
            let Some(character) = char::from_u32(code) else { continue };
            for cleaned in [text(&format!("a{character}b")), visible(&format!("a{character}b"))] {
                let bad = cleaned.chars().find(|c| (c.is_control() && *c != '\n') || is_hidden(*c));
                assert_eq!(bad, None, "U+{code:04X} gave {cleaned:?}");
            }
        }
    }

    #[test]
    fn text_to_approve_shows_its_invisible_characters() {
        assert_eq!(visible("ls \u{1b}[8mrm\u{1b}[0m\r# \u{202e}x"), "ls ␛[8mrm␛[0m␍# <U+202E>x");
        assert_eq!(visible("r\u{200d}m \u{3164}x\u{e0101}"), "r<U+200D>m <U+3164>x<U+E0101>");
        assert_eq!(text("e\u{200d}m"), "e\u{200d}m", "running text may need them");
    }

    #[test]
    fn a_carriage_return_cannot_overwrite_earlier_text() {
        assert_eq!(text("good\rbad"), "good\nbad");
        assert_eq!(text("one\r\ntwo\r"), "one\ntwo");
    }
}
