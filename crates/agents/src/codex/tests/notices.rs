//! Reports of Codex beside its work: changes are fetched, and notices for people are shown once.

use portolan_core::{
    Event,
    event::{HookStatus, Level},
};
use serde_json::{Value, json};

use super::{Translate, answer_to, events, ready, said, setup, written};
use crate::driver::Output;

fn tells(codex: &mut Translate, method: &str, params: &Value) -> Output {
    said(codex, &json!({ "method": method, "params": params }))
}

fn notices(out: &Output) -> Vec<(Level, String)> {
    let notice = |event: &&Event| match event {
        Event::Notice { level, text } => Some((*level, text.clone())),
        _ => None,
    };
    events(out).iter().filter_map(notice).collect()
}

#[test]
fn changed_skills_are_fetched_and_replace_the_old_ones() {
    let mut codex = ready(setup());
    codex.skills.insert("old".into(), "/skills/old".into());
    let out = tells(&mut codex, "skills/changed", &json!({}));
    assert_eq!(written(&out).len(), 0, "they are being asked for since the thread has begun");
    let asked =
        |name: &str| json!({ "data": [{ "skills": [{ "name": name, "path": format!("/skills/{name}") }] }] });
    for (id, name) in [(4, "first"), (0, "second")] {
        // The first request is the one from the start.
        let id = if id == 0 {
            written(&tells(&mut codex, "skills/changed", &json!({})))[0]["id"].clone()
        } else {
            json!(id)
        };
        let out = said(&mut codex, &json!({ "id": id, "result": asked(name) }));
        let offered = events(&out).into_iter().find_map(|event| match event {
            Event::AgentInfo { info } => info.commands.clone(),
            _ => None,
        });
        let names: Vec<_> = offered.unwrap().into_iter().map(|command| command.name).collect();
        assert_eq!(names, ["compact", "review", name]);
        assert_eq!(codex.skills.keys().collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn an_account_that_has_changed_is_read_again() {
    let mut codex = ready(setup());
    let out = tells(&mut codex, "account/updated", &json!({ "authMode": null }));
    assert_eq!(written(&out).len(), 0, "it is being read since the thread has begun");
    said(&mut codex, &json!({ "id": 5, "result": { "account": null, "requiresOpenaiAuth": false } }));
    let out = tells(&mut codex, "account/updated", &json!({ "authMode": "apikey" }));
    let account = json!({ "account": { "type": "apiKey" }, "requiresOpenaiAuth": true });
    let out = said(&mut codex, &answer_to(&out, "account/read", &account));
    assert!(matches!(events(&out)[..], [Event::AgentInfo { .. }]), "{out:?}");
}

#[test]
fn a_goal_is_reported_when_it_changes_and_when_it_is_removed() {
    let mut codex = ready(setup());
    let goal = |status: &str, used: u64| json!({ "threadId": "T", "goal": { "objective": "reach the cape", "status": status, "tokensUsed": used } });
    let mut told = Vec::new();
    for (method, params) in [
        ("thread/goal/cleared", json!({ "threadId": "T" })),
        ("thread/goal/updated", goal("active", 1)),
        ("thread/goal/updated", goal("active", 2)),
        ("thread/goal/updated", goal("complete", 3)),
        (
            "thread/goal/updated",
            json!({ "threadId": "another", "goal": { "objective": "x", "status": "y" } }),
        ),
        ("thread/goal/cleared", json!({ "threadId": "T" })),
    ] {
        told.extend(notices(&tells(&mut codex, method, &params)));
    }
    let info = |text: &str| (Level::Info, text.to_owned());
    let expected = [
        info("the goal is active: reach the cape"),
        info("the goal is complete: reach the cape"),
        info("the goal was removed"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_hook_of_the_user_is_shown_from_its_beginning_to_its_end() {
    let mut codex = ready(setup());
    let run = |status: &str, entries: Value| {
        json!({ "threadId": "T", "run": { "id": "h1", "eventName": "preToolUse", "sourcePath": "/hooks/look.sh",
            "status": status, "entries": entries } })
    };
    let said = json!([{ "kind": "feedback", "text": "not in the harbour" }]);
    let hook = |status, data| Event::Hook {
        hook: "h1".into(),
        name: "/hooks/look.sh".into(),
        event: "preToolUse".into(),
        status,
        data,
    };
    let out = tells(&mut codex, "hook/started", &run("running", json!([])));
    assert_eq!(events(&out), [&hook(HookStatus::Started, None)]);
    let out = tells(&mut codex, "hook/completed", &run("blocked", said.clone()));
    let data = json!({ "status": "blocked", "said": said });
    assert_eq!(events(&out), [&hook(HookStatus::Completed, Some(data))]);
}

#[test]
fn notices_for_people_are_shown() {
    let mut codex = ready(setup());
    for (method, params, expected) in [
        (
            "deprecationNotice",
            json!({ "summary": "`x` goes away", "details": "use `y`" }),
            (Level::Info, "`x` goes away (use `y`)"),
        ),
        (
            "thread/reverted",
            json!({ "threadId": "T" }),
            (
                Level::Info,
                "Codex has removed the newest messages from its conversation; the log and the files stay as \
                 they are",
            ),
        ),
        (
            "model/rerouted",
            json!({ "fromModel": "a", "toModel": "b", "reason": "highRiskCyberActivity" }),
            (Level::Warning, "Codex answers with `b` instead of `a` (highRiskCyberActivity)"),
        ),
        (
            "mcpServer/oauthLogin/completed",
            json!({ "name": "charts", "success": false, "error": "timed out" }),
            (Level::Warning, "the login to the MCP server `charts` failed: timed out"),
        ),
    ] {
        let (level, text) = expected;
        assert_eq!(notices(&tells(&mut codex, method, &params)), [(level, text.to_owned())]);
    }
}
