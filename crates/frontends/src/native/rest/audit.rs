//! The audit: what people, rules and agents did.

use axum::{
    extract::{Path, State},
    routing::get,
};
use portolan_core::{Position, Refusal, RefusalCode};
use portolan_host::door::Guest;
use portolan_protocol::Call;

use super::{
    Answered, ask, query_of,
    route::{FULL_ID, Gives, Method, Needs, Route, Shape, path, query},
};
use crate::native::Native;

/// The routes of the audit.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/audit",
        summary: "What people, rules and agents did, from the logs.",
        needs: Needs::Owner,
        parameters: &[
            query("since", Shape::Entry, "Only records of this time or later, in milliseconds since 1970."),
            query(
                "who",
                Shape::Text,
                "Only records of this actor: a name, a token's id, a frontend, an address.",
            ),
            query("session", FULL_ID, "Only records about this session."),
            query("rule", Shape::Pattern("^[0-9A-Za-z]{1,64}$"), "Only records that name this rule."),
            query(
                "order",
                Shape::Pattern("^(newest|oldest)$"),
                "Which record comes first; default: the newest.",
            ),
            query("from", Shape::Entry, "The `next` of the page before."),
            query("limit", Shape::Count(1), "The largest number of records; default: 100, at most 500."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("audit"),
        serve: Some(|| get(audit)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/audit/{position}",
        summary: "One record of the audit with its entry and its seal.",
        needs: Needs::Owner,
        parameters: &[path("position", Shape::Entry, "The record's position.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("audit_record"),
        serve: Some(|| get(audit_record)),
    },
];

async fn audit(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    ask(&native, &who, Call::AuditList(query_of(&uri)?)).await
}

async fn audit_record(
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
