//! The bodies of REST requests. Some of them are calls by WebSocket too.

use std::{collections::BTreeSet, path::PathBuf};

use portolan_core::{
    Action, CommandId, Millis, Role, SessionId, SessionSpec,
    policy::{Mode, RuleDraft},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of a REST request for a new session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CreateSession {
    /// The same id sent twice creates one session; `Idempotency-Key` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub id: Option<CommandId>,
    /// The new session's settings. The session needs a folder, or takes the folder of the session that it forks.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::created"))]
    pub spec: Box<SessionSpec>,
}

/// The body of a REST request that imports a past conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct TakeUpPast {
    /// The same id sent twice creates one session; `Idempotency-Key` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub id: Option<CommandId>,
    /// The agent's own id of the conversation, or a unique beginning or end.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::past"))]
    pub past: String,
    /// Keep the original conversation unchanged: the agent continues in a copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy: bool,
    /// The session's other settings.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::taken_up"))]
    pub spec: Box<SessionSpec>,
}

/// The body of a REST request that archives a past conversation or restores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ArchivePast {
    /// The agent's own id of the conversation, or a unique beginning or end.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::past"))]
    pub past: String,
    /// The agent that keeps the conversation; any agent when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// `true` archives the conversation, `false` restores it.
    pub archived: bool,
}

/// The body of a REST request that sends a command to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct SendCommand {
    /// The same id sent twice runs the command once; `Idempotency-Key` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub id: Option<CommandId>,
    /// The command.
    #[serde(flatten)]
    pub command: Action,
}

/// A call that policy is asked about. Nothing runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct TestRule {
    /// The tool's name.
    pub tool: String,
    /// The tool's input.
    pub input: Value,
    /// The session's folder, an absolute path. Needed without a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(type = "string"))]
    pub cwd: Option<PathBuf>,
    /// The session's mode; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Ask for this session: its folder, its mode and its own rules count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// A rule that is compared with the recorded requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct SimulateRule {
    /// The rule.
    pub rule: RuleDraft,
    /// Only requests of this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
}

/// The body of a REST request for a new token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct CreateToken {
    /// The token's name for people.
    #[cfg_attr(feature = "schema", schemars(schema_with = "shape::token_name"))]
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The sessions that the token is bound to; all sessions when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional), schemars(length(min = 1)))]
    pub sessions: Option<BTreeSet<SessionId>>,
    /// The token's lifetime in seconds; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"), schemars(range(min = 1)))]
    pub expires_in_seconds: Option<u64>,
}

/// Rules for bodies that their types cannot express.
#[cfg(feature = "schema")]
mod shape {
    use portolan_core::SessionSpec;
    use schemars::{Schema, SchemaGenerator, json_schema};

    /// A new session needs a folder, or is a fork.
    pub(super) fn created(generator: &mut SchemaGenerator) -> Schema {
        let spec = generator.subschema_for::<SessionSpec>();
        json_schema!({
            "allOf": [spec],
            "anyOf": [
                {"required": ["cwd"], "properties": {"cwd": {"pattern": "^/"}}},
                {"required": ["fork"], "properties": {"fork": {"type": "object"}}},
            ],
        })
    }

    /// The settings of an imported conversation's session may neither resume nor fork.
    pub(super) fn taken_up(generator: &mut SchemaGenerator) -> Schema {
        let spec = generator.subschema_for::<SessionSpec>();
        json_schema!({"allOf": [spec], "properties": {"resume": {"type": "null"}, "fork": {"type": "null"}}})
    }

    /// An agent's own id, or a part of that id.
    pub(super) fn past(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[!-~]{4,}$"})
    }

    /// A token's name: no control characters, and no white space at either end.
    pub(super) fn token_name(_: &mut SchemaGenerator) -> Schema {
        let (inner, end) = (r"[^\u0000-\u001f\u007f-\u009f]", r"[^\s\u0000-\u001f\u007f-\u009f]");
        json_schema!({"type": "string", "pattern": format!("^{end}({inner}{{0,62}}{end})?$")})
    }
}
