//! Who may do what. The listeners find out who a client is; this module alone decides what that client may do.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Refusal, RefusalCode, SessionId, TokenId, WayOut, capabilities::Asks};

/// The role of a token; each role includes the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May read.
    Viewer,
    /// May also prompt and answer.
    Operator,
    /// May also manage tokens, delete sessions, see raw agent text and send native messages to the agent.
    Owner,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Owner => "owner",
        })
    }
}

impl FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "viewer" => Ok(Self::Viewer),
            "operator" => Ok(Self::Operator),
            "owner" => Ok(Self::Owner),
            other => Err(format!("unknown role `{other}`; use owner, operator or viewer")),
        }
    }
}

/// Whether agents may work in modes in which they ask nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bypass {
    /// Nobody may use such a mode.
    #[default]
    Refused,
    /// Owners may switch to such a mode.
    ForOwners,
}

/// A client that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The client's token.
    pub token: TokenId,
    /// The name that people see.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The sessions that the token is bound to; `None` means all sessions.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// The frontend that the client uses, such as `native`, `page` or `cli`.
    pub via: String,
}

impl Principal {
    /// May this principal act in `role` on `session`?
    pub fn may(&self, role: Role, session: SessionId) -> Result<(), Refusal> {
        if !self.sees(session) {
            // The same words as for a session that does not exist: a bound token learns nothing about other sessions.
            return Err(Refusal::no_session(session));
        }
        self.has(role)
    }

    /// May this principal act in `role` on the daemon as a whole? A token bound to sessions may not.
    pub fn may_daemon(&self, role: Role) -> Result<(), Refusal> {
        if self.sessions.is_some() {
            let message = format!(
                "the token `{}` is bound to certain sessions; use a token for all sessions",
                self.name
            );
            return Err(Refusal::new(RefusalCode::Forbidden, message));
        }
        self.has(role)
    }

    /// May this principal switch an agent to `mode`, in which the agent asks this much? Switching questions off decides
    /// for everybody who would have been asked.
    pub fn may_use_mode(&self, mode: &str, asks: Asks, bypass: Bypass) -> Result<(), Refusal> {
        let shown = crate::capabilities::shown(mode);
        let refuse = |why: String, out| Err(Refusal::new(RefusalCode::Forbidden, why).with_way_out(out));
        let is_owner = self.role >= Role::Owner;
        let (name, role) = (&self.name, self.role);
        match asks {
            Asks::Everything | Asks::Some => Ok(()),
            Asks::Unknown | Asks::Nothing if !is_owner => {
                let why = if asks == Asks::Nothing {
                    "the agent asks nobody before it acts"
                } else {
                    "the agent may ask nobody before it acts"
                };
                let why = format!(
                    "in the mode `{shown}` {why}, so the mode needs the role owner; the token `{name}` has {role}; use a mode that asks"
                );
                refuse(why, WayOut::AskForRole { role: Role::Owner })
            }
            Asks::Nothing if bypass == Bypass::Refused => {
                let why = format!(
                    "in the mode `{shown}` the agent asks nobody before it acts, and such modes are switched off here; \
                     use a mode that asks"
                );
                refuse(why, WayOut::ChangeSetting { key: "policy.allow_bypass".into() })
            }
            Asks::Unknown | Asks::Nothing => Ok(()),
        }
    }

    /// May the token see this session?
    pub fn sees(&self, session: SessionId) -> bool {
        self.sessions.as_ref().is_none_or(|bound| bound.contains(&session))
    }

    fn has(&self, role: Role) -> Result<(), Refusal> {
        if self.role >= role {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!("this needs the role {role}; the token `{}` has {}", self.name, self.role),
        )
        .with_way_out(WayOut::AskForRole { role }))
    }

    /// How entries in the log name this principal.
    pub fn actor(&self) -> Actor {
        Actor::Person { token: self.token.clone(), name: self.name.clone(), via: self.via.clone() }
    }
}

/// Who caused an entry. Entries without an actor come from the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// A person or program with a token.
    Person {
        /// The token's public name.
        token: TokenId,
        /// The name that people see.
        name: String,
        /// The frontend used.
        via: String,
    },
    /// Policy, by a rule or by something that stands in for a rule.
    Policy {
        /// The rule, in words.
        rule: String,
        /// What stands in `rule`. Absent in entries of older versions; then the words in `rule` show it: `mode ...`,
        /// `budget ...` and `at most ...` are no rules.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        source: Option<PolicySource>,
    },
    /// A deadline.
    Deadline,
    /// The agent.
    Agent,
    /// Portolan: a start, a stop or a recovery.
    Daemon,
    /// Nobody here: the entry was imported with a past conversation.
    Imported,
}

