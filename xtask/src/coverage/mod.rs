//! `cargo xtask coverage`: lists the rows of the ledger in coverage/ that no test names.
//!
//! The ledger lists the requirements; a comment above a test names the rows that the test covers. This only compares
//! the two: the reader of a test must judge whether the test really covers its rows.

mod ledger;
mod scan;

use std::{collections::BTreeSet, fmt::Write as _, io::Write as _, path::Path};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use self::{
    ledger::{Ledger, Row},
    scan::Scan,
};
use crate::project::root;

/// Arguments of `coverage`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Show only this part, such as `spine`
    #[arg(long)]
    part: Option<String>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// Prints the report. A row that no test names is not an error; an id that the ledger does not have is an error, and so
/// is a comment that is not above a test.
pub(crate) fn run(options: &Options) -> Result<()> {
    let report = Report::of(&root())?;
    let parts = report.parts(options.part.as_deref())?;
    if options.json {
        show(&format!("{}\n", report.json(&parts)));
    } else {
        show(&(counts(&parts) + &missing(&parts)));
    }
    report.verdict()
}

/// Prints only the counts; the same errors.
pub(crate) fn summarise() -> Result<()> {
    let report = Report::of(&root())?;
    show(&counts(&report.parts(None)?));
    report.verdict()
}
/// The report is long and often piped into `head`, which closes the pipe: that is not an error.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[derive(Debug)]
struct Report {
    ledger: Ledger,
    named: BTreeSet<String>,
    problems: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Part<'a> {
    name: &'a str,
    rows: usize,
    missing: Vec<&'a Row>,
}

impl Report {
    fn of(root: &Path) -> Result<Self> {
        let ledger = Ledger::read(&root.join("coverage/seeds.tsv"))?;
        let Scan { named, strays } = scan::tree(root)?;
        let mut problems = strays;
        for (id, place) in &named {
            if !ledger.has(id) {
                problems.push(format!("{place}: the ledger has no row `{id}`"));
            }
        }
        Ok(Self { ledger, named: named.into_iter().map(|(id, _)| id).collect(), problems })
    }

    fn verdict(&self) -> Result<()> {
        if !self.problems.is_empty() {
            bail!("wrong coverage comments:\n{}", self.problems.join("\n"));
        }
        Ok(())
    }

    fn parts(&self, only: Option<&str>) -> Result<Vec<Part<'_>>> {
        let mut parts: Vec<Part<'_>> = Vec::new();
        for row in self.ledger.rows() {
            if only.is_some_and(|only| only != row.part) {
                continue;
            }
            let index = parts.iter().position(|part| part.name == row.part).unwrap_or_else(|| {
                parts.push(Part { name: &row.part, rows: 0, missing: Vec::new() });
                parts.len() - 1
            });
            parts[index].rows += 1;
            if !self.named.contains(&row.id) {
                parts[index].missing.push(row);
            }
        }
        match only {
            Some(only) if parts.is_empty() => bail!("the ledger has no part `{only}`"),
            _ => Ok(parts),
        }
    }

    fn json(&self, parts: &[Part<'_>]) -> Value {
        let parts: Vec<Value> = parts
            .iter()
            .map(|part| {
                let missing: Vec<Value> = part
                    .missing
                    .iter()
                    .map(|row| json!({"id": row.id, "kind": row.kind, "what": row.what, "correction": row.correction}))
                    .collect();
                json!({"part": part.name, "rows": part.rows, "named": part.rows - part.missing.len(), "missing": missing})
            })
            .collect();
        json!({"parts": parts, "problems": self.problems})
    }
}

/// The table of counts.
fn counts(parts: &[Part<'_>]) -> String {
    let mut text = format!("{:<10} {:>6} {:>6}\n", "part", "rows", "named");
    for part in parts {
        let _ = writeln!(text, "{:<10} {:>6} {:>6}", part.name, part.rows, part.rows - part.missing.len());
    }
    text
}

/// The rows that no test names.
fn missing(parts: &[Part<'_>]) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.missing.is_empty()) {
        let _ = writeln!(text, "\n{}: rows that no test names: {}", part.name, part.missing.len());
        for row in &part.missing {
            let _ = writeln!(text, "  {}  {:<10}  {}", row.id, row.kind, row.what);
            if !row.correction.is_empty() {
                let _ = writeln!(text, "                       -> {}", row.correction);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LEDGER: &str = "id\tkind\twhat\tcorrection\tissue\n\
        000-001\tflow\tIt starts.\t\tspine\n\
        000-002\terror\tIt says why.\tin one line\tspine\n\
        000-003\tflow\tIt flies.\t\tlater\n";

    fn clone_with(test: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("coverage")).unwrap();
        fs::write(folder.path().join("coverage/seeds.tsv"), LEDGER).unwrap();
        fs::write(folder.path().join("a.rs"), test).unwrap();
        folder
    }

    #[test]
    fn the_report_counts_rows_by_part_and_lists_the_rows_that_no_test_names() {
        let folder = clone_with(&format!("// {} 000-001\n#[test]\nfn starts() {{}}\n", scan::MARK));
        let report = Report::of(folder.path()).unwrap();
        let parts = report.parts(None).unwrap();
        assert_eq!(
            counts(&parts),
            "part         rows  named\n\
             spine           2      1\n\
             later           1      0\n"
        );
        assert_eq!(
            missing(&parts),
            "\nspine: rows that no test names: 1\n\
             \x20 000-002  error       It says why.\n\
             \x20                      -> in one line\n\
             \nlater: rows that no test names: 1\n\
             \x20 000-003  flow        It flies.\n"
        );
        assert_eq!(
            report.json(&report.parts(Some("later")).unwrap()),
            json!({"parts": [{"part": "later", "rows": 1, "named": 0, "missing": [
                {"id": "000-003", "kind": "flow", "what": "It flies.", "correction": ""}
            ]}], "problems": []})
        );
        assert_eq!(report.parts(Some("never")).unwrap_err().to_string(), "the ledger has no part `never`");
    }

    #[test]
    fn an_id_that_the_ledger_lacks_is_reported_with_its_place() {
        let folder = clone_with(&format!("\n// {} 009-001\n#[test]\nfn starts() {{}}\n", scan::MARK));
        let report = Report::of(folder.path()).unwrap();
        assert_eq!(report.problems, ["a.rs:2: the ledger has no row `009-001`"]);
    }
}
