//! Carries out messages. Core checks roles and modes; this code only maps failures to the errors of the protocol.

use std::sync::Arc;

use portolan_core::{
    Action, CommandId, Principal, Refusal, RefusalCode, Seq, SessionId, SessionSpec,
    command::{ActionName, Stage},
    event::Content,
    log::delivery::{Mode, Start},
    ports::SessionQuery,
    registry::SessionReader,
    request::{Answer, Ask, Request},
    session::state::{State, Status, Summary},
};
use serde_json::json;

use super::{
    Insights,
    parse::Parsed,
    project::{Detail, MAIN, Past, Sort, sort},
    questions::{Partial, Step},
    wire::{
        ClientMessage, ErrorCode, ErrorPayload, ListedSession, PermissionResponse, SessionCreate, UserInput,
    },
};
use crate::way_out;

/// How many sessions a list has.
const LISTED: u32 = 200;

/// The result of a message.
#[derive(Debug)]
pub(super) enum Done {
    /// The message was carried out; its effects arrive as entries.
    Taken,
    /// A new session was created.
    Created(SessionId, Box<SessionReader>, Detail),
    /// The client follows a session from now on.
    Attached(ListedSession, SessionId, Box<SessionReader>, Detail),
    /// The list of sessions.
    Listed(Vec<ListedSession>),
}

/// One message and everything needed to carry it out.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) insights: Insights,
    pub(super) who: Principal,
    pub(super) parsed: Parsed,
    /// The id under which the message runs at most once.
    pub(super) id: CommandId,
    /// Does the client already follow the session?
    pub(super) follows: Follows,
    pub(super) partial: Partial,
}

/// Whether this connection reads the session in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Yes,
    No,
}

/// The result of a task.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) result: Result<Done, ErrorPayload>,
    /// A session that the client now follows: a client that sends a command to a session also gets the result.
    pub(super) follow: Option<(SessionId, Box<SessionReader>)>,
    pub(super) partial: Partial,
    pub(super) id: CommandId,
    pub(super) code: ErrorCode,
}

/// The error code of a failed message.
pub(super) fn code_of(message: &ClientMessage) -> ErrorCode {
    match message {
        ClientMessage::SessionCreate(_) => ErrorCode::SessionCreateFailed,
        ClientMessage::UserInput(_) => ErrorCode::InputFailed,
        ClientMessage::SessionInterrupt(_) => ErrorCode::InterruptFailed,
        ClientMessage::PermissionModeChange(_) => ErrorCode::PermissionModeChangeFailed,
        ClientMessage::PermissionResponse(_) => ErrorCode::PermissionResponseFailed,
        ClientMessage::SessionKill(_)
        | ClientMessage::Auth(_)
        | ClientMessage::SessionList(_)
        | ClientMessage::SessionAttach(_) => ErrorCode::HandlerError,
    }
}

/// A failure, before it becomes an error message.
struct Why {
    code: ErrorCode,
    message: String,
}

type Doing<T> = Result<T, Why>;

impl Task {
    /// Carries the message out.
    pub(super) async fn run(mut self) -> Outcome {
        let code = code_of(&self.parsed.message);
        let mut follow = None;
        let result = self.act(code, &mut follow).await.map_err(|why| ErrorPayload {
            session_id: self.parsed.message.session_id().map(str::to_owned),
            agent_id: self.parsed.message.agent_id().map(str::to_owned),
            message: why.message,
            code: why.code,
        });
        Outcome { result, follow, partial: self.partial, id: self.id, code }
    }

