//! REST: the same calls as by WebSocket, one request each. The body of an answer is the reply of docs/protocol.md
//! without `type` and `id`; a refusal is `{"error": {...}}` with the status of [`Denied`].

use std::path::PathBuf;

use axum::{
    extract::{Path, Query, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use portolan_core::{
    CommandId, Position, Principal, Refusal, RefusalCode, Role, Seq, SessionId, TokenId,
    policy::{BudgetDraft, BudgetId, RuleDraft, RuleId},
    ports::{LogIn, SessionQuery, StoreHealth},
};
use portolan_protocol::{
    ArchivePast, Call, ClientFrame, CreateSession, CreateToken, NO_SUCH_PATH, ReplyBody, SendCommand,
    SimulateRule, TakeUpPast, TestRule,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use tracing::Instrument as _;

use super::{
    Native,
    answer::{answer, reply_body},
    connection,
};
use portolan_host::door::Upgrade;
use portolan_host::door::{Denied, Farewell, Guest, JsonBody, Leaving, Visitor};

/// The id of the command or session that a request makes, so that a repeated request runs only once.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

type Answered = Result<Response, Denied>;

/// Answers a call with a response.
async fn ask(native: &Native, who: &Principal, call: Call) -> Answered {
    ask_once(native, who, CommandId::random(), call).await
}

/// Answers a call with a response. The call runs at most once under this id.
async fn ask_once(native: &Native, who: &Principal, id: CommandId, call: Call) -> Answered {
    let result = answer(native, who, ClientFrame { id, call }).await;
    native.metrics.answered(result.as_ref().err().map(|refusal| refusal.code));
    let body = reply_body(&result?);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The session in a path, by its id or by the beginning or end of the id.
pub(super) async fn session_of(native: &Native, who: &Principal, text: &str) -> Result<SessionId, Denied> {
    if let Ok(session) = text.parse() {
        return Ok(session);
    }
    Ok(native.registry.resolve(who, text).await?)
}

/// The id under which a request runs once: from its body, otherwise from its header, otherwise a new id.
fn id_of(body: Option<CommandId>, headers: &HeaderMap) -> Result<CommandId, Denied> {
    if let Some(id) = body {
        return Ok(id);
    }
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(CommandId::random()) };
    let key = key.to_str().ok().and_then(|key| key.parse().ok());
    key.ok_or_else(|| {
        let message = "an Idempotency-Key has 1 to 64 characters from A-Z a-z 0-9 . _ : -";
        Refusal::new(RefusalCode::Invalid, message).into()
    })
}

/// The refusal of an invalid query, in the same form as every refusal.
pub(super) fn query_of<T: DeserializeOwned>(uri: &http::Uri) -> Result<T, Denied> {
    Query::try_from_uri(uri).map(|Query(query)| query).map_err(|error| {
        Refusal::new(RefusalCode::Invalid, format!("the query cannot be read: {}", error.body_text())).into()
    })
}

/// A switch in a query: `?archived` means `?archived=true`.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match &*String::deserialize(from)? {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        other => Err(D::Error::custom(format!("`{}` is neither `true` nor `false`", other.escape_debug()))),
    }
}

/// The same, for an optional switch.
fn some_flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    flag(from).map(Some)
}

#[derive(Deserialize)]
pub(super) struct ListQuery {
    #[serde(default, deserialize_with = "some_flag")]
    archived: Option<bool>,
    before: Option<SessionId>,
    limit: Option<u32>,
}

pub(super) async fn list(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let ListQuery { archived, before, limit } = query_of(&uri)?;
    ask(&native, &who, Call::List { archived, before, limit }).await
}

pub(super) async fn create(
    State(native): State<Native>,
    Guest(who): Guest,
    headers: HeaderMap,
    JsonBody(CreateSession { id, spec }): JsonBody<CreateSession>,
) -> Answered {
    let id = id_of(id, &headers)?;
    let mut response = ask_once(&native, &who, id, Call::Create { spec }).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

#[derive(Deserialize)]
struct PastQuery {
    agent: Option<String>,
    cwd: Option<PathBuf>,
    #[serde(default, deserialize_with = "flag")]
    archived: bool,
    limit: Option<u32>,
}

pub(super) async fn past(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let PastQuery { agent, cwd, archived, limit } = query_of(&uri)?;
    ask(&native, &who, Call::Past { agent, cwd, archived, limit }).await
}

pub(super) async fn archive_past(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(asked): JsonBody<ArchivePast>,
) -> Answered {
    ask(&native, &who, Call::ArchivePast(asked)).await
}

pub(super) async fn take_up(
    State(native): State<Native>,
    Guest(who): Guest,
    headers: HeaderMap,
    JsonBody(TakeUpPast { id, past, copy, spec }): JsonBody<TakeUpPast>,
) -> Answered {
    let id = id_of(id, &headers)?;
    ask_once(&native, &who, id, Call::TakeUp { past, copy, spec }).await
}

pub(super) async fn show(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
) -> Answered {
    let session = session_of(&native, &who, &session).await?;
    let snapshot = native.registry.snapshot(&who, session).await?;
    let body = ReplyBody::Session { session: snapshot.state.summary.clone() };
    native.metrics.answered(None);
    Ok(axum::Json(body).into_response())
}

pub(super) async fn delete(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
) -> Answered {
    // Never by a part of the id: a deleted session is gone for good.
    let session = session.parse().map_err(|_| {
        Refusal::new(
            RefusalCode::Invalid,
            "to delete a session, give the full id of the session, not a part of the id",
        )
    })?;
    ask(&native, &who, Call::Delete { session }).await
}

pub(super) async fn state(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
) -> Answered {
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::State { session }).await
}

