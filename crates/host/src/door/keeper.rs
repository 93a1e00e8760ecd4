//! The door-keeper: who may come in, and by which name we were called. Decides; [`mod@super::guard`] carries it out.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use portolan_core::{DaemonEvent, Millis, Principal, RefusalCode, Role, TokenId, ports::Clock};

use super::{
    admit::{Admit, Paths, Vouch, Voucher},
    authenticator::{Authenticator, Credential, Standing},
    authority::{Authority, Host, Origin, Scheme},
    denied::Denied,
    late::Stranger,
    lockout::{Failures, Requests},
    reporter::Reporter,
    rules::{Below, Rules},
    secret::Secret,
    settings::{DoorLimits, DoorSettings},
    stay::Stay,
    tickets::{HalfGuest, Tickets},
    tokens::Tokens,
};

/// The name of the browser's cookie.
pub const COOKIE: &str = "portolan";
/// The header that carries the browser's key.
pub const KEY_HEADER: &str = "x-portolan-key";
/// The one path where a WebSocket may show its key in the hello frame.
pub const WEBSOCKET_PATH: &str = "/ws";
/// Where a browser exchanges its ticket.
pub const LOGIN_PATH: &str = "/api/v1/login";
/// Says only ok.
pub const HEALTH_PATH: &str = "/healthz";
/// Cookies of our name that are looked at: another local port may have set one too.
const MAX_COOKIES: usize = 4;

/// How a connection came in. The listener puts it on every request; an embedding program may do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Over TCP.
    Tcp {
        /// From where.
        peer: SocketAddr,
        /// To which of our addresses.
        local: SocketAddr,
        /// By TLS.
        secure: bool,
    },
    /// Over the Unix socket, by a process of our own user that passed the peer check.
    Unix,
    /// Nobody told. Only configured hosts and a token count.
    Unknown,
}

/// Is told what happens at the door and belongs into the daemon's log, and by whom. Must not wait.
pub type Witness = Arc<dyn Fn(Option<&Principal>, DaemonEvent) + Send + Sync>;

/// The door-keeper.
pub struct Keeper {
    authenticator: Arc<dyn Authenticator>,
    tickets: Arc<Tickets>,
    clock: Clock,
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
    /// Rules of frontends for what lies below their paths.
    below: Vec<Below>,
    behind_proxy: bool,
    proxies: Vec<IpAddr>,
    open: Vec<Paths>,
    late: Vec<Paths>,
    vouchers: Vec<Voucher>,
    pub(super) limits: DoorLimits,
    failures: Failures,
    requests: Requests,
    witness: Witness,
    strangers: Mutex<Strangers>,
}

/// Processes refused at the Unix socket that are not in the log yet, and when the last line was written.
#[derive(Debug, Default)]
struct Strangers {
    count: u32,
    told_at: Option<Millis>,
}

/// A line about strangers at the Unix socket is written this often at most.
const STRANGERS_EVERY_MS: i64 = 60 * 1000;

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

/// A setting makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// In `hosts`.
    #[error("`{0}` in `hosts` is no name; use `name` or `name:port`, without a scheme")]
    Host(String),
    /// In `origins`.
    #[error("`{0}` in `origins` is no origin; use `https://name` or `https://name:port`, without a path")]
    Origin(String),
    /// `proxies` is empty.
    #[error(
        "`behind_proxy` needs the addresses from which the proxies connect in `proxies`, such as `127.0.0.1`; nobody else is believed"
    )]
    NoProxies,
}

/// What the keeper found out about a request that may go on.
#[derive(Debug)]
pub(super) enum Admission {
    /// Nobody needs to be known here.
    Open,
    /// Someone, and for how long.
    Guest(Principal, Stay),
    /// A WebSocket with its cookie.
    Half(HalfGuest),
    /// A WebSocket that shows its token later.
    Stranger(Stranger),
    /// Someone whom a frontend knows by a secret of its own.
    Vouched,
}

/// A request as seen past a proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Who asks; the client's own address where a proxy we trust tells it.
    pub(super) address: Option<IpAddr>,
    pub(super) scheme: Scheme,
    /// The name by which we were called; none over the Unix socket.
    pub(super) host: Option<Authority>,
}

