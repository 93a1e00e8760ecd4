//! The projection of entries to messages, without a socket.

use indexmap::IndexMap;
use portolan_core::{
    Generation, Millis, RequestId, Seq, SessionSpec,
    event::{
        AgentInfo, ChangeKind, Content, Event, Exit, ExitReason, FileChange, ItemKind, ResetReason, Setting,
        ToolKind, ToolOutcome, TurnOrigin, TurnOutcome, TurnResult, WorkDone,
    },
    request::{Answer, Ask, Choice, Outcome, Question, Request},
    session::state::State,
    usage::{ModelUsage, TokenUsage},
};

use super::*;
use crate::insights::{
    project::{Detail, Past, View, price},
    wire::ServerMessage,
};

const SESSION: SessionId = SessionId::from_u128(7);

/// A view and all its messages.
struct Scene {
    view: View,
    seq: u64,
    said: Vec<Value>,
}

impl Scene {
    fn new(detail: Detail, past: Past) -> Self {
        let mut scene = Self { view: View::new(SESSION, detail, past), seq: 0, said: Vec::new() };
        let spec =
            SessionSpec { agent: "x".into(), prompt: vec![Content::text("go")], ..SessionSpec::default() };
        scene.play(vec![Event::SessionCreated { spec: Box::new(spec) }]);
        scene
    }

    /// A view whose first messages were read.
    fn begun() -> Self {
        let mut scene = Self::new(Detail::Blocks, Past::Everything);
        scene.play(vec![Event::TurnStarted { turn: 1, origin: TurnOrigin::Prompt }]);
        scene.said.clear();
        scene
    }

    fn play(&mut self, events: Vec<Event>) {
        for event in events {
            self.seq += 1;
            let mut messages = Vec::new();
            self.view.project(Seq(self.seq), &event, &mut messages);
            self.keep(&messages);
        }
    }

    fn snapshot(&mut self, state: &State) {
        let mut messages = Vec::new();
        self.view.snapshot(state, &mut messages);
        self.keep(&messages);
    }

    fn keep(&mut self, messages: &[ServerMessage]) {
        for message in messages {
            let message = serde_json::from_slice(&message.to_text()).unwrap();
            fits(&SERVER, &message);
            self.said.push(message);
        }
    }

    /// Its new messages since the last call, in short form.
    fn outline(&mut self) -> Vec<String> {
        let outline = outline(&self.said);
        self.said.clear();
        outline
    }

    /// The payloads of this type.
    fn all(&self, kind: &str) -> Vec<Value> {
        let of_kind = self.said.iter().filter(|message| message["type"] == kind);
        of_kind.map(|message| message["payload"].clone()).collect()
    }
}

fn state() -> State {
    State::new(SESSION, SessionSpec { agent: "x".into(), ..SessionSpec::default() }, Millis(0))
}

fn call(tool: &str, parent: Option<&str>, name: &str, kind: ToolKind) -> Event {
    Event::ToolCall {
        tool: tool.into(),
        item: None,
        message: None,
        parent: parent.map(Into::into),
        name: name.into(),
        kind,
        title: None,
        input: json!({"a": 1}),
        changes: vec![],
    }
}

fn result(tool: &str, parent: Option<&str>, outcome: ToolOutcome, content: Vec<Content>) -> Event {
    Event::ToolResult { tool: tool.into(), parent: parent.map(Into::into), outcome, content, changes: vec![] }
}

fn done(tool: &str, parent: Option<&str>) -> Event {
    result(tool, parent, ToolOutcome::Done, vec![Content::text("ok")])
}

fn started(subagent: &str, parent: Option<&str>, background: bool) -> Event {
    Event::SubagentStarted {
        subagent: subagent.into(),
        parent: parent.map(Into::into),
        subagent_type: None,
        description: "in a few words".into(),
        prompt: None,
        model: Some("small".into()),
        background,
        team: None,
    }
}

fn ended(subagent: &str, outcome: ToolOutcome) -> Event {
    let summary = Some(format!("{subagent} is back"));
    Event::SubagentEnded { subagent: subagent.into(), outcome, summary, work: None }
}

fn message(item: &str, parent: Option<&str>, content: Vec<Content>) -> Event {
    Event::Message {
        item: item.into(),
        message: None,
        parent: parent.map(Into::into),
        model: None,
        content,
        interrupted: false,
        stop_reason: None,
    }
}

