//! The ways out of refusals as commands of this program, and of what only this program can mend.

use portolan_core::{Refusal, WayOut};
use portolan_host::{BindError, door::DoorError};

/// What is wrong, and the command that helps.
pub(crate) fn told(refusal: &Refusal) -> String {
    match refusal.way_out.as_ref().and_then(words) {
        Some(words) => format!("{}; {words}", refusal.message),
        None => refusal.message.clone(),
    }
}

/// A way out in words; none for one of a newer daemon.
fn words(way_out: &WayOut) -> Option<String> {
    Some(match way_out {
        WayOut::ListSessions => "`portolan ls` shows what there is".into(),
        WayOut::NewSession => "`portolan new AGENT` starts another session".into(),
        WayOut::UseSession { session } => {
            format!("use that session (`portolan attach {session}`), or fork it (`portolan fork {session}`)")
        }
        WayOut::ResumeSession { session } => format!("`portolan resume {session}` starts it again"),
        WayOut::StopSession { session } => format!("`portolan stop {session}` first"),
        WayOut::SendAgain { session, command } => {
            format!("`portolan resend {session} {command}` sends it again")
        }
        WayOut::EndAnotherAgent { setting } => format!(
            "end one (`portolan ls` shows them, `portolan stop ID`), or raise `{setting}` in portolan.toml and start \
             Portolan again"
        ),
        WayOut::ListPast => "`portolan past` shows what there is".into(),
        WayOut::NameFolder { agent } => format!("name one: `portolan past {agent} --cwd FOLDER`"),
        WayOut::CopyPast => "or go on in a copy (`--fork`)".into(),
        WayOut::ChangeSetting { key } => {
            format!("`{key}` in portolan.toml decides this; start Portolan again after a change")
        }
        WayOut::AskForRole { role } => {
            format!("an owner makes a token with that role: `portolan token create NAME --role {role}`")
        }
        WayOut::ListTokens => "`portolan token list` shows what there is".into(),
        WayOut::RevokeToken => "`portolan token revoke TOKEN` makes room".into(),
        WayOut::RotateOwnerToken => "`portolan token rotate` does that".into(),
        WayOut::Other(_) => return None,
    })
}

/// Why an address cannot be had, and what else to listen on.
pub(crate) fn of_bind(error: &BindError) -> String {
    match error {
        BindError::Main(DoorError::Taken(_)) => format!(
            "{error} (`portolan status`); `portolan up --listen 127.0.0.1:0` picks a free port, `listen.address` in \
             portolan.toml names another for good"
        ),
        BindError::Own { frontend, error: DoorError::Taken(_) } => {
            format!("{error} (`portolan status`); `{frontend}.listen` in portolan.toml names another")
        }
        BindError::Main(_) | BindError::Own { .. } => error.to_string(),
    }
}

/// How an agent is logged in: in the agent's own words, and by a command of ours where there is one.
pub(crate) fn of_login(agent: &str, own: &str, logins: &[portolan_core::ports::LoginWay]) -> String {
    if logins.is_empty() {
        return own.to_owned();
    }
    format!("{own}; through Portolan: `portolan account {agent} login`")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser as _;
    use portolan_core::{RefusalCode, SessionId};

    use super::*;

    #[test]
    fn every_way_out_has_words_of_its_own_on_the_command_line() {
        let mut seen = HashSet::new();
        for way_out in WayOut::one_of_each() {
            let Some(words) = words(&way_out) else {
                assert!(matches!(way_out, WayOut::Other(_)), "{way_out:?} has no words");
                continue;
            };
            let refusal = Refusal::new(RefusalCode::Invalid, "it is wrong").with_way_out(way_out);
            assert_eq!(told(&refusal), format!("it is wrong; {words}"));
            assert!(seen.insert(words), "{refusal:?}");
        }
    }

    #[test]
    fn a_command_that_is_named_is_one_that_this_program_has() {
        for way_out in WayOut::one_of_each() {
            let words = words(&way_out).unwrap_or_default();
            for command in words.split('`').filter(|part| part.starts_with("portolan ")) {
                // A daemon's session has an id; `NAME` and the like are words of their own.
                let parsed = crate::arguments::Arguments::try_parse_from(command.split(' '));
                assert!(parsed.is_ok(), "`{command}`: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_session_that_is_meant_is_named_in_full() {
        let session = SessionId::from_u128(7);
        let refusal = Refusal::new(RefusalCode::NotRunning, "the agent is not running")
            .with_way_out(WayOut::ResumeSession { session });
        assert_eq!(
            told(&refusal),
            "the agent is not running; `portolan resume 00000000-0000-0000-0000-000000000007` starts it again"
        );
    }

    #[test]
    fn a_login_through_portolan_is_named_where_there_is_one() {
        use portolan_core::ports::LoginWay;
        assert_eq!(of_login("claude", "run `claude /login`", &[]), "run `claude /login`");
        let here = of_login("codex", "run `codex login`", &[LoginWay::Browser]);
        assert_eq!(here, "run `codex login`; through Portolan: `portolan account codex login`");
    }
}
