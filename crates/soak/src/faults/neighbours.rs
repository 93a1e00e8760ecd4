//! A taken port, and a second daemon for the same home: each gets a clear error, nothing is left behind, and a running
//! daemon is not disturbed.

use anyhow::{Context as _, Result, ensure};
use portolan_testkit::daemon::CommandResult;

use super::{Run, Tally};
use crate::{
    link::{Frame, Link},
    place::Place,
};

/// Runs the fault.
pub async fn run(run: Run) -> Result<Tally> {
    let times = run.extent.of(50, 3);
    let place = Place::new("[agents.demo.env]\nDEMO_PACE_MS = \"2\"\n")?;
    let other = std::net::TcpListener::bind("127.0.0.1:0")?;
    let taken = other.local_addr()?.to_string();
    let (pid, door) = place.up()?;
    let mut link = Link::open(&door, "first").await?;
    let session = link.create("demo", place.work.path()).await?;
    place.down()?;

    for _ in 0..times {
        let ran = up(&place, &["--listen", &taken]);
        ensure!(ran.code != 0 && ran.stderr.contains(&taken), "a port that is taken: {ran:?}");
        ensure!(
            ran.stderr.contains("--listen") || ran.stderr.contains("listen"),
            "the error has no way out: {ran:?}"
        );
        ensure!(place.home.record().is_none(), "a daemon that did not start left daemon.json behind");
        ensure!(
            !place.home.path().join("daemon.sock").exists(),
            "a daemon that did not start left its socket behind"
        );
    }

    let (first, door) = place.up()?;
    ensure!(first != pid, "a new daemon has a new process");
    let mut link = Link::open(&door, "first").await?;
    link.attach(&session, 0).await?;
    link.prompt(&session, "repeat 1000000 10 100").await?;
    let delta = |frame: &Frame| match frame {
        Frame::Entry { entry, .. } if entry.kind() == "delta" => Some(()),
        _ => None,
    };
    for _ in 0..times {
        link.until("the stream", delta).await?;
        let second = up(&place, &[]);
        ensure!(second.code != 0, "a second daemon started: {second:?}");
        ensure!(
            second.stderr.contains(&format!("pid {first}")),
            "the error does not name the first daemon: {second:?}"
        );
        let record = place.home.record().context("the first lost its file")?;
        ensure!(record["pid"] == first, "the second overwrote the file of the first: {record}");
        link.until("the stream, undisturbed", delta).await?;
    }
    place.down()?;
    Ok(Tally {
        count: format!("{times} of each"),
        found: "refused with the reason; the first keeps running".into(),
    })
}

fn up(place: &Place, more: &[&str]) -> CommandResult {
    tokio::task::block_in_place(|| place.home.run(["up", "--no-open"].iter().chain(more)))
}
