//! Agents that outlive the daemon: `kill -9` of the daemon, orderly restarts, and `kill -9` of holders, at random points
//! while a turn runs and a request waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Run, Tally};
use crate::{
    chance::Chance,
    link::{Link, PATIENCE},
    place::{Place, quoted},
};

/// One turn of the session that only talks: about a second of text.
const TALK: &str = "recite 200 400";

/// One turn of the session that asks.
const ASK: &str = "tool";

/// How long a daemon lives at most.
const LIFE_MS: u64 = 400;

/// Kills and restarts of the daemon.
pub async fn daemons(run: Run) -> Result<Tally> {
    let times = run.extent.of(1000, 25);
    let mut chance = Chance::new(run.seed);
    let place = place()?;
    let (_, door) = place.up()?;
    let mut link = Link::open(&door, "first").await?;
    let talks = link.create("demo", place.work.path()).await?;
    let asks = link.create("demo", place.work.path()).await?;
    let mut prompts = BTreeMap::from([(TALK, 0), (ASK, 0)]);
    let mut restarts = 0;
    for _ in 0..times {
        if idle(&place, &talks)? {
            link.prompt(&talks, TALK).await?;
            *prompts.entry(TALK).or_default() += 1;
        }
        answer_or_ask(&place, &mut link, &asks, &mut prompts).await?;
        tokio::time::sleep(Duration::from_millis(chance.between(0, LIFE_MS))).await;
        if chance.percent(20) {
            restarts += 1;
            stop_and_keep(&place)?;
        } else {
            place.kill();
            place.check_database()?;
        }
        let (_, door) = place.up()?;
        link = Link::open(&door, "next").await?;
    }
    finish(&place, &mut link, [&talks, &asks]).await?;

    let told = place.told()?;
    for (session, text) in [(&talks, TALK), (&asks, ASK)] {
        let log = log(&place, session)?;
        let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
        let given = prompts[text];
        ensure!(
            count("prompt") == given,
            "{text}: {given} prompts were given, the log has {}",
            count("prompt")
        );
        ensure!(
            count("turn_ended") == given,
            "{text}: {given} prompts, {} ends of turns",
            count("turn_ended")
        );
        ensure!(count("agent_exited") == 0, "{text}: the agent ended");
        let reached = told.lines.iter().filter(|line| line.contains(&format!("\"{text}\""))).count();
        ensure!(reached == given, "{text}: {given} prompts, the agent got {reached}");
        let completed = log.iter().filter(|event| event["result"]["outcome"] == "completed").count();
        ensure!(completed == given, "{text}: {given} prompts, {completed} completed turns");
    }
    let log = log(&place, &talks)?;
    let texts: Vec<String> = log.iter().filter(|event| event["type"] == "message").map(text).collect();
    let first = texts.first().context("no text")?;
    ensure!(first.split_whitespace().count() == 200, "200 words were recited: {first}");
    ensure!(texts.len() == prompts[TALK], "{} texts for {} prompts", texts.len(), prompts[TALK]);
    for (number, text) in texts.iter().enumerate() {
        ensure!(text == first, "the text of turn {number} differs:\n{text}\nis not\n{first}");
    }
    requests_closed_once(&place, &asks)?;
    end_all(&place, &[talks, asks])?;
    Ok(Tally {
        count: format!("{times} daemons ({restarts} in order)"),
        found: format!("{} turns of text and {} of requests, each whole", prompts[TALK], prompts[ASK]),
    })
}

/// Kills of holders, with a daemon and without one.
pub async fn holders(run: Run) -> Result<Tally> {
    let times = run.extent.of(200, 8);
    let mut chance = Chance::new(run.seed);
    let place = place()?;
    let (_, door) = place.up()?;
    let mut link = Link::open(&door, "first").await?;
    let session = link.create("demo", place.work.path()).await?;
    let mut prompts = BTreeMap::new();
    let mut alone = 0;
    for round in 0..times {
        answer_or_ask(&place, &mut link, &session, &mut prompts).await?;
        tokio::time::sleep(Duration::from_millis(chance.between(0, LIFE_MS))).await;
        wait("the agent to have one holder", || place.home.holders().len() == 1).await?;
        let held = place.home.holders();
        let holder = Pid::from_raw(held[0]).context("a pid")?;
        if chance.percent(50) {
            alone += 1;
            place.kill();
            kill_process(holder, Signal::KILL)?;
            let (_, door) = place.up()?;
            link = Link::open(&door, "next").await?;
        } else {
            kill_process(holder, Signal::KILL)?;
        }
        let ended = ["terminated", "error"];
        until(&place, &session, "the end of the agent", |state| {
            ended.contains(&state["summary"]["status"].as_str().unwrap_or_default())
        })
        .await?;
        let state = state(&place, &session)?;
        ensure!(state["requests"] == serde_json::json!([]), "round {round}: a request stays open: {state}");
        requests_closed_once(&place, &session)?;
        wait("the processes of the agent to end", || {
            place.leftovers(std::slice::from_ref(&session)).is_empty()
        })
        .await?;
    }
    end_all(&place, &[session])?;
    Ok(Tally {
        count: format!("{times} holders ({alone} alone)"),
        found: "everything open was closed, no process was left".into(),
    })
}

