//! Whole conversations with the demo agent, as a real process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use std::collections::HashSet;

use portolan_core::{
    Event, SessionSpec,
    event::{
        Content, ErrorKind, ExitReason, ItemKind, Setting, TaskStatus, ToolOutcome, TurnOrigin, TurnOutcome,
    },
    ports::{Order, Report, ResumePoint},
    request::{Answer, Ask, Scope},
    spec::{HookDefinition, SubagentDefinition, SystemPrompt},
};
use serde_json::json;
use support::{Session, events, notices, said, spec, supervision};

/// Answers every request as a willing user would, until the turn has ended.
async fn play_along(session: &mut Session, prompt: &str) -> Vec<Report> {
    let from = session.seen.len();
    session.prompt(prompt).await;
    loop {
        match session.next().await {
            Report::RequestOpened { key, ask, .. } => {
                let answer = willing(&ask);
                session.answer(key, *ask, answer).await;
            }
            Report::TurnEnded { .. } => return session.seen[from..].to_vec(),
            _ => {}
        }
    }
}

fn willing(ask: &Ask) -> Answer {
    match ask {
        Ask::Permission { .. } | Ask::Plan { .. } => Answer::allow(),
        Ask::Question { questions } => {
            let choice = |text: &str| vec![text.to_owned()];
            let answers = questions.iter().map(|question| {
                let chosen =
                    question.choices.first().map_or_else(|| choice("Argo"), |first| choice(&first.label));
                (question.question.clone(), chosen)
            });
            Answer::Choices { answers: answers.collect() }
        }
        Ask::Elicitation { .. } => Answer::Content { content: json!({ "berth": 7 }) },
        Ask::Hook { .. } | Ask::Other { .. } => Answer::Output { output: json!({}) },
    }
}

/// What holds for the reports of every turn: every item, tool and subagent that began has ended once; no name is used
/// twice; every named parent began.
fn check_order(reports: &[Report]) {
    let (mut items, mut ended, mut tools, mut subagents) =
        (vec![], HashSet::new(), HashSet::new(), HashSet::new());
    let mut all_subagents = HashSet::new();
    for event in events(reports) {
        let parent = match &event {
            Event::ItemStarted { parent, .. }
            | Event::Message { parent, .. }
            | Event::ToolCall { parent, .. }
            | Event::ToolResult { parent, .. }
            | Event::SubagentStarted { parent, .. } => parent.clone(),
            _ => None,
        };
        if let Some(parent) = parent {
            assert!(all_subagents.contains(&parent), "{event:?} names a subagent that did not begin");
        }
        match event {
            Event::ItemStarted { item, .. } => {
                assert!(!items.contains(&item) && !ended.contains(&item), "{item} begins twice");
                items.push(item);
            }
            Event::Delta { item, .. } => assert!(items.contains(&item), "{item} is not open"),
            Event::Message { item, .. } => {
                items.retain(|open| *open != item);
                assert!(ended.insert(item.clone()), "{item} ends twice");
            }
            Event::ToolCall { tool, item, .. } => {
                items.retain(|open| Some(open) != item.as_ref());
                ended.extend(item);
                assert!(tools.insert(tool));
            }
            Event::ToolResult { tool, .. } => {
                items.retain(|open| *open != tool);
                assert!(tools.remove(&tool), "{tool} was not called, or has a result already");
            }
            Event::SubagentStarted { subagent, .. } => {
                assert!(all_subagents.insert(subagent.clone()));
                subagents.insert(subagent);
            }
            Event::SubagentEnded { subagent, .. } => assert!(subagents.remove(&subagent)),
            _ => {}
        }
    }
    assert_eq!((items, tools, subagents), Default::default(), "these are still open");
}

