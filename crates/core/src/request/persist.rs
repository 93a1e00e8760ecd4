//! Rules that are made together with an answer: the same call is then answered without a person.
//!
//! The text of the rule is the sender's, or else what the request suggests. Who may make the rule depends on its scope,
//! as for any other rule.

use serde::{Deserialize, Serialize};

use super::{Answer, Ask, Request, Scope};
use crate::{
    Refusal, RefusalCode, SessionId,
    policy::{
        Effect, RuleDraft, check,
        rule::{ScopeDraft, is_plain_name},
    },
};

/// A rule to make together with an answer. It allows or denies as the answer does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct Persist {
    /// Where the rule holds.
    pub scope: PersistScope,
    /// `TOOL` or `TOOL(PATTERN)`; the request's suggestion when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub rule: Option<String>,
}

/// Where a rule that is made together with an answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PersistScope {
    /// In this session.
    #[default]
    Session,
    /// In every session in the session's folder and below it; owners only.
    Project,
    /// In every session; owners only.
    User,
}

impl PersistScope {
    /// The scope of the rule, for a request of this session in this folder.
    pub fn draft(self, session: SessionId, folder: &std::path::Path) -> ScopeDraft {
        match self {
            Self::Session => ScopeDraft::Session { session },
            Self::Project => ScopeDraft::Project { folder: folder.to_owned() },
            Self::User => ScopeDraft::User,
        }
    }
}

impl Persist {
    /// The rule that this answer to `open` makes. Refused if no rule can be made, with the reason.
    pub fn draft(&self, open: &Request, answer: &Answer, scope: ScopeDraft) -> Result<RuleDraft, Refusal> {
        let refuse = |why: String| Err(Refusal::new(RefusalCode::Invalid, why));
        let effect = match (answer, &open.ask) {
            (Answer::Allow { scope: Scope::Session, .. }, _) => {
                return refuse(
                    "`persist` makes a rule already; leave out the scope `session` of the answer".into(),
                );
            }
            (Answer::Allow { .. }, Ask::Permission { .. }) => Effect::Allow,
            (Answer::Deny { .. }, Ask::Permission { .. }) => Effect::Deny,
            (_, ask) => {
                return refuse(format!(
                    "a rule answers permissions, and this is a {}; answer without `persist`",
                    ask.kind()
                ));
            }
        };
        let edited = matches!(answer, Answer::Allow { input: Some(_), .. });
        let text = match (&self.rule, &open.suggested_rule, &open.ask) {
            (Some(rule), ..) => rule.clone(),
            (None, Some(_), _) if edited => {
                return refuse(
                    "the input is edited, so the suggested rule would be about another call; name the rule"
                        .into(),
                );
            }
            (None, Some(suggested), _) => suggested.clone(),
            (None, None, Ask::Permission { tool_name, .. }) if is_plain_name(tool_name) => tool_name.clone(),
            (None, None, _) => {
                return refuse("no rule can be made from this request; name the rule, or answer once".into());
            }
        };
        let draft = RuleDraft::new(effect, text, scope);
        check::draft(&draft).map_err(|why| Refusal::new(RefusalCode::Invalid, why.0))?;
        Ok(draft)
    }
}
