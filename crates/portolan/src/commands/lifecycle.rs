//! up, status, open: the daemon as a user sees it.

use std::{future::Future, time::Duration};

use portolan_client::Probe;
use portolan_core::{ports::Secret, session::state::Status};
use serde_json::json;

use super::{Context, browse::browse};
use crate::{
    arguments::Up,
    config::load::{self, Loaded, Override},
    daemon::{
        detach, is_alive,
        lock::Lock,
        logging::{self, Where},
        run::{self, Ready},
    },
    failure::{Exit, Failure, Outcome},
    home::{Home, Record, rfc3339},
    output::{self, Format},
    target::{Start, Target, VERSION},
    terminal::clean,
};

/// How long `status` and `ps` wait for the daemon's answer.
const ANSWER: Duration = Duration::from_secs(5);

pub(super) async fn up(context: &Context, up: Up) -> Outcome {
    local_only(context, "up")?;
    let home = Home::find()?;
    let overrides = overrides(&up)?;
    let loaded = load::load(&home.config(), &overrides)?;
    if up.detach {
        return up_detached(context, &home, &up).await;
    }
    for warning in &loaded.warnings {
        output::note(format!("warning: {warning}"));
    }
    let Loaded { settings, .. } = loaded;
    home.make()?;
    let to = if up.log_file { Where::File } else { Where::Foreground };
    if to == Where::File {
        // A new process session: closing the terminal does not end the daemon.
        let _ = rustix::process::setsid();
    }
    logging::start(&settings.log, &home, to)?;
    let format = context.format();
    let browser = (!up.no_open && !up.log_file).then(|| home.clone());
    let ready = move |ready: Ready| announce(&ready, format, browser.as_ref());
    let ended = run::run(settings, home, options(&up), ready).await;
    // In the foreground the terminal shows the same message a moment later.
    if let (Err(failure), Where::File) = (&ended, to) {
        tracing::error!("{failure}");
    }
    ended
}

async fn up_detached(context: &Context, home: &Home, up: &Up) -> Outcome {
    if Lock::holder(home).is_some() {
        // The same output as in the foreground.
        Lock::take_or_explain(home).map(drop)?;
    }
    start_and_announce(context, home, &options(up), up.no_open).await
}

/// The options that the daemon keeps at a restart.
fn options(up: &Up) -> Vec<String> {
    let listen = up.listen.iter().flat_map(|address| ["--listen".to_owned(), address.clone()]);
    listen.chain(up.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()])).collect()
}

/// Starts the daemon in the background, and prints its address.
pub(super) async fn start_and_announce(
    context: &Context,
    home: &Home,
    arguments: &[String],
    no_open: bool,
) -> Outcome {
    detach::start_with(home, arguments, detach::Ends::AsItself).await?;
    let mut client = Target::find(&context.global, Start::Never)?.connect().await?;
    let ticket = client.ticket().await.ok().map(|(ticket, _)| Secret::new(ticket));
    let agents = client.agents(Probe::Anew).await.unwrap_or_default();
    client.close().await;
    let url = Record::read(home).map(|record| record.url).unwrap_or_default();
    announce(&Ready { url, ticket, agents }, context.format(), Some(home).filter(|_| !no_open));
    Ok(())
}

/// The values that the command line sets.
fn overrides(up: &Up) -> Outcome<Vec<Override>> {
    let mut all = Vec::new();
    for set in &up.set {
        let (path, value) = set
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("`{set}` has no `=`; use --set KEY=VALUE")))?;
        all.push(Override { path: path.trim().into(), value: value.trim().into(), flag: "--set".into() });
    }
    if let Some(address) = &up.listen {
        all.push(Override { path: "listen.address".into(), value: address.clone(), flag: "--listen".into() });
    }
    Ok(all)
}

/// Prints the address of the daemon, a link for a browser, and the agents. Output that cannot be written must not end
/// the daemon. Opens a browser with `browser`, if given.
fn announce(ready: &Ready, format: Format, browser: Option<&Home>) {
    let link = ready.ticket.as_ref().map(|ticket| format!("{}/#ticket={}", ready.url, ticket.reveal()));
    if format == Format::Json {
        let found = json!({"url": ready.url, "version": VERSION, "link": link, "agents": ready.agents});
        output::offer(&format!("{found}\n"));
        return;
    }
    let mut text = format!("Portolan {VERSION} listens at {}\n", ready.url);
    match &link {
        // A one-time link is for the person at this terminal, not for a file that others read later.
        Some(link) if output::is_terminal() => {
            text = format!(
                "{text}open   {link}\n       (works once, for a minute; `portolan open` creates another)\n"
            );
        }
        _ => text.push_str("open   `portolan open` creates a link for a browser\n"),
    }
    let mut missing = Vec::new();
    for agent in &ready.agents {
        let kind = clean::line(&agent.kind);
        let version = match &agent.probe {
            Some(probe) if !probe.available => {
                missing.push(kind);
                continue;
            }
            probe => probe.as_ref().and_then(|probe| probe.version.as_deref()),
        };
        let version = version.map(|version| format!(" {version}")).unwrap_or_default();
        text = format!("{text}agent  {kind}{}\n", clean::text(&version));
    }
    if !missing.is_empty() {
        // Few users have installed every agent.
        text = format!("{text}other  {} (`portolan agents` shows how to install them)\n", missing.join(", "));
    }
    text.push_str("try    portolan new demo \"show me everything\"\n");
    output::offer(&text);
    if let (Some(home), Some(link)) = (browser, link) {
        browse(home, &link);
    }
}

