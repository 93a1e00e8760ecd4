//! The compiler, for code that is fuzzed: cargo calls us in its place for the crates of this workspace, and we call it with
//! what libFuzzer needs to see which code an input reaches.

use std::{
    env,
    ffi::OsString,
    fs,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::project::target;

/// Set where cargo calls us as the compiler.
const MARK: &str = "PORTOLAN_INSTRUMENT";

/// What libFuzzer needs: a counter for each edge, the table of what it counts, and the values that are compared.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Copt-level=1",
    "--cfg=fuzzing",
];

/// This very program, while it runs: a build of the workspace may have replaced its file since it was started.
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

/// Are we called as the compiler?
pub(crate) fn is_wanted() -> bool {
    env::var_os(MARK).is_some()
}

/// Compiles what cargo wants compiled: the first argument is the compiler, the others are for it.
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

/// Build scripts run during the build, without libFuzzer; a question about the compiler compiles nothing.
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
    fn crates_are_instrumented_and_build_scripts_and_questions_are_not() {
        let of = |arguments: &[&str]| flags(&arguments.iter().map(OsString::from).collect::<Vec<_>>()).len();
        assert_eq!(of(&["--crate-name", "portolan_wire", "src/lib.rs"]), FLAGS.len());
        assert_eq!(of(&["--crate-name", "build_script_build", "build.rs"]), 0);
        assert_eq!(of(&["-", "--crate-name", "___", "--print=cfg"]), 0);
        assert_eq!(of(&["-vV"]), 0);
    }
}
