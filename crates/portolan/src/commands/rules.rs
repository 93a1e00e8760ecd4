//! rules list, add, edit, remove, test; explain; simulate: what agents may do without asking.

use std::{fmt::Write as _, path::Path};

use portolan_client::Client;
use portolan_core::{
    Action, Event, Millis, RequestId, Seq, SessionId,
    entry::Stored,
    policy::{Judgement, Rule, RuleDraft, RuleId, RuleScope, rule::ScopeDraft},
    registry::{RuleDescription, Simulation},
    request::{Outcome as Ended, Request},
};
use portolan_protocol::{SimulateRule, TestRule};
use serde_json::{Value, json};

use super::{Context, act, advice, inputs};
use crate::{
    arguments::{Draft, Rules, Simulate},
    failure::{Failure, Outcome},
    home::rfc3339,
    output::{self, Format},
    terminal::clean,
};

pub(super) async fn run(context: &Context, verb: Rules) -> Outcome {
    match verb {
        Rules::List { session } => list(context, session).await,
        Rules::Add(draft) => {
            let mut client = context.client().await?;
            let draft = read(&mut client, draft).await?;
            let rule = client.add_rule(draft).await?;
            let advice = advice::of(&mut client, session_of(&rule)).await;
            client.close().await;
            advice::say(context.format(), advice);
            saved(context, &rule)
        }
        Rules::Edit { rule, draft } => {
            let mut client = context.client().await?;
            let draft = read(&mut client, draft).await?;
            let rule = client.edit_rule(RuleId(rule), draft).await?;
            client.close().await;
            saved(context, &rule)
        }
        Rules::Remove { rule, session } => remove(context, rule, session).await,
        Rules::Test { tool, input, cwd, mode, session } => {
            let input: Value = inputs::json(&input, "the input")?;
            let cwd = std::path::absolute(cwd.unwrap_or_else(|| ".".into()))
                .map_err(|error| Failure::usage(format!("the folder cannot be found: {error}")))?;
            let mut client = context.client().await?;
            let session = match session {
                Some(id) => Some(client.resolve(&id).await?),
                None => None,
            };
            let asked = TestRule { tool, input, cwd: Some(cwd), mode: Some(mode), session };
            let judgement = client.test_rule(asked).await?;
            let advice = advice::of(&mut client, session).await;
            client.close().await;
            advice::say(context.format(), advice);
            show(context, &judgement)
        }
    }
}

/// The session in which alone a rule holds.
fn session_of(rule: &Rule) -> Option<SessionId> {
    match rule.scope {
        RuleScope::Session { session } => Some(session),
        RuleScope::User | RuleScope::Project { .. } => None,
    }
}

async fn read(client: &mut Client, draft: Draft) -> Outcome<RuleDraft> {
    let Draft { effect, covers, scope, overridable, expires, comment, matches, does_not_match } = draft;
    let examples = |texts: Vec<String>| {
        texts.iter().map(|text| inputs::json(text, "an example")).collect::<Outcome<Vec<_>>>()
    };
    Ok(RuleDraft {
        effect,
        text: covers,
        scope: scope_of(client, &scope).await?,
        overridable,
        expires_in_seconds: expires.as_deref().map(inputs::seconds).transpose()?,
        comment,
        matches: examples(matches)?,
        does_not_match: examples(does_not_match)?,
    })
}

async fn scope_of(client: &mut Client, scope: &str) -> Outcome<ScopeDraft> {
    match scope.split_once(':') {
        None if scope == "user" => Ok(ScopeDraft::User),
        Some(("project", folder)) => {
            let folder = std::path::absolute(Path::new(folder))
                .map_err(|error| Failure::usage(format!("`{folder}` is not a folder: {error}")))?;
            Ok(ScopeDraft::Project { folder })
        }
        Some(("session", id)) => Ok(ScopeDraft::Session { session: client.resolve(id).await? }),
        _ => Err(Failure::usage(format!("unknown scope `{scope}`; use user, project:DIR or session:ID"))),
    }
}

async fn list(context: &Context, session: Option<String>) -> Outcome {
    let mut client = context.client().await?;
    let session = match session {
        Some(id) => Some(client.resolve(&id).await?),
        None => None,
    };
    let rules = client.rules(session).await?;
    let advice = advice::of(&mut client, session).await;
    client.close().await;
    if !rules.is_empty() {
        advice::say(context.format(), advice);
    }
    match context.format() {
        Format::Json => output::json(&rules),
        Format::Plain if rules.is_empty() => {
            output::note("there are no rules; `portolan rules add` adds one");
            Ok(())
        }
        Format::Plain => output::raw(table(&rules).as_bytes()),
    }
}

