//! What is checked before a rule is saved: its text, its limits and its examples. Pure.

use std::path::PathBuf;

use super::{
    cover::{Cover, Ready},
    facts::{Facts, Place},
    reading::Reading,
    rule::{BadRule, COMMENT, EXAMPLES, Effect, Example, Rule, RuleDraft, RuleId, RuleScope},
    tool::Call,
};
use crate::{Actor, Millis};

/// The longest time until a rule ends, in seconds: ten years. A larger number is a mistake.
const LONGEST: u64 = 10 * 366 * 24 * 60 * 60;

/// Is this a rule that can be saved? The reason if not.
pub fn draft(draft: &RuleDraft) -> Result<(), BadRule> {
    let bad = |why: String| Err(BadRule(why));
    if draft.comment.as_ref().is_some_and(|comment| comment.chars().count() > COMMENT) {
        return bad(format!("a comment has at most {COMMENT} characters"));
    }
    if draft.comment.as_ref().is_some_and(|comment| comment.chars().any(char::is_control)) {
        return bad("a comment must be one line without control characters".into());
    }
    match draft.expires_in_seconds {
        Some(0) => return bad("a rule must hold for at least one second".into()),
        Some(seconds) if seconds > LONGEST => return bad("a rule holds for at most ten years".into()),
        Some(_) | None => {}
    }
    if draft.matches.len() + draft.does_not_match.len() > EXAMPLES {
        return bad(format!("a rule carries at most {EXAMPLES} examples"));
    }
    let rule = draft.clone().into_rule(RuleId(String::new()), RuleScope::User, Millis(0), Actor::Daemon);
    Ready::new(rule.clone())?;
    examples(&rule)
}

/// Do the examples that a rule carries hold? The reason if not.
fn examples(rule: &Rule) -> Result<(), BadRule> {
    if rule.matches.is_empty() && rule.does_not_match.is_empty() {
        return Ok(());
    }
    // An example is a call in any project, so relative patterns begin in the folder of the example.
    let ready = Ready::new(Rule { scope: RuleScope::User, ..rule.clone() })?;
    for (examples, wanted) in [(&rule.matches, true), (&rule.does_not_match, false)] {
        if let Some(wrong) = examples.iter().find(|example| covers(&ready, example) != wanted) {
            let input = wrong.input.to_string();
            let says = if wanted {
                "does not cover its example"
            } else {
                "covers the example that it must not cover:"
            };
            return Err(BadRule(format!("`{}` {says} `{} {input}`", rule.text, wrong.tool)));
        }
    }
    Ok(())
}

/// Why a stored rule is not in force. An allow rule whose examples no longer hold would allow something else than its
/// author has checked; a deny or an ask stays in force, since without it more would happen.
pub fn stored(rule: Rule) -> Result<Ready, BadRule> {
    let ready = Ready::new(rule)?;
    if ready.rule.effect == Effect::Allow {
        examples(&ready.rule)?;
    }
    Ok(ready)
}

/// Does a rule cover an example? Relative paths of an example lie in the session's folder, which has no links.
fn covers(ready: &Ready, example: &Example) -> bool {
    let reading = Reading::of(Call::new(&example.tool, &example.input));
    let folder = PathBuf::from("/example");
    let places = reading.paths().into_iter().map(|path| {
        let lies = vec![folder.join(&path)];
        (path, Place { lies, is_ordinary: true })
    });
    let facts = Facts { places: places.collect(), folder: folder.clone(), ..Facts::default() };
    let parts = reading.parts(&facts);
    match ready.rule.effect {
        Effect::Allow => {
            !parts.is_empty() && parts.iter().all(|part| ready.allows(&example.tool, part, &facts))
        }
        Effect::Ask | Effect::Deny => {
            parts.iter().any(|part| ready.touches(&example.tool, part, &facts) == Cover::Yes)
        }
    }
}

/// Does the rule itself decide about this call, whatever the other rules say?
pub fn decides(rule: &Rule, call: Call<'_>, facts: &Facts) -> bool {
    let Ok(ready) = Ready::new(rule.clone()) else { return false };
    let (tool, reading) = (call.tool.to_owned(), Reading::of(call));
    let parts = reading.parts(facts);
    match rule.effect {
        Effect::Allow => !parts.is_empty() && parts.iter().all(|part| ready.allows(&tool, part, facts)),
        Effect::Ask | Effect::Deny => {
            parts.iter().any(|part| ready.touches(&tool, part, facts) == Cover::Yes)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(effect: Effect, text: &str) -> RuleDraft {
        RuleDraft::new(effect, text, super::super::rule::ScopeDraft::User)
    }

    #[test]
    fn a_rule_is_refused_with_the_reason() {
        assert_eq!(draft(&rule(Effect::Allow, "Bash(npm run *)")), Ok(()));
        let why = |rule: RuleDraft| draft(&rule).unwrap_err().0;
        assert!(
            why(rule(Effect::Allow, "Bash(echo 'x)")).starts_with("the pattern `echo \\'x` is no command")
        );
        assert!(why(rule(Effect::Allow, "Edit(../x)")).contains("must not contain `..`"));
        assert!(why(rule(Effect::Allow, "@foo")).starts_with("unknown kind of tool `@foo`; use @read"));
        assert_eq!(
            why(RuleDraft { overridable: true, ..rule(Effect::Allow, "Bash") }),
            "only a deny can be overridable"
        );
        assert!(
            why(RuleDraft { expires_in_seconds: Some(0), ..rule(Effect::Allow, "Bash") })
                .contains("one second")
        );
        assert!(
            why(RuleDraft { comment: Some("a\nb".into()), ..rule(Effect::Allow, "Bash") })
                .contains("one line")
        );
        assert!(
            why(RuleDraft { comment: Some("a".repeat(501)), ..rule(Effect::Allow, "Bash") }).contains("500")
        );
    }

    #[test]
    fn an_example_that_is_wrong_refuses_the_rule() {
        let bash = |command: &str| Example { tool: "Bash".into(), input: json!({ "command": command }) };
        let with = |matches: &[&str], not: &[&str]| {
            draft(&RuleDraft {
                matches: matches.iter().map(|command| bash(command)).collect(),
                does_not_match: not.iter().map(|command| bash(command)).collect(),
                ..rule(Effect::Allow, "Bash(git status)")
            })
        };
        assert_eq!(with(&["git status", "git  'status'"], &["git push", "git status; rm x"]), Ok(()));
        assert_eq!(
            with(&["git push"], &[]).unwrap_err().0,
            "`Bash(git status)` does not cover its example `Bash {\"command\":\"git push\"}`"
        );
        assert!(with(&[], &["git status"]).unwrap_err().0.contains("must not cover"));
        let edits = RuleDraft {
            matches: vec![Example { tool: "Edit".into(), input: json!({ "file_path": "src/a.rs" }) }],
            does_not_match: vec![Example {
                tool: "Edit".into(),
                input: json!({ "file_path": "src/.git/x" }),
            }],
            ..rule(Effect::Allow, "Edit(src/**)")
        };
        assert_eq!(draft(&edits), Ok(()));
    }
}
