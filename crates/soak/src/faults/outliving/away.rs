//! A daemon that is away while its agent talks more than the holder may keep: the agent waits, nothing is lost, and the
//! holder stays small.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::Instant;

use super::{conclude, place, rests, said};
use crate::{
    faults::{Extent, Run, Tally},
    link::{Link, PATIENCE},
    place::{Place, resident},
    reader::Reader,
};

/// The characters of one piece of text. The agent says a thousand pieces a second.
const PIECE: u64 = 200;

/// A holder keeps 64 MiB, and a little more: the last report may pass the bound.
const SPOOL_BOUND: u64 = 68 * 1024 * 1024;

/// A spool of this size is full: the next report may be too large.
const FULL: u64 = 63 * 1024 * 1024;

/// How long the agent must have waited at the bound.
const WAITED: Duration = Duration::from_mins(1);

/// The resident memory that a holder may have, in KiB; half of it is the program, which all processes share. The tests
/// use a build without optimisation, which is larger.
const HOLDER_KIB: (u64, u64) = (40 * 1024, 64 * 1024);

/// How often the holder is measured.
const LOOK: Duration = Duration::from_millis(500);

/// The largest sizes of a holder so far.
#[derive(Debug)]
struct Sizes {
    spool: u64,
    memory_kib: u64,
    /// What the memory must not exceed.
    bound_kib: u64,
    /// When the spool last grew.
    grew: Instant,
}

impl Sizes {
    fn look(&mut self, place: &Place) -> Result<()> {
        let held = place.home.holders();
        ensure!(held.len() == 1, "the holder ended");
        self.memory_kib = self.memory_kib.max(resident(held[0] as u32)?);
        for file in std::fs::read_dir(place.home.path().join("run"))?.flatten() {
            if file.path().extension().is_some_and(|end| end == "spool") {
                let length = file.metadata()?.len();
                if length > self.spool {
                    (self.spool, self.grew) = (length, Instant::now());
                }
            }
        }
        ensure!(self.spool <= SPOOL_BOUND, "the spool has {} bytes", self.spool);
        ensure!(self.memory_kib <= self.bound_kib, "the holder has {} KiB", self.memory_kib);
        Ok(())
    }
}

/// No daemon for some time.
pub async fn away(run: Run) -> Result<Tally> {
    // In the full count the agent says more than the spool takes.
    let (pieces, away) =
        run.extent.of((400_000_u64, Duration::from_mins(10)), (2_000, Duration::from_secs(3)));
    let place = place()?;
    let (_, door) = place.up()?;
    let mut link = Link::open(&door, "driver").await?;
    let session = link.create("demo", place.work.path()).await?;
    let mut reader = Reader::new("reader", &[&session]);
    reader.start(&door);
    link.prompt(&session, &format!("repeat {pieces} {PIECE} 1000")).await?;
    link.until_state(&session, "the first text", |state| state["items"][0]["text"].is_string()).await?;
    reader.lose(Some(place.kill())).await?;
    let gone = Instant::now();
    let bound_kib = run.extent.of(HOLDER_KIB.0, HOLDER_KIB.1);
    let mut sizes = Sizes { spool: 0, memory_kib: 0, bound_kib, grew: gone };
    while gone.elapsed() < away {
        tokio::time::sleep(LOOK).await;
        sizes.look(&place)?;
    }
    let (spool, waited) = (sizes.spool, sizes.grew.elapsed());
    if run.extent == Extent::Full {
        ensure!(spool >= FULL, "the spool has only {spool} bytes: it did not reach its bound");
        ensure!(waited >= WAITED, "the spool grew until {} s before the end", waited.as_secs());
    }

    let (_, door) = place.up()?;
    reader.start(&door);
    let mut link = Link::open(&door, "driver").await?;
    let deadline = Instant::now() + away + PATIENCE;
    while !rests(&link.state(&session).await?) {
        ensure!(Instant::now() < deadline, "the turn does not end");
        sizes.look(&place)?;
        tokio::time::sleep(LOOK).await;
    }
    let (histories, _) = conclude(&place, &door, reader, &[&session]).await?;
    let messages = histories.values().flatten().filter(|entry| entry.kind() == "message");
    let length = messages.map(|entry| said(&entry.event).len() as u64).sum::<u64>();
    ensure!(length == pieces * PIECE, "{} characters were said, {length} are there", pieces * PIECE);
    // Without the rest of its text the agent would not have gone on.
    ensure!(run.extent == Extent::Share || length > spool, "the spool took all {length} characters");
    Ok(Tally {
        count: format!("{} s without a daemon", away.as_secs()),
        found: format!(
            "{length} characters, none lost; the spool had {} KiB and did not grow for {} s; the holder had {} KiB",
            spool / 1024,
            waited.as_secs(),
            sizes.memory_kib
        ),
    })
}
