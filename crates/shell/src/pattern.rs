//! A pattern of words, as a rule has it: words with shell quoting, and `*` outside of quotes.
//!
//! Nothing is expanded: `$HOME` is these five characters. What separates commands is refused outside of quotes,
//! because a pattern is for one command and would never match.

use crate::{Unreadable, characters, limits::MAX_BYTES};

/// One word of a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternWord {
    /// Its pieces. No two texts follow each other, none is empty, and no two stars follow each other.
    pub pieces: Vec<PatternPiece>,
}

/// A piece of a word of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternPiece {
    /// This text.
    Text(String),
    /// A `*` outside of quotes.
    Star,
}

impl PatternWord {
    /// Is it only `*`?
    pub fn is_star(&self) -> bool {
        self.pieces == [PatternPiece::Star]
    }

    /// The text, if it has no star.
    pub fn text(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [PatternPiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn push(&mut self, char: char) {
        if let Some(PatternPiece::Text(text)) = self.pieces.last_mut() {
            text.push(char);
        } else {
            self.pieces.push(PatternPiece::Text(char.to_string()));
        }
    }
}

/// The words of a pattern.
pub fn words(pattern: &str) -> Result<Vec<PatternWord>, Unreadable> {
    if pattern.len() > MAX_BYTES {
        return Err(Unreadable::TooLong);
    }
    characters::check(pattern)?;
    let mut words = Vec::new();
    let mut word: Option<PatternWord> = None;
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' => words.extend(word.take()),
            '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => {
                return Err(Unreadable::stray(&char.to_string()));
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(char) => word.push(char),
                        None => return Err(Unreadable::Unclosed("a quote")),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(char @ ('"' | '\\' | '$' | '`')) => word.push(char),
                            Some(char) => {
                                word.push('\\');
                                word.push(char);
                            }
                            None => return Err(Unreadable::Unclosed("a quote")),
                        },
                        Some(char) => word.push(char),
                        None => return Err(Unreadable::Unclosed("a quote")),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(char) if char != '\n' => word.get_or_insert_default().push(char),
                _ => return Err(Unreadable::Unexpected("a backslash at the end of a line")),
            },
            '*' => {
                let word = word.get_or_insert_default();
                if word.pieces.last() != Some(&PatternPiece::Star) {
                    word.pieces.push(PatternPiece::Star);
                }
            }
            char => {
                characters::check_outside_of_quotes(char)?;
                word.get_or_insert_default().push(char);
            }
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> PatternWord {
        PatternWord { pieces: vec![PatternPiece::Text(text.to_owned())] }
    }

    #[test]
    fn quotes_and_spaces_do_not_matter() {
        for pattern in ["git commit -m", "  git\t'commit'  \"-m\" ", "g'i't com\\mit \"\"-m"] {
            assert_eq!(words(pattern), Ok(vec![text("git"), text("commit"), text("-m")]), "{pattern}");
        }
    }

    #[test]
    fn star_in_quotes_is_text() {
        let star = PatternWord { pieces: vec![PatternPiece::Star] };
        assert_eq!(
            words("echo * '*' \\* \"*\""),
            Ok(vec![text("echo"), star, text("*"), text("*"), text("*")])
        );
        let mixed = PatternWord { pieces: vec![PatternPiece::Text("a*".to_owned()), PatternPiece::Star] };
        assert_eq!(words("'a*'**"), Ok(vec![mixed]));
    }

    #[test]
    fn nothing_is_expanded() {
        assert_eq!(
            words("echo $HOME ~ \"\\$x\""),
            Ok(vec![text("echo"), text("$HOME"), text("~"), text("$x")])
        );
        assert_eq!(words("''"), Ok(vec![PatternWord::default()]));
    }

    #[test]
    fn more_than_one_command_is_refused() {
        for pattern in ["a; b", "a && b", "a | b", "a > b", "$(a)", "a\nb"] {
            assert!(words(pattern).is_err(), "{pattern}");
        }
        assert_eq!(words("a 'b"), Err(Unreadable::Unclosed("a quote")));
    }
}
