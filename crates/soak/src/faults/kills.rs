//! kill -9 of the daemon in the middle of a busy run: several sessions, running prompts, open requests, several clients
//! that record everything they see.
//!
//! After each kill the database is checked as the kill left it, and after each start every process of the killed daemon
//! must be gone. At the end everything is settled, and everything that the clients saw and sent is compared with the
//! history.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use portolan_scripted::{Script, Server, contains, text, tool};
use portolan_testkit::npm;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Extent, Run, Tally, none};
use crate::{
    chance::Chance,
    check,
    hand::{Hand, Mood, Repertoire},
    link::{Door, Link, PATIENCE, history},
    place::{Place, quoted},
    record::DAEMON,
};

/// The newest pinned Claude Code of all tests.
const CLAUDE: &str = "2.1.325";

/// How much a kill may lose: this many milliseconds of an unfinished item.
const MAY_BE_LOST: i64 = 250;

/// On a machine that is busy with other tests, the daemon runs late; this much more is allowed.
const BUSY_MACHINE: i64 = 1500;

const DEMO: Repertoire = Repertoire {
    agent: "demo",
    prompts: &[
        "say # one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
        "say # short",
        "repeat 300 12 400 #",
        "repeat 40 2000 60 #",
        "slow #",
        "use a tool for #",
        "two tools for #",
        "subagents for #",
        "edit #",
        "question #",
        "think about #",
        "background task #",
        "orphans #",
        "long 30 #",
    ],
    pause: (10, 90),
    on_their_way: 3,
};

const REAL: Repertoire = Repertoire {
    agent: "claude",
    prompts: &["tell a story about #", "run a command for #", "say # briefly"],
    pause: (100, 700),
    on_their_way: 2,
};

/// With the demo agent.
pub async fn demo(run: Run) -> Result<Tally> {
    let place = Place::witnessed()?;
    let ordeal = Ordeal {
        place: &place,
        repertoire: DEMO,
        sessions: 3,
        hands: 4,
        points: run.extent.of(200, 12),
        wait: (20, 900),
        extent: run.extent,
    };
    ordeal.go(Chance::new(run.seed)).await
}

/// With the real Claude Code, against a scripted model.
pub async fn claude(run: Run) -> Result<Tally> {
    let program = tokio::task::spawn_blocking(|| npm::claude(CLAUDE).program()).await?;
    let program = program.map_err(anyhow::Error::msg)?;
    let story = "Once there was a harbour, and in the harbour there was a light. ".repeat(12);
    let script = Script::new()
        .on(contains("tell a story"))
        .reply(text(story).chunks_of(9).each_after(Duration::from_millis(15)))
        .for_all()
        .on(contains("run a command"))
        .reply(tool("Bash", json!({ "command": "sleep 0.2; echo done >> ran.txt" })))
        .then(text("It ran."))
        .for_all()
        .otherwise(text("Briefly: yes.").chunks_of(4).each_after(Duration::from_millis(20)))
        .asides(text("scripted"));
    let model = Server::start(script).await?;
    let place = Place::new("")?;
    let agent_home = tempfile::tempdir()?;
    configure_claude(&place, &program, agent_home.path(), &model.base_url())?;
    let ordeal = Ordeal {
        place: &place,
        repertoire: REAL,
        sessions: run.extent.of(2, 1),
        hands: 2,
        points: run.extent.of(200, 3),
        wait: (200, 6000),
        extent: run.extent,
    };
    let tally = ordeal.go(Chance::new(run.seed)).await;
    model.shutdown().await;
    tally
}

/// Claude Code behind a witness: a script that records every line that is sent to the program.
fn configure_claude(place: &Place, program: &Path, agent_home: &Path, model: &str) -> Result<()> {
    let script = place.work.path().join("claude");
    let (program, witness) = (quoted(program), quoted(&place.witness()));
    let lines = [
        "#!/bin/sh",
        "case \"$*\" in",
        &format!("*stream-json*) tee -a {witness} | {program} \"$@\" ;;"),
        &format!("*) exec {program} \"$@\" ;;"),
        "esac",
        "",
    ];
    std::fs::write(&script, lines.join("\n"))?;
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    place.configure(&format!(
        "[agents.claude]\ncommand = [{}]\n[agents.claude.env]\nHOME = {}\nANTHROPIC_BASE_URL = {}\n\
         ANTHROPIC_API_KEY = \"fake\"\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\n\
         DISABLE_AUTOUPDATER = \"1\"\nDISABLE_TELEMETRY = \"1\"\n",
        json!(script),
        json!(agent_home),
        json!(model)
    ));
    Ok(())
}

