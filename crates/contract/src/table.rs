//! The table: the results, as a page for people. One section per agent, between two marks, so that each agent's test
//! owns its own part of the page.

use std::fmt::Write as _;

use crate::{Finding, Scenario};

/// One version of an agent on one transport, with the result of every scenario.
#[derive(Clone, Debug)]
pub struct Column {
    /// Version and transport.
    pub title: String,
    /// The results of the scenarios.
    pub findings: Vec<Finding>,
}

fn marks(agent: &str) -> (String, String) {
    (format!("<!-- contract: {agent} -->"), format!("<!-- end of contract: {agent} -->"))
}

/// The section of an agent: one row per scenario, one column per version and transport.
pub fn section(agent: &str, title: &str, columns: &[Column]) -> String {
    let (begin, end) = marks(agent);
    let mut page = format!("{begin}\n## {title}\n\n| | |");
    for column in columns {
        let _ = write!(page, " {} |", column.title);
    }
    page.push_str("\n|---|---|");
    page.push_str(&"---|".repeat(columns.len()));
    page.push('\n');
    for scenario in Scenario::all() {
        let _ = write!(page, "| `{}` | {} |", scenario.name, scenario.says.trim_end_matches('.'));
        for column in columns {
            let found = column.findings.iter().find(|finding| finding.scenario.name == scenario.name);
            let verdict = found.map_or_else(|| "not run".to_owned(), |finding| finding.verdict.to_string());
            let _ = write!(page, " {verdict} |");
        }
        page.push('\n');
    }
    let _ = writeln!(page, "{end}");
    page
}

/// The current section of an agent in a page.
pub fn found(page: &str, agent: &str) -> Option<String> {
    let (begin, end) = marks(agent);
    let from = page.find(&begin)?;
    let upto = from + page[from..].find(&end)? + end.len();
    Some(format!("{}\n", &page[from..upto]))
}

/// The page with this section in place of the old one, or at its end.
pub fn replaced(page: &str, agent: &str, section: &str) -> String {
    match found(page, agent) {
        Some(old) => page.replacen(old.trim_end(), section.trim_end(), 1),
        None => format!("{}\n\n{section}", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Verdict;

    fn column() -> Column {
        let verdicts = [
            Verdict::Works,
            Verdict::NotOffered { why: "it".into() },
            Verdict::NotTested { why: "it".into() },
            Verdict::Fails { why: "for a reason".into() },
        ];
        let finding = |(scenario, verdict)| Finding {
            scenario,
            verdict,
            took: Duration::ZERO,
            unknown: Vec::new(),
            transcript: Vec::new(),
        };
        Column {
            title: "1.0, stdio".into(),
            findings: Scenario::all().into_iter().zip(verdicts).map(finding).collect(),
        }
    }

    #[test]
    fn a_section_has_a_row_for_every_scenario_and_says_what_did_not_run() {
        let section = section("demo", "Demo", &[column()]);
        assert_eq!(section.lines().filter(|line| line.starts_with("| `")).count(), Scenario::all().len());
        assert!(section.contains("| | | 1.0, stdio |\n|---|---|---|\n| `text` |"), "{section}");
        for verdict in ["| works |", "| not offered |", "| not tested |", "| fails |", "| not run |"] {
            assert!(section.contains(verdict), "{verdict} is missing in {section}");
        }
    }

    #[test]
    fn a_section_is_replaced_in_its_place_and_the_rest_of_the_page_is_unchanged() {
        let (old, new) = (section("demo", "Old", &[]), section("demo", "New", &[column()]));
        let page = replaced("# Page\n\nWords.\n", "demo", &old);
        assert_eq!(page, format!("# Page\n\nWords.\n\n{old}"));
        let page = replaced(&format!("{page}\nMore words.\n"), "demo", &new);
        assert_eq!(page, format!("# Page\n\nWords.\n\n{new}\nMore words.\n"));
        assert_eq!(found(&page, "demo"), Some(new));
        assert_eq!(found(&page, "other"), None);
    }
}
