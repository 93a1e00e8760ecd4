//! What an agent lets Portolan do: policy decides first, and nobody is asked twice.

use portolan_core::{
    policy::{Call, Decision, Kind},
    ports::{Approval, Doer, Order, Report},
    request::{Answer, Ask},
};
use serde_json::{Value, json};

use super::{Serves, Setup, Translate, prompt, ready, said, setup, told, update, written};
use crate::driver::Output;

fn at_work() -> Translate {
    let serves = Serves { files: true, terminals: true };
    let mut acp = ready(Setup { serves, folder: "/work".into(), ..setup() });
    told(&mut acp, 1, prompt("do it"));
    acp
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "id": id, "method": method, "params": params })
}

fn write(id: u64, path: &str) -> Value {
    request(id, "fs/write_text_file", &json!({ "sessionId": "S", "path": path, "content": "x" }))
}

fn run(id: u64, command: &str, args: &[&str]) -> Value {
    request(id, "terminal/create", &json!({ "sessionId": "S", "command": command, "args": args }))
}

fn permission(id: u64, tool: &str, kind: &str, input: &Value) -> Value {
    let call = json!({ "toolCallId": tool, "kind": kind, "title": "a call", "rawInput": input });
    let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" },
        { "optionId": "n", "name": "No", "kind": "reject_once" }]);
    request(id, "session/request_permission", &json!({ "toolCall": call, "options": options }))
}

fn answer(acp: &mut Translate, id: u64, answer: Answer) -> Output {
    let ask = Box::new(Ask::Plan { plan: None, input: Value::Null });
    told(acp, 50 + id, Order::Answer { key: id.to_string(), ask, answer })
}

/// The tool and the command or file that a request is about.
fn asked(out: &Output) -> Vec<(String, String)> {
    let about = |report: &Report| {
        let (Report::RequestOpened { ask, .. } | Report::Unasked { ask, .. }) = report else { return None };
        let call = Call::of(ask)?;
        let what = call.command().or_else(|| call.files()?.pop())?;
        Some((call.tool.to_owned(), what))
    };
    out.reports.iter().filter_map(about).collect()
}

/// The approved call that a task belongs to.
fn within(out: &Output) -> Option<(&str, Approval)> {
    out.reports.iter().find_map(|report| match report {
        Report::Unasked { tool: Some(tool), doer: Doer::Approved(approval), .. } => {
            Some((tool.as_str(), *approval))
        }
        _ => None,
    })
}

#[test]
fn work_that_the_agent_did_not_ask_about_opens_a_request_first() {
    let mut acp = at_work();
    let out = said(&mut acp, &write(1, "/work/a.txt"));
    assert_eq!(asked(&out), [("edit".to_owned(), "/work/a.txt".to_owned())]);
    assert!(out.tasks.is_empty());
    let out = answer(&mut acp, 1, Answer::allow());
    assert_eq!(out.tasks[0].method, "fs/write_text_file");

    let out = said(&mut acp, &run(2, "rm", &["-rf", "a b"]));
    assert_eq!(asked(&out), [("execute".to_owned(), "rm -rf 'a b'".to_owned())]);
    let out = answer(&mut acp, 2, Answer::deny(Some("Denied by persisted rule for execute.".into())));
    assert!(out.tasks.is_empty());
    assert_eq!(written(&out)[0]["error"]["message"], "Denied by persisted rule for execute.");
}

#[test]
fn a_file_is_read_without_a_request_once_policy_lets_it_pass() {
    let mut acp = at_work();
    let out = said(&mut acp, &request(1, "fs/read_text_file", &json!({ "path": "/work/a.txt" })));
    assert!(matches!(out.reports.last(), Some(Report::Unasked { doer: Doer::Portolan, .. })), "{out:?}");
    assert!(out.tasks.is_empty());
    let checked = Order::Checked { key: "1".into(), decision: Decision::Allow };
    let out = told(&mut acp, 0, checked.clone());
    assert_eq!(out.tasks[0].method, "fs/read_text_file");
    assert!(told(&mut acp, 0, checked).tasks.is_empty(), "it is done once");
}

#[test]
fn nobody_is_asked_twice_about_a_file_or_a_command() {
    let mut acp = at_work();
    said(&mut acp, &permission(1, "t1", "edit", &json!({ "file_path": "/work/a.txt" })));
    answer(&mut acp, 1, Answer::allow());
    let out = said(&mut acp, &write(2, "/work/a.txt"));
    assert_eq!(
        (within(&out), out.tasks.len()),
        (Some(("t1", Approval::Named)), 0),
        "only a rule may forbid it"
    );
    let checked = Order::Checked { key: "2".into(), decision: Decision::Allow };
    assert_eq!(told(&mut acp, 0, checked).tasks.len(), 1, "it was allowed");
    assert_eq!(asked(&said(&mut acp, &write(3, "/work/b.txt"))).len(), 1, "another file");
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed" });
    said(&mut acp, &update(&done));
    assert_eq!(asked(&said(&mut acp, &write(4, "/work/a.txt"))).len(), 1, "the call has ended");

    said(&mut acp, &permission(5, "t2", "execute", &json!({ "command": "cargo test" })));
    answer(&mut acp, 5, Answer::allow());
    let again = |acp: &mut Translate, id: u64| said(acp, &run(id, "bash", &["-c", "cargo test"]));
    assert_eq!(within(&again(&mut acp, 6)), Some(("t2", Approval::Named)));
    assert_eq!(within(&again(&mut acp, 7)), None, "once");

    said(&mut acp, &permission(8, "t3", "edit", &json!({})));
    answer(&mut acp, 8, Answer::allow());
    let mut bare = write(9, "/work/c.txt");
    bare["params"]["toolCallId"] = json!("t3");
    assert_eq!(within(&said(&mut acp, &bare)), Some(("t3", Approval::Bare)));
}

