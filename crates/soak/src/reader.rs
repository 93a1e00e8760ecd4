//! A reader: a client that only reads some sessions, and keeps its place in them from one daemon to the next.

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use crate::{
    link::{Door, Frame, Link, PATIENCE},
    place::{Kill, now},
    record::{Recording, Seen},
};

/// A client that only reads.
#[derive(Debug)]
pub struct Reader {
    name: &'static str,
    recordings: Vec<Recording>,
    reading: Option<Reading>,
}

#[derive(Debug)]
struct Reading {
    task: JoinHandle<(Vec<Recording>, Result<()>)>,
    /// The end of this ends the task.
    stop: oneshot::Sender<()>,
}

/// When a reader stops, unless its connection is lost before.
#[derive(Debug)]
enum Until {
    /// When the other end of this is dropped.
    Told(oneshot::Receiver<()>),
    /// When it has everything that is there now.
    HasEverything,
}

impl Reader {
    /// A reader of these sessions.
    pub fn new(name: &'static str, sessions: &[&str]) -> Self {
        let recordings = sessions.iter().map(|session| Recording::new(name, *session)).collect();
        Self { name, recordings, reading: None }
    }

    /// Connects, and reads until the connection is lost.
    pub fn start(&mut self, door: &Door) {
        let (name, door) = (self.name, door.clone());
        let mut recordings = std::mem::take(&mut self.recordings);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let ended = read(name, &door, &mut recordings, Until::Told(stopped)).await;
            (recordings, ended)
        });
        self.reading = Some(Reading { task, stop });
    }

    /// The daemon was killed, or (`None`) has stopped in order. Reads the rest of the connection.
    pub async fn lose(&mut self, kill: Option<Kill>) -> Result<()> {
        let Reading { task, stop } = self.reading.take().context("the reader does not read")?;
        let ended = timeout(PATIENCE, task).await.context("the reader does not notice the end")?;
        drop(stop);
        self.stopped(ended?)?;
        if let Some(Kill { at, dead }) = kill {
            let killed = Seen::Killed { at, dead, unwritable: 0 };
            for recording in &mut self.recordings {
                recording.seen.push(killed.clone());
            }
        }
        Ok(())
    }

    /// Stops reading, reads everything that is there now, and returns the recordings.
    pub async fn finish(mut self, door: &Door) -> Result<Vec<Recording>> {
        if let Some(Reading { task, stop }) = self.reading.take() {
            drop(stop);
            let ended = timeout(PATIENCE, task).await.context("the reader does not stop")??;
            self.stopped(ended)?;
        }
        let reads = read(self.name, door, &mut self.recordings, Until::HasEverything);
        timeout(PATIENCE, reads).await.context("the reader does not come to the end")??;
        Ok(self.recordings)
    }

    fn stopped(&mut self, (recordings, ended): (Vec<Recording>, Result<()>)) -> Result<()> {
        self.recordings = recordings;
        ended
    }
}

/// Reads after the last numbers that were seen. A lost connection is no error, because daemons are killed.
async fn read(name: &str, door: &Door, recordings: &mut [Recording], mut until: Until) -> Result<()> {
    let Ok(mut link) = Link::open(door, name).await else { return Ok(()) };
    for recording in recordings.iter_mut() {
        let (session, after) = (&recording.log, recording.last());
        let start = json!({ "after": after });
        let attach = json!({ "type": "attach", "id": session, "session": session, "start": start });
        if link.send(&attach).await.is_err() {
            return Ok(());
        }
        recording.seen.push(Seen::Attached { after });
    }
    let ended = follow(&mut link, recordings, &mut until).await;
    for recording in recordings {
        recording.seen.push(Seen::Lost);
    }
    ended
}

async fn follow(link: &mut Link, recordings: &mut [Recording], until: &mut Until) -> Result<()> {
    // A snapshot follows everything that was there when the reader attached.
    let mut snapshots = 0;
    loop {
        let frame = match until {
            Until::HasEverything if snapshots == recordings.len() => return Ok(()),
            Until::HasEverything => link.next().await?,
            // Both arms are cancel-safe.
            Until::Told(stopped) => tokio::select! {
                frame = link.next() => match frame {
                    Ok(frame) => frame,
                    Err(_) => return Ok(()),
                },
                _ = stopped => return Ok(()),
            },
        };
        match frame {
            Frame::Entry { log, entry } => {
                if let Some(recording) = of(recordings, &log) {
                    recording.entry(&entry);
                }
            }
            Frame::Snapshot { log, seq, state } => {
                snapshots += 1;
                if let Some(recording) = of(recordings, &log) {
                    recording.snapshot(seq, now(), &state);
                }
            }
            Frame::Error { body, .. } => bail!("the reader was refused: {body}"),
            Frame::Reply { .. } | Frame::Other(_) => {}
        }
    }
}

fn of<'a>(recordings: &'a mut [Recording], log: &str) -> Option<&'a mut Recording> {
    recordings.iter_mut().find(|recording| recording.log == log)
}
