//! Rules, and what they would decide.

use axum::{
    extract::{Path, State},
    routing::{delete, get, post},
};
use portolan_core::policy::{RuleDraft, RuleId};
use portolan_host::door::{Guest, JsonBody};
use portolan_protocol::{Call, SimulateRule, TestRule};

use super::{
    Answered, ask, created, named_session,
    route::{Gives, Method, Needs, Parameter, Route, Shape, path, query},
};
use crate::native::Native;

const RULE: Parameter = path("id", Shape::Pattern("^[0-9A-Za-z]{1,64}$"), "The rule's id.");

/// The routes of rules.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/rules",
        summary: "The rules for projects and for every session, and those of one session.",
        needs: Needs::Viewer,
        parameters: &[query(
            "session",
            Shape::Pattern("^[0-9A-Fa-f-]{4,36}$"),
            "Also the rules of this session.",
        )],
        takes: None,
        status: 200,
        gives: Gives::Reply("rules"),
        serve: Some(|| get(rules)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/rules",
        summary: "Add a rule. A rule for one session needs the role operator.",
        needs: Needs::Owner,
        parameters: &[],
        takes: Some("RuleDraft"),
        status: 201,
        gives: Gives::Reply("rule"),
        serve: Some(|| post(add_rule)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/rules/{id}",
        summary: "Replace a rule for a project or for every session.",
        needs: Needs::Owner,
        parameters: &[RULE],
        takes: Some("RuleDraft"),
        status: 200,
        gives: Gives::Reply("rule"),
        serve: Some(|| post(edit_rule)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/rules/{id}",
        summary: "Remove a rule for a project or for every session.",
        needs: Needs::Owner,
        parameters: &[RULE],
        takes: None,
        status: 200,
        gives: Gives::Reply("rule"),
        serve: Some(|| delete(remove_rule)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/policy/test",
        summary: "The decision about a call. Nothing runs.",
        needs: Needs::Viewer,
        parameters: &[],
        takes: Some("TestRule"),
        status: 200,
        gives: Gives::Reply("judgement"),
        serve: Some(|| post(test_rule)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/policy/simulate",
        summary: "The recorded requests that a rule would have decided. Nothing changes.",
        needs: Needs::Viewer,
        parameters: &[],
        takes: Some("SimulateRule"),
        status: 200,
        gives: Gives::Reply("simulation"),
        serve: Some(|| post(simulate_rule)),
    },
];

async fn rules(State(native): State<Native>, Guest(who): Guest, uri: http::Uri) -> Answered {
    let session = named_session(&native, &who, &uri).await?;
    ask(&native, &who, Call::RuleList { session }).await
}

async fn add_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(rule): JsonBody<RuleDraft>,
) -> Answered {
    ask(&native, &who, Call::RuleAdd { rule: Box::new(rule) }).await.map(created)
}

async fn edit_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    Path(rule): Path<String>,
    JsonBody(draft): JsonBody<RuleDraft>,
) -> Answered {
    ask(&native, &who, Call::RuleEdit { rule: RuleId(rule), draft: Box::new(draft) }).await
}

async fn remove_rule(State(native): State<Native>, Guest(who): Guest, Path(rule): Path<String>) -> Answered {
    ask(&native, &who, Call::RuleRemove { rule: RuleId(rule) }).await
}

async fn test_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(asked): JsonBody<TestRule>,
) -> Answered {
    ask(&native, &who, Call::RuleTest(asked)).await
}

async fn simulate_rule(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(asked): JsonBody<SimulateRule>,
) -> Answered {
    ask(&native, &who, Call::RuleSimulate(asked)).await
}
