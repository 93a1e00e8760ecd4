//! Who may come in: tokens, tickets and browsers.

use axum::{
    extract::{Path, State},
    routing::{delete, get, post},
};
use portolan_core::{Refusal, RefusalCode, TokenId};
use portolan_host::door::{Guest, JsonBody, LOGIN_PATH, LOGOUT_PATH, Leaving};
use portolan_protocol::{Call, CreateToken};

use super::{
    Answered, ask, created,
    route::{Gives, Method, Needs, Route, Shape, path},
};
use crate::native::Native;

/// The routes of tokens, tickets and browsers. The door serves the logins of browsers.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Post,
        path: LOGIN_PATH,
        summary: "Log a browser in: exchange a ticket for a cookie and a key.",
        needs: Needs::Nobody,
        parameters: &[],
        takes: Some("BrowserLogin"),
        status: 200,
        gives: Gives::Key,
        serve: None,
    },
    Route {
        method: Method::Post,
        path: LOGOUT_PATH,
        summary: "Ends a browser's login.",
        needs: Needs::Viewer,
        parameters: &[],
        takes: None,
        status: 204,
        gives: Gives::Nothing,
        serve: None,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/tokens",
        summary: "The tokens.",
        needs: Needs::Owner,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Reply("tokens"),
        serve: Some(|| get(tokens)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tokens",
        summary: "Create a token. Its secret is never shown again.",
        needs: Needs::Owner,
        parameters: &[],
        takes: Some("CreateToken"),
        status: 201,
        gives: Gives::Reply("token"),
        serve: Some(|| post(create_token)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/tokens/{id}",
        summary: "Revoke a token. Its connections are closed.",
        needs: Needs::Owner,
        parameters: &[path("id", Shape::Text, "The token's public name.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("done"),
        serve: Some(|| delete(revoke_token)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tickets",
        summary: "A one-time ticket with which a browser logs in as you.",
        needs: Needs::Viewer,
        parameters: &[],
        takes: None,
        status: 201,
        gives: Gives::Reply("ticket"),
        serve: Some(|| post(create_ticket)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/pairings",
        summary: "A one-time ticket for another device, which gets its own token when it logs in.",
        needs: Needs::Owner,
        parameters: &[],
        takes: Some("CreateToken"),
        status: 201,
        gives: Gives::Reply("ticket"),
        serve: Some(|| post(pair)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/browsers",
        summary: "The browsers that are logged in.",
        needs: Needs::Owner,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Reply("browsers"),
        serve: Some(|| get(browsers)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/browsers/{id}",
        summary: "Log a browser out. Its connections are closed.",
        needs: Needs::Owner,
        parameters: &[path("id", Shape::Text, "The browser's public name.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("done"),
        serve: Some(|| delete(log_browser_out)),
    },
];

async fn tokens(State(native): State<Native>, Guest(who): Guest) -> Answered {
    ask(&native, &who, Call::TokenList).await
}

async fn create_token(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(wanted): JsonBody<CreateToken>,
) -> Answered {
    ask(&native, &who, Call::TokenCreate(wanted)).await.map(created)
}

async fn revoke_token(
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

async fn create_ticket(State(native): State<Native>, Guest(who): Guest) -> Answered {
    ask(&native, &who, Call::TicketCreate).await.map(created)
}

async fn pair(
    State(native): State<Native>,
    Guest(who): Guest,
    JsonBody(wanted): JsonBody<CreateToken>,
) -> Answered {
    ask(&native, &who, Call::Pair(wanted)).await.map(created)
}

async fn browsers(State(native): State<Native>, Guest(who): Guest) -> Answered {
    ask(&native, &who, Call::BrowserList).await
}

async fn log_browser_out(
    State(native): State<Native>,
    Guest(who): Guest,
    leaving: Leaving,
    Path(browser): Path<String>,
) -> Answered {
    // The request may log out its own browser.
    leaving.let_finish();
    ask(&native, &who, Call::BrowserLogOut { browser }).await
}
