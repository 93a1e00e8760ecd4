//! Putting past conversations away: the agent does it in its own list, and takes them out again.

use super::{PATIENCE, PastDescription, TakeUp, too_slow, unreadable};
use crate::{
    Capabilities, Principal, Refusal, RefusalCode, Role, SessionSpec, WayOut, ports::PastPlace,
    registry::Registry,
};

/// A conversation to put away, or to take out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastMove {
    /// The agent that has kept it; any where empty.
    pub agent: String,
    /// The agent's own id of it, or a unique beginning.
    pub past: String,
    /// Where to.
    pub place: PastPlace,
}

impl Registry {
    /// Has an agent put a conversation away in its own list, or take it out again. Not one that a session is just going on
    /// with.
    pub async fn move_past(&self, who: &Principal, asked: PastMove) -> Result<PastDescription, Refusal> {
        who.may_daemon(Role::Operator)?;
        let PastMove { agent, past, place } = asked;
        if let Some(agent) = self.agent(&agent) {
            let able = agent.capabilities().past_archive;
            Capabilities::require(able, agent.kind(), "put a past conversation away")?;
        }
        let spec = SessionSpec { agent, ..SessionSpec::default() };
        let found = self.find_past(&TakeUp { past, copy: false, spec }, place.other()).await?;
        let (agent, past) = (found.agent.kind().to_owned(), found.session.past.clone());
        let able = found.agent.capabilities().past_archive;
        Capabilities::require(able, &agent, "put a past conversation away")?;
        // Before the look whether it is used: waiting for a turn may take long.
        let _turn = self.turn().await?;
        let session = self.living().await?.get(&(agent.clone(), past.clone())).copied();
        if let Some(session) = session
            && self.wake(session).await?.log.state().summary.is_live()
        {
            let message = format!("the session `{session}` goes on with it");
            return Err(
                Refusal::new(RefusalCode::Invalid, message).with_way_out(WayOut::StopSession { session })
            );
        }
        let moved = tokio::time::timeout(PATIENCE, found.past.put(past, place)).await;
        moved.map_err(|_| too_slow(PATIENCE))?.map_err(unreadable)?;
        Ok(PastDescription { agent, past: found.session, session })
    }
}