fn place() -> Result<Place> {
    let place = Place::new("")?;
    let script = format!("tee -a {} | {} demo-agent", quoted(&place.witness()), quoted(place.program()));
    let command = serde_json::json!(["sh", "-c", script]);
    place.configure(&format!(
        "[agents]\noutlive = true\n[agents.demo]\ncommand = {command}\n[agents.demo.env]\nDEMO_PACE_MS = \"4\"\n"
    ));
    Ok(place)
}

/// Answers the session's open request, or prompts it if it is idle.
async fn answer_or_ask(
    place: &Place,
    link: &mut Link,
    session: &str,
    prompts: &mut BTreeMap<&'static str, usize>,
) -> Result<()> {
    let state = state(place, session)?;
    if let Some(request) = state["requests"][0]["request"].as_u64() {
        let answer =
            serde_json::json!({ "name": "answer", "request": request, "answer": { "kind": "allow" } });
        link.command(session, answer).await?;
    } else if ["idle", "connected", "terminated", "error"]
        .contains(&state["summary"]["status"].as_str().unwrap_or_default())
    {
        link.prompt(session, ASK).await?;
        *prompts.entry(ASK).or_default() += 1;
    }
    Ok(())
}

fn state(place: &Place, session: &str) -> Result<Value> {
    let shown = tokio::task::block_in_place(|| place.home.json(["show", session]));
    shown.get("state").cloned().context("a session without a state")
}

/// Whether the session takes a prompt at once. An agent that runs and has had no turn yet is `connected`.
fn idle(place: &Place, session: &str) -> Result<bool> {
    let state = state(place, session)?;
    Ok(["idle", "connected"].contains(&state["summary"]["status"].as_str().unwrap_or_default()))
}

/// Lets both sessions come to rest.
async fn finish(place: &Place, link: &mut Link, sessions: [&str; 2]) -> Result<()> {
    let mut answered = BTreeSet::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for session in sessions {
        while !idle(place, session)? {
            let open = state(place, session)?["requests"][0]["request"].as_u64();
            if let Some(request) = open.filter(|request| !answered.contains(request)) {
                answer_or_ask(place, link, session, &mut BTreeMap::new()).await?;
                answered.insert(request);
            }
            ensure!(tokio::time::Instant::now() < deadline, "{session} does not come to rest");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn until(place: &Place, session: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds(&state(place, session)?) {
        ensure!(tokio::time::Instant::now() < deadline, "{what} does not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn wait(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        ensure!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The durable events of a session.
fn log(place: &Place, session: &str) -> Result<Vec<Value>> {
    let text = tokio::task::block_in_place(|| place.home.run(["export", session]));
    ensure!(text.code == 0, "{text:?}");
    text.stdout.lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["event"].clone())).collect()
}

fn text(message: &Value) -> String {
    let pieces = message["content"].as_array().into_iter().flatten();
    pieces.filter_map(|piece| piece["text"].as_str()).collect()
}

fn requests_closed_once(place: &Place, session: &str) -> Result<()> {
    let log = log(place, session)?;
    let mut opened = BTreeMap::new();
    for event in &log {
        if event["type"] == "request_opened" {
            opened.insert(event["request"]["request"].as_u64().context("a number")?, 0);
        }
        if event["type"] == "request_closed" {
            let request = event["request"].as_u64().context("a number")?;
            *opened.get_mut(&request).with_context(|| format!("{request} was never opened"))? += 1;
        }
    }
    for (request, closed) in opened {
        ensure!(closed == 1, "request {request} was closed {closed} times");
    }
    Ok(())
}

/// An orderly end of the daemon that keeps the agents.
fn stop_and_keep(place: &Place) -> Result<()> {
    let ran = tokio::task::block_in_place(|| place.home.run(["down", "--keep"]));
    ensure!(ran.code == 0, "{ran:?}");
    ensure!(tokio::task::block_in_place(|| place.home.ended()) == 0, "the daemon failed");
    Ok(())
}

fn end_all(place: &Place, sessions: &[String]) -> Result<()> {
    place.down()?;
    ensure!(place.home.holders().is_empty(), "a holder is left");
    ensure!(place.leftovers(sessions).is_empty(), "a process of an agent is left");
    Ok(())
}
