//! The ledger: coverage/seeds.tsv, one row for each requirement.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::project::read;

const HEADER: &str = "id\tkind\twhat\tcorrection\tissue";

/// One requirement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) what: String,
    pub(super) correction: String,
    pub(super) part: String,
}

/// All rows, in the order of the file.
#[derive(Debug)]
pub(super) struct Ledger {
    rows: Vec<Row>,
    ids: BTreeSet<String>,
}

impl Ledger {
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::parse(&read(path)?).with_context(|| format!("`{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != HEADER) {
            bail!("the first line must be `{}`", HEADER.replace('\t', " "));
        }
        let mut ledger = Self { rows: Vec::new(), ids: BTreeSet::new() };
        for (index, line) in lines {
            let number = index + 1;
            let [id, kind, what, correction, part] = line.split('\t').collect::<Vec<_>>()[..] else {
                bail!("line {number}: want 5 columns, found {}", line.split('\t').count());
            };
            if !is_id(id) {
                bail!("line {number}: `{id}` is not an id; want three digits, a dash, three digits");
            }
            if !ledger.ids.insert(id.to_owned()) {
                bail!("line {number}: the id `{id}` occurs twice");
            }
            ledger.rows.push(Row {
                id: id.to_owned(),
                kind: kind.to_owned(),
                what: what.to_owned(),
                correction: correction.to_owned(),
                part: part.to_owned(),
            });
        }
        Ok(ledger)
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

/// Three digits, a dash, three digits.
pub(super) fn is_id(text: &str) -> bool {
    let digits = |part: &str| part.len() == 3 && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('-').is_some_and(|(seed, number)| digits(seed) && digits(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::root;

    #[test]
    fn the_ledger_of_this_project_is_valid() {
        let ledger = Ledger::read(&root().join("coverage/seeds.tsv")).unwrap();
        assert!(ledger.has("000-001"));
        assert_eq!(ledger.rows().len(), ledger.ids.len());
    }

    #[test]
    fn an_invalid_ledger_is_refused_with_its_line() {
        let refused = |text: &str| Ledger::parse(text).unwrap_err().to_string();
        let with = |row: &str| format!("{HEADER}\n{row}\n");
        assert_eq!(refused(""), "the first line must be `id kind what correction issue`");
        assert_eq!(refused(&with("000-001\tflow")), "line 2: want 5 columns, found 2");
        assert_eq!(
            refused(&with("0-1\tflow\ta\t\tspine")),
            "line 2: `0-1` is not an id; want three digits, a dash, three digits"
        );
        let row = "000-001\tflow\ta\t\tspine";
        assert_eq!(refused(&with(&format!("{row}\n{row}"))), "line 3: the id `000-001` occurs twice");
    }
}
