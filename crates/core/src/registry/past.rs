//! Past conversations: what agents have kept by themselves, listed, and taken up as sessions with what was said in them.
//!
//! An import is all or nothing. Its entries are written in pieces, so that a long conversation never lies in memory
//! whole; the session exists with the last piece. A note tells of it until then, and what a crash leaves behind is
//! deleted at the next start. Nothing is ever written where the agent keeps its conversations.

mod import;
mod shelving;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::SemaphorePermit;
use tokio_util::task::AbortOnDropHandle;

use self::import::Import;
pub use self::shelving::PastMove;
use super::{
    LIST_PAGE, Registry, SHORTEST_PART, broken,
    create::{Known, UnderWay, Wanted, folder},
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

/// Lists and imports at once. Each reads many files or starts an agent; more would only wait for the same disk.
pub(super) const PAST_AT_ONCE: usize = 4;

/// How long an agent may take for its list, or for the next piece of a conversation. Some are started to be asked, and a large
/// one on a busy machine takes most of a minute for that alone.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long an agent may take for its list where others are asked as well: one that hangs must not hold up theirs.
const ONE_OF_MANY: Duration = Duration::from_secs(20);

/// The collection of imports that are not finished, by the session that each will be.
const IMPORTS: &str = "imports";

/// A conversation that an agent has kept by itself, as frontends list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct PastDescription {
    /// The agent kind.
    pub agent: String,
    /// What the agent tells of it.
    #[serde(flatten)]
    pub past: PastSession,
    /// The session under which it lives here already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub session: Option<SessionId>,
}

/// Which conversations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastListing {
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only those held in this folder or below it.
    pub cwd: Option<PathBuf>,
    /// Those that are put away, or the others.
    pub place: PastPlace,
    /// At most so many.
    pub limit: u32,
}

/// A conversation to take up.
#[derive(Clone, Debug, PartialEq)]
pub struct TakeUp {
    /// The agent's own id of it, or a unique beginning or end.
    pub past: String,
    /// Leave that one as it is: the agent goes on in a copy.
    pub copy: bool,
    /// What the session is made of beside. Any agent that has the conversation when none is named; the folder that it
    /// was held in when none is named.
    pub spec: SessionSpec,
}

/// The session that goes on with a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenUp {
    /// Which.
    pub session: Summary,
    /// It lived here before, and nothing was made.
    pub already: bool,
}

/// An agent that keeps conversations, and those.
type Keeper = (Arc<dyn Agent>, Arc<dyn Past>);

/// A conversation that was found, and who keeps it.
struct Found {
    agent: Arc<dyn Agent>,
    past: Arc<dyn Past>,
    session: PastSession,
}

impl Registry {
    /// Conversations that agents have kept by themselves, the newest first, without those outside of the folders that
    /// sessions may work in.
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
                // The others are worth a list all the same.
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

