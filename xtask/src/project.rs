//! The root of the project, its own files, and calls of programs in it.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Folders without our own files.
const NOT_OURS: [&str; 5] = ["target", "node_modules", ".git", "dist", "built"];

/// The arguments of every build: see `suite.rs`. The fuzz targets link a C++ library that nothing else needs.
pub(crate) const EVERYTHING: [&str; 4] = ["--workspace", "--all-features", "--exclude", "portolan-fuzz"];

/// The root of the clone.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable at each run; a compiled-in path would be wrong in a clone that was moved.
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// The target folder of cargo.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Our files with one of these endings, sorted, as paths relative to `root`.
pub(crate) fn files(root: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let listing = fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
        for item in listing {
            let item = item.with_context(|| format!("cannot list `{}`", folder.display()))?;
            let (path, kind) = (item.path(), item.file_type()?);
            if kind.is_dir() {
                if !NOT_OURS.iter().any(|name| item.file_name() == *name) {
                    folders.push(path);
                }
            } else if kind.is_file()
                && path.extension().is_some_and(|ending| endings.iter().any(|e| ending == *e))
                && let Ok(relative) = path.strip_prefix(root)
            {
                found.push(relative.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads one of our files as text.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The cargo that runs this program, in the root of the clone.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Makes cargo compile our crates with clippy's compiler, which lints what it compiles: linting then needs no separate
/// pass. A crate that was built one way is built again the other way, so every stage of `test` uses this way.
pub(crate) fn linting(command: &mut Command) -> &mut Command {
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
}

/// Runs a program to its end on our terminal; anything but success is an error that names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs a program and returns the one line that it prints. Its stderr goes to our terminal.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a program quietly and returns whether it starts and succeeds.
pub(crate) fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// A command as a user would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    command.get_args().fold(program, |line, argument| line + " " + &argument.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_ending_and_build_folders_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["src/a.rs", "web/b.ts", "target/debug/c.rs", "web/node_modules/d.ts", "e.txt"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(
            files(folder.path(), &["rs", "ts"]).unwrap(),
            [PathBuf::from("src/a.rs"), PathBuf::from("web/b.ts")]
        );
    }

    #[test]
    fn a_failing_program_is_named_with_its_arguments() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` ended with exit status: 3");
    }
}
