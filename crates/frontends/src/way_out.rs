//! The ways out of refusals as plain text, for the protocols that have only a text: AG-UI, insights and the handheld.
//! The texts name no command, because their readers may have no command line.

use portolan_core::{Refusal, WayOut};

/// The message of a refusal, and its way out.
pub fn told(refusal: &Refusal) -> String {
    match refusal.way_out.as_ref().and_then(words) {
        Some(words) => format!("{}; {words}", refusal.message),
        None => refusal.message.clone(),
    }
}

/// A way out as text; none for a way out of a newer version.
fn words(way_out: &WayOut) -> Option<String> {
    Some(match way_out {
        WayOut::ListSessions => "the list of sessions shows every session".into(),
        WayOut::NewSession => "start a new session".into(),
        WayOut::UseSession { .. } => "use that session, or fork it".into(),
        WayOut::ResumeSession { .. } => "resume the session to start the agent again".into(),
        WayOut::StopSession { .. } => "stop the agent of that session first".into(),
        WayOut::SendAgain { .. } => "send the command again if the agent did not get the command".into(),
        WayOut::EndAnotherAgent { setting } => {
            format!("stop the agent of another session, or raise the setting `{setting}`")
        }
        WayOut::ListPast => "the list of past conversations shows every conversation".into(),
        WayOut::NameFolder { .. } => "name a folder".into(),
        WayOut::CopyPast => "or continue in a copy".into(),
        WayOut::ChangeSetting { key } => format!("change the setting `{key}` of Portolan"),
        WayOut::ListBudgets => {
            "the list of budgets shows what is spent; an owner raises or resets a budget".into()
        }
        WayOut::AskForRole { role } => format!("ask an owner for a token with the role {role}"),
        WayOut::RemoveRule { .. } => "or remove that rule".into(),
        WayOut::ListTokens => "the list of tokens shows every token".into(),
        WayOut::RevokeToken => "revoke a token that nobody needs".into(),
        WayOut::RotateOwnerToken => "give that token another secret instead".into(),
        WayOut::Other(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use portolan_core::RefusalCode;

    use super::*;

    #[test]
    fn every_way_out_has_plain_words_of_its_own_that_name_no_command() {
        let mut seen = HashSet::new();
        for way_out in WayOut::one_of_each() {
            let Some(words) = words(&way_out) else {
                assert!(matches!(way_out, WayOut::Other(_)), "{way_out:?} has no words");
                continue;
            };
            assert!(!words.contains("portolan ") && !words.ends_with('.'), "{words}");
            let refusal = Refusal::new(RefusalCode::Invalid, "it is wrong").with_way_out(way_out);
            assert_eq!(told(&refusal), format!("it is wrong; {words}"));
            assert!(seen.insert(words), "{refusal:?}");
        }
    }

    #[test]
    fn a_refusal_whose_way_out_is_not_known_says_what_is_wrong() {
        let refusal = Refusal::new(RefusalCode::Invalid, "it is wrong");
        assert_eq!(told(&refusal), "it is wrong");
        let newer = WayOut::Other(Box::new(serde_json::json!({ "kind": "dance" })));
        assert_eq!(told(&refusal.with_way_out(newer)), "it is wrong");
    }
}