fn said(text: &str, parent: Option<&str>) -> Event {
    message("item", parent, vec![Content::text(text)])
}

fn turn_ended(result: TurnResult) -> Event {
    Event::TurnEnded { turn: 1, result: Box::new(result) }
}

fn opened(number: u64, ask: Ask, parent: Option<&str>, tool: Option<&str>) -> Event {
    let (parent, tool) = (parent.map(Into::into), tool.map(Into::into));
    let request = Request { parent, tool, ..portolan_testkit::sessions::request(number, ask) };
    Event::RequestOpened { request: Box::new(request) }
}

fn permission(name: &str) -> Ask {
    Ask::permission(name, json!({"command": "ls"}))
}

fn ada() -> portolan_core::Actor {
    portolan_core::Actor::Person { token: "t".parse().unwrap(), name: "ada".into(), via: "cli".into() }
}

// covers: 001-018, 001-019, 001-057, 001-058
#[test]
fn agents_are_a_tree_with_labels_by_their_place() {
    let mut scene = Scene::new(Detail::Blocks, Past::Everything);
    scene.play(vec![
        started("a", None, false),
        started("b", None, false),
        started("a1", Some("a"), false),
        started("a2", Some("a"), false),
        started("a1x", Some("a1"), false),
        started("c", None, false),
        started("a", None, true),
    ]);
    let spawned: Vec<_> = scene
        .all("agent.spawned")
        .iter()
        .map(|it| json!([it["agent_id"], it["parent_id"], it["label"], it["task_description"]]))
        .collect();
    let few = "in a few words";
    let expected = [
        json!(["main", null, "Main", "go"]),
        json!(["a", "main", "Sub1", few]),
        json!(["b", "main", "Sub2", few]),
        json!(["a1", "a", "Sub1.1", few]),
        json!(["a2", "a", "Sub1.2", few]),
        json!(["a1x", "a1", "Sub1.1.1", few]),
        json!(["c", "main", "Sub3", few]),
    ];
    assert_eq!(spawned, expected, "one that goes to the background is not spawned again");
}

// covers: 001-023, 001-027, 001-053
#[test]
fn the_messages_of_a_subagents_task_have_the_order_of_the_protocol() {
    let mut scene = Scene::begun();
    scene.play(vec![
        call("X", None, "Agent", ToolKind::Subagent),
        started("X", None, false),
        said("digging", Some("X")),
        call("t", Some("X"), "Bash", ToolKind::Execute),
        done("t", Some("X")),
        Event::Usage {
            usage: TokenUsage { input: 1_000_000, output: 100_000, cache_creation: 0, cache_read: 0 },
            model: None,
            parent: Some("X".into()),
            context_window: None,
            context_only: false,
        },
        ended("X", ToolOutcome::Done),
        done("X", None),
        said("done", None),
    ]);
    assert_eq!(scene.all("agent.tool_use")[0]["tool_name"], "Task", "whatever the agent calls it");
    assert_eq!(scene.all("agent.tool_use")[1]["model"], "small");
    let usage = json!({"input_tokens": 1_000_000, "output_tokens": 100_000, "cache_read_tokens": 0,
                       "cache_creation_tokens": 0, "cost_usd": 4.5});
    let completed = json!({"session_id": SESSION, "agent_id": "X", "result": "X is back", "usage": usage});
    assert_eq!(scene.all("agent.completed"), [completed]);
    let expected = [
        "agent.tool_use main X",
        "agent.status main waiting_tool",
        "agent.spawned X",
        "agent.status X working",
        "agent.output X digging",
        "agent.tool_use X t",
        "agent.status X waiting_tool",
        "agent.tool_result X t",
        "agent.status X working",
        "agent.tool_result main X",
        "agent.completed X",
        "agent.status X completed",
        "agent.status main working",
        "agent.output main done",
    ];
    assert_eq!(scene.outline(), expected);
}