/// By what policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// One or several rules.
    Rule,
    /// The session's mode, where no rule decides.
    Mode,
    /// A budget.
    Budget,
    /// A limit of Portolan itself.
    Limit,
}

impl PolicySource {
    /// What the words of an older version name.
    fn of_words(words: &str) -> Self {
        let begins = [("mode ", Self::Mode), ("budget ", Self::Budget), ("at most ", Self::Limit)];
        let found = begins.into_iter().find(|(beginning, _)| words.starts_with(beginning));
        found.map_or(Self::Rule, |(_, source)| source)
    }
}

impl Actor {
    /// Policy, by this.
    pub fn policy(source: PolicySource, words: impl Into<String>) -> Self {
        Self::Policy { rule: words.into(), source: Some(source) }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person { name, via, .. } => write!(f, "{name} ({via})"),
            Self::Policy { rule, source } => match source.unwrap_or_else(|| PolicySource::of_words(rule)) {
                PolicySource::Mode | PolicySource::Budget => f.write_str(rule),
                PolicySource::Limit => write!(f, "limit: {rule}"),
                PolicySource::Rule => write!(f, "rule {rule}"),
            },
            Self::Deadline => f.write_str("deadline"),
            Self::Agent => f.write_str("agent"),
            Self::Daemon => f.write_str("portolan"),
            Self::Imported => f.write_str("imported"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(role: Role, sessions: Option<SessionId>) -> Principal {
        Principal {
            token: TokenId::random(),
            name: "ada".into(),
            role,
            sessions: sessions.map(|s| [s].into()),
            via: "test".into(),
        }
    }

    // covers: 003-004
    #[test]
    fn a_viewer_reads_and_nothing_else() {
        let session = SessionId::new();
        let viewer = principal(Role::Viewer, None);
        assert!(viewer.may(Role::Viewer, session).is_ok());
        let refused = viewer.may(Role::Operator, session).unwrap_err();
        assert_eq!(refused.code, RefusalCode::Forbidden);
        assert_eq!(refused.way_out, Some(WayOut::AskForRole { role: Role::Operator }));
        assert_eq!(viewer.may_daemon(Role::Owner).unwrap_err().code, RefusalCode::Forbidden);
    }

    // covers: 002-067, 004-042
    #[test]
    fn only_an_owner_switches_questions_off_and_only_if_portolan_allows_it() {
        let may = |role, asks, bypass| principal(role, None).may_use_mode("m", asks, bypass).is_ok();
        for bypass in [Bypass::Refused, Bypass::ForOwners] {
            for asks in [Asks::Everything, Asks::Some] {
                assert!(may(Role::Operator, asks, bypass), "{asks:?} {bypass:?}");
            }
            assert!(!may(Role::Operator, Asks::Unknown, bypass));
            assert!(!may(Role::Operator, Asks::Nothing, bypass));
            assert!(may(Role::Owner, Asks::Unknown, bypass));
        }
        assert!(!may(Role::Owner, Asks::Nothing, Bypass::Refused), "not even an owner");
        assert!(may(Role::Owner, Asks::Nothing, Bypass::ForOwners));
        let why = principal(Role::Owner, None).may_use_mode("yo\u{1b}lo", Asks::Nothing, Bypass::Refused);
        let why = why.unwrap_err();
        assert!(why.message.contains("`yolo`"), "{why}");
        assert_eq!(why.way_out, Some(WayOut::ChangeSetting { key: "policy.allow_bypass".into() }));
    }

    #[test]
    fn an_older_entry_names_what_policy_decided_by_as_a_new_one_does() {
        let named = [
            (PolicySource::Rule, "deny Bash(rm -r)", "rule deny Bash(rm -r)"),
            (PolicySource::Mode, "mode acceptEdits", "mode acceptEdits"),
            (PolicySource::Budget, "budget of this session", "budget of this session"),
            (PolicySource::Limit, "at most 64 open requests", "limit: at most 64 open requests"),
        ];
        for (source, words, shown) in named {
            let now = Actor::policy(source, words);
            let older: Actor =
                serde_json::from_value(serde_json::json!({ "kind": "policy", "rule": words })).unwrap();
            assert_eq!(older, Actor::Policy { rule: words.into(), source: None });
            assert_eq!((now.to_string(), older.to_string()), (shown.into(), shown.into()));
        }
    }

    #[test]
    fn a_bound_token_cannot_tell_another_session_from_none() {
        let (mine, other) = (SessionId::new(), SessionId::new());
        let bound = principal(Role::Owner, Some(mine));
        assert!(bound.may(Role::Owner, mine).is_ok());
        assert_eq!(bound.may(Role::Viewer, other).unwrap_err(), Refusal::no_session(other));
        assert!(bound.may_daemon(Role::Viewer).is_err());
    }
}
