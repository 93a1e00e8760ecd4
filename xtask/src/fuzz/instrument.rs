//! The compiler for fuzzed code: cargo calls this program instead of the compiler for the crates of this workspace, and
//! this program calls the compiler with the instrumentation that libFuzzer needs to see which code an input reaches.

use std::{
    env,
    ffi::OsString,
    fs,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::project::target;

/// Set if cargo calls this program as the compiler.
const MARK: &str = "PORTOLAN_INSTRUMENT";

/// The instrumentation for libFuzzer: a counter for each edge, the table of the edges, and the compared values.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Copt-level=1",
    "--cfg=fuzzing",
];

/// The running program itself: a build of the workspace may have replaced its file since the start.
const US: &str = "/proc/self/exe";

/// Makes cargo compile our crates through a copy of this program.
pub(super) fn instrumented(command: &mut Command) -> Result<&mut Command> {
    let copy = target().join("fuzz/compiler");
    let told = || format!("cannot write `{}`", copy.display());
    let ours = fs::read(US).context("cannot read this program")?;
    if fs::read(&copy).ok().as_ref() != Some(&ours) {
        fs::create_dir_all(target().join("fuzz")).with_context(told)?;
        fs::copy(US, &copy).with_context(told)?;
    }
    Ok(command.env("RUSTC_WORKSPACE_WRAPPER", copy).env(MARK, "1"))
}

/// Does cargo call this program as the compiler?
pub(crate) fn is_wanted() -> bool {
    env::var_os(MARK).is_some()
}

/// Compiles for cargo: the first argument is the compiler, the others are its arguments.
pub(crate) fn compile() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if arguments.is_empty() {
        return ExitCode::FAILURE;
    }
    let compiler = arguments.remove(0);
    let status = match Command::new(&compiler).args(flags(&arguments)).args(&arguments).status() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("cannot start `{}`: {error}", compiler.display());
            return ExitCode::FAILURE;
        }
    };
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

/// Build scripts run during the build, without libFuzzer; a query about the compiler compiles nothing.
fn flags(arguments: &[OsString]) -> &'static [&'static str] {
    let names_crate = arguments.iter().position(|argument| argument == "--crate-name");
    let name = names_crate.and_then(|place| arguments.get(place + 1)).and_then(|name| name.to_str());
    match name {
        None | Some("___" | "build_script_build") => &[],
        Some(_) => &FLAGS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_instrumented_but_build_scripts_and_queries_are_not() {
        let of = |arguments: &[&str]| flags(&arguments.iter().map(OsString::from).collect::<Vec<_>>()).len();
        assert_eq!(of(&["--crate-name", "portolan_wire", "src/lib.rs"]), FLAGS.len());
        assert_eq!(of(&["--crate-name", "build_script_build", "build.rs"]), 0);
        assert_eq!(of(&["-", "--crate-name", "___", "--print=cfg"]), 0);
        assert_eq!(of(&["-vV"]), 0);
    }
}
