//! The routes in one table: the router serves it, the OpenAPI document is written from it.

use axum::routing::{MethodRouter, delete, get, post};

use super::{Native, page, rest, sse};
use portolan_host::door::{HEALTH_PATH, LOGIN_PATH, LOGOUT_PATH, WEBSOCKET_PATH};

/// The OpenAPI document, as generated from this table.
pub(super) const OPENAPI: &str = include_str!("../../../../schemas/openapi.json");

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Method {
    Get,
    Post,
    Delete,
}

/// Who may ask. Core decides; this tells the reader of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing.
    Nobody,
    /// A token of any role.
    Viewer,
    /// A token of an operator or owner.
    Operator,
    /// A token of an owner.
    Owner,
}

/// What a successful answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// The reply of the native protocol with this name.
    Reply(&'static str),
    /// Text of this media type.
    Text(&'static str),
    /// The key of a browser's login.
    Key,
    /// Nothing but the status.
    Nothing,
    /// Another protocol.
    Switch,
}

/// What a parameter looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Any text that is not empty.
    Text,
    /// A text of this pattern.
    Pattern(&'static str),
    /// At most so many characters.
    AtMost(u32),
    /// `true` or `false`.
    Flag,
    /// The number of an entry.
    Entry,
    /// How many, and how many at least.
    Count(u32),
    /// Just this.
    Only(&'static str),
}

/// Where a parameter stands, and what it is for.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "the document is written from it"))]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
    pub(super) about: &'static str,
}

/// One route.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "the document is written from it"))]
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) needs: Needs,
    pub(super) parameters: &'static [Parameter],
    /// The type of its body, where it takes one.
    pub(super) takes: Option<&'static str>,
    pub(super) status: u16,
    pub(super) gives: Gives,
    /// Who serves it; `None` is the door.
    pub(super) serve: Option<fn() -> MethodRouter<Native>>,
}

const fn query(name: &'static str, shape: Shape, about: &'static str) -> Parameter {
    Parameter { name, place: "query", shape, required: false, about }
}

const fn path(name: &'static str, shape: Shape, about: &'static str) -> Parameter {
    Parameter { name, place: "path", shape, required: true, about }
}

const fn needed(name: &'static str, shape: Shape, about: &'static str) -> Parameter {
    Parameter { name, place: "header", shape, required: true, about }
}

/// A session's id in full.
const FULL_ID: Shape = Shape::Pattern("^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$");
/// A folder.
const FOLDER: Shape = Shape::Pattern("^/[^\\u0000]*$");

const SESSION: Parameter = path(
    "id",
    Shape::Pattern("^[0-9A-Fa-f-]{4,36}$"),
    "The session's id, or a unique beginning or end of it.",
);
const WHOLE_SESSION: Parameter = path("id", FULL_ID, "The session's id, all of it.");
const AGENT: Parameter = path("kind", Shape::Text, "The agent, such as `codex`.");
const ONCE: Parameter = Parameter {
    name: "Idempotency-Key",
    place: "header",
    shape: Shape::Pattern("^[A-Za-z0-9._:-]{1,64}$"),
    required: false,
    about: "An id of your own: the same one again does nothing twice.",
};
const STREAM: [Parameter; 3] = [
    Parameter {
        name: "Last-Event-ID",
        place: "header",
        shape: Shape::Entry,
        required: false,
        about: "The number of the last entry seen; counts before `after`.",
    },
    query(
        "after",
        Shape::Entry,
        "Entries after this number; 0, the whole history, when absent. Counts before `tail`.",
    ),
    query("tail", Shape::Count(0), "Begin with the last so many entries."),
];
/// What makes a request one for a WebSocket.
const UPGRADE: [Parameter; 4] = [
    needed("Connection", Shape::Only("Upgrade"), "As RFC 6455 has it."),
    needed("Upgrade", Shape::Only("websocket"), "As RFC 6455 has it."),
    needed("Sec-WebSocket-Version", Shape::Only("13"), "As RFC 6455 has it."),
    needed("Sec-WebSocket-Key", Shape::Pattern("^[A-Za-z0-9+/]{21}[AQgw]==$"), "16 random bytes, base64."),
];

