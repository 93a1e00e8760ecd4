//! Which commands a Bash command line runs, which files it reads and which it writes, found without running it.
//!
//! [`read`] takes the text apart as Bash does and gives every simple command in it, also those in substitutions,
//! behind wrappers such as `env` and `sudo`, and in the text of `sh -c` and `eval`. It is strict: what it does
//! not positively know is [`Unreadable`], and where something can be read but what it runs cannot be told, the
//! command says so in [`Command::hidden`]. It never guesses, never runs anything and touches no file. It knows
//! nothing of rules: whoever asks decides what the parts mean.

mod characters;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod hidden;
pub mod limits;
mod pattern;
mod programs;
mod reader;
mod script;
mod unreadable;
mod variables;
mod walk;
mod wrappers;

pub use hidden::Hidden;
pub use pattern::{PatternPiece, PatternWord, words};
pub use script::{
    Assignment, Command, Folder, Part, Piece, Script, Target, Unknown, Word, Wrapper, WrapperKind,
};
pub use unreadable::Unreadable;
pub use walk::is_usual_place;

/// Every part of a command line, or why it cannot be read.
pub fn read(text: &str) -> Result<Script, Unreadable> {
    if text.len() > limits::MAX_BYTES {
        return Err(Unreadable::TooLong);
    }
    characters::check(text)?;
    walk::script(text)
}
