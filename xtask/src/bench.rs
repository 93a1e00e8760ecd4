//! `bench`: builds the release binary and the bench, and takes the measures. What they mean: docs/performance.md.
//!
//! What the page costs in a browser is measured by tests/browser/measure.mjs, on demand: `--only page`.

use std::{path::PathBuf, process::Command};

use anyhow::Result;
use clap::Args;

use crate::{
    page,
    project::{cargo, root, run, target},
};

/// What `bench` takes; all but `--smoke` goes to the bench as it is.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only this measure; may be given more than once (see `--list`); `page` is taken in a browser, and only when named
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

/// The measure that a browser takes, by `--only page`; all others are the bench's own.
const PAGE: &str = "page";

/// Builds, measures, prints.
pub(crate) fn bench(options: &Options) -> Result<()> {
    if options.only.iter().any(|measure| measure == PAGE) {
        page::build()?;
    }
    run(&mut cargo(["build", "--release", "--locked", "-p", "portolan", "-p", "portolan-bench"]))?;
    let folder = built();
    let (in_browser, others): (Vec<_>, Vec<_>) = options.only.iter().partition(|measure| *measure == PAGE);
    if !in_browser.is_empty() {
        measure_page(options)?;
        if others.is_empty() {
            return Ok(());
        }
    }
    let mut bench = Command::new(folder.join("portolan-bench"));
    if options.list {
        run(bench.args(["run", "--help"]))?;
        println!("\nand `--only {PAGE}`: the page in a browser (needs Node and Chromium)");
        return Ok(());
    }
    bench.arg("run").arg("--program").arg(folder.join("portolan"));
    for measure in others {
        bench.args(["--only", measure]);
    }
    if let Some(rounds) = options.rounds {
        bench.args(["--rounds", &rounds.to_string()]);
    }
    bench.args(options.json.then_some("--json")).args(options.smoke.then_some("--smoke"));
    run(&mut bench)
}

/// The page in a real browser, against the release binary.
fn measure_page(options: &Options) -> Result<()> {
    let folder = root().join("tests/browser");
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    run(Command::new("node")
        .arg("measure.mjs")
        .args(options.json.then_some("--json"))
        .args(options.smoke.then_some("--smoke"))
        .env("PORTOLAN_BIN", built().join("portolan"))
        .current_dir(&folder))
}

/// Where cargo puts what it builds for release.
fn built() -> PathBuf {
    target().join("release")
}
