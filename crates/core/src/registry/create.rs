//! Creating sessions: new ones and forks.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Registry, broken, gone, past::Importing};
use crate::{
    Action, CommandId, DaemonEvent, Event, LogId, Millis, Principal, Refusal, RefusalCode, Role, Seq,
    SessionId, SessionSpec, WayOut,
    capabilities::Asks,
    command::{Command, CommandKey, Stage},
    log::Book,
    ports::{Agent, CommandRow, Op, Page, Write},
    session::{
        machine::{Machine, hex},
        spending::SessionBudget,
        state::{State, Summary},
        task::{DELETED, Handle, Mail, Origin},
    },
    spec::{ForkPoint, SpecOption},
};

/// How many entries back a fork searches for the agent's last message.
const MESSAGE_SEARCH: u64 = 1000;

impl Registry {
    /// Creates a session. The same id of the same token again gives the same session. The id is refused with other
    /// settings, and after that session was deleted.
    pub async fn create(
        &self,
        who: &Principal,
        id: CommandId,
        spec: SessionSpec,
    ) -> Result<Summary, Refusal> {
        who.may_daemon(Role::Operator)?;
        // As in a running session: only owners may set what the agent runs without any approval.
        if !spec.env.is_empty() || !spec.mcp_servers.is_empty() {
            who.may_daemon(Role::Owner)?;
        }
        self.store_takes_writes()?;
        let key = CommandKey { token: who.token.clone(), id };
        let _under_way = UnderWay::enter(self, &key)?;
        let asked = Wanted::new("create", &spec);
        let session = match self.session_for(&key, &asked).await? {
            Known::Made(summary) => return Ok(*summary),
            Known::Promised(session) => session,
            Known::Nothing => SessionId::new(),
        };
        let (spec, fork) = self.admit(who, spec).await?;
        let conversation =
            spec.resume.clone().filter(|_| fork.is_none()).map(|own| (spec.agent.clone(), own));
        // Of two callers at the same moment, neither would find the other's session.
        let _alone = conversation.as_ref().map(|name| Importing::enter(self, name)).transpose()?;
        if let Some(name) = &conversation
            && let Some(other) = self.holder(name).await?
        {
            let message = format!("the session `{other}` already continues this conversation");
            let way_out = WayOut::UseSession { session: other };
            return Err(Refusal::new(RefusalCode::Invalid, message).with_way_out(way_out));
        }
        self.promise(&key, session, &asked).await?;
        self.make(who, session, spec, fork).await
    }

    /// The session that continues a conversation, by the agent and the agent's own id.
    pub(super) async fn holder(&self, name: &(String, String)) -> Result<Option<SessionId>, Refusal> {
        // An agent that is just starting has not reported its conversation yet.
        let starting = |handle: &Arc<Handle>| {
            let state = handle.log.state();
            let asked = state.spec.resume.as_ref().filter(|_| state.spec.fork.is_none());
            let unsaid = state.summary.agent_session.is_none();
            let resumes = unsaid && state.summary.agent == name.0 && asked == Some(&name.1);
            resumes.then_some(state.summary.session)
        };
        let starting: Vec<SessionId> =
            self.shared.live_sessions.all_awake().iter().filter_map(starting).collect();
        for session in starting {
            // A copy leaves the conversation unchanged.
            if !self.origin(session).await?.copy {
                return Ok(Some(session));
            }
        }
        Ok(self.living().await?.get(name).copied())
    }

