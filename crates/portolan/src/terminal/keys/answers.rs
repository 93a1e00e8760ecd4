//! Keys that answer a request: one key for a permission, a plan or a form; digits and typed text for questions, one
//! question after the other.

use indexmap::IndexMap;
use portolan_core::request::{Answer, Ask, Question, Request, Scope};

use super::{Keyboard, Mode, Wish};
use crate::terminal::clean;

/// The answers to questions so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choosing {
    pub(super) request: Request,
    answers: IndexMap<String, Vec<String>>,
    at: usize,
    picked: Vec<usize>,
}

impl Choosing {
    fn new(request: &Request) -> Self {
        Self { request: request.clone(), answers: IndexMap::new(), at: 0, picked: Vec::new() }
    }

    fn questions(&self) -> &[Question] {
        match &self.request.ask {
            Ask::Question { questions } => questions,
            _ => &[],
        }
    }

    /// The current question.
    pub(super) fn question(&self) -> Option<&Question> {
        self.questions().get(self.at)
    }

    /// The selected choices.
    pub(super) fn picked(&self) -> Vec<String> {
        let Some(question) = self.question() else { return Vec::new() };
        self.picked
            .iter()
            .filter_map(|at| question.choices.get(*at))
            .map(|choice| choice.label.clone())
            .collect()
    }

    /// The label of the line while the user selects choices.
    pub(super) fn label(&self) -> String {
        let question = self.question().map(|question| clean::line(&question.question)).unwrap_or_default();
        let picked: Vec<String> = self.picked.iter().map(|at| (at + 1).to_string()).collect();
        if picked.is_empty() {
            format!("{question} › ")
        } else {
            format!("{question} [{}] › ", picked.join(" "))
        }
    }

    /// The label of the line for typed text. A single question is already above the line; with several, the label names
    /// the question.
    pub(super) fn words_label(&self) -> String {
        match self.question() {
            Some(question) if self.questions().len() > 1 => format!("{} › ", clean::line(&question.question)),
            _ => "your answer › ".into(),
        }
    }
}

/// Does this key answer such a request while it is open?
pub(super) fn answers(character: char, ask: &Ask) -> bool {
    match ask {
        Ask::Permission { .. } => matches!(character, 'y' | 'a' | 'n' | 'd' | 'e'),
        Ask::Plan { .. } => matches!(character, 'y' | 'n' | 'd'),
        Ask::Question { .. } => matches!(character, '1'..='9' | 't' | 'n'),
        Ask::Elicitation { .. } | Ask::Hook { .. } | Ask::Other { .. } => matches!(character, 'e' | 'n'),
    }
}

impl Keyboard {
    /// The answer that a key gives to a request, if it gives one.
    pub(super) fn answer_key(&mut self, character: char, request: &Request) -> Option<Wish> {
        let answer = |answer| Some(Wish::Answer(Box::new(request.clone()), answer));
        let allow = |scope| Answer::Allow { input: None, scope, mode: None, option: None };
        match (&request.ask, character) {
            (Ask::Permission { .. } | Ask::Plan { .. }, 'y') => answer(allow(Scope::Once)),
            (Ask::Permission { .. }, 'a') => answer(allow(Scope::Session)),
            (_, 'n') => answer(Answer::deny(None)),
            (Ask::Permission { .. } | Ask::Plan { .. }, 'd') => {
                self.mode = Mode::Reason(Box::new(request.clone()));
                Some(Wish::Look)
            }
            (
                Ask::Permission { .. } | Ask::Elicitation { .. } | Ask::Hook { .. } | Ask::Other { .. },
                'e',
            ) => Some(Wish::Edit(Box::new(request.clone()))),
            (Ask::Question { .. }, '1'..='9' | 't') => Some(self.choose(character, Choosing::new(request))),
            _ => None,
        }
    }

    /// Handles a key while a question waits for a choice.
    pub(super) fn choose(&mut self, character: char, mut choosing: Choosing) -> Wish {
        let Some(question) = choosing.question().cloned() else {
            self.back();
            return Wish::Look;
        };
        let number = character.to_digit(10).map(|digit| digit as usize);
        match number {
            Some(number @ 1..) if number <= question.choices.len() => {
                let at = number - 1;
                if !question.multiple {
                    let chosen = vec![question.choices[at].label.clone()];
                    return self.answered(&mut choosing, chosen);
                }
                match choosing.picked.iter().position(|picked| *picked == at) {
                    Some(known) => {
                        choosing.picked.remove(known);
                    }
                    None => choosing.picked.push(at),
                }
                self.mode = Mode::Choosing(Box::new(choosing));
            }
            _ if character == 't' && (question.free_text || question.choices.is_empty()) => {
                self.mode = Mode::OwnWords(Box::new(choosing));
            }
            _ if character == 'n' => {
                self.back();
                return Wish::Answer(Box::new(choosing.request), Answer::deny(None));
            }
            _ => self.mode = Mode::Choosing(Box::new(choosing)),
        }
        Wish::Look
    }

    /// One question is answered: goes to the next question, or gives the whole answer.
    pub(super) fn answered(&mut self, choosing: &mut Choosing, chosen: Vec<String>) -> Wish {
        if let Some(question) = choosing.question() {
            choosing.answers.insert(question.question.clone(), chosen);
        }
        choosing.at += 1;
        choosing.picked.clear();
        if let Some(next) = choosing.question() {
            // Without choices, typed text can only be the answer.
            let in_words = next.choices.is_empty();
            let choosing = Box::new(choosing.clone());
            self.mode = if in_words { Mode::OwnWords(choosing) } else { Mode::Choosing(choosing) };
            return Wish::Look;
        }
        let answers = std::mem::take(&mut choosing.answers);
        self.mode = Mode::Prompt;
        Wish::Answer(Box::new(choosing.request.clone()), Answer::Choices { answers })
    }
}
