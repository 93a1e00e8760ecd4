//! Measures a decision of policy: a command of 200 characters under 1,000 rules. The floor compares the text of the
//! command with the beginning of every rule, which is the least that any rules cost.
//!
//! ```sh
//! cargo run --release -p portolan-bench --example decision
//! ```
#![expect(clippy::print_stdout, reason = "a command line tool prints to its terminal")]

use std::{hint::black_box, process::ExitCode};

use portolan_core::{
    Actor, Millis,
    policy::{
        Call, Decision, Effect, Facts, Mode, Reading, Rule, RuleDraft, RuleId, RuleScope, RuleSet, Situation,
        decide, rule::ScopeDraft,
    },
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const RULES: usize = 1000;

/// The limit for one decision.
const MOST_US: f64 = 50.0;

const ROUNDS: usize = 9;
const TIMES: u32 = 2000;

/// 200 characters, and as many parts as people see in practice.
const COMMAND: &str = "cd crates/core && RUST_BACKTRACE=1 timeout 300 cargo test --workspace --all-features \
     2>&1 | tee /tmp/test.log | grep -E 'FAILED|panicked' | head -n 40; git -C . status --short && echo 'done: all fine'";

fn rule(number: usize) -> Rule {
    let (effect, text) = match number % 10 {
        0 => (Effect::Deny, format!("Bash(tool{number} push --force)")),
        1 => (Effect::Ask, format!("Bash(tool{number} publish *)")),
        2 | 3 => (Effect::Allow, format!("Edit(src/module{number}/**)")),
        4 => (Effect::Allow, format!("WebFetch(*.host{number}.example)")),
        5 => (Effect::Allow, format!("mcp__server{number}__*")),
        _ => (Effect::Allow, format!("Bash(tool{number} run *)")),
    };
    let draft = RuleDraft::new(effect, text, ScopeDraft::User);
    draft.into_rule(RuleId(format!("r{number}")), RuleScope::User, Millis(0), Actor::Daemon)
}

/// The processor time of this thread: other programs on the machine do not count.
fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The median over the rounds, in microseconds for one time.
fn median_us(mut work: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = processor_us();
            (0..TIMES).for_each(|_| work());
            (processor_us() - start) / f64::from(TIMES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() -> ExitCode {
    let all: Vec<Rule> = (0..RULES).map(rule).collect();
    let (rules, unreadable) = RuleSet::new(all.iter().cloned());
    assert!(unreadable.is_empty() && COMMAND.len() == 200, "{} characters", COMMAND.len());
    let input = json!({ "command": COMMAND });
    let facts = Facts { folder: "/home/ada/shop".into(), ..Facts::default() };
    let ours = median_us(|| {
        let reading = Reading::of(Call::new("Bash", black_box(&input)));
        let situation =
            Situation { session: None, mode: Mode::Default, rules: &[&rules], facts: &facts, now: Millis(1) };
        assert_eq!(decide(&reading, situation).decision, Decision::Ask);
    });
    let floor = median_us(|| {
        let starts = all.iter().filter(|rule| black_box(COMMAND).starts_with(rule.text.as_str()));
        assert_eq!(black_box(starts.count()), 0);
    });
    println!("a decision with {RULES} rules (us): floor {floor:.1}, Portolan {ours:.1}, target <= {MOST_US}");
    if ours <= MOST_US { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