pub(super) async fn open(context: &Context, print: bool) -> Outcome {
    let target = Target::find(&context.global, Start::IfNeeded)?;
    let mut client = target.connect().await?;
    let (ticket, expires_at) = client.ticket().await?;
    client.close().await;
    let url = match target.home() {
        Some(home) => Record::read(home).map(|record| record.url).unwrap_or_default(),
        None => context.global.url.clone().unwrap_or_default(),
    };
    let link = format!("{}/#ticket={ticket}", url.trim_end_matches('/'));
    match context.format() {
        Format::Json => output::json(&json!({"link": link, "expires_at": rfc3339(expires_at)})),
        Format::Plain => {
            let opened = !print && Home::find().is_ok_and(|home| browse(&home, &link));
            output::line(link)?;
            output::note(if print {
                "works once, for a minute"
            } else if opened {
                "opened in your browser; if no page appears, open the link yourself: it works once, for a minute"
            } else {
                "no browser was opened: there is no desktop here; open the link yourself, it works once, for a minute"
            });
            Ok(())
        }
    }
}

pub(super) fn local_only(context: &Context, verb: &str) -> Outcome {
    match context.global.url.as_deref() {
        Some(url) if !url.is_empty() => {
            Err(Failure::usage(format!("`{verb}` works on this machine only, not for `{url}`")))
        }
        _ => Ok(()),
    }
}

/// A daemon that hangs must not make `status` or `ps` hang.
pub(super) async fn in_time<T>(asking: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::time::timeout(ANSWER, asking)
        .await
        .unwrap_or_else(|_| Err(Failure::unreachable("the daemon does not answer")))
}

pub(super) async fn status(context: &Context) -> Outcome {
    let target = Target::find(&context.global, Start::Never)?;
    let record = target.home().and_then(Record::read);
    let held = target.home().is_none_or(|home| Lock::holder(home).is_some());
    let connected =
        if held { in_time(target.connect()).await } else { Err(Failure::unreachable("no daemon runs")) };
    let answer = match connected {
        Ok(mut client) => {
            let sessions = client.list(None, 1000).await.unwrap_or_default().sessions;
            let version = client.server().version.clone();
            client.close().await;
            Some((sessions, version))
        }
        Err(failure) if target.home().is_none() => return Err(failure),
        Err(_) => None,
    };
    let working =
        answer.as_ref().map_or(0, |(all, _)| all.iter().filter(|one| one.status == Status::Active).count());
    let live = answer.as_ref().map_or(0, |(all, _)| all.iter().filter(|one| one.is_live()).count());
    let waiting = answer.as_ref().map_or(0, |(all, _)| all.iter().map(|one| one.waiting).sum::<u32>());
    match context.format() {
        Format::Json => output::json(&json!({
            "running": held,
            "answering": answer.is_some(),
            "home": target.home().map(Home::path),
            "pid": record.as_ref().filter(|_| held).map(|record| record.pid),
            "url": record.as_ref().filter(|_| held).map_or(context.global.url.clone(), |record| Some(record.url.clone())),
            "version": answer.as_ref().map(|(_, version)| version.clone()),
            "started_at": record.as_ref().filter(|_| held).map(|record| record.started_at.clone()),
            "heartbeat_at": record.as_ref().filter(|_| held).map(|record| record.heartbeat_at.clone()),
            "sessions": {"live": live, "working": working, "waiting": waiting},
        }))?,
        Format::Plain => {
            let mut rows = Vec::new();
            let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
            if let Some(home) = target.home() {
                row("home", home.path().display().to_string());
            }
            match (&record, &answer) {
                (Some(record), Some(_)) if held => {
                    row("daemon", format!("runs at {} (pid {})", record.url, record.pid));
                    row("since", record.started_at.clone());
                }
                (Some(record), None) if held => {
                    row(
                        "daemon",
                        format!("does not answer (pid {}); `portolan logs` may show why", record.pid),
                    );
                }
                (Some(record), _) if !is_alive(record.pid) => {
                    row("daemon", format!("does not run; pid {} crashed or was killed", record.pid));
                }
                (_, Some(_)) => {
                    row("daemon", format!("answers at {}", context.global.url.clone().unwrap_or_default()));
                }
                _ if held => row("daemon", "is starting or stopping".into()),
                _ => row("daemon", "does not run; `portolan up` starts it".into()),
            }
            if let Some((_, version)) = &answer {
                row("version", version.clone());
                row("sessions", format!("{live} live, {working} working, open requests: {waiting}"));
            }
            output::raw(output::table(&rows).as_bytes())?;
        }
    }
    if answer.is_some() {
        return Ok(());
    }
    Err(Failure { exit: Exit::Unreachable, message: String::new() })
}

/// `main` handles `demo-agent` before every other verb.
pub(super) fn demo_agent() -> Outcome {
    Err(Failure::usage("the daemon starts the demo agent; use `portolan new demo`"))
}
