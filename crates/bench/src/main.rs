//! Measures Portolan: a fake agent on one side, readers that check everything on the other, and next to each figure the
//! floor, measured in the same round. `cargo xtask bench` builds and runs the bench; docs/performance.md explains the
//! figures.
//!
//! The bench uses Portolan only from outside: the real binary, the real WebSocket.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints to its terminal")]

mod agent;
mod floor;
mod marker;
mod measures;
mod reader;
mod server;
mod table;
mod websocket;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand, ValueEnum as _};
use tokio::task::LocalSet;

use measures::{Extent, Lab, Measure};

#[derive(Debug, Parser)]
#[command(about = "Measures Portolan against a floor that only copies")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the measures and print the figures
    Run(Options),
    /// Run as the floor
    #[command(hide = true)]
    Floor {
        /// The file for the address of the floor
        tell: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Portolan's binary
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Run only this measure; may be repeated
    #[arg(long, value_name = "MEASURE")]
    only: Vec<Measure>,
    /// How often each measure runs; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Run for seconds instead of minutes: only check that nothing is lost
    #[arg(long)]
    smoke: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    // The agent gets the command line of another program, which clap must not parse.
    if arguments.get(1).is_some_and(|first| first == "agent") {
        return agent::run(&arguments[2..]);
    }
    let result = match Arguments::parse().command {
        Command::Floor { tell } => floor::run(&tell),
        Command::Run(options) => run(options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    let (extent, rounds) =
        if options.smoke { (Extent::Smoke, 1) } else { (Extent::Full, usize::from(options.rounds)) };
    let wanted = |measure: &&Measure| options.only.is_empty() || options.only.contains(measure);
    // The servers run in their own folders.
    let program = options.program.canonicalize();
    let program = program.with_context(|| format!("`{}` does not exist", options.program.display()))?;
    let mut lab = Lab::new(program, rounds, extent);
    // One thread for all readers: the agent and the server need the other processor.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for measure in Measure::value_variants().iter().filter(wanted) {
        eprintln!("measuring: {measure:?}");
        LocalSet::new().block_on(&runtime, lab.take(*measure))?;
    }
    if options.json {
        println!("{}", lab.report.json());
    } else {
        println!("{}", lab.report.table());
    }
    if !lab.report.faults.is_empty() {
        bail!("this must never happen:\n{}", lab.report.faults.join("\n"));
    }
    Ok(())
}
