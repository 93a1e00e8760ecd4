//! Generated files: schemas/ and the reference pages of docs/ are made from the code and checked in.
//!
//! The schemas are compared by a test that also writes them when the variable `UPDATE` is set; the pages are what
//! the hidden verb `portolan reference` prints. So what CI compares is what `cargo xtask schemas` writes.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::project::{cargo, read, root, run};

/// The pages, by the name that the verb takes.
const PAGES: [(&str, &str); 2] = [("cli", "docs/cli.md"), ("configuration", "docs/configuration.md")];

/// Writes everything anew.
pub(crate) fn write() -> Result<()> {
    run(schemas().env("UPDATE", "1"))?;
    for (name, path) in PAGES {
        let page = page(name)?;
        fs::write(root().join(path), page).with_context(|| format!("cannot write `{path}`"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails where a file in the clone differs from what the code gives.
pub(crate) fn check() -> Result<()> {
    run(schemas().env_remove("UPDATE"))?;
    for (name, path) in PAGES {
        if read(&root().join(path))? != page(name)? {
            bail!("{path} is not what the code says; run `cargo xtask schemas` and commit the result");
        }
    }
    Ok(())
}

/// The test that compares schemas/ with the types.
fn schemas() -> std::process::Command {
    cargo(["test", "--quiet", "--package", "portolan-frontends", "--features", "schema", "--lib", "schema"])
}

fn page(name: &str) -> Result<String> {
    let output =
        cargo(["run", "--quiet", "--package", "portolan", "--bin", "portolan", "--", "reference", name])
            .output()
            .context("cannot start cargo")?;
    if !output.status.success() {
        bail!(
            "`portolan reference {name}` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`portolan reference {name}` printed no text"))
}
