//! The state: the status, the cost, the tree of subagents.

use super::*;

fn status(world: &World) -> Status {
    world.book.state().summary.status
}

// covers: 004-003, 004-004, 004-005, 004-006, 004-007, 004-008, 004-009, 003-100
#[test]
fn the_status_follows_the_life_of_the_agent() {
    let mut world = World::new();
    assert_eq!(status(&world), Status::Starting);
    world.report(Report::Ready);
    assert_eq!(status(&world), Status::Connected);
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    assert_eq!(status(&world), Status::Active, "a turn may start by itself");
    world.report(Report::LinkLost { reason: "cut".into() });
    assert_eq!(status(&world), Status::Disconnected);
    world.report(Report::LinkRestored);
    assert_eq!(status(&world), Status::Active);
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    assert_eq!(status(&world), Status::Idle);
    let summary = &world.book.state().summary;
    assert_eq!((summary.session, summary.agent.as_str()), (SESSION, "fake"));
    world.exit(ExitReason::Finished);
    assert_eq!(status(&world), Status::Terminated);
    let mut failed = World::new();
    failed.exit(ExitReason::NotReady);
    assert_eq!(status(&failed), Status::Error);
    assert_eq!(failed.book.state().summary.error.as_deref(), Some("it ended"));
}

// covers: 000-039, 000-047, 003-136, 004-107
#[test]
fn tokens_turns_and_money_add_up_and_unknown_cost_stays_unknown() {
    use crate::usage::{ModelUsage, TokenUsage};
    let mut world = ready();
    let info = crate::event::AgentInfo { model: Some("m".into()), ..crate::event::AgentInfo::default() };
    world.report(Report::Event { event: Event::AgentInfo { info: Box::new(info) }, raw: None });
    assert_eq!(world.book.state().context_window, 200_000);
    assert_eq!(world.book.state().summary.cost_usd, None);
    let usage = TokenUsage { input: 10, output: 5, cache_creation: 3, cache_read: 2 };
    let used = Event::Usage { usage, model: None, parent: None, context_window: None, context_only: false };
    world.report(Report::Event { event: used, raw: None });
    assert_eq!(world.book.state().context_used, Some(15));
    for cost_usd in [Some(0.5), None, Some(0.25)] {
        let mut result = TurnResult::bare(TurnOutcome::Completed);
        result.usage = Some(usage);
        result.cost_usd = cost_usd;
        let share = ModelUsage { usage, context_window: Some(1_000_000), max_output: Some(8_000), cost_usd };
        result.by_model.insert("m".into(), share);
        world.report(Report::TurnEnded { result: Box::new(result), raw: None });
    }
    let state = world.book.state();
    assert_eq!((state.summary.turns, state.summary.cost_usd), (3, Some(0.75)));
    assert_eq!(state.usage, TokenUsage { input: 30, output: 15, cache_creation: 9, cache_read: 6 });
    assert_eq!(state.context_window, 1_000_000);
    let model = &state.by_model["m"];
    assert_eq!((model.cost_usd, model.max_output), (Some(0.75), Some(8_000)));
    world.report(Report::Event { event: Event::Activity { activity: Some("compacting".into()) }, raw: None });
    assert_eq!(world.book.state().activity.as_deref(), Some("compacting"));
}

// covers: 003-078
#[test]
fn ten_subagents_at_once_form_a_tree_each_with_its_own_stream() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    for number in 0..10 {
        let started = Event::SubagentStarted {
            subagent: format!("s{number}"),
            parent: (number > 0).then(|| format!("s{}", (number - 1) / 2)),
            subagent_type: None,
            description: "look around".into(),
            prompt: None,
            model: None,
            background: true,
            team: None,
        };
        world.report(Report::Event { event: started, raw: None });
        let (item, parent) = (format!("1.{number}"), Some(format!("s{number}")));
        let begun = Event::ItemStarted { item: item.clone(), kind: ItemKind::Text, message: None, parent };
        world.report(Report::Event { event: begun, raw: None });
        let delta = Event::Delta { item, text: format!("from {number}") };
        world.report(Report::Event { event: delta, raw: None });
    }
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    let state = world.book.state();
    assert_eq!(state.subagents.len(), 10, "what runs in the background goes on after the turn");
    let parents: Vec<_> = state.subagents.iter().map(|subagent| subagent.parent.as_deref()).collect();
    assert_eq!(parents[..4], [None, Some("s0"), Some("s0"), Some("s1")]);
    for (number, item) in state.items.iter().enumerate() {
        assert_eq!(
            (item.parent.as_deref(), item.text.as_str()),
            (Some(&*format!("s{number}")), &*format!("from {number}"))
        );
    }
}

// covers: 002-050
#[test]
fn every_message_of_the_agent_moves_the_time_of_last_activity() {
    let mut world = ready();
    let before = world.book.state().summary.active_at;
    world.now = Millis(world.now.0 + 5_000);
    let event = Event::Notice { level: crate::event::Level::Info, text: "still here".into() };
    world.report(Report::Event { event, raw: None });
    let summary = &world.book.state().summary;
    assert_eq!(summary.active_at.0, before.0 + 5_000);
    assert_eq!(summary.created_at, Millis(1_000));
}

