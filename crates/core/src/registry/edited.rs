//! Edited calls: what a person changes before approving a call is compared with the rules again, because the rules saw
//! the call only as the agent made it. The task of the session still checks everything else about the answer.

use std::time::Duration;

use serde_json::Value;

use super::{Registry, rules::Here};
use crate::{
    Action, Refusal, RefusalCode, WayOut,
    policy::{Decision, Effect},
    request::{Answer, Ask},
    session::task::Handle,
};

/// How long the look at the disk may take. One that takes longer is over a network that hangs.
const LOOK: Duration = Duration::from_secs(1);

/// When a sender may try again after the disk did not answer.
const AGAIN_MS: u32 = 1000;

impl Registry {
    /// Refuses an answer that approves another call than the agent asked about, if a rule denies the other call.
    pub(super) async fn guard_edit(&self, handle: &Handle, action: &Action) -> Result<(), Refusal> {
        let Action::Answer { request, answer, .. } = action else { return Ok(()) };
        let (here, ask) = {
            let state = handle.log.state();
            // A request that is closed or not known is refused for that reason.
            let open = state.requests.iter().find(|open| open.request == *request);
            let Some(ask) = open.and_then(|open| edited(&open.ask, answer)) else { return Ok(()) };
            (Here::of(&state), ask)
        };
        let judged = tokio::time::timeout(LOOK, self.judge(here, ask)).await.map_err(|_| {
            let why = "the disk does not answer, so Portolan cannot compare the edited call with the rules; try again, \
                       or answer without an edited input";
            Refusal::busy(why, AGAIN_MS)
        })??;
        let denied = judged.filter(|judgement| judgement.decision == Decision::Deny);
        let denies = format!("{} ", Effect::Deny);
        let Some(rule) =
            denied.and_then(|judged| judged.rules.into_iter().find(|rule| rule.line.starts_with(&denies)))
        else {
            return Ok(());
        };
        let why =
            format!("the rule `{}` denies the edited call; change the input, or deny the request", rule.line);
        Err(Refusal::new(RefusalCode::Forbidden, why).with_way_out(WayOut::RemoveRule { rule: rule.rule }))
    }
}

/// The call that this answer approves, if it is another one than the agent asked about.
fn edited(ask: &Ask, answer: &Answer) -> Option<Ask> {
    let with = |tool: &str, input: &Value, at: Option<&str>| {
        let mut call = Ask::permission(tool, input.clone());
        if let Ask::Permission { folder, .. } = &mut call {
            *folder = at.map(str::to_owned);
        }
        call
    };
    match (ask, answer) {
        // The changes that the agent showed are those of its own input.
        (Ask::Permission { tool_name, folder, .. }, Answer::Allow { input: Some(input), .. }) => {
            Some(with(tool_name, input, folder.as_deref()))
        }
        // A hook of Claude Code before a call, or about a permission, may answer with another input.
        (Ask::Hook { input: told, .. }, Answer::Output { output }) => {
            let tool = told["tool_name"].as_str()?;
            let specific = &output["hookSpecificOutput"];
            let inputs = [&specific["updatedInput"], &specific["decision"]["updatedInput"]];
            let input = inputs.into_iter().find(|input| !input.is_null())?;
            Some(with(tool, input, told["cwd"].as_str()))
        }
        _ => None,
    }
}
