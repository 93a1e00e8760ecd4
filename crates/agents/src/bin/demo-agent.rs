//! The demo agent as a separate program, for this crate's tests. Users get it inside `portolan`.

use std::process::ExitCode;

fn main() -> ExitCode {
    portolan_agents::demo::run(std::io::stdin(), std::io::stdout())
}
