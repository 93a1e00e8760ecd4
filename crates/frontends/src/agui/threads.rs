//! Threads of clients and our sessions: the session of each thread, and the active session if none is named.
//!
//! A thread is stored, so that a page finds its session again after a restart. A thread named by a session id is that
//! session. Core decides who may see a session; knowing a thread gives no access.

use std::sync::{Arc, Mutex, PoisonError};

use portolan_core::{
    CommandId, Principal, Refusal, RefusalCode, Role, SessionId, SessionSpec, ports::SessionQuery,
    registry::Registry, session::state::Summary, spec::MAX_NAME,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    DEFAULT_AGENT, Settings, UnknownThreads,
    kept::{self, Name},
};

/// The thread that always stands for the active session.
pub(super) const ACTIVE: &str = "active";

/// How many live sessions are searched for the active one.
const LISTED: u32 = 200;

/// The selected active session, and the newest session at that time: a newer session replaces the selection.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    session: SessionId,
    newest: SessionId,
}

/// The sessions of threads.
#[derive(Debug)]
pub(super) struct Threads {
    chosen: Mutex<Option<Chosen>>,
    /// Only one session is created at a time, so that two first runs on a thread create one session; a client that
    /// connects meanwhile waits until the session exists and has its message.
    making: Arc<Semaphore>,
}

impl Default for Threads {
    fn default() -> Self {
        Self { chosen: Mutex::new(None), making: Arc::new(Semaphore::new(1)) }
    }
}

/// The client, the agent and the thread of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The client.
    pub who: &'a Principal,
    /// The agent as the client named it.
    pub agent: &'a str,
    /// The thread.
    pub thread: &'a str,
}

/// The session of a thread.
#[derive(Debug)]
pub(super) struct Found {
    /// The session.
    pub summary: Summary,
    /// Set if the session was just created. Until this is dropped, nobody finds the thread without its first message.
    pub making: Option<OwnedSemaphorePermit>,
}

impl Threads {
    /// The active session: the selected one, unless a newer session was created or it has ended; otherwise the newest
    /// session that is live or asleep.
    pub(super) async fn active(
        &self,
        registry: &Registry,
        who: &Principal,
    ) -> Result<Option<Summary>, Refusal> {
        let query = SessionQuery { archived: Some(false), live: false, before: None, limit: LISTED };
        let mut live = registry.list(who, query).await?;
        live.retain(Summary::is_open);
        let newest = live.first().map(|summary| summary.session);
        let chosen = *self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = chosen.filter(|chosen| newest.is_none_or(|newest| newest <= chosen.newest));
        let place = standing.and_then(|chosen| live.iter().position(|one| one.session == chosen.session));
        Ok(if live.is_empty() { None } else { Some(live.swap_remove(place.unwrap_or(0))) })
    }

    /// Makes this session the active one, for every client. A token that is bound to sessions may not do this.
    pub(super) async fn choose(
        &self,
        registry: &Registry,
        who: &Principal,
        session: SessionId,
    ) -> Result<Summary, Refusal> {
        who.may_daemon(Role::Operator)?;
        let summary = registry.snapshot(who, session).await?.state.summary.clone();
        if !summary.is_open() || summary.archived {
            let message = format!("session `{session}` has ended; only a live session can be active");
            return Err(Refusal::new(RefusalCode::NotRunning, message));
        }
        let query = SessionQuery { archived: None, live: false, before: None, limit: 1 };
        let newest = registry.list(who, query).await?.first().map_or(session, |newest| newest.session);
        let chosen = Chosen { session, newest: newest.max(session) };
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some(chosen);
        Ok(summary)
    }