impl Keeper {
    /// A keeper with these settings.
    pub fn new(
        settings: &DoorSettings,
        authenticator: Arc<dyn Authenticator>,
        tickets: Arc<Tickets>,
        clock: Clock,
    ) -> Result<Self, BadName> {
        let host = |text: &String| Authority::parse(text).ok_or_else(|| BadName::Host(text.clone()));
        if settings.behind_proxy && settings.proxies.is_empty() {
            return Err(BadName::NoProxies);
        }
        Ok(Self {
            authenticator,
            tickets,
            clock,
            hosts: settings.hosts.iter().map(host).collect::<Result<_, _>>()?,
            origins: origins(&settings.origins)?,
            below: Vec::new(),
            behind_proxy: settings.behind_proxy,
            proxies: settings.proxies.iter().map(IpAddr::to_canonical).collect(),
            open: Vec::new(),
            late: Vec::new(),
            vouchers: Vec::new(),
            failures: Failures::new(&settings.limits),
            requests: Requests::new(&settings.limits),
            limits: settings.limits.clone(),
            witness: Arc::new(|_, _| {}),
            strangers: Mutex::default(),
        })
    }

    /// Tells `witness` what belongs into the daemon's log.
    #[must_use]
    pub fn with_witness(
        mut self,
        witness: impl Fn(Option<&Principal>, DaemonEvent) + Send + Sync + 'static,
    ) -> Self {
        self.witness = Arc::new(witness);
        self
    }

    /// The same, to the daemon's log itself.
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

    /// Admits strangers in this way, too.
    pub fn admitting(mut self, admit: Admit) -> Result<Self, BadName> {
        match admit {
            Admit::Open(paths) => self.open.push(paths),
            Admit::Late(paths) => self.late.push(paths),
            Admit::Secret(voucher) => self.vouchers.push(voucher),
            Admit::Below(base, Rules { origins: allowed, setting, refusal }) => {
                self.below.push(Below { base, origins: origins(&allowed)?, setting, refusal });
            }
        }
        Ok(self)
    }

    /// The rules that hold for a path, where it lies below a frontend that has some.
    fn rules_of(&self, path: &str) -> Option<&Below> {
        self.below.iter().find(|rules| rules.covers(path))
    }

    /// The body of a refusal on this path, where its frontend has a form of its own for it.
    pub(super) fn refusal_on(&self, path: &str, denied: &Denied) -> Option<serde_json::Value> {
        self.rules_of(path).map(|rules| (rules.refusal)(denied))
    }

    pub(super) fn is_late(&self, path: &str) -> bool {
        self.late.iter().any(|late| late(path))
    }

    pub(super) fn authenticate(&self, credential: &Credential) -> Option<Standing> {
        self.authenticator.admit(credential)
    }

