//! Builds the daemon from the configuration: store, agents, frontends and the host that runs them.

use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};

use portolan_agents::{Supervision, acp, child::Ladder, claude, codex, dial_in::DialIn};
use portolan_core::{
    Principal, Role, SessionSpec,
    access::Bypass,
    delegates_agent,
    ports::{Agent, AgentLink, Clock, Launch, Store, Variables},
    session::machine::Policy,
};
use portolan_holder::Holders;
use portolan_host::{
    Frontend, Host, HostSettings, House, OpenError,
    door::{DoorSettings, ListenAddress, TlsFiles, Tokens},
};
use portolan_store::SqliteStore;

use super::{dial_in, holding};
use crate::{
    config::{self, Settings},
    failure::{Failure, Outcome},
    home::{Home, identity::Identity},
    target::VERSION,
};

/// The settings of the door, from the configuration.
pub(crate) fn door_settings(settings: &Settings, home: &Home, key: &str) -> Outcome<DoorSettings> {
    let listen = &settings.listen;
    let tls = match (&listen.tls_cert, &listen.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
        }
        _ if listen.self_signed => {
            let mut names = listen.hosts.clone();
            if !listen.address.ip().is_unspecified() {
                names.push(listen.address.ip().to_string());
            }
            let made = TlsFiles::self_signed(home.path(), &names, &Clock::system());
            Some(made.map_err(|error| Failure::new(error.to_string()))?)
        }
        _ => None,
    };
    let key = key.to_owned();
    Ok(DoorSettings {
        listen: vec![ListenAddress::Tcp(listen.address), ListenAddress::Unix(home.socket())],
        tls,
        hosts: listen.hosts.clone(),
        origins: listen.origins.clone(),
        behind_proxy: listen.behind_proxy,
        proxies: listen.proxies.clone(),
        peer_check: Arc::new(move |pid| !portolan_agents::descends_from_agent(pid, &key)),
        ..DoorSettings::default()
    })
}

/// Every frontend, and the endpoint where agents dial in.
pub(crate) fn frontends(settings: &Settings, dial_in: &DialIn) -> Vec<Box<dyn Frontend>> {
    let frontends = portolan_frontends::catalogue(settings.frontends.clone());
    frontends.into_iter().chain([dial_in::frontend(dial_in.clone())]).collect()
}

/// Opens the store and builds everything on it.
pub(crate) async fn build(
    settings: &Settings,
    home: &Home,
    identity: &mut Identity,
    door: DoorSettings,
    (frontends, dial_in, holders): (Vec<Box<dyn Frontend>>, &DialIn, &Holders),
) -> Outcome<House> {
    let store = open_store(settings, &home.database()).await?;
    identity.keep_database(home)?;
    let host = Host::open(HostSettings {
        store,
        agents: agents(settings, &identity.key, dial_in, Some(holders))?,
        door,
        policy: policy(settings, home.path()),
        authenticator: None,
        version: VERSION.into(),
        incarnation: Some(identity.incarnation.clone()),
        home: Some(home.path().to_path_buf()),
    });
    let host = host.await.map_err(cannot_open)?;
    // Every session that was left open has been opened: nobody wants the agents that still wait.
    for session in holders.end_strays().await {
        tracing::warn!(%session, "an agent that belongs to no session was ended");
    }
    let owner = host.tokens.owner_secret_file(&home.token()).await;
    owner.map_err(|error| Failure::new(error.to_string()))?;
    host.mount(frontends).await.map_err(cannot_open)
}

/// What sessions may do, from the configuration.
fn policy(settings: &Settings, own: &Path) -> Policy {
    Policy {
        request_deadline: settings.policy.deadline_seconds.map(seconds),
        roots: settings.sessions.roots.clone().into(),
        bypass: if settings.policy.allow_bypass { Bypass::ForOwners } else { Bypass::Refused },
        home: std::env::home_dir(),
        own: [own.to_path_buf()].into(),
        idle_after: settings.limits.agent_idle(),
        agents_at_once: settings.limits.agents_at_once(),
    }
}

