//! `cargo xtask audit`: what we depend on, checked by cargo-deny against deny.toml.

use std::process::Command;

use anyhow::Result;

use crate::{
    project::{self, root},
    tools::DENY,
};

/// Checks licences, bans, duplicates and sources.
pub(crate) fn run() -> Result<()> {
    // `advisories` is left out: it fetches a database from GitHub, and this must also pass where only the
    // package registry can be reached. `cargo deny check advisories` does it on a machine that can.
    let mut command = Command::new(DENY.get()?);
    command.args(["--workspace", "--all-features", "--locked", "check", "licenses", "bans", "sources"]);
    project::run(command.current_dir(root()))
}
