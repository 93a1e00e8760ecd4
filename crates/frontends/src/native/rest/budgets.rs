//! Budgets.

use axum::{
    extract::{Path, State},
    routing::{delete, get, post},
};
use portolan_core::policy::{BudgetDraft, BudgetId};
use portolan_host::door::{Guest, JsonBody};
use portolan_protocol::Call;

use super::{
    Answered, ask, named_session,
    route::{Gives, Method, Needs, Parameter, Route, Shape, path, query},
};
use crate::native::Native;

const BUDGET: Parameter = path(
    "id",
    Shape::Pattern("^[0-9A-Za-z:-]{1,64}$"),
    "The budget's id; `session:ID` for the budget of a session.",
);

/// The routes of budgets.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/budgets",
        summary: "The budgets for projects, agents and every session, or those that count one session.",
        needs: Needs::Viewer,
        parameters: &[query(
            "session",
            Shape::Pattern("^[0-9A-Fa-f-]{4,36}$"),
            "Only the budgets that count this session, with its own.",
        )],
        takes: None,
        status: 200,
        gives: Gives::Reply("budgets"),
        serve: Some(|| get(budgets)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/budgets",
        summary: "Set the limits of the budget with this scope and period; make the budget if there is none.",
        needs: Needs::Owner,
        parameters: &[],
        takes: Some("BudgetDraft"),
        status: 200,
        gives: Gives::Reply("budget"),
        serve: Some(|| post(set_budget)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/budgets/{id}/reset",
        summary: "Let a budget count from zero again.",
        needs: Needs::Owner,
        parameters: &[BUDGET],
        takes: None,
        status: 200,
        gives: Gives::Reply("budget"),
        serve: Some(|| post(reset_budget)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/budgets/{id}",
        summary: "Remove a budget.",
        needs: Needs::Owner,
        parameters: &[BUDGET],
        takes: None,
        status: 200,
        gives: Gives::Reply("budget"),
        serve: Some(|| delete(remove_budget)),
    },
];

async fn budgets(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let session = named_session(&native, &who, &uri).await?;
    ask(&native, &who, Call::BudgetList { session }).await
}

async fn set_budget(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(budget): JsonBody<BudgetDraft>,
) -> Answered {
    ask(&native, &who, Call::BudgetSet { budget: Box::new(budget) }).await
}

async fn reset_budget(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(budget): Path<String>,
) -> Answered {
    ask(&native, &who, Call::BudgetReset { budget: BudgetId(budget) }).await
}

async fn remove_budget(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(budget): Path<String>,
) -> Answered {
    ask(&native, &who, Call::BudgetRemove { budget: BudgetId(budget) }).await
}
