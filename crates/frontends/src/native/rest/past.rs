//! Past conversations that agents keep by themselves.

use std::path::PathBuf;

use axum::{
    extract::State,
    routing::{get, post},
};
use http::HeaderMap;
use portolan_host::door::{Guest, JsonBody};
use portolan_protocol::{ArchivePast, Call, TakeUpPast};
use serde::Deserialize;

use super::{
    Answered, ask, ask_once, flag, id_of, query_of,
    route::{Gives, Method, Needs, ONCE, Route, Shape, query},
};
use crate::native::Native;

/// A folder.
const FOLDER: Shape = Shape::Pattern("^/[^\\u0000]*$");

/// The routes of past conversations.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/past",
        summary: "Past conversations of agents, newest first.",
        needs: Needs::Operator,
        parameters: &[
            query("agent", Shape::Text, "Only conversations of this agent."),
            query("cwd", FOLDER, "Only conversations in this folder or below it."),
            query("archived", Shape::Flag, "Archived conversations instead of the others."),
            query("limit", Shape::Count(1), "The number of results; default: 100, at most 1,000."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("past"),
        serve: Some(|| get(past)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/past",
        summary: "Import a past conversation: creates a session with its history, or returns the session that has it already.",
        needs: Needs::Operator,
        parameters: &[ONCE],
        takes: Some("TakeUpPast"),
        status: 200,
        gives: Gives::Reply("taken_up"),
        serve: Some(|| post(take_up)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/past/archived",
        summary: "Make an agent archive a conversation in its own list, or take it out of the archive.",
        needs: Needs::Operator,
        parameters: &[],
        takes: Some("ArchivePast"),
        status: 200,
        gives: Gives::Reply("past"),
        serve: Some(|| post(archive_past)),
    },
];

#[derive(Deserialize)]
struct PastQuery {
    agent: Option<String>,
    cwd: Option<PathBuf>,
    #[serde(default, deserialize_with = "flag")]
    archived: bool,
    limit: Option<u32>,
}

async fn past(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let PastQuery { agent, cwd, archived, limit } = query_of(&uri)?;
    ask(&native, &who, Call::Past { agent, cwd, archived, limit }).await
}

async fn take_up(
    State(native): State<Native>,
    Guest(who): Guest,
    headers: HeaderMap,
    JsonBody(TakeUpPast { id, past, copy, spec }): JsonBody<TakeUpPast>,
) -> Answered {
    let id = id_of(id, &headers)?;
    ask_once(&native, &who, id, Call::TakeUp { past, copy, spec }).await
}

async fn archive_past(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(asked): JsonBody<ArchivePast>,
) -> Answered {
    ask(&native, &who, Call::ArchivePast(asked)).await
}
