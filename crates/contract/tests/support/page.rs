//! docs/compatibility.md: written from what ran, and compared with it.

use std::{fmt::Write as _, fs, io, path::PathBuf};

use portolan_contract::{Verdict, table};

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/compatibility.md"].iter().collect()
}

/// An agent's section of the page as it stands. Where `UPDATE` is set, it is first written anew.
pub(crate) fn section(agent: &str, as_it_ran: &str) -> io::Result<String> {
    let mut page = fs::read_to_string(path())?;
    if std::env::var_os("UPDATE").is_some_and(|update| !update.is_empty()) {
        page = table::replaced(&page, agent, as_it_ran);
        fs::write(path(), &page)?;
    }
    Ok(table::found(&page, agent).unwrap_or_default())
}

/// What came of every scenario, with the transcripts of those that failed.
pub(crate) fn told(columns: &[table::Column]) -> String {
    let mut told = String::new();
    for column in columns {
        for finding in &column.findings {
            let (title, name) = (&column.title, finding.scenario.name);
            let _ = write!(told, "{title}: {name}: {} ({:.1?})", finding.verdict, finding.took);
            match &finding.verdict {
                Verdict::Works => {}
                Verdict::NotOffered { why } | Verdict::Fails { why } => {
                    let _ = write!(told, ": {why}");
                }
            }
            told.push('\n');
            for kind in &finding.unknown {
                let _ = writeln!(told, "    not known to the adapter: {kind}");
            }
            for line in &finding.transcript {
                let _ = writeln!(told, "    {line}");
            }
        }
    }
    told
}
