//! `cargo xtask soak`: every fault in its full count against the release binary, then a long run of every fuzz target.
//!
//! Prints a line for each: how often, with what result, how long it took. docs/reliability.md explains the faults.

use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::{
    fuzz,
    project::{cargo, run, target},
};

/// The name of the fuzz targets for `--only`.
const FUZZ: &str = "fuzz";

/// Arguments of `soak`; the faults and the seed are passed to the soak program.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only this fault, or `fuzz`; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Repeat the run with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long each fuzz target runs
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    fuzz_seconds: u64,
    /// Run only the share that the tests run
    #[arg(long)]
    share: bool,
}

/// Builds, breaks, prints.
pub(crate) fn soak(options: &Options) -> Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut failed = Vec::new();
    if options.only.is_empty() || options.only.iter().any(|name| name != FUZZ) {
        let build = ["build", "--release", "--locked", "-p", "portolan", "-p", "portolan-soak"];
        run(&mut cargo(build))?;
        let mut soak = Command::new(target().join("release/portolan-soak"));
        for name in options.only.iter().filter(|name| *name != FUZZ) {
            soak.args(["--only", name]);
        }
        if let Some(seed) = options.seed {
            soak.args(["--seed", &seed.to_string()]);
        }
        failed.extend(run(soak.args(options.share.then_some("--share"))).err());
    }
    if wanted(FUZZ) {
        failed.extend(fuzz::run(options.fuzz_seconds).err());
    }
    match failed.as_slice() {
        [] => Ok(()),
        all => bail!("{}", all.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>().join("; ")),
    }
}
