//! `cargo xtask audit`: what we depend on, checked by cargo-deny against deny.toml.
//!
//! Licences, bans and sources need nothing but the package registry. Known vulnerabilities need the RustSec database,
//! a Git repository that no package registry carries: a run uses the copy that is there and never fetches one by
//! itself, since CI may reach package registries alone. A run without a copy says so in its last lines.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::{
    project::{self, root},
    stages,
    tools::DENY,
};

/// What `audit` takes.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Fetch the database of known vulnerabilities first (from github.com), and fail where that is not possible
    #[arg(long)]
    fetch: bool,
}

/// Where cargo-deny keeps the databases that it fetched; deny.toml names the same folder.
const DATABASES: &str = "advisory-dbs";

/// The command: everything, after fetching where that is wanted.
pub(crate) fn command(options: &Options) -> Result<()> {
    if options.fetch {
        let fetch = ["--workspace", "--all-features", "--locked", "fetch", "db"];
        project::run(Command::new(DENY.get()?).args(fetch).current_dir(root())).context(
            "the database of known vulnerabilities cannot be fetched; is github.com within reach?",
        )?;
        if !is_fetched(&databases()?) {
            bail!("the database was fetched, but is not in `{}`", databases()?.display());
        }
    }
    run()?;
    stages::print_unchecked();
    Ok(())
}

/// The stage: licences, bans, duplicates and sources; and known vulnerabilities where the database is here.
pub(crate) fn run() -> Result<()> {
    let deny = DENY.get()?;
    let check = |checks: &[&str]| {
        // Offline: it would else fetch the database by itself.
        let common = ["--workspace", "--all-features", "--locked", "--offline", "check"];
        project::run(Command::new(&deny).args(common).args(checks).current_dir(root()))
    };
    check(&["licenses", "bans", "sources"])?;
    if is_fetched(&databases()?) {
        return check(&["advisories"]);
    }
    stages::leave_unchecked(
        "known vulnerabilities of our dependencies: their database is not on this machine; \
         `cargo xtask audit --fetch` fetches it where github.com can be reached",
    );
    Ok(())
}

/// cargo-deny's own default place.
fn databases() -> Result<PathBuf> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let folder = cargo_home.or_else(home).context("neither CARGO_HOME nor HOME is set")?;
    Ok(folder.join(DATABASES))
}

/// Whether a database lies in the folder.
fn is_fetched(databases: &Path) -> bool {
    databases
        .read_dir()
        .is_ok_and(|mut found| found.any(|entry| entry.is_ok_and(|entry| entry.path().join(".git").is_dir())))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The stage passed and said nothing of what it did not look at.
    #[test]
    fn a_machine_without_the_database_is_told_apart_from_one_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let databases = folder.path().join(DATABASES);
        assert!(!is_fetched(&databases), "there is no folder");
        std::fs::create_dir_all(databases.join("db.lock")).unwrap();
        assert!(!is_fetched(&databases), "there is a folder, but no database in it");
        std::fs::create_dir_all(databases.join("github.com-2f857891b7f43c59/.git")).unwrap();
        assert!(is_fetched(&databases));
    }
}