#[derive(Deserialize)]
pub(super) struct EntriesQuery {
    #[serde(default)]
    after: Seq,
    upto: Option<Seq>,
    limit: Option<u32>,
}

pub(super) async fn entries(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
    uri: http::Uri,
) -> Answered {
    let EntriesQuery { after, upto, limit } = query_of(&uri)?;
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::History { session, after, upto, limit }).await
}

#[derive(Deserialize)]
struct FilesQuery {
    #[serde(default)]
    query: String,
    limit: Option<u32>,
}

pub(super) async fn files(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
    uri: http::Uri,
) -> Answered {
    let FilesQuery { query, limit } = query_of(&uri)?;
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::Files { session, query, limit }).await
}

pub(super) async fn raw(
    State(native): State<Native>,
    Guest(who): Guest,
    Path((session, seq)): Path<(String, String)>,
) -> Answered {
    let seq = seq
        .parse()
        .map(Seq)
        .map_err(|_| Refusal::new(RefusalCode::Invalid, "the entry in the path must be a number"))?;
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::Raw { session, seq }).await
}

pub(super) async fn environment(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
) -> Answered {
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::Environment { session }).await
}

pub(super) async fn command(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
    headers: HeaderMap,
    JsonBody(SendCommand { id, command }): JsonBody<SendCommand>,
) -> Answered {
    let id = id_of(id, &headers)?;
    let session = session_of(&native, &who, &session).await?;
    let mut response = ask_once(&native, &who, id, Call::Command { session, command }).await?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

#[derive(Deserialize)]
pub(super) struct AgentsQuery {
    #[serde(default, deserialize_with = "flag")]
    probe: bool,
}

pub(super) async fn agents(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let AgentsQuery { probe } = query_of(&uri)?;
    ask(&native, &who, Call::Agents { probe }).await
}

pub(super) async fn account(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(agent): Path<String>,
) -> Answered {
    ask(&native, &who, Call::Account { agent }).await
}

pub(super) async fn log_in(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(agent): Path<String>,
    JsonBody(with): JsonBody<LogIn>,
) -> Answered {
    ask(&native, &who, Call::LogIn { agent, with }).await
}

pub(super) async fn log_out(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(agent): Path<String>,
) -> Answered {
    ask(&native, &who, Call::LogOut { agent }).await
}

#[derive(Deserialize)]
struct OfSession {
    session: Option<String>,
}

pub(super) async fn rules(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let OfSession { session } = query_of(&uri)?;
    let session = match session {
        Some(session) => Some(session_of(&native, &who, &session).await?),
        None => None,
    };
    ask(&native, &who, Call::RuleList { session }).await
}

pub(super) async fn add_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(rule): JsonBody<RuleDraft>,
) -> Answered {
    let mut response = ask(&native, &who, Call::RuleAdd { rule: Box::new(rule) }).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

pub(super) async fn edit_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(rule): Path<String>,
    JsonBody(draft): JsonBody<RuleDraft>,
) -> Answered {
    ask(&native, &who, Call::RuleEdit { rule: RuleId(rule), draft: Box::new(draft) }).await
}

pub(super) async fn remove_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(rule): Path<String>,
) -> Answered {
    ask(&native, &who, Call::RuleRemove { rule: RuleId(rule) }).await
}

pub(super) async fn test_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(asked): JsonBody<TestRule>,
) -> Answered {
    ask(&native, &who, Call::RuleTest(asked)).await
}

pub(super) async fn simulate_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(asked): JsonBody<SimulateRule>,
) -> Answered {
    ask(&native, &who, Call::RuleSimulate(asked)).await
}

