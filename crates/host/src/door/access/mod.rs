//! The checks of the door: whether a request may come in. This module decides; [`mod@super::guard`] enforces.
//!
//! One file for each check: the name by which we were called (`host.rs`), the page that sends the request
//! (`origin.rs`), what is open to everyone (`open.rs`), who sends the request (`identity.rs`), and how often an address
//! was wrong (`attempts.rs`).

mod arrival;
mod attempts;
mod host;
mod identity;
mod open;
mod origin;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderValue, request::Parts};
use portolan_core::{DaemonEvent, Millis, Principal, TokenId, ports::Clock};

pub use self::arrival::Arrival;
pub(super) use self::{
    arrival::Seen,
    identity::{Admission, cookies},
};
use self::{host::HostCheck, open::OpenPaths, origin::OriginCheck};
use super::{
    admit::{Admit, Paths, SecretCheck},
    authenticator::Authenticator,
    denied::Denied,
    lockout::{Failures, Requests},
    reporter::Reporter,
    settings::{DoorLimits, DoorSettings},
    tickets::Tickets,
};

/// The name of the browser's cookie.
pub const COOKIE: &str = "portolan";
/// The header that carries the browser's key.
pub const KEY_HEADER: &str = "x-portolan-key";
/// The one path where a WebSocket may show its key in the hello frame.
pub const WEBSOCKET_PATH: &str = "/ws";
/// The path where a browser exchanges its ticket.
pub const LOGIN_PATH: &str = "/api/v1/login";
/// The path that only answers "ok".
pub const HEALTH_PATH: &str = "/healthz";

/// Gets the door's events for the daemon's log, and who caused them. Must not wait.
pub type Witness = Arc<dyn Fn(Option<&Principal>, DaemonEvent) + Send + Sync>;

/// The checks of one listener.
pub struct AccessCheck {
    hosts: HostCheck,
    origins: OriginCheck,
    open: OpenPaths,
    late: Vec<Paths>,
    secret_checks: Vec<SecretCheck>,
    authenticator: Arc<dyn Authenticator>,
    tickets: Arc<Tickets>,
    failures: Failures,
    requests: Requests,
    clock: Clock,
    pub(super) limits: DoorLimits,
    witness: Witness,
    strangers: Mutex<Strangers>,
}

/// Processes refused at the Unix socket that are not in the log yet, and when the last line was written.
#[derive(Debug, Default)]
struct Strangers {
    count: u32,
    told_at: Option<Millis>,
}

/// A line about strangers at the Unix socket is written at most this often.
const STRANGERS_EVERY_MS: i64 = 60 * 1000;

impl fmt::Debug for AccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCheck")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// In `hosts`.
    #[error("`{0}` in `hosts` is not a host name; use `name` or `name:port`, without a scheme")]
    Host(String),
    /// In `origins`.
    #[error("`{0}` in `origins` is not an origin; use `https://name` or `https://name:port`, without a path")]
    Origin(String),
    /// `proxies` is empty.
    #[error(
        "`behind_proxy` needs `proxies`: set it to the addresses that your proxies connect from, such as `127.0.0.1`"
    )]
    NoProxies,
}

impl AccessCheck {
    /// The checks for these settings.
    pub fn new(
        settings: &DoorSettings,
        authenticator: Arc<dyn Authenticator>,
        tickets: Arc<Tickets>,
        clock: Clock,
    ) -> Result<Self, BadName> {
        Ok(Self {
            hosts: HostCheck::new(settings)?,
            origins: OriginCheck::new(&settings.origins)?,
            open: OpenPaths::default(),
            late: Vec::new(),
            secret_checks: Vec::new(),
            authenticator,
            tickets,
            failures: Failures::new(&settings.limits),
            requests: Requests::new(&settings.limits),
            clock,
            limits: settings.limits.clone(),
            witness: Arc::new(|_, _| {}),
            strangers: Mutex::default(),
        })
    }

    /// Reports events for the daemon's log to `witness`.
    #[must_use]
    pub fn with_witness(
        mut self,
        witness: impl Fn(Option<&Principal>, DaemonEvent) + Send + Sync + 'static,
    ) -> Self {
        self.witness = Arc::new(witness);
        self
    }

    /// Reports events to the daemon's log itself.
    #[must_use]
    pub fn with_reporter(self, reporter: Reporter) -> Self {
        self.with_witness(move |who, event| reporter.tell(who, event))
    }

    pub(super) fn tell(&self, who: Option<&Principal>, event: DaemonEvent) {
        (self.witness)(who, event);
    }

    /// A process was refused at the Unix socket.
    pub(super) fn refused_at_the_socket(&self, uid: u32, pid: Option<u32>) {
        let attempts = {
            let now = self.clock.now();
            let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
            strangers.count = strangers.count.saturating_add(1);
            if strangers.told_at.is_some_and(|told| now.0 - told.0 < STRANGERS_EVERY_MS) {
                return;
            }
            strangers.told_at = Some(now);
            std::mem::take(&mut strangers.count)
        };
        let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
        let from = format!("unix socket, uid {uid}, pid {pid}");
        let reason = "another user, or a process of an agent".to_owned();
        self.tell(None, DaemonEvent::AccessRefused { from, attempts, reason });
    }

    /// Also admits strangers in this way.
    pub fn admitting(mut self, admit: Admit) -> Result<Self, BadName> {
        match admit {
            Admit::Open(paths) => self.open.add(paths),
            Admit::Late(paths) => self.late.push(paths),
            Admit::Secret(check) => self.secret_checks.push(check),
            Admit::Below(base, rules) => self.origins.add(base, rules)?,
        }
        Ok(self)
    }

    /// Where a request comes from and goes to, past a trusted proxy. Refuses a name that is not ours.
    pub(super) fn check_host(&self, parts: &Parts, arrival: &Arrival) -> Result<Seen, Denied> {
        self.hosts.check(parts, arrival)
    }

    /// Whether a page may send this request at all. Returns the configured origin, for the CORS answer.
    pub(super) fn check_origin(&self, parts: &Parts, seen: &Seen) -> Result<Option<HeaderValue>, Denied> {
        self.origins.check(parts, seen, &self.open)
    }

    /// The body of a refusal on this path, if its frontend has its own form.
    pub(super) fn refusal_on(&self, path: &str, denied: &Denied) -> Option<serde_json::Value> {
        self.origins.refusal_on(path, denied)
    }

    pub(super) fn is_late(&self, path: &str) -> bool {
        self.late.iter().any(|late| late(path))
    }

    /// The tickets and browsers.
    pub fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Counts one more request (or frame) of this token, if the rate allows it.
    pub fn check_rate(&self, token: &TokenId) -> Result<(), Denied> {
        self.requests
            .take(token)
            .map_err(|wait| Denied::too_often(format!("the token `{token}` sends too many requests"), wait))
    }

    /// Forgets what has expired and writes what was postponed.
    pub async fn tidy(&self) {
        self.requests.tidy();
        self.tickets.tidy().await;
        self.authenticator.tidy().await;
    }
}
