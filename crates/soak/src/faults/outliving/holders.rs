//! `kill -9` of the process that holds an agent, with a daemon and without one.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ASK, RECITE, RECITED, allow, come_to_rest, conclude, count, open_request, place, said, status};
use crate::{
    chance::Chance,
    faults::{Extent, Run, Tally},
    link::{Link, PATIENCE},
    place::Place,
    reader::Reader,
    record::Entry,
};

/// A prompt of the demo agent that leaves a process with a process session of its own.
const ORPHANS: &str = "orphans";

/// What the agent does when its holder is killed.
const PROMPTS: &[&str] = &[ASK, RECITE, ORPHANS];

/// How the texts of the agents begin.
const RECITAL: &str = "## How a portolan";
const LEFT: &str = "I left a process";

/// How long a holder lives, in milliseconds: from, to. A turn takes about half a second.
const LIFE_MS: (u64, u64) = (0, 600);

/// Kills of holders, with a daemon and without one.
pub async fn holders(run: Run) -> Result<Tally> {
    let times = run.extent.of(200, 8);
    let mut chance = Chance::new(run.seed);
    let place = place()?;
    let (_, mut door) = place.up()?;
    let mut link = Link::open(&door, "driver").await?;
    let session = link.create("demo", place.work.path()).await?;
    let all = std::slice::from_ref(&session);
    let mut reader = Reader::new("reader", &[&session]);
    reader.start(&door);
    let (mut alone, mut answered) = (0, BTreeSet::new());
    for round in 1..=times {
        give_work(&mut link, &session, &mut chance).await?;
        wait("the agent to have one holder", || place.home.holders().len() == 1).await?;
        tokio::time::sleep(Duration::from_millis(chance.between(LIFE_MS.0, LIFE_MS.1))).await;
        let open = open_request(&link.state(&session).await?, &answered);
        if let Some(request) = open.filter(|_| chance.percent(50)) {
            allow(&mut link, &session, request).await?;
            answered.insert(request);
        }
        let (holder, processes) = (the_holder(&place)?, place.leftovers(all));
        if chance.percent(50) {
            alone += 1;
            let kill = place.kill();
            kill_process(holder, Signal::KILL)?;
            reader.lose(Some(kill)).await?;
            (_, door) = place.up()?;
            reader.start(&door);
            link = Link::open(&door, "driver").await?;
        } else {
            kill_process(holder, Signal::KILL)?;
        }
        link.until_state(&session, "the end of the agent", has_ended)
            .await
            .with_context(|| format!("after kill {round}"))?;
        // A daemon that saw the end starts the agent again soon: only the processes of the killed one must end.
        let is_left = || place.leftovers(all).iter().any(|process| processes.contains(process));
        wait("the processes of the agent to end", || !is_left()).await?;
    }
    // What waits for the next agent is done.
    if queued(&link.state(&session).await?) > 0 {
        link.command(&session, json!({ "name": "resume" })).await?;
        come_to_rest(&mut link, &session, &mut answered).await?;
    }
    let (histories, _) = conclude(&place, &door, reader, &[&session]).await?;
    let history = histories.get(&session).context("no history")?;
    let ends = count(history, "agent_exited");
    ensure!(ends == times, "{times} holders were killed, {ends} ends of agents were recorded");
    let texts = Texts::of(history)?;
    ensure!(run.extent == Extent::Share || texts.are_all(), "the run was not busy: {texts:?}");
    let Texts { whole, cut, orphans } = texts;
    Ok(Tally {
        count: format!("{times} holders ({alone} alone)"),
        found: format!(
            "{ends} ends with a reason, nothing left open, no process left; {whole} whole texts, {cut} cut off, {orphans} \
             with orphans"
        ),
    })
}

/// Prompts the session. Prompts that wait are sent to the next agent first.
async fn give_work(link: &mut Link, session: &str, chance: &mut Chance) -> Result<()> {
    if queued(&link.state(session).await?) > 0 {
        link.command(session, json!({ "name": "resume" })).await?;
    } else {
        link.prompt(session, chance.pick(PROMPTS).copied().unwrap_or(ASK)).await?;
    }
    Ok(())
}

fn queued(state: &Value) -> u64 {
    state["summary"]["queued"].as_u64().unwrap_or_default()
}

fn has_ended(state: &Value) -> bool {
    ["terminated", "error"].contains(&status(state))
}

fn the_holder(place: &Place) -> Result<Pid> {
    let held = place.home.holders();
    ensure!(held.len() == 1, "{} holders instead of one", held.len());
    Pid::from_raw(held[0]).context("a pid")
}

async fn wait(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        ensure!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// How the texts of the agents ended.
#[derive(Clone, Copy, Debug, Default)]
struct Texts {
    whole: usize,
    cut: usize,
    orphans: usize,
}

impl Texts {
    /// Counts the texts. A text that is not marked as cut off must be whole.
    fn of(history: &[Entry]) -> Result<Self> {
        let mut texts = Self::default();
        for entry in history.iter().filter(|entry| entry.kind() == "message") {
            let text = said(&entry.event);
            let is_cut = entry.event["interrupted"] == true;
            let words = text.split_inclusive(' ').count();
            ensure!(
                is_cut || !text.starts_with(RECITAL) || words == RECITED,
                "entry {} has {words} of {RECITED} words and is not marked as cut off",
                entry.seq
            );
            texts.whole += usize::from(!is_cut);
            texts.cut += usize::from(is_cut);
            texts.orphans += usize::from(!is_cut && text.starts_with(LEFT));
        }
        Ok(texts)
    }

    fn are_all(self) -> bool {
        [self.whole, self.cut, self.orphans].iter().all(|count| *count > 0)
    }
}
