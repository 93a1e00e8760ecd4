//! Agents that outlive the daemon: ends of the daemon, upgrades, ends of holders, and a daemon that stays away.
//!
//! This file has what these faults share. A client reads everything from the first daemon to the last; at the end,
//! everything that it saw is compared with the log.

mod away;
mod daemons;
mod holders;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use self::{
    away::away,
    daemons::{claude, codex, demo},
    holders::holders,
    upgrades::upgrades,
};
use super::none;
use crate::{
    check,
    link::{Door, Link, PATIENCE, history},
    place::{Place, quoted},
    reader::Reader,
    record::{Entry, Recording, Seen},
};

/// A prompt of the demo agent that recites for half a second.
const RECITE: &str = "recite 200 400";

/// The words of that recital, as spaces separate them: two of the 200 pieces end in a new line instead.
const RECITED: usize = 198;

/// A prompt of the demo agent that leads to one request.
const ASK: &str = "use a tool";

type Histories = BTreeMap<String, Vec<Entry>>;

/// A place whose demo agents outlive the daemon. A witness records every line to them.
fn place() -> Result<Place> {
    let place = Place::new("")?;
    let script = format!("tee -a {} | {} demo-agent", quoted(&place.witness()), quoted(place.program()));
    let command = json!(["sh", "-c", script]);
    place.configure(&format!(
        "[agents]\noutlive = true\n[agents.demo]\ncommand = {command}\n[agents.demo.env]\nDEMO_PACE_MS = \"4\"\n"
    ));
    Ok(place)
}

fn status(state: &Value) -> &str {
    state["summary"]["status"].as_str().unwrap_or_default()
}

/// Whether the agent takes a prompt at once. An agent that runs and has had no turn yet is `connected`.
fn rests(state: &Value) -> bool {
    ["idle", "connected"].contains(&status(state)) && state["summary"]["queued"] == 0
}

/// The first open request that has no answer yet.
fn open_request(state: &Value, answered: &BTreeSet<u64>) -> Option<u64> {
    let open = state["requests"].as_array().into_iter().flatten();
    open.filter_map(|request| request["request"].as_u64()).find(|request| !answered.contains(request))
}

async fn allow(link: &mut Link, session: &str, request: u64) -> Result<()> {
    let answer = json!({ "name": "answer", "request": request, "answer": { "kind": "allow" } });
    link.command(session, answer).await.map(drop)
}

/// Answers what the agent asks until it rests.
async fn come_to_rest(link: &mut Link, session: &str, answered: &mut BTreeSet<u64>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = link.state(session).await?;
        if let Some(request) = open_request(&state, answered) {
            allow(link, session, request).await?;
            answered.insert(request);
        } else if rests(&state) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{session} does not come to rest: {state}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn histories(door: &Door, sessions: &[&str]) -> Result<Histories> {
    let mut histories = BTreeMap::new();
    for session in sessions {
        histories.insert((*session).to_owned(), history(door, session).await?);
    }
    Ok(histories)
}

/// The sessions are at rest: compares everything that the reader saw with their histories. Then ends all agents, and
/// checks that nothing is left and that every end is recorded. Returns the histories before that, and the recordings.
async fn conclude(
    place: &Place,
    door: &Door,
    reader: Reader,
    sessions: &[&str],
) -> Result<(Histories, Vec<Recording>)> {
    let recordings = reader.finish(door).await?;
    let before = histories(door, sessions).await?;
    for recording in &recordings {
        compare(before.get(&recording.log).context("a session without a history")?, recording)?;
    }
    none("commands", &check::commands(&[], &before, &check::Told::default()))?;

    place.down_and_end()?;
    ensure!(place.home.holders().is_empty(), "a holder is left");
    let all: Vec<String> = sessions.iter().map(ToString::to_string).collect();
    ensure!(place.leftovers(&all).is_empty(), "a process of an agent is left");
    let (_, door) = place.up()?;
    for (session, history) in &histories(&door, sessions).await? {
        none(&format!("ends of the agents of {session}"), &check::ends(history))?;
    }
    place.down()?;
    Ok((before, recordings))
}

/// Compares what a client saw with the history.
fn compare(history: &[Entry], recording: &Recording) -> Result<()> {
    let about = |what: &str| format!("{what} of {}", recording.log);
    none(&about("numbers"), &check::numbers(history, &[recording]))?;
    none(&about("order"), &check::order(history, recording))?;
    none(&about("text"), &check::kept(history, recording))?;
    none(&about("requests"), &check::requests(history, &[recording]))
}

/// In how many snapshots a request was open, without the first: each of the others is from another daemon.
fn open_requests_after(recordings: &[Recording]) -> usize {
    let open = |recording: &Recording| {
        let snapshots = recording.seen.iter().filter_map(|seen| match seen {
            Seen::Snapshot { requests, .. } => Some(requests),
            _ => None,
        });
        snapshots.skip(1).filter(|requests| !requests.is_empty()).count()
    };
    recordings.iter().map(open).sum()
}

/// How many entries of this kind there are.
fn count(history: &[Entry], kind: &str) -> usize {
    history.iter().filter(|entry| entry.kind() == kind).count()
}

/// The text of a message.
fn said(message: &Value) -> String {
    let pieces = message["content"].as_array().into_iter().flatten();
    pieces.filter_map(|piece| piece["text"].as_str()).collect()
}
