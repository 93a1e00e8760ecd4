//! The time of the tests: by suite, and the slowest tests.
//!
//! nextest writes a report in JUnit format; this reads only three attributes, so it needs no XML parser.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use anyhow::Result;

use crate::project::{read, target};

/// How many tests are listed by name.
const SLOWEST: usize = 20;

/// Suites under this share of a minute are summed up in one line.
const WORTH_A_LINE: f64 = 3.0;

#[derive(Debug, PartialEq)]
struct Ran {
    suite: String,
    test: String,
    seconds: f64,
}

/// The path of the report of a profile.
pub(crate) fn report(profile: &str) -> PathBuf {
    target().join("nextest").join(profile).join("junit.xml")
}

/// Prints the table of times of the last run of this profile.
pub(crate) fn print(profile: &str) -> Result<()> {
    println!("{}", table(parse(&read(&report(profile))?)));
    Ok(())
}

fn parse(report: &str) -> Vec<Ran> {
    let cases = report.split("<testcase ").skip(1);
    cases
        .filter_map(|case| {
            let head = case.split('>').next()?;
            let attribute = |name: &str| {
                let (_, rest) = head.split_once(&format!("{name}=\""))?;
                Some(rest.split_once('"')?.0.to_owned())
            };
            Some(Ran {
                suite: attribute("classname")?,
                test: attribute(" name").or_else(|| attribute("name"))?,
                seconds: attribute(" time")?.parse().ok()?,
            })
        })
        .collect()
}

fn table(mut ran: Vec<Ran>) -> String {
    let mut suites: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for one in &ran {
        let (count, seconds) = suites.entry(&one.suite).or_default();
        *count += 1;
        *seconds += one.seconds;
    }
    let mut suites: Vec<_> = suites.into_iter().collect();
    suites.sort_by(|(_, a), (_, b)| b.1.total_cmp(&a.1));
    let mut table = String::from(
        "suite                                tests  seconds (all its tests; some ran in parallel)\n",
    );
    let (listed, rest): (Vec<_>, Vec<_>) =
        suites.into_iter().partition(|(_, (_, seconds))| *seconds >= WORTH_A_LINE);
    let rest = rest.iter().fold((0, 0.0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
    for (suite, (tests, seconds)) in listed.into_iter().chain([("all others", rest)]) {
        let _ = writeln!(table, "{suite:<36} {tests:>5} {seconds:>8.1}");
    }
    ran.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    table.push_str("\nthe slowest tests\n");
    for one in ran.iter().take(SLOWEST) {
        let _ = writeln!(table, "{:>8.1} {} {}", one.seconds, one.suite, one.test);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<testsuites name="nextest-run" tests="3" time="9.0">
        <testsuite name="portolan-core" tests="2">
            <testcase name="log::a_gap" classname="portolan-core" timestamp="2026-11-16T10:00:00+00:00" time="0.500"/>
            <testcase name="log::b" classname="portolan-core" timestamp="2026-11-16T10:00:00+00:00" time="0.250">
            </testcase>
        </testsuite>
        <testsuite name="portolan::claude" tests="1">
            <testcase name="c" classname="portolan::claude" timestamp="2026-11-16T10:00:00+00:00" time="8.000"/>
        </testsuite>
    </testsuites>"#;

    #[test]
    fn suites_are_sorted_by_time_and_small_suites_share_one_line() {
        assert_eq!(
            table(parse(REPORT)),
            "suite                                tests  seconds (all its tests; some ran in parallel)\n\
             portolan::claude                         1      8.0\n\
             all others                               2      0.8\n\
             \n\
             the slowest tests\n     \
             8.0 portolan::claude c\n     \
             0.5 portolan-core log::a_gap\n     \
             0.2 portolan-core log::b\n"
        );
    }
}
