//! Upgrades: the next of two programs replaces the file of the other, and restarts the daemon.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{
    daemons::{Beside, DEMO},
    place,
};
use crate::{
    chance::Chance,
    faults::{Extent, Run, Tally},
};

/// The variable that names the second program.
const NEXT: &str = "PORTOLAN_SOAK_NEXT";

/// Upgrades beside the demo agent. `cargo xtask soak` builds the second program with another version; the tests use two
/// copies of one program.
pub async fn upgrades(run: Run) -> Result<Tally> {
    let first = crate::place::program()?;
    let next = std::env::var_os(NEXT).map_or_else(|| first.clone(), PathBuf::from);
    let versions = [version(&first)?, version(&next)?];
    ensure!(
        run.extent == Extent::Share || versions[0] != versions[1],
        "both programs have the version `{}`; `cargo xtask soak --only upgrades` builds the second program and names \
         it in {NEXT}",
        versions[0]
    );
    let programs = [next, first];
    let place = place()?.installed()?;
    let mut beside = Beside::begin(&place, DEMO).await?;
    let mut chance = Chance::new(run.seed);
    let times = run.extent.of(50, 4);
    for round in 1..=times {
        beside.work(&mut chance).await?;
        let program = &programs[(round - 1) % programs.len()];
        let door = place.upgrade(program)?;
        let (runs, wanted) = (place.version()?, version(program)?);
        ensure!(runs == wanted, "upgrade {round}: the daemon has version `{runs}` instead of `{wanted}`");
        beside.go_on(None, door).await.with_context(|| format!("after upgrade {round}"))?;
    }
    let worked = beside.end().await?;
    worked.reached_the_demo(&place)?;
    let found = format!("{worked}; versions {} and {}", versions[0], versions[1]);
    Ok(Tally { count: format!("{times} upgrades"), found })
}

fn version(program: &Path) -> Result<String> {
    let output = std::process::Command::new(program).arg("--version").output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.trim().strip_prefix("portolan ");
    version.map(str::to_owned).with_context(|| format!("`{}` has no version: {said}", program.display()))
}
