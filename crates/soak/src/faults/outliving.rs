//! Agents that outlive the daemon: `kill -9` of the daemon, orderly restarts, upgrades, and `kill -9` of holders, at
//! random points while a turn runs and a request waits; and a daemon that stays away for long.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use portolan_scripted::{Script, Server, contains, text, tools};
use portolan_testkit::npm::{self, Pinned};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Run, Tally};
use crate::{
    chance::Chance,
    link::{Link, PATIENCE},
    place::{Place, quoted, resident},
};

/// The demo agent: one turn of the session that only talks takes about a second. Two of the 200 pieces that it recites
/// end in a new line instead of a space.
const DEMO: Conversation = Conversation {
    agent: "demo",
    talk: "recite 200 400",
    ask: "tool",
    life_ms: (0, 400),
    words: 198,
    runs_once: false,
};

/// A real agent with a scripted model: turns take about two seconds, and agents take seconds to start.
const fn real(agent: &'static str) -> Conversation {
    let (talk, ask) = ("tell a story", "run a command");
    Conversation { agent, talk, ask, life_ms: (0, 1500), words: 12 * 13, runs_once: true }
}

/// What two sessions of an agent do while daemons come and go: one talks, one asks.
#[derive(Clone, Copy, Debug)]
struct Conversation {
    agent: &'static str,
    /// The prompt of one turn of the session that only talks. Every such turn has the same text.
    talk: &'static str,
    /// The prompt of one turn with one request.
    ask: &'static str,
    /// How long a daemon lives, in milliseconds: from, to.
    life_ms: (u64, u64),
    /// The words of the text of one turn, as spaces separate them.
    words: usize,
    /// Each turn with a request appends one line to a file.
    runs_once: bool,
}

/// A holder keeps 64 MiB, and a little more: the last report may pass the bound.
const SPOOL_BOUND: u64 = 68 * 1024 * 1024;

/// The resident memory that a holder may have, in KiB; half of it is the program, which all processes share.
const HOLDER_KIB: u64 = 40 * 1024;

/// How a daemon ends, and the next one begins.
#[derive(Debug)]
enum Change {
    /// `kill -9`; one in five is stopped in order.
    Kills,
    /// The program's file is replaced by the next of these, which then restarts the daemon.
    Upgrades([PathBuf; 2]),
}

/// Kills and restarts of the daemon beside the demo agent.
pub async fn daemons(run: Run) -> Result<Tally> {
    let place = place()?;
    let told = async |place: &Place, prompts: &BTreeMap<&str, usize>| {
        let told = place.told()?;
        for (prompt, given) in prompts {
            let reached = told.lines.iter().filter(|line| line.contains(&format!("\"{prompt}\""))).count();
            ensure!(reached == *given, "{prompt}: {given} prompts, the agent got {reached}");
        }
        Ok(())
    };
    let times = run.extent.of(1000, 25);
    let (tally, prompts) = beside(&place, DEMO, Change::Kills, times, Chance::new(run.seed)).await?;
    told(&place, &prompts).await?;
    Ok(tally)
}

/// Kills and restarts of the daemon beside Claude Code.
pub async fn claude(run: Run) -> Result<Tally> {
    beside_real(run, real("claude"), npm::claude("2.1.325")).await
}

/// Kills and restarts of the daemon beside Codex.
pub async fn codex(run: Run) -> Result<Tally> {
    beside_real(run, real("codex"), npm::codex("0.166.0")).await
}

async fn beside_real(run: Run, conversation: Conversation, pinned: Pinned) -> Result<Tally> {
    let profile = portolan_contract::Profile::of(conversation.agent).context("an agent without a profile")?;
    let program = tokio::task::spawn_blocking(move || pinned.program()).await?.map_err(anyhow::Error::msg)?;
    let story = "Once there was a harbour, and in the harbour there was a light. ".repeat(12);
    let script = Script::new()
        .on(contains(conversation.talk))
        .reply(text(story).chunks_of(9).each_after(Duration::from_millis(20)))
        .on(contains(conversation.ask))
        .reply(tools([(profile.shell)("echo done >> ran.txt")]))
        .then(text("It ran."))
        .asides(text("scripted"));
    let model = Server::start(script).await?;
    let place = Place::new("")?;
    let agent_home = tempfile::tempdir()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let environment = (profile.environment)(&agent_home.path().canonicalize()?, &model.base_url(), path);
    let mut settings = format!(
        "[agents]\noutlive = true\n[agents.{0}]\ncommand = {1}\n[agents.{0}.env]\n",
        conversation.agent,
        serde_json::json!([program])
    );
    // The daemon chooses the programs.
    for (name, value) in environment.into_iter().filter(|(name, _)| name != "PATH") {
        let value = serde_json::json!(value.to_string_lossy());
        // Writing into memory cannot fail.
        let _ = writeln!(settings, "{} = {value}", name.to_string_lossy());
    }
    place.configure(&settings);
    let times = run.extent.of(200, 4);
    let (tally, _) = beside(&place, conversation, Change::Kills, times, Chance::new(run.seed)).await?;
    model.shutdown().await;
    Ok(tally)
}

