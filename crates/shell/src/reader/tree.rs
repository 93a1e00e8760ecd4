//! What the reader builds: the commands of a text as they nest.

use std::collections::HashSet;

use crate::{Hidden, Word};

/// A whole text.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) list: List,
    /// What is nested in the here-documents, by their number.
    pub(crate) here_documents: Vec<Vec<Inner>>,
}

/// Commands one after the other.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Chain>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(Joint, Pipeline)>,
    /// It ends in `&`, so it runs in a shell of its own.
    pub(crate) background: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    And,
    Or,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) negated: bool,
    pub(crate) stages: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Simple(Simple),
    Compound(Box<Compound>),
}

#[derive(Debug)]
pub(crate) struct Compound {
    pub(crate) body: Body,
    pub(crate) redirections: Vec<Redirection>,
}

#[derive(Debug)]
pub(crate) enum Body {
    Subshell(List),
    Group(List),
    If {
        arms: Vec<(List, List)>,
        otherwise: Option<List>,
    },
    Loop {
        before: Vec<Inner>,
        condition: Option<List>,
        body: List,
        /// Something in it may change the folder.
        moves: bool,
    },
    Case {
        before: Vec<Inner>,
        arms: Vec<(Vec<Inner>, List)>,
    },
    /// `[[ ]]` and `(( ))`.
    Test(Vec<Inner>),
    Function {
        name: String,
        body: Box<Node>,
    },
    Coprocess(Box<Node>),
}

/// Something nested in a word, in the order of the text.
#[derive(Debug)]
pub(crate) enum Inner {
    List(List),
    /// Something happens here that cannot be seen.
    Marker(Hidden),
}

#[derive(Debug, Default)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<WrittenAssignment>,
    pub(crate) words: Vec<WrittenWord>,
    pub(crate) redirections: Vec<Redirection>,
}

#[derive(Debug)]
pub(crate) struct WrittenAssignment {
    pub(crate) name: String,
    pub(crate) value: WrittenWord,
}

/// A word and what is nested in it.
#[derive(Debug, Default)]
pub(crate) struct WrittenWord {
    pub(crate) word: Word,
    pub(crate) inside: Vec<Inner>,
    /// The word as written, if nothing in it is quoted or expanded: only such a word can be a keyword.
    pub(crate) plain: Option<String>,
    /// It is one process substitution and nothing else.
    pub(crate) is_process: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectionKind {
    Read,
    Write,
    ReadWrite,
    /// `<<` and `<<<`.
    Text,
    /// `2>&1`, `<&-`.
    Duplicate,
}

#[derive(Debug)]
pub(crate) struct Redirection {
    pub(crate) kind: RedirectionKind,
    /// It changes standard input.
    pub(crate) is_input: bool,
    pub(crate) word: WrittenWord,
    /// The number of the here-document.
    pub(crate) here_document: Option<usize>,
}

/// What is gathered over the whole text, inner texts included, because its order says nothing: where Bash counts
/// with a variable, it runs command substitutions that it finds in the value, and the value may have been set
/// anywhere.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Variables that are set to something that may not be a number.
    pub(crate) set_to_text: HashSet<String>,
    /// Variables with which the text counts.
    pub(crate) counted: Vec<String>,
}

impl Facts {
    /// `name` is set to `value`.
    pub(crate) fn set(&mut self, name: &str, value: &Word) {
        let number = match value.pieces.as_slice() {
            [crate::Piece::Literal(text)] => is_number(text),
            [crate::Piece::Unknown(crate::Unknown::Arithmetic)] => true,
            _ => false,
        };
        if !number {
            self.set_to_text.insert(name.to_owned());
        }
    }

    /// The first variable with which the text counts although it may be no number.
    pub(crate) fn dangerous(&self) -> Option<&str> {
        self.counted.iter().find(|name| self.set_to_text.contains(*name)).map(String::as_str)
    }
}

/// Is it a number, with a sign or without?
pub(crate) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
