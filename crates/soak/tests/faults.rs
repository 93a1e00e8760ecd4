//! A bounded share of every fault, against the real program. `cargo xtask soak` runs the full counts.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test prints what it did, and fails if something is wrong"
)]

use portolan_soak::faults::{ALL, Extent, Run};

/// A new seed each hour: over time CI runs many seeds, and a failure names its seed.
fn seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() / 3600)
}

fn share(name: &str) {
    let seed = seed();
    println!("cargo xtask soak --only {name} --seed {seed}");
    let fault = ALL.iter().find(|fault| fault.name == name).expect("a fault of this name");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let ran =
        runtime.block_on(async { tokio::spawn((fault.run)(Run { seed, extent: Extent::Share })).await });
    match ran.expect("no panic") {
        Ok(tally) => println!("{}: {}", tally.count, tally.found),
        Err(error) => panic!("seed {seed}: {error:#}"),
    }
}

#[test]
fn of_fifty_answers_at_once_one_counts() {
    share("answers");
}

#[test]
fn a_client_that_stops_reading_slows_nobody_down_and_catches_up() {
    share("stalled");
}

#[test]
fn a_client_that_keeps_reconnecting_sees_everything_once() {
    share("reconnects");
}

#[test]
fn a_killed_daemon_loses_nothing_that_anybody_saw() {
    share("kills");
}

#[test]
fn a_killed_daemon_with_claude_code_loses_nothing_that_anybody_saw() {
    share("kills-claude");
}

#[test]
fn a_daemon_that_is_killed_beside_living_agents_loses_and_doubles_nothing() {
    share("outliving");
}

#[test]
fn a_daemon_that_is_killed_beside_claude_code_loses_and_doubles_nothing() {
    share("outliving-claude");
}

#[test]
fn a_daemon_that_is_killed_beside_codex_loses_and_doubles_nothing() {
    share("outliving-codex");
}

#[test]
fn an_upgrade_takes_over_running_agents() {
    share("upgrades");
}

#[test]
fn an_agent_that_talks_without_a_daemon_loses_nothing() {
    share("away");
}

#[test]
fn a_killed_holder_leaves_nothing_open_and_no_process() {
    share("holders");
}

#[test]
fn an_agent_that_misbehaves_is_reported_and_disturbs_nobody() {
    share("agents");
}

#[test]
fn a_full_disk_loses_nothing_and_everything_works_after_it() {
    share("disk-full");
}

#[test]
fn a_locked_database_loses_nothing_and_everything_works_after_it() {
    share("disk-locked");
}

#[test]
fn a_read_only_home_is_reported_and_nothing_is_changed() {
    share("read-only");
}

#[test]
fn a_taken_port_and_a_second_daemon_are_reported_and_leave_nothing_behind() {
    share("neighbours");
}

#[test]
fn a_long_history_opens_as_fast_as_a_short_one() {
    share("history");
}
