//! pair: another device comes in by a QR code, and gets a token of its own.
//!
//! The ticket stands in the fragment of the link, which no browser sends to a server and no log holds.

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
    // Before the ticket: one for an address that nobody reaches would be of no use.
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
    // The picture is for a camera in front of a screen; a file or a pipe gets the link alone.
    if output::is_terminal() {
        output::raw(picture(&link)?.as_bytes())?;
    }
    output::line(&link)?;
    output::note(format!(
        "works once, for 5 minutes; the device becomes `{}`, {}, and `portolan token revoke` puts it out",
        clean::line(&name),
        asked.role
    ));
    if let Some(note) = place.note() {
        output::note(note);
    }
    Ok(())
}

/// Where a device reaches the daemon.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    url: String,
    /// The certificate is one that the daemon has made for itself.
    self_signed: bool,
}

impl Place {
    fn is_secure(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// What someone should know who uses it.
    fn note(&self) -> Option<&'static str> {
        match (self.is_secure(), self.self_signed) {
            (true, false) => None,
            (true, true) => Some(
                "the certificate is the daemon's own: the device warns about it once, and installs no app; a certificate that \
                 the device trusts (`tls_cert` and `tls_key` under [listen]) does away with both",
            ),
            (false, _) => Some(
                "this is plain HTTP: whoever shares the network with the device can read everything, this login too, and act \
                 as the device; it also gets no notifications and installs no app. For TLS set `self_signed = true`, or \
                 `tls_cert` and `tls_key`, under [listen], or put a TLS proxy in front (`behind_proxy = true`)",
            ),
        }
    }
}

/// Finds where: what was said, else the remote daemon's own address, else what the local one listens on.
fn place(asked: &Pair, home: Option<&Home>, remote: Option<&str>) -> Outcome<Place> {
    if let Some(url) = asked.at.as_deref().or(remote.filter(|url| !url.is_empty())) {
        let url = url.trim().trim_end_matches('/');
        let plain = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if plain.is_none_or(|rest| rest.is_empty() || rest.contains(['/', '#', '?', '@'])) {
            return Err(Failure::usage(format!(
                "`{url}` is no address of a daemon; use https://HOST:PORT, without a path"
            )));
        }
        return Ok(Place { url: url.to_owned(), self_signed: false });
    }
    let home =
        home.ok_or_else(|| Failure::usage("where does the device reach the daemon? say so with --at URL"))?;
    let record =
        Record::read(home).ok_or_else(|| Failure::unreachable("the daemon has not said where it listens"))?;
    let settings = configuration::settings(home).unwrap_or_default();
    from_record(&record, &settings, own_address())
}

fn from_record(record: &Record, settings: &Settings, own: Option<IpAddr>) -> Outcome<Place> {
    let listen = &settings.listen;
    // A proxy stands in front: its name is the one that devices use.
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
            "the daemon listens at {}, where no other device reaches it. Either set under [listen] in portolan.toml \
             `address = \"0.0.0.0:7420\"` and `self_signed = true` (or `tls_cert` and `tls_key`), and restart it; or put a proxy \
             with TLS in front and give its address: `portolan pair --at https://HOST`",
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

/// The address by which others on the network reach this machine. Asks the kernel which one it would send from; nothing is sent.
fn own_address() -> Option<IpAddr> {
    let from = |here: SocketAddr, there: SocketAddr| {
        let socket = UdpSocket::bind(here).ok()?;
        socket.connect(there).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    };
    // Addresses that are reserved for documentation: any that is not on this machine does.
    from((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into()).or_else(|| {
        from((Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into())
    })
}

/// `phone`, or the first of `phone 2`, `phone 3` and so on that no token has.
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

/// The link as a picture of half blocks, with the quiet margin that cameras need. Dark on light whatever the terminal's colours
/// are: many cameras read no inverted code.
fn picture(link: &str) -> Outcome<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L)
        .map_err(|error| Failure::new(format!("the link does not fit into a code: {error}")))?;
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
        }
    }

    fn found(url: &str, listen: &str, change: impl FnOnce(&mut Settings)) -> Outcome<Place> {
        let mut settings = Settings::default();
        change(&mut settings);
        from_record(&record(url, listen), &settings, Some("192.168.1.5".parse().unwrap()))
    }

    #[test]
    fn a_daemon_on_loopback_is_reached_by_no_device_and_the_way_out_is_told() {
        let failure = found("http://127.0.0.1:7420", "127.0.0.1:7420", |_| {}).unwrap_err();
        assert!(failure.message.contains("self_signed = true"), "{}", failure.message);
        assert!(failure.message.contains("--at https://HOST"), "{}", failure.message);
    }

    #[test]
    fn an_address_that_means_all_becomes_the_one_that_others_use() {
        let place =
            found("https://127.0.0.1:7420", "0.0.0.0:7420", |settings| settings.listen.self_signed = true)
                .unwrap();
        assert_eq!(place, Place { url: "https://192.168.1.5:7420".into(), self_signed: true });
        assert!(place.note().unwrap().contains("the daemon's own"));
    }

    #[test]
    fn a_name_of_the_configuration_goes_before_an_address() {
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
    fn plain_http_says_what_that_means_and_how_to_get_tls() {
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
    fn a_code_is_dark_on_light_with_a_margin() {
        let picture = picture("https://192.168.1.5:7420/#ticket=abc").unwrap();
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines.len() > 10 && lines.iter().all(|line| line.starts_with("\u{1b}[30;107m")));
        // Two of the margin's four rows are one line, and hold nothing.
        let inside = lines[0].trim_start_matches("\u{1b}[30;107m").trim_end_matches("\u{1b}[0m");
        assert!(inside.chars().all(|mark| mark == inside.chars().next().unwrap()));
    }
}