fn table(rules: &[RuleDescription]) -> String {
    let mut rows = vec![
        ["RULE", "", "COVERS", "SCOPE", "STATE", "USED", "LAST USED", "MADE BY", "COMMENT"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for RuleDescription { rule, idle, uses, used_at } in rules {
        let effect =
            if rule.overridable { format!("{}, overridable", rule.effect) } else { rule.effect.to_string() };
        let until =
            rule.expires_at.map_or_else(|| "in force".into(), |end| format!("until {}", rfc3339(end)));
        rows.push(vec![
            rule.rule.to_string(),
            effect,
            clean::line(&rule.text),
            clean::line(&rule.scope.to_string()),
            idle.clone().unwrap_or(until),
            uses.to_string(),
            used_at.map_or_else(|| "never".into(), rfc3339),
            clean::line(&rule.made_by.to_string()),
            rule.comment.as_deref().map(clean::line).unwrap_or_default(),
        ]);
    }
    output::table(&rows)
}

fn saved(context: &Context, rule: &Rule) -> Outcome {
    match context.format() {
        Format::Json => output::json(rule),
        Format::Plain => {
            output::note(format!(
                "rule {}: {} ({})",
                rule.rule,
                clean::line(&rule.line()),
                clean::line(&rule.scope.to_string())
            ));
            Ok(())
        }
    }
}

async fn remove(context: &Context, rule: String, session: Option<String>) -> Outcome {
    let mut client = context.client().await?;
    let removed = match session {
        None => client.remove_rule(RuleId(rule)).await?,
        Some(id) => {
            let session = client.resolve(&id).await?;
            let known = client.rules(Some(session)).await?.into_iter().map(|known| known.rule);
            let mut known = known.filter(|known| known.rule.0 == rule);
            let Some(known) = known.next() else {
                let message = format!(
                    "session `{session}` has no rule `{rule}`; `portolan rules list --session {id}` lists its rules"
                );
                return Err(Failure::not_found(message));
            };
            let action = Action::RemoveRule { tool_name: known.text.clone(), rule: Some(known.rule.clone()) };
            act::carry_out(&mut client, session, action).await?;
            known
        }
    };
    client.close().await;
    match context.format() {
        Format::Json => output::json(&json!({ "removed": removed })),
        Format::Plain => {
            output::note(format!("removed: {}", clean::line(&removed.line())));
            Ok(())
        }
    }
}

/// A decision as the outside sees it. The field names are part of the interface of `rules test --json`.
fn as_json(judgement: &Judgement) -> Value {
    let mut shown = json!({
        "decision": judgement.decision.word(),
        "why": judgement.why,
        "risk": judgement.risk.level.word(),
        "reasons": judgement.risk.reasons,
    });
    if let Some(first) = judgement.rules.first() {
        shown["rule"] = json!(first.rule);
        shown["rules"] = json!(judgement.rules);
    }
    if let Some(mode) = judgement.mode {
        shown["mode"] = json!(mode);
    }
    shown
}

fn show(context: &Context, judgement: &Judgement) -> Outcome {
    match context.format() {
        Format::Json => output::json(&as_json(judgement)),
        Format::Plain => output::raw(told(judgement, "").as_bytes()),
    }
}

/// The decision in a few lines.
fn told(judgement: &Judgement, indent: &str) -> String {
    let mut lines = vec![format!("{}{}: {}", indent, judgement.decision.word(), clean::line(&judgement.why))];
    for rule in &judgement.rules {
        lines.push(format!(
            "{indent}  rule {}: {} ({})",
            rule.rule,
            clean::line(&rule.line),
            clean::line(&rule.scope)
        ));
    }
    if let Some(mode) = judgement.mode {
        lines.push(format!("{indent}  mode {mode}"));
    }
    lines.push(match judgement.risk.reasons.as_slice() {
        [] => format!("{indent}  risk {}", judgement.risk.level.word()),
        reasons => {
            format!("{indent}  risk {}: {}", judgement.risk.level.word(), clean::line(&reasons.join("; ")))
        }
    });
    lines.join("\n") + "\n"
}

pub(super) async fn explain(context: &Context, id: &str, request: Option<u64>) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(id).await?;
    let found = requests(&mut client, session).await?;
    let advice = advice::of(&mut client, Some(session)).await;
    client.close().await;
    advice::say(context.format(), advice);
    let wanted: Vec<_> = match request {
        None => found,
        Some(number) => found.into_iter().filter(|(asked, _)| asked.request == RequestId(number)).collect(),
    };
    if let (Some(number), true) = (request, wanted.is_empty()) {
        return Err(Failure::not_found(format!("session `{session}` has no request {number}")));
    }
    match context.format() {
        Format::Json => {
            let all: Vec<Value> = wanted
                .iter()
                .map(|(asked, ended)| {
                    json!({
                        "request": asked.request,
                        "title": asked.ask.title(),
                        "judgement": asked.policy.as_deref().map(as_json),
                        "outcome": ended,
                    })
                })
                .collect();
            output::json(&all)
        }
        Format::Plain if wanted.is_empty() => {
            output::note("this session has asked nothing yet");
            Ok(())
        }
        Format::Plain => {
            let mut text = String::new();
            for (asked, ended) in &wanted {
                // Writing into memory cannot fail.
                let _ = writeln!(text, "request {}: {}", asked.request, clean::line(&asked.ask.title()));
                match &asked.policy {
                    Some(judgement) => text.push_str(&told(judgement, "  ")),
                    None => text.push_str("  ask: rules do not apply to requests of this kind\n"),
                }
                let ended = ended.as_ref();
                let cancelled = ended.and_then(|ended| ended.cancellation(&asked.ask));
                let ended = ended.map_or_else(|| "still waits for an answer".into(), outcome);
                let ended = cancelled.map_or(ended.clone(), |words| format!("{words}: {ended}"));
                let _ = writeln!(text, "  {}", clean::line(&ended));
            }
            output::raw(text.as_bytes())
        }
    }
}

fn outcome(ended: &Ended) -> String {
    match ended {
        Ended::Answered { answer: portolan_core::request::Answer::Deny { .. }, by } => {
            format!("denied by {by}")
        }
        Ended::Answered { by, .. } => format!("allowed by {by}"),
        Ended::Expired => "denied: nobody answered in time".into(),
        Ended::Interrupted { by } => format!("{by} interrupted the turn"),
        Ended::Withdrawn => "withdrawn by the agent".into(),
        Ended::AgentGone { reason } => format!("not answered: {reason}"),
    }
}

/// Every permission request in a session's log, with its outcome.
async fn requests(client: &mut Client, session: SessionId) -> Outcome<Vec<(Request, Option<Ended>)>> {
    let mut found: Vec<(Request, Option<Ended>)> = Vec::new();
    let mut after = Seq::ZERO;
    loop {
        let page = client.history(session, after).await?;
        if page.is_empty() {
            return Ok(found);
        }
        for entry in page {
            let stored = Stored { seq: after, frame: entry.get().to_owned().into() };
            let head: Value = serde_json::from_str(entry.get()).unwrap_or_default();
            after = head["seq"].as_u64().map_or(after.next(), Seq);
            // An entry of a newer version is shown by a newer client.
            let Ok(entry) = stored.decode::<Event>() else { continue };
            match entry.event {
                Event::RequestOpened { request } => found.push((*request, None)),
                Event::RequestDecided { request, outcome } => found.push((*request, Some(outcome))),
                Event::RequestClosed { request, outcome } => {
                    if let Some((_, ended)) = found.iter_mut().find(|(asked, _)| asked.request == request) {
                        *ended = Some(outcome);
                    }
                }
                _ => {}
            }
        }
    }
}

pub(super) async fn simulate(context: &Context, asked: Simulate) -> Outcome {
    let Simulate { effect, covers, scope, since } = asked;
    let since = since.as_deref().map(|given| inputs::moment(given, Millis::now())).transpose()?;
    let mut client = context.client().await?;
    let rule = RuleDraft::new(effect, covers, scope_of(&mut client, &scope).await?);
    let line = format!("{} {}", rule.effect, rule.text);
    let found = client.simulate_rule(SimulateRule { rule, since }).await?;
    client.close().await;
    match context.format() {
        Format::Json => output::json(&found),
        Format::Plain => output::raw(simulated(&line, &found).as_bytes()),
    }
}

fn simulated(line: &str, found: &Simulation) -> String {
    let Simulation { requests, covered, asked, against, sessions, examples, truncated } = found;
    let mut text = format!(
        "`{}` would have answered {covered} of {requests} recorded requests; a person answered {asked} of the \
         covered requests, {against} of them differently from the rule\n",
        clean::line(line)
    );
    if *truncated {
        text.push_str("there are more requests; only the newest were compared\n");
    }
    for session in sessions {
        let _ = writeln!(text, "{:6}  {}  {}", session.covered, session.session, clean::line(&session.name));
    }
    if !examples.is_empty() {
        text.push_str("examples:\n");
    }
    for example in examples {
        let _ = writeln!(text, "  {}  {}", example.ended.words(), clean::line(&example.title));
    }
    text
}
