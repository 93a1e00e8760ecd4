//! REST: the same calls as by WebSocket, one request each. The body of an answer is the reply of docs/protocol.md
//! without `type` and `id`; a refusal is `{"error": {...}}` with the status of [`Denied`].
//!
//! Each file has the routes of one kind of thing, and what answers them. The router and the OpenAPI document are made
//! from these routes.

mod access;
pub(super) mod agents;
mod audit;
mod budgets;
pub(super) mod daemon;
mod past;
pub(super) mod route;
mod rules;
pub(super) mod sessions;

use axum::{
    extract::Query,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use portolan_core::{CommandId, Principal, Refusal, RefusalCode, SessionId};
use portolan_host::door::Denied;
use portolan_protocol::{Call, ClientFrame, NO_SUCH_PATH};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};

use self::route::Route;
use super::{
    Native,
    answer::{answer, reply_body},
};

/// The id of the command or session that a request makes, so that a repeated request runs only once.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The routes, in the order of the OpenAPI document.
const TABLE: [&[Route]; 8] = [
    daemon::ROUTES,
    access::ROUTES,
    sessions::ROUTES,
    past::ROUTES,
    agents::ROUTES,
    rules::ROUTES,
    budgets::ROUTES,
    audit::ROUTES,
];

/// Every route of the native protocol and of the door.
pub(super) fn table() -> impl Iterator<Item = &'static Route> {
    TABLE.into_iter().flatten()
}

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

/// The same response, for a thing that the request made.
fn created(mut response: Response) -> Response {
    *response.status_mut() = StatusCode::CREATED;
    response
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

#[derive(Deserialize)]
struct OfSession {
    session: Option<String>,
}

/// The session that a query names, if it names one.
async fn named_session(
    native: &Native,
    who: &Principal,
    uri: &http::Uri,
) -> Result<Option<SessionId>, Denied> {
    match query_of(uri)? {
        OfSession { session: Some(session) } => Ok(Some(session_of(native, who, &session).await?)),
        OfSession { session: None } => Ok(None),
    }
}

/// A switch in a query: `?archived` means `?archived=true`.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match &*String::deserialize(from)? {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        other => Err(D::Error::custom(format!("`{}` is neither `true` nor `false`", other.escape_debug()))),
    }
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
