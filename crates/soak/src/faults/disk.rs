//! The disk is full, the database is locked, the home is read-only: a clear error, no loss, no half state, and
//! everything works again when the cause is gone.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Run, Tally, none};
use crate::{
    cell::Cell,
    chance::Chance,
    check::{self, Reply, Sent, Told},
    link::{Door, Frame, Link, PATIENCE, history, prompt},
    place::{Kill, Place, check_database, now},
    record::{Recording, Seen},
};

/// How much text a kill may lose, on a busy machine.
const MAY_BE_LOST: i64 = 250 + 1500;

/// The size of the disk in MiB: enough for the run, and soon full.
const DISK: u32 = 24;

/// The disk gets full again and again; every second time the daemon is killed on the full disk, and a start is tried.
pub async fn full(run: Run) -> Result<Tally> {
    let rounds = run.extent.of(20, 2);
    let mut chance = Chance::new(run.seed);
    let mut cell = Cell::new(DISK)?;
    let mut door = cell.up()?;
    let mut ledger = Ledger::begin(&door, cell.work.path()).await?;
    let mut refused_starts = 0;
    for round in 0..rounds {
        let reading = ledger.read(&door);
        ledger.say(&door, "repeat 8000 20 400").await?;
        sleep(Duration::from_millis(chance.between(0, 150))).await;
        cell.fill()?;
        let failing_since = now();
        let words = ledger.say_until_refused(&door).await.with_context(|| format!("round {round}"))?;
        ensure!(words.contains("space"), "the refusal does not say what is wrong: {words}");
        ensure!(Link::open(&door, "asking").await?.call(json!({ "type": "ping" })).await.is_ok(), "no pong");
        let reading = quiet(reading).await?;
        if round % 2 == 1 {
            let Kill { at, dead } = cell.kill();
            ledger.end_reading(reading).await?;
            ledger.recording.seen.push(Seen::Killed { at, dead, unwritable: at - failing_since });
            check_database(&cell.path("portolan.db"))?;
            match cell.try_up()? {
                // The daemon may start and wait for space.
                Ok(_) => _ = cell.kill(),
                Err(ran) => {
                    refused_starts += 1;
                    ensure!(ran.code != Some(0), "a failed start has exit code 0: {ran:?}");
                    let said = ran.said.to_lowercase();
                    ensure!(
                        said.contains("space") || said.contains("full"),
                        "a start on a full disk gave {ran:?}"
                    );
                    ensure!(!cell.path("daemon.json").exists(), "daemon.json was left behind");
                }
            }
            let dead = now();
            ledger.recording.seen.push(Seen::Killed { at: dead, dead, unwritable: 0 });
            cell.free()?;
            door = cell.up()?;
        } else {
            cell.free()?;
            ledger.say_until_taken(&door).await.with_context(|| format!("round {round}"))?;
            ledger.end_reading(reading).await?;
        }
        ledger.say_until_taken(&door).await.with_context(|| format!("round {round}, after it"))?;
        ledger.settled(&door).await.with_context(|| format!("round {round}, its end"))?;
    }
    ledger.judge(&door).await?;
    cell.down()?;
    check_database(&cell.path("portolan.db"))?;
    let found = format!(
        "{} commands, {refused_starts} starts refused with the reason, all came back",
        ledger.sent.len()
    );
    Ok(Tally { count: format!("{rounds} times full"), found })
}

/// Another program holds the lock of the database for a while.
pub async fn locked(run: Run) -> Result<Tally> {
    let rounds = run.extent.of(20, 2);
    let mut chance = Chance::new(run.seed);
    let place = Place::new("[agents.demo.env]\nDEMO_PACE_MS = \"2\"\n")?;
    let (_, mut door) = place.up()?;
    let mut ledger = Ledger::begin(&door, place.work.path()).await?;
    for round in 0..rounds {
        let reading = ledger.read(&door);
        ledger.say(&door, "repeat 8000 20 400").await?;
        sleep(Duration::from_millis(chance.between(0, 150))).await;
        let other = rusqlite::Connection::open(place.home.path().join("portolan.db"))?;
        other.busy_timeout(PATIENCE)?;
        other.execute_batch("BEGIN IMMEDIATE")?;
        let failing_since = now();
        let words = ledger.say_until_refused(&door).await.with_context(|| format!("round {round}"))?;
        ensure!(
            words.contains("locked by another program"),
            "the refusal does not say what is wrong: {words}"
        );
        let reading = quiet(reading).await?;
        if round % 2 == 1 {
            let Kill { at, dead } = place.kill();
            ledger.end_reading(reading).await?;
            ledger.recording.seen.push(Seen::Killed { at, dead, unwritable: at - failing_since });
            other.execute_batch("ROLLBACK")?;
            (_, door) = place.up()?;
        } else {
            other.execute_batch("ROLLBACK")?;
            ledger.say_until_taken(&door).await.with_context(|| format!("round {round}"))?;
            ledger.end_reading(reading).await?;
        }
        ledger.say_until_taken(&door).await.with_context(|| format!("round {round}, after it"))?;
        ledger.settled(&door).await.with_context(|| format!("round {round}, its end"))?;
    }
    ledger.judge(&door).await?;
    place.down()?;
    place.check_database()?;
    Ok(Tally { count: format!("{rounds} times locked"), found: format!("{} commands", ledger.sent.len()) })
}

