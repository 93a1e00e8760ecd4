//! A client that stops reading: the other clients do not slow down, the daemon's memory does not grow, and the client
//! catches up without loss when it returns.
//!
//! The same stream runs twice: once with readers that all read, once together with one that does not. The test compares
//! the latency of the readers and the memory of the daemon.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Extent, Run, Tally, none};
use crate::{
    check,
    link::{Door, Frame, Link, Manner, PATIENCE, history},
    place::{Place, now, resident},
    record::{Recording, Seen},
};

/// The number of readers that read.
const READERS: usize = 3;

/// Pieces a second, and their size: enough to fill every buffer between daemon and client within a few seconds.
const RATE: u64 = 600;
const SIZE: u64 = 2000;

/// The size of the kernel's buffer for the client that does not read.
const SMALL: u32 = 16 * 1024;

/// After this time without a frame, the client checks whether it has everything.
const QUIET: Duration = Duration::from_millis(300);

/// The result of one phase.
#[derive(Debug)]
struct Phase {
    /// The latency from entry to reader, in milliseconds, over all readers: the median, and the 99th percentile.
    middle: i64,
    slow: i64,
    /// The most memory that the daemon used, in KiB.
    memory: u64,
    entries: usize,
}

/// Runs the fault.
pub async fn run(run: Run) -> Result<Tally> {
    let seconds = run.extent.of(60, 16);
    let place = Place::new("")?;
    let (pid, door) = place.up()?;
    let mut owner = Link::open(&door, "owner").await?;
    let session = owner.create("demo", place.work.path()).await?;
    // A first run, so that neither phase pays for one-time setup.
    phase(&place, pid, &door, &session, 2).await?;
    let alone = phase(&place, pid, &door, &session, seconds).await?;

    let state = owner.call(json!({ "type": "state", "session": session })).await?;
    let (newest, turns) = (state["seq"].as_u64(), state["state"]["summary"]["turns"].as_u64());
    let (newest, turns) = (newest.unwrap_or_default(), turns.unwrap_or_default());
    let stalled =
        tokio::spawn(stall(door.clone(), session.clone(), newest, turns, Duration::from_secs(seconds)));
    let beside = phase(&place, pid, &door, &session, seconds).await?;
    let recording = stalled.await??;
    let told = history(&door, &session).await?;
    none("the stalled client: order", &check::order(&told, &recording))?;
    none("the stalled client: text", &check::text(&told, &recording, 0).0)?;
    let last = told.last().map_or(0, |entry| entry.seq);
    ensure!(recording.last() >= last, "the client caught up to {} of {last}", recording.last());
    let visits = recording.seen.iter().filter(|seen| matches!(seen, Seen::Attached { .. })).count();
    // A slow machine may not fill the buffers in the share's short time.
    ensure!(
        visits > 1 || run.extent == Extent::Share,
        "the client was never too slow: the stall had no effect"
    );
    // The machine may have become slower meanwhile for another reason.
    let after = match run.extent {
        Extent::Full => Some(phase(&place, pid, &door, &session, seconds).await?),
        Extent::Share => None,
    };
    let middle = alone.middle.max(after.as_ref().map_or(0, |after| after.middle));
    let slow = alone.slow.max(after.as_ref().map_or(0, |after| after.slow));
    place.down()?;

    // A busy machine is slow anyway; a growing queue adds the whole length of the stall.
    let slack = match run.extent {
        Extent::Full => 5,
        Extent::Share => 250,
    };
    ensure!(
        beside.middle <= middle * 2 + slack && beside.slow <= slow * 2 + 4 * slack,
        "the other clients slowed down: {alone:?} before, {beside:?} during the stall, {after:?} after it"
    );
    let more = beside.memory.saturating_sub(alone.memory);
    ensure!(more <= run.extent.of(1024, 4096), "the daemon took {more} KiB more: {alone:?}, then {beside:?}");
    ensure!(
        beside.entries * 10 > alone.entries * 9,
        "the other clients got less: {alone:?}, then {beside:?}"
    );
    Ok(Tally {
        count: format!("{seconds} s stalled"),
        found: format!(
            "others {} ms (slow {} ms) without, {} ms ({} ms) beside it; {more} KiB more memory; {visits} visits to catch up",
            middle, slow, beside.middle, beside.slow
        ),
    })
}

