//! Archiving past conversations: the agent archives them in its own list, and restores them.

use super::{PATIENCE, PastDescription, TakeUp, too_slow, unreadable};
use crate::{
    Capabilities, Principal, Refusal, RefusalCode, Role, SessionSpec, WayOut, ports::PastPlace,
    registry::Registry,
};

/// A conversation to archive or to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastMove {
    /// The agent that keeps the conversation; any agent if empty.
    pub agent: String,
    /// The agent's own id of the conversation, or a unique beginning.
    pub past: String,
    /// The new place.
    pub place: PastPlace,
}

impl Registry {
    /// Lets an agent archive a conversation in its own list, or restore it. Refused while a session uses the
    /// conversation.
    pub async fn move_past(&self, who: &Principal, asked: PastMove) -> Result<PastDescription, Refusal> {
        who.may_daemon(Role::Operator)?;
        let PastMove { agent, past, place } = asked;
        if let Some(agent) = self.agent(&agent) {
            let able = agent.capabilities().past_archive;
            Capabilities::require(able, agent.kind(), "archive a past conversation")?;
        }
        let spec = SessionSpec { agent, ..SessionSpec::default() };
        let found = self.find_past(&TakeUp { past, copy: false, spec }, place.other()).await?;
        let (agent, past) = (found.agent.kind().to_owned(), found.session.past.clone());
        let able = found.agent.capabilities().past_archive;
        Capabilities::require(able, &agent, "archive a past conversation")?;
        // Before the check whether the conversation is in use: waiting here may take long.
        let _turn = self.turn().await?;
        let session = self.living().await?.get(&(agent.clone(), past.clone())).copied();
        if let Some(session) = session
            && self.wake(session).await?.log.state().summary.is_live()
        {
            let message = format!("the session `{session}` uses this conversation");
            return Err(
                Refusal::new(RefusalCode::Invalid, message).with_way_out(WayOut::StopSession { session })
            );
        }
        let moved = tokio::time::timeout(PATIENCE, found.past.put(past, place)).await;
        moved.map_err(|_| too_slow(PATIENCE))?.map_err(unreadable)?;
        Ok(PastDescription { agent, past: found.session, session })
    }
}
