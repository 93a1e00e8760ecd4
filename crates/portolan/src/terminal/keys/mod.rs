//! What a key means now: part of a prompt, the answer to a request, or a wish to stop or leave.
//!
//! While a request waits and the prompt line is empty, one key answers the request. A request that just appeared takes
//! no answer: the key was meant for something else. A key for a request that just closed is ignored, and so is the rest
//! of a typed answer to it: neither may end up in the prompt line, one Enter away from being sent.
//!
//! - [`mod@line`]: the line that is typed
//! - [`mod@answers`]: keys that answer

mod answers;
mod line;

#[cfg(test)]
mod tests;

use std::time::Duration;

use portolan_core::request::{Answer, Request};

use self::{
    answers::{Choosing, answers},
    line::{PromptLine, Sight},
};
use super::style::Line;

/// How long a request must be on the screen before a key answers it. Shorter than anyone reads, longer than the pause
/// between two keys of a person who types.
pub(crate) const GUARD: Duration = Duration::from_millis(500);

/// How long after a request closed a key is still for that request: longer than a person needs to notice.
pub(crate) const LATE: Duration = Duration::from_secs(2);

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Character(char),
    Paste(String),
    Enter,
    /// A line end within the prompt.
    LineEnd,
    Backspace,
    Delete,
    Left,
    Right,
    Start,
    End,
    Up,
    Down,
    Escape,
    /// Ctrl-C.
    Cancel,
    /// Ctrl-D.
    EndOfInput,
    /// Ctrl-U.
    Clear,
    /// Ctrl-W.
    DeleteWord,
    /// Ctrl-O.
    Unfold,
}

/// What the user wants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    /// Only redraw the line.
    Look,
    /// Send this prompt to the agent.
    Send(String),
    /// Answer a request.
    Answer(Box<Request>, Answer),
    /// Edit the answer to a request in an editor.
    Edit(Box<Request>),
    /// Stop the turn.
    Interrupt,
    /// Show the last call in full.
    Unfold,
    /// Leave the session.
    Leave,
    /// The key came too late for this request and did nothing.
    TooLate(Box<Request>),
}

/// What the line is for.
#[derive(Clone, Debug, Default, PartialEq)]
enum Mode {
    #[default]
    Prompt,
    Reason(Box<Request>),
    Choosing(Box<Choosing>),
    OwnWords(Box<Choosing>),
    /// The request closed while the user typed an answer: further text is not a prompt.
    TooLate,
}

/// The keyboard and its line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyboard {
    line: PromptLine,
    mode: Mode,
    /// Ctrl-C was the last key.
    leaving: bool,
}

/// The state of the session when a key is pressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// The request that waits longest.
    pub(crate) request: Option<&'a Request>,
    /// How long this request is on the screen.
    pub(crate) shown_for: Duration,
    /// The request that closed last, and how long ago.
    pub(crate) closed: Option<(&'a Request, Duration)>,
    /// A turn runs.
    pub(crate) running: bool,
}

impl Keyboard {
    /// What this key means.
    pub(crate) fn press(&mut self, key: Key, now: Situation<'_>) -> Wish {
        let was_leaving = std::mem::take(&mut self.leaving);
        if let Some(request) = self.about()
            && now.request.map(|open| open.request) != Some(request.request)
        {
            // Somebody else answered the request meanwhile, or the agent withdrew it.
            self.line.clear();
            self.mode = Mode::TooLate;
        }
        match key {
            Key::Cancel => return self.cancel(was_leaving, now),
            Key::EndOfInput if self.line.is_empty() => return Wish::Leave,
            Key::EndOfInput => {}
            Key::Escape => return self.escape(now),
            Key::Unfold => return Wish::Unfold,
            Key::Enter => return self.enter(),
            Key::Character(character) => return self.character(character, now),
            Key::Paste(_) | Key::LineEnd if self.mode == Mode::TooLate => {}
            Key::Paste(text) => self.line.paste(&text),
            Key::LineEnd => self.line.insert('\n'),
            Key::Backspace => self.line.backspace(),
            Key::Delete => self.line.delete(),
            Key::Left => self.line.left(),
            Key::Right => self.line.right(),
            Key::Start => self.line.start(),
            Key::End => self.line.end(),
            Key::Clear if self.mode == Mode::TooLate => self.back(),
            Key::Clear => self.line.clear(),
            Key::DeleteWord => self.line.delete_word(),
            Key::Up if self.mode == Mode::Prompt => self.line.earlier(),
            Key::Down if self.mode == Mode::Prompt => self.line.later(),
            Key::Up | Key::Down => {}
        }
        Wish::Look
    }