/// Streams for this time to readers that read.
async fn phase(place: &Place, pid: u32, door: &Door, session: &str, seconds: u64) -> Result<Phase> {
    let (stop, stopped) = watch::channel(false);
    let mut reading = Vec::new();
    for number in 0..READERS {
        let mut link = Link::open(door, &format!("reader-{number}")).await?;
        let start = json!({ "tail": 0 });
        link.call(json!({ "type": "attach", "session": session, "start": start })).await?;
        let stopped = stopped.clone();
        reading.push(tokio::spawn(async move { read(link, stopped).await }));
    }
    let mut owner = Link::open(door, "owner").await?;
    let count = RATE * seconds;
    let turns = owner.state(session).await?["summary"]["turns"].as_u64();
    owner.prompt(session, &format!("repeat {count} {SIZE} {RATE}")).await?;
    let mut memory = 0;
    let deadline = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
    loop {
        memory = memory.max(resident(pid)?);
        sleep(Duration::from_millis(100)).await;
        let state = owner.state(session).await?;
        if state["turn"].is_null() && state["summary"]["turns"].as_u64() > turns {
            break;
        }
        ensure!(Instant::now() < deadline, "the stream does not end: {:?}", place.home.run(["logs"]).stdout);
    }
    stop.send_replace(true);
    let mut latencies = Vec::new();
    for reader in reading {
        latencies.extend(reader.await??);
    }
    latencies.sort_unstable();
    let at = |share: usize| latencies.get(latencies.len() * share / 100).copied().unwrap_or_default();
    Ok(Phase { middle: at(50), slow: at(99), memory, entries: latencies.len() })
}

async fn read(mut link: Link, mut stopped: watch::Receiver<bool>) -> Result<Vec<i64>> {
    let mut latencies = Vec::new();
    loop {
        tokio::select! {
            frame = link.next() => if let Frame::Entry { entry, .. } = frame? {
                latencies.push(now() - entry.at);
            },
            _ = stopped.changed() => return Ok(latencies),
        }
    }
}

/// Attaches, stops reading for this time, then reads and reconnects until it has everything.
async fn stall(door: Door, session: String, after: u64, turns: u64, length: Duration) -> Result<Recording> {
    let mut recording = Recording::new("stalled", session.clone());
    let mut asking = Link::open(&door, "asking").await?;
    let wakes = Instant::now() + length;
    let mut first = true;
    loop {
        let manner = Manner { receive_buffer: first.then_some(SMALL) };
        let mut link = Link::open_as(&door, "stalled", manner).await?;
        let after = if first { after } else { recording.last() };
        let start = json!({ "after": after });
        link.send(&json!({ "type": "attach", "id": "a", "session": session, "start": start })).await?;
        recording.seen.push(Seen::Attached { after });
        if std::mem::take(&mut first) {
            tokio::time::sleep_until(wakes).await;
        }
        let deadline = wakes + length + PATIENCE;
        loop {
            match timeout(QUIET, link.next()).await {
                Ok(Ok(Frame::Entry { entry, .. })) => recording.entry(&entry),
                Ok(Ok(Frame::Snapshot { seq, state, .. })) => recording.snapshot(seq, now(), &state),
                Ok(Ok(_)) => {}
                // The daemon closed the connection, as expected.
                Ok(Err(_)) => break,
                Err(_) => {
                    let state = asking.call(json!({ "type": "state", "session": session })).await?;
                    let summary = &state["state"]["summary"];
                    let over = state["state"]["turn"].is_null() && summary["turns"].as_u64() > Some(turns);
                    if over && recording.last() >= state["seq"].as_u64().unwrap_or(u64::MAX) {
                        recording.seen.push(Seen::Lost);
                        return Ok(recording);
                    }
                }
            }
            ensure!(Instant::now() < deadline, "the client never caught up");
        }
        recording.seen.push(Seen::Lost);
    }
}