fn cannot_open(error: OpenError) -> Failure {
    let message = error.to_string();
    match error {
        OpenError::Name(_) | OpenError::Setting { .. } => Failure::usage(message),
        OpenError::Store(_) | OpenError::Frontend(_) => Failure::new(message),
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

async fn open_store(settings: &Settings, path: &Path) -> Outcome<Arc<dyn Store>> {
    let durability = settings.store.durability;
    let path = path.to_path_buf();
    // Opening may copy a large database before a migration.
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&path, durability)).await;
    let store = opened.map_err(|error| Failure::new(format!("the store cannot be opened: {error}")))?;
    Ok(Arc::new(store.map_err(|error| Failure::new(error.to_string()))?))
}

/// How agent processes are supervised, from the configuration.
pub(crate) fn supervision(
    settings: &Settings,
    home_key: String,
    environment: Vec<(OsString, OsString)>,
) -> Supervision {
    let limits = &settings.limits;
    let mut supervision = Supervision::new(home_key, environment);
    supervision.ladder = Ladder { terminate: seconds(limits.term_to_kill_seconds), ..Ladder::default() };
    supervision.ready = seconds(limits.agent_ready_seconds);
    supervision.answer = seconds(limits.control_request_seconds);
    supervision.max_line = limits.line_bytes as usize;
    supervision.liveness = seconds(limits.liveness_seconds.get());
    supervision
}

/// Every agent, with its program from the configuration.
pub(crate) fn catalogue(
    settings: &Settings,
    supervision: Supervision,
    dial_in: &DialIn,
) -> Outcome<Vec<Arc<dyn Agent>>> {
    Ok(portolan_agents::catalogue(&portolan_agents::Settings {
        supervision: Arc::new(supervision),
        demo: demo_command(settings)?,
        claude: claude(settings),
        codex: codex(settings),
        acp: acp(settings),
        dial_in: dial_in.clone(),
    }))
}

/// The enabled agents, each with the settings for its sessions. With `holders`, the agents that the configuration names
/// outlive the daemon.
pub(crate) fn agents(
    settings: &Settings,
    home_key: &str,
    dial_in: &DialIn,
    holders: Option<&Holders>,
) -> Outcome<Vec<Arc<dyn Agent>>> {
    let supervision = supervision(settings, home_key.to_owned(), std::env::vars_os().collect());
    let catalogue = catalogue(settings, supervision, dial_in)?;
    let held = |agent: Arc<dyn Agent>| match holders {
        Some(holders) if settings.agents.outlives(agent.kind()) => {
            Arc::new(holders.held(agent, holding::place(settings))) as Arc<dyn Agent>
        }
        // The setting may have been another one when an agent that still runs was started.
        Some(holders) => Arc::new(holders.taken_over(agent)),
        None => agent,
    };
    Ok(catalogue
        .into_iter()
        .map(held)
        .filter_map(|agent| match settings.agents.get(agent.kind()) {
            Some(wanted) if !wanted.enabled => None,
            Some(wanted) if !wanted.env.is_empty() => {
                Some(Arc::new(Configured { agent, env: wanted.env.clone() }) as Arc<dyn Agent>)
            }
            _ => Some(agent),
        })
        .collect())
}

/// How Claude Code is started, and its transport.
fn claude(settings: &Settings) -> claude::Config {
    let Some(wanted) = settings.agents.get("claude") else { return claude::Config::default() };
    claude::Config {
        command: wanted.command.iter().map(OsString::from).collect(),
        transport: wanted.transport,
        prices: wanted.prices.clone().into_iter().collect(),
        env: wanted.env.clone().into_iter().collect(),
    }
}

/// How Codex is started.
fn codex(settings: &Settings) -> codex::Config {
    let Some(wanted) = settings.agents.get(codex::KIND) else { return codex::Config::default() };
    codex::Config {
        command: wanted.command.iter().map(OsString::from).collect(),
        prices: wanted.prices.clone().into_iter().collect(),
        env: wanted.env.clone().into_iter().collect(),
    }
}

