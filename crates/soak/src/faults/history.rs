//! A history of a million entries: opening, attaching at the tail and seeking take as much time and memory as with a
//! thousand entries.
//!
//! Runs the same steps in turn with a short and a long history, and compares the medians: a ratio is meaningful on
//! every machine, a time is not.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use portolan_core::{
    Entry, Event, LogId, Millis, Seq, SessionId,
    event::Content,
    ports::{Op, Store as _, Write},
};
use portolan_store::{Durability, SqliteStore};
use serde_json::json;
use tokio::time::Instant;

use super::{Extent, Run, Tally};
use crate::{
    chance::Chance,
    link::{Frame, Link},
    place::{Place, resident},
};

/// The short history.
const SHORT: u64 = 1000;

/// How many entries are in one write to the store.
const BATCH: u64 = 1000;

/// A killed daemon leaves up to this many entries after its last checkpoint; opening reads them.
const BEHIND_CHECKPOINT: u64 = 600;

/// The measured steps, in this order.
const MEASURES: [&str; 3] = ["open", "attach at the tail", "seek"];

/// Below this time a ratio is meaningless, so this time is added to both sides.
const NOISE: Duration = Duration::from_millis(2);

/// A home with a history of this length.
struct Archive {
    place: Place,
    session: String,
    last: u64,
    times: [Vec<Duration>; 3],
    memory: u64,
}

/// Runs the fault.
pub async fn run(run: Run) -> Result<Tally> {
    let long = run.extent.of(1_000_000, 100_000);
    let rounds = run.extent.of(20, 5);
    let mut chance = Chance::new(run.seed);
    let mut archives = [archive(SHORT).await?, archive(long).await?];
    for round in 0..rounds {
        for archive in &mut archives {
            archive.look(&mut chance).await.with_context(|| format!("round {round}"))?;
        }
    }
    let [short, long_one] = &mut archives;
    let most = match run.extent {
        Extent::Full => 2.0,
        // A busy machine may pause either of the two at any moment.
        Extent::Share => 5.0,
    };
    let mut found = Vec::new();
    for (measure, name) in MEASURES.iter().enumerate() {
        let (one, other) = (middle(&mut short.times[measure]), middle(&mut long_one.times[measure]));
        let ratio = (other + NOISE).as_secs_f64() / (one + NOISE).as_secs_f64();
        found.push(format!("{name} {:.1} / {:.1} ms", one.as_secs_f64() * 1e3, other.as_secs_f64() * 1e3));
        ensure!(ratio <= most, "{name} takes {other:?} with {long} entries, {one:?} with {SHORT}");
    }
    let more = long_one.memory.saturating_sub(short.memory);
    found.push(format!("memory {} / {} KiB", short.memory, long_one.memory));
    ensure!(more < 4096, "the daemon takes {more} KiB more with {long} entries");
    Ok(Tally { count: format!("{long} entries"), found: found.join(", ") })
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A home with one session, whose history is this long.
async fn archive(length: u64) -> Result<Archive> {
    let place = Place::new("")?;
    let (_, door) = place.up()?;
    let mut link = Link::open(&door, "owner").await?;
    let session = link.create("demo", place.work.path()).await?;
    link.command(&session, json!({ "name": "stop" })).await?;
    link.until_state(&session, "the stop", |state| state["summary"]["status"] == "terminated").await?;
    drop(link);
    place.down()?;
    let last = prolong(&place.home.path().join("portolan.db"), session.parse()?, length).await?;
    Ok(Archive { place, session, last, times: Default::default(), memory: 0 })
}

/// Writes this many messages to the end of a log, like a daemon that is then killed. Returns the last number.
async fn prolong(database: &Path, session: SessionId, length: u64) -> Result<u64> {
    let store = SqliteStore::open(database, Durability::Normal)?;
    let log = LogId::Session(session);
    let head = store.load(log).await?.context("the session is not in the store")?;
    let (_, state) = head.checkpoint.context("a daemon that ended in order leaves a checkpoint")?;
    let first = head.last.max(head.reserved).next().0;
    let last = first + length - 1;
    let mut next = first;
    while next <= last {
        let end = (next + BATCH - 1).min(last);
        let mut ops = vec![Op::Reserve { upto: Seq(end) }];
        ops.extend((next..=end).map(|seq| {
            let at = Millis(1_700_000_000_000 + seq as i64);
            Op::Append { seq: Seq(seq), at, frame: message(log, seq, at), raw: None }
        }));
        store.write(Write { log, ops, done: None }).await?;
        next = end + 1;
    }
    let seq = Seq(last.saturating_sub(BEHIND_CHECKPOINT).max(first));
    store.write(Write { log, ops: vec![Op::Checkpoint { seq, state }], done: None }).await?;
    store.flush().await?;
    tokio::task::block_in_place(|| store.close())?;
    Ok(last)
}

fn message(log: LogId, seq: u64, at: Millis) -> Bytes {
    let text =
        format!("Message {seq}: the harbour master writes down every ship, and every ship has a number.");
    let event = Event::Message {
        item: format!("old.{seq}"),
        message: None,
        parent: None,
        model: None,
        content: vec![Content::text(text)],
        interrupted: false,
        stop_reason: None,
    };
    Entry::new(log, Seq(seq), at, None, event).frame().clone()
}

impl Archive {
    /// Starts the daemon, opens the session, attaches at its tail, seeks in it.
    async fn look(&mut self, chance: &mut Chance) -> Result<()> {
        let (pid, door) = self.place.up()?;
        let mut link = Link::open(&door, "reader").await?;
        let began = Instant::now();
        link.state(&self.session).await?;
        self.times[0].push(began.elapsed());

        for _ in 0..5 {
            let began = Instant::now();
            let mut late = Link::open(&door, "late").await?;
            let start = json!({ "tail": 50 });
            late.send(&json!({ "type": "attach", "id": "a", "session": self.session, "start": start }))
                .await?;
            let mut entries = Vec::new();
            late.until("the snapshot", |frame| match frame {
                Frame::Entry { entry, .. } => {
                    entries.push(entry.seq);
                    None
                }
                Frame::Snapshot { .. } => Some(()),
                _ => None,
            })
            .await?;
            self.times[1].push(began.elapsed());
            ensure!(entries.len() == 50, "the tail had {} entries", entries.len());
        }
        for _ in 0..20 {
            let after = self.last - SHORT + chance.between(0, SHORT / 2);
            // A random entry, except in the part that only one of the two histories has every second time.
            let after = if chance.percent(50) { after } else { chance.between(self.last / 8, after) };
            let began = Instant::now();
            let ask = json!({ "type": "history", "session": self.session, "after": after, "limit": 100 });
            let page = link.call(ask).await?;
            self.times[2].push(began.elapsed());
            let first = page["entries"][0]["seq"].as_u64();
            ensure!(first.is_some_and(|seq| seq > after), "asked for what follows {after}, got {first:?}");
        }
        self.memory = self.memory.max(resident(pid)?);
        self.place.down()
    }
}
