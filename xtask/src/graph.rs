//! The diagram of our crates and their dependencies in ARCHITECTURE.md: generated from `cargo metadata`, so that it is
//! never out of date.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::project::{cargo, read, root};

const PAGE: &str = "ARCHITECTURE.md";

/// The lines before and after the diagram.
const FROM: &str = "<!-- crates: written by `cargo xtask schemas` -->\n";
const TO: &str = "<!-- end of crates -->\n";

/// Writes the diagram again.
pub(crate) fn write() -> Result<()> {
    let page = read(&root().join(PAGE))?;
    fs::write(root().join(PAGE), replaced(&page, &picture()?)?)
        .with_context(|| format!("cannot write `{PAGE}`"))?;
    println!("wrote {PAGE}");
    Ok(())
}

fn replaced(page: &str, picture: &str) -> Result<String> {
    let marks = || format!("{PAGE} has no place for the diagram of the crates");
    let (before, rest) = page.split_once(FROM).with_context(marks)?;
    let (_, after) = rest.split_once(TO).with_context(marks)?;
    Ok(format!("{before}{FROM}{picture}{TO}{after}"))
}

fn picture() -> Result<String> {
    let output = cargo(["metadata", "--format-version", "1", "--no-deps", "--offline"]).output()?;
    Ok(drawn(&serde_json::from_slice(&output.stdout).context("cannot read the output of `cargo metadata`")?))
}

/// A line for each crate that uses other crates of ours, without those that only tests use.
fn drawn(metadata: &Value) -> String {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let ours: BTreeSet<&str> = packages().filter_map(|package| package["name"].as_str()).collect();
    let short = |name: &str| name.strip_prefix("portolan-").unwrap_or(name).to_owned();
    let mut lines: Vec<(String, BTreeSet<String>)> = packages()
        .filter_map(|package| {
            let used = package["dependencies"].as_array()?.iter().filter(|used| used["kind"].is_null());
            let names = used.filter_map(|used| used["name"].as_str()).filter(|name| ours.contains(name));
            Some((short(package["name"].as_str()?), names.map(short).collect()))
        })
        .collect();
    lines.sort();
    let mut text = String::from("\n");
    for (name, used) in lines.iter().filter(|(_, used)| !used.is_empty()) {
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        let _ = writeln!(text, "    {name:<10} -> {}", used.join(", "));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagram_of_the_crates_is_up_to_date() {
        let page = read(&root().join(PAGE)).unwrap();
        let drawn = replaced(&page, &picture().unwrap()).unwrap();
        assert!(page == drawn, "the diagram of the crates in {PAGE} is old; run `cargo xtask schemas`");
    }

    #[test]
    fn a_crate_shows_the_crates_of_ours_that_it_is_built_with() {
        let metadata = serde_json::json!({"packages": [
            {"name": "portolan", "dependencies": [
                {"name": "portolan-core", "kind": null}, {"name": "tokio", "kind": null},
                {"name": "portolan-testkit", "kind": "dev"},
            ]},
            {"name": "portolan-core", "dependencies": []},
            {"name": "portolan-testkit", "dependencies": []},
        ]});
        assert_eq!(drawn(&metadata), "\n    portolan   -> core\n\n");
    }
}
