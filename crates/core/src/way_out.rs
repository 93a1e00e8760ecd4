//! The way out of a refusal, for programs: what the sender can do.
//!
//! Core names no command, no button and no page. Each client puts a way out into its own words: the command line names
//! a command, the page names a part of the page.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Role, Seq, SessionId, policy::RuleId};

/// What the sender of a refused command can do. The refusal's `retry_after_ms` says when to try again.
///
/// A later version may add kinds; ignore unknown kinds.
// A refusal in a session's log names no session here, because a fork copies the entries of its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WayOut {
    /// Look for the session in the list of sessions.
    ListSessions,
    /// Start a new session.
    NewSession,
    /// Use the session that already continues the conversation, or fork that session.
    UseSession {
        /// The session.
        session: SessionId,
    },
    /// Start the session's agent again.
    ResumeSession {
        /// The session.
        session: SessionId,
    },
    /// End the session's agent first.
    StopSession {
        /// The session.
        session: SessionId,
    },
    /// Send again a command that ended as uncertain.
    SendAgain {
        /// The session.
        session: SessionId,
        /// The command's entry.
        command: Seq,
    },
    /// End an agent in another session, or raise the setting that limits how many agents run at once.
    EndAnotherAgent {
        /// The setting's key.
        setting: String,
    },
    /// Look for the conversation in the list of past conversations.
    ListPast,
    /// Name a folder in which to look for past conversations.
    NameFolder {
        /// The agent's kind.
        agent: String,
    },
    /// Continue in a copy of the past conversation.
    CopyPast,
    /// Change a setting of Portolan.
    ChangeSetting {
        /// The setting's key.
        key: String,
    },
    /// Look at the budgets; an owner raises or resets one.
    ListBudgets,
    /// Ask an owner for a token with this role.
    AskForRole {
        /// The role.
        role: Role,
    },
    /// Remove this rule.
    RemoveRule {
        /// The rule.
        rule: RuleId,
    },
    /// Look for the token in the list of tokens.
    ListTokens,
    /// Revoke a token that nobody needs any more.
    RevokeToken,
    /// Rotate the secret of the owner's own token.
    RotateOwnerToken,
    /// A way out of a newer version, unchanged.
    #[serde(untagged)]
    #[cfg_attr(feature = "schema", schemars(skip), ts(skip))]
    Other(Box<Value>),
}

impl WayOut {
    /// One of each kind, so that a client's tests can show that it has words for all kinds.
    pub fn one_of_each() -> Vec<Self> {
        let session = SessionId::from_u128(7);
        vec![
            Self::ListSessions,
            Self::NewSession,
            Self::UseSession { session },
            Self::ResumeSession { session },
            Self::StopSession { session },
            Self::SendAgain { session, command: Seq(12) },
            Self::EndAnotherAgent { setting: "limits.agents_at_once".into() },
            Self::ListPast,
            Self::NameFolder { agent: "qwen".into() },
            Self::CopyPast,
            Self::ChangeSetting { key: "policy.allow_bypass".into() },
            Self::ListBudgets,
            Self::AskForRole { role: Role::Operator },
            Self::RemoveRule { rule: RuleId("r1".into()) },
            Self::ListTokens,
            Self::RevokeToken,
            Self::RotateOwnerToken,
            Self::Other(Box::new(serde_json::json!({ "kind": "dance", "with": ["you"] }))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Refusal, RefusalCode};

    #[test]
    fn every_way_out_reads_back_from_the_wire() {
        for way_out in WayOut::one_of_each() {
            let json = serde_json::to_value(&way_out).unwrap();
            assert!(json["kind"].is_string(), "{json}");
            assert_eq!(serde_json::from_value::<WayOut>(json).unwrap(), way_out);
        }
    }

    #[cfg(feature = "schema")]
    #[test]
    fn one_of_each_leaves_none_out() {
        let schema = serde_json::to_value(schemars::schema_for!(WayOut)).unwrap();
        let kinds = schema["anyOf"].as_array().unwrap().iter();
        let described: Vec<Value> = kinds.map(|one| one["properties"]["kind"]["const"].clone()).collect();
        let mut listed = Vec::new();
        for way_out in WayOut::one_of_each() {
            if !matches!(way_out, WayOut::Other(_)) {
                listed.push(serde_json::to_value(way_out).unwrap()["kind"].clone());
            }
        }
        assert_eq!(listed, described);
    }

    #[test]
    fn a_way_out_of_a_newer_version_is_passed_on_and_keeps_the_refusal_readable() {
        for newer in [
            json!({ "kind": "dance", "with": { "whom": "everybody" } }),
            // A known kind that has changed.
            json!({ "kind": "resume_session", "sessions": [1, 2] }),
            json!("another form altogether"),
        ] {
            let told = json!({ "code": "not_running", "message": "it is not running", "way_out": newer });
            let refusal: Refusal = serde_json::from_value(told.clone()).unwrap();
            assert_eq!(refusal.way_out, Some(WayOut::Other(Box::new(newer))));
            assert_eq!(serde_json::to_value(refusal).unwrap(), told);
        }
    }

    #[test]
    fn a_refusal_without_a_way_out_is_written_as_before() {
        let refusal = Refusal::new(RefusalCode::Invalid, "no");
        assert_eq!(serde_json::to_value(&refusal).unwrap(), json!({ "code": "invalid", "message": "no" }));
        let with = refusal.with_way_out(WayOut::ListPast);
        let expected = json!({ "code": "invalid", "message": "no", "way_out": { "kind": "list_past" } });
        assert_eq!(serde_json::to_value(with).unwrap(), expected);
    }
}