    /// Creates a session like another one, without its conversation: with its agent, folder, settings and environment,
    /// and with its current model and mode. Like a fork, this shows nobody the environment, so it needs no owner.
    pub async fn create_like(
        &self,
        who: &Principal,
        id: CommandId,
        like: SessionId,
    ) -> Result<Summary, Refusal> {
        who.may_daemon(Role::Operator)?;
        who.may(Role::Operator, like)?;
        self.store_takes_writes()?;
        let key = CommandKey { token: who.token.clone(), id };
        let _under_way = UnderWay::enter(self, &key)?;
        let asked = Wanted::new("like", &like);
        let session = match self.session_for(&key, &asked).await? {
            Known::Made(summary) => return Ok(*summary),
            Known::Promised(session) => session,
            Known::Nothing => SessionId::new(),
        };
        let handle = self.wake(like).await?;
        let mut born = self.origin(like).await?.spec;
        let now = {
            let state = handle.log.state();
            born.budget = state.budget.as_ref().map(SessionBudget::terms);
            born.deadline_seconds = state.spec.deadline_seconds;
            state.summary.clone()
        };
        let (mut model, mut mode) = (born.model.clone(), born.mode.clone());
        // The agent may report a model or mode that cannot be requested.
        if let Some(capabilities) = self.agent(&born.agent).map(|agent| agent.capabilities()) {
            let takes = |option| capabilities.options.contains(&option);
            let known = capabilities.supported_permission_modes.as_ref();
            model = now.model.filter(|_| takes(SpecOption::Model)).or(model);
            let can_be = |mode: &String| known.is_none_or(|known| known.contains(mode));
            mode = now.mode.filter(|mode| takes(SpecOption::Mode) && can_be(mode)).or(mode);
            // A client that may not switch questions off gets a mode that asks.
            let bypass = self.shared.policy.bypass;
            mode = mode.filter(|mode| {
                who.may_use_mode(mode, capabilities.asks(mode), bypass).is_ok()
                    && self.guard_rules(&capabilities, mode, &born.cwd, &[]).is_ok()
            });
        }
        let spec = SessionSpec { model, mode, prompt: Vec::new(), resume: None, fork: None, ..born };
        let (spec, fork) = self.admit(who, spec).await?;
        self.promise(&key, session, &asked).await?;
        self.make(who, session, spec, fork).await
    }