// covers: 003-102
#[tokio::test]
async fn a_turn_streams_its_text_and_ends_with_what_it_used() {
    let mut session = Session::demo(spec()).await;
    let (reports, result) = session.turn("say fair  winds").await;
    let text = "fair  winds";
    let expected = [
        Event::ItemStarted {
            item: "1.1".into(),
            kind: ItemKind::Text,
            message: Some("m1.1".into()),
            parent: None,
        },
        Event::Delta { item: "1.1".into(), text: "fair ".into() },
        Event::Delta { item: "1.1".into(), text: " ".into() },
        Event::Delta { item: "1.1".into(), text: "winds".into() },
        Event::Message {
            item: "1.1".into(),
            message: Some("m1.1".into()),
            parent: None,
            model: Some("demo-large".into()),
            content: vec![Content::text(text)],
            interrupted: false,
            stop_reason: None,
        },
    ];
    let events = events(&reports);
    assert_eq!(events[..5], expected);
    assert!(matches!(&events[5..], [Event::Usage { context_window: Some(200_000), .. }]), "{events:?}");
    assert_eq!(
        (result.outcome, result.text.as_deref(), result.steps),
        (TurnOutcome::Completed, Some(text), Some(1))
    );
    assert!(
        result.cost_usd.is_some_and(|cost| cost > 0.0) && result.usage.is_some_and(|usage| usage.output > 0)
    );
    session.stop().await;
}

#[tokio::test]
async fn a_prompt_is_delivered_and_its_turn_starts_before_it_is_consumed() {
    let mut session = Session::demo(spec()).await;
    let instruction_id = session.prompt("say x").await;
    let first = [session.next().await, session.next().await, session.next().await];
    let started = Report::TurnStarted { origin: TurnOrigin::Prompt };
    assert_eq!(
        first,
        [Report::Delivered(instruction_id), started, Report::Consumed { instruction_id, result: None }]
    );
    session.stop().await;
}

// covers: 003-091, 003-109, 003-110, 003-111
#[tokio::test]
async fn an_agent_describes_itself_before_it_is_ready() {
    let session = Session::demo(spec()).await;
    let [
        Report::Started { capabilities, .. },
        Report::Event { event: Event::AgentInfo { info }, .. },
        Report::Ready,
    ] = session.seen.as_slice()
    else {
        panic!("{:?}", session.seen)
    };
    assert_eq!(info.models, capabilities.supported_models);
    assert_eq!(info.modes, capabilities.supported_permission_modes);
    assert_eq!(info.commands, capabilities.supported_commands);
    assert!(info.agent_session.as_ref().is_some_and(|id| id.starts_with("demo-")));
    let servers: Vec<_> = info
        .mcp_servers
        .iter()
        .flatten()
        .map(|server| (server.name.as_str(), server.status.as_str()))
        .collect();
    assert_eq!(servers, [("harbour", "connected"), ("lighthouse", "connected"), ("wreck", "failed")]);
}

/// The outcome and the text of the only tool result.
fn tool_result(reports: &[Report]) -> (ToolOutcome, String) {
    let result = |event: Event| match event {
        Event::ToolResult { outcome, content, .. } => {
            Some((outcome, portolan_core::event::plain_text(&content)))
        }
        _ => None,
    };
    events(reports).into_iter().find_map(result).unwrap()
}

// covers: 003-104
#[tokio::test]
async fn an_allowed_command_runs_and_streams_its_output() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chart.txt"), "").unwrap();
    let mut session = Session::demo(SessionSpec { cwd: folder.path().into(), ..spec() }).await;
    let reports = play_along(&mut session, "use a tool").await;
    check_order(&reports);
    assert_eq!(tool_result(&reports), (ToolOutcome::Done, "chart.txt\n".into()));
    let streamed = events(&reports)
        .iter()
        .any(|event| matches!(event, Event::Delta { text, .. } if text == "chart.txt\n"));
    assert!(streamed);
    session.stop().await;
}

#[tokio::test]
async fn a_steered_prompt_cuts_the_current_text_and_the_turn_continues_with_it() {
    let mut session = Session::demo(spec()).await;
    session.prompt("slow").await;
    session.until(|report| matches!(report, Report::TurnStarted { .. })).await;
    let from = session.seen.len();
    let steered = |words: &str| Order::Steer { content: vec![Content::text(words)] };
    assert_eq!(session.ask_of(steered("say to the north")).await, Ok(None));
    assert_eq!(session.result().await.outcome, TurnOutcome::Completed);
    let begun = |reports: &[Report]| {
        reports.iter().filter(|report| matches!(report, Report::TurnStarted { .. })).count()
    };
    assert_eq!(begun(&session.seen[from..]), 0, "it is the same turn");
    assert_eq!(said(&session.seen[from..]).last().unwrap(), "to the north");
    let from = session.seen.len();
    session.order(steered("say after the end")).await;
    session.result().await;
    assert_eq!(
        (begun(&session.seen[from..]), said(&session.seen[from..])),
        (1, vec!["after the end".into()])
    );
    session.stop().await;
}

