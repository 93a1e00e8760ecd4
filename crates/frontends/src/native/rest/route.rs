//! What a route is, and the parameters that many routes take.

use axum::routing::MethodRouter;

use crate::native::Native;

/// The HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Post,
    Delete,
}

/// The required role, for the document. Core makes the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nobody,
    /// A token of any role.
    Viewer,
    /// A token of an operator or owner.
    Operator,
    /// A token of an owner.
    Owner,
}

/// The form of a successful answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
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

/// The form of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any text that is not empty.
    Text,
    /// A text of this pattern.
    Pattern(&'static str),
    /// At most this many characters.
    AtMost(u32),
    /// `true` or `false`.
    Flag,
    /// The number of an entry.
    Entry,
    /// A number, with its minimum.
    Count(u32),
    /// Exactly this value.
    Only(&'static str),
}

/// The place of a parameter, and its purpose.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "the document is written from it"))]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    pub(crate) about: &'static str,
}

/// One route.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "the document is written from it"))]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) needs: Needs,
    pub(crate) parameters: &'static [Parameter],
    /// The type of its body, if it has one.
    pub(crate) takes: Option<&'static str>,
    pub(crate) status: u16,
    pub(crate) gives: Gives,
    /// The handler; `None` if the door serves it.
    pub(crate) serve: Option<fn() -> MethodRouter<Native>>,
}

pub(super) const fn query(name: &'static str, shape: Shape, about: &'static str) -> Parameter {
    Parameter { name, place: "query", shape, required: false, about }
}

pub(super) const fn path(name: &'static str, shape: Shape, about: &'static str) -> Parameter {
    Parameter { name, place: "path", shape, required: true, about }
}

pub(super) const fn needed(name: &'static str, shape: Shape, about: &'static str) -> Parameter {
    Parameter { name, place: "header", shape, required: true, about }
}

/// A session's id in full.
pub(super) const FULL_ID: Shape = Shape::Pattern("^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$");

pub(super) const SESSION: Parameter = path(
    "id",
    Shape::Pattern("^[0-9A-Fa-f-]{4,36}$"),
    "The session's id, or a unique beginning or end of it.",
);

pub(super) const ONCE: Parameter = Parameter {
    name: "Idempotency-Key",
    place: "header",
    shape: Shape::Pattern("^[A-Za-z0-9._:-]{1,64}$"),
    required: false,
    about: "Your own id of the request: a repeated request with the same id runs only once.",
};

pub(super) const STREAM: [Parameter; 3] = [
    Parameter {
        name: "Last-Event-ID",
        place: "header",
        shape: Shape::Entry,
        required: false,
        about: "The number of the last entry seen; overrides `after`.",
    },
    query(
        "after",
        Shape::Entry,
        "Entries after this number; default: 0, the whole history. Overrides `tail`.",
    ),
    query("tail", Shape::Count(0), "Begin with this many of the last entries."),
];
