//! What a key means now: part of a prompt, the answer to a request, or a wish to stop or leave.
//!
//! While a request waits and the prompt line is empty, one key answers it. A request that has only just appeared
//! takes no answer: what was typed then was meant for something else. A key that would have answered a request that has
//! only just closed goes nowhere, and so do further words of an answer to it: neither may end up in the prompt line, one
//! Enter from being sent.

use std::time::Duration;

use indexmap::IndexMap;
use portolan_core::request::{Answer, Ask, Question, Request, Scope};

use super::{
    clean,
    style::{Line, Style},
};

/// How long a request must have been on the screen before a key answers it. Shorter than anyone reads, longer than
/// the pause between two keys of someone who types.
pub(crate) const GUARD: Duration = Duration::from_millis(500);

/// For how long after a request has closed a key still means that request: longer than it takes to notice.
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
    /// Nothing but a look at the changed line.
    Look,
    /// Say this to the agent.
    Send(String),
    /// Answer a request.
    Answer(Box<Request>, Answer),
    /// Edit the answer to a request elsewhere.
    Edit(Box<Request>),
    /// Stop the turn.
    Interrupt,
    /// Show the last call in full.
    Unfold,
    /// Leave the session.
    Leave,
    /// The key came too late for this request, and did nothing.
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
    /// The request that was being answered closed meanwhile: what is typed on is no prompt.
    TooLate,
}

/// Questions on their way to an answer.
#[derive(Clone, Debug, PartialEq)]
struct Choosing {
    request: Request,
    answers: IndexMap<String, Vec<String>>,
    at: usize,
    picked: Vec<usize>,
}

impl Choosing {
    fn questions(&self) -> &[Question] {
        match &self.request.ask {
            Ask::Question { questions } => questions,
            _ => &[],
        }
    }
    fn question(&self) -> Option<&Question> {
        self.questions().get(self.at)
    }
}

/// The keyboard and its line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyboard {
    line: Vec<char>,
    cursor: usize,
    mode: Mode,
    /// Ctrl-C was the last key.
    leaving: bool,
    history: Vec<String>,
    recalled: Option<usize>,
}

