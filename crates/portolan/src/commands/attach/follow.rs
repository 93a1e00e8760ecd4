//! A session for a file, a pipe or a program: lines or frames until the session is gone.

use portolan_client::{Attached, frames::Inbound};
use portolan_core::log::delivery::Closed;

use crate::{
    failure::Outcome,
    output,
    terminal::{
        style::Colours,
        transcript::{Layout, Transcript},
    },
};

/// Frames as they come, one per line.
pub(super) async fn frames(mut attached: Attached) -> Outcome {
    loop {
        match attached.next().await {
            Ok(
                Inbound::Entry { text, .. } | Inbound::Snapshot { text, .. } | Inbound::Presence { text, .. },
            ) => output::json_text(&text)?,
            Ok(Inbound::Ended { reason: Closed::Deleted, .. }) => {
                deleted();
                return Ok(());
            }
            Ok(_) => {}
            Err(lost) => come_back(&mut attached, &lost.0).await?,
        }
    }
}

/// Printed if nobody can type: `attach` continues as long as the session exists.
const FOLLOWS: &str = "no terminal: `attach` prints the session until the session is deleted or you press Ctrl-C; use \
     `portolan send` and `portolan approve` to act";

/// Lines for a file or a pipe.
pub(super) async fn plain(mut attached: Attached) -> Outcome {
    output::note(FOLLOWS);
    let colours = Colours::when(output::colours());
    let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
    loop {
        let lines = match attached.next().await {
            Ok(Inbound::Entry { entry, .. }) => transcript.entry(&entry),
            Ok(Inbound::Snapshot { seq, state, .. }) => transcript.snapshot(seq, &state),
            Ok(Inbound::Ended { reason: Closed::Deleted, .. }) => {
                deleted();
                return Ok(());
            }
            Ok(_) => continue,
            Err(lost) => {
                come_back(&mut attached, &lost.0).await?;
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
async fn come_back(attached: &mut Attached, why: &str) -> Outcome {
    output::note(format!("connection lost ({why}); reconnecting"));
    attached.come_back().await?;
    output::note("reconnected");
    Ok(())
}
