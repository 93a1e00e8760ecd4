//! Runs the faults, one after the other, and prints a line for each: how often, with what result, how long it took.
#![expect(clippy::print_stdout, reason = "a command line tool prints to its terminal")]

use std::{
    process::ExitCode,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use portolan_soak::faults::{ALL, Extent, Fault, Run};

/// Breaks the real daemon on purpose.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run only this fault; may be repeated
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(ALL.iter().map(|fault| fault.name)))]
    only: Vec<String>,
    /// Repeat the run with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run only the share that the tests run
    #[arg(long)]
    share: bool,
}

#[tokio::main(worker_threads = 4)]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seed = arguments.seed.unwrap_or(clock);
    let extent = if arguments.share { Extent::Share } else { Extent::Full };
    println!("seed {seed}");
    let wanted =
        |fault: &&Fault| arguments.only.is_empty() || arguments.only.iter().any(|name| name == fault.name);
    let mut failed = Vec::new();
    for fault in ALL.iter().filter(wanted) {
        let began = Instant::now();
        // A separate task: a fault that panics ends only itself.
        let result = tokio::spawn((fault.run)(Run { seed, extent })).await;
        let seconds = began.elapsed().as_secs_f64();
        let told = match result {
            Ok(Ok(tally)) => format!("{:<22} ok      {seconds:>7.1} s  {}", tally.count, tally.found),
            Ok(Err(error)) => {
                failed.push(fault.name);
                format!("{:<22} FAILED  {seconds:>7.1} s  {error:#}", fault.what)
            }
            Err(panic) => {
                failed.push(fault.name);
                format!("{:<22} FAILED  {seconds:>7.1} s  {panic}", fault.what)
            }
        };
        println!("{:<13} {told}", fault.name);
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}; repeat with --seed {seed}", failed.join(", "));
    ExitCode::FAILURE
}