/// How the session stands when a key is pressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// The request that waits longest.
    pub(crate) request: Option<&'a Request>,
    /// Since when it is on the screen.
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
            // It was answered by someone else meanwhile, or the agent took it back.
            self.clear();
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
            Key::Paste(text) => {
                let text: Vec<char> = text.replace("\r\n", "\n").replace('\r', "\n").chars().collect();
                let pasted = text.len();
                self.line.splice(self.cursor..self.cursor, text);
                self.cursor += pasted;
            }
            Key::LineEnd => return self.insert('\n'),
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.line.remove(self.cursor);
            }
            Key::Backspace => {}
            Key::Delete if self.cursor < self.line.len() => {
                self.line.remove(self.cursor);
            }
            Key::Delete => {}
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.line.len()),
            Key::Start => self.cursor = 0,
            Key::End => self.cursor = self.line.len(),
            Key::Clear if self.mode == Mode::TooLate => self.back(),
            Key::Clear => self.clear(),
            Key::DeleteWord => {
                let kept = self.line[..self.cursor].iter().collect::<String>();
                let kept = kept.trim_end().rfind(' ').map_or(0, |at| kept[..=at].chars().count());
                self.line.drain(kept..self.cursor);
                self.cursor = kept;
            }
            Key::Up => self.recall(self.recalled.unwrap_or(self.history.len()).checked_sub(1)),
            Key::Down => self.recall(self.recalled.map(|at| at + 1)),
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
                let text = self.take_line();
                if text.trim().is_empty() {
                    return Wish::Look;
                }
                self.history.push(text.clone());
                Wish::Send(text)
            }
            Mode::Reason(request) => {
                let text = self.take_line();
                let message = (!text.trim().is_empty()).then_some(text);
                Wish::Answer(request, Answer::deny(message))
            }
            Mode::OwnWords(mut choosing) => {
                let text = self.take_line();
                if text.trim().is_empty() {
                    self.mode = Mode::Choosing(choosing);
                    return Wish::Look;
                }
                let mut chosen = labels(&choosing);
                if choosing.question().is_none_or(|question| !question.multiple) {
                    chosen.clear();
                }
                chosen.push(text);
                self.answered(&mut choosing, chosen)
            }
            Mode::Choosing(mut choosing) => {
                let chosen = labels(&choosing);
                if chosen.is_empty() {
                    self.mode = Mode::Choosing(choosing);
                    return Wish::Look;
                }
                self.answered(&mut choosing, chosen)
            }
        }
    }

    /// One question is answered: the next one, or the whole answer.
    fn answered(&mut self, choosing: &mut Choosing, chosen: Vec<String>) -> Wish {
        if let Some(question) = choosing.question() {
            choosing.answers.insert(question.question.clone(), chosen);
        }
        choosing.at += 1;
        choosing.picked.clear();
        if let Some(next) = choosing.question() {
            // With nothing to choose from, what is typed can only be the answer.
            let in_words = next.choices.is_empty();
            let choosing = Box::new(choosing.clone());
            self.mode = if in_words { Mode::OwnWords(choosing) } else { Mode::Choosing(choosing) };
            return Wish::Look;
        }
        let answers = std::mem::take(&mut choosing.answers);
        self.mode = Mode::Prompt;
        Wish::Answer(Box::new(choosing.request.clone()), Answer::Choices { answers })
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

    /// What a key answers to a request, where it does.
    fn answer_key(&mut self, character: char, request: &Request) -> Option<Wish> {
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
            (Ask::Question { .. }, '1'..='9' | 't') => {
                let choosing = Choosing {
                    request: request.clone(),
                    answers: IndexMap::new(),
                    at: 0,
                    picked: Vec::new(),
                };
                Some(self.choose(character, choosing))
            }
            _ => None,
        }
    }

    fn choose(&mut self, character: char, mut choosing: Choosing) -> Wish {
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

    fn insert(&mut self, character: char) -> Wish {
        self.line.insert(self.cursor, character);
        self.cursor += 1;
        Wish::Look
    }

    fn recall(&mut self, at: Option<usize>) {
        if self.mode != Mode::Prompt {
            return;
        }
        match at.and_then(|at| Some((at, self.history.get(at)?.clone()))) {
            Some((at, text)) => {
                self.line = text.chars().collect();
                self.recalled = Some(at);
            }
            None if at.is_some() => self.clear(),
            None => {}
        }
        self.cursor = self.line.len();
    }

    fn take_line(&mut self) -> String {
        let text = self.line.iter().collect();
        self.clear();
        text
    }

    fn clear(&mut self) {
        self.line.clear();
        self.cursor = 0;
        self.recalled = None;
    }

    fn back(&mut self) {
        self.mode = Mode::Prompt;
        self.clear();
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
        use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
        let (label, hidden) = match &self.mode {
            Mode::Prompt if self.leaving => ("Ctrl-C again leaves › ".to_owned(), false),
            Mode::Prompt => ("› ".to_owned(), false),
            Mode::Reason(_) => ("why not › ".to_owned(), false),
            Mode::TooLate => ("too late, this request is closed; Enter goes on › ".to_owned(), false),
            Mode::Choosing(choosing) => (choosing_label(choosing), false),
            Mode::OwnWords(choosing) => {
                (words_label(choosing), choosing.question().is_some_and(|question| question.secret))
            }
        };
        let shown = |character: &char| match character {
            _ if hidden => '•',
            '\n' => '⏎',
            other => *other,
        };
        let room = columns.saturating_sub(label.width() + 2).max(1);
        // The part around the cursor, where the line is longer than the screen is wide. No more of the line is looked at
        // than is shown: it may be a whole file that was pasted.
        let width = |character: char| character.width().unwrap_or(0);
        let mut before = 0;
        let kept = self.line[..self.cursor].iter().rev().map(shown).take_while(|character| {
            before += width(*character);
            before <= room
        });
        let start = self.cursor - kept.take(room.saturating_mul(2)).count();
        let column =
            label.width() + self.line[start..self.cursor].iter().map(shown).map(width).sum::<usize>();
        let rest: String = self.line[start..].iter().map(shown).take(room.saturating_mul(3)).collect();
        let line = Line::new(Style::Bold, label).and(Style::Plain, clean::visible(&rest));
        (line, column)
    }
}

