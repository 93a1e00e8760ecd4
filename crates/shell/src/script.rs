//! What was read: the parts of a command line.

use std::borrow::Cow;

use crate::Hidden;

/// A command line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every part, nested ones flattened, in the order of the text: a command comes before what is nested in it.
    pub parts: Vec<Part>,
}

/// One thing that a command line does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It runs a command. A command without words stands for something else that happens: see its `hidden`.
    Run(Command),
    /// It reads a file, by `<`.
    Read(Target),
    /// It writes a file, by `>` and the like.
    Write(Target),
}

/// A simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, behind every wrapper. The same as `whole[inner_at..]`.
    pub words: Vec<Word>,
    /// As written, wrappers included and assignments left out. Of `sh -c TEXT` only the words in the text remain.
    pub whole: Vec<Word>,
    /// Where in `whole` the `words` begin.
    pub inner_at: usize,
    /// The wrappers around it, from outside to inside. If it cannot be told where the command of the last one
    /// begins, `words` begin with that wrapper, and `hidden` says why.
    pub wrappers: Vec<Wrapper>,
    /// The variables that are set for it, by the shell, by `env` and the like, and for a shell around it.
    pub assignments: Vec<Assignment>,
    /// Why it cannot be seen what runs; empty if it can.
    pub hidden: Vec<Hidden>,
    /// Where it runs.
    pub folder: Folder,
    /// Its standard input is a pipe, a here-document or a here-string, or may be one.
    pub reads_pipe: bool,
    /// The command before it in the pipe: an index in the parts of the script.
    pub fed_by: Option<usize>,
}

/// A program that runs another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Its name, without the folder.
    pub name: String,
    /// What it changes.
    pub kind: WrapperKind,
    /// As whom it runs the program, if it names a user: `-u postgres`. Empty if the user is not known before it runs.
    pub user: Option<String>,
}

/// What a wrapper changes for the program behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapperKind {
    /// Nothing that matters: `env`, `timeout`, `xargs`.
    Transparent,
    /// Who runs it: `sudo`.
    Privilege,
    /// Where it runs: `ssh`, `docker exec`, `chroot`.
    Elsewhere,
}

/// `NAME=VALUE` before a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The name of the variable.
    pub name: String,
    /// Its value; of an array only that it is one, by an unknown piece.
    pub value: Word,
    /// Such a variable changes which program runs, or what it runs: `PATH`, `LD_PRELOAD`, `PAGER`.
    pub changes_what_runs: bool,
}

/// A file that a redirection names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path as written.
    pub path: Word,
    /// Where a relative path begins.
    pub folder: Folder,
}

/// The folder in which something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// This one: empty for the folder in which the command line begins, relative to that one, or absolute.
    /// `a/..` is taken out as `cd` does it, before any link is followed.
    Known(String),
    /// Not known before it runs.
    Unknown,
}

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Its text, from left to right. No two literal pieces follow each other, and none is empty.
    pub pieces: Vec<Piece>,
    /// It may become several words, or none, at places that cannot be told: `$X` without quotes, `"$@"`.
    pub splits: bool,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// This text.
    Literal(String),
    /// Any text, also none.
    Unknown(Unknown),
}

/// Why a piece of a word is not known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// `$X`, `${X}`, an array, or what a program such as `xargs` puts there.
    Variable,
    /// `$(...)`, `<(...)`.
    Substitution,
    /// `*`, `?`, `[...]`.
    Glob,
    /// `~`.
    Tilde,
    /// `{a,b}`.
    Brace,
    /// `$((...))`.
    Arithmetic,
}

impl Word {
    /// A word that is `text` and nothing else.
    pub fn from_text(text: &str) -> Self {
        let mut word = Self::default();
        word.push_text(text);
        word
    }

    /// A word of which only this is known: that it comes from there.
    pub(crate) fn from_unknown(unknown: Unknown) -> Self {
        Self { pieces: vec![Piece::Unknown(unknown)], splits: false }
    }