/// How every other agent is started: over ACP, whether or not the catalogue knows the agent.
fn acp(settings: &Settings) -> Vec<acp::Config> {
    let has_its_own = |kind: &str| [claude::KIND, codex::KIND, "demo"].contains(&kind);
    let others = settings.agents.iter().filter(|(kind, _)| !has_its_own(kind));
    let config = |(kind, wanted): (&String, &config::Agent)| acp::Config {
        kind: kind.clone(),
        command: wanted.command.iter().map(OsString::from).collect(),
        login: wanted.login.clone(),
        serves: acp::Serves { files: wanted.files, terminals: wanted.terminals },
        prices: wanted.prices.clone().into_iter().collect(),
        env: wanted.env.clone().into_iter().collect(),
    };
    others.map(config).collect()
}

/// The demo agent is this program itself.
fn demo_command(settings: &Settings) -> Outcome<Vec<OsString>> {
    if let Some(wanted) = settings.agents.get("demo").filter(|wanted| !wanted.command.is_empty()) {
        return Ok(wanted.command.iter().map(OsString::from).collect());
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("the path of this program cannot be found: {error}")))?;
    // A newer program may have replaced the file of this one, which still runs.
    let program = if program.exists() { program } else { "/proc/self/exe".into() };
    Ok(vec![program.into_os_string(), "demo-agent".into()])
}

/// An agent whose sessions get the variables of the agent's table in portolan.toml; the session's own variables win.
#[derive(Debug)]
struct Configured {
    agent: Arc<dyn Agent>,
    env: std::collections::BTreeMap<String, String>,
}

impl Configured {
    fn with_env(&self, spec: &SessionSpec) -> SessionSpec {
        let mut spec = spec.clone();
        for (name, value) in &self.env {
            spec.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        spec
    }
}

#[deny(clippy::missing_trait_methods, reason = "a method that is missing here is not passed on")]
impl Agent for Configured {
    delegates_agent!(agent: kind, title, capabilities, asks_nothing, rule_for, probe, past, account, rejoin);

    fn environment(&self, spec: &SessionSpec) -> Result<Variables, String> {
        self.agent.environment(&self.with_env(spec))
    }

