//! Generated files: schemas/, the reference pages of docs/ and the diagram of the crates are generated from the code
//! and checked in.
//!
//! An ordinary test compares the schemas, and writes them when the variable `UPDATE` is set; the hidden verb `portolan
//! reference` prints the pages. So CI compares exactly what `cargo xtask schemas` writes.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{
    graph,
    project::{EVERYTHING, cargo, linting, read, root, run, target},
};

/// The pages, by the name that the verb takes.
const PAGES: [(&str, &str); 2] = [("cli", "docs/cli.md"), ("configuration", "docs/configuration.md")];

/// Writes everything again.
pub(crate) fn write() -> Result<()> {
    run(linting(cargo(["test", "--quiet", "--lib"]).args(EVERYTHING).arg("schema").env("UPDATE", "1")))?;
    run(linting(cargo(["build", "--quiet", "--all-targets"]).args(EVERYTHING)))?;
    for (name, path) in PAGES {
        let page = page(name)?;
        fs::write(root().join(path), page).with_context(|| format!("cannot write `{path}`"))?;
        println!("wrote {path}");
    }
    graph::write()
}

/// Fails if a page in the clone differs from the output of the program that was built last.
pub(crate) fn check() -> Result<()> {
    // Nothing to do after the stage `build`.
    run(linting(cargo(["build", "--quiet", "--all-targets"]).args(EVERYTHING)))?;
    for (name, path) in PAGES {
        if read(&root().join(path))? != page(name)? {
            bail!("{path} does not match the code; run `cargo xtask schemas` and commit the result");
        }
    }
    Ok(())
}

fn page(name: &str) -> Result<String> {
    let program = target().join("debug/portolan");
    let output = Command::new(&program)
        .args(["reference", name])
        .output()
        .with_context(|| format!("cannot start `{}`", program.display()))?;
    if !output.status.success() {
        bail!(
            "`portolan reference {name}` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`portolan reference {name}` printed no text"))
}
