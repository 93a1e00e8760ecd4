//! Past conversations: listing them, and importing them as sessions with their messages.
//!
//! An import is all or nothing. Its entries are written in pieces, so that a long conversation is never in memory
//! whole; the session exists with the last piece. Until then a record marks the import, and the next start deletes what
//! a crash left behind. Portolan never writes where the agent keeps its conversations.

mod import;
mod shelving;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::SemaphorePermit;
use tokio_util::task::AbortOnDropHandle;

use self::import::Import;
pub use self::shelving::PastMove;
use super::{
    LIST_PAGE, Registry, SHORTEST_PART,
    alone::Alone,
    broken,
    create::{CREATING, Known, Wanted, folder},
    gone,
};
use crate::{
    Capabilities, CommandId, LogId, Principal, Refusal, RefusalCode, Role, SessionId, SessionSpec, WayOut,
    command::CommandKey,
    ports::{Agent, Op, Past, PastError, PastPlace, PastQuery, PastSession, SessionQuery, StoreError, Write},
    session::state::Summary,
    spec::MAX_NAME,
};

/// The most conversations that one list holds.
pub const PAST_LISTED: u32 = 1000;

/// How many lists and imports run at once. Each reads many files or starts an agent; more would only wait for the same
/// disk.
pub(super) const PAST_AT_ONCE: usize = 4;

/// How long an agent may take for its list, or for the next piece of a conversation. Some agents must first be started,
/// and a large agent on a busy machine takes most of a minute for that alone.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long an agent may take for its list if other agents are asked too: one that hangs must not delay the others.
const ONE_OF_MANY: Duration = Duration::from_secs(20);

/// The collection of unfinished imports, by the session that each will become.
const IMPORTS: &str = "imports";

/// Two sessions must not continue one conversation: a second caller comes back for the first caller's session.
pub(super) const IMPORTING: &str = "this conversation is being imported; try again in a moment";

/// A past conversation, as frontends list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct PastDescription {
    /// The agent kind.
    pub agent: String,
    /// The agent's description of the conversation.
    #[serde(flatten)]
    pub past: PastSession,
    /// The session that already continues this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub session: Option<SessionId>,
}

/// Which conversations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastListing {
    /// Only conversations of this agent.
    pub agent: Option<String>,
    /// Only conversations held in this folder or below it.
    pub cwd: Option<PathBuf>,
    /// Only archived conversations, or only the others.
    pub place: PastPlace,
    /// The largest number of conversations.
    pub limit: u32,
}

/// A conversation to import.
#[derive(Clone, Debug, PartialEq)]
pub struct TakeUp {
    /// The agent's own id of the conversation, or a unique beginning or end.
    pub past: String,
    /// Keep the original conversation unchanged: the agent continues in a copy.
    pub copy: bool,
    /// The session's other settings. An empty agent means any agent that has the conversation; an empty folder means
    /// the conversation's own folder.
    pub spec: SessionSpec,
}

/// The session that continues a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenUp {
    /// The session.
    pub session: Summary,
    /// The session already existed, and nothing was created.
    pub already: bool,
}

/// An agent that keeps conversations, and the conversations.
type Source = (Arc<dyn Agent>, Arc<dyn Past>);

/// A conversation that was found, and its agent.
struct Found {
    agent: Arc<dyn Agent>,
    past: Arc<dyn Past>,
    session: PastSession,
}

impl Registry {
    /// Past conversations, newest first, without those outside of the folders that sessions may use.
    pub async fn past(&self, who: &Principal, listing: PastListing) -> Result<Vec<PastDescription>, Refusal> {
        who.may_daemon(Role::Operator)?;
        let limit = listing.limit.clamp(1, PAST_LISTED) as usize;
        let below = match &listing.cwd {
            Some(cwd) => vec![folder(cwd, &self.shared.policy.roots)?],
            None => self.real_roots(),
        };
        let query = PastQuery { limit, below, part: None, place: listing.place };
        let lists = self.lists(self.with_past(listing.agent.as_deref(), listing.place)?, &query).await;
        let living = self.living().await?;
        let mut all: Vec<PastDescription> = Vec::new();
        for ((agent, _), listed) in lists {
            let kind = agent.kind();
            let described = |past: PastSession| PastDescription {
                session: living.get(&(kind.to_owned(), past.past.clone())).copied(),
                agent: kind.to_owned(),
                past,
            };
            match listed {
                Ok(found) => all.extend(found.into_iter().map(described)),
                Err(refusal) if listing.agent.is_some() => return Err(refusal),
                // The other agents' lists are still useful.
                Err(refusal) => passed_over(kind, &refusal),
            }
        }
        once_each(&mut all, |one| (&one.past, one.session.is_some()));
        all.sort_by(|a, b| {
            b.past.updated_at.cmp(&a.past.updated_at).then_with(|| a.past.past.cmp(&b.past.past))
        });
        all.truncate(limit);
        Ok(all)
    }

