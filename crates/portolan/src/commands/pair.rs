//! pair: gives another device access with a QR code. The device gets its own token.
//!
//! The ticket is in the fragment of the link, which no browser sends to a server and no log contains.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use portolan_protocol::{CreateToken, TokenInfo};
use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};
use serde_json::json;

use super::{Context, configuration, inputs};
use crate::{
    arguments::Pair,
    config::Settings,
    failure::{Failure, Outcome},
    home::{Home, Record, rfc3339},
    output::{self, Format},
    target::{Start, Target},
    terminal::clean,
};

pub(super) async fn pair(context: &Context, asked: Pair) -> Outcome {
    let target = Target::find(&context.global, Start::IfNeeded)?;
    let mut client = target.connect().await?;
    // Before the ticket, because a ticket for an unreachable address is useless.
    let place = place(&asked, target.home(), context.global.url.as_deref())?;
    let mut bound = BTreeSet::new();
    for id in &asked.sessions {
        bound.insert(client.resolve(id).await?);
    }
    let name = match asked.name {
        Some(name) => name.trim().to_owned(),
        None => free_name(&client.token_list().await?),
    };
    let device = CreateToken {
        name: name.clone(),
        role: asked.role,
        sessions: (!bound.is_empty()).then_some(bound),
        expires_in_seconds: asked.expires.as_deref().map(inputs::seconds).transpose()?,
    };
    let (ticket, expires_at) = client.pair(device).await?;
    client.close().await;
    let link = format!("{}/#ticket={ticket}", place.url);
    if context.format() == Format::Json {
        return output::json(&json!({
            "link": link,
            "name": name,
            "role": asked.role,
            "expires_at": rfc3339(expires_at),
            "secure": place.is_secure(),
            "note": place.note(),
        }));
    }
    // The QR code is for a camera in front of a screen; a file or a pipe gets the link alone.
    if output::is_terminal() {
        output::raw(picture(&link)?.as_bytes())?;
    }
    output::line(&link)?;
    output::note(format!(
        "works once, for 5 minutes; the device gets the token `{}`, role {}; `portolan token revoke` ends its access",
        clean::line(&name),
        asked.role
    ));
    if let Some(note) = place.note() {
        output::note(note);
    }
    Ok(())
}

/// The address at which a device reaches the daemon.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    url: String,
    /// The daemon created the certificate itself.
    self_signed: bool,
}

impl Place {
    fn is_secure(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// A warning for the user of this address.
    fn note(&self) -> Option<&'static str> {
        match (self.is_secure(), self.self_signed) {
            (true, false) => None,
            (true, true) => Some(
                "the certificate is the daemon's own: the device shows a warning once and cannot install the app; a \
                 certificate that the device trusts (`tls_cert` and `tls_key` under [listen]) avoids both",
            ),
            (false, _) => Some(
                "this is plain HTTP: anyone on the device's network can read everything, including this login, and act \
                 as the device; the device also gets no notifications and cannot install the app; for TLS set \
                 `self_signed = true`, or `tls_cert` and `tls_key`, under [listen], or put a TLS proxy in front \
                 (`behind_proxy = true`)",
            ),
        }
    }
}

/// Finds the address: the given address, otherwise the address of the remote daemon, otherwise the address that the
/// local daemon listens on.
fn place(asked: &Pair, home: Option<&Home>, remote: Option<&str>) -> Outcome<Place> {
    if let Some(url) = asked.at.as_deref().or(remote.filter(|url| !url.is_empty())) {
        let url = url.trim().trim_end_matches('/');
        let plain = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if plain.is_none_or(|rest| rest.is_empty() || rest.contains(['/', '#', '?', '@'])) {
            return Err(Failure::usage(format!(
                "`{url}` is not the address of a daemon; use https://HOST:PORT, without a path"
            )));
        }
        return Ok(Place { url: url.to_owned(), self_signed: false });
    }
    let home =
        home.ok_or_else(|| Failure::usage("the address of the daemon is not known; give it with --at URL"))?;
    let record = Record::read(home)
        .ok_or_else(|| Failure::unreachable("the address of the daemon is not known yet; try again"))?;
    let settings = configuration::settings(home).unwrap_or_default();
    from_record(&record, &settings, own_address())
}

fn from_record(record: &Record, settings: &Settings, own: Option<IpAddr>) -> Outcome<Place> {
    let listen = &settings.listen;
    // Behind a proxy, devices use the name of the proxy.
    if listen.behind_proxy
        && let Some(name) = listen.hosts.first()
    {
        return Ok(Place { url: format!("https://{name}"), self_signed: false });
    }
    let bound = record.listen.parse::<SocketAddr>().ok();
    let address = match bound {
        Some(bound) if bound.ip().is_unspecified() => own.map(|ip| SocketAddr::new(ip, bound.port())),
        Some(bound) if !bound.ip().is_loopback() => Some(bound),
        _ => None,
    };
    let Some(address) = address else {
        return Err(Failure::new(format!(
            "no other device can reach the daemon at {}; set `address = \"0.0.0.0:7420\"` and `self_signed = true` (or \
             `tls_cert` and `tls_key`) under [listen] in portolan.toml and restart the daemon, or put a TLS proxy in \
             front and give its address: `portolan pair --at https://HOST`",
            record.url
        )));
    };
    let scheme = if record.url.starts_with("https:") { "https" } else { "http" };
    let host = match listen.hosts.first() {
        Some(name) if name.contains(':') => name.clone(),
        Some(name) => format!("{name}:{}", address.port()),
        None => address.to_string(),
    };
    Ok(Place { url: format!("{scheme}://{host}"), self_signed: listen.self_signed })
}