    /// Did this id create a session before? Refused if it was for something else, or if that session was deleted.
    pub(super) async fn session_for(&self, key: &CommandKey, asked: &Wanted) -> Result<Known, Refusal> {
        let row = self.shared.store.command(LogId::Daemon, key.clone()).await.map_err(broken)?;
        let Some(promised) = row.as_ref().and_then(promised) else { return Ok(Known::Nothing) };
        let session = promised.session;
        if promised.digest.is_some_and(|digest| digest != asked.digest(session)) {
            let message = format!(
                "the id `{}` was used for another session (`{session}`), so this session was not created; use a new id",
                key.id
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        match self.wake(session).await {
            Ok(handle) => {
                // A caller that asks again waits for the session's first prompt, which the daemon's end may have
                // parked.
                self.send_parked(&handle, None).await?;
                Ok(Known::Made(Box::new(handle.log.state().summary.clone())))
            }
            Err(refusal) if refusal.code == RefusalCode::NotFound => {
                let deleted = self.shared.store.record(DELETED, session.to_string()).await.map_err(broken)?;
                if deleted.is_none() {
                    return Ok(Known::Promised(session));
                }
                let message = format!(
                    "the id `{}` was used for a session that is deleted now; use a new id to create another session",
                    key.id
                );
                Err(Refusal::new(RefusalCode::Ended, message))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Records which session this id creates, before the session exists: after a crash no second session is created.
    pub(super) async fn promise(
        &self,
        key: &CommandKey,
        session: SessionId,
        asked: &Wanted,
    ) -> Result<(), Refusal> {
        let digest = Some(asked.digest(session));
        let result = serde_json::to_value(Promised { session, digest }).ok();
        let stage = Stage::Consumed { result };
        // Our own types serialise.
        let stage = serde_json::to_vec(&stage).unwrap_or_default().into();
        let row = CommandRow { key: key.clone(), seq: Seq::ZERO, stage };
        self.commit(LogId::Daemon, vec![Op::Command(row)]).await
    }

    /// Writes this and waits for the commit.
    pub(super) async fn commit(&self, log: LogId, ops: Vec<Op>) -> Result<(), Refusal> {
        let (done, committed) = tokio::sync::oneshot::channel();
        let done: Box<dyn FnOnce() + Send> = Box::new(move || {
            // The caller may have left; the write happens anyway.
            let _ = done.send(());
        });
        self.shared.store.write(Write { log, ops, done: Some(done) }).await.map_err(broken)?;
        committed.await.map_err(|_| gone())
    }

    pub(super) async fn admit(
        &self,
        who: &Principal,
        spec: SessionSpec,
    ) -> Result<(SessionSpec, Option<Fork>), Refusal> {
        let fork = match spec.fork.clone() {
            Some(point) => Some(self.fork_point(who, point).await?),
            None => None,
        };
        let mut spec = spec;
        let is_chosen = spec.mode.is_some();
        if let Some(fork) = &fork {
            fork.fill(&mut spec)?;
        }
        let agent = self.agent(&spec.agent).ok_or_else(|| self.no_agent(&spec.agent))?;
        // Before any program is started to look for the agent.
        self.guard_spec(who, agent, &agent.capabilities(), &spec)?;
        self.is_here(agent).await?;
        let capabilities = agent.capabilities();
        if let Some(fork) = &fork {
            crate::Capabilities::require(capabilities.session_fork, &spec.agent, "be forked")?;
            let at_past = fork.upto < fork.head;
            crate::Capabilities::require(
                !at_past || capabilities.session_fork_at,
                &spec.agent,
                "be forked at an earlier entry",
            )?;
        }
        if spec.cwd.as_os_str().is_empty() {
            return Err(Refusal::new(RefusalCode::Invalid, "name the folder to work in (`cwd`)"));
        }
        let mut spec = spec.admit(&capabilities)?;
        for tool in &mut spec.allowed_tools {
            *tool = capabilities.tool_spelling.rule(tool);
        }
        let roots = &self.shared.policy.roots;
        spec.cwd = folder(&spec.cwd, roots)?;
        for extra in &mut spec.extra_dirs {
            *extra = folder(extra, roots)?;
        }
        if let Some(mode) = &spec.mode
            && let Err(refusal) = self.guard_rules(&capabilities, mode, &spec.cwd, &[])
        {
            if is_chosen || capabilities.asks(mode) != Asks::Unknown {
                return Err(refusal);
            }
            // The source's agent may have reported this mode by itself: the fork begins as a new session does.
            spec.mode = None;
        }
        agent.environment(&spec).map_err(|why| Refusal::new(RefusalCode::Invalid, why))?;
        Ok((spec, fork))
    }

    /// Refuses an agent that cannot be started, with the way out. An agent that was missing is checked again: it may
    /// have been installed meanwhile.
    async fn is_here(&self, agent: &Arc<dyn Agent>) -> Result<(), Refusal> {
        let known = || self.shared.probes.lock().unwrap_or_else(PoisonError::into_inner);
        if known().get(agent.kind()).is_some_and(|probe| probe.available) {
            return Ok(());
        }
        let probe = agent.probe().await;
        let (available, message) = (probe.available, probe.message.clone());
        known().insert(agent.kind().to_owned(), probe);
        // An agent without a message is tried anyway: a refusal without a way out helps nobody.
        if available || message.is_empty() {
            Ok(())
        } else {
            Err(Refusal::new(RefusalCode::NotFound, message))
        }
    }

    async fn fork_point(&self, who: &Principal, point: ForkPoint) -> Result<Fork, Refusal> {
        who.may(Role::Operator, point.session)?;
        let handle = self.wake(point.session).await?;
        let snapshot = handle.log.snapshot();
        if !handle.log.wait_visible(snapshot.seq).await {
            return Err(gone());
        }
        let upto = point.at.unwrap_or(snapshot.seq);
        if upto > snapshot.seq || upto == Seq::ZERO {
            let message = format!(
                "the session `{}` has no entry {upto}; name an entry from 1 to {}",
                point.session, snapshot.seq
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        let mut source = self.origin(point.session).await?.spec;
        self.renew(who, &mut source, &snapshot.state);
        let last_message = self.last_message(point.session, upto).await?;
        let at_message = last_message.clone().filter(|_| upto < snapshot.seq);
        let agent_session = snapshot.state.summary.agent_session.clone();
        let (session, head) = (point.session, snapshot.seq);
        Ok(Fork { session, upto, head, source, agent_session, at_message, last_message })
    }

    /// The settings of a session as they are now, not as they were at its beginning.
    fn renew(&self, who: &Principal, spec: &mut SessionSpec, now: &State) {
        spec.budget = now.budget.as_ref().map(SessionBudget::terms);
        spec.deadline_seconds = now.spec.deadline_seconds;
        if spec.mode == now.summary.mode {
            return;
        }
        // The agent may have reported a mode that nobody can request; then the fork begins in the mode that asks.
        let can_be = |mode: &String| {
            let capabilities = self.agent(&spec.agent)?.capabilities();
            let asks = capabilities.asks(mode);
            let takes =
                capabilities.options.contains(&SpecOption::Mode) && capabilities.has_mode(mode).is_ok();
            let may =
                asks != Asks::Unknown || who.may_use_mode(mode, asks, self.shared.policy.bypass).is_ok();
            (takes && may).then_some(())
        };
        spec.mode = now.summary.mode.clone().filter(|mode| can_be(mode).is_some());
    }

    /// The agent's own id of the last message up to `upto`.
    async fn last_message(&self, session: SessionId, upto: Seq) -> Result<Option<String>, Refusal> {
        let mut after = Seq(upto.0.saturating_sub(MESSAGE_SEARCH));
        let mut found = None;
        while after < upto {
            let page = self
                .shared
                .store
                .read(LogId::Session(session), after, upto, Page::BATCH)
                .await
                .map_err(broken)?;
            let Some(newest) = page.last() else { break };
            after = newest.seq;
            for stored in page {
                if let Ok(entry) = stored.decode::<Event>()
                    && let Event::Message { message: Some(message), parent: None, .. } = entry.event
                {
                    found = Some(message);
                }
            }
        }
        Ok(found)
    }

    /// The machine of a new session, with the session's first prompt.
    pub(super) fn new_machine(
        &self,
        who: &Principal,
        book: &mut Book<State>,
        now: Millis,
        spec: &SessionSpec,
    ) -> Result<Machine, Refusal> {
        let mut machine = Machine::new(self.shared.policy.clone());
        if !spec.prompt.is_empty() {
            let key = CommandKey { token: who.token.clone(), id: CommandId::random() };
            let action = Action::Prompt { content: spec.prompt.clone() };
            machine.command(book, now, Command { key, by: who.actor(), action })?;
        }
        Ok(machine)
    }

    async fn make(
        &self,
        who: &Principal,
        session: SessionId,
        spec: SessionSpec,
        fork: Option<Fork>,
    ) -> Result<Summary, Refusal> {
        self.shared.crew.require_room()?;
        let now = self.shared.clock.now();
        let log = LogId::Session(session);
        let shown = spec.masked();
        let head = fork.as_ref().map_or(Seq::ZERO, |fork| fork.upto);
        let mut book = Book::new(log, head, State::new(session, shown.clone(), now));
        if let Some(fork) = &fork {
            book.also(Op::CopyFrom { source: fork.session, upto: fork.upto });
        }
        book.append(now, Some(who.actor()), Event::SessionCreated { spec: Box::new(shown) });
        let (at_message, last_message) =
            fork.map_or((None, None), |fork| (fork.at_message, fork.last_message));
        let origin = Origin { spec, at_message, last_message, copy: false };
        book.also(origin.record(session));
        let machine = self.new_machine(who, &mut book, now, &origin.spec)?;
        let summary = book.state().summary.clone();
        book.also(Op::Summary(Box::new(summary.clone())));
        let made = book.head();
        let handle = self.shelve(session, book, machine, origin).await?;
        handle.mailbox.send(Mail::Begin).await.map_err(|_| gone())?;
        if !handle.log.wait_visible(made).await {
            return Err(gone());
        }
        let created = DaemonEvent::SessionCreated { summary: Box::new(summary.clone()) };
        self.shared.daemon.note(Some(who.actor()), created).await;
        Ok(summary)
    }
}

/// What an id was used for.
pub(super) enum Known {
    Made(Box<Summary>),
    Promised(SessionId),
    Nothing,
}

/// The record of an id that creates a session.
#[derive(Serialize, Deserialize)]
struct Promised {
    session: SessionId,
    /// The digest of the requested settings; absent in records of an older Portolan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

fn promised(row: &CommandRow) -> Option<Promised> {
    let stage: Stage = serde_json::from_slice(&row.stage).ok()?;
    let Stage::Consumed { result: Some(result) } = stage else { return None };
    serde_json::from_value(result).ok()
}

/// Everything that a client requested for a session, as text that is equal for equal requests.
pub(super) struct Wanted(Vec<u8>);

impl Wanted {
    /// `way` separates the different ways to create a session.
    pub(super) fn new(way: &str, what: &impl Serialize) -> Self {
        // Our own types serialise. Names are sorted: a client may send the same settings in another order.
        let mut what = serde_json::to_value(what).unwrap_or_default();
        what.sort_all_objects();
        Self(serde_json::to_vec(&(way, what)).unwrap_or_default())
    }

    /// Secrets count and must not be readable: each session has its own digest.
    fn digest(&self, session: SessionId) -> String {
        let digest = Sha256::new().chain_update(session.to_string()).chain_update(&self.0).finalize();
        hex(&digest)
    }
}

/// A fork with a known starting point.
pub(super) struct Fork {
    session: SessionId,
    upto: Seq,
    head: Seq,
    source: SessionSpec,
    agent_session: Option<String>,
    at_message: Option<String>,
    last_message: Option<String>,
}

impl Fork {
    /// Fills the open settings of the fork from its source.
    fn fill(&self, spec: &mut SessionSpec) -> Result<(), Refusal> {
        if spec.agent.is_empty() {
            spec.agent.clone_from(&self.source.agent);
        }
        if spec.agent != self.source.agent {
            let message = format!("a fork uses the agent of its source, `{}`", self.source.agent);
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        let asked = std::mem::take(spec);
        let own = |value: &Vec<_>| !value.is_empty();
        *spec = SessionSpec {
            agent: asked.agent,
            cwd: if asked.cwd.as_os_str().is_empty() { self.source.cwd.clone() } else { asked.cwd },
            prompt: asked.prompt,
            name: asked.name,
            model: asked.model.or_else(|| self.source.model.clone()),
            mode: asked.mode.or_else(|| self.source.mode.clone()),
            env: if asked.env.is_empty() { self.source.env.clone() } else { asked.env },
            allowed_tools: if own(&asked.allowed_tools) {
                asked.allowed_tools
            } else {
                self.source.allowed_tools.clone()
            },
            disallowed_tools: if own(&asked.disallowed_tools) {
                asked.disallowed_tools
            } else {
                self.source.disallowed_tools.clone()
            },
            resume: self.agent_session.clone(),
            fork: Some(ForkPoint { session: self.session, at: Some(self.upto) }),
            ..self.source.clone()
        };
        Ok(())
    }
}

/// An existing folder by its real path: a symlink counts as its target.
pub(super) fn folder(path: &Path, roots: &[PathBuf]) -> Result<PathBuf, Refusal> {
    let invalid = |why: String| Refusal::new(RefusalCode::Invalid, why);
    if !path.is_absolute() {
        return Err(invalid(format!("`{}` is not an absolute path", path.display())));
    }
    let real = path
        .canonicalize()
        .map_err(|error| invalid(format!("the folder `{}` cannot be used: {error}", path.display())))?;
    if real.to_str().is_none() {
        return Err(invalid(format!("the path of folder `{}` is not UTF-8", path.display())));
    }
    let inside = |root: &PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if !roots.is_empty() && !roots.iter().any(inside) {
        let message = format!("`{}` is outside the folders that sessions may work in", path.display());
        return Err(Refusal::new(RefusalCode::Forbidden, message));
    }
    if real.is_dir() { Ok(real) } else { Err(invalid(format!("`{}` is not a folder", path.display()))) }
}

/// Of two calls with the same id at the same time, the second must come back for the first call's session.
pub(super) struct UnderWay<'a> {
    registry: &'a Registry,
    key: CommandKey,
}

impl<'a> UnderWay<'a> {
    pub(super) fn enter(registry: &'a Registry, key: &CommandKey) -> Result<Self, Refusal> {
        let mut creating = registry.shared.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if !creating.insert(key.clone()) {
            return Err(Refusal::busy("a session with this id is being created; try again in a moment", 250));
        }
        Ok(Self { registry, key: key.clone() })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut creating = self.registry.shared.creating.lock().unwrap_or_else(PoisonError::into_inner);
        creating.remove(&self.key);
    }
}
