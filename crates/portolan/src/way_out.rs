//! The ways out of refusals as commands of this program, and of errors that only this program knows.

use portolan_core::{Refusal, WayOut};
use portolan_host::{BindError, door::DoorError};

/// The message of a refusal, and the command that helps.
pub(crate) fn told(refusal: &Refusal) -> String {
    match refusal.way_out.as_ref().and_then(words) {
        Some(words) => format!("{}; {words}", refusal.message),
        None => refusal.message.clone(),
    }
}

/// A way out as text; none for an unknown way out from a newer daemon.
fn words(way_out: &WayOut) -> Option<String> {
    Some(match way_out {
        WayOut::ListSessions => "`portolan ls` lists the sessions".into(),
        WayOut::NewSession => "`portolan new AGENT` starts another session".into(),
        WayOut::UseSession { session } => {
            format!("use that session (`portolan attach {session}`), or fork it (`portolan fork {session}`)")
        }
        WayOut::ResumeSession { session } => format!("`portolan resume {session}` starts the agent again"),
        WayOut::StopSession { session } => format!("run `portolan stop {session}` first"),
        WayOut::SendAgain { session, command } => {
            format!("`portolan resend {session} {command}` sends the command again")
        }
        WayOut::EndAnotherAgent { setting } => format!(
            "end an agent (`portolan ls` lists the sessions, `portolan stop ID`), or raise `{setting}` in portolan.toml and \
             restart Portolan"
        ),
        WayOut::ListPast => "`portolan past` lists the past conversations".into(),
        WayOut::NameFolder { agent } => format!("name a folder: `portolan past {agent} --cwd FOLDER`"),
        WayOut::CopyPast => "or continue in a copy (`--fork`)".into(),
        WayOut::ChangeSetting { key } => {
            format!("change `{key}` in portolan.toml and restart Portolan")
        }
        WayOut::ListBudgets => {
            "`portolan budget list` lists the budgets; an owner can raise or reset a budget".into()
        }
        WayOut::AskForRole { role } => {
            format!("an owner creates a token with that role: `portolan token create NAME --role {role}`")
        }
        WayOut::RemoveRule { rule } => format!("`portolan rules remove {rule}` removes the rule"),
        WayOut::ListTokens => "`portolan token list` lists the tokens".into(),
        WayOut::RevokeToken => "revoke a token: `portolan token revoke TOKEN`".into(),
        WayOut::RotateOwnerToken => "`portolan token rotate` gives that token a new secret".into(),
        WayOut::Other(_) => return None,
    })
}

/// Why the daemon cannot listen on an address, and which address to use instead.
pub(crate) fn of_bind(error: &BindError) -> String {
    match error {
        BindError::Main(DoorError::Taken(_)) => format!(
            "{error} (`portolan status`); `portolan up --listen 127.0.0.1:0` picks a free port, or set another \
             `listen.address` in portolan.toml"
        ),
        BindError::Own { frontend, error: DoorError::Taken(_) } => {
            format!("{error} (`portolan status`); set another `{frontend}.listen` in portolan.toml")
        }
        BindError::Main(_) | BindError::Own { .. } => error.to_string(),
    }
}

/// How to log an agent in: with the agent's own command, and with ours if there is one.
pub(crate) fn of_login(agent: &str, own: &str, logins: &[portolan_core::ports::LoginWay]) -> String {
    if logins.is_empty() {
        return own.to_owned();
    }
    format!("{own}; or use `portolan account {agent} login`")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser as _;
    use portolan_core::{RefusalCode, SessionId};

    use super::*;

    #[test]
    fn every_way_out_has_its_own_text_on_the_command_line() {
        let mut seen = HashSet::new();
        for way_out in WayOut::one_of_each() {
            let Some(words) = words(&way_out) else {
                assert!(matches!(way_out, WayOut::Other(_)), "{way_out:?} has no text");
                continue;
            };
            let refusal = Refusal::new(RefusalCode::Invalid, "it is wrong").with_way_out(way_out);
            assert_eq!(told(&refusal), format!("it is wrong; {words}"));
            assert!(seen.insert(words), "{refusal:?}");
        }
    }

    #[test]
    fn every_command_in_a_way_out_exists() {
        for way_out in WayOut::one_of_each() {
            let words = words(&way_out).unwrap_or_default();
            for command in words.split('`').filter(|part| part.starts_with("portolan ")) {
                // Sessions have real ids here; placeholders such as `NAME` parse as ordinary values.
                let parsed = crate::arguments::Arguments::try_parse_from(command.split(' '));
                assert!(parsed.is_ok(), "`{command}`: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn a_way_out_names_its_session_in_full() {
        let session = SessionId::from_u128(7);
        let refusal = Refusal::new(RefusalCode::NotRunning, "the agent is not running")
            .with_way_out(WayOut::ResumeSession { session });
        assert_eq!(
            told(&refusal),
            "the agent is not running; `portolan resume 00000000-0000-0000-0000-000000000007` starts the agent again"
        );
    }

    #[test]
    fn a_login_through_portolan_is_named_if_there_is_one() {
        use portolan_core::ports::LoginWay;
        assert_eq!(of_login("claude", "run `claude /login`", &[]), "run `claude /login`");
        let here = of_login("codex", "run `codex login`", &[LoginWay::Browser]);
        assert_eq!(here, "run `codex login`; or use `portolan account codex login`");
    }
}