#[tokio::test]
async fn edited_input_is_what_the_tool_is_called_with() {
    let mut session = Session::demo(spec()).await;
    session.prompt("tool").await;
    let (key, ask) = session.request().await;
    let edited = Some(json!({ "command": "rm -r /" }));
    session
        .answer(key, ask, Answer::Allow { input: edited, scope: Scope::Once, mode: None, option: None })
        .await;
    session.result().await;
    let (outcome, text) = tool_result(&session.seen);
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(text.contains("`rm -r /`"), "{text}");
    session.stop().await;
}

#[tokio::test]
async fn a_denial_reaches_the_agent_and_the_turn_goes_on() {
    let mut session = Session::demo(spec()).await;
    for (message, told) in [(Some("not now"), "not now"), (None, "Tool \"Bash\" was denied by the user.")] {
        let from = session.seen.len();
        session.prompt("tool").await;
        let (key, ask) = session.request().await;
        session.answer(key, ask, Answer::deny(message.map(Into::into))).await;
        assert_eq!(session.result().await.outcome, TurnOutcome::Completed);
        assert_eq!(tool_result(&session.seen[from..]), (ToolOutcome::Denied, told.into()));
    }
    session.stop().await;
}

#[tokio::test]
async fn a_denial_with_interrupt_ends_the_turn() {
    let mut session = Session::demo(spec()).await;
    session.prompt("tool").await;
    let (key, ask) = session.request().await;
    session
        .answer(key, ask, Answer::Deny { message: Some("stop it".into()), interrupt: true, option: None })
        .await;
    assert_eq!(session.result().await.outcome, TurnOutcome::Interrupted);
    assert_eq!(tool_result(&session.seen), (ToolOutcome::Denied, "stop it".into()));
    check_order(&session.seen);
    session.stop().await;
}

#[tokio::test]
async fn an_answer_without_an_open_request_is_rejected() {
    let mut session = Session::demo(spec()).await;
    let ask = Ask::Other { name: "x".into(), body: json!(null) };
    let order = Order::Answer { key: "ask-0".into(), ask: Box::new(ask), answer: Answer::allow() };
    assert_eq!(session.ask_of(order).await, Err("no request `ask-0` is open".into()));
    session.stop().await;
}