// The log has only a total for a subagent in the background; the client once got no usage for it.
#[test]
fn the_usage_of_a_subagent_counts_its_requests_and_the_rest_of_a_larger_sum() {
    let used = |requests: &[TokenUsage], sum: Option<u64>| {
        let mut scene = Scene::begun();
        scene.play(vec![
            call("X", None, "Agent", ToolKind::Subagent),
            started("X", None, true),
            done("X", None),
        ]);
        let usage = |usage: &TokenUsage| Event::Usage {
            usage: *usage,
            model: None,
            parent: Some("X".into()),
            context_window: None,
            context_only: false,
        };
        scene.play(requests.iter().map(usage).collect());
        let work = sum.map(|tokens| WorkDone { tokens, tool_uses: 0, duration_ms: 1 });
        let (outcome, summary) = (ToolOutcome::Done, None);
        scene.play(vec![Event::SubagentEnded { subagent: "X".into(), outcome, summary, work }]);
        let told = &scene.all("agent.completed")[0]["usage"];
        let figures = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"];
        (figures.map(|name| told[name].as_u64().unwrap()), told["cost_usd"].as_f64().unwrap())
    };
    assert_eq!(used(&[], None), ([0, 0, 0, 0], 0.0));
    assert_eq!(used(&[], Some(1_000_000)).0, [1_000_000, 0, 0, 0], "a sum alone");
    assert!((used(&[], Some(1_000_000)).1 - 3.0).abs() < 1e-9);
    let request = tokens(10, 20, 30, 40);
    assert_eq!(used(&[request, request], None).0, [20, 40, 60, 80], "request by request");
    assert_eq!(used(&[request], Some(100)).0, [10, 20, 30, 40], "the same once more is not added");
    assert_eq!(used(&[request], Some(90)).0, [10, 20, 30, 40], "nor is less taken away");
    assert_eq!(used(&[request], Some(150)).0, [60, 20, 30, 40], "the rest of a larger sum is");
}

#[test]
fn a_task_in_the_background_completes_after_its_call_and_after_the_turn() {
    let mut scene = Scene::begun();
    scene.play(vec![
        call("X", None, "Agent", ToolKind::Subagent),
        started("X", None, false),
        started("X", None, true),
        done("X", None),
        turn_ended(TurnResult::bare(TurnOutcome::Completed)),
        ended("X", ToolOutcome::Failed),
    ]);
    let expected = [
        "agent.tool_use main X",
        "agent.status main waiting_tool",
        "agent.spawned X",
        "agent.status X working",
        "agent.tool_result main X",
        "agent.status main working",
        "agent.status main completed",
        "session.completed",
        "agent.completed X",
        "agent.status X error",
    ];
    assert_eq!(scene.outline(), expected);
}

// covers: 001-029, 001-030, 001-031, 001-032, 001-033, 001-034
#[test]
fn a_status_is_told_once_whenever_it_changes() {
    let mut scene = Scene::begun();
    scene.play(vec![
        said("one", None),
        said("two", None),
        call("t", None, "Bash", ToolKind::Execute),
        call("u", None, "Bash", ToolKind::Execute),
        opened(5, permission("Bash"), None, Some("t")),
        opened(6, permission("Bash"), None, Some("u")),
        Event::RequestClosed { request: RequestId(5), outcome: Outcome::Expired },
        Event::RequestClosed { request: RequestId(6), outcome: Outcome::Withdrawn },
        done("t", None),
        done("u", None),
        turn_ended(TurnResult::bare(TurnOutcome::Completed)),
        Event::TurnStarted { turn: 2, origin: TurnOrigin::Agent },
        turn_ended(TurnResult::bare(TurnOutcome::Failed)),
    ]);
    let statuses: Vec<_> = scene.all("agent.status").iter().map(|it| it["status"].clone()).collect();
    let expected =
        ["waiting_tool", "waiting_user", "waiting_tool", "working", "completed", "working", "error"];
    assert_eq!(statuses, expected, "`working` was told when the turn began");
    assert_eq!(scene.all("error")[0]["code"], "HANDLER_ERROR");
}

// covers: 001-020, 001-021, 001-055
#[test]
fn what_an_agent_says_and_thinks_comes_in_complete_blocks() {
    let mut scene = Scene::begun();
    let content = vec![
        Content::Thinking { text: "hm".into() },
        Content::RedactedThinking,
        Content::text("yes"),
        Content::text(""),
        Content::Data { data: json!({"a": 1}) },
    ];
    scene.play(vec![
        Event::ItemStarted { item: "i".into(), kind: ItemKind::Text, message: None, parent: None },
        Event::Delta { item: "i".into(), text: "ye".into() },
        message("i", None, content),
    ]);
    let output = |content: &str, kind: &str| json!({"session_id": SESSION, "agent_id": "main", "content": content, "content_type": kind});
    let expected = [output("hm", "thinking"), output("yes", "text"), output("{\"a\":1}", "text")];
    assert_eq!(scene.all("agent.output"), expected, "thinking that is not shown has no text");
}

