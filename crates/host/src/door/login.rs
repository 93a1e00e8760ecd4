//! Login and logout of browsers: a ticket becomes a cookie and a key.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Extension, Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use portolan_core::{DaemonEvent, Refusal, RefusalCode};
use serde::{Deserialize, Serialize};

use super::{
    access::{AccessCheck, COOKIE, KEY_HEADER, LOGIN_PATH, cookies},
    authority::Scheme,
    body::JsonBody,
    denied::Denied,
    guard::{Guest, Leaving},
    secret::Secret,
    tickets::{BROWSER_IDLE_MS, Caller},
    tokens::TokenInfo,
};

/// Ends a login.
pub const LOGOUT_PATH: &str = "/api/v1/logout";

/// The body of a login.
#[derive(Deserialize)]
struct Login {
    ticket: String,
}

/// The answer to a login.
#[derive(Serialize)]
struct LoggedIn {
    key: String,
    /// The public name of this browser in lists.
    browser: String,
}

/// Where a request came from and by which scheme, as the guard saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct From {
    pub(super) address: Option<IpAddr>,
    pub(super) scheme: Scheme,
}

pub(super) fn routes(access: Arc<AccessCheck>) -> Router {
    Router::new().route(LOGIN_PATH, post(login)).route(LOGOUT_PATH, post(logout)).with_state(access)
}

async fn login(
    State(access): State<Arc<AccessCheck>>,
    Extension(from): Extension<From>,
    headers: HeaderMap,
    JsonBody(Login { ticket }): JsonBody<Login>,
) -> Result<Response, Denied> {
    // A locked-out address cannot even use up a ticket.
    access.check_lockout(from.address)?;
    let address = from.address.map(|address| address.to_string());
    let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let session = access.tickets().redeem(&ticket, Caller { address: address.clone(), user_agent }).await?;
    let session = access.check_attempt(session, from.address).map_err(|denied| match denied.status {
        StatusCode::UNAUTHORIZED => Denied::new(
            StatusCode::UNAUTHORIZED,
            RefusalCode::Unauthenticated,
            "the ticket is used, expired or unknown; a ticket works once and for a short time: ask for a new ticket",
        ),
        _ => denied,
    })?;
    let who = access.tickets().authenticate(&session.cookie, &session.key);
    if let Some((by, TokenInfo { token, name, role, .. })) = session.made {
        access.tell(Some(&by), DaemonEvent::TokenCreated { token, name, role });
    }
    access.tell(who.as_ref(), DaemonEvent::LoggedIn { address, browser: Some(session.browser.clone()) });
    let cookie = cookie(session.cookie.expose(), from.scheme, BROWSER_IDLE_MS / 1000)?;
    let body = LoggedIn { key: session.key.expose().to_owned(), browser: session.browser };
    Ok(([(header::SET_COOKIE, cookie)], Json(body)).into_response())
}

async fn logout(
    State(access): State<Arc<AccessCheck>>,
    Extension(from): Extension<From>,
    Guest(who): Guest,
    leaving: Leaving,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    leaving.let_finish();
    if let Some(key) = headers.get(KEY_HEADER).and_then(|v| v.to_str().ok()).map(Secret::sent) {
        for cookie in cookies(&headers) {
            if let Some(browser) = access.tickets().forget(&cookie, &key).await? {
                access.tell(Some(&who), DaemonEvent::LoggedOut { browser: Some(browser) });
            }
        }
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie("", from.scheme, 0)?)]).into_response())
}

fn cookie(value: &str, scheme: Scheme, seconds: i64) -> Result<HeaderValue, Refusal> {
    let secure = match scheme {
        Scheme::Https => "; Secure",
        Scheme::Http => "",
    };
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let mut header = HeaderValue::try_from(text).map_err(|error| {
        Refusal::new(RefusalCode::Internal, format!("the cookie cannot be written: {error}"))
    })?;
    header.set_sensitive(true);
    Ok(header)
}
