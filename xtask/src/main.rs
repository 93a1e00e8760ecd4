//! The project's own commands, run as `cargo xtask ...`. `up` and `test` are the two in the README.
//!
//! xtask only calls other programs and reads the tree. It does not depend on Portolan's crates, so that it builds in
//! seconds and cannot break with them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints to its terminal")]

mod audit;
mod bench;
mod coverage;
mod fuzz;
mod generated;
mod graph;
mod links;
mod page;
mod project;
mod soak;
mod stages;
mod suite;
mod timing;
mod tools;
mod up;
#[cfg(test)]
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", about = "The project's own commands", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build everything and run `portolan up` in the foreground
    Up(up::Options),
    /// Run the quick check before a commit: fmt, clippy, unit tests
    Check,
    /// Run everything that CI runs, and print the minutes of each stage
    Test(suite::Options),
    /// Check licences, banned crates, duplicates, sources and known vulnerabilities of all dependencies (cargo-deny)
    Audit(audit::Options),
    /// Measure the release binary against a floor that only copies
    Bench(bench::Options),
    /// List the rows of coverage/seeds.tsv that no test names
    Coverage(coverage::Options),
    /// Feed the decoders with generated input (libFuzzer)
    Fuzz(fuzz::Options),
    /// Build the page (Node), which the next build of the program embeds
    Page,
    /// Write schemas/ and the generated pages of docs/ again
    Schemas,
    /// Break the release binary on purpose, in full counts: kills, floods, full disks, slow clients
    Soak(soak::Options),
}

fn main() -> ExitCode {
    if fuzz::instrument::is_wanted() {
        return fuzz::instrument::compile();
    }
    let result = match Arguments::parse().command {
        Command::Up(options) => up::run(&options),
        Command::Check => suite::check(),
        Command::Test(options) => suite::test(&options),
        Command::Audit(options) => audit::command(&options),
        Command::Bench(options) => bench::bench(&options),
        Command::Coverage(options) => coverage::run(&options),
        Command::Fuzz(options) => fuzz::command(&options),
        Command::Page => page::build(),
        Command::Schemas => generated::write(),
        Command::Soak(options) => soak::soak(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
