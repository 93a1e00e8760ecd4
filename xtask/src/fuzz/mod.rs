//! `cargo xtask fuzz`: runs the fuzz targets of fuzz/. The recordings of real agents are among their seeds.
//!
//! Our own crates are built with the instrumentation that guides libFuzzer ([`instrument`]); their dependencies are
//! built as in every other build. There is no sanitizer: the code under test is safe Rust, and libFuzzer itself limits
//! memory and time.

pub(crate) mod instrument;
mod seeds;

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::project::{self, cargo, root, target};

/// The longest input, in bytes: a short conversation.
const LONGEST: usize = 16 * 1024;

/// An input that takes longer than this many seconds is a fault. Real inputs take microseconds; this allows for a busy
/// machine.
const TIMEOUT: u32 = 30;

/// An input that makes a target use more than this many MiB is a fault.
const MEMORY: u32 = 2048;

/// Arguments of `fuzz`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only this target, such as `claude_lines`; default: all targets
    target: Option<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs the given targets.
pub(crate) fn command(options: &Options) -> Result<()> {
    let all = targets()?;
    let chosen: Vec<String> = match &options.target {
        None => all,
        Some(name) if all.contains(name) => vec![name.clone()],
        Some(name) => bail!("there is no target `{name}`; the targets are {}", all.join(", ")),
    };
    run_all(&chosen, options.seconds)
}

/// Runs every target for this many seconds each, with new inputs.
pub(crate) fn run(seconds: u64) -> Result<()> {
    run_all(&targets()?, seconds)
}

/// Every target, by the names of its files.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = project::files(&folder, &["rs"])?;
    let name = |path: PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    Ok(files.into_iter().filter_map(name).collect())
}

/// Runs all targets before it reports a failure, so that one run shows every fault. Runs as many targets at once as
/// there are processors: each target is a process that uses one.
fn run_all(targets: &[String], seconds: u64) -> Result<()> {
    let recorded = target().join("fuzz/recorded");
    seeds::write(&root(), &recorded)?;
    build()?;
    let programs = target().join("debug");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let at_once = thread::available_parallelism().map_or(1, NonZero::get).min(targets.len());
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = run_one(&programs, target, seconds, &recorded) {
                println!("{target}: {error:#}");
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(target.as_str());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!(
            "fuzzing found something in {}; the input is in fuzz/artifacts, see docs/fuzzing.md",
            failed.join(", ")
        );
    }
    Ok(())
}

/// Builds every target. Names the whole workspace, because its features determine the features of the dependencies.
fn build() -> Result<()> {
    let targets = targets()?;
    let mut command = cargo(["build", "--workspace", "--all-features", "--locked"]);
    command.args(targets.iter().flat_map(|target| ["--bin", target]));
    project::run(instrument::instrumented(&mut command)?)
}

fn run_one(programs: &Path, target: &str, seconds: u64, recorded: &Path) -> Result<()> {
    let fuzz = root().join("fuzz");
    let corpus = fuzz.join("corpus").join(target);
    let found = fuzz.join("artifacts").join(target);
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    }
    let mut command = Command::new(programs.join(target));
    command.current_dir(&fuzz).arg(&corpus);
    command
        .args([fuzz.join("seeds").join(target), recorded.join(target)].iter().filter(|seeds| seeds.is_dir()));
    command.args([
        format!("-artifact_prefix={}/", found.display()),
        format!("-max_len={LONGEST}"),
        format!("-timeout={TIMEOUT}"),
        format!("-rss_limit_mb={MEMORY}"),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    let words = recorded.join("words");
    if target.starts_with("claude") && words.is_file() {
        command.arg(format!("-dict={}", words.display()));
    }
    command.arg(format!("-max_total_time={seconds}"));
    project::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_declared_and_has_seeds() {
        let manifest = project::read(&root().join("fuzz/Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 8, "{targets:?}");
        for target in &targets {
            assert!(manifest.contains(&format!("name = \"{target}\"\n")), "`{target}` has no [[bin]]");
            let seeds = fs::read_dir(root().join("fuzz/seeds").join(target)).map_or(0, Iterator::count);
            assert!(seeds > 0, "`{target}` has no seeds");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), targets.len(), "a [[bin]] has no file");
    }
}
