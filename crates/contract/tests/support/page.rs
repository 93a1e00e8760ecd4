//! docs/compatibility.md: written from the results, and compared with them.

use std::{fmt::Write as _, fs, io, path::PathBuf};

use portolan_contract::{
    Scenario, Verdict,
    table::{self, Column},
};

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/compatibility.md"].iter().collect()
}

/// The scenarios that `SCENARIO` names, separated by commas; all if it is not set.
pub(crate) fn chosen<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> Vec<&'a Scenario> {
    let wanted = wanted();
    let is_wanted =
        |name: &str| wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|wanted| wanted == name));
    scenarios.into_iter().filter(|scenario| is_wanted(scenario.name)).collect()
}

fn wanted() -> Option<String> {
    std::env::var("SCENARIO").ok()
}

/// Fails if the results differ from the page, or if the agent sends messages that its adapter does not know.
pub(crate) fn compare(agent: &str, title: &str, columns: &[Column]) {
    let mut findings = columns.iter().flat_map(|column| &column.findings);
    assert!(
        findings.all(|finding| finding.unknown.is_empty()),
        "a pinned version sends messages that its adapter does not know; see above"
    );
    if wanted().is_some() {
        return;
    }
    let ran = table::section(agent, title, columns);
    let stands = section(agent, &ran).unwrap_or_else(|error| panic!("docs/compatibility.md: {error}"));
    let is_other = |line: &&str| !stands.lines().any(|stands| stands == *line);
    let other = ran.lines().filter(is_other).collect::<Vec<_>>().join("\n");
    assert!(
        stands == ran,
        "docs/compatibility.md differs from this run. These rows differ:\n{other}\n{}If the new rows are \
         right, run this test with UPDATE=1 and commit the page.",
        told(&with_other_rows(columns, &other))
    );
}

fn with_other_rows(columns: &[Column], other: &str) -> Vec<Column> {
    let is_other = |name: &str| other.contains(&format!("| `{name}` |"));
    let mut columns = columns.to_vec();
    for column in &mut columns {
        column.findings.retain(|finding| is_other(finding.scenario.name));
    }
    columns
}

/// An agent's current section of the page. If `UPDATE` is set, it is first written again.
fn section(agent: &str, as_it_ran: &str) -> io::Result<String> {
    let mut page = fs::read_to_string(path())?;
    if std::env::var_os("UPDATE").is_some_and(|update| !update.is_empty()) {
        page = table::replaced(&page, agent, as_it_ran);
        fs::write(path(), &page)?;
    }
    Ok(table::found(&page, agent).unwrap_or_default())
}

/// The results of all scenarios, with the transcripts of those that failed.
pub(crate) fn told(columns: &[Column]) -> String {
    let mut told = String::new();
    for column in columns {
        for finding in &column.findings {
            let (title, name) = (&column.title, finding.scenario.name);
            let _ = write!(told, "{title}: {name}: {} ({:.1?})", finding.verdict, finding.took);
            match &finding.verdict {
                Verdict::Works => {}
                Verdict::NotOffered { why } | Verdict::NotTested { why } | Verdict::Fails { why } => {
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
