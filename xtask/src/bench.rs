//! `bench`: builds the release binary and the bench, and runs the measurements. docs/performance.md explains them.
//!
//! tests/browser/measure.mjs measures the page in a browser, on demand: `--only page`.

use std::{path::PathBuf, process::Command};

use anyhow::Result;
use clap::Args;

use crate::{
    page,
    project::{cargo, root, run, target},
};

/// Arguments of `bench`; all but `--smoke` are passed to the bench program.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only this measure; may be repeated (see `--list`); `page` runs in a browser, and only when named
    #[arg(long, value_name = "MEASURE")]
    only: Vec<String>,
    /// How often each measure runs; the medians are shown
    #[arg(long, value_name = "N")]
    rounds: Option<u8>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Run for seconds instead of minutes: only check that nothing is lost
    #[arg(long)]
    smoke: bool,
    /// List the measures
    #[arg(long)]
    list: bool,
}

/// The measure that runs in a browser, with `--only page`; the bench program runs all others.
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

/// The folder of release builds.
fn built() -> PathBuf {
    target().join("release")
}
