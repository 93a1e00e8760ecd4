//! Agents that die, hang, flood, talk garbage, cut characters in two, ignore SIGTERM and leave processes behind: the
//! session shows what happened, another session is not affected, and no process is left running.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use portolan_testkit::daemon::Home;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{Extent, Run, Tally};
use crate::{
    link::{Door, Frame, Link},
    place::{Place, resident},
    record::Entry,
};

/// The other session gets a piece this often, in milliseconds.
const BEAT: u64 = 20;

/// The longest time that the other session may wait for a piece. Generous: the machine may be busy with other tests.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long a flood may take: a million lines, in a build without optimisations, on a busy machine.
const FLOOD: Duration = Duration::from_mins(3);

/// How much memory a misbehaving agent may cost the daemon, in KiB.
const MEMORY: u64 = 64 * 1024;

/// How the agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The agent ends by itself, and Portolan starts it again if it can resume.
    Ends,
    /// The agent keeps running until `stop`.
    Stop,
}

/// One way to misbehave.
struct Scene {
    name: &'static str,
    prompt: String,
    then: Then,
    /// Is this the entry that the session must show?
    says: fn(&Entry) -> bool,
}

/// Runs the fault.
pub async fn run(run: Run) -> Result<Tally> {
    let place = Place::new("[agents.demo.env]\nDEMO_PACE_MS = \"1\"\n")?;
    let (pid, door) = place.up()?;
    let (stop, stopped) = watch::channel(false);
    let beside = tokio::spawn(neighbour(door.clone(), place.work.path().to_owned(), stopped));
    let scenes = scenes(run.extent);
    let mut most = 0;
    for scene in &scenes {
        let before = resident(pid)?;
        let grown = play(&place, pid, &door, scene).await.with_context(|| scene.name.to_owned())?;
        most = most.max(grown.saturating_sub(before));
    }
    killed_from_outside(&place, &door).await.context("killed from outside")?;
    stop.send_replace(true);
    let (pieces, longest) = beside.await??;
    ensure!(longest < LONGEST_WAIT, "the other session had to wait for {longest:?}");
    ensure!(most < MEMORY, "the daemon took {most} KiB more");
    place.down()?;
    Ok(Tally {
        count: format!("{} misbehaviours", scenes.len() + 1),
        found: format!(
            "the other session got {pieces} pieces and never waited more than {} ms; at most {most} KiB more memory",
            longest.as_millis()
        ),
    })
}

fn scenes(extent: Extent) -> Vec<Scene> {
    fn exit(entry: &Entry) -> Option<&Value> {
        (entry.kind() == "agent_exited").then(|| &entry.event["exit"])
    }
    let scene = |name, prompt: &str, then, says| Scene { name, prompt: prompt.to_owned(), then, says };
    vec![
        scene("crash", "crash", Then::Ends, |entry| {
            exit(entry).is_some_and(|exit| {
                let words = exit["stderr"].as_str().unwrap_or_default();
                exit["reason"] == "failed"
                    && exit["code"] == 3
                    && words.contains("the ship hit a rock")
                    && !words.contains("sk-demo")
            })
        }),
        scene("exit in the middle of a turn", "exit 0", Then::Ends, |entry| {
            exit(entry).is_some_and(|exit| exit["code"] == 0)
        }),
        scene("hang", "hang", Then::Stop, |entry| said(entry, "I will now hang")),
        scene("a line without an end", &format!("flood {}", extent.of(1024, 300)), Then::Ends, |entry| {
            exit(entry).is_some_and(|exit| {
                let message = exit["message"].as_str().unwrap_or_default();
                exit["reason"] == "misbehaved" && message.contains("a line of more than 256 MiB")
            })
        }),
        scene("a line that is too long", "flood 40", Then::Stop, |entry| {
            said(entry, "It is gone, and I am still here")
        }),
        scene("tiny lines", &format!("flood-lines {}", extent.of(1_000_000, 60_000)), Then::Stop, |entry| {
            entry.kind() == "turn_ended" && entry.event["result"]["outcome"] == "completed"
        }),
        scene("garbage", "garbage", Then::Stop, |entry| said(entry, "Still here.")),
        scene("a character cut in two", "garbage", Then::Stop, |entry| said(entry, "one \u{20ac}")),
        scene("SIGTERM ignored", "ignore-term", Then::Stop, |entry| said(entry, "I ignore SIGTERM")),
        scene("processes left behind", "orphans", Then::Stop, |entry| said(entry, "I left a process behind")),
    ]
}

fn said(entry: &Entry, words: &str) -> bool {
    let pieces = entry.event["content"].as_array().into_iter().flatten();
    entry.kind() == "message"
        && pieces.filter_map(|piece| piece["text"].as_str()).any(|text| text.contains(words))
}

