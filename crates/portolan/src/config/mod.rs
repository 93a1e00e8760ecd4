//! Configuration: portolan.toml, over it the environment, over that the command line.
//!
//! [`Settings`] holds every value with its default; [`keys`] is the one table of what there is, from which
//! docs/configuration.md is made; [`load`] puts the layers together and remembers where each value came from.
//! A value that makes no sense stops the program with its line; nothing is ever guessed or ignored.

mod agui;
mod handheld;
mod insights;
pub(crate) mod keys;
pub(crate) mod load;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    agui::{Agui, Approvals, OnClose, UnknownThreads},
    handheld::Handheld,
    insights::Insights,
};

/// Every value of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    pub(crate) store: Store,
    pub(crate) retention: Retention,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) requests: Requests,
    pub(crate) log: Log,
    pub(crate) insights: Insights,
    pub(crate) handheld: Handheld,
    pub(crate) agui: Agui,
    pub(crate) agents: BTreeMap<String, Agent>,
}

/// The one listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Listen {
    #[serde(deserialize_with = "address")]
    pub(crate) address: SocketAddr,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) self_signed: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) behind_proxy: bool,
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

/// An address and port; `localhost` stands for 127.0.0.1.
fn address<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    let literal = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    literal.as_deref().unwrap_or(&text).parse().map_err(|_| {
        serde::de::Error::custom(format!(
            "`{text}` is no address; use IP:PORT such as 127.0.0.1:7420 or [::1]:7420"
        ))
    })
}

/// The same, where there may be none.
fn optional_address<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    address(from).map(Some)
}

/// The log on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) durability: Durability,
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// The daemon's death at any moment.
    #[default]
    Normal,
    /// The machine's too.
    Full,
}

/// What is deleted by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    pub(crate) age_days: Option<u32>,
    pub(crate) max_size_mb: Option<u64>,
}

/// How long and how large things may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) agent_ready_seconds: u32,
    pub(crate) control_request_seconds: u32,
    pub(crate) term_to_kill_seconds: u32,
    pub(crate) liveness_seconds: NonZeroU32,
    pub(crate) line_bytes: u32,
    pub(crate) shutdown_grace_seconds: u32,
    pub(crate) agent_idle_minutes: u32,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sessions {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) allow_bypass: bool,
}

/// What an agent waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requests {
    pub(crate) deadline_seconds: Option<u32>,
}

/// What the daemon says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) format: LogFormat,
}

/// How much it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agent {
    pub(crate) enabled: bool,
    pub(crate) command: Vec<String>,
    pub(crate) transport: Option<Transport>,
    pub(crate) login: Option<String>,
    pub(crate) files: bool,
    pub(crate) terminals: bool,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) prices: BTreeMap<String, Price>,
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
