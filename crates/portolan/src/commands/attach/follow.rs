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

/// Printed if nobody can type: `attach` continues as long as the session exists.
const FOLLOWS: &str = "no terminal: `attach` prints the session until the session is deleted or you press Ctrl-C; use \
     `portolan send` and `portolan approve` to act";

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

/// Prints that the session was deleted.
fn deleted() {
    output::note("the session was deleted");
}

/// Reconnects after a lost connection, for as long as it takes.
async fn come_back(client: &mut Client, session: SessionId, after: Seq, why: &str) -> Outcome {
    output::note(format!("connection lost ({why}); reconnecting"));
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        match client.reconnect().await {
            Ok(()) if client.attach(session, Start::After(after)).await.is_ok() => {
                output::note("reconnected");
                return Ok(());
            }
            Err(error @ Error::Replaced) => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
}