    /// The session of a thread, if it has one that this client may see.
    pub(super) async fn find(
        &self,
        registry: &Registry,
        wanted: Wanted<'_>,
    ) -> Result<Option<Summary>, Refusal> {
        let Wanted { who, agent, thread } = wanted;
        if thread.is_empty() || thread == ACTIVE {
            let active = self.active(registry, who).await?;
            return Ok(active.filter(|active| agent == DEFAULT_AGENT || active.agent == agent));
        }
        if let Ok(session) = thread.parse::<SessionId>()
            && let Some(summary) = seen(registry, who, session).await?
        {
            return Ok(Some(summary));
        }
        for agent_of_name in [None, Some(agent)] {
            let name = Name { thread, agent: agent_of_name };
            let Some(session) = kept::session_of(registry, name).await? else { continue };
            if let Some(summary) = seen(registry, who, session).await?
                && (agent == DEFAULT_AGENT || summary.agent == agent)
            {
                return Ok(Some(summary));
            }
        }
        Ok(None)
    }

    /// Like [`Self::find`], but waits for a session that is being created.
    pub(super) async fn find_made(
        &self,
        registry: &Registry,
        wanted: Wanted<'_>,
    ) -> Result<Option<Summary>, Refusal> {
        // A thread without a message may be under construction, with its first message on the way.
        if let Some(found) = self.find(registry, wanted).await?
            && (found.turns > 0 || found.queued > 0)
        {
            return Ok(Some(found));
        }
        // Never closed.
        drop(self.making.acquire().await);
        self.find(registry, wanted).await
    }

    /// The session of a thread; a new session if it has none.
    pub(super) async fn find_or_make(
        &self,
        registry: &Registry,
        settings: &Settings,
        wanted: Wanted<'_>,
        words: &str,
    ) -> Result<Found, Refusal> {
        let known = |summary| Found { summary, making: None };
        if let Some(summary) = self.find(registry, wanted).await? {
            return Ok(known(summary));
        }
        // The session of a thread is the same for every client: a token that is bound to sessions may not set it.
        wanted.who.may_daemon(Role::Operator)?;
        // Never closed.
        let making = Arc::clone(&self.making).acquire_owned().await.ok();
        if let Some(summary) = self.find(registry, wanted).await? {
            return Ok(known(summary));
        }
        let Wanted { who, agent, thread } = wanted;
        let active = match agent {
            DEFAULT_AGENT => self.active(registry, who).await?,
            _ => None,
        };
        if settings.unknown_threads == UnknownThreads::JoinActive
            && let Some(active) = &active
        {
            kept::keep(registry, Name { thread, agent: None }, active.session).await?;
            return Ok(known(active.clone()));
        }
        let kind = match agent {
            DEFAULT_AGENT => active.map_or_else(|| settings.agent.clone(), |active| active.agent),
            named => named.to_owned(),
        };
        let name: String =
            words.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect();
        debug_assert!(name.chars().count() <= MAX_NAME);
        let spec = SessionSpec {
            agent: kind,
            cwd: settings.folder.clone().unwrap_or_default(),
            name: Some(name).filter(|name| !name.trim().is_empty()),
            ..SessionSpec::default()
        };
        let made = registry.create(who, CommandId::random(), spec).await?;
        if !thread.is_empty() && thread != ACTIVE {
            // A thread keeps its session of another agent; this session gets a key of thread and agent.
            let taken = kept::session_of(registry, Name { thread, agent: None }).await?.is_some();
            let agent = (taken && agent != DEFAULT_AGENT).then_some(agent);
            kept::keep(registry, Name { thread, agent }, made.session).await?;
        }
        Ok(Found { summary: made, making })
    }

    /// Deletes a session that was created for a message that was refused: the session is empty.
    pub(super) async fn unmake(&self, registry: &Registry, session: SessionId) {
        if let Err(refusal) = registry.delete(&kept::own(), session).await {
            tracing::warn!(%session, %refusal, "a session in which nothing was said stays");
        }
    }
}

/// The session, if this client may see it.
async fn seen(registry: &Registry, who: &Principal, session: SessionId) -> Result<Option<Summary>, Refusal> {
    match registry.snapshot(who, session).await {
        Ok(snapshot) => Ok(Some(snapshot.state.summary.clone()).filter(|summary| !summary.archived)),
        Err(refusal) if matches!(refusal.code, RefusalCode::NotFound | RefusalCode::Ended) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}
