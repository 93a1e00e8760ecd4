//! A registry over a store in memory, with an agent that the test controls.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use portolan_core::{
    Action, Capabilities, CommandId, Event, Seq, SessionId, SessionSpec,
    capabilities::Asks,
    event::Content,
    log::delivery::{Delivery, Mode, Start},
    policy::{Effect, Rule, RuleDraft, rule::ScopeDraft},
    ports::{Account, Clock, LoginWay, Means, Past, Store},
    registry::{Registry, SessionReader},
    session::machine::Policy,
    spec::SpecOption,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::{Puppet, Starts, Strings},
    sessions::owner,
};

pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        interrupt: true,
        session_resume: true,
        reliable_resume: true,
        mcp: true,
        mcp_changes: true,
        session_fork: true,
        session_fork_at: true,
        model_switching: true,
        environment: true,
        past_archive: true,
        permission_modes: true,
        permission_mode_switching_mid_session: true,
        passthrough: true,
        edited_input: true,
        mode_asks: [("ask", Asks::Everything), ("edit", Asks::Some), ("off", Asks::Nothing)]
            .map(|(mode, asks)| (mode.to_owned(), asks))
            .into(),
        options: SpecOption::ALL.to_vec(),
        ..Capabilities::default()
    }
}

/// An agent whose every start gives its strings to the test.
fn fake(kept: Kept) -> (Puppet, Starts) {
    let logins = [LoginWay::Browser, LoginWay::ApiKey].into_iter().filter(|_| kept.account.is_some());
    let mut fake = Puppet::new("fake")
        .with_capabilities(Capabilities { logins: logins.collect(), ..capabilities() })
        .with_rule_for(|tool| match tool {
            "mcp__db" => "mcp__db__*".to_owned(),
            _ => tool.replace(":*)", " *)"),
        })
        .with_environment(|spec| {
            let refused = spec.env.contains_key("LD_PRELOAD");
            if refused { Err("`LD_PRELOAD` is refused".into()) } else { Ok(spec.env.clone()) }
        })
        .with_asks_nothing(|means| match means {
            Means::Message(body) => body["off"].as_str().map(str::to_owned),
            Means::Choice(option) => (option == "ask-no-more").then(|| option.to_owned()),
            Means::Variables(variables) => variables.get_key_value("OFF").map(|(name, _)| name.clone()),
        });
    if let Some(past) = kept.past {
        fake = fake.with_past(past);
    }
    if let Some(account) = kept.account {
        fake = fake.with_account(account);
    }
    fake.held()
}

/// What an agent has besides its sessions.
#[derive(Default)]
struct Kept {
    past: Option<Arc<dyn Past>>,
    account: Option<Arc<dyn Account>>,
}

/// A registry and the agents it starts.
pub(crate) struct World {
    pub(crate) registry: Registry,
    pub(crate) store: Arc<MemoryStore>,
    starts: Mutex<Starts>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()), Policy::default()).await
    }

    pub(crate) async fn over(store: Arc<MemoryStore>, policy: Policy) -> Self {
        Self::at(Clock::system(), store, policy).await
    }

    pub(crate) async fn at(clock: Clock, store: Arc<MemoryStore>, policy: Policy) -> Self {
        Self::made(clock, store, policy, Kept::default()).await
    }

    /// A world whose agent has past conversations.
    pub(crate) async fn with_past(store: Arc<MemoryStore>, policy: Policy, past: Arc<dyn Past>) -> Self {
        let kept = Kept { past: Some(past), account: None };
        Self::made(Clock::system(), store, policy, kept).await
    }

    /// A world whose agent has an account.
    pub(crate) async fn with_account(account: Arc<dyn Account>) -> Self {
        let kept = Kept { past: None, account: Some(account) };
        Self::made(Clock::system(), Arc::new(MemoryStore::new()), Policy::default(), kept).await
    }

    async fn made(clock: Clock, store: Arc<MemoryStore>, policy: Policy, kept: Kept) -> Self {
        let (agent, started) = fake(kept);
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let registry = Registry::open(shared, vec![Arc::new(agent)], clock, policy).await;
        Self { registry: registry.expect("a registry"), store, starts: Mutex::new(started) }
    }

    /// A started agent that the test has not taken yet.
    pub(crate) fn started(&self) -> Option<Strings> {
        self.starts.lock().expect("one test").try_recv().ok()
    }

    pub(crate) async fn puppet(&self) -> Strings {
        for _ in 0..500 {
            if let Some(puppet) = self.started() {
                return puppet;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no agent was started");
    }

    pub(crate) async fn session(&self) -> (SessionId, Strings) {
        let summary = self.registry.create(&owner(), CommandId::random(), spec()).await.expect("a session");
        let puppet = self.puppet().await;
        puppet.ready().await;
        (summary.session, puppet)
    }

    pub(crate) async fn attach(&self, session: SessionId, start: Start) -> Reader {
        let reader = self.registry.attach(&owner(), session, start, Mode::Every).await.expect("a reader");
        Reader { reader, seen: Vec::new() }
    }

    /// Makes a rule, as the owner.
    pub(crate) async fn rule(&self, effect: Effect, text: &str, scope: ScopeDraft) -> Rule {
        let draft = RuleDraft {
            effect,
            text: text.into(),
            scope,
            overridable: false,
            expires_in_seconds: None,
            comment: None,
            matches: vec![],
            does_not_match: vec![],
        };
        self.registry.add_rule(&owner(), CommandId::random(), draft).await.expect("a rule")
    }

    pub(crate) async fn prompt(&self, session: SessionId, text: &str) -> Seq {
        let action = Action::Prompt { content: vec![Content::text(text)] };
        self.registry.submit(&owner(), session, CommandId::random(), action).await.expect("taken in").seq
    }
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec { agent: "fake".into(), cwd: std::env::temp_dir(), ..SessionSpec::default() }
}

/// A reader that remembers its deliveries.
pub(crate) struct Reader {
    pub(crate) reader: SessionReader,
    /// Number and event of every entry, in the order of arrival.
    pub(crate) seen: Vec<(Seq, Event)>,
}

impl Reader {
    /// Reads until an entry matches.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        let wait = async {
            loop {
                if let Delivery::Entries(pieces) = self.reader.next().await {
                    let mut found = None;
                    for piece in pieces {
                        let entry = piece.entry().expect("readable");
                        self.seen.push((entry.seq, entry.event.clone().into_owned()));
                        if found.is_none() && fits(&entry.event) {
                            found = Some(entry.event.into_owned());
                        }
                    }
                    if let Some(found) = found {
                        return found;
                    }
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.expect("the entry arrives")
    }

    /// All the text of an item that has arrived.
    pub(crate) fn text(&self, item: &str) -> String {
        let deltas = self.seen.iter().filter_map(|(_, event)| match event {
            Event::Delta { item: of, text } if of == item => Some(text.as_str()),
            _ => None,
        });
        deltas.collect()
    }
}
