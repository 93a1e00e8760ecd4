//! A bounded share of every fault, against the real program. `cargo xtask soak` runs the full counts.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says what it did, and what it expects by failing"
)]

use portolan_soak::faults::{ALL, Extent, Run};

/// Another one each hour: in time CI sees many runs, and a failure says which it was.
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
fn fifty_answers_at_once_are_one_answer() {
    share("answers");
}

#[test]
fn a_client_that_stops_reading_costs_nobody_anything_and_catches_up() {
    share("stalled");
}

#[test]
fn a_client_that_keeps_coming_back_sees_everything_once() {
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
fn an_agent_that_misbehaves_is_told_of_and_disturbs_nobody() {
    share("agents");
}

#[test]
fn a_full_disk_loses_nothing_and_everything_goes_on_after_it() {
    share("disk-full");
}

#[test]
fn a_locked_database_loses_nothing_and_everything_goes_on_after_it() {
    share("disk-locked");
}

#[test]
fn a_read_only_home_is_told_of_and_nothing_is_changed() {
    share("read-only");
}

#[test]
fn a_taken_port_and_a_second_daemon_are_told_of_and_leave_nothing_behind() {
    share("neighbours");
}

#[test]
fn a_long_history_opens_as_fast_as_a_short_one() {
    share("history");
}
