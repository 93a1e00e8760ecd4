//! The daemon itself: its page, health, figures, events and WebSocket.

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::header;
use portolan_core::{
    RefusalCode, Role,
    ports::{SessionQuery, StoreHealth},
};
use portolan_host::door::{Denied, Farewell, Guest, HEALTH_PATH, Upgrade, Visitor, WEBSOCKET_PATH};
use tracing::Instrument as _;

use super::{
    Answered,
    route::{Gives, Method, Needs, Parameter, Route, STREAM, Shape, needed},
};
use crate::native::{Native, connection, page, sse};

/// The OpenAPI document, as generated from the routes.
pub(crate) const OPENAPI: &str = include_str!("../../../../../schemas/openapi.json");

/// The headers of a WebSocket request.
const UPGRADE: [Parameter; 4] = [
    needed("Connection", Shape::Only("Upgrade"), "As in RFC 6455."),
    needed("Upgrade", Shape::Only("websocket"), "As in RFC 6455."),
    needed("Sec-WebSocket-Version", Shape::Only("13"), "As in RFC 6455."),
    needed("Sec-WebSocket-Key", Shape::Pattern("^[A-Za-z0-9+/]{21}[AQgw]==$"), "16 random bytes, base64."),
];

/// The routes of the daemon itself.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/",
        summary: "The page.",
        needs: Needs::Nobody,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Text("text/html"),
        serve: Some(|| get(page::serve)),
    },
    Route {
        method: Method::Get,
        path: HEALTH_PATH,
        summary: "Health check: answers `ok`.",
        needs: Needs::Nobody,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Text("text/plain"),
        serve: Some(|| get(health)),
    },
    Route {
        method: Method::Get,
        path: "/openapi.json",
        summary: "This document.",
        needs: Needs::Viewer,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Text("application/json"),
        serve: Some(|| get(openapi)),
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        summary: "Counters for Prometheus.",
        needs: Needs::Viewer,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Text("application/openmetrics-text"),
        serve: Some(|| get(metrics)),
    },
    Route {
        method: Method::Get,
        path: WEBSOCKET_PATH,
        summary: "The native protocol by WebSocket.",
        needs: Needs::Viewer,
        parameters: &UPGRADE,
        takes: None,
        status: 101,
        gives: Gives::Switch,
        serve: Some(|| get(websocket)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/events",
        summary: "The daemon's entries as they happen, by SSE.",
        needs: Needs::Viewer,
        parameters: &STREAM,
        takes: None,
        status: 200,
        gives: Gives::Text("text/event-stream"),
        serve: Some(|| get(sse::daemon)),
    },
];

/// Only says that the daemon runs, because anyone may ask.
async fn health() -> &'static str {
    "ok\n"
}

async fn openapi(Guest(_): Guest) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn metrics(State(native): State<Native>, Guest(who): Guest) -> Answered {
    who.may_daemon(Role::Viewer)?;
    let live = SessionQuery { archived: None, live: true, before: None, limit: 1000 };
    let sessions = native.registry.list(&who, live).await?.len();
    let healthy = *native.registry.store().health().borrow() == StoreHealth::Good;
    let text = native.metrics.text(sessions, healthy);
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
        .into_response())
}

/// The WebSocket: checks and answers the request, then serves the connection on its own task.
async fn websocket(State(native): State<Native>, visitor: Visitor, request: Request) -> Answered {
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
