//! Simple commands: assignments, words and redirections.

use super::Reader;
use super::here_documents::Tabs;
use super::tree::{Inner, Redirection, RedirectionKind, Simple, WrittenAssignment, WrittenWord};
use super::words::Place;
use crate::{Hidden, Unknown, Unreadable, Word, variables};

/// Builtins whose arguments may be assignments, arrays too.
const DECLARATIONS: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

/// Commands that may change the folder of the shell in which they run, or run a text in it that does.
const MOVES: &[&str] = &["cd", "pushd", "popd", "dirs", "eval", "source", "."];

impl Reader<'_, '_, '_> {
    pub(super) fn simple(&mut self) -> Result<Simple, Unreadable> {
        let mut simple = Simple::default();
        let mut declares = false;
        loop {
            self.blanks()?;
            if let Some(redirection) = self.redirection()? {
                simple.redirections.push(redirection);
                continue;
            }
            let start = self.at;
            if simple.words.is_empty() {
                if let Some(assignment) = self.assignment()? {
                    simple.assignments.push(assignment);
                    continue;
                }
            } else if declares && let Some(assignment) = self.assignment()? {
                // Behind a redirection Bash does not know an array any more.
                if !simple.redirections.is_empty() && self.byte_before() == Some(b')') {
                    return Err(Unreadable::NotKnown("an array behind a redirection"));
                }
                simple.words.push(as_argument(&self.text[start..self.at], assignment));
                continue;
            }
            let Some(word) = self.word(Place::Argument)? else { break };
            if self.byte() == Some(b'(') {
                return Err(Unreadable::NotKnown("a bracket right behind a word"));
            }
            if simple.words.is_empty() {
                if &self.text[start..self.at] == "[[" {
                    return Err(Unreadable::stray("[["));
                }
                if let Some(plain) = &word.plain {
                    if Self::is_keyword(plain) {
                        return Err(Unreadable::stray(plain));
                    }
                    declares = DECLARATIONS.contains(&plain.as_str());
                }
            }
            let moves = match word.word.literal() {
                Some(text) => MOVES.contains(&&*text),
                None => simple.words.is_empty(),
            };
            self.shared.moves += usize::from(moves);
            simple.words.push(word);
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirections.is_empty() {
            return Err(self.stray());
        }
        Ok(simple)
    }

    /// `NAME=VALUE`, `NAME+=VALUE`, `NAME[INDEX]=VALUE`, if it comes next.
    fn assignment(&mut self) -> Result<Option<WrittenAssignment>, Unreadable> {
        let start = self.at;
        let Some(name) = self.name() else { return Ok(None) };
        let mut inside = Vec::new();
        if self.byte() == Some(b'[') {
            // Bash reads up to the matching bracket, whatever stands between.
            let length = self.rest()[1..].find(|char: char| {
                !(char.is_ascii_alphanumeric()
                    || matches!(char, '_' | '-' | '.' | '/' | '$' | '@' | '*' | '+'))
            });
            let Some(length) = length.filter(|&length| self.byte_after(1 + length) == Some(b']')) else {
                return Err(Unreadable::NotKnown("a bracket behind a name"));
            };
            let index = &self.rest()[1..=length];
            let behind = self.at + 1 + length + 1;
            if !self.text[behind..].starts_with('=') && !self.text[behind..].starts_with("+=") {
                self.at = start;
                return Ok(None);
            }
            self.count_with(index, &mut inside);
            self.at = behind;
        }
        if !(self.take("=") || self.take("+=")) {
            self.at = start;
            return Ok(None);
        }
        let mut value = if self.byte() == Some(b'(') {
            self.at += 1;
            self.array()?
        } else {
            self.word(Place::Value)?.unwrap_or_default()
        };
        // What stands right behind an array belongs to the assignment.
        let ended = Self::ends_word(self.byte()) || self.starts_with("\\\n");
        if !ended || self.byte() == Some(b'(') {
            return Err(Unreadable::NotKnown("something right behind an assignment"));
        }
        inside.append(&mut value.inside);
        value.inside = inside;
        self.shared.facts.set(&name, &value.word);
        Ok(Some(WrittenAssignment { name, value }))
    }

    /// The words of an array, up to and with the closing bracket.
    fn array(&mut self) -> Result<WrittenWord, Unreadable> {
        let mut array = WrittenWord { word: Word::from_unknown(Unknown::Variable), ..Default::default() };
        loop {
            self.blanks_and_lines()?;
            if self.take(")") {
                return Ok(array);
            }
            if self.byte() == Some(b'[') {
                let index = self.rest()[1..].split_once(']').map(|(index, _)| index);
                let simple =
                    |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.' | '/');
                match index {
                    Some(index) if index.chars().all(simple) => self.count_with(index, &mut array.inside),
                    _ => return Err(Unreadable::NotKnown("an index in an array")),
                }
            }
            let word = self.word(Place::Argument)?.ok_or_else(|| match self.byte() {
                None => Unreadable::Unclosed("an array"),
                Some(_) => self.stray(),
            })?;
            if self.byte() == Some(b'(') {
                return Err(Unreadable::NotKnown("a bracket right behind a word"));
            }
            array.inside.extend(word.inside);
        }
    }

    /// A redirection, if one comes next.
    pub(super) fn redirection(&mut self) -> Result<Option<Redirection>, Unreadable> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let mut number = &rest[..digits];
        let mut marker = None;
        let mut operator_at = digits;
        if let Some(name) = name_in_braces(rest) {
            operator_at = name.len() + 2;
            number = "";
            marker = variables::changes_what_runs(name)
                .then(|| Inner::Marker(Hidden::ChangesWhatRuns(name.to_owned())));
        }
        let operator = &rest[operator_at..];
        let prefixed = operator_at > 0;
        let is_operator = operator.starts_with(['<', '>']) || (!prefixed && operator.starts_with("&>"));
        if !is_operator {
            return Ok(None);
        }
        if operator.starts_with("<(") || operator.starts_with(">(") {
            // A process substitution is a word.
            return if prefixed {
                Err(Unreadable::NotKnown("a number before a substitution"))
            } else {
                Ok(None)
            };
        }
        const OPERATORS: &[(&str, RedirectionKind)] = &[
            ("&>>", RedirectionKind::Write),
            ("&>", RedirectionKind::Write),
            ("<<<", RedirectionKind::Text),
            ("<<-", RedirectionKind::Text),
            ("<<", RedirectionKind::Text),
            ("<&", RedirectionKind::Duplicate),
            ("<>", RedirectionKind::ReadWrite),
            ("<", RedirectionKind::Read),
            (">>", RedirectionKind::Write),
            (">&", RedirectionKind::Duplicate),
            (">|", RedirectionKind::Write),
            (">", RedirectionKind::Write),
        ];
        let Some(&(sign, kind)) = OPERATORS.iter().find(|(sign, _)| operator.starts_with(sign)) else {
            return Err(self.stray());
        };
        let is_input = if sign.starts_with('<') {
            number.is_empty() && !prefixed || is_zero(number)
        } else {
            is_zero(number)
        };
        self.at += operator_at + sign.len();
        if self.byte() == Some(b'&') || matches!((sign, self.byte()), ("<<<", Some(b'<'))) {
            return Err(self.stray());
        }
        self.blanks()?;
        if kind == RedirectionKind::Duplicate
            && self.byte() == Some(b'-')
            && (!Self::ends_word(self.byte_after(1)) || self.byte_after(1) == Some(b'('))
        {
            // `>&-` is complete: Bash takes what follows for a word of its own.
            return Err(Unreadable::NotKnown("a word right behind `>&-`"));
        }
        if sign == "<<" || sign == "<<-" {
            let number = self.delimiter(if sign == "<<-" { Tabs::Stripped } else { Tabs::Kept })?;
            let word = WrittenWord { inside: marker.into_iter().collect(), ..Default::default() };
            return Ok(Some(Redirection { kind, is_input, word, here_document: Some(number) }));
        }
        let place = if sign == "<<<" { Place::Value } else { Place::Argument };
        let mut word = self.word(place)?.ok_or_else(|| self.stray())?;
        if self.byte() == Some(b'(') {
            return Err(Unreadable::NotKnown("a bracket right behind a word"));
        }
        if word.plain.as_deref().is_some_and(names_stream) && matches!(self.byte(), Some(b'<' | b'>')) {
            // Bash takes the word for the number of the next redirection.
            return Err(self.stray());
        }
        if kind == RedirectionKind::Duplicate && word.plain.is_none() {
            // Bash expands what stands behind `>&` twice, what is quoted too.
            return Err(Unreadable::NotKnown("a quote or an expansion behind `>&`"));
        }
        word.inside.extend(marker);
        let kind = if kind == RedirectionKind::Duplicate { duplicated(sign, &word.word)? } else { kind };
        Ok(Some(Redirection { kind, is_input, word, here_document: None }))
    }
}