    async fn act(
        &mut self,
        code: ErrorCode,
        follow: &mut Option<(SessionId, Box<SessionReader>)>,
    ) -> Doing<Done> {
        let Some(named) = self.parsed.message.session_id() else { return self.act_on_all(code).await };
        let message = self.parsed.message.clone();
        let (session, state) = self.find(named, &message).await?;
        let state = &*state;
        if let ClientMessage::SessionAttach(attach) = &message {
            let detail = detail(attach.stream);
            let reader = self.attach(session, detail).await.map_err(|refusal| why(code, &refusal))?;
            return Ok(Done::Attached(listed(&state.summary), session, reader, detail));
        }
        // Follow the session first, so that no output is missed.
        if self.follows == Follows::No {
            match self.attach(session, Detail::Blocks).await {
                Ok(reader) => *follow = Some((session, reader)),
                Err(_) if is_urgent(&message) => {}
                Err(refusal) => return Err(why(code, &refusal)),
            }
        }
        let action = match &message {
            ClientMessage::UserInput(input) => match self.input(session, state, input)? {
                Some(action) => action,
                None => return Ok(Done::Taken),
            },
            // The session ends with all its processes; its log stays in the archive.
            ClientMessage::SessionKill(_) => Action::Archive { archived: true },
            ClientMessage::SessionInterrupt(_) => {
                if !is_busy(state) {
                    return Err(Why { code, message: "no turn is running".into() });
                }
                Action::Interrupt
            }
            ClientMessage::PermissionModeChange(change) => {
                Action::SetMode { mode: change.permission_mode.clone() }
            }
            ClientMessage::PermissionResponse(response) => permission(state, response)?,
            ClientMessage::SessionCreate(_)
            | ClientMessage::Auth(_)
            | ClientMessage::SessionList(_)
            | ClientMessage::SessionAttach(_) => return Ok(Done::Taken),
        };
        let submitted = self.insights.registry.submit(&self.who, session, self.id.clone(), action).await;
        match submitted {
            Ok(_) => Ok(Done::Taken),
            // The session was deleted meanwhile.
            Err(refusal) if refusal == Refusal::no_session(session) => {
                Err(why(ErrorCode::SessionNotFound, &refusal))
            }
            Err(refusal) => Err(why(code, &refusal)),
        }
    }

    async fn act_on_all(&self, code: ErrorCode) -> Doing<Done> {
        let registry = &self.insights.registry;
        match &self.parsed.message {
            ClientMessage::SessionCreate(create) => {
                let spec = self.spec(create);
                let made = registry.create(&self.who, self.id.clone(), spec).await;
                let session = made.map_err(|refusal| why(code, &refusal))?.session;
                let detail = detail(create.stream);
                let reader = self.attach(session, detail).await.map_err(|refusal| why(code, &refusal))?;
                Ok(Done::Created(session, reader, detail))
            }
            ClientMessage::SessionList(_) => {
                let query = SessionQuery { archived: Some(false), live: false, before: None, limit: LISTED };
                let sessions = registry.list(&self.who, query).await;
                let sessions = sessions.map_err(|refusal| why(code, &refusal))?;
                Ok(Done::Listed(sessions.iter().map(listed).collect()))
            }
            _ => Ok(Done::Taken),
        }
    }

    async fn attach(&self, session: SessionId, detail: Detail) -> Result<Box<SessionReader>, Refusal> {
        let mode = match detail {
            Detail::Blocks => Mode::Items,
            Detail::Deltas => Mode::Every,
        };
        // From the first entry, because the tree of agents and the usage are folded from all entries.
        let reader = self.insights.registry.attach(&self.who, session, Start::After(Seq::ZERO), mode).await?;
        Ok(Box::new(reader))
    }

    /// The session with that id, if this client may see it, and its state.
    async fn find(&self, named: &str, message: &ClientMessage) -> Doing<(SessionId, Arc<State>)> {
        let not_found = |message: String| Why { code: ErrorCode::SessionNotFound, message };
        let short: String = named.chars().filter(|c| !c.is_control()).take(64).collect();
        let session: SessionId = named.parse().map_err(|_| not_found(format!("no session `{short}`")))?;
        let registry = &self.insights.registry;
        let state = if is_urgent(message) {
            registry.newest_state(&self.who, session).await
        } else {
            registry.snapshot(&self.who, session).await.map(|snapshot| snapshot.state)
        };
        let state = state.map_err(|refusal| {
            let is_gone = matches!(refusal.code, RefusalCode::NotFound | RefusalCode::Ended);
            let code = if is_gone { ErrorCode::SessionNotFound } else { ErrorCode::HandlerError };
            why(code, &refusal)
        })?;
        if state.summary.archived {
            return Err(not_found(format!("session `{session}` was killed")));
        }
        Ok((session, state))
    }

    fn spec(&self, create: &SessionCreate) -> SessionSpec {
        let agent = create.agent.clone().unwrap_or_else(|| self.insights.settings.agent.clone());
        let prompt = Some(&create.prompt).filter(|prompt| !prompt.is_empty());
        SessionSpec {
            agent,
            cwd: create.cwd.clone().into(),
            prompt: prompt.map(Content::text).into_iter().collect(),
            allowed_tools: create.allowed_tools.clone().unwrap_or_default(),
            mode: create.permission_mode.clone(),
            model: create.model.clone().filter(|model| !model.is_empty()),
            ..SessionSpec::default()
        }
    }

