//! A session for a file, a pipe or a program: lines or frames until the session is gone.

use portolan_client::{Client, Error, frames::Inbound};
use portolan_core::{
    Seq, SessionId,
    log::delivery::{Closed, Start},
};

use super::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::{
    failure::Outcome,
    output,
    terminal::{
        style::Colours,
        transcript::{Layout, Transcript},
    },
};

/// Frames as they come, one per line.
pub(super) async fn frames(mut client: Client, session: SessionId) -> Outcome {
    let mut seen = Seq::ZERO;
    loop {
        match client.next().await {
            Ok(Inbound::Entry { entry, text, .. }) if entry.seq > seen => {
                seen = entry.seq;
                output::json_text(&text)?;
            }
            Ok(Inbound::Snapshot { seq, text, .. }) => {
                seen = seen.max(seq);
                output::json_text(&text)?;
            }
            Ok(Inbound::Presence { text, .. }) => output::json_text(&text)?,
            Ok(Inbound::Ended { reason: Closed::Deleted, .. }) => {
                deleted();
                return Ok(());
            }
            Ok(_) => {}
            Err(lost) => come_back(&mut client, session, seen, &lost.0).await?,
        }
    }
}

/// Said where nobody can type: it goes on for as long as the session is there.
const FOLLOWS: &str = "no terminal: this follows the session until it is deleted or Ctrl-C ends it; `portolan send` and `portolan \
     approve` act on it";

/// Lines for a file or a pipe.
pub(super) async fn plain(mut client: Client, session: SessionId) -> Outcome {
    output::note(FOLLOWS);
    let colours = Colours::when(output::colours());
    let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
    loop {
        let lines = match client.next().await {
            Ok(Inbound::Entry { entry, .. }) => transcript.entry(&entry),
            Ok(Inbound::Snapshot { seq, state, .. }) => transcript.snapshot(seq, &state),
            Ok(Inbound::Ended { reason: Closed::Deleted, .. }) => {
                deleted();
                return Ok(());
            }
            Ok(_) => continue,
            Err(lost) => {
                come_back(&mut client, session, transcript.seen(), &lost.0).await?;
                continue;
            }
        };
        for line in lines {
            output::line(line.paint(colours))?;
        }
    }
}

/// What a joined session says when it is gone for good.
fn deleted() {
    output::note("the session was deleted");
}

/// Comes back after a lost connection, for as long as it takes.
async fn come_back(client: &mut Client, session: SessionId, after: Seq, why: &str) -> Outcome {
    output::note(format!("connection lost ({why}); trying to come back"));
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        match client.reconnect().await {
            Ok(()) if client.attach(session, Start::After(after)).await.is_ok() => {
                output::note("connected again");
                return Ok(());
            }
            Err(error @ Error::Replaced) => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
}
