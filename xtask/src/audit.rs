//! `cargo xtask audit`: checks our dependencies with cargo-deny against deny.toml.
//!
//! Licences, bans and sources need only the package registry. Known vulnerabilities need the RustSec database, a Git
//! repository that no package registry has: a run uses an existing copy and never fetches one by itself, because CI may
//! reach only package registries. A run without a copy says so in its last lines.
//!
//! Building cargo-deny takes minutes. So deny.checked records a passed check, with a hash of its inputs: the lock file,
//! the manifests and deny.toml. While these are unchanged, the test stage does not build the tool only to get the same
//! result again.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::{
    project::{self, read, root},
    stages,
    tools::DENY,
};

/// Arguments of `audit`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Fetch the database of known vulnerabilities first (from github.com), and fail if that is not possible
    #[arg(long)]
    fetch: bool,
}

/// The folder where cargo-deny keeps its databases; deny.toml names the same folder.
const DATABASES: &str = "advisory-dbs";

/// The command: checks everything, after fetching the database if wanted.
pub(crate) fn command(options: &Options) -> Result<()> {
    if options.fetch {
        let fetch = ["--workspace", "--all-features", "--locked", "fetch", "db"];
        project::run(Command::new(DENY.get()?).args(fetch).current_dir(root())).context(
            "the database of known vulnerabilities cannot be fetched; check that github.com can be reached",
        )?;
        if !is_fetched(&databases()?) {
            bail!("the database was fetched, but is not in `{}`", databases()?.display());
        }
    }
    check(&DENY.get()?)?;
    stages::print_unchecked();
    Ok(())
}

/// The file that records a passed check and its inputs.
const CHECKED: &str = "deny.checked";

/// The stage: runs [`check`], unless it has already passed for the same inputs and the tool is not installed.
pub(crate) fn run() -> Result<()> {
    let before = read(&root().join(CHECKED)).ok();
    if DENY.found().is_none() && before.as_deref().map(str::trim) == Some(&subject()?) {
        println!("licences, bans and sources passed before, and nothing has changed since ({CHECKED})");
        leave_vulnerabilities();
        return Ok(());
    }
    check(&DENY.get()?)
}

/// A hash of the inputs: the lock file, every manifest, and the rules.
fn subject() -> Result<String> {
    let mut texts = vec![
        read(&root().join("Cargo.lock"))?,
        read(&root().join("deny.toml"))?,
        read(&root().join("Cargo.toml"))?,
    ];
    for folder in ["crates", "fuzz", "xtask"] {
        let manifests = project::files(&root().join(folder), &["toml"])?;
        for manifest in manifests.iter().filter(|path| path.ends_with("Cargo.toml")) {
            texts.push(read(&root().join(folder).join(manifest))?);
        }
    }
    Ok(format!("{:016x}", sum(&texts)))
}

/// FNV-1a, with a separator byte that no text contains.
fn sum(texts: &[String]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Checks licences, bans, duplicates and sources; and known vulnerabilities if the database is here.
fn check(deny: &Path) -> Result<()> {
    // The tool looks at the crates of every platform, and a build downloads only those of this one.
    project::run(&mut project::cargo(["fetch", "--locked"]))?;
    let check = |checks: &[&str]| {
        // Offline: otherwise the tool would fetch the database by itself.
        let common = ["--workspace", "--all-features", "--locked", "--offline", "check"];
        project::run(Command::new(deny).args(common).args(checks).current_dir(root()))
    };
    check(&["licenses", "bans", "sources"])?;
    std::fs::write(root().join(CHECKED), format!("{}\n", subject()?))
        .context("cannot record that the check has passed")?;
    if is_fetched(&databases()?) {
        return check(&["advisories"]);
    }
    leave_vulnerabilities();
    Ok(())
}

fn leave_vulnerabilities() {
    stages::leave_unchecked(
        "known vulnerabilities of our dependencies: their database is not on this machine; \
         `cargo xtask audit --fetch` fetches it from github.com",
    );
}

/// The default folder of cargo-deny.
fn databases() -> Result<PathBuf> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let folder = cargo_home.or_else(home).context("neither CARGO_HOME nor HOME is set")?;
    Ok(folder.join(DATABASES))
}

/// Whether there is a database in the folder.
fn is_fetched(databases: &Path) -> bool {
    databases
        .read_dir()
        .is_ok_and(|mut found| found.any(|entry| entry.is_ok_and(|entry| entry.path().join(".git").is_dir())))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A change of any checked file changes the hash, and so does moving text from one file to another.
    #[test]
    fn every_byte_of_the_inputs_changes_the_hash() {
        let texts = |all: &[&str]| sum(&all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(texts(&["a", "b"]), texts(&["a", "b"]));
        assert_ne!(texts(&["a", "b"]), texts(&["a", "c"]));
        assert_ne!(texts(&["ab", ""]), texts(&["a", "b"]));
        assert_eq!(subject().unwrap().len(), 16);
    }

    // The stage once passed without a note about what it did not check.
    #[test]
    fn a_missing_database_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let databases = folder.path().join(DATABASES);
        assert!(!is_fetched(&databases), "there is no folder");
        std::fs::create_dir_all(databases.join("db.lock")).unwrap();
        assert!(!is_fetched(&databases), "there is a folder, but no database in it");
        std::fs::create_dir_all(databases.join("github.com-2f857891b7f43c59/.git")).unwrap();
        assert!(is_fetched(&databases));
    }
}
