//! Registers a page's tools with an agent: the server once for each start of the agent, its list whenever it has
//! changed.
//!
//! Between turns, the agent reconnects for a changed list, and then has it. During a turn a reconnect would cut waiting
//! calls, so the agent gets a notification instead; an agent that ignores notifications (Claude Code 2.1.120 does) has
//! the new list with its next turn.

use std::time::Duration;

use indexmap::IndexMap;
use portolan_core::{
    Action, CommandId, Generation, SessionId,
    command::Stage,
    session::state::{State, Status},
};
use serde_json::json;
use tokio::time::Instant;

use super::{FrontendTools, PATH, Page, SERVER, own};
use crate::way_out;
use portolan_host::door::{Digest, Secret, SecretKind};

/// Time between two checks of a command's progress.
const LOOK: Duration = Duration::from_millis(25);

impl FrontendTools {
    /// Ensures that the agent has the offer with this number; otherwise returns the reason. However many runs offer
    /// tools at once, each waits no longer than its own timeout.
    pub(super) async fn tell(&self, session: SessionId, page: &Page, number: u64) -> Result<(), String> {
        let patience = self.0.limits.register;
        let telling = async {
            let Ok(_turn) = page.telling.acquire().await else { return Ok(()) };
            // The run before may already have registered this offer.
            self.tell_now(session, page, number).await
        };
        tokio::time::timeout(patience, telling).await.unwrap_or_else(|_| Err(self.late()))
    }

    fn late(&self) -> String {
        format!("the agent did not fetch the page's tools within {} s", self.0.limits.register.as_secs())
    }

    async fn tell_now(&self, session: SessionId, page: &Page, number: u64) -> Result<(), String> {
        let snapshot = self.0.registry.snapshot(&own(), session).await;
        let state = snapshot.map_err(|refusal| way_out::told(&refusal))?.state;
        if !state.capabilities.mcp_changes {
            return Err(format!("the agent `{}` does not accept MCP servers", state.summary.agent));
        }
        if knows(page, &state) && *page.counter.fetched.borrow() >= number {
            return Ok(());
        }
        let is_absent = page.told(|told| told.absent == Some(state.generation));
        if is_absent && *page.counter.fetched.borrow() == 0 {
            return Err(self.late());
        }
        if !knows(page, &state) {
            self.register(session, page, state.generation).await?;
            return self.fetches(page, number, self.0.limits.register).await;
        }
        if state.summary.status == Status::Active || page.counter.desk.is_busy() {
            page.place.tell_changed().await;
            if self.fetches(page, number, self.0.limits.fetch).await.is_err() {
                return Err("the agent gets the page's new tools when its turn has ended".to_owned());
            }
            return Ok(());
        }
        self.carry_out(session, Action::McpReconnect { server: SERVER.to_owned() }).await?;
        self.fetches(page, number, self.0.limits.register).await
    }

    async fn register(&self, session: SessionId, page: &Page, generation: Generation) -> Result<(), String> {
        let Some(base) = self.address() else {
            return Err(
                "agents reach page tools only where Portolan listens on loopback without TLS".to_owned()
            );
        };
        let secret = Secret::random(SecretKind::PageTools).map_err(|refusal| refusal.message)?;
        let server = json!({
            "type": "http",
            "url": format!("{base}{PATH}{session}"),
            "headers": { "Authorization": format!("Bearer {}", secret.expose()) },
        });
        // An agent that has not fetched the tools yet may never do so: only one run waits for that.
        page.told(|told| told.absent = Some(generation));
        // The fetches of an earlier start do not count. The agent may fetch the list before it confirms the server.
        page.counter.fetched.send_replace(0);
        let given = Given::to(page, generation, secret.digest());
        let servers = IndexMap::from([(SERVER.to_owned(), server)]);
        self.carry_out(session, Action::McpSet { servers, keep: true }).await?;
        given.arrived();
        Ok(())
    }

    /// Waits until the agent has fetched the offer with this number.
    async fn fetches(&self, page: &Page, number: u64, patience: Duration) -> Result<(), String> {
        let mut fetched = page.counter.fetched.subscribe();
        match tokio::time::timeout(patience, fetched.wait_for(|fetched| *fetched >= number)).await {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(format!("the agent did not fetch the page's tools within {} s", patience.as_secs()))
            }
        }
    }

    /// Sends a command to the agent, and waits until it is done.
    async fn carry_out(&self, session: SessionId, action: Action) -> Result<(), String> {
        let (id, own) = (CommandId::random(), own());
        let deadline = Instant::now() + self.0.limits.register;
        loop {
            // The same id again does nothing and returns the progress.
            let receipt = self.0.registry.submit(&own, session, id.clone(), action.clone()).await;
            match receipt.map_err(|refusal| way_out::told(&refusal))?.stage {
                Stage::Consumed { .. } => return Ok(()),
                Stage::Refused { refusal } => return Err(way_out::told(&refusal)),
                Stage::Uncertain { reason } => return Err(reason),
                Stage::Accepted | Stage::Sending | Stage::Delivered if Instant::now() >= deadline => {
                    return Err("the agent takes long to connect to the page's tools".to_owned());
                }
                Stage::Accepted | Stage::Sending | Stage::Delivered => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

/// A secret on its way to the agent. If it is dropped before it is certain that the agent has it, the server is
/// registered again next time.
struct Given<'p> {
    page: &'p Page,
    is_known: bool,
}

impl<'p> Given<'p> {
    fn to(page: &'p Page, generation: Generation, digest: Digest) -> Self {
        page.told(|told| told.secret = Some((generation, digest)));
        Self { page, is_known: false }
    }

    fn arrived(mut self) {
        self.is_known = true;
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if !self.is_known {
            self.page.told(|told| told.secret = None);
        }
    }
}

/// Whether this start of the agent got the server, and still has it: somebody may have replaced its servers.
fn knows(page: &Page, state: &State) -> bool {
    let was_told =
        page.told(|told| told.secret.is_some_and(|(generation, _)| generation == state.generation));
    was_told && (state.mcp_servers.is_empty() || state.mcp_servers.iter().any(|server| server.name == SERVER))
}
