//! The routes in one table: the router serves it, the OpenAPI document is written from it. Here is what a route is; the table
//! itself is in [`table`].

mod table;

use axum::routing::MethodRouter;

pub(super) use self::table::TABLE;
use super::Native;

/// The OpenAPI document, as generated from this table.
pub(super) const OPENAPI: &str = include_str!("../../../../../schemas/openapi.json");

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
