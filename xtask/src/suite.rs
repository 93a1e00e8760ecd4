//! The two runs of checks: `check` before a commit, `test` for everything that CI runs.
//!
//! Everything is built once, for the whole workspace with all of its features: cargo chooses the features of
//! dependencies by the packages that it builds, so `--package` would build hundreds of dependencies a second time. For
//! the same reason, built programs are called by their paths. Clippy's compiler compiles our crates and lints them on
//! the way.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::{Args, builder::PossibleValuesParser};

use crate::{
    audit, coverage, generated, links, page,
    project::{EVERYTHING, cargo, linting, output, root, run, target},
    stages::{
        self,
        AfterFailure::{GoOn, SkipRest},
        Runs::{Alone, BesideTheRest},
        Stage,
    },
    timing,
    tools::{self, NEXTEST},
};

/// The tests of the quick check.
const UNIT_TESTS: [&str; 4] = ["--lib", "--bins", "--test", CATALOGUE];

/// Also the catalogue of agents, because a new agent breaks it first.
const CATALOGUE: &str = "catalogue";

/// The quick check before a commit: the most frequent mistakes, in under three minutes once built.
const CHECK: [Stage; 3] = [
    Stage { name: "fmt", after_failure: GoOn, runs: Alone, work: fmt },
    Stage { name: "clippy", after_failure: SkipRest, runs: Alone, work: linted_build },
    Stage { name: "unit-tests", after_failure: GoOn, runs: Alone, work: || tests(&UNIT_TESTS, "default") },
];

/// Everything. The cheap stages come first: most mistakes show within the first minute.
const TEST: [Stage; 16] = [
    Stage { name: "tools", after_failure: SkipRest, runs: Alone, work: tools::prepare },
    Stage { name: "fmt", after_failure: GoOn, runs: Alone, work: fmt },
    Stage { name: "links", after_failure: GoOn, runs: Alone, work: links::check },
    Stage { name: "coverage", after_failure: GoOn, runs: Alone, work: coverage::summarise },
    Stage { name: "page", after_failure: SkipRest, runs: Alone, work: page::build },
    Stage { name: "page-tests", after_failure: GoOn, runs: Alone, work: page::test },
    Stage { name: "build", after_failure: SkipRest, runs: Alone, work: build },
    Stage { name: "clippy", after_failure: GoOn, runs: Alone, work: linted_build },
    Stage { name: "tests", after_failure: GoOn, runs: Alone, work: all_tests },
    Stage { name: "browser", after_failure: GoOn, runs: Alone, work: browser },
    Stage { name: "agui", after_failure: GoOn, runs: BesideTheRest, work: agui },
    Stage { name: "features", after_failure: GoOn, runs: Alone, work: features },
    Stage { name: "doctests", after_failure: GoOn, runs: Alone, work: doctests },
    Stage { name: "docs", after_failure: GoOn, runs: Alone, work: docs },
    Stage { name: "generated", after_failure: GoOn, runs: Alone, work: generated::check },
    Stage { name: "audit", after_failure: GoOn, runs: Alone, work: audit::run },
];

/// Arguments of `test`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only this stage; may be repeated
    #[arg(long = "stage", value_name = "NAME", value_parser = PossibleValuesParser::new(TEST.map(|s| s.name)))]
    stages: Vec<String>,
}

/// Runs the quick check.
pub(crate) fn check() -> Result<()> {
    stages::run(&CHECK.each_ref())
}

/// Runs everything, or the given stages.
pub(crate) fn test(options: &Options) -> Result<()> {
    let wanted =
        |stage: &&Stage| options.stages.is_empty() || options.stages.iter().any(|name| name == stage.name);
    stages::run(&TEST.iter().filter(wanted).collect::<Vec<_>>())
}

fn build() -> Result<()> {
    run(linting(cargo(["build", "--all-targets", "--locked"]).args(EVERYTHING)))
}

fn doctests() -> Result<()> {
    run(linting(cargo(["test", "--doc", "--quiet"]).args(EVERYTHING)))
}

fn fmt() -> Result<()> {
    run(&mut cargo(["fmt", "--all", "--check"]))
}

