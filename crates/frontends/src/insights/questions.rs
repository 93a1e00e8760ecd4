//! Questions answered one by one: the agent asks several at once and gets all answers together. Pure.

use std::collections::VecDeque;

use indexmap::IndexMap;
use portolan_core::{
    CommandId, RequestId, SessionId,
    request::{Answer, Ask, Question, Request},
};

use super::project::{elicitation_answer, question_id};

/// How many partly answered requests one client may have; more than any dashboard shows at once.
const PARTIAL: usize = 64;

/// How many message ids are kept for one request, to detect repeats: a client repeats its last messages, not old ones,
/// and may change its answers as long as one is missing.
const KNOWN: usize = 64;

/// Answers of one client that wait for the other answers.
#[derive(Debug, Default)]
pub(super) struct Partial {
    open: IndexMap<(SessionId, RequestId), Given>,
}

#[derive(Debug, Default)]
struct Given {
    /// By the index of the question.
    answers: IndexMap<usize, Vec<String>>,
    /// The ids of the newest messages with answers, oldest first.
    ids: VecDeque<CommandId>,
}

/// The result of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// More questions wait.
    More,
    /// All questions are answered: this is the whole answer.
    Complete(Answer),
}

impl Partial {
    /// Forgets closed requests of this session.
    pub(super) fn retain_open(&mut self, session: SessionId, open: &[Request]) {
        self.open
            .retain(|(of, request), _| *of != session || open.iter().any(|waits| waits.request == *request));
    }

    /// An answer to the named question, otherwise to the oldest unanswered one. A repeated message counts once.
    pub(super) fn take(
        &mut self,
        session: SessionId,
        request: &Request,
        question: Option<&str>,
        id: Option<&CommandId>,
        text: &str,
    ) -> Result<Step, String> {
        let questions = match &request.ask {
            Ask::Question { questions } => questions,
            Ask::Elicitation { schema, .. } => {
                return elicitation_answer(schema.as_ref(), text).map(Step::Complete);
            }
            Ask::Permission { .. } | Ask::Plan { .. } | Ask::Hook { .. } | Ask::Other { .. } => {
                return Err("answer this with `permission.response`".into());
            }
        };
        let key = (session, request.request);
        let given = self.open.get(&key);
        if let (Some(id), Some(given)) = (id, given)
            && given.ids.contains(id)
        {
            return Ok(Step::More);
        }
        let is_answered = |place: &usize| given.is_some_and(|given| given.answers.contains_key(place));
        let place = match question {
            Some(name) => (0..questions.len()).find(|place| question_id(request.request, *place) == name),
            None => (0..questions.len()).find(|place| !is_answered(place)),
        };
        let place = place.ok_or("there is no such question")?;
        let answer = chosen(&questions[place], text)?;
        // Only a valid answer changes the state.
        if given.is_none() && self.open.len() >= PARTIAL {
            self.open.shift_remove_index(0);
        }
        let given = self.open.entry(key).or_default();
        if let Some(id) = id {
            if given.ids.len() == KNOWN {
                given.ids.pop_front();
            }
            given.ids.push_back(id.clone());
        }
        given.answers.insert(place, answer);
        if given.answers.len() < questions.len() {
            return Ok(Step::More);
        }
        let given = self.open.shift_remove(&key).unwrap_or_default();
        let by_text = |(place, answer): (&Question, _)| (place.question.clone(), answer);
        let mut answers = given.answers;
        answers.sort_unstable_keys();
        let answers = questions.iter().zip(answers.into_values()).map(by_text).collect();
        Ok(Step::Complete(Answer::Choices { answers }))
    }
}

