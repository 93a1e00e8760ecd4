//! `bench`: builds the release binary and the bench, and takes the measures. What they mean: docs/performance.md.

use std::{env, path::PathBuf, process::Command};

use anyhow::Result;
use clap::Args;

use crate::project::{cargo, root, run};

/// What `bench` takes; all but `--smoke` goes to the bench as it is.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only this measure; may be given more than once (see `--list`)
    #[arg(long, value_name = "MEASURE")]
    only: Vec<String>,
    /// How often each measure is taken; the medians are shown
    #[arg(long, value_name = "N")]
    rounds: Option<u8>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Seconds instead of minutes: only checks that nothing is lost
    #[arg(long)]
    smoke: bool,
    /// Tell what can be measured
    #[arg(long)]
    list: bool,
}

/// Builds, measures, prints.
pub(crate) fn bench(options: &Options) -> Result<()> {
    run(&mut cargo(["build", "--release", "--locked", "-p", "portolan", "-p", "portolan-bench"]))?;
    let folder = built();
    let mut bench = Command::new(folder.join("portolan-bench"));
    if options.list {
        return run(bench.args(["run", "--help"]));
    }
    bench.arg("run").arg("--program").arg(folder.join("portolan"));
    for measure in &options.only {
        bench.args(["--only", measure]);
    }
    if let Some(rounds) = options.rounds {
        bench.args(["--rounds", &rounds.to_string()]);
    }
    bench.args(options.json.then_some("--json")).args(options.smoke.then_some("--smoke"));
    run(&mut bench)
}

/// Where cargo puts what it builds for release.
fn built() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("release")
}
