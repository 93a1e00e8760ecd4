//! Creating sessions: new ones and forks.

mod fork;
mod promise;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use self::fork::Fork;
pub(super) use self::promise::{Known, Wanted};
use super::{Registry, alone::Alone, broken, gone, past::IMPORTING};
use crate::{
    Action, CommandId, DaemonEvent, Event, LogId, Millis, Principal, Refusal, RefusalCode, Role, Seq,
    SessionId, SessionSpec, WayOut,
    capabilities::Asks,
    command::{Command, CommandKey},
    log::Book,
    ports::{Agent, Op, Write},
    session::{
        machine::Machine,
        spending::SessionBudget,
        state::{State, Summary},
        task::{Handle, Mail, Origin},
    },
    spec::SpecOption,
};

/// Of two calls with the same id at the same time, the second must come back for the first call's session.
pub(super) const CREATING: &str = "a session with this id is being created; try again in a moment";

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
        let _under_way = Alone::enter(&self.shared.creating, &key, CREATING)?;
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
        let enter = |name| Alone::enter(&self.shared.importing, name, IMPORTING);
        let _alone = conversation.as_ref().map(enter).transpose()?;
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
        let _under_way = Alone::enter(&self.shared.creating, &key, CREATING)?;
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
            *tool = agent.rule_for(tool);
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