/// The address at which other machines on the network reach this machine. Asks the kernel which address it would send
/// from; nothing is sent.
fn own_address() -> Option<IpAddr> {
    let from = |here: SocketAddr, there: SocketAddr| {
        let socket = UdpSocket::bind(here).ok()?;
        socket.connect(there).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    };
    // Addresses that are reserved for documentation: any address of another machine works.
    from((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into()).or_else(|| {
        from((Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into())
    })
}

/// `phone`, or the first unused name of `phone 2`, `phone 3` and so on.
fn free_name(tokens: &[TokenInfo]) -> String {
    let mut name = "phone".to_owned();
    for number in 2_u32.. {
        if !tokens.iter().any(|token| token.name == name) {
            break;
        }
        name = format!("phone {number}");
    }
    name
}

/// The link as a QR code of half blocks, with the margin that cameras need. Dark on light whatever the terminal's
/// colours are: many cameras cannot read an inverted code.
fn picture(link: &str) -> Outcome<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L)
        .map_err(|error| Failure::new(format!("the link does not fit into a QR code: {error}")))?;
    let image = code.render::<Dense1x2>().quiet_zone(true).build();
    let lines = image.lines().map(|line| format!("\u{1b}[30;107m{line}\u{1b}[0m\n"));
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(url: &str, listen: &str) -> Record {
        Record {
            pid: 1,
            url: url.into(),
            listen: listen.into(),
            version: String::new(),
            started_at: String::new(),
            heartbeat_at: String::new(),
            options: Vec::new(),
        }
    }

    fn found(url: &str, listen: &str, change: impl FnOnce(&mut Settings)) -> Outcome<Place> {
        let mut settings = Settings::default();
        change(&mut settings);
        from_record(&record(url, listen), &settings, Some("192.168.1.5".parse().unwrap()))
    }

    #[test]
    fn no_device_reaches_a_daemon_on_loopback_and_the_error_has_the_way_out() {
        let failure = found("http://127.0.0.1:7420", "127.0.0.1:7420", |_| {}).unwrap_err();
        assert!(failure.message.contains("self_signed = true"), "{}", failure.message);
        assert!(failure.message.contains("--at https://HOST"), "{}", failure.message);
    }

    #[test]
    fn an_unspecified_address_becomes_the_address_of_this_machine() {
        let place =
            found("https://127.0.0.1:7420", "0.0.0.0:7420", |settings| settings.listen.self_signed = true)
                .unwrap();
        assert_eq!(place, Place { url: "https://192.168.1.5:7420".into(), self_signed: true });
        assert!(place.note().unwrap().contains("the daemon's own"));
    }

    #[test]
    fn a_configured_host_name_is_used_instead_of_an_address() {
        let named = |settings: &mut Settings| settings.listen.hosts = vec!["desk.example".into()];
        let place = found("https://127.0.0.1:7420", "[::]:7420", named).unwrap();
        assert_eq!(place.url, "https://desk.example:7420");
        let proxied = |settings: &mut Settings| {
            settings.listen.hosts = vec!["desk.example".into()];
            settings.listen.behind_proxy = true;
        };
        let place = found("http://127.0.0.1:7420", "127.0.0.1:7420", proxied).unwrap();
        assert_eq!((place.url.as_str(), place.note()), ("https://desk.example", None));
    }

    #[test]
    fn the_warning_for_plain_http_names_the_risk_and_the_way_to_tls() {
        let place = Place { url: "http://192.168.1.5:7420".into(), self_signed: false };
        let note = place.note().unwrap();
        assert!(note.contains("can read everything") && note.contains("self_signed = true"), "{note}");
    }

    #[test]
    fn an_address_with_a_path_or_a_user_is_refused() {
        for at in ["https://", "https://a/b", "https://a#x", "https://u@a", "ftp://a", "a:1"] {
            let asked = Pair {
                name: None,
                role: portolan_core::Role::Operator,
                sessions: vec![],
                expires: None,
                at: Some(at.into()),
            };
            assert!(place(&asked, None, None).is_err(), "{at}");
        }
    }

    #[test]
    fn a_qr_code_is_dark_on_light_with_a_margin() {
        let picture = picture("https://192.168.1.5:7420/#ticket=abc").unwrap();
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines.len() > 10 && lines.iter().all(|line| line.starts_with("\u{1b}[30;107m")));
        // Two of the four rows of the margin are one empty line.
        let inside = lines[0].trim_start_matches("\u{1b}[30;107m").trim_end_matches("\u{1b}[0m");
        assert!(inside.chars().all(|mark| mark == inside.chars().next().unwrap()));
    }
}
