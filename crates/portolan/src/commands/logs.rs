//! logs: the daemon's log, or what the agent of a session wrote outside of the conversation.

use std::{io::SeekFrom, path::Path, time::Duration};

use portolan_client::frames::{self, Inbound};
use portolan_core::{Event, Seq, SessionId, entry::Decoded, event::AgentStart};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::Context;
use crate::{
    daemon::logging,
    failure::{Failure, Outcome},
    home::{Home, rfc3339},
    output::{self, Format},
    target::{Start, Target},
    terminal::clean,
};

/// Time between two checks of a growing file.
const LOOK: Duration = Duration::from_millis(200);

/// Whether to print new lines as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    Yes,
    No,
}

impl Follow {
    pub(super) fn when(follow: bool) -> Self {
        if follow { Self::Yes } else { Self::No }
    }
}

pub(super) async fn logs(context: &Context, id: Option<String>, follow: Follow, lines: usize) -> Outcome {
    match id {
        Some(id) => of_session(context, &id, follow, lines).await,
        None => of_daemon(context, follow, lines).await,
    }
}

async fn of_daemon(context: &Context, follow: Follow, lines: usize) -> Outcome {
    let target = Target::find(&context.global, Start::Never)?;
    let Some(home) = target.home() else {
        return Err(Failure::usage("the daemon is on another machine; run this verb there"));
    };
    let path = home.daemon_log();
    match logging::tail(&path, lines) {
        Ok(text) => print_lines(context, &text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && follow == Follow::No => {
            return Err(no_log(home));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::new(format!("`{}`: {error}", path.display()))),
    }
    if follow == Follow::Yes { follow_file(context, &path).await } else { Ok(()) }
}

fn no_log(home: &Home) -> Failure {
    Failure::not_found(format!(
        "there is no log at `{}`; a daemon in the foreground writes to its terminal",
        home.daemon_log().display()
    ))
}

fn print_lines(context: &Context, text: &str) -> Outcome {
    for line in text.lines() {
        match context.format() {
            Format::Plain => output::line(clean::text(line))?,
            Format::Json => output::json(&serde_json::json!({"line": line}))?,
        }
    }
    Ok(())
}

async fn follow_file(context: &Context, path: &Path) -> Outcome {
    let mut at = std::fs::metadata(path).map_or(0, |found| found.len());
    let mut rest = String::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let Ok(mut file) = tokio::fs::File::open(path).await else { continue };
        let size = file.metadata().await?.len();
        if size < at {
            // The log was rotated; a new file has begun.
            at = 0;
        }
        if size == at {
            continue;
        }
        file.seek(SeekFrom::Start(at)).await?;
        let mut bytes = Vec::new();
        at += file.take(size - at).read_to_end(&mut bytes).await? as u64;
        rest.push_str(&String::from_utf8_lossy(&bytes));
        while let Some((line, after)) = rest.split_once('\n') {
            print_lines(context, line)?;
            rest = after.to_owned();
        }
    }
}

async fn of_session(context: &Context, id: &str, follow: Follow, lines: usize) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(id).await?;
    let mut after = Seq::ZERO;
    let mut kept: std::collections::VecDeque<String> = std::collections::VecDeque::new();
    loop {
        let page = client.history(session, after).await?;
        if page.is_empty() {
            break;
        }
        for frame in &page {
            let Some(entry) = frames::entry(frame.get()) else { continue };
            after = entry.seq;
            for line in remarks(context.format(), &entry, frame.get()) {
                if kept.len() >= lines {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        }
    }
    for line in kept {
        show(context.format(), &line)?;
    }
    if follow == Follow::Yes { follow_session(context, client, session, after).await } else { Ok(()) }
}

async fn follow_session(
    context: &Context,
    mut client: portolan_client::Client,
    session: SessionId,
    mut after: Seq,
) -> Outcome {
    client.attach(session, portolan_core::log::delivery::Start::After(after)).await?;
    loop {
        match client.next().await {
            Ok(Inbound::Entry { entry, text, .. }) if entry.seq > after => {
                after = entry.seq;
                for line in remarks(context.format(), &entry, &text) {
                    show(context.format(), &line)?;
                }
            }
            Ok(Inbound::Ended { .. }) => return Ok(()),
            Ok(_) => {}
            Err(lost) => {
                return Err(Failure::unreachable(format!(
                    "the connection to the daemon was lost: {}",
                    lost.0
                )));
            }
        }
    }
}

fn show(format: Format, line: &str) -> Outcome {
    match format {
        Format::Plain => output::line(line),
        Format::Json => output::json_text(line),
    }
}

/// The log lines of a session: starts and ends of its process, notices, unknown messages.
fn remarks(format: Format, entry: &Decoded<Event>, frame: &str) -> Vec<String> {
    let texts: Vec<String> = match &entry.event {
        Event::AgentStarting { generation, .. } => vec![format!("start number {generation} of the agent")],
        Event::AgentStarted(AgentStart { pid, version, .. }) => {
            let pid = pid.map_or_else(|| "none".to_owned(), |pid| pid.to_string());
            vec![format!(
                "running, pid {pid}, version {}",
                clean::line(version.as_deref().unwrap_or("unknown"))
            )]
        }
        Event::AgentExited { exit, .. } => {
            let stderr = clean::text(&exit.stderr);
            let mut all = vec![format!("ended: {}", clean::line(&exit.message))];
            all.extend(stderr.lines().map(|line| format!("stderr: {line}")));
            all
        }
        Event::LinkLost { reason } => vec![format!("connection lost: {}", clean::line(reason))],
        Event::LinkRestored => vec!["connection restored".into()],
        Event::Notice { text, .. } => vec![clean::line(text)],
        Event::Failure { error, .. } => vec![format!("error: {}", clean::line(&error.message))],
        Event::Retry { attempt, error, .. } => {
            vec![format!("attempt {attempt} failed: {}", clean::line(&error.message))]
        }
        Event::Unknown { source, kind } => {
            vec![format!(
                "not understood: {} {} (entry {})",
                clean::line(source),
                clean::line(kind),
                entry.seq
            )]
        }
        _ => return Vec::new(),
    };
    match format {
        Format::Json => vec![frame.to_owned()],
        Format::Plain => texts.into_iter().map(|text| format!("{}  {text}", rfc3339(entry.at))).collect(),
    }
}
