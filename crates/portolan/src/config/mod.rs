//! Configuration: the environment overrides portolan.toml, the command line overrides both.
//!
//! [`Settings`] holds every value with its default; [`keys`] is the table of all keys, from which docs/configuration.md
//! is made; [`load`] merges the layers and keeps the origin of each value. An invalid value stops the program with an
//! error that names its line; Portolan never guesses or ignores a value.

pub(crate) mod keys;
pub(crate) mod load;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use portolan_agents::{claude, prices::Price};
use portolan_host::settings::address;
use portolan_store::Durability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every value of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    pub(crate) store: Store,
    pub(crate) retention: Retention,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) policy: Policy,
    pub(crate) log: Log,
    /// A table for each frontend in the frontends' catalogue.
    #[serde(flatten)]
    pub(crate) frontends: portolan_frontends::Settings,
    pub(crate) agents: Agents,
}

/// The main listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Listen {
    /// The address that the daemon listens on. Port 0 picks a free port, which daemon.json shows. An address that other
    /// machines can reach needs TLS.
    #[serde(deserialize_with = "address")]
    pub(crate) address: SocketAddr,
    /// Certificate chain, a PEM file. Needs `tls_key`.
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of `tls_cert`, a PEM file.
    pub(crate) tls_key: Option<PathBuf>,
    /// Create a self-signed certificate in the home folder and use it.
    pub(crate) self_signed: bool,
    /// Host names under which browsers reach the daemon, in addition to the address itself. Compared exactly. Add
    /// `localhost` only on a machine without other users: `localhost` stands for 127.0.0.1 and ::1, and another user
    /// could listen on the address that Portolan does not use.
    pub(crate) hosts: Vec<String>,
    /// Origins of other web pages that may use the daemon, such as `https://board.example`. Compared exactly.
    pub(crate) origins: Vec<String>,
    /// Set this if a proxy does TLS for the daemon and connects from one of `proxies`. The daemon trusts `X-Forwarded-`
    /// headers only from these addresses.
    pub(crate) behind_proxy: bool,
    /// Addresses from which proxies connect, such as `127.0.0.1`. A proxy on another machine must connect with TLS. The
    /// daemon trusts every program that connects from these addresses: if other people use the machine, give the proxy
    /// its own address, such as `127.0.0.2`.
    pub(crate) proxies: Vec<IpAddr>,
}

/// The default is loopback, so that no other machine can connect.
pub(crate) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: DEFAULT_ADDRESS,
            tls_cert: None,
            tls_key: None,
            self_signed: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            behind_proxy: false,
            proxies: Vec::new(),
        }
    }
}

/// The log on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    /// `normal`: committed entries survive a crash of the daemon at any moment. `full`: they also survive a power cut,
    /// but a commit costs about fifteen times as much.
    pub(crate) durability: Durability,
}

/// Which sessions the daemon deletes automatically.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    /// Delete sessions that ended more than this many days ago. Default: never.
    pub(crate) age_days: Option<u32>,
    /// Delete the oldest ended sessions while the database is larger than this. Default: never.
    pub(crate) max_size_mb: Option<u64>,
}

/// Limits of times, sizes and numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// An agent that is not ready after this time is ended. An agent over ACP always gets at least 120 seconds.
    pub(crate) agent_ready_seconds: u32,
    /// How long an agent may take to answer a control request, such as a change of model.
    pub(crate) control_request_seconds: u32,
    /// How long an agent has to end after SIGTERM, before Portolan sends SIGKILL.
    pub(crate) term_to_kill_seconds: u32,
    /// How often Portolan checks that the process of an agent still runs, in case the end of the process was missed. At
    /// least 1.
    pub(crate) liveness_seconds: NonZeroU32,
    /// The longest line that an agent may print. Portolan skips a longer line, and the session shows
    /// a notice with the beginning of the line.
    pub(crate) line_bytes: u32,
    /// How long running turns may continue after the daemon is asked to stop.
    pub(crate) shutdown_grace_seconds: u32,
    /// An agent that had nothing to do for this time is ended. Its session stays, and the next prompt starts the agent
    /// again where it left off. A client that only reads does not keep an agent running. An agent without the
    /// capability `reliable_resume` keeps running, because it could lose its conversation. 0 never ends an idle agent.
    pub(crate) agent_idle_minutes: u32,
    /// How many agents run at once. To start one more, Portolan ends the agent that had nothing to do for the longest
    /// time; if every agent is busy, Portolan refuses to start the new agent. An idle agent takes about 300 MB. 0 is no
    /// limit.
    pub(crate) agents_at_once: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agent_ready_seconds: 30,
            control_request_seconds: 30,
            term_to_kill_seconds: 5,
            liveness_seconds: const { NonZeroU32::new(30).unwrap() },
            line_bytes: 16 * 1024 * 1024,
            shutdown_grace_seconds: 10,
            agent_idle_minutes: 30,
            agents_at_once: 32,
        }
    }
}

impl Limits {
    /// How long running turns may continue after the first signal.
    pub(crate) fn shutdown_grace(&self) -> Duration {
        Duration::from_secs(self.shutdown_grace_seconds.into())
    }

    /// After how long an idle agent is ended; `None` means never.
    pub(crate) fn agent_idle(&self) -> Option<Duration> {
        let minutes = u64::from(self.agent_idle_minutes);
        (minutes > 0).then(|| Duration::from_secs(minutes * 60))
    }

    /// How many agents run at once; `None` means no limit.
    pub(crate) fn agents_at_once(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(usize::try_from(self.agents_at_once).unwrap_or(usize::MAX))
    }
}

