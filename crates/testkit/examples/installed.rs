//! Prints the path of a pinned agent after its installation: `cargo run -p portolan-testkit --example installed --
//! claude 2.1.325`. For tests that are not written in Rust.

use std::{io::Write as _, process::ExitCode};

use portolan_testkit::npm::{claude, codex};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (agent, version) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let found = match agent.as_str() {
        // For the few moments that this program runs.
        "claude" => claude(version.leak()).program(),
        "codex" => codex(version.leak()).program(),
        other => Err(format!("no pinned agent `{other}`; there are claude and codex")),
    };
    match found {
        Ok(program) => match writeln!(std::io::stdout(), "{}", program.display()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
