//! Words of commands as text.

use portolan_shell::{Piece, Word};

/// Stands for what is not known of a word. No word contains it: a command line with a NUL cannot be read.
pub(super) const UNKNOWN: char = '\0';

/// A word as text, with [`UNKNOWN`] for what is not known.
pub(super) fn text(word: &Word) -> String {
    word.pieces.iter().fold(String::new(), |mut text, piece| {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Unknown(_) => text.push(UNKNOWN),
        }
        text
    })
}

/// The name of a program without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