/// The home is on a disk that became read-only between two starts.
pub async fn read_only(run: Run) -> Result<Tally> {
    let rounds = run.extent.of(20, 2);
    let mut cell = Cell::new(DISK)?;
    let door = cell.up()?;
    let mut ledger = Ledger::begin(&door, cell.work.path()).await?;
    ledger.say_until_taken(&door).await?;
    ledger.settled(&door).await?;
    let session = ledger.recording.log.clone();
    cell.down()?;
    let home = cell.run_other("sh", &["-c", "echo \"$PORTOLAN_HOME\""])?.said.trim().to_owned();
    for _ in 0..rounds {
        let door = cell.up()?;
        let before = history(&door, &session).await?;
        cell.down()?;
        let files = files(&cell)?;
        let made = cell.run_other("mount", &["-o", "remount,ro", &home])?;
        ensure!(made.code == Some(0), "the disk cannot be made read-only: {made:?}");
        for verb in [&["up", "--no-open"][..], &["ls"], &["new", "demo", "hello"]] {
            let ran = cell.run(verb)?;
            ensure!(
                ran.code.is_some_and(|code| code != 0),
                "`{verb:?}` succeeded in a read-only home: {ran:?}"
            );
            let why =
                ["cannot be written", "read-only", "Read-only"].iter().any(|words| ran.said.contains(words));
            ensure!(why && ran.said.contains(&home), "{verb:?}: {ran:?}");
        }
        let made = cell.run_other("mount", &["-o", "remount,rw", &home])?;
        ensure!(made.code == Some(0), "the disk cannot be made writable: {made:?}");
        ensure!(self::files(&cell)? == files, "something was left behind");
        let door = cell.up()?;
        ensure!(history(&door, &session).await? == before, "the history has changed");
        ledger.say_until_taken(&door).await?;
        ledger.settled(&door).await?;
        cell.down()?;
    }
    check_database(&cell.path("portolan.db"))?;
    Ok(Tally {
        count: format!("{rounds} times read-only"),
        found: "refused with the reason; nothing was lost".into(),
    })
}

/// The home's files and their sizes.
fn files(cell: &Cell) -> Result<BTreeMap<String, u64>> {
    let mut files = BTreeMap::new();
    for file in fs::read_dir(cell.path(""))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        // The log of the refusals does not count.
        if !name.contains("log") {
            files.insert(name, file.metadata()?.len());
        }
    }
    Ok(files)
}

/// One session, everything that was sent to the session, and everything that one reader saw of it.
struct Ledger {
    recording: Recording,
    sent: Vec<Sent>,
}

/// A running reader.
struct Reading {
    stop: watch::Sender<bool>,
    /// How much the reader has seen.
    count: watch::Receiver<usize>,
    task: JoinHandle<Recording>,
}

/// Waits until the reader gets nothing more: entries that cannot be written must not be shown for ever.
async fn quiet(mut reading: Reading) -> Result<Reading> {
    let deadline = Instant::now() + PATIENCE;
    while timeout(Duration::from_secs(2), reading.count.changed()).await.is_ok_and(|changed| changed.is_ok())
    {
        ensure!(Instant::now() < deadline, "entries are shown although nothing can be written");
    }
    Ok(reading)
}

impl Ledger {
    async fn begin(door: &Door, folder: &std::path::Path) -> Result<Self> {
        let mut link = Link::open(door, "owner").await?;
        let session = link.create("demo", folder).await?;
        Ok(Self { recording: Recording::new("reader", session), sent: Vec::new() })
    }