/// What sessions may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sessions {
    /// Folders that sessions may work in, including their subfolders. Symbolic links are resolved first. An empty list
    /// allows every folder.
    pub(crate) roots: Vec<PathBuf>,
}

/// What may happen without a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Policy {
    /// Let owners use modes in which most calls run without a question to a person, such as `bypassPermissions`,
    /// `full-access` or `yolo`. Other roles may never use these modes, through any frontend. In some modes no rule can
    /// stop the agent. Portolan refuses such a mode while a deny rule holds.
    pub(crate) allow_bypass: bool,
    /// A request that nobody answers within this time is denied. A session may have its own time. Default: never.
    pub(crate) deadline_seconds: Option<u32>,
}

/// The daemon's own log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// How much the daemon logs: `error`, `warn`, `info`, `debug` or `trace`.
    pub(crate) level: Level,
    /// Format of the log: `text` for people, `json` for programs.
    pub(crate) format: LogFormat,
}

/// How much the daemon logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Level {
    /// The level as the tracing subscriber's type.
    pub(crate) fn filter(self) -> tracing::level_filters::LevelFilter {
        use tracing::level_filters::LevelFilter as F;
        match self {
            Self::Error => F::ERROR,
            Self::Warn => F::WARN,
            Self::Info => F::INFO,
            Self::Debug => F::DEBUG,
            Self::Trace => F::TRACE,
        }
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// All agents: what holds for each, and a table for each by its name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Agents {
    /// Running agents outlive the daemon: a separate process holds each agent, and the next daemon takes the agent
    /// over. If `false`, agents end with the daemon.
    pub(crate) outlive: bool,
    /// Where the processes that hold agents run. `holder`: in the background. `tmux`: each in a window of the tmux
    /// session `portolan`. `auto`: like `tmux` if a tmux server of yours runs, otherwise like `holder`.
    pub(crate) place: Place,
    /// Without a daemon, an agent that has nothing to do ends after this time.
    pub(crate) idle_without_daemon_minutes: u32,
    /// Without a daemon, every agent ends after this time, even if a turn runs or a request waits.
    pub(crate) without_daemon_hours: u32,
    #[serde(flatten)]
    pub(crate) each: BTreeMap<String, Agent>,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            outlive: false,
            place: Place::Holder,
            idle_without_daemon_minutes: 10,
            without_daemon_hours: 24,
            each: BTreeMap::new(),
        }
    }
}

impl Agents {
    /// Does this agent outlive the daemon?
    pub(crate) fn outlives(&self, kind: &str) -> bool {
        self.each.get(kind).and_then(|agent| agent.outlive).unwrap_or(self.outlive)
    }
}

impl std::ops::Deref for Agents {
    type Target = BTreeMap<String, Agent>;

    fn deref(&self) -> &Self::Target {
        &self.each
    }
}

// Written by hand, because `flatten` would lose the place of an error in the file.
impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Tables;

        impl<'de> serde::de::Visitor<'de> for Tables {
            type Value = Agents;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("a table of agents")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Agents, A::Error> {
                let mut agents = Agents::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "outlive" => agents.outlive = map.next_value()?,
                        "place" => agents.place = map.next_value()?,
                        "idle_without_daemon_minutes" => {
                            agents.idle_without_daemon_minutes = map.next_value()?;
                        }
                        "without_daemon_hours" => agents.without_daemon_hours = map.next_value()?,
                        _ => {
                            agents.each.insert(key, map.next_value()?);
                        }
                    }
                }
                Ok(agents)
            }
        }

        from.deserialize_map(Tables)
    }
}

/// Where the processes that hold agents run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// In the background.
    #[default]
    Holder,
    /// In windows of tmux.
    Tmux,
    /// In tmux if a tmux server of the user runs.
    Auto,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agent {
    /// Whether clients can start this agent.
    pub(crate) enabled: bool,
    /// Whether this agent outlives the daemon. Default: the value of `agents.outlive`.
    pub(crate) outlive: Option<bool>,
    /// The program of the agent and its first arguments. Never a shell line. Default: the usual name of the program. A
    /// `command` is all that Portolan needs for an agent that it does not know; Portolan then speaks ACP with the
    /// agent.
    pub(crate) command: Vec<String>,
    /// For Claude Code: `stdio`, or `websocket` for versions up to 2.1.120. Default: chosen by the version.
    pub(crate) transport: Option<claude::Way>,
    /// For agents over ACP: the agent's own name of the login method that Portolan selects before a session begins,
    /// such as `gemini-api-key`. Default: none, the agent uses its existing login.
    pub(crate) login: Option<String>,
    /// For agents over ACP: Portolan reads and writes files for an agent that asks, inside the folders of the session.
    pub(crate) files: bool,
    /// For agents over ACP: Portolan runs commands for an agent that asks. The commands start in a folder of the
    /// session; nothing confines them.
    pub(crate) terminals: bool,
    /// Environment variables for every session of this agent, and for checks of the agent.
    pub(crate) env: BTreeMap<String, String>,
    /// Prices of models, for an agent that does not report costs. For Claude Code, these prices replace the list
    /// prices. The key is the name of a model, or the beginning of the name: `{ input = 3, output = 15, cache_write =
    /// 3.75, cache_read = 0.3 }`, in US dollars for a million tokens.
    pub(crate) prices: BTreeMap<String, Price>,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            enabled: true,
            outlive: None,
            command: Vec::new(),
            transport: None,
            login: None,
            files: true,
            terminals: true,
            env: BTreeMap::new(),
            prices: BTreeMap::new(),
        }
    }
}
