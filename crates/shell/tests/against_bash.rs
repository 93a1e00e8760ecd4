//! The reading against the real Bash: what is accepted must be a command line for Bash too, and no program that
//! Bash runs may be missing in the parts.
//!
//! Not comparable here: builtins (they leave no record), what is hidden (nothing is promised), wrappers that are
//! not installed everywhere or need rights (`sudo` and `ssh` are recorders, so they show up as themselves), and
//! which of two branches Bash takes (the parts name both).

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Bench, accepts, commands, is_there, missing};

/// Command lines, one in each line; `␤` stands for a new line in them. Read here, and taken by Bash. The programs
/// `a`, `b`, `c`, `d` and some with known names only write down their words.
const READ: &str = include_str!("lines/read.txt");

/// Refused here, and by Bash.
const REFUSED: &str = include_str!("lines/refused.txt");

/// Refused here, although Bash takes them: their meaning is too hard to be sure of.
const NOT_KNOWN: &str = include_str!("lines/not_known.txt");

/// The command lines in a text.
fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(|line| line.replace('␤', "\n")).collect()
}

/// Calls `check` for every line, on a few threads: most of the time goes into starting programs.
fn for_each(lines: &[String], check: impl Fn(&str) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(line);
                }
            });
        }
    });
}

#[test]
fn every_line_of_the_list_is_read_and_bash_takes_it_too() {
    if !is_there() {
        return;
    }
    for_each(&lines(READ), |line| {
        if let Err(error) = portolan_shell::read(line) {
            panic!("{error}: {line}");
        }
        assert!(accepts(line), "bash refuses {line}");
    });
}

#[test]
fn nothing_that_bash_runs_is_missing_in_the_parts() {
    if !is_there() {
        return;
    }
    let bench = Bench::new();
    let recorded = AtomicUsize::new(0);
    for_each(&lines(READ), |line| {
        let script = portolan_shell::read(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let runs = bench.run(line);
        recorded.fetch_add(runs.len(), Ordering::Relaxed);
        let missing = missing(&script, &runs);
        assert!(
            missing.is_empty(),
            "{line}\nran {missing:?}\nread {:#?}",
            commands(&script).collect::<Vec<_>>()
        );
    });
    // Should the recorders stop to work, this test would find nothing to compare.
    assert!(recorded.into_inner() > lines(READ).len() / 2);
}

#[test]
fn what_bash_refuses_is_not_read() {
    if !is_there() {
        return;
    }
    for_each(&lines(REFUSED), |line| {
        assert!(!accepts(line), "bash takes {line}");
        assert!(portolan_shell::read(line).is_err(), "{line}");
    });
}

#[test]
fn what_is_not_known_is_not_read_although_bash_takes_it() {
    for line in lines(NOT_KNOWN) {
        assert!(portolan_shell::read(&line).is_err(), "{line}");
    }
}
