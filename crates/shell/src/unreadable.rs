//! Why a text cannot be read.

use crate::limits::{MAX_BYTES, MAX_CARRIED_BYTES, MAX_DEPTH, MAX_PARTS, MAX_TEXTS};

/// A text that Bash would refuse, or that the reader does not positively know. Nothing may be concluded from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// More bytes than [`MAX_BYTES`].
    #[error("more than {MAX_BYTES} bytes")]
    TooLong,
    /// More levels than [`MAX_DEPTH`].
    #[error("more than {MAX_DEPTH} levels of nesting")]
    TooDeep,
    /// More texts in each other than [`MAX_TEXTS`].
    #[error("more than {MAX_TEXTS} commands inside each other (such as `bash -c` or `find -exec`)")]
    TooManyTexts,
    /// More parts than [`MAX_PARTS`].
    #[error("more than {MAX_PARTS} commands and files")]
    TooManyParts,
    /// More before an inner text than [`MAX_CARRIED_BYTES`].
    #[error("more than {MAX_CARRIED_BYTES} bytes before the text of an inner command (such as in `bash -c`)")]
    TooMuchBeforeText,
    /// A character that does not show, or shows as something else.
    #[error("the character U+{:04X}, which is invisible or looks like another character", u32::from(*.0))]
    Character(char),
    /// Something opened and not closed: `a quote`, `a command substitution`.
    #[error("{0} that is not closed")]
    Unclosed(&'static str),
    /// Something that stands where Bash would refuse it, or where its meaning is not known here.
    #[error("{0}")]
    Unexpected(&'static str),
    /// A word that stands where another is needed.
    #[error("`{0}` in a place where it is not expected")]
    Stray(String),
    /// A construct of Bash that this reader does not know.
    #[error("{0}, which is not understood here")]
    NotKnown(&'static str),
}

impl Unreadable {
    /// `text` where something else is needed; only its beginning is told.
    pub(crate) fn stray(text: &str) -> Self {
        const SHOWN: usize = 20;
        Self::Stray(text.chars().take(SHOWN).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_plain_english_in_lower_case() {
        assert_eq!(Unreadable::Unclosed("a quote").to_string(), "a quote that is not closed");
        assert_eq!(Unreadable::stray("fi").to_string(), "`fi` in a place where it is not expected");
        assert_eq!(
            Unreadable::Character('\u{202e}').to_string(),
            "the character U+202E, which is invisible or looks like another character"
        );
    }
}
