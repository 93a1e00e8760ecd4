//! `cargo xtask soak`: every fault in its full count against the release binary, the properties of a session in many
//! cases, a history of a million entries in the page, then a long run of every fuzz target.
//!
//! Prints a line for each: how often, with what result, how long it took. docs/reliability.md explains the faults.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::{
    fuzz,
    project::{EVERYTHING, cargo, linting, run, target},
    suite,
};

/// The name of the fuzz targets for `--only`.
const FUZZ: &str = "fuzz";

/// The name of the properties of a session for `--only`.
const PROPERTIES: &str = "properties";

/// The name of the page's long history for `--only`.
const PAGE: &str = "page";

/// The name of the fault that needs a program of another version.
const UPGRADES: &str = "upgrades";

/// The variable that gives a build another version than its manifest.
const BUILD_VERSION: &str = "PORTOLAN_BUILD_VERSION";

/// The version of the program that upgrades go to.
const NEXT_VERSION: &str = "9.9.9-next";

/// How many entries the page's long history has. The tests have 100,000.
const ENTRIES: &str = "1000000";

/// How many orders of the actions of people, the agent, time and crashes the soak tries. The tests try 128 orders.
const CASES: &str = "4096";

/// Arguments of `soak`; the faults and the seed are passed to the soak program.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only this fault, `properties`, `page` or `fuzz`; may be repeated
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
    let is_fault = |name: &String| ![FUZZ, PROPERTIES, PAGE].contains(&name.as_str());
    let mut failed = Vec::new();
    if options.only.is_empty() || options.only.iter().any(is_fault) {
        let next = target().join("release/portolan-next");
        if wanted(UPGRADES) && !options.share {
            run(cargo(["build", "--release", "--locked", "-p", "portolan"]).env(BUILD_VERSION, NEXT_VERSION))?;
            std::fs::copy(target().join("release/portolan"), &next)
                .context("cannot keep the next version")?;
        }
        let build = ["build", "--release", "--locked", "-p", "portolan", "-p", "portolan-soak"];
        run(&mut cargo(build))?;
        let mut soak = Command::new(target().join("release/portolan-soak"));
        if wanted(UPGRADES) && !options.share {
            soak.env("PORTOLAN_SOAK_NEXT", next);
        }
        for name in options.only.iter().filter(|name| is_fault(name)) {
            soak.args(["--only", name]);
        }
        if let Some(seed) = options.seed {
            soak.args(["--seed", &seed.to_string()]);
        }
        failed.extend(run(soak.args(options.share.then_some("--share"))).err());
    }
    if wanted(PROPERTIES) {
        failed.extend(properties(options.share).err());
    }
    if wanted(PAGE) {
        failed.extend(suite::long_history(if options.share { None } else { Some(ENTRIES) }).err());
    }
    if wanted(FUZZ) {
        failed.extend(fuzz::run(options.fuzz_seconds).err());
    }
    match failed.as_slice() {
        [] => Ok(()),
        all => bail!("{}", all.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>().join("; ")),
    }
}

fn properties(share: bool) -> Result<()> {
    let mut tests = cargo(["test", "--locked"]);
    // The same features as in every other build: with other features cargo builds hundreds of crates again.
    tests.args(EVERYTHING).args(["--lib", "session::tests::properties"]);
    if !share {
        tests.env("PROPTEST_CASES", CASES);
    }
    run(linting(&mut tests))
}