    /// The tickets and browsers.
    pub fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }

    /// Who a WebSocket is that came in by its cookie, once it has shown its key.
    pub fn complete(&self, half: &HalfGuest, key: &str) -> Option<Principal> {
        self.judge(self.tickets.complete(half, &Secret::sent(key)), half.address).ok()
    }

    /// One more request (or frame) of this token, where there is room for it.
    pub fn spend(&self, token: &TokenId) -> Result<(), Denied> {
        self.requests
            .take(token)
            .map_err(|wait| Denied::too_often(format!("the token `{token}` asks too often"), wait))
    }

    /// Forgets what has expired and writes down what can wait.
    pub async fn tidy(&self) {
        self.requests.tidy();
        self.tickets.tidy().await;
        self.authenticator.tidy().await;
    }

    // ---------------------------------------------------------------------------------- names

    /// Where a request comes from and goes to, past a proxy we trust.
    pub(super) fn see(&self, parts: &Parts, arrival: &Arrival) -> Result<Seen, Denied> {
        let (peer, secure) = match arrival {
            Arrival::Unix => return Ok(Seen { address: None, scheme: Scheme::Http, host: None }),
            Arrival::Tcp { peer, secure, .. } => (Some(peer.ip().to_canonical()), *secure),
            Arrival::Unknown => (None, false),
        };
        let own = if secure { Scheme::Https } else { Scheme::Http };
        let host = called(parts)?;
        self.check_host(&host, arrival, own)?;
        if !peer.is_some_and(|peer| self.is_proxy(peer)) {
            return Ok(Seen { address: peer, scheme: own, host: Some(host) });
        }
        let headers = &parts.headers;
        let scheme = match single(headers, &FORWARDED_PROTO)? {
            Some(text) => {
                Scheme::parse(&text.to_ascii_lowercase()).ok_or_else(|| bad("X-Forwarded-Proto"))?
            }
            None => own,
        };
        let host = match single(headers, &FORWARDED_HOST)? {
            Some(text) => {
                let host = Authority::parse(text).ok_or_else(|| bad("X-Forwarded-Host"))?;
                self.check_host(&host, arrival, scheme)?;
                host
            }
            None => host,
        };
        Ok(Seen { address: self.client(headers, peer), scheme, host: Some(host) })
    }

    fn is_proxy(&self, peer: IpAddr) -> bool {
        self.behind_proxy && self.proxies.contains(&peer)
    }

    /// The last address that a proxy of ours did not add itself.
    fn client(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        let lines: Vec<_> =
            headers.get_all(&FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
        for text in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            // Something that is no address was not written by a proxy of ours: what stands before it is hearsay.
            let Ok(address) = text.trim().parse::<IpAddr>() else { return peer };
            let address = address.to_canonical();
            if !self.is_proxy(address) {
                return Some(address);
            }
        }
        peer
    }

    fn check_host(&self, host: &Authority, arrival: &Arrival, scheme: Scheme) -> Result<(), Denied> {
        if self.is_ours(host, arrival, scheme) {
            return Ok(());
        }
        let message = match arrival {
            // Someone who typed `localhost`, most likely.
            Arrival::Tcp { local, secure, .. } if host.is_loopback_name() => {
                let scheme = if *secure { "https" } else { "http" };
                format!(
                    "use `{scheme}://{local}`: this server listens at that address alone, and under other names of this \
                     machine another user's program may answer; a name that is safe goes to `hosts` under [listen]"
                )
            }
            Arrival::Tcp { .. } | Arrival::Unix | Arrival::Unknown => {
                "this is not a name of this server; if it should be, add it to `hosts` under [listen]"
                    .to_owned()
            }
        };
        Err(Denied::new(StatusCode::MISDIRECTED_REQUEST, RefusalCode::Forbidden, message))
    }

    fn is_ours(&self, host: &Authority, arrival: &Arrival, scheme: Scheme) -> bool {
        let port = host.effective_port(scheme);
        let local = match arrival {
            Arrival::Tcp { local, .. } => Some(*local),
            Arrival::Unix | Arrival::Unknown => None,
        };
        if let Some(local) = local {
            // The address itself cannot be rebound: only a name can be made to point here. `localhost` is a name, too: it
            // stands for an address more than we listen on, where another user's program can listen.
            if port == local.port() && host.host == Host::Address(local.ip().to_canonical()) {
                return true;
            }
        }
        self.hosts.iter().any(|ours| {
            let port_fits = match ours.port {
                Some(only) => port == only,
                None => port == scheme.port() || local.is_some_and(|local| port == local.port()),
            };
            ours.host == host.host && port_fits
        })
    }

    /// Whether a page may send this request at all. Tells which configured origin it was, for the CORS answer.
    pub(super) fn check_origin(&self, parts: &Parts, seen: &Seen) -> Result<Option<HeaderValue>, Denied> {
        let forbidden =
            |message: &str| Err(Denied::new(StatusCode::FORBIDDEN, RefusalCode::Forbidden, message));
        let mut lines = parts.headers.get_all(header::ORIGIN).iter();
        let configured = match (lines.next(), lines.next()) {
            (None, _) => None,
            (Some(line), None) => {
                let Some(origin) = line.to_str().ok().and_then(Origin::parse) else {
                    return forbidden("pages without an origin of their own may not talk to this server");
                };
                if self.origins.contains(&origin) || self.is_welcome_below(&origin, parts.uri.path()) {
                    Some(line.clone())
                } else if is_own_origin(&origin, seen) {
                    None
                } else {
                    // The narrowest way: what opens a frontend need not open the rest.
                    let setting =
                        self.rules_of(parts.uri.path()).map_or("listen.origins", |rules| rules.setting);
                    return forbidden(&format!(
                        "pages of this origin may not talk to this server; if they should, add it to `{setting}`"
                    ));
                }
            }
            (Some(_), Some(_)) => return forbidden("a request has at most one Origin header"),
        };
        if configured.is_none() && is_foreign_fetch(&parts.headers) && !self.is_visit(parts) {
            return forbidden("pages of other sites may not talk to this server");
        }
        Ok(configured)
    }

    /// Pages of this origin may come to that path.
    fn is_welcome_below(&self, origin: &Origin, path: &str) -> bool {
        self.rules_of(path).is_some_and(|rules| rules.origins.contains(origin))
    }

    /// Someone follows a link to the page: that may come from anywhere, and gets only what is open to anyone.
    fn is_visit(&self, parts: &Parts) -> bool {
        let is = |name: &str, value: &str| parts.headers.get(name).is_some_and(|v| v == value);
        self.is_open(parts) && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
    }

    // ------------------------------------------------------------------------------- identity

    fn is_open(&self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        match parts.method {
            Method::GET | Method::HEAD => path == HEALTH_PATH || self.open.iter().any(|open| open(path)),
            Method::POST => path == LOGIN_PATH,
            _ => false,
        }
    }

    /// Who sends this request, or why it may not go on.
    pub(super) fn admit(&self, parts: &Parts, arrival: &Arrival, seen: &Seen) -> Result<Admission, Denied> {
        if self.is_open(parts) {
            return Ok(Admission::Open);
        }
        let vouched =
            self.vouchers.iter().map(|voucher| voucher(parts)).find(|vouch| *vouch != Vouch::NotMine);
        match vouched {
            None | Some(Vouch::NotMine) => {}
            Some(Vouch::Known) => return Ok(Admission::Vouched),
            Some(Vouch::Unknown) => return Err(Denied::unauthenticated()),
        }
        let admission = match self.admit_late(parts, arrival, seen) {
            Some(admission) => admission?,
            None => self.identify(parts, arrival, seen)?,
        };
        if let Admission::Guest(principal, _) = &admission {
            self.spend(&principal.token)?;
        }
        Ok(admission)
    }

    fn identify(&self, parts: &Parts, arrival: &Arrival, seen: &Seen) -> Result<Admission, Denied> {
        let headers = &parts.headers;
        if headers.contains_key(header::AUTHORIZATION) {
            let found =
                bearer(headers).and_then(|secret| self.authenticator.admit(&Credential::Bearer(secret)));
            return self
                .judge(found, seen.address)
                .map(|Standing { principal, stay, .. }| Admission::Guest(principal, stay));
        }
        if *arrival == Arrival::Unix {
            // Where nobody is the owner by a secret, the kernel's word has no end.
            let standing = self.authenticator.standing(&Tokens::owner_id());
            let stay = standing.map(|standing| standing.stay).unwrap_or_default();
            if stay.is_over() {
                return Err(Denied::unauthenticated());
            }
            return Ok(Admission::Guest(owner(), stay));
        }
        let cookies = cookies(headers);
        if let Some(key) = headers.get(KEY_HEADER) {
            let key = key.to_str().map(Secret::sent).ok();
            let found =
                key.and_then(|key| cookies.iter().find_map(|cookie| self.tickets.enter(cookie, &key)));
            return self
                .judge(found, seen.address)
                .map(|(principal, stay)| Admission::Guest(principal, stay));
        }
        let is_upgrade = parts.method == Method::GET
            && parts.uri.path() == WEBSOCKET_PATH
            && headers.get(header::UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let half = cookies.iter().find_map(|cookie| self.tickets.half(cookie, seen.address));
        match half {
            Some(half) if is_upgrade => Ok(Admission::Half(half)),
            // A cookie alone is sent by the browser itself, for whatever page: it opens nothing.
            _ => Err(Denied::unauthenticated()),
        }
    }

    /// Counts wrong credentials. While an address is locked out nothing gets in from it, save by loopback: there
    /// every user and program of the machine has the same address, and none may lock out the others.
    pub(super) fn judge<T>(&self, found: Option<T>, address: Option<IpAddr>) -> Result<T, Denied> {
        let locked = self.locked(address);
        match (found, locked) {
            (Some(found), None) => Ok(found),
            (Some(found), Some(_)) if is_loopback(address) => Ok(found),
            (_, Some(left)) => Err(locked_out(left)),
            (None, None) => {
                self.note_failure(address);
                Err(Denied::unauthenticated())
            }
        }
    }

    /// Whether anything from this address is looked at now.
    pub(super) fn may_try(&self, address: Option<IpAddr>) -> Result<(), Denied> {
        match self.locked(address) {
            Some(left) if !is_loopback(address) => Err(locked_out(left)),
            _ => Ok(()),
        }
    }

    fn locked(&self, address: Option<IpAddr>) -> Option<u32> {
        self.failures.locked_for(address?, self.clock.now())
    }

    fn note_failure(&self, address: Option<IpAddr>) {
        if let Some(address) = address
            && self.failures.note(address, self.clock.now())
        {
            tracing::warn!(%address, "locked out after too many wrong credentials");
            let (from, attempts) = (address.to_string(), self.limits.failures);
            let reason = "wrong credentials; the address is locked out for a while".to_owned();
            self.tell(None, DaemonEvent::AccessRefused { from, attempts, reason });
        }
    }
}

