//! Stages: a long run cut into named parts, each timed, with a table at the end.
//!
//! A failed stage does not stop the later stages, so that one run shows every mistake. A failed stage that others
//! depend on blocks the rest.

use std::{
    fmt::Write as _,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// What happens to the stages after a failed stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// They still run.
    GoOn,
    /// They are skipped: without this stage, their failures would show nothing.
    SkipRest,
}

/// When a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The next stage begins when this stage has ended.
    Alone,
    /// The next stages begin at once: this stage mostly waits. Its output is mixed with theirs.
    BesideTheRest,
}

/// One part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The effect of its failure on the rest.
    pub(crate) after_failure: AfterFailure,
    /// Alone, or in parallel with others.
    pub(crate) runs: Runs,
    /// What it does.
    pub(crate) work: fn() -> Result<()>,
}

#[derive(Debug)]
enum Outcome {
    Passed(Duration),
    Failed(Duration, String),
    Skipped,
}

type Done = (&'static str, Outcome);

/// What stages could not check on this machine.
static UNCHECKED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Notes what a stage could not check here. The run prints these notes at its end: a stage that passes must not hide
/// them.
pub(crate) fn leave_unchecked(what: &'static str) {
    UNCHECKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(what);
}

/// Prints what could not be checked; nothing if everything was checked.
pub(crate) fn print_unchecked() {
    for what in UNCHECKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).drain(..) {
        println!("NOT CHECKED: {what}");
    }
}

/// Runs the stages and prints the table. An error names the failed stages.
pub(crate) fn run(stages: &[&Stage]) -> Result<()> {
    let began = Instant::now();
    let done = outcomes(stages);
    println!("\n{}", table(&done, began.elapsed()));
    print_unchecked();
    let failed: Vec<_> =
        done.iter().filter(|(_, o)| matches!(o, Outcome::Failed(..))).map(|(n, _)| *n).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn outcomes(stages: &[&Stage]) -> Vec<Done> {
    let mut blocked = false;
    thread::scope(|scope| {
        let mut running = Vec::new();
        for stage in stages {
            running.push(match stage.runs {
                _ if blocked => Running::Over(Outcome::Skipped),
                Runs::BesideTheRest => Running::Beside(scope.spawn(|| outcome(stage))),
                Runs::Alone => {
                    let outcome = outcome(stage);
                    let failed = matches!(outcome, Outcome::Failed(..));
                    blocked = failed && stage.after_failure == AfterFailure::SkipRest;
                    Running::Over(outcome)
                }
            });
        }
        let over = |running| match running {
            Running::Over(outcome) => outcome,
            Running::Beside(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        };
        stages.iter().map(|stage| stage.name).zip(running.into_iter().map(over)).collect()
    })
}

/// A running stage.
enum Running<'scope> {
    Over(Outcome),
    Beside(thread::ScopedJoinHandle<'scope, Outcome>),
}

fn outcome(stage: &Stage) -> Outcome {
    println!("\n== {}", stage.name);
    let began = Instant::now();
    let result = (stage.work)();
    let took = began.elapsed();
    println!("== {}: {} min", stage.name, minutes(took));
    match result {
        Ok(()) => Outcome::Passed(took),
        Err(error) => {
            eprintln!("== {} FAILED: {error:#}", stage.name);
            Outcome::Failed(took, format!("{error:#}"))
        }
    }
}

fn table(done: &[Done], total: Duration) -> String {
    let mut table = String::from("stage         minutes  result\n");
    for (name, outcome) in done {
        let (took, result) = match outcome {
            Outcome::Passed(took) => (*took, "ok".to_owned()),
            Outcome::Failed(took, why) => {
                (*took, format!("FAILED: {}", why.lines().next().unwrap_or_default()))
            }
            Outcome::Skipped => (Duration::ZERO, "skipped".to_owned()),
        };
        let _ = writeln!(table, "{name:<12} {:>8}  {result}", minutes(took));
    }
    let _ = write!(table, "{:<12} {:>8}", "total", minutes(total));
    table
}

fn minutes(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILS: fn() -> Result<()> = || bail!("does not compile\nfor a long reason");
    const PASSES: fn() -> Result<()> = || Ok(());

    fn stage(name: &'static str, work: fn() -> Result<()>) -> Stage {
        Stage { name, after_failure: AfterFailure::GoOn, runs: Runs::Alone, work }
    }

    #[test]
    fn a_failure_is_named_and_the_stages_after_it_still_run() {
        let fmt = stage("fmt", FAILS);
        let links = stage("links", PASSES);
        assert_eq!(
            table(&outcomes(&[&fmt, &links]), Duration::ZERO),
            "stage         minutes  result\n\
             fmt               0.0  FAILED: does not compile\n\
             links             0.0  ok\n\
             total             0.0"
        );
        assert_eq!(run(&[&links, &fmt]).unwrap_err().to_string(), "failed: fmt");
    }

    #[test]
    fn a_failure_that_others_depend_on_skips_the_rest() {
        let build = Stage { after_failure: AfterFailure::SkipRest, ..stage("build", FAILS) };
        let tests = stage("tests", || unreachable!("skipped"));
        assert_eq!(
            table(&outcomes(&[&build, &tests]), Duration::ZERO),
            "stage         minutes  result\n\
             build             0.0  FAILED: does not compile\n\
             tests             0.0  skipped\n\
             total             0.0"
        );
    }

    #[test]
    fn a_parallel_stage_delays_no_other_stage_and_its_failure_is_reported() {
        static REACHED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        let waits: fn() -> Result<()> = || {
            while !REACHED.load(std::sync::atomic::Ordering::Acquire) {
                thread::yield_now();
            }
            bail!("too late")
        };
        let reaches: fn() -> Result<()> = || {
            REACHED.store(true, std::sync::atomic::Ordering::Release);
            Ok(())
        };
        let slow = Stage { runs: Runs::BesideTheRest, ..stage("slow", waits) };
        let after = stage("after", reaches);
        assert_eq!(run(&[&slow, &after]).unwrap_err().to_string(), "failed: slow");
    }
}