// covers: 001-004
#[test]
fn a_client_that_asks_for_deltas_gets_streamed_text_once() {
    let mut scene = Scene::new(Detail::Deltas, Past::Everything);
    let delta = |item: &str, text: &str| Event::Delta { item: item.into(), text: text.into() };
    let begin =
        |item: &str, kind| Event::ItemStarted { item: item.into(), kind, message: None, parent: None };
    scene.play(vec![
        begin("i", ItemKind::Text),
        delta("i", "a"),
        delta("i", "b"),
        message("i", None, vec![Content::text("abc")]),
        begin("j", ItemKind::Thinking),
        delta("j", "x"),
        message("j", None, vec![Content::Thinking { text: "x".into() }]),
        begin("k", ItemKind::Text),
        delta("k", "wrong"),
        message("k", None, vec![Content::text("right")]),
        begin("l", ItemKind::ToolInput),
        delta("l", "{"),
        message("m", None, vec![Content::text("whole")]),
    ]);
    let told: Vec<_> = scene
        .all("agent.output")
        .iter()
        .map(|it| format!("{} {}", it["item"].as_str().unwrap(), it["content"].as_str().unwrap()))
        .collect();
    assert_eq!(told, ["i a", "i b", "i c", "j x", "k wrong", "k right", "m whole"]);
}

#[test]
fn a_late_client_gets_a_streaming_item_from_its_beginning() {
    let mut scene = Scene::new(Detail::Deltas, Past::WhatLasts);
    let mut state = state();
    let mut open = portolan_core::session::state::OpenItem::clone(&open_item("abc"));
    open.item = "i".into();
    state.items.push(open);
    scene.snapshot(&state);
    scene.play(vec![
        Event::Delta { item: "i".into(), text: "d".into() },
        message("i", None, vec![Content::text("abcde")]),
    ]);
    let told: Vec<_> = scene.all("agent.output").iter().map(|it| it["content"].clone()).collect();
    assert_eq!(told, ["abc", "d", "e"]);
}

fn open_item(text: &str) -> portolan_core::session::state::OpenItem {
    serde_json::from_value(json!({"item": "i", "kind": "text", "text": text})).unwrap()
}

// covers: 001-022, 001-024
#[test]
fn the_input_of_a_tool_is_an_object_and_its_result_is_a_text() {
    let mut scene = Scene::begun();
    let content = vec![
        Content::text("one"),
        Content::Image { media_type: "image/png".into(), data: "AAAA".into() },
        Content::Resource { uri: "file:///a".into(), name: None, text: None },
        Content::Other { body: json!({"b": 2}) },
    ];
    let mut odd = call("u", None, "Odd", ToolKind::Other);
    if let Event::ToolCall { input, .. } = &mut odd {
        *input = json!("words");
    }
    scene.play(vec![
        Event::AgentInfo { info: Box::new(AgentInfo { model: Some("big".into()), ..AgentInfo::default() }) },
        call("t", None, "Read", ToolKind::Read),
        odd,
        result("t", None, ToolOutcome::Done, content),
        result("u", None, ToolOutcome::Denied, vec![]),
    ]);
    let tool_use = |tool: &str, name: &str, input: Value| {
        json!({"session_id": SESSION, "agent_id": "main", "tool_name": name, "tool_input": input,
               "tool_use_id": tool, "model": "big"})
    };
    let expected = [tool_use("t", "Read", json!({"a": 1})), tool_use("u", "Odd", json!({"input": "words"}))];
    assert_eq!(scene.all("agent.tool_use"), expected);
    let tool_result = |tool: &str, result: &str, is_error: bool| {
        json!({"session_id": SESSION, "agent_id": "main", "tool_use_id": tool, "result": result,
               "is_error": is_error})
    };
    let text = "one\n[image image/png]\n[file:///a]\n{\"b\":2}";
    assert_eq!(scene.all("agent.tool_result"), [tool_result("t", text, false), tool_result("u", "", true)]);
}

