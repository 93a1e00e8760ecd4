//! The audit: who did what, when, and which rule decided, from what the logs already record.
//!
//! Nothing is written for the audit. A record is one entry of the daemon's log or of a session's log, read in the order
//! of the entries' positions. [`record`](mod@record) says which entries are records, [`list`] and [`show`] read them from
//! a store. Who may read the audit is decided by the [registry](crate::registry).

mod read;
pub mod record;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::read::Copies;
pub use self::read::{list, show};
use crate::{Actor, Millis, Position, RequestId, Seq, SessionId, policy::RuleId, ports::ChainLink};

/// The most records that one page holds.
pub const PAGE: u32 = 500;

/// Which records, and from where on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AuditQuery {
    /// Only records of this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// Only records of this actor: a part of the name in upper or lower case, a token's id or its beginning (4 characters
    /// or more), a frontend, an address, or one of `agent`, `portolan`, `deadline` and `rule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Only records about this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Only records that name this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleId>,
    /// The order of the records.
    #[serde(default)]
    #[cfg_attr(feature = "schema", ts(as = "Option<AuditOrder>", optional))]
    pub order: AuditOrder,
    /// The `next` of the page before. Absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Position>,
    /// The largest number of records; 100 when absent, 500 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The order of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AuditOrder {
    /// The newest record first.
    #[default]
    Newest,
    /// The oldest record first.
    Oldest,
}

/// A page of records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AuditPage {
    /// The records. A page may hold fewer records than asked for, or none, and still have a `next`.
    pub records: Vec<AuditRecord>,
    /// Where the next page begins; absent after the last record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Position>,
}

/// Which log an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AuditLog {
    /// The daemon's log, which is sealed.
    Daemon,
    /// The session's log, which is not sealed.
    Session,
}

/// One thing that somebody did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AuditRecord {
    /// The entry's position in the order of all entries: the record's id.
    pub position: Position,
    /// The log of the entry.
    pub log: AuditLog,
    /// The session that the record is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The entry's number in its log.
    pub seq: Seq,
    /// When it happened.
    pub at: Millis,
    /// Who did it.
    pub by: Actor,
    /// What was done: the kind of the event, or the name of the command.
    pub what: String,
    /// More about it, in a line.
    pub text: String,
    /// The rules that decided, or the rule that was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", ts(as = "Option<Vec<RuleId>>", optional))]
    pub rules: Vec<RuleId>,
    /// The request that the record is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// The event of the entry.
    pub event: Value,
    /// Long texts and lists in `event` are cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub shortened: bool,
}

/// One record with its whole entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct AuditDetails {
    /// The record.
    pub record: AuditRecord,
    /// The entry as it is stored.
    pub entry: Value,
    /// The entry's place in the chain of seals; absent for an entry of a session's log, which is not sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<ChainLink>,
}