// covers: 002-077
#[test]
fn a_denied_or_stopped_call_allows_nothing() {
    let mut acp = at_work();
    said(&mut acp, &permission(1, "t1", "edit", &json!({ "file_path": "/work/a.txt" })));
    answer(&mut acp, 1, Answer::deny(None));
    assert_eq!(asked(&said(&mut acp, &write(2, "/work/a.txt"))).len(), 1);
    answer(&mut acp, 2, Answer::deny(None));

    said(&mut acp, &permission(3, "t2", "edit", &json!({ "file_path": "/work/a.txt" })));
    answer(&mut acp, 3, Answer::allow());
    said(&mut acp, &run(4, "ls", &[]));
    let out = told(&mut acp, 9, Order::Interrupt);
    let cancelled = written(&out).into_iter().find(|line| line["id"] == 4).unwrap();
    let error = json!({ "code": -32800, "message": "Approval cancelled for tool execute" });
    assert_eq!(cancelled["error"], error);
    assert_eq!(asked(&said(&mut acp, &write(5, "/work/a.txt"))).len(), 1);
}

/// The name decides which rules cover a task, so the agent must not choose a harmless one.
#[test]
fn a_task_has_the_name_of_its_call_only_if_both_are_of_one_kind() {
    let mut acp = at_work();
    let call = |id: &str, name: &str, kind: &str| {
        update(
            &json!({ "sessionUpdate": "tool_call", "toolCallId": id, "kind": kind, "status": "in_progress",
            "title": name, "rawInput": {}, "_meta": { "toolName": name } }),
        )
    };
    said(&mut acp, &call("r", "read_file", "read"));
    let named = json!({ "path": "/work/a", "content": "x", "toolCallId": "r" });
    assert_eq!(asked(&said(&mut acp, &request(1, "fs/write_text_file", &named)))[0].0, "edit");
    said(&mut acp, &call("w", "write_file", "edit"));
    assert_eq!(asked(&said(&mut acp, &write(2, "/work/a")))[0].0, "write_file");
    assert_eq!(Kind::of("write_file"), Kind::Edit);
}

/// Policy reads the command line, so the line must hold all that decides what runs.
#[test]
fn the_command_line_shows_the_folder_and_the_variables() {
    let mut acp = at_work();
    let params = json!({ "command": "make", "args": ["it's"], "cwd": "/tmp/x y",
        "env": [{ "name": "PATH", "value": "/evil" }] });
    let out = said(&mut acp, &request(1, "terminal/create", &params));
    assert_eq!(asked(&out)[0].1, "cd '/tmp/x y' && PATH=/evil make 'it'\\''s'");
    let line = json!({ "command": "ls | wc -l", "cwd": "/work" });
    assert_eq!(asked(&said(&mut acp, &request(2, "terminal/create", &line)))[0].1, "ls | wc -l");
    let program = json!({ "command": "FOO=1", "args": [] });
    assert_eq!(asked(&said(&mut acp, &request(3, "terminal/create", &program)))[0].1, "'FOO=1'");
}

/// The title is for people, and an agent may write anything there.
#[test]
fn a_tool_of_another_kind_is_not_known_by_its_title() {
    let mut acp = at_work();
    let mut named = |title: &str, kind: &str| {
        let mut asks = permission(1, "t", kind, &json!({ "thought": "hm" }));
        asks["params"]["toolCall"]["title"] = json!(title);
        let out = said(&mut acp, &asks);
        answer(&mut acp, 1, Answer::deny(None));
        let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" });
        said(&mut acp, &update(&done));
        let ask = out.reports.iter().find_map(|report| match report {
            Report::RequestOpened { ask, .. } => Some((**ask).clone()),
            _ => None,
        });
        let Some(Ask::Permission { tool_name, .. }) = ask else { panic!("{out:?}") };
        (Kind::of(&tool_name), tool_name)
    };
    for title in ["think", "Read", "bash"] {
        assert_eq!(named(title, "other"), (Kind::Unknown, "other".into()), "{title}");
    }
    assert_eq!(named("Sail home", "other"), (Kind::Unknown, "Sail home".into()));
    assert_eq!(named("anything", "think").0, Kind::Read);
}