/// `{NAME}` at the beginning: the name.
fn name_in_braces(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?;
    let end = inside.find(|char: char| !char.is_ascii_alphanumeric() && char != '_')?;
    (inside[end..].starts_with('}') && variables::is_name(&inside[..end])).then(|| &inside[..end])
}

/// Is it a word that names a stream, right before a redirection?
fn names_stream(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) || name_in_braces(word).is_some()
}

fn is_zero(number: &str) -> bool {
    !number.is_empty() && number.bytes().all(|byte| byte == b'0')
}

/// What `>&WORD` and `<&WORD` do: to a number they copy a stream; anything else is a file for `>&`.
fn duplicated(sign: &str, word: &Word) -> Result<RedirectionKind, Unreadable> {
    let text = word.literal().ok_or(Unreadable::NotKnown("an expansion behind `>&`"))?;
    let number = text.strip_suffix('-').unwrap_or(&text);
    if number.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        Ok(RedirectionKind::Duplicate)
    } else if sign == ">&" {
        Ok(RedirectionKind::Write)
    } else {
        Err(Unreadable::stray(&text))
    }
}

/// An assignment as an argument: `export NAME=VALUE`. `source` is its text.
fn as_argument(source: &str, assignment: WrittenAssignment) -> WrittenWord {
    let sign = source.find('=').map_or("", |at| &source[..=at]);
    let mut word = Word::from_text(sign);
    word.push_word(&assignment.value.word);
    WrittenWord { word, inside: assignment.value.inside, plain: None, is_process: false }
}
