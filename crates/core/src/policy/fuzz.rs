//! What must hold for any rules and any call: the body of a fuzz target in fuzz/, and of a test that plays its seeds
//! again.
//!
//! An input is a byte for the mode, a line for each rule, an empty line, and then a command line, or a call as JSON:
//! `{"tool": "Read", "input": {...}}`.

use serde_json::Value;

use super::{
    Call, Decision, Effect, Facts, Judgement, Mode, Reading, Rule, RuleId, RuleScope, RuleSet, Situation,
    decide, facts::Place, mode::MODES,
};
use crate::{Actor, Millis, SessionId};

/// More rules take longer and show nothing new.
const MOST_RULES: usize = 16;

/// Decides about any call under any rules. Nothing fails, and: what cannot be read is not allowed; the order of the rules
/// does not matter; a further deny never allows more; a further allow never lifts a deny.
pub fn decision(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let mode = MODES[usize::from(*choice) % MODES.len()];
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (rules, call) = text.split_once("\n\n").unwrap_or(("", text));
    let mut rules: Vec<Rule> = rules.lines().take(MOST_RULES).enumerate().filter_map(rule).collect();
    let told = serde_json::from_str::<Value>(call).ok();
    let told = told.as_ref().and_then(|told| Some((told.get("tool")?.as_str()?, told.get("input")?)));
    let line = serde_json::json!({ "command": call });
    let (tool, input) = told.unwrap_or(("Bash", &line));
    let reading = Reading::of(Call::new(tool, input));
    let facts = facts(&reading);
    let judge = |rules: &[Rule], mode: Mode| judge(&reading, rules, mode, &facts);
    let judged = judge(&rules, mode);
    assert!(!judged.why.is_empty(), "a decision says why");
    if matches!(reading.script(), Some(Err(_))) && mode != Mode::BypassPermissions {
        assert_ne!(judged.decision, Decision::Allow, "what cannot be read is not allowed");
    }
    rules.reverse();
    assert_eq!(judge(&rules, mode).decision, judged.decision, "the order of rules does not matter");
    let by_rule = judge(&rules, Mode::Default).decision == Decision::Deny;
    let firm = rules.iter().all(|rule| !rule.overridable);
    rules.extend(rule((MOST_RULES, "allow *")));
    if by_rule && firm {
        assert_eq!(judge(&rules, mode).decision, Decision::Deny, "an allow lifts no deny");
    }
    rules.pop();
    rules.extend(rule((MOST_RULES, "deny *(x*)")));
    if judged.decision != Decision::Allow {
        assert_ne!(judge(&rules, mode).decision, Decision::Allow, "a deny allows nothing");
    }
}

fn judge(reading: &Reading<'_>, rules: &[Rule], mode: Mode, facts: &Facts) -> Judgement {
    let (rules, _) = RuleSet::new(rules.iter().cloned());
    decide(reading, Situation { session: None, mode, rules: &[&rules], facts, now: Millis(1) })
}

/// A rule from its line; a `!` before the line makes a deny overridable.
fn rule((number, line): (usize, &str)) -> Option<Rule> {
    let (overridable, line) = line.strip_prefix('!').map_or((false, line), |line| (true, line));
    let (effect, text) = line.split_once(' ')?;
    let effect = effect.parse::<Effect>().ok()?;
    let of_session = Rule::of_session(
        SessionId::from_u128(7),
        crate::Seq(1),
        Millis(0),
        Some(&Actor::Daemon),
        effect,
        text,
    );
    let overridable = overridable && effect == Effect::Deny;
    Some(Rule { rule: RuleId(format!("r{number}")), scope: RuleScope::User, overridable, ..of_session })
}

/// Every path lies where its text says, below `/work`.
fn facts(reading: &Reading<'_>) -> Facts {
    let folder = std::path::PathBuf::from("/work");
    let place = |path: String| {
        let lies = vec![folder.join(&path)];
        (path, Place { lies, is_ordinary: true })
    };
    Facts {
        places: reading.paths().into_iter().map(place).collect(),
        folder: folder.clone(),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/policy_decision");
        let mut seeds = 0;
        for file in fs::read_dir(folder).unwrap() {
            super::decision(&fs::read(file.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "seeds are missing");
    }
}
