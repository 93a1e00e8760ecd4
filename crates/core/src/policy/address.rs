//! The host of an address, found as a browser finds it, in the spelling that all its spellings share.
//!
//! `https://u@EXAMPLE.org.:8443/` and `https://ex%61mple.org/` lead to `example.org`, and `http://2130706433/` leads to
//! `127.0.0.1`. What is not clear has no host: no allow rule covers it, and a deny or ask rule for a host may.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What an address says, as far as rules compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Every name of the host. An IPv6 address that stands for an IPv4 address has both.
    pub(super) hosts: Vec<String>,
    /// The address with its scheme and its host in the common spelling, without a user and without a usual port.
    pub(super) whole: String,
    /// It names a user before the host, which is how an address is made to look like another.
    pub(super) has_user: bool,
}

/// Ports that are as good as none.
const USUAL: [(&str, &str); 4] = [("http", "80"), ("https", "443"), ("ws", "80"), ("wss", "443")];

impl Address {
    /// Reads an address; `None` if programs could read it differently.
    pub(super) fn read(text: &str) -> Option<Self> {
        // A browser reads a backslash as `/`, other programs read it as part of a name.
        if text.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if !is_scheme {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user, place) =
            authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        let (host, port) = if let Some(rest) = place.strip_prefix('[') {
            let (address, behind) = rest.split_once(']')?;
            let port = behind.strip_prefix(':').or(behind.is_empty().then_some(""))?;
            (Host::V6(address.parse().ok()?), port)
        } else {
            let (host, port) = place.split_once(':').unwrap_or((place, ""));
            (Host::read(host)?, port)
        };
        if !port.is_empty()
            && (port.parse::<u16>().is_err() || !port.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return None;
        }
        // A port may be written with zeros before it.
        let port = port.trim_start_matches('0');
        let shown_port = if port.is_empty() || USUAL.contains(&(&*scheme, port)) {
            String::new()
        } else {
            format!(":{port}")
        };
        let hosts = host.names();
        let root = if path.starts_with('/') { "" } else { "/" };
        let whole = format!("{scheme}://{}{shown_port}{root}{path}", hosts[0]);
        Some(Self { hosts, whole, has_user: user.is_some() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Name(String),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Host {
    fn read(text: &str) -> Option<Self> {
        let text = decoded(text)?.to_ascii_lowercase();
        let name = text.strip_suffix('.').unwrap_or(&text);
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !name.split('.').all(is_part) {
            return None;
        }
        // A name that ends in a number is an address, however it is written, or nothing.
        let last = name.rsplit('.').next().unwrap_or(name);
        if last.bytes().all(|byte| byte.is_ascii_digit()) || number(last).is_some() {
            return ipv4(name).map(Self::V4);
        }
        Some(Self::Name(name.to_owned()))
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Name(name) => vec![name.clone()],
            Self::V4(address) => vec![address.to_string()],
            Self::V6(address) => {
                let own = format!("[{address}]");
                [Some(own), address.to_ipv4_mapped().map(|address| address.to_string())]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        }
    }
}

/// A host as a pattern names it, in the common spelling; a pattern with `*` only without capitals.
pub(super) fn host_pattern(text: &str) -> String {
    let plain = || text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if text.contains('*') {
        return plain();
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let host = bare.parse().ok().map(Host::V6).or_else(|| Host::read(text));
    host.map_or_else(plain, |host| host.names().swap_remove(0))
}

/// A name without percent signs; `None` if a percent sign means nothing, or what it stands for is no ASCII.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = String::new();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
            u8::try_from(16 * digit(bytes.next())? + digit(bytes.next())?).ok()?
        } else {
            byte
        };
        if !byte.is_ascii_graphic() {
            return None;
        }
        out.push(byte as char);
    }
    Some(out)
}

/// A number as addresses write it: decimal, `0x` and hexadecimal, or `0` and octal.
fn number(text: &str) -> Option<u32> {
    let (digits, base) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.is_empty() {
        return (base == 16).then_some(0);
    }
    // `from_str_radix` takes a sign.
    digits.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| u32::from_str_radix(digits, base).ok())?
}

/// An IPv4 address of one to four numbers, of which the last fills what is left.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) {
        return None;
    }
    let left = 8 * (4 - first.len() as u32);
    if u64::from(*last) >= 1 << left {
        return None;
    }
    let high = first.iter().enumerate().map(|(at, number)| number << (24 - 8 * at)).sum::<u32>();
    Some(Ipv4Addr::from(high + last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(address: &str) -> Vec<String> {
        Address::read(address).map(|address| address.hosts).unwrap_or_default()
    }

    #[test]
    fn every_spelling_of_a_host_is_the_same_host() {
        for (address, host) in [
            ("https://docs.Example.org:8443/a?b", "docs.example.org"),
            ("HTTPS://example.org.", "example.org"),
            ("https://u:p@example.org/", "example.org"),
            ("https://good.org@evil.org/", "evil.org"),
            ("https://ex%61mple%2Eorg/", "example.org"),
            ("https://example.org:/", "example.org"),
            ("http://127.1/", "127.0.0.1"),
            ("http://2130706433", "127.0.0.1"),
            ("http://0x7f.0.0.1:80/", "127.0.0.1"),
            ("http://0177.0.0.01/", "127.0.0.1"),
            ("http://[0:0::1]:8080/", "[::1]"),
            ("https://my_host/", "my_host"),
        ] {
            assert_eq!(hosts(address), [host], "{address}");
        }
        assert_eq!(hosts("http://[::ffff:7f00:1]/"), ["[::ffff:127.0.0.1]", "127.0.0.1"]);
    }

    #[test]
    fn an_address_that_programs_may_read_differently_has_no_host() {
        for unclear in [
            "example.org",
            "https:example.org",
            "https://good.org\\@evil.org",
            "https:///x",
            "https://еxample.org",
            "https://ex\tample.org/",
            " https://example.org",
            "https://example.org:99999/",
            "https://example.org:+80/",
            "https://a..org/",
            "https://example.org%2f.evil.org/",
            "https://%zz/",
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://[::1/",
            "http://[::1]x/",
            "http://[::1%25eth0]/",
        ] {
            assert_eq!(Address::read(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn the_whole_address_has_one_spelling() {
        let whole = |address: &str| Address::read(address).map(|address| address.whole);
        assert_eq!(whole("HTTPS://u@Example.org.:0443/A?b").as_deref(), Some("https://example.org/A?b"));
        assert_eq!(whole("http://h:8080").as_deref(), Some("http://h:8080/"));
        assert_eq!(whole("http://h?q").as_deref(), Some("http://h/?q"));
    }

    #[test]
    fn a_pattern_has_the_common_spelling_too() {
        for (pattern, common) in [
            ("Example.org.", "example.org"),
            ("*.Example.org", "*.example.org"),
            ("::1", "[::1]"),
            ("[::1]", "[::1]"),
            ("127.1", "127.0.0.1"),
        ] {
            assert_eq!(host_pattern(pattern), common);
        }
    }
}