    /// Imports a conversation: a new session with its messages, whose agent resumes it with the next prompt; or the
    /// session that already continues it, unless a copy is requested. The same id of the same token again gives the
    /// same session.
    pub async fn take_up(&self, who: &Principal, id: CommandId, asked: TakeUp) -> Result<TakenUp, Refusal> {
        who.may_daemon(Role::Operator)?;
        if !asked.spec.env.is_empty() || !asked.spec.mcp_servers.is_empty() {
            who.may_daemon(Role::Owner)?;
        }
        if asked.spec.resume.is_some() || asked.spec.fork.is_some() {
            let message =
                "an import needs only the id of the past conversation; leave `resume` and `fork` out";
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        self.store_takes_writes()?;
        let (registry, who) = (self.clone(), who.clone());
        // Runs on its own task: the caller may leave, but the import is finished.
        let taken = tokio::spawn(async move { registry.take_up_now(&who, id, asked).await });
        taken.await.unwrap_or_else(|_| {
            Err(Refusal::new(RefusalCode::Internal, "internal error while importing the conversation"))
        })
    }

    async fn take_up_now(&self, who: &Principal, id: CommandId, asked: TakeUp) -> Result<TakenUp, Refusal> {
        let key = CommandKey { token: who.token.clone(), id };
        let _under_way = Alone::enter(&self.shared.creating, &key, CREATING)?;
        let what = Wanted::new("take_up", &(&asked.past, asked.copy, &asked.spec));
        if let Known::Made(session) = self.session_for(&key, &what).await? {
            return Ok(TakenUp { session: *session, already: false });
        }
        let found = self.find_past(&asked, PastPlace::Listed).await?;
        let kind = found.agent.kind().to_owned();
        let name = (kind.clone(), found.session.past.clone());
        let _alone = Alone::enter(&self.shared.importing, &name, IMPORTING)?;
        if !asked.copy
            && let Some(session) = self.holder(&name).await?
        {
            let handle = self.wake(session).await?;
            let session = handle.log.state().summary.clone();
            return Ok(TakenUp { session, already: true });
        }
        let capabilities = found.agent.capabilities();
        Capabilities::require(capabilities.session_resume, &kind, "resume a past conversation")?;
        Capabilities::require(!asked.copy || capabilities.session_fork, &kind, "continue in a copy")?;
        if let Some(process) = found.session.held_by.filter(|_| !asked.copy) {
            return Err(held(process, &capabilities));
        }
        let spec = filled(asked.spec, &found)?;
        let (spec, _) = self.admit(who, spec).await?;
        // Never the session that an earlier try was promised: its entries may be about to be deleted.
        let session = SessionId::new();
        self.promise(&key, session, &what).await?;
        let note =
            Op::Put { collection: IMPORTS, key: session.to_string(), value: Bytes::from_static(b"{}") };
        self.commit(LogId::Session(session), vec![note]).await?;
        let import = Import { registry: self, who, session, spec, copy: asked.copy, capabilities };
        match import.run(&found).await {
            Ok(session) => Ok(TakenUp { session, already: false }),
            Err(refusal) => {
                if let Err(error) = self.forget_import(session).await {
                    tracing::warn!(%session, %error, "the rest of an import is deleted at the next start");
                }
                Err(refusal)
            }
        }
    }

    /// Deletes the remains of imports that a crash interrupted. Called before any new import can begin.
    pub(super) async fn forget_unfinished_imports(&self) -> Result<(), StoreError> {
        for (key, _) in self.shared.store.records(IMPORTS).await? {
            if let Ok(session) = key.parse() {
                tracing::warn!(%session, "an import was cut short; nothing of it is kept");
                self.forget_import(session).await?;
            }
        }
        Ok(())
    }

    /// Does not wait for the write: a store that cannot write now does so later.
    async fn forget_import(&self, session: SessionId) -> Result<(), StoreError> {
        let note = Op::Remove { collection: IMPORTS, key: session.to_string() };
        let write = Write { log: LogId::Session(session), ops: vec![Op::Delete, note], done: None };
        self.shared.store.write(write).await
    }

    /// The agents that keep conversations: the named one, or all.
    fn with_past(&self, named: Option<&str>, place: PastPlace) -> Result<Vec<Source>, Refusal> {
        let with_past = |agent: &Arc<dyn Agent>| {
            let keeps = place == PastPlace::Listed || agent.capabilities().past_archive;
            Some((Arc::clone(agent), agent.past().filter(|_| keeps)?))
        };
        let Some(kind) = named.filter(|kind| !kind.is_empty()) else {
            return Ok(self.shared.agents.iter().filter_map(with_past).collect());
        };
        let agent = self.agent(kind).ok_or_else(|| self.no_agent(kind))?;
        let found = with_past(agent).ok_or_else(|| {
            let message = match place {
                PastPlace::Listed => format!("the agent `{kind}` lists no past conversations"),
                PastPlace::Archived => format!("the agent `{kind}` cannot archive past conversations"),
            };
            Refusal::new(RefusalCode::Unsupported, message)
        })?;
        Ok(vec![found])
    }

    /// The lists of these agents, asked in parallel, in their order.
    async fn lists(
        &self,
        sources: Vec<Source>,
        query: &PastQuery,
    ) -> Vec<(Source, Result<Vec<PastSession>, Refusal>)> {
        let patience = if sources.len() == 1 { PATIENCE } else { ONE_OF_MANY };
        let asked = sources.into_iter().map(|source| {
            let (registry, past, query) = (self.clone(), Arc::clone(&source.1), query.clone());
            // Runs on its own task, which ends with the caller.
            let list = async move { registry.list_past(&*past, query, patience).await };
            (source, AbortOnDropHandle::new(tokio::spawn(list)))
        });
        let asked: Vec<_> = asked.collect();
        let mut lists = Vec::new();
        for (source, list) in asked {
            let fault =
                |_| Refusal::new(RefusalCode::Internal, "internal error while listing past conversations");
            lists.push((source, list.await.map_err(fault).and_then(std::convert::identity)));
        }
        lists
    }

    async fn list_past(
        &self,
        past: &dyn Past,
        query: PastQuery,
        patience: Duration,
    ) -> Result<Vec<PastSession>, Refusal> {
        let _turn = self.turn().await?;
        let listed = tokio::time::timeout(patience, past.list(query)).await;
        listed.map_err(|_| too_slow(patience))?.map_err(unreadable)
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        self.shared.past_turns.acquire().await.map_err(|_| gone())
    }

    /// The conversation with the given id.
    async fn find_past(&self, asked: &TakeUp, place: PastPlace) -> Result<Found, Refusal> {
        let wanted = asked.past.as_str();
        let plain = wanted.bytes().all(|byte| byte.is_ascii_graphic());
        if wanted.len() < SHORTEST_PART || !plain {
            let message = format!(
                "`{}` is not the id of a conversation; give an id, or at least {SHORTEST_PART} characters of an id",
                wanted.escape_debug()
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        // Two matches already show that the id is not unique. A match of the full id is among them, because all ids
        // have one length.
        let below = self.real_roots();
        let query = PastQuery { limit: 2, below, part: Some(wanted.to_owned()), place };
        let lists = self.lists(self.with_past(Some(&asked.spec.agent), place)?, &query).await;
        let living = self.living().await?;
        let mut found = Vec::new();
        for ((agent, past), listed) in lists {
            let listed = match listed {
                Ok(listed) => listed,
                Err(refusal) if !asked.spec.agent.is_empty() => return Err(refusal),
                // Another agent may have the conversation.
                Err(refusal) => {
                    passed_over(agent.kind(), &refusal);
                    continue;
                }
            };
            let one = |session| Found { agent: Arc::clone(&agent), past: Arc::clone(&past), session };
            found.extend(listed.into_iter().map(one));
        }
        let lives =
            |one: &Found| living.contains_key(&(one.agent.kind().to_owned(), one.session.past.clone()));
        once_each(&mut found, |one| (&one.session, lives(one)));
        if let Some(exact) = found.iter().position(|one| one.session.past == wanted) {
            return Ok(found.swap_remove(exact));
        }
        match found.len() {
            0 => Err(Refusal::new(
                RefusalCode::NotFound,
                format!("no past conversation's id begins or ends with `{wanted}`"),
            )
            .with_way_out(WayOut::ListPast)),
            1 => Ok(found.swap_remove(0)),
            _ => Err(Refusal::new(
                RefusalCode::Invalid,
                format!(
                    "the ids of several past conversations begin or end with `{wanted}`; give more characters"
                ),
            )),
        }
    }

    /// Which session continues which conversation, by the agent and its own id.
    pub(super) async fn living(&self) -> Result<HashMap<(String, String), SessionId>, Refusal> {
        let (mut living, mut before) = (HashMap::new(), None);
        loop {
            let query = SessionQuery { archived: None, live: false, before, limit: LIST_PAGE };
            let page = self.shared.store.sessions(query).await.map_err(broken)?;
            let Some(last) = page.last() else { return Ok(living) };
            before = Some(last.session);
            for summary in page {
                // An open session is newer than its row.
                let awake = self.shared.live_sessions.awake(summary.session);
                let summary = awake.map_or(summary, |handle| handle.log.state().summary.clone());
                if let Some(own) = summary.agent_session {
                    living.entry((summary.agent, own)).or_insert(summary.session);
                }
            }
        }
    }

    /// The folders that sessions may use, by their real paths.
    fn real_roots(&self) -> Vec<PathBuf> {
        let roots = self.shared.policy.roots.iter();
        // A missing root allows nothing, but must not become "any folder".
        roots.map(|root| root.canonicalize().unwrap_or_else(|_| root.clone())).collect()
    }
}

/// The settings, completed from the conversation.
fn filled(asked: SessionSpec, found: &Found) -> Result<SessionSpec, Refusal> {
    let mut spec = SessionSpec { agent: found.agent.kind().to_owned(), ..asked };
    if spec.cwd.as_os_str().is_empty() {
        let no_folder = "the conversation names no folder; name the folder to work in (`cwd`)";
        spec.cwd = found.session.cwd.clone().ok_or_else(|| Refusal::new(RefusalCode::Invalid, no_folder))?;
    }
    let title: String = found.session.title.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    spec.name = spec.name.or_else(|| Some(title).filter(|title| !title.trim().is_empty()));
    spec.resume = Some(found.session.past.clone());
    Ok(spec)
}

/// Another program continues the conversation: the two programs would not see each other's messages.
fn held(process: u32, capabilities: &Capabilities) -> Refusal {
    let message = format!(
        "the process {process} has this conversation open, and two programs in one conversation do not see each \
         other's messages; end that process first"
    );
    let refusal = Refusal::new(RefusalCode::Invalid, message);
    if capabilities.session_fork { refusal.with_way_out(WayOut::CopyPast) } else { refusal }
}

/// Two agents can keep the same conversation: a program and its adapter. It is listed once: by the agent that already
/// continues it here, otherwise by the first.
fn once_each<T>(all: &mut Vec<T>, told: impl Fn(&T) -> (&PastSession, bool)) {
    let name = |past: &PastSession| (past.past.clone(), past.cwd.clone());
    let mut chosen: HashMap<_, usize> = HashMap::new();
    for (place, one) in all.iter().enumerate() {
        let (past, lives) = told(one);
        let first = *chosen.entry(name(past)).or_insert(place);
        if lives && all.get(first).is_some_and(|first| !told(first).1) {
            chosen.insert(name(past), place);
        }
    }
    let chosen: HashSet<usize> = chosen.into_values().collect();
    let mut place = 0..;
    all.retain(|_| place.next().is_some_and(|place| chosen.contains(&place)));
}

/// The other agents' lists are still useful.
fn passed_over(agent: &str, refusal: &Refusal) {
    if refusal.code == RefusalCode::Unsupported {
        return tracing::debug!(agent, %refusal, "an agent lists no past conversations");
    }
    tracing::warn!(agent, %refusal, "past conversations cannot be listed");
}

fn too_slow(patience: Duration) -> Refusal {
    let message =
        format!("the agent took longer than {} s to list its past conversations", patience.as_secs());
    Refusal::new(RefusalCode::AgentRefused, message)
}

fn unreadable(error: PastError) -> Refusal {
    let code = match &error {
        PastError::NotFound(_) => RefusalCode::NotFound,
        PastError::Unreadable(_) => RefusalCode::AgentRefused,
        PastError::NotOffered(_) | PastError::NeedsFolder { .. } => RefusalCode::Unsupported,
    };
    let refusal = Refusal::new(code, error.to_string());
    match error {
        PastError::NeedsFolder { agent, .. } => refusal.with_way_out(WayOut::NameFolder { agent }),
        PastError::NotFound(_) | PastError::Unreadable(_) | PastError::NotOffered(_) => refusal,
    }
}