// covers: 001-025, 001-038, 001-039, 001-051
#[test]
fn every_client_gets_each_request_and_its_end() {
    let mut scene = Scene::begun();
    let question = |text: &str| Question {
        question: text.into(),
        header: None,
        choices: vec![
            Choice { label: "A".into(), description: Some("first".into()) },
            Choice { label: "B".into(), description: None },
        ],
        multiple: false,
        free_text: false,
        secret: false,
    };
    let questions = Ask::Question { questions: vec![question("One?"), question("Two?")] };
    scene.play(vec![
        call("t", None, "Bash", ToolKind::Execute),
        opened(5, permission("Bash"), None, Some("t")),
        Event::RequestClosed {
            request: RequestId(5),
            outcome: Outcome::Answered { answer: Answer::deny(None), by: ada() },
        },
        opened(9, questions, None, None),
        Event::RequestClosed { request: RequestId(9), outcome: Outcome::Interrupted { by: ada() } },
    ]);
    let request = json!({"session_id": SESSION, "agent_id": "main", "permission_id": "5", "tool_name": "Bash",
                         "tool_input": {"command": "ls"}, "tool_use_id": "t"});
    assert_eq!(scene.all("permission.request"), [request]);
    let resolved = json!({"session_id": SESSION, "agent_id": "main", "permission_id": "5", "approved": false,
                          "reason": "answered by ada (cli)"});
    assert_eq!(scene.all("permission.resolved"), [resolved]);
    let options = json!([{"label": "A", "description": "first"}, {"label": "B", "description": null}]);
    let asked = |id: &str, text: &str| {
        json!({"session_id": SESSION, "agent_id": "main", "question_id": id, "question": text,
               "options": options})
    };
    assert_eq!(scene.all("agent.question"), [asked("9.1", "One?"), asked("9.2", "Two?")]);
    let closed = |id: &str| {
        json!({"session_id": SESSION, "agent_id": "main", "question_id": id,
               "reason": "interrupted by ada (cli)"})
    };
    assert_eq!(scene.all("question.resolved"), [closed("9.1"), closed("9.2")]);
}

// As Codex asks, which sends the changes nowhere else.
#[test]
fn a_permission_tells_the_changes_that_its_input_does_not_hold() {
    let change = FileChange::new("/a", ChangeKind::Modify, "@@ -1 +1 @@\n-x\n+one\n");
    let asked = |input: Value| Ask::permission("Edit", input).with_changes(vec![change.clone()]);
    let mut scene = Scene::begun();
    scene.play(vec![
        opened(5, asked(json!({"paths": ["/a"]})), None, None),
        opened(9, asked(json!({"file_path": "/a", "new_string": "one"})), None, None),
    ]);
    let told = scene.all("permission.request");
    assert_eq!(told[0]["tool_input"]["changes"], json!([change]));
    assert_eq!(told[1]["tool_input"], json!({"file_path": "/a", "new_string": "one"}), "it is there already");
}

#[test]
fn a_permission_to_start_a_subagent_names_the_same_tool_as_the_call() {
    let mut scene = Scene::begun();
    scene.play(vec![
        call("X", None, "Agent", ToolKind::Subagent),
        opened(5, permission("Agent"), None, Some("X")),
    ]);
    assert_eq!(scene.all("permission.request")[0]["tool_name"], "Task");
}

fn tokens(input: u64, output: u64, cache_read: u64, cache_creation: u64) -> TokenUsage {
    TokenUsage { input, output, cache_creation, cache_read }
}

fn shared(shares: &[(&str, TokenUsage, Option<f64>)]) -> TurnResult {
    let share = |usage, cost_usd| ModelUsage { usage, cost_usd, ..ModelUsage::default() };
    let by_model = shares.iter().map(|(model, usage, cost)| ((*model).to_owned(), share(*usage, *cost)));
    TurnResult { by_model: by_model.collect::<IndexMap<_, _>>(), ..TurnResult::bare(TurnOutcome::Completed) }
}

