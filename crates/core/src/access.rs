//! Who may do what. The door finds out who someone is; this module alone decides what that allows.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Refusal, RefusalCode, SessionId, TokenId, WayOut, capabilities::Asks};

/// What a token may do; each role includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// May also prompt and answer.
    Operator,
    /// May also manage tokens, delete, see raw agent text and reach past the unified surface.
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
    /// No, whoever asks for it.
    #[default]
    Refused,
    /// Owners may switch to such a mode.
    ForOwners,
}

/// Someone the door let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The token that opened the door.
    pub token: TokenId,
    /// The name people see.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The sessions it is bound to; `None` is all of them.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// The frontend it came by, such as `native`, `page` or `cli`.
    pub via: String,
}

impl Principal {
    /// May this principal act in `role` on `session`?
    pub fn may(&self, role: Role, session: SessionId) -> Result<(), Refusal> {
        if !self.sees(session) {
            // The same words as for a session that does not exist: a bound token learns nothing about others.
            return Err(Refusal::no_session(session));
        }
        self.has(role)
    }

    /// May this principal act in `role` on the daemon as a whole? A token bound to sessions may not.
    pub fn may_daemon(&self, role: Role) -> Result<(), Refusal> {
        if self.sessions.is_some() {
            return Err(Refusal::new(RefusalCode::Forbidden, "this token is bound to certain sessions"));
        }
        self.has(role)
    }

    /// May this principal have an agent work in `mode`, in which it asks so much? Whoever switches asking off decides for
    /// everybody who would have been asked.
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
                    "with `{shown}` {why}, so it needs the role owner; the token `{name}` has {role}; use a mode that asks"
                );
                refuse(why, WayOut::AskForRole { role: Role::Owner })
            }
            Asks::Nothing if bypass == Bypass::Refused => {
                let why = format!(
                    "with `{shown}` the agent asks nobody before it acts, which is switched off here; use a mode that asks"
                );
                refuse(why, WayOut::ChangeSetting { key: "sessions.allow_bypass".into() })
            }
            Asks::Unknown | Asks::Nothing => Ok(()),
        }
    }

    /// Is this session within what the token is bound to?
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
    /// Someone with a token.
    Person {
        /// Whose token.
        token: TokenId,
        /// The name people see.
        name: String,
        /// The frontend used.
        via: String,
    },
    /// A rule of the session or the configuration.
    Policy {
        /// The rule, as people read it.
        rule: String,
    },
    /// Time ran out.
    Deadline,
    /// The agent itself.
    Agent,
    /// Portolan: start, stop, recovery.
    Daemon,
    /// Nobody here: it was said before Portolan, or beside it, and came over with a conversation that was taken up.
    Imported,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person { name, via, .. } => write!(f, "{name} ({via})"),
            Self::Policy { rule } => write!(f, "rule {rule}"),
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
    fn who_switches_asking_off_is_an_owner_and_portolan_allows_it() {
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
        assert_eq!(why.way_out, Some(WayOut::ChangeSetting { key: "sessions.allow_bypass".into() }));
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
