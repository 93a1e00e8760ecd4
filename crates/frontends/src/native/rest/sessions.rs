//! Sessions: create, list, read, command, delete.

use axum::{
    extract::{Path, State},
    response::IntoResponse as _,
    routing::{delete, get, post},
};
use http::{HeaderMap, StatusCode};
use portolan_core::{Refusal, RefusalCode, Seq, SessionId};
use portolan_host::door::{Guest, JsonBody};
use portolan_protocol::{Call, CreateSession, ReplyBody, SendCommand};
use serde::{Deserialize, Deserializer};

use super::{
    Answered, ask, ask_once, created, flag, id_of, query_of,
    route::{FULL_ID, Gives, Method, Needs, ONCE, Parameter, Route, SESSION, STREAM, Shape, path, query},
    session_of,
};
use crate::native::{Native, sse};

const WHOLE_SESSION: Parameter = path("id", FULL_ID, "The full id of the session.");

/// The routes of sessions.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/sessions",
        summary: "Sessions, newest first.",
        needs: Needs::Viewer,
        parameters: &[
            query(
                "archived",
                Shape::Flag,
                "`true`: archived sessions; `false`: other sessions; default: both.",
            ),
            query("before", FULL_ID, "Only sessions older than this one, for the next page."),
            query("limit", Shape::Count(1), "The number of results; default: 100, at most 1,000."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("sessions"),
        serve: Some(|| get(list)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/sessions",
        summary: "Create a session.",
        needs: Needs::Operator,
        parameters: &[ONCE],
        takes: Some("CreateSession"),
        status: 201,
        gives: Gives::Reply("session"),
        serve: Some(|| post(create)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}",
        summary: "One session.",
        needs: Needs::Viewer,
        parameters: &[SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("session"),
        serve: Some(|| get(show)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/sessions/{id}",
        summary: "Delete a session for good; needs the full id of the session.",
        needs: Needs::Owner,
        parameters: &[WHOLE_SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("done"),
        serve: Some(|| delete(remove)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/state",
        summary: "The current state of a session.",
        needs: Needs::Viewer,
        parameters: &[SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("state"),
        serve: Some(|| get(state)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/entries",
        summary: "A page of a session's history, oldest first. An empty page is the end.",
        needs: Needs::Viewer,
        parameters: &[
            SESSION,
            query("after", Shape::Entry, "Entries after this number."),
            query("upto", Shape::Entry, "Up to this number; default: the newest."),
            query(
                "limit",
                Shape::Count(1),
                "The number of entries; default: 256, at most 1,000. A page also ends at 256 KiB.",
            ),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("history"),
        serve: Some(|| get(entries)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/entries/{seq}/raw",
        summary: "The agent's original message at an entry.",
        needs: Needs::Owner,
        parameters: &[SESSION, path("seq", Shape::Entry, "The entry's number.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("raw"),
        serve: Some(|| get(raw)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/environment",
        summary: "The environment variables of a session's agent.",
        needs: Needs::Owner,
        parameters: &[SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("environment"),
        serve: Some(|| get(environment)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/files",
        summary: "Files and folders below the session's folder, for completion in a prompt.",
        needs: Needs::Operator,
        parameters: &[
            SESSION,
            query("query", Shape::AtMost(256), "A part of the path; default: every path."),
            query("limit", Shape::Count(1), "The number of results; default: 20, at most 100."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("files"),
        serve: Some(|| get(files)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/events",
        summary: "A session's entries as they happen, by SSE.",
        needs: Needs::Viewer,
        parameters: &[
            SESSION,
            STREAM[0],
            STREAM[1],
            STREAM[2],
            query("items_only", Shape::Flag, "Only finished items, no deltas."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Text("text/event-stream"),
        serve: Some(|| get(sse::session)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/sessions/{id}/commands",
        summary: "Send a command to a session. 202: the command is in the log; its effects arrive as entries.",
        needs: Needs::Operator,
        parameters: &[SESSION, ONCE],
        takes: Some("SendCommand"),
        status: 202,
        gives: Gives::Reply("receipt"),
        serve: Some(|| post(command)),
    },
];

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    #[serde(default, deserialize_with = "some_flag")]
    archived: Option<bool>,
    before: Option<SessionId>,
    limit: Option<u32>,
}

/// [`flag`], for an optional switch.
fn some_flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    flag(from).map(Some)
}

async fn list(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let ListQuery { archived, before, limit } = query_of(&uri)?;
    ask(&native, &who, Call::List { archived, before, limit }).await
}

async fn create(
    State(native): State<Native>,
    Guest(who): Guest,
    headers: HeaderMap,
    JsonBody(CreateSession { id, spec }): JsonBody<CreateSession>,
) -> Answered {
    let id = id_of(id, &headers)?;
    ask_once(&native, &who, id, Call::Create { spec }).await.map(created)
}

async fn show(State(native): State<Native>, Guest(who): Guest, Path(session): Path<String>) -> Answered {
    let session = session_of(&native, &who, &session).await?;
    let snapshot = native.registry.snapshot(&who, session).await?;
    let body = ReplyBody::Session { session: snapshot.state.summary.clone() };
    native.metrics.answered(None);
    Ok(axum::Json(body).into_response())
}

async fn remove(State(native): State<Native>, Guest(who): Guest, Path(session): Path<String>) -> Answered {
    // Never by a part of the id: a deleted session is gone for good.
    let session = session.parse().map_err(|_| {
        Refusal::new(
            RefusalCode::Invalid,
            "to delete a session, give the full id of the session, not a part of the id",
        )
    })?;
    ask(&native, &who, Call::Delete { session }).await
}

async fn state(State(native): State<Native>, Guest(who): Guest, Path(session): Path<String>) -> Answered {
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::State { session }).await
}

#[derive(Deserialize)]
pub(crate) struct EntriesQuery {
    #[serde(default)]
    after: Seq,
    upto: Option<Seq>,
    limit: Option<u32>,
}

async fn entries(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
    uri: http::Uri,
) -> Answered {
    let EntriesQuery { after, upto, limit } = query_of(&uri)?;
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::History { session, after, upto, limit }).await
}

async fn raw(
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

async fn environment(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
) -> Answered {
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::Environment { session }).await
}

#[derive(Deserialize)]
struct FilesQuery {
    #[serde(default)]
    query: String,
    limit: Option<u32>,
}

async fn files(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(session): Path<String>,
    uri: http::Uri,
) -> Answered {
    let FilesQuery { query, limit } = query_of(&uri)?;
    let session = session_of(&native, &who, &session).await?;
    ask(&native, &who, Call::Files { session, query, limit }).await
}

async fn command(
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