/// Does this key answer such a request, where it is open?
fn answers(character: char, ask: &Ask) -> bool {
    match ask {
        Ask::Permission { .. } => matches!(character, 'y' | 'a' | 'n' | 'd' | 'e'),
        Ask::Plan { .. } => matches!(character, 'y' | 'n' | 'd'),
        Ask::Question { .. } => matches!(character, '1'..='9' | 't' | 'n'),
        Ask::Elicitation { .. } | Ask::Hook { .. } | Ask::Other { .. } => matches!(character, 'e' | 'n'),
    }
}

fn choosing_label(choosing: &Choosing) -> String {
    let question = choosing.question().map(|question| clean::line(&question.question)).unwrap_or_default();
    let picked: Vec<String> = choosing.picked.iter().map(|at| (at + 1).to_string()).collect();
    if picked.is_empty() {
        format!("{question} › ")
    } else {
        format!("{question} [{}] › ", picked.join(" "))
    }
}

/// One question stands above the line already; of several it must be said which.
fn words_label(choosing: &Choosing) -> String {
    match choosing.question() {
        Some(question) if choosing.questions().len() > 1 => format!("{} › ", clean::line(&question.question)),
        _ => "your answer › ".into(),
    }
}

fn labels(choosing: &Choosing) -> Vec<String> {
    let Some(question) = choosing.question() else { return Vec::new() };
    choosing
        .picked
        .iter()
        .filter_map(|at| question.choices.get(*at))
        .map(|choice| choice.label.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use portolan_core::{Generation, Millis, RequestId, request::Choice};

    use super::*;

    fn request(ask: Ask) -> Request {
        Request {
            request: RequestId(5),
            generation: Generation(1),
            ask,
            parent: None,
            tool: None,
            digest: "d".into(),
            opened_at: Millis(0),
            shortened: false,
            deadline: None,
        }
    }

    fn permission() -> Request {
        request(Ask::Permission {
            tool_name: "Bash".into(),
            input: serde_json::json!({"command": "ls"}),
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        })
    }

    fn question(multiple: bool, free_text: bool) -> Question {
        Question {
            question: "Which?".into(),
            header: None,
            choices: ["red", "blue"].map(|label| Choice { label: label.into(), description: None }).to_vec(),
            multiple,
            free_text,
            secret: false,
        }
    }

    fn waiting(request: &Request) -> Situation<'_> {
        Situation { request: Some(request), shown_for: Duration::from_secs(2), closed: None, running: true }
    }

    const CALM: Situation<'static> =
        Situation { request: None, shown_for: Duration::ZERO, closed: None, running: false };

    fn every_kind() -> Vec<Request> {
        let plan = Ask::Plan { plan: None, input: serde_json::Value::Null };
        let (server, message) = (String::new(), String::new());
        let form = Ask::Elicitation { server, message, schema: None, url: None };
        let hook = Ask::Hook { event: String::new(), input: serde_json::Value::Null };
        let other = Ask::Other { name: String::new(), body: serde_json::Value::Null };
        let questions = Ask::Question { questions: vec![question(false, true)] };
        let mut all: Vec<Request> = [plan, form, hook, other, questions].into_iter().map(request).collect();
        all.push(permission());
        all
    }

    fn type_text(keyboard: &mut Keyboard, text: &str, now: Situation<'_>) -> Wish {
        text.chars().map(|character| keyboard.press(Key::Character(character), now)).last().unwrap()
    }

    fn chosen(labels: &[&str]) -> Answer {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Answer::Choices { answers: [("Which?".to_owned(), labels)].into_iter().collect() }
    }

    #[test]
    fn one_key_answers_a_permission() {
        let open = permission();
        let press = |character| Keyboard::default().press(Key::Character(character), waiting(&open));
        assert_eq!(press('y'), Wish::Answer(Box::new(open.clone()), Answer::allow()));
        let always = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
        assert_eq!(press('a'), Wish::Answer(Box::new(open.clone()), always));
        assert_eq!(press('n'), Wish::Answer(Box::new(open.clone()), Answer::deny(None)));
        assert_eq!(press('e'), Wish::Edit(Box::new(open.clone())));
    }

    #[test]
    fn a_request_that_has_only_just_appeared_takes_no_answer() {
        let open = permission();
        let mut keyboard = Keyboard::default();
        let fresh = Situation { shown_for: Duration::from_millis(80), ..waiting(&open) };
        assert_eq!(type_text(&mut keyboard, "yes", fresh), Wish::Look);
        assert_eq!(keyboard.press(Key::Character('y'), waiting(&open)), Wish::Look, "the line is not empty");
        assert_eq!(keyboard.press(Key::Enter, waiting(&open)), Wish::Send("yesy".into()));
    }

    #[test]
    fn a_denial_can_have_a_reason() {
        let open = permission();
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "dnot yet", waiting(&open));
        assert_eq!(
            keyboard.press(Key::Enter, waiting(&open)),
            Wish::Answer(Box::new(open.clone()), Answer::deny(Some("not yet".into())))
        );
    }

    #[test]
    fn a_reason_for_a_request_that_someone_else_answered_goes_nowhere() {
        let open = permission();
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "dno", waiting(&open));
        assert_eq!(keyboard.press(Key::Enter, CALM), Wish::Look);
    }

    #[test]
    fn a_key_that_comes_too_late_for_a_request_is_not_left_in_the_line() {
        let next = request(Ask::Question { questions: vec![question(false, true)] });
        for open in every_kind() {
            for character in ('a'..='z').chain('0'..='9') {
                let mut keyboard = Keyboard::default();
                keyboard.press(Key::Character(character), waiting(&open));
                let is_answer = keyboard.line(80).0.plain() != format!("› {character}");
                assert_eq!(answers(character, &open.ask), is_answer, "{character} {:?}", open.ask);
                let late = Situation { closed: Some((&open, Duration::from_millis(1500))), ..CALM };
                // The next request may be there already, and take no key yet.
                let fresh = Situation { request: Some(&next), shown_for: Duration::from_millis(80), ..late };
                for now in [late, fresh] {
                    let mut keyboard = Keyboard::default();
                    let wish = keyboard.press(Key::Character(character), now);
                    let left = keyboard.line(80).0.plain();
                    if answers(character, &open.ask) {
                        assert_eq!((wish, left.as_str()), (Wish::TooLate(Box::new(open.clone())), "› "));
                        assert_eq!(keyboard.press(Key::Enter, now), Wish::Look, "nothing is sent");
                    } else {
                        assert_eq!((wish, left), (Wish::Look, format!("› {character}")));
                    }
                }
            }
            let long_ago = Situation { closed: Some((&open, LATE)), ..CALM };
            let mut keyboard = Keyboard::default();
            type_text(&mut keyboard, "yes", long_ago);
            assert_eq!(keyboard.press(Key::Enter, long_ago), Wish::Send("yes".into()));
        }
    }

    #[test]
    fn the_rest_of_a_reason_that_comes_too_late_does_not_become_a_prompt() {
        let open = permission();
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "dnot y", waiting(&open));
        assert_eq!(type_text(&mut keyboard, "et, wait", CALM), Wish::Look);
        keyboard.press(Key::Paste("pasted".into()), CALM);
        assert_eq!(keyboard.line(80).0.plain(), "too late, this request is closed; Enter goes on › ");
        assert_eq!(keyboard.press(Key::Enter, CALM), Wish::Look);
        type_text(&mut keyboard, "hello", CALM);
        assert_eq!(keyboard.press(Key::Enter, CALM), Wish::Send("hello".into()));
    }

    #[test]
    fn a_long_line_is_shown_around_the_cursor() {
        let mut keyboard = Keyboard::default();
        keyboard.press(Key::Paste("日".repeat(100_000)), CALM);
        let (line, column) = keyboard.line(20);
        assert_eq!((line.plain().as_str(), column), ("› 日日日日日日日日", 18));
        keyboard.press(Key::Start, CALM);
        keyboard.press(Key::Paste("ab".into()), CALM);
        let (line, column) = keyboard.line(20);
        assert!(line.plain().starts_with("› ab日日") && line.plain().chars().count() < 100, "{line:?}");
        assert_eq!(column, 4);
    }

    #[test]
    fn a_digit_chooses_and_several_are_sent_with_enter() {
        let single = request(Ask::Question { questions: vec![question(false, false)] });
        let mut keyboard = Keyboard::default();
        assert_eq!(
            keyboard.press(Key::Character('2'), waiting(&single)),
            Wish::Answer(Box::new(single.clone()), chosen(&["blue"]))
        );
        let multiple = request(Ask::Question { questions: vec![question(true, false)] });
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "1219", waiting(&multiple));
        assert_eq!(
            keyboard.press(Key::Enter, waiting(&multiple)),
            Wish::Answer(Box::new(multiple.clone()), chosen(&["blue"])),
            "1 was chosen and taken back, 9 is none"
        );
    }

    #[test]
    fn own_words_answer_where_they_are_welcome() {
        let open = request(Ask::Question { questions: vec![question(false, true)] });
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "tgreen", waiting(&open));
        assert_eq!(
            keyboard.press(Key::Enter, waiting(&open)),
            Wish::Answer(Box::new(open.clone()), chosen(&["green"]))
        );
    }

    #[test]
    fn several_questions_are_answered_one_by_one() {
        let second = Question { question: "And?".into(), ..question(false, false) };
        let open = request(Ask::Question { questions: vec![question(false, false), second] });
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.press(Key::Character('1'), waiting(&open)), Wish::Look);
        let Wish::Answer(_, Answer::Choices { answers }) =
            keyboard.press(Key::Character('2'), waiting(&open))
        else {
            panic!("no answer")
        };
        let expected: IndexMap<String, Vec<String>> =
            [("Which?".into(), vec!["red".into()]), ("And?".into(), vec!["blue".into()])]
                .into_iter()
                .collect();
        assert_eq!(answers, expected);
    }

    #[test]
    fn a_later_question_without_choices_is_answered_by_typing() {
        let second = Question { question: "Name?".into(), choices: vec![], ..question(false, true) };
        let open = request(Ask::Question { questions: vec![question(false, false), second] });
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "1no", waiting(&open));
        assert_eq!(keyboard.line(80).0.plain(), "Name? › no");
        let answers = [("Which?".to_owned(), vec!["red".to_owned()]), ("Name?".into(), vec!["no".into()])];
        assert_eq!(
            keyboard.press(Key::Enter, waiting(&open)),
            Wish::Answer(Box::new(open.clone()), Answer::Choices { answers: answers.into_iter().collect() })
        );
    }

    #[test]
    fn ctrl_c_interrupts_and_twice_leaves() {
        let busy = Situation { running: true, ..CALM };
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.press(Key::Cancel, busy), Wish::Interrupt);
        assert_eq!(keyboard.press(Key::Cancel, busy), Wish::Leave);
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.press(Key::Cancel, CALM), Wish::Look);
        assert_eq!(keyboard.press(Key::Character('x'), CALM), Wish::Look);
        assert_eq!(keyboard.press(Key::Cancel, CALM), Wish::Look, "clears the line");
        assert_eq!(keyboard.press(Key::EndOfInput, CALM), Wish::Leave);
        assert_eq!(Keyboard::default().press(Key::Escape, busy), Wish::Interrupt);
    }

    #[test]
    fn a_line_is_edited_and_earlier_ones_come_back() {
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "hello word", CALM);
        keyboard.press(Key::Left, CALM);
        type_text(&mut keyboard, "l", CALM);
        assert_eq!(keyboard.line(80).0.plain(), "› hello world");
        keyboard.press(Key::End, CALM);
        keyboard.press(Key::DeleteWord, CALM);
        keyboard.press(Key::Paste("a\r\nb".into()), CALM);
        assert_eq!(keyboard.line(80).0.plain(), "› hello a⏎b");
        assert_eq!(keyboard.press(Key::Enter, CALM), Wish::Send("hello a\nb".into()));
        keyboard.press(Key::Up, CALM);
        assert_eq!(keyboard.line(80), (Line::new(Style::Bold, "› ").and(Style::Plain, "hello a⏎b"), 11));
        keyboard.press(Key::Down, CALM);
        assert_eq!(keyboard.line(80).0.plain(), "› ");
    }

    #[test]
    fn a_secret_answer_is_not_shown() {
        let secret = Question { choices: vec![], secret: true, ..question(false, true) };
        let open = request(Ask::Question { questions: vec![secret] });
        let mut keyboard = Keyboard::default();
        type_text(&mut keyboard, "tpw", waiting(&open));
        assert_eq!(keyboard.line(80).0.plain(), "your answer › ••");
    }
}