    /// Continues to read where it left off, until it is stopped or the connection is gone.
    fn read(&mut self, door: &Door) -> Reading {
        let (stop, mut stopped) = watch::channel(false);
        let (seen, count) = watch::channel(0);
        let (door, mut recording) = (door.clone(), std::mem::take(&mut self.recording));
        self.recording.log.clone_from(&recording.log);
        let task = tokio::spawn(async move {
            let Ok(mut link) = Link::open(&door, "reader").await else { return recording };
            let after = recording.last();
            recording.seen.push(Seen::Attached { after });
            let (start, session) = (json!({ "after": after }), recording.log.clone());
            let attach = json!({ "type": "attach", "id": "a", "session": session, "start": start });
            let mut lost = link.send(&attach).await.is_err();
            while !lost {
                tokio::select! {
                    frame = link.next() => match frame {
                        Ok(Frame::Entry { entry, .. }) => recording.entry(&entry),
                        Ok(Frame::Snapshot { seq, state, .. }) => recording.snapshot(seq, now(), &state),
                        Ok(_) => {}
                        Err(_) => lost = true,
                    },
                    _ = stopped.changed() => lost = true,
                }
                seen.send_replace(recording.seen.len());
            }
            recording.seen.push(Seen::Lost);
            recording
        });
        Reading { stop, count, task }
    }

    async fn end_reading(&mut self, reading: Reading) -> Result<()> {
        reading.stop.send_replace(true);
        self.recording = timeout(PATIENCE, reading.task).await.context("the reader does not end")??;
        Ok(())
    }

    /// Sends a prompt. Returns the reply, or nothing if no reply came in time.
    async fn say(&mut self, door: &Door, text: &str) -> Result<Option<Reply>> {
        let marker = format!("mark{}x", self.sent.len());
        let id = format!("say-{}", self.sent.len());
        let session = self.recording.log.clone();
        let command = prompt(&format!("{text} {marker}"));
        let frame = json!({ "type": "command", "id": id, "session": session, "command": command });
        self.sent.push(Sent {
            id: id.clone(),
            session,
            action: "prompt".into(),
            marker: None,
            replies: vec![],
        });
        let mut link = Link::open(door, "sender").await?;
        link.send(&frame).await?;
        let answered = link.until("a reply", |frame| match frame {
            Frame::Reply { id: of, body } if *of == id => {
                Some(Reply::Taken(body["receipt"]["seq"].as_u64()?))
            }
            Frame::Error { id: of, body } if *of == id => {
                Some(Reply::Refused(body["message"].as_str().unwrap_or_default().to_owned()))
            }
            _ => None,
        });
        // A command that cannot be committed is not acknowledged: the sender waits, and may never get a reply.
        let reply = match timeout(Duration::from_secs(3), answered).await {
            Ok(reply) => Some(reply?),
            Err(_) => None,
        };
        if let (Some(reply), Some(sent)) = (&reply, self.sent.last_mut()) {
            sent.replies.push(reply.clone());
        }
        Ok(reply)
    }

    async fn say_until_refused(&mut self, door: &Door) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(Reply::Refused(words)) = self.say(door, "long 40").await? {
                return Ok(words);
            }
            ensure!(Instant::now() < deadline, "commands are accepted although nothing can be written");
        }
    }

    async fn say_until_taken(&mut self, door: &Door) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.say(door, "say it works again").await? {
                Some(Reply::Taken(_)) => return Ok(()),
                _ if Instant::now() > deadline => {
                    bail!("the daemon does not recover: {:?}", self.sent.last())
                }
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Waits until everything has ended; a long turn is interrupted.
    async fn settled(&self, door: &Door) -> Result<()> {
        let mut link = Link::open(door, "owner").await?;
        let deadline = Instant::now() + PATIENCE * 2;
        let open = |command: &Value| command["stage"]["stage"] != "uncertain";
        loop {
            let state = link.state(&self.recording.log).await?;
            if state["turn"].is_null() && !state["commands"].as_array().into_iter().flatten().any(open) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the session does not settle: {state}");
            if !state["turn"].is_null() {
                link.command(&self.recording.log, json!({ "name": "interrupt" })).await?;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn judge(&mut self, door: &Door) -> Result<()> {
        self.settled(door).await?;
        let reading = self.read(door);
        let told = history(door, &self.recording.log.clone()).await?;
        let last = told.last().map_or(0, |entry| entry.seq);
        sleep(Duration::from_millis(300)).await;
        self.end_reading(reading).await?;
        ensure!(
            self.recording.last() >= last,
            "the reader is at {}, the history at {last}",
            self.recording.last()
        );
        none("order", &check::order(&told, &self.recording))?;
        none("numbers", &check::numbers(&told, &[&self.recording]))?;
        none("text", &check::text(&told, &self.recording, MAY_BE_LOST).0)?;
        let histories = BTreeMap::from([(self.recording.log.clone(), told)]);
        none("commands", &check::commands(&self.sent, &histories, &Told::default()))
    }
}