/// The choices in a text: labels if it names them, otherwise the text itself.
fn chosen(question: &Question, text: &str) -> Result<Vec<String>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("an answer must not be empty".into());
    }
    let label = |said: &str| {
        let is = |choice: &&portolan_core::request::Choice| choice.label.eq_ignore_ascii_case(said.trim());
        question.choices.iter().find(is).map(|choice| choice.label.clone())
    };
    if let Some(label) = label(text) {
        return Ok(vec![label]);
    }
    if question.multiple {
        let said = text.split([',', '\n']).filter(|said| !said.trim().is_empty());
        let mut labels: Vec<String> = Vec::new();
        let all: Option<Vec<String>> = said.map(label).collect();
        for label in all.unwrap_or_default() {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        if !labels.is_empty() {
            return Ok(labels);
        }
    }
    Ok(vec![text.to_owned()])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SESSION: SessionId = SessionId::from_u128(1);

    fn question(text: &str, labels: &[&str], multiple: bool) -> Question {
        Question { multiple, free_text: true, ..portolan_testkit::sessions::question(text, labels) }
    }

    fn request(ask: Ask) -> Request {
        portolan_testkit::sessions::request(7, ask)
    }

    fn three() -> Request {
        request(Ask::Question {
            questions: vec![
                question("Where?", &["Genoa", "Majorca"], false),
                question("What?", &["Charts", "Biscuits", "A cat"], true),
                question("Name?", &[], false),
            ],
        })
    }

    fn answer(pairs: &[(&str, &[&str])]) -> Step {
        let own = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let answers = pairs.iter().map(|(question, words)| ((*question).to_owned(), own(words))).collect();
        Step::Complete(Answer::Choices { answers })
    }

    // covers: 001-025, 001-026
    #[test]
    fn questions_are_answered_in_their_order_and_all_together() {
        let (mut partial, request) = (Partial::default(), three());
        let mut take = |text| partial.take(SESSION, &request, None, None, text);
        assert_eq!(take("genoa"), Ok(Step::More));
        assert_eq!(take("A cat, Charts"), Ok(Step::More));
        let expected = [
            ("Where?", &["Genoa"][..]),
            ("What?", &["A cat", "Charts"][..]),
            ("Name?", &["La Bella, ii"][..]),
        ];
        assert_eq!(take(" La Bella, ii "), Ok(answer(&expected)));
    }

    #[test]
    fn a_question_that_is_named_is_answered_whatever_its_place() {
        let (mut partial, request) = (Partial::default(), three());
        let mut take = |name, text| partial.take(SESSION, &request, name, None, text);
        assert_eq!(take(Some("7.3"), "Bella"), Ok(Step::More));
        assert_eq!(take(Some("7.1"), "Elsewhere"), Ok(Step::More));
        assert!(take(Some("8.1"), "x").is_err());
        let expected =
            [("Where?", &["Elsewhere"][..]), ("What?", &["Charts, rum"][..]), ("Name?", &["Bella"][..])];
        assert_eq!(take(None, "Charts, rum"), Ok(answer(&expected)), "own words stay as they are");
    }

    #[test]
    fn the_same_message_sent_twice_answers_one_question() {
        let (mut partial, request) = (Partial::default(), three());
        let id = CommandId::random();
        for _ in 0..3 {
            assert_eq!(partial.take(SESSION, &request, None, Some(&id), "Genoa"), Ok(Step::More));
        }
        assert_eq!(partial.take(SESSION, &request, None, None, "Charts"), Ok(Step::More));
        assert!(matches!(partial.take(SESSION, &request, None, None, "Bella"), Ok(Step::Complete(_))));
    }

    #[test]
    fn a_message_that_was_no_answer_may_be_mended_and_sent_again() {
        let (mut partial, request) = (Partial::default(), three());
        let id = CommandId::random();
        let mut take = |name, text| partial.take(SESSION, &request, name, Some(&id), text);
        assert_eq!(take(None, " "), Err("an answer must not be empty".into()));
        assert_eq!(take(Some("7.9"), "Genoa"), Err("there is no such question".into()));
        assert_eq!(take(None, "Genoa"), Ok(Step::More), "it is an answer now, and counts");
        let given = &partial.open[&(SESSION, RequestId(7))];
        assert_eq!((given.answers.len(), given.ids.len()), (1, 1));
    }

    #[test]
    fn what_is_no_answer_leaves_nothing_behind_and_pushes_nobody_out() {
        let mut partial = Partial::default();
        let numbered = |number| Request { request: RequestId(number), ..three() };
        for number in 0..PARTIAL as u64 {
            assert_eq!(partial.take(SESSION, &numbered(number), None, None, "Genoa"), Ok(Step::More));
        }
        assert!(partial.take(SESSION, &numbered(1000), None, None, "").is_err());
        assert!(partial.open.contains_key(&(SESSION, RequestId(0))) && partial.open.len() == PARTIAL);
        assert_eq!(partial.take(SESSION, &numbered(1000), None, None, "Genoa"), Ok(Step::More));
        assert!(!partial.open.contains_key(&(SESSION, RequestId(0))) && partial.open.len() == PARTIAL);
    }

    #[test]
    fn answers_that_are_changed_for_ever_take_no_more_room() {
        let (mut partial, request) = (Partial::default(), three());
        let ids: Vec<CommandId> = (0..4 * KNOWN).map(|_| CommandId::random()).collect();
        for id in &ids {
            assert_eq!(partial.take(SESSION, &request, Some("7.1"), Some(id), "Genoa"), Ok(Step::More));
        }
        let given = &partial.open[&(SESSION, RequestId(7))];
        assert_eq!(given.answers.len(), 1);
        assert_eq!(Vec::from(given.ids.clone()), ids[3 * KNOWN..]);
    }

    #[test]
    fn what_was_closed_elsewhere_is_forgotten() {
        let (mut partial, request) = (Partial::default(), three());
        assert_eq!(partial.take(SESSION, &request, None, None, "Genoa"), Ok(Step::More));
        partial.retain_open(SESSION, &[]);
        assert!(partial.open.is_empty());
        assert!(partial.take(SESSION, &request, None, None, "  ").is_err(), "no words, no answer");
    }

    #[test]
    fn a_form_is_answered_by_json_or_by_words_where_it_has_one_field() {
        let form =
            |schema| request(Ask::Elicitation { server: "s".into(), message: "m".into(), schema, url: None });
        let mut partial = Partial::default();
        let mut take = |request: &Request, text| partial.take(SESSION, request, None, None, text);
        let content = |content| Ok(Step::Complete(Answer::Content { content }));
        let one = form(Some(json!({"properties": {"berth": {"type": "integer"}}})));
        let two = form(Some(json!({"properties": {"a": {}, "b": {}}})));
        assert_eq!(take(&one, "7"), content(json!({"berth": 7})));
        assert_eq!(take(&one, "the last one"), content(json!({"berth": "the last one"})));
        assert_eq!(take(&two, r#"{"a":1,"b":2}"#), content(json!({"a": 1, "b": 2})));
        assert!(take(&two, "words").is_err());
        assert_eq!(take(&form(None), "yes"), content(json!({})));
        assert_eq!(take(&two, "decline"), Ok(Step::Complete(Answer::deny(None))));
    }
}
