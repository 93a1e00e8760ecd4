//! A corpus of command lines with the verdict that docs/policy.md demands, under thirteen sets of rules. The corpus was written
//! from that page alone.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at once")]

use std::{collections::BTreeMap, path::PathBuf};

use portolan_core::{
    Actor, Millis,
    policy::{
        Call, Decision, Effect, Facts, Mode, Reading, Rule, RuleDraft, RuleId, RuleScope, RuleSet, Situation,
        decide,
        facts::Place,
        rule::{Identity, ScopeDraft},
    },
};
use serde_json::json;

const SETS: &str = include_str!("policy_corpus/rule_sets.toml");
const COMMANDS: &str = include_str!("policy_corpus/commands.tsv");

struct Set {
    mode: Mode,
    rules: RuleSet,
}

fn rule(number: usize, line: &str) -> Rule {
    let (effect, text) = line.split_once(' ').expect("an effect, then a tool");
    let draft = RuleDraft::new(effect.parse::<Effect>().unwrap(), text, ScopeDraft::User);
    draft.into_rule(RuleId(format!("rule{number:04}")), RuleScope::User, Millis(0), Actor::Daemon)
}

fn sets() -> BTreeMap<String, Set> {
    let read: toml::Table = SETS.parse().unwrap();
    let sets = read["set"].as_array().unwrap();
    sets.iter()
        .map(|set| {
            let lines = set["rules"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
            let (rules, unreadable) =
                RuleSet::new(lines.enumerate().map(|(number, line)| rule(number, line)));
            let name = set["name"].as_str().unwrap().to_owned();
            assert_eq!(unreadable, [], "{name}");
            (name, Set { mode: set["mode"].as_str().unwrap().parse().unwrap(), rules })
        })
        .collect()
}

/// The facts about `/home/ada/shop`, which has no links.
fn facts(reading: &Reading<'_>) -> Facts {
    let folder = PathBuf::from("/home/ada/shop");
    let place = |path: &String| {
        let mut lies = PathBuf::new();
        let at_home = path.strip_prefix("~/").map(|rest| PathBuf::from("/home/ada").join(rest));
        for part in at_home.unwrap_or_else(|| folder.join(path)).components() {
            match part {
                std::path::Component::ParentDir => {
                    lies.pop();
                }
                std::path::Component::CurDir => {}
                part => lies.push(part),
            }
        }
        (path.clone(), Place { lies: vec![lies], is_ordinary: true })
    };
    let above =
        folder.ancestors().map(|above| (above.to_owned(), Identity { device: 1, inode: 1 })).collect();
    Facts {
        places: reading.paths().iter().map(place).collect(),
        home: Some("/home/ada".into()),
        own: vec!["/home/ada/.local/share/portolan".into()],
        folder,
        above,
        ..Facts::default()
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut left = text.chars();
    while let Some(c) = left.next() {
        match c {
            '\\' => match left.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

// covers: 002-063
#[test]
fn every_command_of_the_corpus_gets_the_verdict_that_the_docs_demand() {
    let sets = sets();
    assert!(sets.len() >= 10, "{} sets", sets.len());
    let (mut commands, mut verdicts, mut wrong) = (0, 0, Vec::new());
    for line in COMMANDS.split('\n').filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (command, expected) = line.split_once('\t').unwrap_or_else(|| panic!("no verdict: {line}"));
        let input = json!({ "command": unescaped(command) });
        let reading = Reading::of(Call::new("Bash", &input));
        let facts = facts(&reading);
        commands += 1;
        for verdict in expected.split(',') {
            let (set, verdict) = verdict.trim().split_once('=').unwrap();
            let Set { mode, rules } = &sets[set];
            let situation =
                Situation { session: None, mode: *mode, rules: &[rules], facts: &facts, now: Millis(1) };
            let judged = decide(&reading, situation);
            verdicts += 1;
            if judged.decision.word() != verdict {
                let (is, why) = (judged.decision.word(), &judged.why);
                let by: Vec<_> = judged.rules.iter().map(|rule| &rule.line).collect();
                wrong.push(format!("{set}: {command}\n    is {is}, should be {verdict}: {why} {by:?}"));
            }
            if judged.decision == Decision::Allow && portolan_shell::read(&unescaped(command)).is_err() {
                assert_eq!(*mode, Mode::BypassPermissions, "what cannot be read was allowed: {command}");
            }
        }
    }
    assert!(commands >= 400, "{commands} commands");
    assert!(wrong.is_empty(), "{} of {verdicts} verdicts differ:\n{}", wrong.len(), wrong.join("\n"));
}
