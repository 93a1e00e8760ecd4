//! The routes in one table: the router and the OpenAPI document are made from it. This file defines a route; the table
//! itself is in [`table`].

mod table;

use axum::routing::MethodRouter;

pub(super) use self::table::TABLE;
use super::Native;

/// The OpenAPI document, as generated from this table.
pub(super) const OPENAPI: &str = include_str!("../../../../../schemas/openapi.json");

/// The HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Method {
    Get,
    Post,
    Delete,
}

/// The required role, for the document. Core makes the decision.
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

/// The form of a successful answer.
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

/// The form of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
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
    /// The type of its body, if it has one.
    pub(super) takes: Option<&'static str>,
    pub(super) status: u16,
    pub(super) gives: Gives,
    /// The handler; `None` if the door serves it.
    pub(super) serve: Option<fn() -> MethodRouter<Native>>,
}
