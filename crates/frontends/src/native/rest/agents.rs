//! Agents, and the accounts that they are logged in with.

use axum::{
    extract::{Path, State},
    routing::{delete, get, post},
};
use portolan_core::ports::LogIn;
use portolan_host::door::{Guest, JsonBody};
use portolan_protocol::Call;
use serde::Deserialize;

use super::{
    Answered, ask, flag, query_of,
    route::{Gives, Method, Needs, Parameter, Route, Shape, path, query},
};
use crate::native::Native;

const AGENT: Parameter = path("kind", Shape::Text, "The agent, such as `codex`.");

/// The routes of agents.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/agents",
        summary: "The agents.",
        needs: Needs::Viewer,
        parameters: &[query("probe", Shape::Flag, "Check each agent again; needs the role operator.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("agents"),
        serve: Some(|| get(agents)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/agents/{kind}/account",
        summary: "The account of an agent.",
        needs: Needs::Operator,
        parameters: &[AGENT],
        takes: None,
        status: 200,
        gives: Gives::Reply("account"),
        serve: Some(|| get(account)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/agents/{kind}/account",
        summary: "Log an agent in. If a person must continue in a browser, `under_way` names the page.",
        needs: Needs::Owner,
        parameters: &[AGENT],
        takes: Some("LogIn"),
        status: 200,
        gives: Gives::Reply("account"),
        serve: Some(|| post(log_in)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/agents/{kind}/account",
        summary: "Log an agent out.",
        needs: Needs::Owner,
        parameters: &[AGENT],
        takes: None,
        status: 200,
        gives: Gives::Reply("account"),
        serve: Some(|| delete(log_out)),
    },
];

#[derive(Deserialize)]
pub(crate) struct AgentsQuery {
    #[serde(default, deserialize_with = "flag")]
    probe: bool,
}

async fn agents(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let AgentsQuery { probe } = query_of(&uri)?;
    ask(&native, &who, Call::Agents { probe }).await
}

async fn account(State(native): State<Native>, Guest(who): Guest, Path(agent): Path<String>) -> Answered {
    ask(&native, &who, Call::Account { agent }).await
}

async fn log_in(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(agent): Path<String>,
    JsonBody(with): JsonBody<LogIn>,
) -> Answered {
    ask(&native, &who, Call::LogIn { agent, with }).await
}

async fn log_out(State(native): State<Native>, Guest(who): Guest, Path(agent): Path<String>) -> Answered {
    ask(&native, &who, Call::LogOut { agent }).await
}