    /// The text, if all of it is known.
    pub fn literal(&self) -> Option<Cow<'_, str>> {
        match self.pieces.as_slice() {
            [] => Some(Cow::Borrowed("")),
            [Piece::Literal(text)] => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    /// Is the text known, and is it `text`?
    pub fn is(&self, text: &str) -> bool {
        self.literal().is_some_and(|literal| literal == text)
    }

    /// The text that it begins with, as far as that is known.
    pub fn known_start(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Literal(text)) => text,
            _ => "",
        }
    }

    /// May it, or a word that it becomes, begin with `-`?
    pub fn is_flag_possible(&self) -> bool {
        match self.pieces.first() {
            None => false,
            Some(Piece::Literal(text)) => text.starts_with('-') || self.splits,
            // A home folder is an absolute path.
            Some(Piece::Unknown(Unknown::Tilde)) => self.splits,
            Some(Piece::Unknown(_)) => true,
        }
    }

    /// May it become several words, or none?
    pub fn may_be_many(&self) -> bool {
        self.splits
            || self.pieces.iter().any(|piece| matches!(piece, Piece::Unknown(Unknown::Glob | Unknown::Brace)))
    }

    pub(crate) fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(Piece::Literal(last)) = self.pieces.last_mut() {
            last.push_str(text);
        } else {
            self.pieces.push(Piece::Literal(text.to_owned()));
        }
    }

    pub(crate) fn push_unknown(&mut self, unknown: Unknown) {
        // Several of a kind in a row say no more than one.
        if self.pieces.last() != Some(&Piece::Unknown(unknown)) {
            self.pieces.push(Piece::Unknown(unknown));
        }
    }

    pub(crate) fn push_word(&mut self, other: &Self) {
        for piece in &other.pieces {
            match piece {
                Piece::Literal(text) => self.push_text(text),
                Piece::Unknown(unknown) => self.push_unknown(*unknown),
            }
        }
        self.splits |= other.splits;
    }

    /// Every `mark` in it becomes something unknown.
    pub(crate) fn replace(&self, mark: &str, by: &Self) -> Self {
        let mut word = Self { pieces: Vec::new(), splits: self.splits };
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) if !mark.is_empty() => {
                    for (index, text) in text.split(mark).enumerate() {
                        if index > 0 {
                            word.push_word(by);
                        }
                        word.push_text(text);
                    }
                }
                Piece::Literal(text) => word.push_text(text),
                Piece::Unknown(unknown) => word.push_unknown(*unknown),
            }
        }
        word
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| if let Piece::Literal(text) = piece { text.len() } else { 1 }).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_with_an_unknown_piece_has_no_literal_text() {
        let mut word = Word::from_text("a");
        assert_eq!(word.literal(), Some(Cow::Borrowed("a")));
        word.push_unknown(Unknown::Variable);
        assert_eq!(word.literal(), None);
        assert_eq!(Word::default().literal(), Some(Cow::Borrowed("")));
    }

    #[test]
    fn flag_is_possible_where_the_start_is_unknown_or_the_word_splits() {
        let unknown = |unknown| Word::from_unknown(unknown);
        assert!(Word::from_text("-x").is_flag_possible());
        assert!(!Word::from_text("x").is_flag_possible());
        assert!(unknown(Unknown::Glob).is_flag_possible());
        assert!(!unknown(Unknown::Tilde).is_flag_possible());
        let mut splits = Word::from_text("x");
        splits.push_unknown(Unknown::Variable);
        assert!(!splits.is_flag_possible());
        splits.splits = true;
        assert!(splits.is_flag_possible());
    }

    #[test]
    fn mark_is_replaced_wherever_it_stands() {
        let word = Word::from_text("a{}b{}").replace("{}", &Word::from_unknown(Unknown::Variable));
        let unknown = Piece::Unknown(Unknown::Variable);
        assert_eq!(
            word.pieces,
            [Piece::Literal("a".into()), unknown.clone(), Piece::Literal("b".into()), unknown]
        );
    }
}