/// The page was loaded under the very name by which it calls us now.
fn is_own_origin(origin: &Origin, seen: &Seen) -> bool {
    // Over the Unix socket no page can come.
    let Some(called) = &seen.host else { return false };
    let same = origin.host == called.host && origin.port == called.effective_port(seen.scheme);
    origin.scheme == seen.scheme && same
}

fn origins(texts: &[String]) -> Result<Vec<Origin>, BadName> {
    let origin = |text: &String| {
        let bare = text.strip_suffix('/').unwrap_or(text);
        Origin::parse(bare).ok_or_else(|| BadName::Origin(text.clone()))
    };
    texts.iter().map(origin).collect()
}

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

fn bad(name: &str) -> Denied {
    Denied::new(StatusCode::BAD_REQUEST, RefusalCode::Invalid, format!("the header {name} cannot be read"))
}

/// The name by which the client called us.
fn called(parts: &Parts) -> Result<Authority, Denied> {
    let refuse = |message| Err(Denied::new(StatusCode::BAD_REQUEST, RefusalCode::Invalid, message));
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return refuse("a request has exactly one Host header");
    };
    let Some(host) = line.to_str().ok().and_then(Authority::parse) else {
        return refuse("the Host header holds no name");
    };
    // A request for a proxy names its target twice; both must agree.
    match parts.uri.authority() {
        Some(target) if Authority::parse(target.as_str()) != Some(host.clone()) => {
            refuse("the address in the request line is not the one in the Host header")
        }
        _ => Ok(host),
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Denied> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(line), None) => line.to_str().map(|text| Some(text.trim())).map_err(|_| bad(name.as_str())),
        (Some(_), Some(_)) => Err(bad(name.as_str())),
    }
}

fn locked_out(left: u32) -> Denied {
    Denied::too_often("too many wrong credentials from this address", left)
}

fn is_loopback(address: Option<IpAddr>) -> bool {
    address.is_some_and(|address| address.is_loopback())
}

/// Whoever comes by the Unix socket is our own user.
fn owner() -> Principal {
    Principal {
        token: Tokens::owner_id(),
        name: "owner".into(),
        role: Role::Owner,
        sessions: None,
        via: "cli".into(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let (scheme, secret) = line.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::sent(secret.trim()))
}

pub(super) fn cookies(headers: &HeaderMap) -> Vec<Secret> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs
        .filter(|(name, _)| *name == COOKIE)
        .map(|(_, value)| Secret::sent(value))
        .take(MAX_COOKIES)
        .collect()
}

/// A browser says that another page sent this. Another port of this machine is "same-site" to it, and foreign to us.
fn is_foreign_fetch(headers: &HeaderMap) -> bool {
    headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none")
}
