//! Requests: opened once, answered at most once, closed for everybody at the same entry.

use std::{path::PathBuf, time::Duration};

use sha2::{Digest as _, Sha256};

use super::{Machine, OPEN_REQUESTS, memory::AllowedBy, modes::Led};
use crate::{
    Actor, Event, Millis, RequestId, Seq,
    access::PolicySource,
    command::Stage,
    event::Setting,
    log::Book,
    policy::{
        Call, Decision, Effect, Judgement, Kind, Mode, Reading, Rule, RuleId, RuleSet, Situation, decide,
        rule::ScopeDraft, secret, suggest,
    },
    ports::{Approval, Doer, InstructionId, Order},
    request::{
        Answer, Ask, Outcome, Request, Scope,
        persist::{Persist, PersistScope},
    },
    session::{
        settle::receipt,
        state::{State, Summary},
    },
    spec::MASK,
};

/// What answers when neither a rule nor a mode does.
const UNATTENDED: &str = "unattended";

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
        let open = book.state().requests.iter().find(|open| open.request == request);
        // Admission has just checked it: the request is open.
        let Some((ask, tool)) = open.map(|open| (open.ask.clone(), open.tool.clone())) else { return };
        if let (Answer::Allow { .. }, Some(tool)) = (&answer, tool) {
            self.memory.allow(tool, AllowedBy::Person);
        }
        if let (Answer::Allow { scope: Scope::Session, .. }, Ask::Permission { tool_name, .. }) =
            (&answer, &ask)
        {
            let rule = None;
            book.append(now, Some(by.clone()), Event::RuleAdded { tool_name: tool_name.clone(), rule });
        }
        if let Some(led) = Led::by(&ask, &answer) {
            self.memory.led = Some(led);
        }
        let answer = worded(book, now, by, &ask, answer);
        self.settle_request(book, now, InstructionId(seq.0), request, ask, answer, by.clone());
    }

    /// Makes the rule that comes with an answer, if it is one of this session.
    #[expect(clippy::too_many_arguments, reason = "one call shows the whole of what an answer makes")]
    pub(super) fn persist(
        &self,
        book: &mut Book<State>,
        now: Millis,
        seq: Seq,
        by: &Actor,
        request: RequestId,
        answer: &Answer,
        persist: Option<Persist>,
    ) {
        let Some(persist) = persist.filter(|persist| persist.scope == PersistScope::Session) else { return };
        let state = book.state();
        let session = state.summary.session;
        let Some(open) = state.requests.iter().find(|open| open.request == request) else { return };
        // Admission has just made the same draft.
        let Ok(draft) = persist.draft(open, answer, ScopeDraft::Session { session }) else { return };
        let rule = Box::new(draft.of_session(session, seq, now, by));
        let (tool_name, made) = (rule.text.clone(), Some(rule.clone()));
        book.append(now, Some(by.clone()), Event::RuleAdded { tool_name, rule: made });
        self.note_unbound(book, now, std::iter::once(&*rule));
    }

    /// The one place where an answer goes to the agent: the request is open and is closed here, so it is answered once.
    #[expect(clippy::too_many_arguments, reason = "one call shows the whole of what an answer is")]
    fn settle_request(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        instruction_id: InstructionId,
        request: RequestId,
        ask: Ask,
        answer: Answer,
        by: Actor,
    ) {
        let shown = masked_answer(&ask, &answer);
        let outcome =
            if by == Actor::Deadline { Outcome::Expired } else { Outcome::Answered { answer: shown, by } };
        let Some(key) = self.close_request(book, now, request, outcome) else { return };
        self.tell(book, instruction_id, Order::Answer { key, ask: Box::new(ask), answer }, None);
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

    /// No daemon was there for this long, so that nobody could answer: the open requests wait for as much longer.
    ///
    /// Meanwhile the machine's clock may have been set. A request that the last daemon left open was not late then, and
    /// since the newest entry it cannot have got more time than it had then. So no jump denies it at once or gives it
    /// more time than that.
    pub fn extend_deadlines(book: &mut Book<State>, now: Millis, away: Duration) {
        let newest = book.state().summary.active_at;
        let later = |deadline: Millis| {
            let later = Millis(deadline.0 + away.as_millis() as i64);
            let latest = Millis(now.0 + (deadline.0 - newest.0).max(0));
            if later <= now { latest } else { later.min(latest) }
        };
        let limited = book.state().requests.iter().filter_map(|open| Some((open.request, open.deadline?)));
        let moved: Vec<_> = limited
            .map(|(request, deadline)| (request, deadline, later(deadline)))
            .filter(|(_, deadline, later)| deadline != later)
            .collect();
        for (request, _, deadline) in moved {
            let (request, deadline) = (Some(request), Some(deadline));
            book.append(
                now,
                Some(Actor::Daemon),
                Event::DeadlineChanged { request, deadline, seconds: None },
            );
        }
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
            let message = match &ask {
                Ask::Permission { tool_name, .. } => format!("Approval timeout for tool {tool_name}"),
                _ => "nobody answered in time".into(),
            };
            let answer = Answer::deny(Some(message));
            self.settle_request(book, now, InstructionId(request.0), request, ask, answer, Actor::Deadline);
        }
    }

    pub(super) fn open_request(&mut self, book: &mut Book<State>, now: Millis, opened: Opened) {
        let Opened { key, ask, parent, tool, raw } = opened;
        if self.memory.keys.values().any(|open| *open == key) {
            return;
        }
        let seq = book.head().next();
        let request = RequestId(seq.0);
        let unattended = book.state().spec.unattended;
        let judgement = self.judge(book.state(), now, &ask);
        let judgement = if unattended { judgement.map(denied_without_a_person) } else { judgement };
        let decided =
            self.decided(book.state(), judgement.as_ref()).or_else(|| unattended.then(nobody_is_here));
        let deadline = self.deadline(book.state()).filter(|_| decided.is_none());
        let opened = Box::new(Request {
            request,
            generation: book.state().generation,
            digest: digest(&ask),
            ask: ask.clone(),
            parent,
            tool,
            opened_at: now,
            deadline: deadline.map(|wait| Millis(now.0 + wait.as_millis() as i64)),
            shortened: false,
            suggested_rule: decided.is_none().then(|| suggest::from_ask(&ask)).flatten(),
            policy: judgement.map(Box::new),
        });
        let Some((answer, by)) = decided else {
            self.memory.keys.insert(request, key);
            book.append_raw(now, None, Event::RequestOpened { request: opened }, raw);
            return;
        };
        if let (Answer::Allow { .. }, Some(tool), Some(policy)) = (&answer, &opened.tool, &opened.policy) {
            let by = if policy.rules.is_empty() { AllowedBy::Mode } else { AllowedBy::Rule };
            self.memory.allow(tool.clone(), by);
        }
        let outcome = Outcome::Answered { answer: answer.clone(), by };
        book.append_raw(now, None, Event::RequestDecided { request: opened, outcome }, raw);
        self.tell(book, InstructionId(request.0), Order::Answer { key, ask: Box::new(ask), answer }, None);
    }

    /// What the agent asks no person about. It becomes a request only if policy does not let it pass, so that the log does
    /// not grow with every file that is read.
    ///
    /// What waits for this is reported again to a new daemon, because [`Order::Checked`] is not recorded: the last
    /// daemon may have ended before it was sent. What became a request, or has an answer on its way, is known already.
    pub(super) fn check(&mut self, book: &mut Book<State>, now: Millis, doer: Doer, opened: Opened) {
        let is_open = self.memory.keys.values().any(|open| *open == opened.key);
        if is_open || self.answered_before.contains(&opened.key) {
            return;
        }
        let judgement = self.judge(book.state(), now, &opened.ask);
        let is_granted = doer == Doer::Portolan && self.is_in_further_folders(book.state(), &opened.ask);
        let by_rule = judgement.as_ref().is_some_and(|judgement| !judgement.rules.is_empty());
        let asks_for_the_place =
            judgement.as_ref().is_some_and(|judgement| judgement.mode.is_some() && !by_rule);
        let by_step = judgement.as_ref().is_some_and(|judgement| judgement.mode.is_none() && !by_rule);
        let decision = judgement.map_or(Decision::Allow, |judgement| judgement.decision);
        let allowed_by = opened.tool.as_ref().and_then(|tool| self.memory.allowed.get(tool)).copied();
        match (doer, decision) {
            (Doer::Approved(approval), Decision::Ask | Decision::Deny) => {
                let passes = match (allowed_by, approval) {
                    // The mode judged the call, which may not say all that is done now.
                    (Some(AllowedBy::Mode) | None, _) => false,
                    // This person was asked about the same thing.
                    (Some(AllowedBy::Person), Approval::Named) => !(by_rule && decision == Decision::Deny),
                    (Some(AllowedBy::Person | AllowedBy::Rule), _) => !by_rule,
                };
                if passes {
                    self.tell_checked(opened.key, Decision::Allow);
                } else {
                    self.open_request(book, now, opened);
                }
            }
            // The session was given these folders; only the mode, which knows one folder, would ask.
            (Doer::Portolan, Decision::Ask) if is_granted && asks_for_the_place => {
                self.tell_checked(opened.key, Decision::Allow);
            }
            (_, Decision::Allow) => self.tell_checked(opened.key, Decision::Allow),
            // The agent then sends a request.
            (Doer::Agent, Decision::Ask) if by_rule || by_step && self.touches_a_secret(&opened.ask) => {
                self.tell_checked(opened.key, Decision::Ask);
            }
            (Doer::Agent, Decision::Deny) if by_rule || self.asks_nobody(book.state()) => {
                self.open_request(book, now, opened);
            }
            (Doer::Agent, Decision::Ask | Decision::Deny) => self.tell_checked(opened.key, Decision::Allow),
            (Doer::Portolan, Decision::Ask | Decision::Deny) => self.open_request(book, now, opened),
        }
    }

    /// Does the session's mode deny what no rule allows, also where the agent would not ask?
    pub fn asks_nobody(&self, state: &State) -> bool {
        state.capabilities.meaning(state.summary.mode.as_deref()) == Mode::DontAsk
    }

    /// Does a call touch a place that no mode covers?
    fn touches_a_secret(&self, ask: &Ask) -> bool {
        Call::of(ask).is_some_and(|call| secret::touched(&Reading::of(call), &self.facts))
    }

    /// Are all files of a call really in the session's further folders?
    fn is_in_further_folders(&self, state: &State, ask: &Ask) -> bool {
        let Some(call) = Call::of(ask).filter(|call| call.kind() == Kind::Read) else { return false };
        let paths = Reading::of(call).paths();
        let is_in = |path: &PathBuf| state.spec.extra_dirs.iter().any(|folder| path.starts_with(folder));
        let lies_in = |path: &String| {
            self.facts
                .places
                .get(path)
                .is_some_and(|place| !place.lies.is_empty() && place.lies.iter().all(is_in))
        };
        !paths.is_empty() && paths.iter().all(lies_in)
    }

    /// How long a new request waits: as the session says, or else as the configuration does.
    fn deadline(&self, state: &State) -> Option<Duration> {
        let seconds = |seconds: u32| (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        state.spec.deadline_seconds.map_or(self.policy.request_deadline, seconds)
    }

    /// What policy says about a request; `None` if it says nothing about such requests.
    fn judge(&self, state: &State, now: Millis, ask: &Ask) -> Option<Judgement> {
        let reading = Reading::of(Call::of(ask)?);
        // A rule that an older Portolan made and this one cannot read decides nothing.
        let (own, _) = RuleSet::new(state.session_rules.iter().cloned().chain(allowed_tools(state)));
        let situation = Situation {
            session: Some(state.summary.session),
            mode: self.lent.mode(state.capabilities.meaning(state.summary.mode.as_deref())),
            rules: &[&self.rules, &self.lent.rules, &own],
            facts: &self.facts,
            now,
        };
        Some(decide(&reading, situation))
    }

    /// The answer that needs no person, and what gives it.
    fn decided(&self, state: &State, judgement: Option<&Judgement>) -> Option<(Answer, Actor)> {
        let by_policy = judgement.and_then(|judgement| {
            let answer = match judgement.decision {
                Decision::Allow => Answer::allow(),
                Decision::Deny => Answer::deny(Some(judgement.why.clone())),
                Decision::Ask => return None,
            };
            let rule = judgement.rules.iter().map(|rule| rule.line.as_str()).collect::<Vec<_>>().join(", ");
            let of_session = state.capabilities.meaning(state.summary.mode.as_deref());
            let mode = judgement.mode.map(|mode| self.lent.words(mode, of_session));
            let by = match mode {
                _ if !rule.is_empty() => Actor::policy(PolicySource::Rule, rule),
                Some(mode) if !mode.is_empty() => Actor::policy(PolicySource::Mode, mode),
                Some(_) | None => Actor::policy(PolicySource::Rule, UNATTENDED),
            };
            Some((answer, by))
        });
        by_policy.or_else(|| {
            let too_many = self.memory.keys.len() >= OPEN_REQUESTS;
            too_many.then(|| {
                let limit = format!("at most {OPEN_REQUESTS} open requests");
                let answer = Answer::deny(Some("too many requests are open".into()));
                (answer, Actor::policy(PolicySource::Limit, limit))
            })
        })
    }
}

