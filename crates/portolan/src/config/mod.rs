//! Configuration: portolan.toml, over it the environment, over that the command line.
//!
//! [`Settings`] holds every value with its default; [`keys`] is the one table of what there is, from which
//! docs/configuration.md is made; [`load`] puts the layers together and remembers where each value came from.
//! A value that makes no sense stops the program with its line; nothing is ever guessed or ignored.

pub(crate) mod keys;
pub(crate) mod load;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use portolan_host::settings::address;
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
    pub(crate) requests: Requests,
    pub(crate) log: Log,
    /// A table for each frontend, as the frontends' own catalogue lists them.
    #[serde(flatten)]
    pub(crate) frontends: portolan_frontends::Settings,
    pub(crate) agents: BTreeMap<String, Agent>,
}

/// The one listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Listen {
    /// Where the daemon listens. Port 0 picks a free one; daemon.json tells which. An address that others can reach needs
    /// TLS.
    #[serde(deserialize_with = "address")]
    pub(crate) address: SocketAddr,
    /// Certificate chain, a PEM file. Needs `tls_key`.
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of `tls_cert`, a PEM file.
    pub(crate) tls_key: Option<PathBuf>,
    /// Make a self-signed certificate in the home folder and use it.
    pub(crate) self_signed: bool,
    /// Names under which browsers reach the daemon, beside the address itself. Compared exactly. `localhost` only where no
    /// other user of the machine can listen on its other address.
    pub(crate) hosts: Vec<String>,
    /// Other pages that may use the daemon, such as `https://board.example`. Compared exactly.
    pub(crate) origins: Vec<String>,
    /// A proxy that does TLS for the world stands before the daemon and connects from one of `proxies`. From there alone
    /// are its `X-Forwarded-` headers believed.
    pub(crate) behind_proxy: bool,
    /// Addresses from which proxies connect, such as `127.0.0.1`; those on other machines by TLS. Every program that
    /// connects from there is believed: where others use the machine, give the proxy an address of its own, such as
    /// `127.0.0.2`.
    pub(crate) proxies: Vec<IpAddr>,
}

/// Where nothing else is said: loopback, so that nobody else can knock.
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
    /// `normal`: what was committed survives the death of the daemon at any moment. `full`: a power cut too, at about
    /// fifteen times the cost of a commit.
    pub(crate) durability: Durability,
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// The daemon's death at any moment.
    #[default]
    Normal,
    /// The machine's too.
    Full,
}

/// What is deleted by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    /// Delete sessions that ended longer ago than this. Never when absent.
    pub(crate) age_days: Option<u32>,
    /// Delete the oldest ended sessions while the database is larger than this. Never when absent.
    pub(crate) max_size_mb: Option<u64>,
}

/// How long and how large things may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// An agent that is not ready by then is ended.
    pub(crate) agent_ready_seconds: u32,
    /// How long an agent may take to answer a control request, such as a change of model.
    pub(crate) control_request_seconds: u32,
    /// How long an agent has between being asked to end and being killed.
    pub(crate) term_to_kill_seconds: u32,
    /// How often the process of an agent is looked for, should its end ever have been missed. At least 1.
    pub(crate) liveness_seconds: NonZeroU32,
    /// The longest line an agent may print. A longer one is cut, and the session says so.
    pub(crate) line_bytes: u32,
    /// How long running turns may go on after the daemon was asked to stop.
    pub(crate) shutdown_grace_seconds: u32,
    /// An agent that has had nothing to do for so long is ended; its session stays, and the next prompt starts the agent
    /// again where it left off. Whoever only reads does not keep it awake. Agents that may lose their conversation by that
    /// are kept (capability `reliable_resume`). 0 keeps all of them.
    pub(crate) agent_idle_minutes: u32,
    /// How many agents run at once. To start one more, the one that has had nothing to do for the longest time is ended;
    /// where each has something to do, the new one is refused. An agent that waits takes some 300 MB. 0 is any number.
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
    /// How long running turns may go on after the first signal.
    pub(crate) fn shutdown_grace(&self) -> Duration {
        Duration::from_secs(self.shutdown_grace_seconds.into())
    }

    /// After how long an agent with nothing to do is ended, where it is at all.
    pub(crate) fn agent_idle(&self) -> Option<Duration> {
        let minutes = u64::from(self.agent_idle_minutes);
        (minutes > 0).then(|| Duration::from_secs(minutes * 60))
    }

    /// How many agents run at once, where that is limited.
    pub(crate) fn agents_at_once(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(usize::try_from(self.agents_at_once).unwrap_or(usize::MAX))
    }
}

/// What sessions may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sessions {
    /// Folders that sessions may work in, with all below them; links are followed first. Empty allows any folder.
    pub(crate) roots: Vec<PathBuf>,
    /// Let owners use modes in which an agent asks nobody before it acts, such as `bypassPermissions`, `full-access` or
    /// `yolo`. Nobody else may, by whichever frontend.
    pub(crate) allow_bypass: bool,
}

/// What an agent waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requests {
    /// A request that nobody answers for so long is denied. Never when absent.
    pub(crate) deadline_seconds: Option<u32>,
}

/// What the daemon says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// How much the daemon says: `error`, `warn`, `info`, `debug` or `trace`.
    pub(crate) level: Level,
    /// `text` for people, `json` for programs.
    pub(crate) format: LogFormat,
}

/// How much it says.
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
    /// As the subscriber knows it.
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

/// In which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agent {
    /// Whether this agent is offered.
    pub(crate) enabled: bool,
    /// How it is started: the program and its first arguments. Never a shell line. Its usual name when empty. An agent that
    /// Portolan does not know needs nothing else: it then speaks ACP.
    pub(crate) command: Vec<String>,
    /// For Claude Code: `stdio`, or `websocket` for versions up to 2.1.120. By its version when absent.
    pub(crate) transport: Option<Transport>,
    /// For agents over ACP: the way to log in that is taken before a session begins, by the agent's own name for it, such
    /// as `gemini-api-key`. None when absent: the agent then uses what it is logged in with.
    pub(crate) login: Option<String>,
    /// For agents over ACP: read and write files for an agent that asks, inside the folders of its session.
    pub(crate) files: bool,
    /// For agents over ACP: run commands for an agent that asks. They begin in a folder of its session; nothing confines
    /// them.
    pub(crate) terminals: bool,
    /// Environment variables for every session of this agent, and for looking at it.
    pub(crate) env: BTreeMap<String, String>,
    /// What models cost where the agent does not tell; for Claude Code before the list prices. By the model's name or its
    /// beginning: `{ input = 3, output = 15, cache_write = 3.75, cache_read = 0.3 }`, in US dollars for a million tokens.
    pub(crate) prices: BTreeMap<String, Price>,
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    #[serde(deserialize_with = "dollars")]
    pub(crate) input: f64,
    #[serde(deserialize_with = "dollars")]
    pub(crate) output: f64,
    #[serde(default, deserialize_with = "dollars")]
    pub(crate) cache_write: f64,
    #[serde(default, deserialize_with = "dollars")]
    pub(crate) cache_read: f64,
}

/// An amount that can be paid; `3` is as good as `3.0`.
fn dollars<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(from)?;
    if amount.is_finite() && amount >= 0.0 {
        return Ok(amount);
    }
    Err(serde::de::Error::custom(format!("`{amount}` is no price; it is zero or more US dollars")))
}

/// How an agent with several roads is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    Stdio,
    Websocket,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            enabled: true,
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