    /// The meaning of an input: the answer to a question, the next prompt, or nothing yet.
    fn input(&mut self, session: SessionId, state: &State, input: &UserInput) -> Doing<Option<Action>> {
        let failed = |message: String| Why { code: ErrorCode::InputFailed, message };
        self.partial.retain_open(session, &state.requests);
        if let Some(request) = question_for(state, input) {
            let (question, sent) = (input.question_id.as_deref(), self.parsed.id.as_ref());
            let step = self.partial.take(session, request, question, sent, &input.text).map_err(failed)?;
            return Ok(match step {
                Step::More => None,
                Step::Complete(answer) => Some(answer_to(request, answer)),
            });
        }
        if let Some(question) = &input.question_id {
            let short: String = question.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(failed(format!("no question `{short}` waits")));
        }
        match input.agent_id.as_deref() {
            None | Some(MAIN) => Ok(Some(Action::Prompt { content: vec![Content::text(&input.text)] })),
            Some(_) => Err(failed(
                "a subagent takes no prompts, only answers to the questions that the subagent asks".into(),
            )),
        }
    }
}

/// A kill runs even if nothing can be recorded.
fn is_urgent(message: &ClientMessage) -> bool {
    matches!(message, ClientMessage::SessionKill(_) | ClientMessage::SessionInterrupt(_))
}

/// The open question that an input answers.
fn question_for<'s>(state: &'s State, input: &UserInput) -> Option<&'s Request> {
    let mut questions =
        state.requests.iter().filter(|request| matches!(sort(&request.ask), Sort::Questions(1..)));
    if let Some(named) = &input.question_id {
        let (request, _) = named.split_once('.')?;
        return questions.find(|open| open.request.to_string() == request);
    }
    match input.agent_id.as_deref() {
        None => questions.next(),
        Some(MAIN) => questions.find(|open| open.parent.is_none()),
        Some(agent) => questions.find(|open| open.parent.as_deref() == Some(agent)),
    }
}

fn answer_to(request: &Request, answer: Answer) -> Action {
    Action::Answer { request: request.request, digest: Some(request.digest.clone()), answer, persist: None }
}

fn permission(state: &State, response: &PermissionResponse) -> Doing<Action> {
    let failed = |message: &str| Why { code: ErrorCode::PermissionResponseFailed, message: message.into() };
    let plain = if response.approved { Answer::allow() } else { Answer::deny(None) };
    let Some(open) = state.requests.iter().find(|open| open.request.to_string() == response.permission_id)
    else {
        let Ok(number) = response.permission_id.parse() else {
            return Err(failed("no permission with that id is open"));
        };
        // Core knows who answered first.
        let request = portolan_core::RequestId(number);
        return Ok(Action::Answer { request, digest: None, answer: plain, persist: None });
    };
    let answer = match (&open.ask, response.approved) {
        (Ask::Question { .. } | Ask::Elicitation { .. }, _) => {
            return Err(failed("this is a question; `user.input` answers it"));
        }
        (Ask::Hook { .. }, true) => Answer::Output { output: json!({}) },
        (Ask::Other { .. }, true) => {
            return Err(failed("this request needs more than a yes; answer the request in another client"));
        }
        (Ask::Permission { .. } | Ask::Plan { .. }, true) | (_, false) => plain,
    };
    Ok(answer_to(open, answer))
}

/// A turn runs or is about to start.
fn is_busy(state: &State) -> bool {
    let underway = |stage: &Stage| matches!(stage, Stage::Accepted | Stage::Sending | Stage::Delivered);
    state.turn.is_some()
        || !state.requests.is_empty()
        || state.commands.iter().any(|open| open.name == ActionName::Prompt && underway(&open.stage))
}

fn detail(stream: Option<bool>) -> Detail {
    if stream == Some(true) { Detail::Deltas } else { Detail::Blocks }
}

fn why(code: ErrorCode, refusal: &Refusal) -> Why {
    Why { code, message: way_out::told(refusal) }
}

fn listed(summary: &Summary) -> ListedSession {
    ListedSession {
        session_id: summary.session.to_string(),
        name: summary.name.clone(),
        agent: summary.agent.clone(),
        cwd: summary.cwd.display().to_string(),
        is_running: summary.status == Status::Active || summary.queued > 0,
        waiting: summary.waiting,
        permission_mode: summary.mode.clone(),
        model: summary.model.clone(),
    }
}

/// How a client that attaches gets the past of a session.
pub(super) fn past(done: &Done) -> Past {
    match done {
        Done::Created(..) => Past::Everything,
        Done::Attached(..) => Past::WhatLasts,
        Done::Taken | Done::Listed(_) => Past::Nothing,
    }
}
