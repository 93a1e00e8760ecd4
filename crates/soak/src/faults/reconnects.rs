//! A client that disconnects and reconnects at random moments while a session streams: it gets every durable entry
//! exactly once and in order, and no text is lost or doubled.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use super::{Run, Tally, none};
use crate::{
    chance::Chance,
    check,
    link::{Door, Frame, Link, PATIENCE, history},
    place::{Place, now},
    record::{Recording, Seen},
};

/// The prompts that keep the session busy: streams, bursts of finished messages, tools, thinking.
const PROMPTS: &[&str] = &[
    "repeat 150 30 600",
    "long 60",
    "say a few words that come one after the other",
    "think",
    "repeat 400 8 2000",
    "subagents",
    "todo steps",
];

/// Runs the fault.
pub async fn run(run: Run) -> Result<Tally> {
    let times = run.extent.of(1000, 120);
    let mut chance = Chance::new(run.seed);
    let place = Place::new("[agents.demo.env]\nDEMO_PACE_MS = \"3\"\n[policy]\nallow_bypass = true\n")?;
    let (_, door) = place.up()?;
    let mut owner = Link::open(&door, "owner").await?;
    // No requests: the stream never waits.
    let spec = serde_json::json!({ "agent": "demo", "cwd": place.work.path(), "mode": "bypassPermissions" });
    let made = owner.call(serde_json::json!({ "type": "create", "spec": spec })).await?;
    let session = made["session"]["session"].as_str().context("a session without an id")?.to_owned();
    drop(owner);

    let (stop, stopped) = watch::channel(false);
    let feeding = tokio::spawn(feed(door.clone(), session.clone(), chance.split(), stopped));
    let mut recording = Recording::new("wanderer", session.clone());
    let mut came_back = 0;
    for _ in 0..times {
        came_back += visit(&door, &session, &mut recording, &mut chance, Stay::AtRandom).await?;
    }
    stop.send_replace(true);
    feeding.await?.context("the session did not continue")?;
    // One last time, to the end.
    visit(&door, &session, &mut recording, &mut chance, Stay::ToTheEnd).await?;

    let told = history(&door, &session).await?;
    none("order", &check::order(&told, &recording))?;
    none("text", &check::text(&told, &recording, 0).0)?;
    let last = told.last().map_or(0, |entry| entry.seq);
    ensure!(recording.last() >= last, "the client ended at {}, the history at {last}", recording.last());
    ensure!(told.len() > times, "only {} entries: the session did not stream", told.len());
    place.down()?;
    let found = format!(
        "{} durable entries, {} things seen, {came_back} during a turn",
        told.len(),
        recording.seen.len()
    );
    Ok(Tally { count: format!("{times} reconnects"), found })
}

/// How long a visit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    AtRandom,
    ToTheEnd,
}

/// Connects, reads for a while, and disconnects. Returns 1 if a turn ran.
async fn visit(
    door: &Door,
    session: &str,
    recording: &mut Recording,
    chance: &mut Chance,
    stay: Stay,
) -> Result<usize> {
    let mut link = Link::open(door, "wanderer").await?;
    let after = recording.last();
    let start = serde_json::json!({ "after": after });
    link.send(&serde_json::json!({ "type": "attach", "id": "a", "session": session, "start": start }))
        .await?;
    recording.seen.push(Seen::Attached { after });
    let leave = match stay {
        Stay::AtRandom => Instant::now() + Duration::from_micros(chance.between(0, 30_000)),
        Stay::ToTheEnd => Instant::now() + PATIENCE,
    };
    let most = chance.between(1, 400);
    let (mut read, mut active) = (0, 0);
    while let Ok(frame) = timeout_at(leave, link.next()).await {
        match frame? {
            Frame::Entry { entry, .. } => recording.entry(&entry),
            Frame::Snapshot { seq, state, .. } => {
                recording.snapshot(seq, now(), &state);
                active = usize::from(!state["turn"].is_null());
                if stay == Stay::ToTheEnd && state["turn"].is_null() {
                    break;
                }
            }
            Frame::Error { body, .. } => anyhow::bail!("{body}"),
            Frame::Reply { .. } | Frame::Other(_) => {}
        }
        read += 1;
        if stay == Stay::AtRandom && read >= most {
            break;
        }
    }
    recording.seen.push(Seen::Lost);
    Ok(active)
}

/// Keeps the session busy until it is stopped, then waits for the last turn.
async fn feed(door: Door, session: String, mut chance: Chance, stopped: watch::Receiver<bool>) -> Result<()> {
    let mut link = Link::open(&door, "feeder").await?;
    link.attach(&session, 0).await?;
    let ended = |frame: &Frame| match frame {
        Frame::Entry { entry, .. } if entry.kind() == "turn_ended" => Some(()),
        _ => None,
    };
    while !*stopped.borrow() {
        let text = chance.pick(PROMPTS).copied().unwrap_or("hello");
        link.prompt(&session, text).await?;
        timeout(PATIENCE, link.until("the end of a turn", ended)).await??;
    }
    Ok(())
}