/// One busy run with its kills.
struct Ordeal<'a> {
    place: &'a Place,
    repertoire: Repertoire,
    sessions: usize,
    hands: usize,
    points: usize,
    /// How long the run takes before each kill, in milliseconds: from, to.
    wait: (u64, u64),
    extent: Extent,
}

/// A session that was requested just before a kill.
struct Birth {
    frame: Value,
    session: Option<String>,
}

impl Ordeal<'_> {
    async fn go(&self, mut chance: Chance) -> Result<Tally> {
        let (_, mut door) = self.place.up()?;
        let mut control = Link::open(&door, "control").await?;
        let mut sessions = Vec::new();
        for _ in 0..self.sessions {
            sessions.push(control.create(self.repertoire.agent, self.place.work.path()).await?);
        }
        let mut hands: Vec<Hand> = (0..self.hands)
            .map(|number| Hand::new(&format!("h{number}"), &sessions, self.repertoire, chance.split()))
            .collect();
        let mut births: Vec<Birth> = Vec::new();
        for point in 0..self.points {
            let kill = {
                let (mood, looks) = watch::channel(Mood::Busy);
                let working = start(hands, &door, &looks);
                sleep(Duration::from_millis(chance.between(self.wait.0, self.wait.1))).await;
                if chance.percent(10) && births.len() < 10 {
                    births.push(self.ask_for_session(&door, births.len()).await?);
                    sleep(Duration::from_millis(chance.between(0, 12))).await;
                }
                let kill = self.place.kill();
                hands = finish(working).await.with_context(|| format!("kill {point}"))?;
                drop(mood);
                kill
            };
            for hand in &mut hands {
                hand.killed(kill);
            }
            self.place.check_database().with_context(|| format!("after kill {point}"))?;
            (_, door) = self.place.up()?;
            let mut control = Link::open(&door, "control").await?;
            let all = list(&mut control).await?;
            self.nothing_left(&all).await.with_context(|| format!("after kill {point}"))?;
            for birth in &mut births {
                let made = control.ask(birth.frame.clone()).await?["session"]["session"].clone();
                let made = made.as_str().context("a session without an id")?.to_owned();
                ensure!(
                    birth.session.get_or_insert_with(|| made.clone()) == &made,
                    "one id made two sessions"
                );
            }
        }
        hands = self.settle(&door, hands, &sessions).await?;
        let mut control = Link::open(&door, "control").await?;
        let all = list(&mut control).await?;
        ensure!(
            all.len() == sessions.len() + births.len(),
            "{} sessions were requested, there are {}",
            sessions.len() + births.len(),
            all.len()
        );
        let verdict = self.judge(&door, &hands, &sessions).await;
        drop(control);
        self.place.down()?;
        self.nothing_left(&all).await.context("after the end")?;
        self.place.check_database()?;
        verdict
    }

    /// Requests a session and does not wait for the answer.
    async fn ask_for_session(&self, door: &Door, number: usize) -> Result<Birth> {
        let spec = json!({ "agent": "demo", "cwd": self.place.work.path() });
        let frame = json!({ "type": "create", "id": format!("birth-{number}"), "spec": spec });
        let mut link = Link::open(door, "parent").await?;
        link.send(&frame).await?;
        Ok(Birth { frame, session: None })
    }

    /// No process of these sessions runs. The processes are already killed; this only waits for their end.
    async fn nothing_left(&self, sessions: &[String]) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.place.leftovers(sessions);
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let names: Vec<String> = left
                    .iter()
                    .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
                    .collect();
                bail!("processes were left behind: {left:?} {names:?}");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Settles everything: sends queued prompts, answers open requests.
    async fn settle(&self, door: &Door, hands: Vec<Hand>, sessions: &[String]) -> Result<Vec<Hand>> {
        let (mood, looks) = watch::channel(Mood::Settling);
        let working = start(hands, door, &looks);
        let mut control = Link::open(door, "control").await?;
        for session in sessions {
            let deadline = Instant::now() + PATIENCE * 3;
            control.command(session, json!({ "name": "resume" })).await?;
            loop {
                let state = control.state(session).await?;
                let open = |command: &Value| command["stage"] != "uncertain";
                let settled = state["turn"].is_null()
                    && state["requests"].as_array().is_some_and(Vec::is_empty)
                    && !state["commands"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|command| open(&command["stage"]));
                if settled {
                    break;
                }
                // A turn of minutes is not worth the wait.
                if state["items"].as_array().is_some_and(|items| !items.is_empty()) {
                    control.command(session, json!({ "name": "interrupt" })).await?;
                }
                ensure!(Instant::now() < deadline, "session {session} does not settle: {state}");
                sleep(Duration::from_millis(50)).await;
            }
            control.command(session, json!({ "name": "stop" })).await?;
            control
                .until_state(session, "the stop", |state| state["summary"]["status"] == "terminated")
                .await?;
        }
        // Everything is sent; the hands continue to read until they have all of it.
        sleep(Duration::from_millis(500)).await;
        mood.send_replace(Mood::Done);
        finish(working).await
    }

    async fn judge(&self, door: &Door, hands: &[Hand], sessions: &[String]) -> Result<Tally> {
        let mut histories = BTreeMap::new();
        for log in sessions.iter().cloned().chain([DAEMON.to_owned()]) {
            histories.insert(log.clone(), history(door, &log).await?);
        }
        let allowance = MAY_BE_LOST + self.extent.of(0, BUSY_MACHINE);
        let (mut worst, mut cut, mut entries) = (0, 0, 0);
        for (log, told) in &histories {
            let recordings: Vec<_> = hands.iter().filter_map(|hand| hand.recordings.get(log)).collect();
            none(&format!("numbers of {log}"), &check::numbers(told, &recordings))?;
            for recording in recordings {
                entries += recording.seen.len();
                none(&format!("{} reading {log}", recording.client), &check::order(told, recording))?;
                let (complaints, losses) = check::text(told, recording, allowance);
                none(&format!("{} reading {log}", recording.client), &complaints)?;
                worst = worst.max(losses.worst_milliseconds);
                cut += losses.items;
            }
        }
        histories.remove(DAEMON);
        let sent: Vec<_> = hands.iter().flat_map(|hand| hand.sent.iter().cloned()).collect();
        none("commands", &check::commands(&sent, &histories, &self.place.told()?))?;
        let prompts = sent.iter().filter(|command| command.action == "prompt").count();
        ensure!(prompts > self.points, "only {prompts} prompts were sent: the run was not busy");
        Ok(Tally {
            count: format!("{} kills", self.points),
            found: format!(
                "{entries} things seen, {} commands ({prompts} prompts), {cut} items cut by a kill, at most {worst} ms lost",
                sent.len()
            ),
        })
    }
}

type Working = Vec<tokio::task::JoinHandle<(Hand, Result<()>)>>;

fn start(hands: Vec<Hand>, door: &Door, looks: &watch::Receiver<Mood>) -> Working {
    let one = |mut hand: Hand| {
        let (door, looks) = (door.clone(), looks.clone());
        tokio::spawn(async move {
            let ended = hand.work(door, looks).await;
            (hand, ended)
        })
    };
    hands.into_iter().map(one).collect()
}

async fn finish(working: Working) -> Result<Vec<Hand>> {
    let mut hands = Vec::new();
    for hand in working {
        let (hand, ended) = timeout(PATIENCE, hand).await.context("a client does not notice the end")??;
        // A kill may come before a hand is connected.
        drop(ended);
        hands.push(hand);
    }
    Ok(hands)
}

async fn list(link: &mut Link) -> Result<Vec<String>> {
    let reply = link.call(json!({ "type": "list", "limit": 1000 })).await?;
    let sessions = reply["sessions"].as_array().cloned().unwrap_or_default();
    Ok(sessions.iter().filter_map(|summary| summary["session"].as_str().map(str::to_owned)).collect())
}