/// Upgrades: the next of two programs replaces the file of the other and restarts the daemon. `cargo xtask soak` builds
/// the second program with another version; the tests use two copies of one program.
pub async fn upgrades(run: Run) -> Result<Tally> {
    let place = place()?.installed()?;
    let first = crate::place::program()?;
    let next = std::env::var_os("PORTOLAN_SOAK_NEXT").map_or_else(|| first.clone(), PathBuf::from);
    let versions = [version(&first)?, version(&next)?];
    let change = Change::Upgrades([next, first]);
    let times = run.extent.of(50, 4);
    let (mut tally, _) = beside(&place, DEMO, change, times, Chance::new(run.seed)).await?;
    tally.found = format!("{}; versions {} and {}", tally.found, versions[0], versions[1]);
    Ok(tally)
}

fn version(program: &std::path::Path) -> Result<String> {
    let output = std::process::Command::new(program).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Daemons come and go while two sessions work. Everything is compared at the end.
async fn beside(
    place: &Place,
    conversation: Conversation,
    change: Change,
    times: usize,
    mut chance: Chance,
) -> Result<(Tally, BTreeMap<&'static str, usize>)> {
    let Conversation { agent, talk, ask, life_ms, words, runs_once } = conversation;
    let (_, door) = place.up()?;
    let mut link = Link::open(&door, "first").await?;
    let talks = link.create(agent, place.work.path()).await?;
    let asks = link.create(agent, place.work.path()).await?;
    let mut prompts = BTreeMap::from([(talk, 0), (ask, 0)]);
    let mut in_order = 0;
    for session in [&talks, &asks] {
        until(place, session, "the start of the agent", rests).await?;
    }
    for round in 0..times {
        if idle(place, &talks)? {
            link.prompt(&talks, talk).await?;
            *prompts.entry(talk).or_default() += 1;
        }
        answer_or_ask(place, &mut link, &asks, ask, &mut prompts).await?;
        tokio::time::sleep(Duration::from_millis(chance.between(life_ms.0, life_ms.1))).await;
        let door = match &change {
            Change::Kills => {
                if chance.percent(20) {
                    in_order += 1;
                    stop_and_keep(place)?;
                } else {
                    place.kill();
                    place.check_database()?;
                }
                place.up()?.1
            }
            Change::Upgrades(programs) => {
                in_order += 1;
                place.upgrade(&programs[round % programs.len()])?
            }
        };
        link = Link::open(&door, "next").await?;
    }
    finish(place, &mut link, [&talks, &asks], ask).await?;

    for (session, prompt) in [(&talks, talk), (&asks, ask)] {
        let log = log(place, session)?;
        let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
        let given = prompts[prompt];
        ensure!(
            count("prompt") == given,
            "{prompt}: {given} prompts were given, the log has {}",
            count("prompt")
        );
        ensure!(
            count("turn_ended") == given,
            "{prompt}: {given} prompts, {} ends of turns",
            count("turn_ended")
        );
        ensure!(count("agent_exited") == 0, "{prompt}: the agent ended");
        let completed = log.iter().filter(|event| event["result"]["outcome"] == "completed").count();
        ensure!(completed == given, "{prompt}: {given} prompts, {completed} completed turns");
    }
    let log = log(place, &talks)?;
    let texts: Vec<String> = log.iter().filter(|event| event["type"] == "message").map(said).collect();
    let first = texts.first().context("no text")?;
    ensure!(first.split_inclusive(' ').count() == words, "{words} words were expected: {first}");
    ensure!(texts.len() == prompts[talk], "{} texts for {} prompts", texts.len(), prompts[talk]);
    for (number, text) in texts.iter().enumerate() {
        ensure!(text == first, "the text of turn {number} differs:\n{text}\nis not\n{first}");
    }
    requests_closed_once(place, &asks)?;
    if runs_once {
        let ran = std::fs::read_to_string(place.work.path().join("ran.txt"))?.lines().count();
        ensure!(ran == prompts[ask], "{} commands were allowed, {ran} ran", prompts[ask]);
    }
    end_all(place, &[talks, asks])?;
    let tally = Tally {
        count: format!("{times} daemons ({in_order} in order)"),
        found: format!("{} turns of text and {} of requests, each whole", prompts[talk], prompts[ask]),
    };
    Ok((tally, prompts))
}

/// The daemon is away while its agent talks more than the holder may keep: nothing is lost, and the holder stays small.
pub async fn away(run: Run) -> Result<Tally> {
    // Pieces of 200 characters, a thousand a second: in the full count more than the spool takes.
    let (pieces, away) =
        run.extent.of((400_000_u64, Duration::from_mins(10)), (2_000, Duration::from_secs(3)));
    let place = place()?;
    let (_, door) = place.up()?;
    let mut link = Link::open(&door, "first").await?;
    let session = link.create("demo", place.work.path()).await?;
    link.prompt(&session, &format!("repeat {pieces} 200 1000")).await?;
    link.until_state(&session, "the first text", |state| state["items"][0]["text"].is_string()).await?;
    place.kill();
    let gone = tokio::time::Instant::now();
    let (mut spool, mut memory) = (0, 0);
    while gone.elapsed() < away {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let held = place.home.holders();
        ensure!(held.len() == 1, "the holder ended");
        memory = memory.max(resident(held[0] as u32)?);
        for file in std::fs::read_dir(place.home.path().join("run"))?.flatten() {
            if file.path().extension().is_some_and(|end| end == "spool") {
                spool = spool.max(file.metadata()?.len());
            }
        }
    }
    ensure!(spool <= SPOOL_BOUND, "the spool has {spool} bytes");
    ensure!(memory <= HOLDER_KIB, "the holder has {memory} KiB");
    place.up()?;
    let deadline = tokio::time::Instant::now() + away + PATIENCE;
    while !idle(&place, &session)? {
        ensure!(tokio::time::Instant::now() < deadline, "the turn does not end");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let log = log(&place, &session)?;
    let length: usize =
        log.iter().filter(|event| event["type"] == "message").map(|message| said(message).len()).sum();
    ensure!(length as u64 == pieces * 200, "{} characters were said, {length} are there", pieces * 200);
    end_all(&place, &[session])?;
    Ok(Tally {
        count: format!("{} s without a daemon", away.as_secs()),
        found: format!(
            "{length} characters, none lost; the spool had {} KiB, the holder {memory} KiB",
            spool / 1024
        ),
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
        answer_or_ask(&place, &mut link, &session, DEMO.ask, &mut prompts).await?;
        tokio::time::sleep(Duration::from_millis(chance.between(DEMO.life_ms.0, DEMO.life_ms.1))).await;
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
    ask: &'static str,
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
        link.prompt(session, ask).await?;
        *prompts.entry(ask).or_default() += 1;
    }
    Ok(())
}

fn state(place: &Place, session: &str) -> Result<Value> {
    let shown = tokio::task::block_in_place(|| place.home.json(["show", session]));
    shown.get("state").cloned().context("a session without a state")
}

/// Whether the session takes a prompt at once. An agent that runs and has had no turn yet is `connected`.
fn idle(place: &Place, session: &str) -> Result<bool> {
    Ok(rests(&state(place, session)?))
}

fn rests(state: &Value) -> bool {
    ["idle", "connected"].contains(&state["summary"]["status"].as_str().unwrap_or_default())
}

/// Lets both sessions come to rest.
async fn finish(place: &Place, link: &mut Link, sessions: [&str; 2], ask: &'static str) -> Result<()> {
    let mut answered = BTreeSet::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for session in sessions {
        while !idle(place, session)? {
            let open = state(place, session)?["requests"][0]["request"].as_u64();
            if let Some(request) = open.filter(|request| !answered.contains(request)) {
                answer_or_ask(place, link, session, ask, &mut BTreeMap::new()).await?;
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

/// The text of a message.
fn said(message: &Value) -> String {
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
