//! Compound commands: `( )`, `{ }`, `if`, loops, `case`, functions.

use super::Reader;
use super::arithmetic::Close;
use super::tree::{Body, Compound, Inner, Node, WrittenWord, is_number};
use super::words::Place;
use crate::{Hidden, Unreadable, Word, variables};

/// Keywords that cannot stand where a command begins, or that begin none.
const NO_COMMANDS: &[&str] =
    &["then", "else", "elif", "fi", "do", "done", "esac", "}", "in", "]]", "!", "time", "function", "coproc"];

/// Keywords that begin a compound command.
const COMPOUNDS: &[&str] = &["if", "for", "while", "until", "case", "select", "{", "[["];

impl Reader<'_, '_, '_> {
    /// One command of a pipeline.
    pub(super) fn command(&mut self) -> Result<Node, Unreadable> {
        if let Some(body) = self.compound_body()? {
            return self.compound(body);
        }
        if self.at_keyword("function") {
            self.at += "function".len();
            self.blanks()?;
            let name = self.function_name()?;
            self.blanks()?;
            if self.take("(") {
                self.blanks()?;
                if !self.take(")") {
                    return Err(self.stray());
                }
            }
            return self.function(name);
        }
        if self.at_keyword("coproc") {
            self.at += "coproc".len();
            self.blanks()?;
            self.enter()?;
            // Before a simple command, Bash may take the first word for a name.
            let body = self.compound_body()?.ok_or(Unreadable::NotKnown("this kind of coprocess"))?;
            let node = self.compound(body)?;
            self.leave();
            return Ok(wrapped(Body::Coprocess(Box::new(node))));
        }
        if let Some(name) = self.function_ahead() {
            return self.function(name);
        }
        Ok(Node::Simple(self.simple()?))
    }

    /// Is this word, where a command begins, one that Bash would take for a keyword?
    pub(super) fn is_keyword(word: &str) -> bool {
        NO_COMMANDS.contains(&word) || COMPOUNDS.contains(&word)
    }

    fn compound(&mut self, body: Body) -> Result<Node, Unreadable> {
        let mut redirections = Vec::new();
        loop {
            self.blanks()?;
            match self.redirection()? {
                Some(redirection) => redirections.push(redirection),
                // Behind a redirection Bash knows no keyword.
                None if !redirections.is_empty() && self.at_end_keyword() => return Err(self.stray()),
                None => return Ok(Node::Compound(Box::new(Compound { body, redirections }))),
            }
        }
    }

    fn compound_body(&mut self) -> Result<Option<Body>, Unreadable> {
        let body = if self.starts_with("((") {
            self.at += 2;
            let mut inside = Vec::new();
            self.arithmetic(&mut inside, Close::Brackets)?;
            Body::Test(inside)
        } else if self.take("(") {
            let list = self.full_list()?;
            if !self.take(")") {
                return Err(if self.byte().is_none() {
                    Unreadable::Unclosed("a subshell")
                } else {
                    self.stray()
                });
            }
            Body::Subshell(list)
        } else {
            let Some(keyword) = COMPOUNDS.iter().find(|keyword| self.at_keyword(keyword)) else {
                return Ok(None);
            };
            self.at += keyword.len();
            match *keyword {
                "{" => {
                    let list = self.full_list()?;
                    self.keyword("}")?;
                    Body::Group(list)
                }
                "if" => self.if_arms()?,
                "for" | "select" => self.for_loop()?,
                "while" | "until" => {
                    let moves = self.shared.moves;
                    let condition = self.full_list()?;
                    let body = self.loop_body()?;
                    Body::Loop {
                        before: Vec::new(),
                        condition: Some(condition),
                        body,
                        moves: self.shared.moves != moves,
                    }
                }
                "case" => self.case()?,
                _ => self.condition()?,
            }
        };
        Ok(Some(body))
    }

    fn if_arms(&mut self) -> Result<Body, Unreadable> {
        let mut arms = Vec::new();
        loop {
            let condition = self.full_list()?;
            self.keyword("then")?;
            arms.push((condition, self.full_list()?));
            if self.at_keyword("elif") {
                self.at += "elif".len();
                continue;
            }
            let otherwise = if self.at_keyword("else") {
                self.at += "else".len();
                Some(self.full_list()?)
            } else {
                None
            };
            self.keyword("fi")?;
            return Ok(Body::If { arms, otherwise });
        }
    }

    fn loop_body(&mut self) -> Result<super::List, Unreadable> {
        self.keyword("do")?;
        let body = self.full_list()?;
        self.keyword("done")?;
        Ok(body)
    }

    fn for_loop(&mut self) -> Result<Body, Unreadable> {
        let moves = self.shared.moves;
        let mut before = Vec::new();
        self.blanks()?;
        if self.take("((") {
            self.arithmetic(&mut before, Close::Loop)?;
            self.blanks()?;
            self.take(";");
        } else {
            let name = self.name().ok_or_else(|| self.stray())?;
            if !Self::ends_word(self.byte()) {
                return Err(self.stray());
            }
            if variables::changes_what_runs(&name) {
                before.push(Inner::Marker(Hidden::ChangesWhatRuns(name.clone())));
            }
            self.blanks()?;
            let on_next_line = self.byte() == Some(b'\n');
            self.blanks_and_lines()?;
            let mut numbers = false;
            if self.at_keyword("in") {
                self.at += "in".len();
                numbers = true;
                loop {
                    self.blanks()?;
                    let start = self.at;
                    let Some(word) = self.word(Place::Argument)? else { break };
                    numbers &= is_numeric(&word, &self.text[start..self.at]);
                    before.extend(word.inside);
                }
                if !matches!(self.byte(), Some(b';' | b'\n')) {
                    return Err(self.stray());
                }
            } else if on_next_line && self.byte() == Some(b';') {
                return Err(self.stray());
            }
            if !numbers {
                self.shared.facts.set(&name, &Word::from_unknown(crate::Unknown::Variable));
            }
            // One `;`, or new lines, or nothing where no words were given.
            self.blanks()?;
            if self.byte() == Some(b';') && self.byte_after(1) != Some(b';') {
                self.at += 1;
            }
        }
        self.blanks_and_lines()?;
        let body = self.loop_body()?;
        Ok(Body::Loop { before, condition: None, body, moves: self.shared.moves != moves })
    }

    fn case(&mut self) -> Result<Body, Unreadable> {
        self.enter()?;
        self.blanks()?;
        let word = self.word(Place::Argument)?.ok_or_else(|| self.stray())?;
        self.blanks_and_lines()?;
        self.keyword("in")?;
        let mut arms = Vec::new();
        loop {
            self.blanks_and_lines()?;
            if self.at_keyword("esac") {
                break;
            }
            self.take("(");
            let mut patterns = Vec::new();
            loop {
                self.blanks()?;
                if self.at_keyword("esac") {
                    return Err(self.stray());
                }
                let pattern = self.word(Place::Argument)?.ok_or_else(|| self.stray())?;
                patterns.extend(pattern.inside);
                self.blanks()?;
                if self.take(")") {
                    break;
                }
                if self.byte() != Some(b'|') || matches!(self.byte_after(1), Some(b'|' | b'&')) {
                    return Err(self.stray());
                }
                self.at += 1;
            }
            let list = self.list()?;
            arms.push((patterns, list));
            if !(self.take(";;&") || self.take(";;") || self.take(";&")) {
                // The last one needs none.
                self.blanks_and_lines()?;
                break;
            }
        }
        self.keyword("esac")?;
        self.leave();
        Ok(Body::Case { before: word.inside, arms })
    }

    /// `name()`, if it comes next: the name.
    fn function_ahead(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|char: char| !is_function_char(char))?;
        let name = &rest[..end];
        let behind = rest[end..].trim_start_matches([' ', '\t']);
        let behind = behind.strip_prefix('(')?.trim_start_matches([' ', '\t']);
        let behind = behind.strip_prefix(')')?;
        if name.is_empty() {
            return None;
        }
        self.at = self.text.len() - behind.len();
        Some(name.to_owned())
    }

    fn function_name(&mut self) -> Result<String, Unreadable> {
        let rest = self.rest();
        let end = rest.find(|char: char| !is_function_char(char)).unwrap_or(rest.len());
        let name = &rest[..end];
        self.at += end;
        if name.is_empty() || !Self::ends_word(self.byte()) {
            return Err(self.stray());
        }
        Ok(name.to_owned())
    }

    fn function(&mut self, name: String) -> Result<Node, Unreadable> {
        if Self::is_keyword(&name) || is_number(&name) || name.contains("..") {
            return Err(Unreadable::stray(&name));
        }
        self.blanks_and_lines()?;
        self.enter()?;
        let body = self.compound_body()?.ok_or_else(|| self.stray())?;
        let body = self.compound(body)?;
        self.leave();
        // A call of it may do all that its body does.
        self.shared.moves += 1;
        Ok(wrapped(Body::Function { name, body: Box::new(body) }))
    }

    /// Takes the name of a variable.
    pub(super) fn name(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        variables::is_name(name).then(|| {
            self.at += end;
            name.to_owned()
        })
    }
}

fn wrapped(body: Body) -> Node {
    Node::Compound(Box::new(Compound { body, redirections: Vec::new() }))
}

fn is_function_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.' | ':' | '+' | '/')
}

/// Does the word stand for numbers only? `source` is the word as written.
fn is_numeric(word: &WrittenWord, source: &str) -> bool {
    let sequence = source.strip_prefix('{').and_then(|source| source.strip_suffix('}'));
    match sequence {
        Some(sequence) => sequence.split("..").all(is_number),
        None => word.word.literal().is_some_and(|text| is_number(&text)),
    }
}
