//! docs/compatibility.md: written from what ran, and compared with it.

use std::{fs, path::Path};

use portolan_contract::{Verdict, table};

/// Compares an agent's section of the page with what ran, or writes it where `UPDATE` is set.
pub(crate) fn compare(agent: &str, title: &str, columns: &[table::Column]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = fs::read_to_string(&path).expect("docs/compatibility.md");
    let section = table::section(agent, title, columns);
    if std::env::var_os("UPDATE").is_some_and(|update| !update.is_empty()) {
        fs::write(&path, table::replaced(&page, agent, &section)).expect("the page can be written");
        return;
    }
    let found = table::found(&page, agent).unwrap_or_default();
    assert_eq!(
        found, section,
        "docs/compatibility.md is not what ran; see above why, then run this test with UPDATE=1 and commit the page"
    );
}

/// Prints what failed, with the transcript.
pub(crate) fn tell(columns: &[table::Column]) {
    for column in columns {
        for finding in &column.findings {
            let name = finding.scenario.name;
            if !finding.unknown.is_empty() {
                println!(
                    "{}: {name}: not known to the adapter: {}",
                    column.title,
                    finding.unknown.join(", ")
                );
            }
            match &finding.verdict {
                Verdict::Works => println!("{}: {name}: works ({:.1?})", column.title, finding.took),
                Verdict::NotOffered { why } => println!("{}: {name}: not offered: {why}", column.title),
                Verdict::Fails { why } => {
                    println!("{}: {name}: FAILS ({:.1?}): {why}", column.title, finding.took);
                    for line in &finding.transcript {
                        println!("    {line}");
                    }
                }
            }
        }
    }
}