/// Lets one agent misbehave in its own session. Returns the most memory that the daemon used meanwhile.
async fn play(place: &Place, pid: u32, door: &Door, scene: &Scene) -> Result<u64> {
    let mut link = Link::open(door, "victim").await?;
    let session = link.create("demo", place.work.path()).await?;
    let start = json!({ "after": 0 });
    // Only finished items: this test does not read a million tiny lines.
    link.call(json!({ "type": "attach", "session": session, "start": start, "items_only": true })).await?;
    link.prompt(&session, &scene.prompt).await?;
    let watching = tokio::spawn(watch_memory(pid));
    let told = link
        .until_within(FLOOD, "the entry that the session must show", |frame| match frame {
            Frame::Entry { entry, .. } => (scene.says)(entry).then_some(()),
            _ => None,
        })
        .await;
    watching.abort();
    let memory = resident(pid)?.max(MOST.swap(0, std::sync::atomic::Ordering::Relaxed));
    if let Err(error) = told {
        bail!("{error:#}; the session is {}", link.state(&session).await?["summary"]);
    }
    if scene.then == Then::Ends {
        // A turn that was running must end too.
        link.until_state(&session, "the end of the turn", |state| state["turn"].is_null()).await?;
    }
    if scene.prompt == "orphans" {
        ensure!(place.home.agents(&session).len() > 1, "no process was left behind");
    }
    link.command(&session, json!({ "name": "stop" })).await?;
    let state = link
        .until_state(&session, "the stop", |state| {
            matches!(state["summary"]["status"].as_str(), Some("terminated" | "error"))
                && state["commands"].as_array().is_some_and(Vec::is_empty)
        })
        .await?;
    ensure!(state["turn"].is_null() && state["items"] == json!([]), "something is left open: {state}");
    gone(&place.home, &session).await?;
    Ok(memory)
}

static MOST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

async fn watch_memory(pid: u32) {
    while let Ok(memory) = resident(pid) {
        MOST.fetch_max(memory, std::sync::atomic::Ordering::Relaxed);
        sleep(Duration::from_millis(50)).await;
    }
}

/// No process of the session runs any more.
async fn gone(home: &Home, session: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = home.agents(session);
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "processes were left behind: {left:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Somebody kills the agent: the session shows it, and continues with a new start.
async fn killed_from_outside(place: &Place, door: &Door) -> Result<()> {
    let mut link = Link::open(door, "victim").await?;
    let session = link.create("demo", place.work.path()).await?;
    link.attach(&session, 0).await?;
    link.prompt(&session, "slow").await?;
    let state = link.until_state(&session, "the turn", |state| !state["turn"].is_null()).await?;
    let pid = state["pid"].as_u64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    kill_process(pid.context("an agent without a process")?, Signal::KILL)?;
    let exit = link
        .until("its end", |frame| match frame {
            Frame::Entry { entry, .. } if entry.kind() == "agent_exited" => Some(entry.event["exit"].clone()),
            _ => None,
        })
        .await?;
    ensure!(exit["signal"] == 9 && exit["reason"] == "failed", "the session shows {exit}");
    link.until("the next start", |frame| match frame {
        Frame::Entry { entry, .. } if entry.kind() == "agent_ready" => Some(()),
        _ => None,
    })
    .await?;
    link.command(&session, json!({ "name": "stop" })).await?;
    link.until_state(&session, "the stop", |state| state["summary"]["status"] == "terminated").await?;
    gone(&place.home, &session).await
}

/// A session that only streams, and the longest time that its reader waited for the next piece.
async fn neighbour(
    door: Door,
    folder: std::path::PathBuf,
    mut stopped: watch::Receiver<bool>,
) -> Result<(usize, Duration)> {
    let mut link = Link::open(&door, "neighbour").await?;
    let session = link.create("demo", &folder).await?;
    link.attach(&session, 0).await?;
    link.prompt(&session, &format!("repeat 1000000 10 {}", 1000 / BEAT)).await?;
    let (mut pieces, mut longest, mut last) = (0, Duration::ZERO, None::<Instant>);
    loop {
        tokio::select! {
            frame = link.next() => if let Frame::Entry { entry, .. } = frame? {
                ensure!(entry.kind() != "agent_exited" && entry.kind() != "turn_ended", "the stream ended: {entry:?}");
                if entry.kind() == "delta" {
                    let now = Instant::now();
                    longest = longest.max(last.map_or(Duration::ZERO, |last| now - last));
                    last = Some(now);
                    pieces += 1;
                }
            },
            () = sleep(LONGEST_WAIT) => bail!("nothing came for {LONGEST_WAIT:?}"),
            _ = stopped.changed() => {
                ensure!(pieces > 10, "the reader got only {pieces} pieces");
                return Ok((pieces, longest));
            }
        }
    }
}