#[test]
fn settling_after_a_crash_is_no_activity_of_the_session() {
    let mut world = ready();
    world.send(1, prompt("work")).unwrap();
    let before = world.book.state().summary.active_at;
    world.now = Millis(world.now.0 + 86_400_000);
    world.crash();
    let summary = world.book.state().summary.clone();
    assert_eq!(summary.status, crate::session::state::Status::Terminated);
    assert_eq!(summary.active_at, before);
    world.send(2, Action::Rename { title: "again".into() }).unwrap();
    assert_eq!(world.book.state().summary.active_at, world.now);
}

// covers: 003-118, 003-121
#[test]
fn unsupported_commands_are_refused_and_the_agents_own_reports_are_known() {
    let mut world = ready();
    let refusal = world.send(1, Action::SetMode { mode: "plan".into() }).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Unsupported, "the flag is false");
    world.send(1, Action::SetModel { model: Some("m".into()) }).unwrap();
    let commands = vec![crate::capabilities::CommandInfo { name: "compact".into(), ..Default::default() }];
    let info = crate::event::AgentInfo {
        modes: Some(vec!["default".into()]),
        commands: Some(commands.clone()),
        ..crate::event::AgentInfo::default()
    };
    world.report(Report::Event { event: Event::AgentInfo { info: Box::new(info) }, raw: None });
    let known = &world.book.state().capabilities;
    assert_eq!(known.supported_commands, Some(commands));
    assert_eq!(known.supported_permission_modes, Some(vec!["default".into()]));
}

// covers: 003-119
#[test]
fn a_session_is_archived_only_if_its_agent_supports_it() {
    let mut world = ready();
    let cannot = Capabilities { session_archive: false, ..world.book.state().capabilities.clone() };
    world.machine.starting(&mut world.book, world.now, cannot, None);
    let refusal = world.send(1, Action::Archive { archived: true }).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Unsupported);
    assert_eq!(refusal.message, "the agent `fake` cannot have its sessions archived");
    assert!(!world.book.state().summary.archived);

    let mut world = ready();
    assert!(world.book.state().capabilities.session_archive);
    world.send(1, Action::Archive { archived: true }).unwrap();
    assert!(world.book.state().summary.archived);
}

#[test]
fn very_many_open_calls_and_subagents_cost_no_more_each_than_a_few() {
    const MANY: usize = 120_000;
    let began = std::time::Instant::now();
    let mut state = State::new(SESSION, SessionSpec::default(), Millis(0));
    let mut seq = 0;
    let mut apply = |state: &mut State, event: Event| {
        seq += 1;
        state.apply(Seq(seq), Millis(0), None, &event);
    };
    for number in 0..MANY {
        let name = format!("toolu_{number:024}");
        let call = Event::ToolCall {
            tool: name.clone(),
            item: None,
            message: None,
            parent: None,
            name: "Agent".into(),
            kind: crate::event::ToolKind::Subagent,
            title: None,
            input: serde_json::Value::Null,
            changes: Vec::new(),
        };
        apply(&mut state, call);
        let started = Event::SubagentStarted {
            subagent: name,
            parent: None,
            subagent_type: None,
            description: String::new(),
            prompt: None,
            model: None,
            background: false,
            team: None,
        };
        apply(&mut state, started);
    }
    assert_eq!((state.tools.len(), state.subagents.len()), (MANY, MANY));
    let names: Vec<String> = state.tools.iter().map(|open| open.tool.clone()).collect();
    assert!(names.is_sorted(), "oldest first");
    for tool in names {
        let (subagent, outcome) = (tool.clone(), crate::event::ToolOutcome::Interrupted);
        let result =
            Event::ToolResult { tool, parent: None, outcome, content: Vec::new(), changes: Vec::new() };
        apply(&mut state, result);
        apply(&mut state, Event::SubagentEnded { subagent, outcome, summary: None, work: None });
    }
    assert!(state.tools.is_empty() && state.subagents.is_empty());
    // Seconds on a slow machine; searching all of them for each call would take many minutes.
    assert!(began.elapsed() < std::time::Duration::from_mins(1), "{:?}", began.elapsed());
}

// The log shows whether an agent has lost a conversation.
#[test]
fn prompts_that_were_answered_are_counted_until_the_agent_forgets_them() {
    let mut state = State::new(SESSION, SessionSpec::default(), Millis(0));
    let tell =
        |state: &mut State, event: Event| state.apply(Seq(state.exchanges + 1), Millis(0), None, &event);
    let turn = |state: &mut State, words: &str, said: Option<&str>, outcome: TurnOutcome| {
        tell(state, Event::Prompt { command: Seq(1), content: vec![Content::text(words)] });
        tell(state, Event::TurnStarted { turn: 1, origin: TurnOrigin::Prompt });
        let result = TurnResult { text: said.map(str::to_owned), ..TurnResult::bare(outcome) };
        tell(state, Event::TurnEnded { turn: 1, result: Box::new(result) });
    };
    for forgets in [
        Event::ConversationReset { agent_session: None, reason: None },
        Event::Compacted { trigger: None, tokens_before: None, tokens_after: None },
    ] {
        turn(&mut state, "first words", Some("Yes."), TurnOutcome::Completed);
        turn(&mut state, "second words", Some("Yes."), TurnOutcome::Completed);
        turn(&mut state, "/status", Some("All is well."), TurnOutcome::Completed);
        turn(&mut state, "third words", None, TurnOutcome::Completed);
        turn(&mut state, "fourth words", Some("No."), TurnOutcome::Failed);
        assert_eq!(state.exchanges, 2);
        tell(&mut state, forgets);
        assert_eq!(state.exchanges, 0);
    }
}
