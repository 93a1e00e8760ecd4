//! The check of names: whether a request calls this server by one of its names. Trusts the reports of our own proxies.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, StatusCode, header, request::Parts};
use portolan_core::RefusalCode;

use super::{
    BadName,
    arrival::{Arrival, Seen},
};
use crate::door::{
    authority::{Authority, Host, Scheme},
    denied::Denied,
    settings::DoorSettings,
};

/// The names of this server, and the proxies in front of it.
#[derive(Debug)]
pub(super) struct HostCheck {
    hosts: Vec<Authority>,
    behind_proxy: bool,
    proxies: Vec<IpAddr>,
}

impl HostCheck {
    pub(super) fn new(settings: &DoorSettings) -> Result<Self, BadName> {
        if settings.behind_proxy && settings.proxies.is_empty() {
            return Err(BadName::NoProxies);
        }
        let host = |text: &String| Authority::parse(text).ok_or_else(|| BadName::Host(text.clone()));
        Ok(Self {
            hosts: settings.hosts.iter().map(host).collect::<Result<_, _>>()?,
            behind_proxy: settings.behind_proxy,
            proxies: settings.proxies.iter().map(IpAddr::to_canonical).collect(),
        })
    }

    /// Where a request comes from and goes to, past a trusted proxy. Refuses a name that is not ours.
    pub(super) fn check(&self, parts: &Parts, arrival: &Arrival) -> Result<Seen, Denied> {
        let (peer, secure) = match arrival {
            Arrival::Unix => return Ok(Seen { address: None, scheme: Scheme::Http, host: None }),
            Arrival::Tcp { peer, secure, .. } => (Some(peer.ip().to_canonical()), *secure),
            Arrival::Unknown => (None, false),
        };
        let own = if secure { Scheme::Https } else { Scheme::Http };
        let host = called(parts)?;
        self.check_name(&host, arrival, own)?;
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
                self.check_name(&host, arrival, scheme)?;
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
            // Our proxies write only addresses: everything before another text is not trusted.
            let Ok(address) = text.trim().parse::<IpAddr>() else { return peer };
            let address = address.to_canonical();
            if !self.is_proxy(address) {
                return Some(address);
            }
        }
        peer
    }

    fn check_name(&self, host: &Authority, arrival: &Arrival, scheme: Scheme) -> Result<(), Denied> {
        if self.is_ours(host, arrival, scheme) {
            return Ok(());
        }
        let message = match arrival {
            // Probably somebody typed `localhost`.
            Arrival::Tcp { local, secure, .. } if host.is_loopback_name() => {
                let scheme = if *secure { "https" } else { "http" };
                format!(
                    "use `{scheme}://{local}`: this server listens only at that address, and under another name of \
                     this machine your browser may reach a program of another user; if a name is safe, add the name \
                     to `hosts` under [listen]"
                )
            }
            Arrival::Tcp { .. } | Arrival::Unix | Arrival::Unknown => {
                "the Host header holds no name of this server; to allow the name, add it to `hosts` under [listen]"
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
            // The address itself cannot be rebound: only a name can be made to point here. `localhost` is a name too:
            // it stands for more addresses than we listen on, and another user's program can listen on the others.
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
        return refuse("a request must have exactly one Host header");
    };
    let Some(host) = line.to_str().ok().and_then(Authority::parse) else {
        return refuse("the Host header holds no name");
    };
    // A request for a proxy names its target twice; both names must agree.
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
