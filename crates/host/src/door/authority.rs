//! Names: whether a `Host` or an `Origin` is ours. Pure; compares whole names, never beginnings or ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host and its port, in a form in which two of them can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) host: Host,
    pub(super) port: Option<u16>,
}

/// A name in lower case without a final dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Authority {
    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`. Anything else, such as a user name before an `@`, is refused.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let port = match rest {
                "" => None,
                rest => Some(port(rest.strip_prefix(':')?)?),
            };
            return Some(Self { host: Host::Address(IpAddr::V6(address.parse().ok()?)), port });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, digits)) => (host, Some(port(digits)?)),
            None => (text, None),
        };
        Some(Self { host: name_or_v4(host)?, port })
    }

    /// The port, or the default port of `scheme`.
    pub(super) fn effective_port(&self, scheme: Scheme) -> u16 {
        self.port.unwrap_or(scheme.port())
    }

    pub(super) fn is_loopback_name(&self) -> bool {
        match &self.host {
            Host::Name(name) => name == "localhost",
            Host::Address(IpAddr::V4(address)) => *address == Ipv4Addr::LOCALHOST,
            Host::Address(IpAddr::V6(address)) => *address == Ipv6Addr::LOCALHOST,
        }
    }
}

fn port(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

fn name_or_v4(text: &str) -> Option<Host> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(Host::Address(IpAddr::V4(address)));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let fits = !name.is_empty() && name.len() <= 253 && !name.starts_with('.') && !name.ends_with('.');
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    (fits && plain).then(|| Host::Name(name.to_ascii_lowercase()))
}

/// How a page was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            _ => None,
        }
    }
}

/// The origin of a page: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) scheme: Scheme,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Origin {
    /// Reads an `Origin` header. `null`, a path, or another scheme is refused.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = Scheme::parse(&scheme.to_ascii_lowercase())?;
        let authority = Authority::parse(rest)?;
        let port = authority.effective_port(scheme);
        Some(Self { scheme, host: authority.host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str, port: Option<u16>) -> Authority {
        Authority { host: Host::Name(host.into()), port }
    }

    #[test]
    fn a_host_is_the_same_in_upper_case_and_with_a_dot_at_its_end() {
        assert_eq!(Authority::parse("LocalHost.:7420"), Some(name("localhost", Some(7420))));
        assert_eq!(Authority::parse("localhost"), Some(name("localhost", None)));
        assert_eq!(Authority::parse("[0:0:0:0:0:0:0:1]:1"), Authority::parse("[::1]:1"));
        assert!(Authority::parse("[::1]").unwrap().is_loopback_name());
        assert!(Authority::parse("127.0.0.1:1").unwrap().is_loopback_name());
    }

    #[test]
    fn names_that_only_look_like_loopback_are_not_loopback() {
        for text in [
            "127.1",
            "0x7f.0.0.1",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1.nip.io",
            "127.0.0.2",
        ] {
            assert!(!Authority::parse(text).is_some_and(|a| a.is_loopback_name()), "{text}");
        }
    }

    #[test]
    fn a_host_with_tricks_is_invalid() {
        for text in [
            "",
            ".",
            "..",
            "localhost..",
            ":7420",
            "localhost:",
            "localhost:+80",
            "localhost:99999",
            "localhost:80:80",
            "localhost@evil.example",
            "evil.example@localhost:7420",
            "localhost/evil",
            "localhost evil",
            "[::1",
            "[::1]7420",
            "[localhost]",
            "::1",
            "localhost#",
            "loc\u{430}lhost",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme_a_host_and_a_port() {
        let origin = Origin::parse("HTTPS://Example.org").unwrap();
        assert_eq!(
            origin,
            Origin { scheme: Scheme::Https, host: Host::Name("example.org".into()), port: 443 }
        );
        assert_eq!(Origin::parse("http://a:80"), Origin::parse("http://a"));
        for text in [
            "null",
            "",
            "file://",
            "http://a/",
            "http://a/b",
            "a.example",
            "chrome-extension://abc",
            "http://u@a",
        ] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_parsers_and_only_exact_names_are_loopback(text in "\\PC{0,40}") {
            let _ = Origin::parse(&text);
            if let Some(authority) = Authority::parse(&text) && authority.is_loopback_name() {
                let bare = text.trim_end_matches(|c: char| c == ':' || c.is_ascii_digit()).to_ascii_lowercase();
                let known = ["localhost", "localhost.", "127.0.0.", "127.0.0.1", "[::1]", "["];
                proptest::prop_assert!(known.contains(&bare.as_str()) || text.starts_with('['), "{text}");
            }
        }
    }
}
