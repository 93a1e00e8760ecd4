//! Requests: opened once, answered at most once, closed for everybody at the same entry.

use sha2::{Digest as _, Sha256};

use super::{Machine, OPEN_REQUESTS};
use crate::{
    Actor, Event, Millis, RequestId, Seq,
    command::Stage,
    log::Book,
    ports::{Order, Ticket},
    request::{Answer, Ask, Outcome, Request, Scope},
    session::{settle::receipt, state::State},
    spec::MASK,
};

/// A request as the agent reports it.
pub(super) struct Opened {
    pub(super) key: String,
    pub(super) ask: Ask,
    pub(super) parent: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) raw: Option<bytes::Bytes>,
}

impl Machine {
    pub(super) fn answer(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        seq: Seq,
        by: &Actor,
        request: RequestId,
        answer: Answer,
    ) {
        receipt(book, now, seq, Stage::Sending);
        let ask =
            book.state().requests.iter().find(|open| open.request == request).map(|open| open.ask.clone());
        // Admission has just checked it: the request is open.
        let Some(ask) = ask else { return };
        if let (Answer::Allow { scope: Scope::Session, .. }, Ask::Permission { tool_name, .. }) =
            (&answer, &ask)
        {
            book.append(now, Some(by.clone()), Event::RuleAdded { tool_name: tool_name.clone() });
        }
        self.settle_request(book, now, Ticket(seq.0), request, ask, answer, by.clone());
    }

    /// The one place where an answer goes to the agent: the request is open and is closed here, so it is answered once.
    #[expect(clippy::too_many_arguments, reason = "one call shows the whole of what an answer is")]
    fn settle_request(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        ticket: Ticket,
        request: RequestId,
        ask: Ask,
        answer: Answer,
        by: Actor,
    ) {
        let shown = masked_answer(&ask, &answer);
        let outcome =
            if by == Actor::Deadline { Outcome::Expired } else { Outcome::Answered { answer: shown, by } };
        let Some(key) = self.close_request(book, now, request, outcome) else { return };
        self.tell(book, ticket, Order::Answer { key, ask: Box::new(ask), answer }, None);
    }

    /// Closes an open request for everybody; returns the agent's key of the request.
    pub(super) fn close_request(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        request: RequestId,
        outcome: Outcome,
    ) -> Option<String> {
        if book.state().requests.iter().any(|open| open.request == request) {
            book.append(now, None, Event::RequestClosed { request, outcome });
        }
        self.memory.keys.remove(&request)
    }

    /// Denies requests whose deadline has passed.
    pub fn expire(&mut self, book: &mut Book<State>, now: Millis) {
        let late: Vec<_> = book
            .state()
            .requests
            .iter()
            .filter(|request| request.deadline.is_some_and(|deadline| deadline <= now))
            .map(|request| (request.request, request.ask.clone()))
            .collect();
        for (request, ask) in late {
            let answer = Answer::deny(Some("nobody answered in time".into()));
            self.settle_request(book, now, Ticket(request.0), request, ask, answer, Actor::Deadline);
        }
    }

    pub(super) fn open_request(&mut self, book: &mut Book<State>, now: Millis, opened: Opened) {
        let Opened { key, ask, parent, tool, raw } = opened;
        if self.memory.keys.values().any(|open| *open == key) {
            return;
        }
        let seq = book.head().next();
        let request = RequestId(seq.0);
        let deadline = self.policy.request_deadline.map(|wait| Millis(now.0 + wait.as_millis() as i64));
        let opened = Request {
            request,
            generation: book.state().generation,
            digest: digest(&ask),
            ask: ask.clone(),
            parent,
            tool,
            opened_at: now,
            deadline,
            shortened: false,
        };
        let too_many = self.memory.keys.len() >= OPEN_REQUESTS;
        self.memory.keys.insert(request, key);
        book.append_raw(now, None, Event::RequestOpened { request: Box::new(opened) }, raw);
        let by_rule = match &ask {
            Ask::Permission { tool_name, .. } if book.state().rules.contains(tool_name) => {
                Some(tool_name.clone())
            }
            _ => None,
        };
        if let Some(tool_name) = by_rule {
            let by = Actor::Policy { rule: format!("always allow {tool_name}") };
            self.settle_request(book, now, Ticket(request.0), request, ask, Answer::allow(), by);
        } else if too_many {
            let by = Actor::Policy { rule: format!("at most {OPEN_REQUESTS} open requests") };
            let answer = Answer::deny(Some("too many requests are open".into()));
            self.settle_request(book, now, Ticket(request.0), request, ask, answer, by);
        }
    }
}

/// SHA-256 of `ask`, in hex.
fn digest(ask: &Ask) -> String {
    // Our own types serialise.
    let text = serde_json::to_vec(ask).unwrap_or_default();
    super::hex(&Sha256::digest(&text))
}

/// The answer as the log shows it to everyone.
fn masked_answer(ask: &Ask, answer: &Answer) -> Answer {
    let (Ask::Question { questions }, Answer::Choices { answers }) = (ask, answer) else {
        return answer.clone();
    };
    let mut answers = answers.clone();
    for question in questions.iter().filter(|question| question.secret) {
        if let Some(given) = answers.get_mut(&question.question) {
            *given = vec![MASK.to_owned()];
        }
    }
    Answer::Choices { answers }
}
