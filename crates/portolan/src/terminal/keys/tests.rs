//! What keys mean, key by key.

use indexmap::IndexMap;
use portolan_core::{
    Generation, Millis, RequestId,
    request::{Ask, Choice, Question, Scope},
};

use super::*;
use crate::terminal::style::Style;

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
        policy: None,
        suggested_rule: None,
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
        folder: None,
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
fn a_request_that_just_appeared_takes_no_answer() {
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
fn a_reason_for_a_request_that_someone_else_answered_is_not_sent() {
    let open = permission();
    let mut keyboard = Keyboard::default();
    type_text(&mut keyboard, "dno", waiting(&open));
    assert_eq!(keyboard.press(Key::Enter, CALM), Wish::Look);
}

#[test]
fn a_key_that_is_too_late_for_a_request_does_not_stay_in_the_line() {
    let next = request(Ask::Question { questions: vec![question(false, true)] });
    for open in every_kind() {
        for character in ('a'..='z').chain('0'..='9') {
            let mut keyboard = Keyboard::default();
            keyboard.press(Key::Character(character), waiting(&open));
            let is_answer = keyboard.line(80).0.plain() != format!("› {character}");
            assert_eq!(answers(character, &open.ask), is_answer, "{character} {:?}", open.ask);
            let late = Situation { closed: Some((&open, Duration::from_millis(1500))), ..CALM };
            // The next request may be open already, but takes no key yet.
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
fn the_rest_of_a_late_reason_does_not_become_a_prompt() {
    let open = permission();
    let mut keyboard = Keyboard::default();
    type_text(&mut keyboard, "dnot y", waiting(&open));
    assert_eq!(type_text(&mut keyboard, "et, wait", CALM), Wish::Look);
    keyboard.press(Key::Paste("pasted".into()), CALM);
    assert_eq!(keyboard.line(80).0.plain(), "too late, this request is closed; Enter continues › ");
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
fn a_digit_chooses_and_enter_sends_several_choices() {
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
        "1 was chosen and then cleared, 9 is not a choice"
    );
}

#[test]
fn a_typed_text_answers_a_question_that_allows_free_text() {
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
    let Wish::Answer(_, Answer::Choices { answers }) = keyboard.press(Key::Character('2'), waiting(&open))
    else {
        panic!("no answer")
    };
    let expected: IndexMap<String, Vec<String>> =
        [("Which?".into(), vec!["red".into()]), ("And?".into(), vec!["blue".into()])].into_iter().collect();
    assert_eq!(answers, expected);
}

#[test]
fn a_later_question_without_choices_takes_typed_text() {
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
fn ctrl_c_interrupts_and_ctrl_c_twice_leaves() {
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
fn a_line_can_be_edited_and_earlier_lines_can_be_recalled() {
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