    fn start(&self, mut launch: Launch) -> AgentLink {
        launch.spec = Arc::new(self.with_env(&launch.spec));
        self.agent.start(launch)
    }
}

/// The owner, for the link that `up` prints.
pub(crate) fn owner() -> Principal {
    Principal {
        token: Tokens::owner_id(),
        name: "owner".into(),
        role: Role::Owner,
        sessions: None,
        via: "page".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_variables_are_refused_even_if_the_configuration_sets_variables() {
        let settings: Settings = toml::from_str("[agents.demo.env]\nHARBOUR = \"1\"\n").unwrap();
        let all = agents(&settings, "key", &DialIn::new(), None).unwrap();
        let demo = all.iter().find(|agent| agent.kind() == "demo").unwrap();
        let asks = |name: &str| SessionSpec { env: [(name.into(), "x".into())].into(), ..Default::default() };
        let environment = demo.environment(&asks("FINE")).unwrap();
        assert_eq!((&*environment["FINE"], &*environment["HARBOUR"]), ("x", "1"));
        assert!(demo.environment(&asks("LD_PRELOAD")).is_err());
    }

    #[test]
    fn the_configuration_sets_the_idle_time_and_the_number_of_agents() {
        let of = |text: &str| {
            let settings: Settings = toml::from_str(text).unwrap();
            let policy = policy(&settings, Path::new("/"));
            (policy.idle_after, policy.agents_at_once.map(std::num::NonZeroUsize::get))
        };
        assert_eq!(of(""), (Some(Duration::from_mins(30)), Some(32)));
        let chosen = of("[limits]\nagent_idle_minutes = 5\nagents_at_once = 3\n");
        assert_eq!(chosen, (Some(Duration::from_mins(5)), Some(3)));
        assert_eq!(of("[limits]\nagent_idle_minutes = 0\nagents_at_once = 0\n"), (None, None));
    }

    // covers: 002-067, 004-042
    #[tokio::test]
    async fn an_agent_cannot_begin_in_a_mode_without_asking_unless_the_configuration_allows_it() {
        use portolan_core::{CommandId, RefusalCode, capabilities::Asks, registry::Registry};

        let folder = tempfile::tempdir().unwrap();
        let settings: Settings = toml::from_str("[agents.mine]\ncommand = [\"mine\"]\n").unwrap();
        let all = agents(&settings, "key", &DialIn::new(), None).unwrap();
        let store = Arc::new(portolan_store::MemoryStore::new());
        let registry = Registry::open(store, all.clone(), Clock::system(), Policy::default()).await.unwrap();
        let operator = Principal { role: Role::Operator, ..owner() };
        let mut unasking = Vec::new();
        for agent in &all {
            let kind = agent.kind();
            let create = async |who: &Principal, mode: &str| {
                let cwd = folder.path().to_path_buf();
                let spec = SessionSpec {
                    agent: kind.into(),
                    cwd,
                    mode: Some(mode.into()),
                    ..SessionSpec::default()
                };
                registry.create(who, CommandId::random(), spec).await.map_err(|refusal| refusal.code)
            };
            for (mode, asks) in agent.capabilities().mode_asks {
                if asks == Asks::Nothing {
                    unasking.push(format!("{kind} {mode}"));
                    for who in [&operator, &owner()] {
                        assert_eq!(create(who, &mode).await, Err(RefusalCode::Forbidden), "{kind} {mode}");
                    }
                }
            }
            // A mode without a mark is for owners, if the agent accepts unknown modes at all.
            let unmarked = create(&operator, "unheard-of").await;
            let may_have_it = agent.capabilities().supported_permission_modes.is_none();
            assert_eq!(unmarked == Err(RefusalCode::Forbidden), may_have_it, "{kind}: {unmarked:?}");
        }
        for named in [
            "claude auto",
            "codex never-ask",
            "claude-agent-acp bypassPermissions",
            "codex-acp agent",
            "gemini yolo",
            "qwen yolo",
            "goose auto",
            "demo bypassPermissions",
        ] {
            assert!(unasking.iter().any(|known| known == named), "{named} is not among {unasking:?}");
        }
    }

    #[test]
    fn limits_prices_and_variables_reach_the_agents() {
        let text = "[limits]\nliveness_seconds = 7\n[agents.claude.env]\nHOME = \"/h\"\n\
                    [agents.claude.prices]\nm = { input = 1, output = 2 }\n";
        let settings: Settings = toml::from_str(text).unwrap();
        assert_eq!(supervision(&settings, "key".into(), vec![]).liveness, Duration::from_secs(7));
        let config = claude(&settings);
        assert_eq!(config.env["HOME"], "/h");
        let price =
            portolan_agents::prices::Price { input: 1.0, output: 2.0, cache_write: 0.0, cache_read: 0.0 };
        assert_eq!(config.prices["m"], price);
    }

    #[test]
    fn the_catalogue_has_every_agent_kind_that_the_configuration_may_name() {
        let supervision = supervision(&Settings::default(), "key".into(), Vec::new());
        let all = catalogue(&Settings::default(), supervision, &DialIn::new()).unwrap();
        let kinds: Vec<&str> = all.iter().map(|agent| agent.kind()).collect();
        assert_eq!(kinds, portolan_agents::KINDS);
    }

    // covers: 003-166
    #[test]
    fn the_configuration_selects_the_enabled_agents() {
        let kinds = |text: &str| {
            let settings: Settings = toml::from_str(text).unwrap();
            agents(&settings, "key", &DialIn::new(), None)
                .unwrap()
                .iter()
                .map(|agent| agent.kind().to_owned())
                .collect::<Vec<_>>()
        };
        let all = kinds("");
        assert!(all.contains(&"demo".to_owned()), "{all:?}");
        let without: Vec<String> = all.into_iter().filter(|kind| kind != "demo").collect();
        assert_eq!(kinds("[agents.demo]\nenabled = false\n"), without);
    }
}