#[tokio::test]
async fn two_requests_are_open_at_once_and_answered_in_any_order() {
    let mut session = Session::demo(spec()).await;
    session.prompt("two").await;
    let (first, first_ask) = session.request().await;
    let (second, second_ask) = session.request().await;
    assert_ne!(first, second);
    session.answer(second, second_ask, Answer::allow()).await;
    session.answer(first, first_ask, Answer::deny(None)).await;
    assert_eq!(session.result().await.outcome, TurnOutcome::Completed);
    check_order(&session.seen);
    let parents: HashSet<_> = session
        .seen
        .iter()
        .filter_map(|report| match report {
            Report::RequestOpened { parent, .. } => Some(parent.clone().unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(parents.len(), 2, "each subagent asks for itself");
    session.stop().await;
}

#[tokio::test]
async fn questions_plans_and_forms_take_their_own_answers() {
    let mut session = Session::demo(spec()).await;
    let reports = play_along(&mut session, "question").await;
    assert!(said(&reports).last().unwrap().contains("Where shall we sail? **Genoa**"));
    let reports = play_along(&mut session, "plan").await;
    assert_eq!(said(&reports).last().unwrap(), "Approved. We sail at dawn.");
    let reports = play_along(&mut session, "form").await;
    assert!(said(&reports).last().unwrap().contains("{\"berth\":7}"));
    session.stop().await;
}

#[tokio::test]
async fn a_plan_may_be_approved_into_a_mode() {
    let mut session = Session::demo(spec()).await;
    session.prompt("plan").await;
    let (key, ask) = session.request().await;
    let answer =
        Answer::Allow { input: None, scope: Scope::Once, mode: Some("acceptEdits".into()), option: None };
    session.answer(key, ask, answer).await;
    session.result().await;
    let changed = Event::SettingChanged { setting: Setting::Mode { mode: "acceptEdits".into() } };
    assert!(events(&session.seen).contains(&changed));
    // The edit needs no permission any more.
    let (reports, _) = session.turn("edit").await;
    assert_eq!(tool_result(&reports).0, ToolOutcome::Done);
    session.stop().await;
}

// covers: 003-107
#[tokio::test]
async fn modes_and_lists_decide_which_calls_need_permission() {
    let mut session = Session::demo(SessionSpec { mode: Some("plan".into()), ..spec() }).await;
    let (reports, _) = session.turn("edit").await;
    assert_eq!(tool_result(&reports), (ToolOutcome::Denied, "in plan mode no tool runs".into()));
    assert_eq!(session.ask_of(Order::SetMode("bypassPermissions".into())).await, Ok(None));
    let (reports, _) = session.turn("tool").await;
    assert_eq!(tool_result(&reports).0, ToolOutcome::Done);
    let unknown = session.ask_of(Order::SetMode("anarchy".into())).await.unwrap_err();
    assert_eq!(
        unknown,
        "there is no mode `anarchy`; there are default, acceptEdits, plan, bypassPermissions"
    );
    session.stop().await;

    let lists =
        SessionSpec { allowed_tools: vec!["Bash".into()], disallowed_tools: vec!["Edit".into()], ..spec() };
    let mut session = Session::demo(lists).await;
    let (reports, _) = session.turn("tool").await;
    assert_eq!(tool_result(&reports).0, ToolOutcome::Done);
    let (reports, _) = session.turn("edit").await;
    assert_eq!(tool_result(&reports).0, ToolOutcome::Denied);
    session.stop().await;
}

#[tokio::test]
async fn a_hook_of_the_session_opens_a_request_before_a_tool_runs() {
    let hook =
        HookDefinition { event: "PreToolUse".into(), matcher: Some("Bash".into()), timeout_seconds: None };
    let mut session = Session::demo(SessionSpec { hooks: vec![hook], ..spec() }).await;
    session.prompt("tool").await;
    let (key, ask) = session.request().await;
    assert!(
        matches!(&ask, Ask::Hook { event, input } if event == "PreToolUse" && input["tool_name"] == "Bash"),
        "{ask:?}"
    );
    session.answer(key, ask, Answer::Output { output: json!({ "decision": "block" }) }).await;
    session.result().await;
    assert_eq!(tool_result(&session.seen), (ToolOutcome::Denied, "a hook denied this".into()));
    session.stop().await;
}

// covers: 003-105
#[tokio::test]
async fn an_interrupt_at_any_point_closes_everything() {
    // Slow enough that no turn ends before it is interrupted.
    let paced = SessionSpec { env: [("DEMO_PACE_MS".into(), "5".into())].into_iter().collect(), ..spec() };
    for prompt in ["everything", "two", "subagents", "tool", "edit", "hello", "question"] {
        for after in [1, 3, 9, 20, 40] {
            let mut session = Session::demo(paced.clone()).await;
            let from = session.seen.len();
            session.prompt(prompt).await;
            let mut seen = 0;
            while seen < after {
                match session.next().await {
                    Report::TurnStarted { .. } | Report::Event { .. } => seen += 1,
                    // Nothing more comes by itself.
                    Report::RequestOpened { .. } => break,
                    _ => {}
                }
            }
            session.order(Order::Interrupt).await;
            assert_eq!(session.result().await.outcome, TurnOutcome::Interrupted, "{prompt} after {after}");
            let reports = &session.seen[from..];
            check_order(reports);
            let (opened, withdrawn) =
                reports.iter().fold((HashSet::new(), HashSet::new()), |(mut opened, mut closed), report| {
                    match report {
                        Report::RequestOpened { key, .. } => drop(opened.insert(key.clone())),
                        Report::RequestWithdrawn { key } => drop(closed.insert(key.clone())),
                        _ => {}
                    }
                    (opened, closed)
                });
            assert_eq!(opened, withdrawn, "{prompt} after {after}");
            // The agent takes prompts again.
            assert_eq!(session.turn("say hi").await.1.outcome, TurnOutcome::Completed);
            session.stop().await;
        }
    }
}

// covers: 003-099
#[tokio::test]
async fn a_prompt_is_cancelled_by_an_interrupt_and_a_session_by_its_token() {
    let paced = SessionSpec { env: [("DEMO_PACE_MS".into(), "5".into())].into_iter().collect(), ..spec() };
    let mut session = Session::demo(paced).await;
    session.prompt("everything").await;
    session.until(|report| matches!(report, Report::TurnStarted { .. })).await;
    session.order(Order::Interrupt).await;
    assert_eq!(session.result().await.outcome, TurnOutcome::Interrupted);
    assert_eq!(
        session.turn("say hi").await.1.outcome,
        TurnOutcome::Completed,
        "only the prompt was cancelled"
    );
    session.prompt("everything").await;
    session.until(|report| matches!(report, Report::TurnStarted { .. })).await;
    session.link.stop.cancel();
    assert_eq!(session.exit().await.reason, ExitReason::Stopped);
}

#[tokio::test]
async fn the_tour_shows_everything_in_one_turn() {
    let mut session = Session::demo(spec()).await;
    let reports = play_along(&mut session, "show me everything").await;
    check_order(&reports);
    let kinds: HashSet<String> = events(&reports)
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "activity",
        "auth_status",
        "delta",
        "failure",
        "files_persisted",
        "hook",
        "item_started",
        "message",
        "notice",
        "plan",
        "retry",
        "subagent_ended",
        "subagent_started",
        "task_changed",
        "tool_call",
        "tool_progress",
        "tool_result",
        "tool_summary",
        "usage",
    ];
    let missing: Vec<_> =
        expected.iter().filter(|kind| !kinds.contains(**kind) && **kind != "tool_progress").collect();
    assert!(missing.is_empty(), "{missing:?}");
    let asked: Vec<_> = reports
        .iter()
        .filter_map(|report| match report {
            Report::RequestOpened { ask, .. } => Some(ask.kind()),
            _ => None,
        })
        .collect();
    assert_eq!(asked, ["permission", "permission", "permission", "permission", "question", "plan"]);
    // And then the background task, by itself.
    session.until(|report| *report == Report::TurnStarted { origin: TurnOrigin::Agent }).await;
    session.result().await;
    session.stop().await;
}

#[tokio::test]
async fn subagents_form_a_tree() {
    let crew = SubagentDefinition {
        description: "cooks".into(),
        prompt: "cook".into(),
        ..SubagentDefinition::default()
    };
    let brought = SessionSpec { subagents: [("cook".into(), crew)].into_iter().collect(), ..spec() };
    let mut session = Session::demo(brought).await;
    let (reports, _) = session.turn("subagents").await;
    check_order(&reports);
    let tree: Vec<_> = events(&reports)
        .into_iter()
        .filter_map(|event| match event {
            Event::SubagentStarted { subagent, parent, description, prompt, .. } => {
                Some((subagent, parent, description, prompt.is_some()))
            }
            _ => None,
        })
        .collect();
    let [(lookout, None, _, true), (_, Some(boy_of), description, true)] = tree.as_slice() else {
        panic!("{tree:?}")
    };
    assert_eq!((boy_of, description.as_str()), (lookout, "Climb the mast"));
    assert!(said(&reports).iter().any(|text| text.contains("cook")));
    session.stop().await;
}

#[tokio::test]
async fn a_background_task_starts_a_turn_when_it_ends_and_can_be_stopped() {
    let mut session = Session::demo(spec()).await;
    session.turn("background").await;
    session.until(|report| *report == Report::TurnStarted { origin: TurnOrigin::Agent }).await;
    session.result().await;
    let statuses = |reports: &[Report]| -> Vec<_> {
        let status = |event: Event| match event {
            Event::TaskChanged { task } => Some(task.status),
            _ => None,
        };
        events(reports).into_iter().filter_map(status).collect()
    };
    assert_eq!(statuses(&session.seen), [TaskStatus::Running, TaskStatus::Completed]);

    let slow = [("DEMO_PACE_MS".to_owned(), "20".to_owned())].into_iter().collect();
    session.ask_of(Order::SetEnvironment(slow)).await.unwrap();
    let from = session.seen.len();
    session.turn("background").await;
    let task = events(&session.seen[from..]).into_iter().find_map(|event| match event {
        Event::TaskChanged { task } => Some(task.task),
        _ => None,
    });
    assert_eq!(session.ask_of(Order::StopTask(task.unwrap())).await, Ok(None));
    assert_eq!(statuses(&session.seen[from..]), [TaskStatus::Running, TaskStatus::Stopped]);
    assert_eq!(session.ask_of(Order::StopTask("no".into())).await, Err("no task `no` is running".into()));
    session.stop().await;
}

// covers: 003-106
#[tokio::test]
async fn settings_change_in_a_running_session() {
    let mut session = Session::demo(spec()).await;
    assert_eq!(session.ask_of(Order::SetModel(Some("demo-thinker".into()))).await, Ok(None));
    let (reports, _) = session.turn("hello").await;
    let thinks = |reports: &[Report]| {
        events(reports)
            .iter()
            .any(|event| matches!(event, Event::ItemStarted { kind: ItemKind::Thinking, .. }))
    };
    assert!(thinks(&reports));
    assert_eq!(session.ask_of(Order::SetThinking(Some(0))).await, Ok(None));
    let (reports, _) = session.turn("think").await;
    assert!(!thinks(&reports), "it has no budget");
    let unknown = session.ask_of(Order::SetModel(Some("x".into()))).await.unwrap_err();
    assert_eq!(unknown, "there is no model `x`; there are demo-large, demo-small, demo-thinker");
    assert_eq!(session.ask_of(Order::SetModel(None)).await, Ok(None));
    session.stop().await;
}

#[tokio::test]
async fn environment_that_injects_code_is_refused_in_a_running_session_too() {
    let mut session = Session::demo(spec()).await;
    let evil = [("NODE_OPTIONS".to_owned(), "--require x".to_owned())].into_iter().collect();
    let refused = session.ask_of(Order::SetEnvironment(evil)).await.unwrap_err();
    assert!(refused.contains("`NODE_OPTIONS` is refused"), "{refused}");
    session.stop().await;
}

#[tokio::test]
async fn mcp_servers_are_listed_toggled_reconnected_set_and_sent_messages() {
    let mut session = Session::demo(SessionSpec {
        mcp_servers: [("mine".into(), json!({}))].into_iter().collect(),
        ..spec()
    })
    .await;
    let statuses = |result: Option<serde_json::Value>| -> Vec<String> {
        let servers = result.unwrap()["servers"].as_array().unwrap().clone();
        servers
            .iter()
            .map(|server| {
                format!("{} {}", server["name"].as_str().unwrap(), server["status"].as_str().unwrap())
            })
            .collect()
    };
    let before = statuses(session.ask_of(Order::McpStatus).await.unwrap());
    assert_eq!(before, ["harbour connected", "lighthouse connected", "wreck failed", "mine connected"]);
    session.ask_of(Order::McpReconnect("wreck".into())).await.unwrap();
    session.ask_of(Order::McpToggle { server: "harbour".into(), enabled: false }).await.unwrap();
    let set = [("other".to_owned(), json!({}))].into_iter().collect();
    let after = statuses(session.ask_of(Order::McpSet(set)).await.unwrap());
    assert_eq!(after, ["harbour disabled", "lighthouse connected", "wreck connected", "other connected"]);
    assert!(events(&session.seen).iter().any(|event| matches!(event, Event::McpServers { .. })));
    let ping = Order::McpMessage {
        server: "other".into(),
        message: json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
    };
    let reply = session.ask_of(ping).await.unwrap();
    assert_eq!(reply, Some(json!({ "mcp_response": { "jsonrpc": "2.0", "id": 1, "result": {} } })));
    assert_eq!(
        session.ask_of(Order::McpReconnect("no".into())).await,
        Err("there is no MCP server `no`".into())
    );
    session.stop().await;
}

// covers: 003-114
#[tokio::test]
async fn files_can_be_rewound_to_before_a_prompt() {
    let mut session = Session::demo(SessionSpec { mode: Some("acceptEdits".into()), ..spec() }).await;
    let instruction_id = session.prompt("edit").await;
    let result = session.result().await;
    assert_eq!((result.lines_added, result.lines_removed), (Some(2), Some(1)));
    let rewind = |dry_run| Order::Rewind { prompt: instruction_id, dry_run };
    let told = |dry_run| Ok(Some(json!({ "files": ["harbour.txt"], "dry_run": dry_run })));
    assert_eq!(session.ask_of(rewind(true)).await, told(true));
    assert_eq!(session.ask_of(rewind(false)).await, told(false));
    assert_eq!(session.ask_of(rewind(false)).await, Err("no file was changed since that prompt".into()));
    session.stop().await;
}

#[tokio::test]
async fn the_context_is_reported_and_native_messages_pass_through() {
    let mut session = Session::demo(spec()).await;
    let context = session.ask_of(Order::Context).await.unwrap().unwrap();
    assert_eq!((&context["used"], &context["window"]), (&json!(1800), &json!(200_000)));
    assert_eq!(
        session.ask_of(Order::Native(json!({ "a": 1 }))).await,
        Ok(Some(json!({ "echo": { "a": 1 } })))
    );
    session.stop().await;
}

#[tokio::test]
async fn slash_commands_work() {
    let mut session = Session::demo(spec()).await;
    let (reports, _) = session.turn("/compact the ports").await;
    let compacted = events(&reports)
        .into_iter()
        .any(|event| matches!(event, Event::Compacted { tokens_before: Some(_), .. }));
    assert!(compacted);
    assert!(said(&reports)[0].contains("the ports"));
    let (reports, _) = session.turn("/clear").await;
    let reset = events(&reports).into_iter().find_map(|event| match event {
        Event::ConversationReset { agent_session, .. } => agent_session,
        _ => None,
    });
    assert!(reset.is_some_and(|id| id.starts_with("demo-")));
    assert!(said(&session.turn("/cost").await.0)[0].starts_with("So far: 3 turns"));
    assert!(said(&session.turn("/help").await.0)[0].contains("show me everything"));
    assert!(said(&session.turn("/nonsense").await.0)[0].contains("`/nonsense`"));
    session.stop().await;
}

#[tokio::test]
async fn a_result_fits_the_sessions_schema_or_an_error_says_that_it_cannot() {
    let schema = json!({ "type": "object", "properties": { "ships": { "type": "integer", "minimum": 2 } } });
    let mut session = Session::demo(SessionSpec { json_schema: Some(schema), ..spec() }).await;
    let (_, result) = session.turn("json").await;
    assert_eq!(result.structured, Some(json!({ "ships": 2 })));
    session.stop().await;
    let mut session = Session::demo(SessionSpec { json_schema: Some(json!(false)), ..spec() }).await;
    assert_eq!(session.turn("json").await.1.outcome, TurnOutcome::StructuredOutputFailed);
    session.stop().await;
}

// covers: 003-098
#[tokio::test]
async fn a_turn_ends_at_the_sessions_limits() {
    let mut session = Session::demo(SessionSpec { max_turns: Some(1), ..spec() }).await;
    assert_eq!(session.turn("todo").await.1.outcome, TurnOutcome::MaxTurns);
    session.stop().await;
    let mut session = Session::demo(SessionSpec { max_budget_usd: Some(0.000_001), ..spec() }).await;
    assert_eq!(session.turn("todo").await.1.outcome, TurnOutcome::MaxBudget);
    session.stop().await;
}

#[tokio::test]
async fn a_turn_that_fails_says_why_and_the_session_goes_on() {
    let mut session = Session::demo(spec()).await;
    let (_, result) = session.turn("error").await;
    assert_eq!(result.outcome, TurnOutcome::Failed);
    assert_eq!(result.error.unwrap().kind, ErrorKind::RateLimit);
    let (reports, result) = session.turn("retry").await;
    assert_eq!(result.outcome, TurnOutcome::Completed);
    assert_eq!(events(&reports).iter().filter(|event| matches!(event, Event::Retry { .. })).count(), 2);
    session.stop().await;
}

// covers: 003-103
#[tokio::test]
async fn a_picture_comes_back() {
    let mut session = Session::demo(spec()).await;
    let picture = Content::Image { media_type: "image/png".into(), data: "AAAA".into() };
    session.order(Order::Prompt { content: vec![Content::text("look"), picture.clone()] }).await;
    session.result().await;
    let back = events(&session.seen)
        .into_iter()
        .any(|event| matches!(event, Event::Message { content, .. } if content == [picture.clone()]));
    assert!(back);
    session.stop().await;
}

// covers: 003-093
#[tokio::test]
async fn a_conversation_is_resumed_under_its_own_id_or_forked() {
    for fork in [false, true] {
        let resume = ResumePoint {
            agent_session: "demo-before".into(),
            fork,
            at_message: fork.then(|| "m1.1".into()),
            last_message: None,
            exchanges: 0,
        };
        let mut session = Session::demo_with(spec(), supervision(), Some(resume)).await;
        let id = events(&session.seen).into_iter().find_map(|event| match event {
            Event::AgentInfo { info } => info.agent_session,
            _ => None,
        });
        assert_eq!(id.unwrap() == "demo-before", !fork);
        session.turn("say x").await;
        assert!(notices(&session.seen)[0].contains("conversation demo-before"));
        session.stop().await;
    }
}

// covers: 003-171, 004-108
#[tokio::test]
async fn garbage_is_kept_and_costs_no_message() {
    let mut session = Session::demo(spec()).await;
    let (reports, result) = session.turn("garbage").await;
    assert_eq!(result.outcome, TurnOutcome::Completed);
    let raw: Vec<_> = reports
        .iter()
        .filter_map(|report| match report {
            Report::Event { event: Event::Notice { .. }, raw: Some(raw) } => {
                Some(String::from_utf8_lossy(raw).into_owned())
            }
            Report::Event { event: Event::Unknown { kind, .. }, raw: Some(raw) } => {
                Some(format!("{kind}: {}", String::from_utf8_lossy(raw)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        raw,
        [
            "this is not JSON".to_owned(),
            "{\"more\":{\"item\":".into(),
            "\u{fffd}\u{fffd} broken text".into(),
            "from_the_future: {\"from_the_future\":{\"x\":1}}".into(),
            "event: {\"event\":{\"type\":\"session_renamed\",\"name\":\"forged\"}}".into(),
            "[[[[\"not an object\"]]]]".into(),
            "[".repeat(100),
        ]
    );
    let whole = events(&reports)
        .iter()
        .any(|event| matches!(event, Event::Delta { text, .. } if text == "one \u{20ac}"));
    assert!(whole, "a character cut in two is whole again");
    session.stop().await;
}

#[tokio::test]
async fn a_long_history_comes_quickly_and_completely() {
    let mut session = Session::demo(spec()).await;
    let (reports, _) = session.turn("long 1000").await;
    let texts = said(&reports);
    assert_eq!(texts.len(), 1000);
    assert!(texts[999].starts_with("Message 1000 of 1000."));
    session.stop().await;
}

#[tokio::test]
async fn pieces_are_repeated_as_often_and_as_large_as_asked() {
    let mut session = Session::demo(spec()).await;
    let (reports, _) = session.turn("repeat 500 1024").await;
    let sizes: Vec<_> = events(&reports)
        .iter()
        .filter_map(|event| match event {
            Event::Delta { text, .. } => Some(text.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, vec![1024; 500]);
    assert_eq!(said(&reports).concat().len(), 500 * 1024);
    check_order(&reports);
    session.stop().await;
}

#[tokio::test]
async fn an_instruction_that_is_never_answered_is_rejected() {
    let impatient =
        portolan_agents::Supervision { answer: std::time::Duration::from_millis(100), ..supervision() };
    let mut session = Session::demo_with(spec(), impatient, None).await;
    session.prompt("hang").await;
    session.until(|report| matches!(report, Report::Event { event: Event::Usage { .. }, .. })).await;
    let instruction_id = session.order(Order::Context).await;
    let settled = session.until(|report| matches!(report, Report::Rejected { .. })).await;
    assert_eq!(
        settled,
        Report::Rejected { instruction_id, error: "the demo agent did not answer within 0.1 s".into() }
    );
    assert!(session.seen.contains(&Report::Delivered(instruction_id)));
    session.stop().await;
}

#[tokio::test]
async fn an_unknown_prompt_is_answered_with_the_known_ones() {
    let prompted = SessionSpec { system_prompt: Some(SystemPrompt::Append("be kind".into())), ..spec() };
    let mut session = Session::demo(prompted).await;
    let (reports, _) = session.turn("make me a sandwich").await;
    let text = &said(&reports)[0];
    assert!(
        text.starts_with("You said: “make me a sandwich”.")
            && text.contains("system prompt")
            && text.contains("**tool**")
    );
    session.stop().await;
}

#[tokio::test]
async fn names_of_a_later_start_differ_from_those_of_an_earlier_one() {
    use portolan_core::{
        Generation,
        ports::{Agent as _, Launch},
    };
    let agent = portolan_agents::demo::Demo::new(support::demo_command(), std::sync::Arc::new(supervision()));
    let link = agent.start(Launch { generation: Generation(2), ..support::launch(spec()) });
    let mut session = Session::of(link);
    session.until(|report| *report == Report::Ready).await;
    session.turn("say x").await;
    assert!(
        events(&session.seen).iter().any(|event| matches!(event, Event::Delta { item, .. } if item == "2.1"))
    );
    session.stop().await;
}
