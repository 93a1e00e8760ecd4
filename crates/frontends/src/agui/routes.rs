//! The routes for both transports: REST and the single endpoint, under every path that clients use.

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use bytes::Bytes;
use http::StatusCode;
use portolan_core::{Action, CommandId, Principal, Refusal, RefusalCode, Role, SessionId, WayOut};
use serde_json::{Value, json};

use super::{
    Agui, DEFAULT_AGENT, PATH, VIA,
    answers::{self, NoAnswer},
    parse::{self, Asked, Bad},
    runs::Found,
    stream::{self, Kind},
    threads::Wanted,
    wire::{RunInput, StopBody},
};
use crate::way_out;
use portolan_host::door::{Denied, Guest, Rules, Stay, collect};

/// The body of a refusal: `error` is the kind, `message` is what CopilotKit shows in its log.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    error: String,
    message: String,
}

impl Problem {
    fn no_agent(agent: &str) -> Self {
        let message = format!("there is no agent `{}`; `info` lists the agents", parse::shown(agent, 60));
        Self { status: StatusCode::NOT_FOUND, error: "Agent not found".into(), message }
    }
}

impl From<Bad> for Problem {
    fn from(bad: Bad) -> Self {
        let error = match bad {
            Bad::Body(_) => "Invalid request body",
            Bad::Method(_) => "invalid_request",
        };
        Self { status: StatusCode::BAD_REQUEST, error: error.into(), message: bad.to_string() }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = serde_json::to_value(refusal.code).ok();
        let error = code.and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default();
        let message = way_out::told(&refusal);
        Self { status: Denied::from(refusal).status, error, message }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let status = denied.status;
        Self { status, ..denied.refusal.into() }
    }
}

