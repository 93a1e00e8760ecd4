//! Instructions: how many a hot path takes, counted by valgrind. The count does not depend on the machine's load, so a
//! test can compare it with a limit.
//!
//! A path is a test that does something [`rounds`] times. [`per_round`] runs only that test under valgrind, with this
//! many rounds and with twice as many; the difference excludes everything that happens once.

use std::process::Command;

/// Passes the number of rounds to the counted test.
const ROUNDS: &str = "PORTOLAN_COUNTED_ROUNDS";

/// Rounds of the shorter run: enough that occasional work (a buffer grows) shows, and a second's work.
const FEW: u64 = 1000;

/// The number of rounds of a counted test; one if nobody counts.
pub fn rounds() -> u64 {
    std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// The instructions that one round of this test takes. The name is in the form of `--exact`.
///
/// # Panics
/// When valgrind is missing, or the test fails.
pub fn per_round(test: &str) -> u64 {
    count(test, 2 * FEW).saturating_sub(count(test, FEW)) / FEW
}

#[expect(clippy::expect_used, reason = "a test that cannot count has failed")]
fn count(test: &str, rounds: u64) -> u64 {
    let ourselves = std::env::current_exe().expect("a test knows its program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(&ourselves)
        .args(["--exact", test, "--test-threads=1"])
        .env(ROUNDS, rounds.to_string())
        .output()
        .expect("this test needs valgrind; `cargo xtask test --stage tools` installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && ran.contains("1 passed"), "`{test}` did not run: {ran}\n{said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, count) = collected.expect("valgrind reports the number of instructions");
    count.trim().parse().expect("a number")
}
