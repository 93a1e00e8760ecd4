//! A puppet: an agent that does only what others make it do.
//!
//! Owns what an agent reports without running: its name, its capabilities, its past, its account. Each start makes
//! [`Strings`], which the test gets ([`Puppet::held`]) or a function plays ([`Puppet::playing`]).

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, SessionSpec,
    event::{Exit, ExitReason},
    ports::{Account, Agent, AgentLink, Boxed, INSTRUCTIONS, Launch, Means, Past, Probe, REPORTS, Report},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    moves::exit,
    strings::{Holder, Strings, Told},
};

/// Starts that a test has not taken yet. More than any test makes.
const STARTS: usize = 64;

/// The starts of a puppet that a test holds.
pub type Starts = mpsc::Receiver<Strings>;

type Environment = fn(&SessionSpec) -> Result<IndexMap<String, String>, String>;
type Play = Arc<dyn for<'s> Fn(&'s mut Strings) -> Boxed<'s, Exit> + Send + Sync>;

/// An agent of a test.
pub struct Puppet {
    kind: String,
    capabilities: Capabilities,
    probe: Probe,
    environment: Environment,
    asks_nothing: fn(Means<'_>) -> Option<String>,
    rule_for: fn(&str) -> String,
    past: Option<Arc<dyn Past>>,
    account: Option<Arc<dyn Account>>,
    life: Life,
    launches: Mutex<Vec<Launch>>,
    told: Told,
}

/// What a start does.
enum Life {
    /// The test must not start this agent.
    None,
    /// The test gets the strings.
    Held(mpsc::Sender<Strings>),
    /// This function gets the strings.
    Plays(Play),
}

impl Puppet {
    /// A puppet of this name that is installed, supports nothing and is never started.
    pub fn new(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            capabilities: Capabilities::default(),
            probe: Probe { available: true, message: "here".into(), ..Probe::default() },
            environment: |spec| Ok(spec.env.clone()),
            asks_nothing: |_| None,
            rule_for: str::to_owned,
            past: None,
            account: None,
            life: Life::None,
            launches: Mutex::default(),
            told: Arc::new(watch::Sender::default()),
        }
    }

    /// Sets what it supports.
    pub fn with_capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Sets the result of its check.
    pub fn with_probe(self, probe: Probe) -> Self {
        Self { probe, ..self }
    }

    /// Sets its environment, or the reason why it does not start.
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// Sets what makes it ask nobody.
    pub fn with_asks_nothing(self, asks_nothing: fn(Means<'_>) -> Option<String>) -> Self {
        Self { asks_nothing, ..self }
    }

    /// Sets how the tools that a session allows become rules.
    pub fn with_rule_for(self, rule_for: fn(&str) -> String) -> Self {
        Self { rule_for, ..self }
    }

    /// Sets its past conversations.
    pub fn with_past(self, past: Arc<dyn Past>) -> Self {
        Self { past: Some(past), ..self }
    }

    /// Sets its account.
    pub fn with_account(self, account: Arc<dyn Account>) -> Self {
        Self { account: Some(account), ..self }
    }

    /// Each start gives its strings to the test.
    pub fn held(self) -> (Self, Starts) {
        let (starts, started) = mpsc::channel(STARTS);
        (Self { life: Life::Held(starts), ..self }, started)
    }

    /// Each start plays this function; its result says how the agent ended.
    pub fn playing(
        self,
        play: impl for<'s> Fn(&'s mut Strings) -> Boxed<'s, Exit> + Send + Sync + 'static,
    ) -> Self {
        Self { life: Life::Plays(Arc::new(play)), ..self }
    }

    /// The launch of each start, oldest first.
    pub fn launches(&self) -> Vec<Launch> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every order that it has read, in all starts.
    pub fn told(&self) -> Told {
        Arc::clone(&self.told)
    }
}

impl fmt::Debug for Puppet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Puppet").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Agent for Puppet {
    fn kind(&self) -> &str {
        &self.kind
    }
    fn title(&self) -> String {
        format!("The {}", self.kind)
    }
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }
    fn environment(&self, spec: &SessionSpec) -> Result<IndexMap<String, String>, String> {
        (self.environment)(spec)
    }
    fn asks_nothing(&self, means: Means<'_>) -> Option<String> {
        (self.asks_nothing)(means)
    }
    fn rule_for(&self, tool: &str) -> String {
        (self.rule_for)(tool)
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(std::future::ready(self.probe.clone()))
    }
    fn past(&self) -> Option<Arc<dyn Past>> {
        self.past.clone()
    }
    fn account(&self) -> Option<Arc<dyn Account>> {
        self.account.clone()
    }
    fn start(&self, launch: Launch) -> AgentLink {
        let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
        let (reports, reported) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).push(launch.clone());
        let strings = |holder| {
            Strings::new(
                launch.clone(),
                self.capabilities.clone(),
                reports.clone(),
                wanted,
                (stop.clone(), self.told()),
                holder,
            )
        };
        match &self.life {
            Life::None => panic!("this test does not start `{}`", self.kind),
            Life::Held(starts) => {
                tokio::spawn(last_word(reports.downgrade(), stop.clone()));
                starts.try_send(strings(Holder::Test)).expect("the test takes every start");
            }
            Life::Plays(play) => {
                tokio::spawn(alone(Arc::clone(play), strings(Holder::Play), kill.clone()));
            }
        }
        AgentLink { instructions, reports: reported, stop, kill, recorded: None }
    }
}

fn stopped() -> Exit {
    Exit { code: Some(0), ..exit(ExitReason::Stopped, "it ended") }
}

/// Ends an agent that a test holds when its session asks for that. A test that has dropped the strings has already
/// ended it.
async fn last_word(reports: mpsc::WeakSender<Report>, stop: CancellationToken) {
    stop.cancelled().await;
    if let Some(reports) = reports.upgrade() {
        // A session that is gone gets nothing.
        let _ = reports.send(Report::Exited(stopped())).await;
    }
}

/// Runs an agent without a test.
async fn alone(play: Play, mut strings: Strings, kill: CancellationToken) {
    let stop = strings.stop.clone();
    let exit = tokio::select! {
        exit = play(&mut strings) => exit,
        () = stop.cancelled() => stopped(),
        () = kill.cancelled() => stopped(),
    };
    strings.withdraw().await;
    strings.say(Report::Exited(exit)).await;
}