impl Problem {
    fn body(&self) -> Value {
        json!({"error": self.error, "message": self.message, "details": self.message})
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}

/// The rules for the door: which origins may connect, and the form of a refusal.
pub fn rules(origins: &[String]) -> Rules {
    Rules {
        origins: origins.to_vec(),
        setting: "agui.origins",
        refusal: |denied| Problem::from(denied.clone()).body(),
    }
}

type Answered = Result<Response, Problem>;

/// The routes on the main listener: all below [`PATH`].
pub fn routes(agui: Agui) -> Router {
    mount(Router::new(), PATH).with_state(agui)
}

/// The routes on its own listener: at the root, and also below [`PATH`].
pub fn own_routes(agui: Agui) -> Router {
    mount(mount(Router::new(), PATH), "").with_state(agui)
}

fn mount(mut router: Router<Agui>, base: &str) -> Router<Agui> {
    // CopilotKit uses REST if `info` answers, so each base has both transports.
    for base in [base.to_owned(), format!("{base}/api/copilotkit")] {
        if !base.is_empty() {
            router = router.route(&base, post(single));
        }
        router = router
            // The single endpoint also works with a slash at the end of its path.
            .route(&format!("{base}/"), post(single))
            .route(&format!("{base}/info"), get(info))
            .route(&format!("{base}/agent/{{agent}}/connect"), stream_of(Kind::Connect))
            .route(&format!("{base}/agent/{{agent}}/run"), stream_of(Kind::Run))
            .route(&format!("{base}/agent/{{agent}}/stop/{{thread}}"), post(stop));
    }
    router
        .route(&format!("{base}/api/sessions/{{session}}/tool-approval"), post(approve))
        .route(&format!("{base}/active"), get(active).put(choose))
        .route(&format!("{base}/{{*any}}"), post(single))
}

/// The identity of the client in the log.
fn visitor(Guest(mut who): Guest) -> Principal {
    VIA.clone_into(&mut who.via);
    who
}

async fn body_of(request: Request) -> Result<Bytes, Problem> {
    Ok(collect(request.into_body()).await?)
}

async fn info(State(agui): State<Agui>, guest: Guest) -> Answered {
    Ok(Json(agui.info(&visitor(guest)).await?).into_response())
}

/// A stream of this kind, on the agent in the path.
fn stream_of(kind: Kind) -> MethodRouter<Agui> {
    post(
        move |State(agui): State<Agui>,
              guest: Guest,
              stay: Stay,
              Path(agent): Path<String>,
              request: Request| async move {
            let input = parse::run_input(&body_of(request).await?)?;
            begin(agui, (visitor(guest), stay), kind, Some(agent), input)
        },
    )
}

async fn stop(
    State(agui): State<Agui>,
    guest: Guest,
    Path((agent, thread)): Path<(String, String)>,
    request: Request,
) -> Answered {
    let body = parse::stop_body(&body_of(request).await?)?;
    parse::fits("threadId", &thread)?;
    end(&agui, &visitor(guest), &agent, &thread, body).await
}

async fn single(State(agui): State<Agui>, guest: Guest, stay: Stay, request: Request) -> Answered {
    let who = visitor(guest);
    match parse::single(&body_of(request).await?)? {
        Asked::Info => Ok(Json(agui.info(&who).await?).into_response()),
        Asked::Connect(agent, input) => begin(agui, (who, stay), Kind::Connect, agent, *input),
        Asked::Run(agent, input) => begin(agui, (who, stay), Kind::Run, agent, *input),
        Asked::Stop(thread, body) => {
            end(&agui, &who, DEFAULT_AGENT, thread.as_deref().unwrap_or_default(), body).await
        }
    }
}

/// Begins a stream of events, after all checks that can refuse it.
fn begin(
    agui: Agui,
    (who, stay): (Principal, Stay),
    kind: Kind,
    agent: Option<String>,
    input: RunInput,
) -> Answered {
    let agent = agent.unwrap_or_else(|| DEFAULT_AGENT.into());
    if !agui.knows(&agent) {
        return Err(Problem::no_agent(&agent));
    }
    if kind == Kind::Run && who.role < Role::Operator {
        let message = format!("this needs the role operator; the token `{}` has {}", who.name, who.role);
        let way_out = WayOut::AskForRole { role: Role::Operator };
        return Err(Refusal::new(RefusalCode::Forbidden, message).with_way_out(way_out).into());
    }
    let seat = agui.runs.sit_down(&who.token)?;
    Ok(stream::open(agui, (who, stay), kind, agent, input, seat))
}

/// Stops a run on a thread: the named run, or any.
async fn end(agui: &Agui, who: &Principal, agent: &str, thread: &str, body: StopBody) -> Answered {
    if !agui.knows(agent) {
        return Err(Problem::no_agent(agent));
    }
    let nothing = |message: &str| Ok(Json(json!({"stopped": false, "message": message})).into_response());
    let wanted = Wanted { who, agent, thread };
    let Some(found) = agui.threads.find(&agui.registry, wanted).await? else {
        return nothing("there is no such thread");
    };
    let session = found.session;
    who.may(Role::Operator, session)?;
    let run = body.run_id.as_deref();
    let found = agui.runs.stop(session, run);
    let submit = |action| agui.registry.submit(who, session, CommandId::random(), action);
    match (run, found) {
        (Some(_), Found::Nothing) => return nothing("that run is not active"),
        // Its stream withdraws the prompt.
        (Some(_), Found::Waiting) => {}
        (Some(_), Found::Begun) => {
            submit(Action::Interrupt).await?;
        }
        (None, found) => {
            let state = agui.registry.snapshot(who, session).await?.state;
            if state.turn.is_some() || !state.requests.is_empty() {
                submit(Action::Interrupt).await?;
            } else {
                // The next prompt of this thread waits for an agent that is starting.
                let waits: Vec<_> = state.commands.iter().filter(|open| open.is_queued_prompt()).collect();
                if waits.is_empty() && found == Found::Nothing {
                    return nothing("nothing runs on this thread");
                }
                for open in waits {
                    if let Err(refusal) = submit(Action::Withdraw { prompt: open.seq }).await {
                        // Its own stream or the agent was faster.
                        tracing::debug!(%session, %refusal, "a prompt could not be taken back");
                    }
                }
            }
        }
    }
    let interrupt = json!({"type": "stop", "threadId": thread});
    Ok(Json(json!({"stopped": true, "interrupt": interrupt})).into_response())
}

/// Answers a request.
async fn approve(
    State(agui): State<Agui>,
    guest: Guest,
    Path(name): Path<String>,
    request: Request,
) -> Answered {
    let who = visitor(guest);
    let approval = parse::approval(&body_of(request).await?)?;
    let problem = |why: NoAnswer| match why {
        NoAnswer::Refused(refusal) => Problem::from(refusal),
        NoAnswer::Invalid(message) => Bad::Body(message).into(),
    };
    parse::fits("session", &name)?;
    let session = if let Ok(session) = name.parse::<SessionId>() {
        session
    } else {
        let wanted = Wanted { who: &who, agent: DEFAULT_AGENT, thread: &name };
        let found = agui.threads.find(&agui.registry, wanted).await?;
        let missing = || Refusal::new(RefusalCode::NotFound, "there is no such session or thread");
        found.ok_or_else(missing)?.session
    };
    who.may(Role::Operator, session)?;
    let request = answers::request_of(&approval).map_err(problem)?;
    let state = agui.registry.snapshot(&who, session).await?.state;
    let action = answers::action(&state, request, &approval).map_err(problem)?;
    agui.registry.submit(&who, session, CommandId::random(), action).await?;
    Ok(Json(json!({"ok": true, "requestId": request.to_string()})).into_response())
}

fn told(active: Option<&portolan_core::session::state::Summary>) -> Value {
    json!({
        "activeSessionId": active.map(|active| active.session),
        "agent": active.map(|active| active.agent.clone()),
    })
}

async fn active(State(agui): State<Agui>, guest: Guest) -> Answered {
    let active = agui.threads.active(&agui.registry, &visitor(guest)).await?;
    Ok(Json(told(active.as_ref())).into_response())
}

async fn choose(State(agui): State<Agui>, guest: Guest, request: Request<Body>) -> Answered {
    let who = visitor(guest);
    let body: Value = serde_json::from_slice(&body_of(request).await?)
        .map_err(|_| Bad::Body("the body must be {\"sessionId\": ID}".into()))?;
    let named = body.get("sessionId").and_then(Value::as_str).unwrap_or_default();
    let session = named.parse().map_err(|_| Bad::Body("`sessionId` must be the id of a session".into()))?;
    let chosen = agui.threads.choose(&agui.registry, &who, session).await?;
    Ok(Json(told(Some(&chosen))).into_response())
}