// covers: 001-028, 001-035, 001-036, 001-060, 001-061
#[test]
fn tokens_are_counted_once_over_all_agents_and_turns_and_priced_where_no_cost_is_told() {
    let mut scene = Scene::begun();
    let usage = |parent: Option<&str>, usage| Event::Usage {
        usage,
        model: None,
        parent: parent.map(Into::into),
        context_window: None,
        context_only: false,
    };
    let mut turn = |events: Vec<Event>| {
        scene.play(vec![Event::TurnStarted { turn: 1, origin: TurnOrigin::Prompt }]);
        scene.play(events);
        let totals = scene.all("session.completed");
        let total = &totals.last().unwrap()["total_usage"];
        let figures = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"];
        let figures = figures.map(|name| total[name].as_u64().unwrap());
        (figures, total["cost_usd"].as_f64().unwrap())
    };
    // The usage by model includes the subagents: their own reports are not added again.
    let told = shared(&[("a", tokens(10, 20, 30, 40), Some(1.0)), ("b", tokens(1, 2, 3, 4), None)]);
    let told = TurnResult { cost_usd: Some(0.25), usage: Some(tokens(10, 20, 30, 40)), ..told };
    let first = turn(vec![usage(Some("X"), tokens(1, 2, 3, 4)), turn_ended(told)]);
    assert_eq!(first, ([11, 22, 33, 44], 0.25));
    // No total cost, but a cost for each model.
    let each = shared(&[("a", tokens(1, 0, 0, 0), Some(0.5)), ("b", tokens(1, 0, 0, 0), Some(0.25))]);
    assert_eq!(turn(vec![turn_ended(each)]), ([13, 22, 33, 44], 1.0));
    // Only the turn's own tokens and those of a subagent: the protocol's prices count.
    let own =
        TurnResult { usage: Some(tokens(1_000_000, 0, 0, 0)), ..TurnResult::bare(TurnOutcome::Completed) };
    let third = turn(vec![usage(Some("Y"), tokens(0, 1_000_000, 0, 0)), turn_ended(own)]);
    assert_eq!(third, ([1_000_013, 1_000_022, 33, 44], 19.0));
    // Cut off: the sum over the requests counts.
    let cut = turn_ended(TurnResult::bare(TurnOutcome::Interrupted));
    let last =
        turn(vec![usage(None, tokens(0, 0, 1_000_000, 0)), usage(None, tokens(0, 0, 0, 1_000_000)), cut]);
    assert_eq!(last.0, [1_000_013, 1_000_022, 1_000_033, 1_000_044]);
    assert!((last.1 - 23.05).abs() < 1e-9, "{}", last.1);
    let all = price(tokens(1_000_000, 1_000_000, 1_000_000, 1_000_000));
    assert!((all - 22.05).abs() < 1e-9, "3 + 15 + 0.30 + 3.75: {all}");
}

// covers: 001-037
#[test]
fn a_message_is_sent_only_when_the_mode_really_changes() {
    let mut scene = Scene::begun();
    let info = |mode: &str| Event::AgentInfo {
        info: Box::new(AgentInfo { mode: Some(mode.into()), ..AgentInfo::default() }),
    };
    let set = Event::SettingChanged { setting: Setting::Mode { mode: "plan".into() } };
    scene.play(vec![info("default"), info("default"), set, info("plan"), info("acceptEdits")]);
    let modes: Vec<_> =
        scene.all("permission_mode.changed").iter().map(|it| it["permission_mode"].clone()).collect();
    assert_eq!(modes, ["plan", "acceptEdits"]);
}

// covers: 001-044
#[test]
fn an_agent_that_never_started_is_reported_as_a_failed_creation() {
    let exited = |reason| Event::AgentExited {
        generation: Generation(1),
        exit: Exit {
            reason,
            code: None,
            signal: None,
            message: "no claude on PATH".into(),
            stderr: String::new(),
        },
    };
    let mut scene = Scene::new(Detail::Blocks, Past::Everything);
    scene.play(vec![exited(ExitReason::NotStarted)]);
    assert_eq!(scene.all("error")[0]["code"], "SESSION_CREATE_FAILED");
    assert_eq!(scene.outline().last().unwrap(), "agent.status main error");
    scene.play(vec![Event::AgentReady { generation: Generation(2) }, exited(ExitReason::Failed)]);
    assert_eq!(scene.all("error")[0]["code"], "HANDLER_ERROR", "later it is any other failure");
}