/// Every route of the native protocol and of the door.
pub(super) const TABLE: &[Route] = &[
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
        summary: "Says only ok.",
        needs: Needs::Nobody,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Text("text/plain"),
        serve: Some(|| get(rest::health)),
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
        serve: Some(|| get(rest::openapi)),
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
        serve: Some(|| get(rest::metrics)),
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
        serve: Some(|| get(rest::websocket)),
    },
    Route {
        method: Method::Post,
        path: LOGIN_PATH,
        summary: "A browser's login: a ticket becomes a cookie and a key.",
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
        path: "/api/v1/sessions",
        summary: "Sessions, newest first.",
        needs: Needs::Viewer,
        parameters: &[
            query("archived", Shape::Flag, "Archived ones, others, or (absent) both."),
            query("before", FULL_ID, "Only those older than this one, for the next page."),
            query("limit", Shape::Count(1), "At most so many; 100 when absent, 1,000 at most."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("sessions"),
        serve: Some(|| get(rest::list)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/sessions",
        summary: "Make a session.",
        needs: Needs::Operator,
        parameters: &[ONCE],
        takes: Some("CreateSession"),
        status: 201,
        gives: Gives::Reply("session"),
        serve: Some(|| post(rest::create)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/past",
        summary: "Conversations that agents have kept by themselves, the newest first.",
        needs: Needs::Operator,
        parameters: &[
            query("agent", Shape::Text, "Only of this agent."),
            query("cwd", FOLDER, "Only those held in this folder or below it."),
            query("archived", Shape::Flag, "Those that the agent has put away, instead of the others."),
            query("limit", Shape::Count(1), "At most so many; 100 when absent, 1,000 at most."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("past"),
        serve: Some(|| get(rest::past)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/past",
        summary: "Take up a past conversation: a session with what was said in it, or the one it lives in already.",
        needs: Needs::Operator,
        parameters: &[ONCE],
        takes: Some("TakeUpPast"),
        status: 200,
        gives: Gives::Reply("taken_up"),
        serve: Some(|| post(rest::take_up)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/past/archived",
        summary: "Have an agent put a conversation away in its own list, or take it out again.",
        needs: Needs::Operator,
        parameters: &[],
        takes: Some("ArchivePast"),
        status: 200,
        gives: Gives::Reply("past"),
        serve: Some(|| post(rest::archive_past)),
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
        serve: Some(|| get(rest::show)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/sessions/{id}",
        summary: "Delete a session for good; takes its full id.",
        needs: Needs::Owner,
        parameters: &[WHOLE_SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("done"),
        serve: Some(|| delete(rest::delete)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/state",
        summary: "A session's state now.",
        needs: Needs::Viewer,
        parameters: &[SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("state"),
        serve: Some(|| get(rest::state)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/entries",
        summary: "A page of a session's history, oldest first. An empty page is the end.",
        needs: Needs::Viewer,
        parameters: &[
            SESSION,
            query("after", Shape::Entry, "Entries after this number."),
            query("upto", Shape::Entry, "Up to this number; the newest when absent."),
            query(
                "limit",
                Shape::Count(1),
                "At most so many; 256 when absent, 1,000 at most. A page also ends at 256 KiB.",
            ),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("history"),
        serve: Some(|| get(rest::entries)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/entries/{seq}/raw",
        summary: "What the agent really said at an entry.",
        needs: Needs::Owner,
        parameters: &[SESSION, path("seq", Shape::Entry, "The entry's number.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("raw"),
        serve: Some(|| get(rest::raw)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/environment",
        summary: "The environment a session's agent gets.",
        needs: Needs::Owner,
        parameters: &[SESSION],
        takes: None,
        status: 200,
        gives: Gives::Reply("environment"),
        serve: Some(|| get(rest::environment)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/sessions/{id}/files",
        summary: "Files and folders below the session's folder, for completion in a prompt.",
        needs: Needs::Operator,
        parameters: &[
            SESSION,
            query("query", Shape::AtMost(256), "What the path holds; everything when absent."),
            query("limit", Shape::Count(1), "At most so many; 20 when absent, 100 at most."),
        ],
        takes: None,
        status: 200,
        gives: Gives::Reply("files"),
        serve: Some(|| get(rest::files)),
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
        summary: "Ask something of a session. 202: it is in the log; what comes of it arrives as entries.",
        needs: Needs::Operator,
        parameters: &[SESSION, ONCE],
        takes: Some("SendCommand"),
        status: 202,
        gives: Gives::Reply("receipt"),
        serve: Some(|| post(rest::command)),
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
    Route {
        method: Method::Get,
        path: "/api/v1/agents",
        summary: "The agents there are.",
        needs: Needs::Viewer,
        parameters: &[query("probe", Shape::Flag, "Look at each of them anew; takes the role operator.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("agents"),
        serve: Some(|| get(rest::agents)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/agents/{kind}/account",
        summary: "Who an agent is logged in as.",
        needs: Needs::Operator,
        parameters: &[AGENT],
        takes: None,
        status: 200,
        gives: Gives::Reply("account"),
        serve: Some(|| get(rest::account)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/agents/{kind}/account",
        summary: "Log an agent in. Where a person has to go on, `under_way` names the page.",
        needs: Needs::Owner,
        parameters: &[AGENT],
        takes: Some("LogIn"),
        status: 200,
        gives: Gives::Reply("account"),
        serve: Some(|| post(rest::log_in)),
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
        serve: Some(|| delete(rest::log_out)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/tokens",
        summary: "The tokens there are.",
        needs: Needs::Owner,
        parameters: &[],
        takes: None,
        status: 200,
        gives: Gives::Reply("tokens"),
        serve: Some(|| get(rest::tokens)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tokens",
        summary: "Make a token. Its secret is told this once.",
        needs: Needs::Owner,
        parameters: &[],
        takes: Some("CreateToken"),
        status: 201,
        gives: Gives::Reply("token"),
        serve: Some(|| post(rest::create_token)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/tokens/{id}",
        summary: "Make a token useless. Its connections are closed.",
        needs: Needs::Owner,
        parameters: &[path("id", Shape::Text, "The token's public name.")],
        takes: None,
        status: 200,
        gives: Gives::Reply("done"),
        serve: Some(|| delete(rest::revoke_token)),
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
        serve: Some(|| post(rest::create_ticket)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/pairings",
        summary: "A one-time ticket for another device, which gets a token of its own when it logs in.",
        needs: Needs::Owner,
        parameters: &[],
        takes: Some("CreateToken"),
        status: 201,
        gives: Gives::Reply("ticket"),
        serve: Some(|| post(rest::pair)),
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
        serve: Some(|| get(rest::browsers)),
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
        serve: Some(|| delete(rest::log_browser_out)),
    },
];