pub(super) async fn audit(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    ask(&native, &who, Call::AuditList(query_of(&uri)?)).await
}

pub(super) async fn audit_record(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(position): Path<String>,
) -> Answered {
    let position = position
        .parse()
        .map(Position)
        .map_err(|_| Refusal::new(RefusalCode::Invalid, "the position in the path must be a number"))?;
    ask(&native, &who, Call::AuditShow { position }).await
}

pub(super) async fn budgets(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let OfSession { session } = query_of(&uri)?;
    let session = match session {
        Some(session) => Some(session_of(&native, &who, &session).await?),
        None => None,
    };
    ask(&native, &who, Call::BudgetList { session }).await
}

pub(super) async fn set_budget(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(budget): JsonBody<BudgetDraft>,
) -> Answered {
    ask(&native, &who, Call::BudgetSet { budget: Box::new(budget) }).await
}

pub(super) async fn reset_budget(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(budget): Path<String>,
) -> Answered {
    ask(&native, &who, Call::BudgetReset { budget: BudgetId(budget) }).await
}

pub(super) async fn remove_budget(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(budget): Path<String>,
) -> Answered {
    ask(&native, &who, Call::BudgetRemove { budget: BudgetId(budget) }).await
}

pub(super) async fn tokens(State(native): State<Native>, Guest(who): Guest) -> Answered {
    ask(&native, &who, Call::TokenList).await
}

pub(super) async fn create_token(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(wanted): JsonBody<CreateToken>,
) -> Answered {
    let mut response = ask(&native, &who, Call::TokenCreate(wanted)).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

pub(super) async fn revoke_token(
    State(native): State<Native>,
    Guest(who): Guest,
    leaving: Leaving,
    Path(token): Path<String>,
) -> Answered {
    // The request may revoke its own token.
    leaving.let_finish();
    let token: TokenId = token.parse().map_err(|_| Refusal::new(RefusalCode::NotFound, "no such token"))?;
    ask(&native, &who, Call::TokenRevoke { token }).await
}

pub(super) async fn create_ticket(State(native): State<Native>, Guest(who): Guest) -> Answered {
    let mut response = ask(&native, &who, Call::TicketCreate).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

pub(super) async fn pair(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(wanted): JsonBody<CreateToken>,
) -> Answered {
    let mut response = ask(&native, &who, Call::Pair(wanted)).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

pub(super) async fn browsers(State(native): State<Native>, Guest(who): Guest) -> Answered {
    ask(&native, &who, Call::BrowserList).await
}

pub(super) async fn log_browser_out(
    State(native): State<Native>,
    Guest(who): Guest,
    leaving: Leaving,
    Path(browser): Path<String>,
) -> Answered {
    // The request may log out its own browser.
    leaving.let_finish();
    ask(&native, &who, Call::BrowserLogOut { browser }).await
}

/// Nothing is at this path.
pub(super) async fn nowhere() -> Denied {
    Refusal::new(RefusalCode::NotFound, NO_SUCH_PATH).into()
}

/// The path exists, but not with this method.
pub(super) async fn wrong_method() -> Denied {
    let message = "this path does not accept this method; docs/protocol.md and `/openapi.json` list the methods of each path";
    Denied::new(StatusCode::METHOD_NOT_ALLOWED, RefusalCode::Invalid, message)
}

/// Only says that the daemon runs, because anyone may ask.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

pub(super) async fn openapi(Guest(_): Guest) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::routes::OPENAPI).into_response()
}

pub(super) async fn metrics(State(native): State<Native>, Guest(who): Guest) -> Answered {
    who.may_daemon(Role::Viewer)?;
    let live = SessionQuery { archived: None, live: true, before: None, limit: 1000 };
    let sessions = native.registry.list(&who, live).await?.len();
    let healthy = *native.registry.store().health().borrow() == StoreHealth::Good;
    let text = native.metrics.text(sessions, healthy);
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
        .into_response())
}

/// The WebSocket: checks and answers the request, then serves the connection on its own task.
pub(super) async fn websocket(State(native): State<Native>, visitor: Visitor, request: Request) -> Answered {
    let (mut parts, _) = request.into_parts();
    let upgrade = Upgrade::of(&mut parts)
        .map_err(|(status, message)| Denied::new(status, RefusalCode::Invalid, message))?;
    let (mut response, upgraded) = upgrade.accept();
    response.extensions_mut().insert(Farewell);
    let span = tracing::debug_span!("native connection");
    let tracker = native.connections.clone();
    let serve = async move {
        if let Some(io) = upgraded.await {
            connection::serve(native, visitor, io).await;
        }
    };
    tracker.spawn(serve.instrument(span));
    Ok(response)
}
