//! For which agents rules are advisory: said wherever the command line shows rules or what they decide.

use portolan_client::{Client, Probe};
use portolan_core::{SessionId, capabilities::RulesBind};

use crate::{
    output::{self, Format},
    terminal::clean,
};

/// What to say where the rules of this session are shown, or those of every session.
pub(super) async fn of(client: &mut Client, session: Option<SessionId>) -> Option<String> {
    if let Some(session) = session {
        let (_, state) = client.state(session).await.ok()?;
        let advisory = state.capabilities.rules == RulesBind::Advisory;
        return words(advisory.then_some(state.summary.agent).into_iter().collect());
    }
    let mut agents = client.agents(Probe::Known).await.ok()?;
    // A program that is there may be used as soon as its login or version is mended.
    agents.retain(|agent| {
        let is_here = |probe: &portolan_core::ports::Probe| probe.available || probe.program.is_some();
        agent.capabilities.rules == RulesBind::Advisory && agent.probe.as_ref().is_none_or(is_here)
    });
    words(agents.into_iter().map(|agent| agent.kind).collect())
}

/// Says it on stderr, so that the rules themselves can be piped.
pub(super) fn say(format: Format, advice: Option<String>) {
    if let (Format::Plain, Some(advice)) = (format, advice) {
        output::note(advice);
    }
}

fn words(agents: Vec<String>) -> Option<String> {
    let agents: Vec<_> = agents.iter().map(|agent| format!("`{}`", clean::line(agent))).collect();
    let listed = match agents.as_slice() {
        [] => return None,
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    let them = if agents.len() == 1 { "this agent does" } else { "these agents do" };
    Some(format!(
        "rules: advisory for {listed}: {them} some things without asking, and a rule stops only what an agent asks about"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_agents_that_act_without_asking() {
        let said = |agents: &[&str]| words(agents.iter().map(|agent| (*agent).to_owned()).collect());
        assert_eq!(said(&[]), None);
        assert!(said(&["codex"]).unwrap().starts_with("rules: advisory for `codex`: this agent does "));
        let several = said(&["codex", "goose", "qwen"]).unwrap();
        assert!(
            several.starts_with("rules: advisory for `codex`, `goose` and `qwen`: these agents do "),
            "{several}"
        );
    }
}
