//! The measures. Each measure starts new servers, so that no measure affects another; the floor and Portolan take turns
//! within a round, so that the load of the machine affects both.

mod approval;
mod delivery;
mod idle;
mod joiner;
mod latency;
mod outliving;
mod stalled;

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    agent::{Play, What},
    reader::{Entrance, Reader, session},
    server::{Kind, Server},
    table::{Report, Row, Target},
};

/// How long a run may take beyond its nominal time. Far longer than it should.
const PATIENCE: Duration = Duration::from_mins(3);

/// The measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// From the agent's write to each reader's read, at 1,000 deltas a second
    Latency,
    /// As fast as possible: texts per second, and processor time for each
    Delivery,
    /// From an agent's question to the answer of a reader
    Approval,
    /// A new reader of 100,000 finished messages, and what they cost in memory
    LateJoiner,
    /// What a reader that stopped reading costs the others, and the memory
    StalledReader,
    /// Memory without sessions
    Idle,
    /// Memory for each of 1,000 sessions with its agent and its reader
    Sessions,
    /// What it costs that agents outlive the daemon: latency, approvals and memory
    Outliving,
    /// From the start of the process to its first answer
    Ready,
    /// The size of the binary
    Size,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As documented.
    Full,
    /// Just enough to see that nothing is lost: takes seconds, and its figures mean nothing.
    Smoke,
}

/// Where and how measures run.
#[derive(Debug)]
pub(crate) struct Lab {
    /// Portolan's binary.
    pub(crate) program: PathBuf,
    /// How often each measure runs.
    pub(crate) rounds: usize,
    /// How much is measured.
    pub(crate) extent: Extent,
    /// The results.
    pub(crate) report: Report,
    runs: u32,
}

impl Lab {
    /// A lab for this binary.
    pub(crate) fn new(program: PathBuf, rounds: usize, extent: Extent) -> Self {
        Self { program, rounds, extent, report: Report::default(), runs: 0 }
    }

    /// Runs one measure.
    pub(crate) async fn take(&mut self, measure: Measure) -> Result<()> {
        match measure {
            Measure::Latency => latency::take(self).await,
            Measure::Delivery => delivery::take(self).await,
            Measure::Approval => approval::take(self).await,
            Measure::LateJoiner => joiner::take(self).await,
            Measure::StalledReader => stalled::take(self).await,
            Measure::Idle => idle::take(self).await,
            Measure::Sessions => idle::sessions(self).await,
            Measure::Outliving => outliving::take(self).await,
            Measure::Ready => self.ready(),
            Measure::Size => self.size(),
        }
    }

    /// The count in a full run, and in a smoke run.
    fn count(&self, full: u32, smoke: u32) -> u32 {
        match self.extent {
            Extent::Full => full,
            Extent::Smoke => smoke,
        }
    }

    /// How long to wait before memory is read.
    fn settled(&self) -> Duration {
        match self.extent {
            Extent::Full => Duration::from_secs(10),
            Extent::Smoke => Duration::from_millis(100),
        }
    }

    /// The numbers of readers, in turn.
    fn crowds(&self) -> &'static [usize] {
        match self.extent {
            Extent::Full => &[1, 10, 100],
            Extent::Smoke => &[1, 3],
        }
    }

    fn play(&mut self, what: What, count: u32, rate: u32, size: usize) -> Play {
        self.runs += 1;
        Play { run: self.runs, what, count, rate, size }
    }

    fn add(&mut self, row: Row) {
        self.report.rows.push(row);
    }

    fn ready(&mut self) -> Result<()> {
        let starts = self.count(10, 1);
        let (mut fresh, mut again, mut floor) = (vec![], vec![], vec![]);
        let milliseconds = |server: &Server| server.ready_after.as_secs_f64() * 1e3;
        for _ in 0..starts {
            floor.push(milliseconds(&Server::start(Kind::Floor, &self.program)?));
            let server = Server::start(Kind::Portolan, &self.program)?;
            fresh.push(milliseconds(&server));
            again.push(milliseconds(&server.restart(&self.program)?));
        }
        let target = Some(Target::AtMost(30.0));
        let row =
            |name: &str, ours| Row { name: name.into(), unit: "ms", beside: floor.clone(), ours, target };
        self.add(row("ready, new home", fresh));
        self.add(row("ready, existing home", again));
        Ok(())
    }

    fn size(&mut self) -> Result<()> {
        let bytes = std::fs::metadata(&self.program)?.len();
        self.add(Row {
            name: "binary".into(),
            unit: "MB",
            beside: vec![],
            ours: vec![bytes as f64 / 1e6],
            target: (self.extent == Extent::Full).then_some(Target::AtMost(20.0)),
        });
        Ok(())
    }

    /// Makes the agent play, and waits until every reader has everything.
    async fn perform(&mut self, readers: &[Reader], play: Play, what: &str) -> Result<()> {
        for reader in readers {
            reader.expect(play, texts(play));
        }
        readers[0].prompt(play).await?;
        self.check(readers, play, what).await
    }

    /// Waits until every reader has the whole run, and notes every fault.
    async fn check(&mut self, readers: &[Reader], play: Play, what: &str) -> Result<()> {
        let paced = Duration::from_secs(u64::from(play.count / play.rate.max(1)));
        let patience = PATIENCE + if play.rate > 0 { paced } else { Duration::ZERO };
        for reader in readers {
            let ended = reader.until(what, patience, |seen| {
                seen.ledger.is_whole() && (texts(play) > 0 || seen.ledger.ended.is_some())
            });
            if let Err(error) = ended.await {
                self.report.fault(format!("{what}: {error:#}"));
            }
            let seen = reader.seen();
            let (lost, doubled) = (seen.ledger.lost(), seen.ledger.doubled);
            let (reordered, backwards) = (seen.ledger.reordered, seen.backwards);
            if lost > 0 || doubled > 0 || reordered > 0 || backwards > 0 {
                self.report.fault(format!(
                    "{what}: {lost} lost, {doubled} doubled, {reordered} out of order, {backwards} numbers went back"
                ));
            }
        }
        Ok(())
    }
}

/// How many markers a play has.
fn texts(play: Play) -> u32 {
    match play.what {
        What::Deltas | What::Messages => play.count,
        What::Permissions => 0,
    }
}

/// A server with one session and this many readers.
async fn crowd(lab: &Lab, kind: Kind, readers: usize) -> Result<(Server, String, Vec<Reader>)> {
    let server = Server::start(kind, &lab.program)?;
    let session = session(&server).await?;
    let mut all = Vec::new();
    for _ in 0..readers {
        all.push(Reader::attach(Entrance::new(&server, &session)).await?);
    }
    Ok((server, session, all))
}

/// The name of a server in messages.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Floor => "floor",
        Kind::Portolan => "Portolan",
        Kind::Held => "Portolan with a holder",
    }
}