/// The tools that the session was created with, as rules of the session: so that nothing is allowed past policy.
pub(crate) fn allowed_tools(state: &State) -> impl Iterator<Item = Rule> {
    let Summary { session, created_at, .. } = state.summary;
    let rule = move |(number, tool): (usize, &String)| {
        let rule = Rule::of_session(session, Seq::ZERO, created_at, None, Effect::Allow, tool);
        Rule { rule: RuleId(format!("allowed{number}")), ..rule }
    };
    state.spec.allowed_tools.iter().enumerate().map(rule)
}

/// In an unattended session, what would be asked is denied.
fn denied_without_a_person(judgement: Judgement) -> Judgement {
    if judgement.decision != Decision::Ask {
        return judgement;
    }
    let why = format!("{}; nobody is asked in an unattended session", judgement.why);
    Judgement { decision: Decision::Deny, why, ..judgement }
}

/// The answer to a request that no policy is about, in an unattended session.
fn nobody_is_here() -> (Answer, Actor) {
    let why = "nobody answers in an unattended session; go on without an answer".to_owned();
    (Answer::deny(Some(why)), Actor::policy(PolicySource::Rule, UNATTENDED))
}

/// The answer as the agent gets it: a denial always has words, and the agent gets the mode that it works in.
fn worded(book: &mut Book<State>, now: Millis, by: &Actor, ask: &Ask, answer: Answer) -> Answer {
    match (answer, ask) {
        (Answer::Deny { message: None, interrupt, option }, Ask::Permission { tool_name, .. }) => {
            let message = Some(format!("Tool \"{tool_name}\" was denied by the user."));
            Answer::Deny { message, interrupt, option }
        }
        (Answer::Allow { input, scope, mode: Some(mode), option }, _) => {
            let works_in = book.state().capabilities.working_mode(&mode);
            if works_in != mode {
                book.append(now, Some(by.clone()), Event::SettingChanged { setting: Setting::Mode { mode } });
            }
            Answer::Allow { input, scope, mode: Some(works_in), option }
        }
        (answer, _) => answer,
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