/// Lints the shipped crates without our optional features, then the binary without its default features. The build
/// already linted everything with all features, and each combination of features hides some code.
fn features() -> Result<()> {
    // Only the binary has default features, so the second pass compiles only the binary.
    for features in [None, Some("--no-default-features")] {
        run(cargo(["clippy", "--workspace", "--exclude", "portolan-fuzz", "--quiet"])
            .args(features)
            .args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Builds what has changed; cargo repeats the warnings of the rest. Fails if clippy found something.
fn linted_build() -> Result<()> {
    let mut build = cargo(["build", "--all-targets", "--locked", "--quiet", "--message-format", "json"]);
    let said = linting(build.args(EVERYTHING)).output().context("cannot start cargo")?;
    let found: Vec<String> = String::from_utf8_lossy(&said.stdout).lines().filter_map(complaint).collect();
    if !found.is_empty() {
        bail!("{}\nclippy found {} faults", found.join(""), found.len());
    }
    if !said.status.success() {
        bail!("{}\nthe build failed", String::from_utf8_lossy(&said.stderr));
    }
    Ok(())
}

/// The warning or error of a compiler in a line of cargo's output.
fn complaint(line: &str) -> Option<String> {
    let said: serde_json::Value = serde_json::from_str(line).ok()?;
    let message = said.get("message").filter(|_| said["reason"] == "compiler-message")?;
    matches!(message["level"].as_str(), Some("warning" | "error"))
        .then(|| message["rendered"].as_str().unwrap_or_default().to_owned())
}

/// Runs every test, and prints where the time went.
fn all_tests() -> Result<()> {
    let report = timing::report("ci");
    // Remove the report of an earlier run.
    let _ = std::fs::remove_file(&report);
    let tested = tests(&[], "ci");
    if report.exists() {
        timing::print("ci")?;
    }
    tested
}

/// Runs tests with nextest if it is installed: one process for each test, timeouts, groups. Otherwise uses cargo
/// itself.
fn tests(scope: &[&str], profile: &str) -> Result<()> {
    match NEXTEST.found() {
        Some(nextest) => run(linting(
            Command::new(nextest)
                .args(["nextest", "run", "--profile", profile])
                .args(EVERYTHING)
                .args(scope)
                // With this variable, tests that compare files would write them.
                .env_remove("UPDATE")
                .current_dir(root()),
        )),
        None => run(linting(cargo(["test"]).args(EVERYTHING).args(scope))),
    }
}

/// Tests the page and hostile pages in a real browser, against the fresh binary.
fn browser() -> Result<()> {
    let folder = root().join("tests/browser");
    let (claude, codex) = (installed("claude", CLAUDE)?, installed("codex", CODEX)?);
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    run(Command::new("npm")
        .arg("test")
        .envs([("PORTOLAN_CLAUDE", claude), ("PORTOLAN_CODEX", codex)])
        .current_dir(&folder))
}

/// Runs the page's test of a long history alone, with this many entries, against the debug binary.
pub(crate) fn long_history(entries: Option<&str>) -> Result<()> {
    build()?;
    let folder = root().join("tests/browser");
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    run(Command::new("node")
        .args(["--test", "--test-name-pattern", "a long history", "page.test.mjs"])
        .envs(entries.map(|entries| ("ENTRIES", entries)))
        .current_dir(&folder))
}

/// The Claude Code version for the tests of pages and AG-UI clients: the newest that the contract suite runs.
const CLAUDE: &str = "2.1.325";

/// The Codex version for the tests of pages: the newest that the contract suite runs.
const CODEX: &str = "0.166.0";

/// The path of a pinned agent. Installs the agent if needed, with a program of the stage `build`.
fn installed(agent: &str, version: &str) -> Result<String> {
    output(Command::new(target().join("debug/examples/installed")).args([agent, version]))
}

/// Tests real AG-UI clients and a CopilotKit app in a real browser, against the fresh binary.
fn agui() -> Result<()> {
    let folder = root().join("tests/agui");
    let claude = installed("claude", CLAUDE)?;
    // No package here needs its install scripts.
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder))?;
    run(Command::new("npm").args(["run", "build"]).current_dir(&folder))?;
    run(Command::new("npm").arg("test").env("PORTOLAN_CLAUDE", claude).current_dir(&folder))
}

/// The documentation of the code. Links to private items are allowed: its readers read the code.
fn docs() -> Result<()> {
    run(cargo(["doc", "--no-deps", "--document-private-items", "--quiet"])
        .args(EVERYTHING)
        .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // `check` once left out the test that a new agent breaks first.
    #[test]
    fn check_runs_the_tests_of_the_catalogue_of_agents() {
        let file = root().join("crates/agents/tests").join(CATALOGUE).with_extension("rs");
        assert!(file.is_file(), "`{}` does not exist", file.display());
        assert!(UNIT_TESTS.windows(2).any(|words| words == ["--test", CATALOGUE]), "{UNIT_TESTS:?}");
    }
}