    /// Takes a conversation up: a new session with what was said in it, whose agent resumes it with the next prompt; or
    /// the session under which it lives here already, unless a copy is asked for. The same id of the same token again
    /// gives the same session.
    pub async fn take_up(&self, who: &Principal, id: CommandId, asked: TakeUp) -> Result<TakenUp, Refusal> {
        who.may_daemon(Role::Operator)?;
        if !asked.spec.env.is_empty() || !asked.spec.mcp_servers.is_empty() {
            who.may_daemon(Role::Owner)?;
        }
        if asked.spec.resume.is_some() || asked.spec.fork.is_some() {
            let message = "a conversation is taken up by its own id; `resume` and `fork` have no place here";
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        self.store_takes_writes()?;
        let (registry, who) = (self.clone(), who.clone());
        // On a task of its own: whoever asked may go, but what was begun is brought to an end.
        let taken = tokio::spawn(async move { registry.take_up_now(&who, id, asked).await });
        taken.await.unwrap_or_else(|_| {
            Err(Refusal::new(RefusalCode::Internal, "a fault of ours while the conversation was taken up"))
        })
    }

    async fn take_up_now(&self, who: &Principal, id: CommandId, asked: TakeUp) -> Result<TakenUp, Refusal> {
        let key = CommandKey { token: who.token.clone(), id };
        let _under_way = UnderWay::enter(self, &key)?;
        let what = Wanted::new("take_up", &(&asked.past, asked.copy, &asked.spec));
        if let Known::Made(session) = self.session_for(&key, &what).await? {
            return Ok(TakenUp { session: *session, already: false });
        }
        let found = self.find_past(&asked, PastPlace::Listed).await?;
        let kind = found.agent.kind().to_owned();
        let name = (kind.clone(), found.session.past.clone());
        let _alone = Importing::enter(self, &name)?;
        if !asked.copy
            && let Some(session) = self.holder(&name).await?
        {
            let handle = self.wake(session).await?;
            let session = handle.log.state().summary.clone();
            return Ok(TakenUp { session, already: true });
        }
        let capabilities = found.agent.capabilities();
        Capabilities::require(capabilities.session_resume, &kind, "take up a past conversation")?;
        Capabilities::require(!asked.copy || capabilities.session_fork, &kind, "go on in a copy")?;
        if let Some(process) = found.session.held_by.filter(|_| !asked.copy) {
            return Err(held(process, &capabilities));
        }
        let spec = filled(asked.spec, &found)?;
        let (spec, _) = self.admit(who, spec).await?;
        // Never the session that an earlier try was promised: what that one wrote may be just about to be deleted.
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
                    tracing::warn!(%session, %error, "what is left of an import goes at the next start");
                }
                Err(refusal)
            }
        }
    }

    /// Deletes what imports left behind that a crash cut short. Called before anyone can begin another.
    pub(super) async fn forget_unfinished_imports(&self) -> Result<(), StoreError> {
        for (key, _) in self.shared.store.records(IMPORTS).await? {
            if let Ok(session) = key.parse() {
                tracing::warn!(%session, "an import was cut short; nothing of it is kept");
                self.forget_import(session).await?;
            }
        }
        Ok(())
    }

    /// Without waiting for it: a store that cannot write just now does so later.
    async fn forget_import(&self, session: SessionId) -> Result<(), StoreError> {
        let note = Op::Remove { collection: IMPORTS, key: session.to_string() };
        let write = Write { log: LogId::Session(session), ops: vec![Op::Delete, note], done: None };
        self.shared.store.write(write).await
    }

    /// The agents that keep conversations there: the one that is named, or all.
    fn with_past(&self, named: Option<&str>, place: PastPlace) -> Result<Vec<Keeper>, Refusal> {
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
                PastPlace::Listed => format!("the agent `{kind}` tells of no past conversations"),
                PastPlace::Archived => format!("the agent `{kind}` cannot put past conversations away"),
            };
            Refusal::new(RefusalCode::Unsupported, message)
        })?;
        Ok(vec![found])
    }

    /// What each of these has, asked side by side, in their order.
    async fn lists(
        &self,
        keepers: Vec<Keeper>,
        query: &PastQuery,
    ) -> Vec<(Keeper, Result<Vec<PastSession>, Refusal>)> {
        let patience = if keepers.len() == 1 { PATIENCE } else { ONE_OF_MANY };
        let asked = keepers.into_iter().map(|keeper| {
            let (registry, past, query) = (self.clone(), Arc::clone(&keeper.1), query.clone());
            // On a task of its own, which ends with whoever asked.
            let list = async move { registry.list_past(&*past, query, patience).await };
            (keeper, AbortOnDropHandle::new(tokio::spawn(list)))
        });
        let asked: Vec<_> = asked.collect();
        let mut lists = Vec::new();
        for (keeper, list) in asked {
            let fault = |_| Refusal::new(RefusalCode::Internal, "a fault of ours in listing the past");
            lists.push((keeper, list.await.map_err(fault).and_then(std::convert::identity)));
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

    /// The one conversation that is meant.
    async fn find_past(&self, asked: &TakeUp, place: PastPlace) -> Result<Found, Refusal> {
        let wanted = asked.past.as_str();
        let plain = wanted.bytes().all(|byte| byte.is_ascii_graphic());
        if wanted.len() < SHORTEST_PART || !plain {
            let message = format!(
                "`{}` names no conversation; give its id, or at least {SHORTEST_PART} characters of it",
                wanted.escape_debug()
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        // Two tell that it is not unique; one more that is meant in full is among them, since ids are of one length.
        let below = self.real_roots();
        let query = PastQuery { limit: 2, below, part: Some(wanted.to_owned()), place };
        let lists = self.lists(self.with_past(Some(&asked.spec.agent), place)?, &query).await;
        let living = self.living().await?;
        let mut found = Vec::new();
        for ((agent, past), listed) in lists {
            let listed = match listed {
                Ok(listed) => listed,
                Err(refusal) if !asked.spec.agent.is_empty() => return Err(refusal),
                // It may well be another's.
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

    /// Which session goes on with which conversation, by agent and its own id.
    pub(super) async fn living(&self) -> Result<HashMap<(String, String), SessionId>, Refusal> {
        let (mut living, mut before) = (HashMap::new(), None);
        loop {
            let query = SessionQuery { archived: None, live: false, before, limit: LIST_PAGE };
            let page = self.shared.store.sessions(query).await.map_err(broken)?;
            let Some(last) = page.last() else { return Ok(living) };
            before = Some(last.session);
            for summary in page {
                // One that is awake knows better than its row.
                let awake = self.shared.shelf.awake(summary.session);
                let summary = awake.map_or(summary, |handle| handle.log.state().summary.clone());
                if let Some(own) = summary.agent_session {
                    living.entry((summary.agent, own)).or_insert(summary.session);
                }
            }
        }
    }

    /// The folders that sessions may work in, by their real paths.
    fn real_roots(&self) -> Vec<PathBuf> {
        let roots = self.shared.policy.roots.iter();
        // One that is not there allows nothing, but must not become "any".
        roots.map(|root| root.canonicalize().unwrap_or_else(|_| root.clone())).collect()
    }
}

/// The spec with what the conversation tells.
fn filled(asked: SessionSpec, found: &Found) -> Result<SessionSpec, Refusal> {
    let mut spec = SessionSpec { agent: found.agent.kind().to_owned(), ..asked };
    if spec.cwd.as_os_str().is_empty() {
        let no_folder = "the conversation does not tell its folder; name the folder to work in (`cwd`)";
        spec.cwd = found.session.cwd.clone().ok_or_else(|| Refusal::new(RefusalCode::Invalid, no_folder))?;
    }
    let title: String = found.session.title.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    spec.name = spec.name.or_else(|| Some(title).filter(|title| !title.trim().is_empty()));
    spec.resume = Some(found.session.past.clone());
    Ok(spec)
}

/// Another program goes on with the conversation: neither would see what the other says.
fn held(process: u32, capabilities: &Capabilities) -> Refusal {
    let message = format!(
        "the process {process} has this conversation open, and the two would go on without each other; end that one \
         first"
    );
    let refusal = Refusal::new(RefusalCode::Invalid, message);
    if capabilities.session_fork { refusal.with_way_out(WayOut::CopyPast) } else { refusal }
}

/// Two agents can keep the same conversation: a program and what speaks for it. It is told once, by the one under which it
/// lives here, else by the first.
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

/// The others are worth a list all the same.
fn passed_over(agent: &str, refusal: &Refusal) {
    if refusal.code == RefusalCode::Unsupported {
        return tracing::debug!(agent, %refusal, "no past conversations are told");
    }
    tracing::warn!(agent, %refusal, "past conversations cannot be listed");
}

fn too_slow(patience: Duration) -> Refusal {
    let message = format!("the agent took longer than {} s to tell of its past", patience.as_secs());
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

/// A conversation that is just being taken up: whoever wants the same is asked to come back.
pub(super) struct Importing<'a> {
    registry: &'a Registry,
    name: (String, String),
}

/// Conversations that are just being taken up, by agent and its own id.
pub(super) type Imports = HashSet<(String, String)>;

impl<'a> Importing<'a> {
    pub(super) fn enter(registry: &'a Registry, name: &(String, String)) -> Result<Self, Refusal> {
        let mut imports = registry.shared.importing.lock().unwrap_or_else(PoisonError::into_inner);
        if !imports.insert(name.clone()) {
            return Err(Refusal::busy("this conversation is just being taken up", 250));
        }
        Ok(Self { registry, name: name.clone() })
    }
}

impl Drop for Importing<'_> {
    fn drop(&mut self) {
        let mut imports = self.registry.shared.importing.lock().unwrap_or_else(PoisonError::into_inner);
        imports.remove(&self.name);
    }
}