#[test]
fn a_late_client_gets_the_lasting_messages_and_then_the_open_ones() {
    let history = vec![
        Event::TurnStarted { turn: 1, origin: TurnOrigin::Prompt },
        said("hello", None),
        call("t", None, "Bash", ToolKind::Execute),
        opened(5, permission("Bash"), None, Some("t")),
        Event::RequestClosed {
            request: RequestId(5),
            outcome: Outcome::Answered { answer: Answer::allow(), by: ada() },
        },
        done("t", None),
        Event::SettingChanged { setting: Setting::Mode { mode: "plan".into() } },
        turn_ended(TurnResult::bare(TurnOutcome::Failed)),
        Event::TurnStarted { turn: 2, origin: TurnOrigin::Prompt },
        call("X", None, "Agent", ToolKind::Subagent),
        started("X", None, false),
        call("u", Some("X"), "Bash", ToolKind::Execute),
        opened(12, permission("Bash"), Some("X"), Some("u")),
    ];
    let open = [
        "permission_mode.changed",
        "agent.status main waiting_tool",
        "agent.status X waiting_user",
        "permission.request X u",
    ];
    let mut scene = Scene::new(Detail::Blocks, Past::WhatLasts);
    scene.play(history.clone());
    let lasts = [
        "agent.spawned main",
        "agent.output main hello",
        "agent.tool_use main t",
        "agent.tool_result main t",
        "session.completed",
        "agent.tool_use main X",
        "agent.spawned X",
        "agent.tool_use X u",
    ];
    assert_eq!(scene.outline(), lasts);
    scene.snapshot(&state());
    assert_eq!(scene.outline(), open);
    // A client that was there before only gets what is open.
    let mut scene = Scene::new(Detail::Blocks, Past::Nothing);
    scene.play(history);
    assert_eq!(scene.outline(), [""; 0]);
    scene.snapshot(&state());
    assert_eq!(scene.outline(), open[1..], "but for the mode, which it may be about to change");
    // From now on both get everything.
    scene.play(vec![Event::RequestClosed { request: RequestId(12), outcome: Outcome::Withdrawn }]);
    assert_eq!(scene.outline(), ["permission.resolved X", "agent.status X waiting_tool"]);
}

#[test]
fn an_agent_that_was_never_announced_is_announced_when_it_speaks() {
    let mut scene = Scene::begun();
    scene.play(vec![said("who am I?", Some("Y")), ended("Z", ToolOutcome::Interrupted)]);
    let expected = [
        "agent.spawned Y",
        "agent.output Y who am I?",
        "agent.spawned Z",
        "agent.completed Z",
        "agent.status Z completed",
    ];
    assert_eq!(scene.outline(), expected);
}

#[test]
fn a_session_with_very_many_subagents_forgets_those_that_are_over() {
    let mut scene = Scene::begun();
    for number in 0..5000 {
        let name = format!("s{number}");
        scene.play(vec![started(&name, None, false), ended(&name, ToolOutcome::Done)]);
    }
    scene.said.clear();
    scene.play(vec![started("last", None, false)]);
    assert_eq!(scene.all("agent.spawned")[0]["label"], "Sub5001");
}

// covers: 001-054
#[test]
fn every_field_is_snake_case_and_none_is_left_out() {
    // The schema forbids other fields and requires each field; only the form of the names is left to check.
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/insights.schema.json"));
    let schema: Value = serde_json::from_str(&text.unwrap()).unwrap();
    let mut fields = 0;
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        for (field, _) in definition["properties"].as_object().into_iter().flatten() {
            assert!(field.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}.{field}");
            fields += 1;
        }
        let is_servers = definition["additionalProperties"] == false;
        let optional = |field: &&String| {
            let required = definition["required"].as_array().into_iter().flatten();
            !required.into_iter().any(|it| it == field.as_str())
        };
        let left_out: Vec<_> = definition["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(f, _)| f)
            .filter(optional)
            .collect();
        assert!(!is_servers || left_out.is_empty() || left_out == ["item"], "{name} may lack {left_out:?}");
    }
    assert!(fields > 60, "{fields}");
}

#[test]
fn a_lost_conversation_is_an_error_and_a_requested_reset_is_not() {
    let mut scene = Scene::begun();
    scene.play(vec![Event::ConversationReset { agent_session: None, reason: None }]);
    assert_eq!(scene.all("error"), Vec::<Value>::new());
    scene.play(vec![Event::ConversationReset {
        agent_session: None,
        reason: Some(ResetReason::CannotResume),
    }]);
    let told = scene.all("error");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["message"], ResetReason::CannotResume.words());
}

#[test]
fn an_agent_that_falls_asleep_is_not_reported_as_ended() {
    let exit = |reason| Exit { reason, code: None, signal: None, message: "m".into(), stderr: String::new() };
    for (reason, is_told) in [(ExitReason::Idle, false), (ExitReason::Stopped, true)] {
        let mut scene = Scene::begun();
        scene.said.clear();
        scene.play(vec![Event::AgentExited { generation: Generation(1), exit: exit(reason) }]);
        assert_eq!(!scene.said.is_empty(), is_told, "{reason:?}: {:?}", scene.said);
    }
}