    fn cancel(&mut self, was_leaving: bool, now: Situation<'_>) -> Wish {
        if self.mode != Mode::Prompt || !self.line.is_empty() {
            self.back();
            return Wish::Look;
        }
        if was_leaving {
            return Wish::Leave;
        }
        self.leaving = true;
        if now.running { Wish::Interrupt } else { Wish::Look }
    }

    fn escape(&mut self, now: Situation<'_>) -> Wish {
        if self.mode != Mode::Prompt || !self.line.is_empty() {
            self.back();
            return Wish::Look;
        }
        if now.running { Wish::Interrupt } else { Wish::Look }
    }

    fn enter(&mut self) -> Wish {
        match std::mem::take(&mut self.mode) {
            Mode::TooLate => Wish::Look,
            Mode::Prompt => {
                let text = self.line.take();
                if text.trim().is_empty() {
                    return Wish::Look;
                }
                self.line.remember(text.clone());
                Wish::Send(text)
            }
            Mode::Reason(request) => {
                let text = self.line.take();
                let message = (!text.trim().is_empty()).then_some(text);
                Wish::Answer(request, Answer::deny(message))
            }
            Mode::OwnWords(mut choosing) => {
                let text = self.line.take();
                if text.trim().is_empty() {
                    self.mode = Mode::Choosing(choosing);
                    return Wish::Look;
                }
                let mut chosen = choosing.picked();
                if choosing.question().is_none_or(|question| !question.multiple) {
                    chosen.clear();
                }
                chosen.push(text);
                self.answered(&mut choosing, chosen)
            }
            Mode::Choosing(mut choosing) => {
                let chosen = choosing.picked();
                if chosen.is_empty() {
                    self.mode = Mode::Choosing(choosing);
                    return Wish::Look;
                }
                self.answered(&mut choosing, chosen)
            }
        }
    }

    fn character(&mut self, character: char, now: Situation<'_>) -> Wish {
        match &self.mode {
            Mode::Choosing(choosing) => {
                let choosing = choosing.clone();
                self.choose(character, *choosing)
            }
            Mode::Prompt if self.line.is_empty() && now.request.is_some() && now.shown_for >= GUARD => {
                match now.request.and_then(|request| self.answer_key(character, request)) {
                    Some(wish) => wish,
                    None => self.insert(character),
                }
            }
            Mode::Prompt if self.line.is_empty() => match now.closed {
                Some((closed, ago)) if ago < LATE && answers(character, &closed.ask) => {
                    Wish::TooLate(Box::new(closed.clone()))
                }
                _ => self.insert(character),
            },
            Mode::TooLate => Wish::Look,
            Mode::Prompt | Mode::Reason(_) | Mode::OwnWords(_) => self.insert(character),
        }
    }

    fn insert(&mut self, character: char) -> Wish {
        self.line.insert(character);
        Wish::Look
    }

    fn back(&mut self) {
        self.mode = Mode::Prompt;
        self.line.clear();
    }

    fn about(&self) -> Option<&Request> {
        match &self.mode {
            Mode::Prompt | Mode::TooLate => None,
            Mode::Reason(request) => Some(request),
            Mode::Choosing(choosing) | Mode::OwnWords(choosing) => Some(&choosing.request),
        }
    }

    /// The prompt line and the column of the cursor in it.
    pub(crate) fn line(&self, columns: usize) -> (Line, usize) {
        let is_secret = |choosing: &Choosing| choosing.question().is_some_and(|question| question.secret);
        let (label, sight) = match &self.mode {
            Mode::Prompt if self.leaving => ("Ctrl-C again leaves › ".to_owned(), Sight::Open),
            Mode::Prompt => ("› ".to_owned(), Sight::Open),
            Mode::Reason(_) => ("reason › ".to_owned(), Sight::Open),
            Mode::TooLate => ("too late, this request is closed; Enter continues › ".to_owned(), Sight::Open),
            Mode::Choosing(choosing) => (choosing.label(), Sight::Open),
            Mode::OwnWords(choosing) if is_secret(choosing) => (choosing.words_label(), Sight::Hidden),
            Mode::OwnWords(choosing) => (choosing.words_label(), Sight::Open),
        };
        self.line.shown(label, sight, columns)
    }
}
