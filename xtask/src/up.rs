//! `cargo xtask up`: from a fresh clone to a running Portolan.

use std::os::unix::process::CommandExt as _;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    page,
    project::{self, cargo},
};

/// Arguments of `up`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Build with optimisations. Off by default: the first such build takes many minutes on a small machine, and the
    /// difference is not noticeable with one person's sessions
    #[arg(long)]
    release: bool,
    /// Arguments for `portolan up`, such as `-- --listen 127.0.0.1:0`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Builds, then becomes `portolan up`.
pub(crate) fn run(options: &Options) -> Result<()> {
    page::build_where_possible()?;
    let profile: &[&str] = if options.release { &["--release"] } else { &[] };
    project::run(cargo(["build", "--package", "portolan", "--bins"]).args(profile))?;
    // Cargo knows the path of the program, and the program replaces both cargo and this process, so that Ctrl-C and
    // signals reach the daemon itself.
    let error = cargo(["run", "--quiet", "--package", "portolan", "--bin", "portolan"])
        .args(profile)
        .args(["--", "up"])
        .args(&options.arguments)
        .exec();
    Err(error).context("cannot start `portolan up`")
}
