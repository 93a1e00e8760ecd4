//! The machine's decisions, one case each.

use super::*;
use crate::{
    WayOut,
    access::PolicySource,
    event::ToolOutcome,
    request::{AskOption, Verdict},
};

#[test]
fn the_agent_gets_no_instruction_before_its_commit() {
    let mut world = ready();
    let receipt = world.send(1, prompt("hello")).unwrap();
    assert_eq!(receipt.stage, Stage::Sending);
    assert_eq!(world.machine.next_instruction(receipt.seq), None, "its entries are not visible yet");
    world.commit();
    let expected = Instruction {
        id: InstructionId(receipt.seq.0),
        order: Order::Prompt { content: vec![Content::text("hello")] },
    };
    assert_eq!(world.told, [(1, expected)]);
}

// covers: 000-040
#[test]
fn a_pending_request_keeps_everything_that_was_asked_until_it_is_settled() {
    let mut world = ready();
    let ask = Ask::Permission {
        tool_name: "Bash".into(),
        input: serde_json::json!({ "command": "ls" }),
        description: Some("List".into()),
        changes: vec![],
        reason: Some("why".into()),
        blocked_path: Some("/p".into()),
        folder: None,
        suggestions: vec![serde_json::json!({ "type": "setMode" })],
        options: vec![],
    };
    let request = RequestId(world.book.head().0 + 1);
    let (key, tool) = ("key".to_owned(), Some("call".to_owned()));
    let opened = Report::RequestOpened {
        key,
        ask: Box::new(ask.clone()),
        parent: None,
        tool: tool.clone(),
        raw: None,
    };
    world.report(opened);
    let other = world.ask("Read");
    let kept = &world.book.state().requests[0];
    assert_eq!((kept.request, &kept.ask, &kept.tool), (request, &ask, &tool));
    world.send(1, yes(request)).unwrap();
    assert_eq!(world.open(), [other], "settled, and the other one still waits");
}

// covers: 000-057
#[test]
fn the_second_answer_is_refused_and_learns_who_was_first() {
    let mut world = ready();
    let request = world.ask("Bash");
    world.send(1, yes(request)).unwrap();
    let refusal = world.send(2, yes(request)).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::AlreadyClosed);
    assert_eq!(refusal.message, format!("request {request} was already answered by person 1 (test)"));
    world.commit();
    assert_eq!(world.answers_told().into_values().collect::<Vec<_>>(), [1]);
}

#[test]
fn the_same_command_id_is_done_once() {
    let mut world = ready();
    let id: CommandId = "once".parse().unwrap();
    let first = world.send_as(1, id.clone(), prompt("hello")).unwrap();
    let again = world.send_as(1, id.clone(), prompt("hello")).unwrap();
    assert_eq!(first, again);
    let other = world.send_as(2, id, prompt("hello")).unwrap();
    assert_ne!(first.seq, other.seq, "an id is the sender's own");
}

// covers: 000-098
#[test]
fn after_an_always_allow_nobody_is_asked_about_that_tool_again() {
    let mut world = ready();
    let request = world.ask("Bash");
    let answer = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
    world.send(1, Action::Answer { request, digest: None, answer, persist: None }).unwrap();
    world.ask("Bash");
    assert_eq!(world.open(), [], "the rule answered");
    world.ask("Write");
    assert_eq!(world.open().len(), 1, "a rule is about one tool");
    world.commit();
    let by_rule =
        Outcome::Answered { answer: Answer::allow(), by: Actor::policy(PolicySource::Rule, "allow Bash") };
    assert!(
        world
            .events()
            .iter()
            .any(|(_, e)| matches!(e, Event::RequestDecided { outcome, .. } if *outcome == by_rule))
    );
}

#[test]
fn an_answer_to_a_changed_request_is_refused() {
    let mut world = ready();
    let request = world.ask("Bash");
    let action =
        Action::Answer { request, digest: Some("other".into()), answer: Answer::allow(), persist: None };
    assert_eq!(world.send(1, action).unwrap_err().code, RefusalCode::Stale);
    assert_eq!(world.open(), [request]);
}

#[test]
fn an_option_fits_only_the_answer_that_it_belongs_to() {
    let option = |id: &str, verdict| AskOption::new(id, id.to_uppercase(), verdict);
    let ask = |options| Ask::permission("Bash", serde_json::json!({})).with_options(options);
    let offered = ask(vec![option("always", Verdict::Allow), option("never", Verdict::Deny)]);
    let allow = |option: &str| Answer::Allow {
        input: None,
        scope: Scope::Once,
        mode: None,
        option: Some(option.into()),
    };
    let deny = |option: &str| Answer::Deny { message: None, interrupt: false, option: Some(option.into()) };
    assert_eq!((allow("always").fits(&offered), deny("never").fits(&offered)), (Ok(()), Ok(())));
    assert!(allow("never").fits(&offered).unwrap_err().contains("NEVER"), "a no is never sent as a yes");
    assert!(deny("always").fits(&offered).is_err());
    let lasting = allow("acceptForSession").fits(&offered).unwrap_err();
    assert!(lasting.ends_with("allow the request once, or let Portolan make a rule"), "{lasting}");
    assert!(allow("always").fits(&ask(vec![])).is_err(), "nothing was offered");
    assert_eq!((Answer::allow().fits(&offered), Answer::deny(None).fits(&offered)), (Ok(()), Ok(())));
}

#[test]
fn always_is_refused_for_a_tool_whose_name_would_make_another_rule() {
    let always = Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
    for name in ["*", "mcp__*", "@run", "Run a command", "Bash(ls)", "a\u{7}b"] {
        let mut world = ready();
        let request = world.ask(name);
        let suggested = world.book.state().requests[0].suggested_rule.clone();
        assert_eq!(suggested, None, "{name:?}");
        let action = Action::Answer { request, digest: None, answer: always.clone(), persist: None };
        let refused = world.send(1, action).unwrap_err();
        assert_eq!(refused.code, RefusalCode::Invalid);
        assert!(refused.message.ends_with("allow the request once, or write a rule"), "{refused}");
        assert_eq!((world.open(), world.book.state().session_rules.len()), (vec![request], 0));
        world.send(1, yes(request)).unwrap();
        assert_eq!(world.open(), [], "once is possible");
    }
}

#[test]
fn an_edited_input_is_only_for_agents_that_support_it() {
    let mut world = ready();
    let request = world.ask("Bash");
    let input = Some(serde_json::json!({ "command": "ls" }));
    let answer = Answer::Allow { input, scope: Scope::Once, mode: None, option: None };
    let mut plain = world.book.state().capabilities.clone();
    plain.edited_input = false;
    let version = None;
    let protocol = plain.native_protocol;
    world.report(Report::Started {
        pid: None,
        version,
        holder: None,
        protocol,
        capabilities: Box::new(plain),
    });
    let action = Action::Answer { request, digest: None, answer, persist: None };
    assert_eq!(world.send(1, action).unwrap_err().code, RefusalCode::Unsupported);
    assert_eq!(world.open(), [request]);
}

#[test]
fn an_unanswered_request_is_denied_at_its_deadline_and_everyone_is_informed() {
    let mut world = ready();
    let request = world.ask("Bash");
    world.now = Millis(world.now.0 + 59_999);
    world.machine.expire(&mut world.book, world.now);
    assert_eq!(world.open(), [request]);
    world.now = Millis(world.now.0 + 1);
    world.machine.expire(&mut world.book, world.now);
    world.commit();
    assert_eq!(world.open(), []);
    assert!(
        world
            .events()
            .iter()
            .any(|(_, e)| matches!(e, Event::RequestClosed { outcome: Outcome::Expired, .. }))
    );
    assert_eq!(world.answers_told().len(), 1, "the agent gets the denial");
    assert_eq!(world.send(1, yes(request)).unwrap_err().code, RefusalCode::AlreadyClosed);
}

#[test]
fn an_interrupt_closes_waiting_requests_for_everybody() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let (first, second) = (world.ask("Bash"), world.ask("Write"));
    world.send(3, Action::Interrupt).unwrap();
    assert_eq!(world.open(), []);
    for request in [first, second] {
        let refusal = world.send(1, yes(request)).unwrap_err();
        assert!(matches!(refusal.outcome.as_deref(), Some(Outcome::Interrupted { .. })), "{refusal:?}");
        let tool = if request == first { "Bash" } else { "Write" };
        let words =
            format!("Approval cancelled for tool {tool}: request {request} was closed by an interrupt");
        assert!(refusal.message.starts_with(&words), "{refusal}");
    }
}

#[test]
fn a_prompt_during_a_turn_waits_for_its_end() {
    let mut world = ready();
    world.send(1, prompt("first")).unwrap();
    world.commit();
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    let second = world.send(1, prompt("second")).unwrap();
    assert_eq!(second.stage, Stage::Accepted);
    assert_eq!(world.book.state().summary.queued, 1);
    let first = world.told[0].1.id;
    world.report(Report::Consumed { instruction_id: first, result: None });
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    world.commit();
    assert_eq!(world.told.last().unwrap().1.id, InstructionId(second.seq.0));
}

#[test]
fn a_queued_prompt_can_be_withdrawn_once() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let queued = world.send(1, prompt("later")).unwrap();
    world.send(2, Action::Withdraw { prompt: queued.seq }).unwrap();
    assert_eq!(world.book.state().summary.queued, 0);
    let again = world.send(2, Action::Withdraw { prompt: queued.seq }).unwrap_err();
    assert_eq!(again.code, RefusalCode::NotFound);
}

fn stages(world: &World, of: Seq) -> Vec<Stage> {
    let stage = |(_, event)| match event {
        Event::Receipt { command, stage } if command == of => Some(stage),
        _ => None,
    };
    world.events().into_iter().filter_map(stage).collect()
}

#[test]
fn a_queued_prompt_is_moved_into_the_running_turn_once() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let (first, second) = (world.send(1, prompt("first")).unwrap(), world.send(1, prompt("second")).unwrap());
    let steer = world.send(2, Action::Steer { prompt: second.seq }).unwrap();
    assert_eq!(steer.stage, Stage::Consumed { result: None });
    world.commit();
    let content = vec![Content::text("second")];
    let instruction_id = InstructionId(second.seq.0);
    let into_the_turn = Instruction { id: instruction_id, order: Order::Steer { content: content.clone() } };
    assert_eq!(world.told, [(1, into_the_turn)], "the one that was not asked for waits");
    let said =
        |(_, event): &(Seq, Event)| *event == Event::Prompt { command: second.seq, content: content.clone() };
    assert_eq!(world.events().iter().filter(|entry| said(entry)).count(), 1);
    let again = world.send(2, Action::Steer { prompt: second.seq }).unwrap_err();
    assert_eq!(again.code, RefusalCode::AlreadyClosed);
    // The turn ends before the agent has accepted the prompt: nothing else is sent until the prompt is settled.
    world.report(Report::Delivered(instruction_id));
    world.report(Report::TurnEnded { result: Box::new(TurnResult::bare(TurnOutcome::Completed)), raw: None });
    world.commit();
    assert_eq!(world.told.len(), 1);
    world.report(Report::Consumed { instruction_id, result: None });
    world.commit();
    assert_eq!(world.told.last().unwrap().1.id, InstructionId(first.seq.0));
    assert_eq!(
        stages(&world, second.seq),
        [Stage::Sending, Stage::Delivered, Stage::Consumed { result: None }]
    );
}

#[test]
fn a_prompt_is_steered_only_if_it_waits_and_a_turn_runs_and_the_agent_supports_it() {
    let mut world = World::new();
    let steer = |world: &mut World, prompt| world.send(1, Action::Steer { prompt }).unwrap_err().code;
    let queued = world.send(1, prompt("first")).unwrap().seq;
    let refusal = world.send(1, Action::Steer { prompt: queued }).unwrap_err();
    let session = world.book.state().summary.session;
    assert_eq!(refusal.way_out, Some(WayOut::ResumeSession { session }));
    assert_eq!(steer(&mut world, queued), RefusalCode::NotRunning, "its agent is not ready");
    assert_eq!(steer(&mut world, Seq(9999)), RefusalCode::NotFound);
    world.report(Report::Ready);
    assert_eq!(steer(&mut world, queued), RefusalCode::AlreadyClosed, "it has left the queue");
    let next = world.send(1, prompt("second")).unwrap().seq;
    assert_eq!(steer(&mut world, next), RefusalCode::Stale, "the first has not begun its turn");
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    let mut plain = world.book.state().capabilities.clone();
    let protocol = plain.native_protocol;
    plain.steering = false;
    world.report(Report::Started {
        pid: None,
        version: None,
        holder: None,
        protocol,
        capabilities: Box::new(plain),
    });
    assert_eq!(steer(&mut world, next), RefusalCode::Unsupported);
    world.crash();
    assert_eq!(steer(&mut world, queued), RefusalCode::NotFound, "nothing of it was committed");
}

#[test]
fn a_crash_after_steering_leaves_the_prompt_uncertain() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let queued = world.send(1, prompt("later")).unwrap();
    world.send(2, Action::Steer { prompt: queued.seq }).unwrap();
    world.commit();
    world.crash();
    assert!(matches!(world.book.state().commands[0].stage, Stage::Uncertain { .. }));
    let refusal = world.send(2, Action::Steer { prompt: queued.seq }).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Stale);
    let session = world.book.state().summary.session;
    assert_eq!(refusal.way_out, Some(WayOut::SendAgain { session, command: queued.seq }));
    assert_eq!(world.prompts_told().into_values().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_crash_while_sending_leaves_the_prompt_uncertain_and_it_can_be_sent_again() {
    let mut world = ready();
    let sent = world.send(1, prompt("fragile")).unwrap();
    world.commit();
    world.crash();
    let state = world.book.state().clone();
    assert!(matches!(state.commands[0].stage, Stage::Uncertain { .. }), "{:?}", state.commands);
    assert_eq!(state.summary.status, Status::Terminated);
    world.send(1, Action::SendAgain { command: sent.seq }).unwrap();
    world.report(Report::Ready);
    world.commit();
    let prompts: Vec<_> =
        world.told.iter().filter(|(_, i)| matches!(i.order, Order::Prompt { .. })).collect();
    assert_eq!(prompts.len(), 2, "once before the crash, once because someone said so");
    assert_eq!(prompts[1].0, 2, "to the next start of the agent");
}

#[test]
fn a_prompt_that_the_agent_does_not_answer_is_uncertain_until_somebody_decides() {
    for late in [true, false] {
        let mut world = ready();
        let sent = world.send(1, prompt("heard?")).unwrap().seq;
        let next = world.send(1, prompt("next")).unwrap().seq;
        world.report(Report::Uncertain {
            instruction_id: InstructionId(sent.0),
            reason: "no answer in 30 s".into(),
        });
        let stage = |world: &World, seq| {
            let state = world.book.state();
            state.commands.iter().find(|open| open.seq == seq).map(|open| open.stage.clone())
        };
        assert_eq!(stage(&world, sent), Some(Stage::Uncertain { reason: "no answer in 30 s".into() }));
        assert_eq!(stage(&world, next), Some(Stage::Sending), "others do not wait for it");
        if late {
            world.report(Report::Consumed { instruction_id: InstructionId(sent.0), result: None });
            assert_eq!(stage(&world, sent), None, "an answer that comes late is an answer");
        } else {
            world.send(1, Action::SendAgain { command: sent }).unwrap();
            assert_eq!(stage(&world, sent), None, "it is another prompt now");
        }
        world.commit();
    }
}

#[test]
fn a_setting_that_the_agent_does_not_confirm_is_not_reported_as_changed() {
    let mut world = ready();
    let set = world.send(1, Action::SetModel { model: Some("m".into()) }).unwrap().seq;
    world.report(Report::Uncertain {
        instruction_id: InstructionId(set.0),
        reason: "no answer in 30 s".into(),
    });
    world.commit();
    let changed = |(_, event): &(Seq, Event)| matches!(event, Event::SettingChanged { .. });
    assert!(!world.events().iter().any(changed));
    assert!(world.book.state().commands.is_empty(), "it can only be sent again");
}

#[test]
fn a_crash_before_sending_leaves_the_prompt_in_the_queue() {
    let mut world = World::new();
    world.send(1, prompt("patient")).unwrap();
    world.commit();
    world.crash();
    assert_eq!(world.book.state().summary.queued, 1);
    world.send(1, Action::Resume).unwrap();
    world.report(Report::Ready);
    world.commit();
    assert!(
        matches!(&world.told[0].1.order, Order::Prompt { content } if *content == [Content::text("patient")])
    );
}

#[test]
fn an_agent_that_fails_is_started_again_three_times_and_then_stays_stopped() {
    let mut world = ready();
    for expected in 2..=4 {
        world.exit(ExitReason::Failed);
        world.settle();
        assert_eq!(world.started, expected);
    }
    world.exit(ExitReason::Failed);
    world.settle();
    assert_eq!(world.started, 4);
    assert!(!world.machine.is_running());
    assert_eq!(world.book.state().summary.status, Status::Error);
}

// covers: 000-072
#[test]
fn an_agent_that_never_started_is_not_tried_again() {
    let mut world = World::new();
    world.exit(ExitReason::NotStarted);
    world.settle();
    assert!(!world.machine.is_running());
    assert_eq!(world.book.state().summary.error.as_deref(), Some("it ended"));
}

#[test]
fn the_text_of_an_item_that_was_cut_off_is_kept() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
    let started =
        Event::ItemStarted { item: "1.1".into(), kind: ItemKind::Text, message: None, parent: None };
    world.report(Report::Event { event: started, raw: None });
    for text in ["half a ", "sentence"] {
        world.report(Report::Event {
            event: Event::Delta { item: "1.1".into(), text: text.into() },
            raw: None,
        });
    }
    world.exit(ExitReason::Failed);
    world.settle();
    let kept = world.events().into_iter().find_map(|(_, event)| match event {
        Event::Message { item, content, interrupted: true, .. } if item == "1.1" => Some(content),
        _ => None,
    });
    assert_eq!(kept, Some(vec![Content::text("half a sentence")]));
    let ended = world.events().into_iter().any(|(_, event)| {
        matches!(event, Event::TurnEnded { result, .. } if result.outcome == TurnOutcome::Failed)
    });
    assert!(ended);
}

#[test]
fn an_archived_session_keeps_no_process() {
    let mut world = ready();
    world.send(1, Action::Archive { archived: true }).unwrap();
    world.commit();
    assert!(!world.machine.is_running());
    assert_eq!(world.book.state().commands, []);
    assert!(world.book.state().summary.archived);
}

#[test]
fn a_slow_reader_gets_exactly_the_missing_text() {
    let mut world = ready();
    let started = Event::ItemStarted { item: "i".into(), kind: ItemKind::Text, message: None, parent: None };
    world.report(Report::Event { event: started, raw: None });
    let before = world.book.head();
    let delta =
        |text: &str| Report::Event { event: Event::Delta { item: "i".into(), text: text.into() }, raw: None };
    world.report(delta("one "));
    let after_one = world.book.head();
    world.report(delta("two "));
    world.report(delta("three"));
    let head = world.book.head();
    let text = |text: &str| vec![Event::Delta { item: "i".into(), text: text.into() }];
    assert_eq!(world.book.state().merged(after_one, head), text("two three"));
    assert_eq!(world.book.state().merged(before, after_one), text("one "));
    assert_eq!(world.book.state().merged(head, head), []);
    assert_eq!(
        world.book.state().merged(Seq::ZERO, head).len(),
        2,
        "with its beginning for who missed that too"
    );
}

fn streams(world: &mut World, event: Event) {
    world.report(Report::Event { event, raw: None });
}

/// The durable messages: each with its name and its text.
fn messages(world: &World) -> Vec<(String, String, bool)> {
    let decoded =
        world.committed.iter().chain(&world.fresh).filter_map(|stored| stored.decode::<Event>().ok());
    let message = |event| match event {
        Event::Message { item, content, interrupted, .. } => {
            Some((item, crate::event::plain_text(&content), interrupted))
        }
        _ => None,
    };
    decoded.filter_map(|entry| message(entry.event)).collect()
}

/// The durable results: how each tool ended, and the text of its result.
fn results(world: &World) -> Vec<(ToolOutcome, String)> {
    let decoded =
        world.committed.iter().chain(&world.fresh).filter_map(|stored| stored.decode::<Event>().ok());
    let result = |event| match event {
        Event::ToolResult { outcome, content, .. } => Some((outcome, crate::event::plain_text(&content))),
        _ => None,
    };
    decoded.filter_map(|entry| result(entry.event)).collect()
}

#[test]
fn an_item_without_end_is_kept_in_parts_and_shown_once() {
    use super::super::parts::PART_BYTES;
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    let (item, kind) = ("1.1".to_owned(), ItemKind::Text);
    streams(&mut world, Event::ItemStarted { item: item.clone(), kind, message: None, parent: None });
    let piece = "ä".repeat(100 * 1024);
    let count = 3 * PART_BYTES / piece.len();
    let mut most = 0;
    for _ in 0..count {
        streams(&mut world, Event::Delta { item: item.clone(), text: piece.clone() });
        most = most.max(world.book.state().items.iter().map(|open| open.text.len()).sum());
    }
    assert!(most <= PART_BYTES, "{most}");
    let whole = piece.repeat(count);
    let finished = Event::Message {
        item,
        message: None,
        parent: None,
        model: None,
        content: vec![Content::text(whole.clone())],
        interrupted: false,
        stop_reason: None,
    };
    streams(&mut world, finished);
    assert_eq!(world.book.state().items, []);
    let told = messages(&world);
    let names: Vec<_> = told.iter().map(|(item, _, cut_off)| (item.as_str(), *cut_off)).collect();
    assert_eq!(names, [("1.1", false), ("1.1~2", false), ("1.1~3", false)]);
    let text: String = told.iter().map(|(_, text, _)| text.as_str()).collect();
    assert!(text == whole, "{} of {}", text.len(), whole.len());
}

#[test]
fn a_finished_text_that_is_not_what_streamed_is_kept_whole() {
    use super::super::parts::PART_BYTES;
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    for _ in 0..2 {
        streams(&mut world, Event::Delta { item: "1.1".into(), text: "x".repeat(PART_BYTES) });
    }
    let other = "y".repeat(3 * PART_BYTES);
    let finished = Event::Message {
        item: "1.1".into(),
        message: None,
        parent: None,
        model: None,
        content: vec![Content::text(other.clone())],
        interrupted: false,
        stop_reason: None,
    };
    streams(&mut world, finished);
    assert!(messages(&world).last().unwrap().1 == other);
}

// Streamed output beyond 1 MiB was kept as messages beside the result.
#[test]
fn output_without_end_belongs_to_its_tool_and_is_closed_by_its_result_or_with_its_turn() {
    use super::super::parts::PART_BYTES;
    let mut world = ready();
    for ends in [true, false] {
        world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
        let (item, kind) = ("tool".to_owned(), ItemKind::ToolOutput);
        streams(&mut world, Event::ItemStarted { item: item.clone(), kind, message: None, parent: None });
        for _ in 0..4 {
            streams(&mut world, Event::Delta { item: item.clone(), text: "ä".repeat(PART_BYTES / 3) });
        }
        let [open] = &world.book.state().items[..] else { panic!("one item is open") };
        assert_eq!(open.item, "tool");
        assert!(open.text.len() < PART_BYTES + 200, "{} bytes are open", open.text.len());
        assert!(open.text.ends_with("the rest is not shown until the result comes\n"));
        let before = messages(&world).len();
        if ends {
            let outcome = ToolOutcome::Done;
            let (content, changes) = (vec![Content::text("all of it")], Vec::new());
            streams(&mut world, Event::ToolResult { tool: item, parent: None, outcome, content, changes });
            assert_eq!(world.book.state().items, []);
        }
        let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
        world.report(Report::TurnEnded { result, raw: None });
        assert_eq!(world.book.state().items, []);
        assert_eq!(messages(&world).len(), before, "no message holds output of a tool");
    }
    let results = results(&world);
    let outcomes: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [ToolOutcome::Done, ToolOutcome::Interrupted]);
    assert!(results[1].1.starts_with('ä'), "what there was of it is kept");
}

// After a crash the output was in a message beside an empty result.
#[test]
fn output_that_a_crash_left_open_is_its_tools_result() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    streams(
        &mut world,
        Event::ToolCall {
            tool: "tool".into(),
            item: None,
            message: None,
            parent: None,
            name: "exec_command".into(),
            kind: crate::event::ToolKind::Execute,
            title: None,
            input: serde_json::Value::Null,
            changes: Vec::new(),
        },
    );
    world.commit();
    let (item, kind) = ("tool".to_owned(), ItemKind::ToolOutput);
    let started = Event::ItemStarted { item: item.clone(), kind, message: None, parent: None };
    let log = crate::LogId::Session(SESSION);
    let started = crate::Entry::new(log, crate::Seq(1), Millis(0), None, started).frame().clone();
    world.chunks.push(OpenItem { item, started, text: "half of it".into() });
    world.crash();
    assert_eq!(results(&world), [(ToolOutcome::Interrupted, "half of it".to_owned())]);
    assert_eq!(messages(&world), []);
}

#[test]
fn shown_output_is_kept_if_the_result_is_empty() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    for content in [vec![], vec![Content::text("")], vec![Content::text("all of it")]] {
        let (item, kind) = ("tool".to_owned(), ItemKind::ToolOutput);
        streams(&mut world, Event::ItemStarted { item: item.clone(), kind, message: None, parent: None });
        streams(&mut world, Event::Delta { item: item.clone(), text: "half of it".into() });
        let (outcome, changes) = (ToolOutcome::Interrupted, Vec::new());
        streams(&mut world, Event::ToolResult { tool: item, parent: None, outcome, content, changes });
    }
    let kept: Vec<String> = results(&world).into_iter().map(|(_, text)| text).collect();
    assert_eq!(kept, ["half of it", "half of it", "all of it"]);
}

#[test]
fn an_item_that_will_not_be_finished_is_kept_as_cut_off() {
    let mut world = ready();
    world.report(Report::TurnStarted { origin: TurnOrigin::Agent });
    streams(&mut world, Event::Delta { item: "1.1".into(), text: "half a".into() });
    world.report(Report::CutOff { item: "1.1".into(), model: None });
    world.report(Report::CutOff { item: "unknown".into(), model: None });
    assert_eq!(world.book.state().items, []);
    assert_eq!(messages(&world), [("1.1".to_owned(), "half a".to_owned(), true)]);
}

/// The MCP servers in the agent's instructions, by name and in order.
fn servers_told(world: &World) -> Vec<Vec<String>> {
    let names = |told: &(u32, Instruction)| match &told.1.order {
        Order::McpSet(servers) => Some(servers.keys().cloned().collect()),
        _ => None,
    };
    world.told.iter().filter_map(names).collect()
}

// covers: 004-021
#[test]
fn servers_set_with_keep_are_added_to_the_earlier_ones() {
    let mut world = ready();
    let set = |names: &[&str], keep| Action::McpSet {
        servers: names.iter().map(|name| ((*name).to_owned(), serde_json::json!({ "url": name }))).collect(),
        keep,
    };
    world.send(1, set(&["harbour"], false)).unwrap();
    world.send(2, set(&["page"], true)).unwrap();
    world.send(2, set(&["page"], true)).unwrap();
    world.send(1, set(&["quay"], false)).unwrap();
    world.commit();
    assert_eq!(
        servers_told(&world),
        [vec!["harbour"], vec!["harbour", "page"], vec!["harbour", "page"], vec!["quay"]]
    );
}

#[test]
fn a_prompt_that_comes_while_the_agent_is_being_ended_starts_it_again() {
    let mut world = ready();
    let mut at_once = |id: &str, action: Action| {
        let token: TokenId = "t1".parse().unwrap();
        let by = Actor::Person { token: token.clone(), name: "person 1".into(), via: "test".into() };
        let key = CommandKey { token, id: id.parse().unwrap() };
        world.machine.command(&mut world.book, world.now, Command { key, by, action }).unwrap();
    };
    at_once("a", Action::Stop);
    at_once("b", prompt("wait"));
    // The agent ends after the stop is committed, and is needed again.
    world.commit();
    world.settle();
    assert_eq!(world.started, 2);
    world.report(Report::Ready);
    world.commit();
    assert_eq!(world.prompts_told().into_values().collect::<Vec<_>>(), [1]);
}

#[test]
fn settings_of_a_running_agent_are_set_again_at_its_next_start() {
    let mut world = ready();
    let thinking = Event::SettingChanged { setting: crate::event::Setting::Thinking { tokens: Some(2000) } };
    world.report(Report::Event { event: thinking, raw: None });
    world.send(1, Action::Stop).unwrap();
    world.commit();
    world.send(1, Action::Resume).unwrap();
    world.report(Report::Ready);
    world.commit();
    let (generation, again) = world.told.last().unwrap();
    assert_eq!((*generation, &again.order), (2, &Order::SetThinking(Some(2000))));
    let answered = world.book.head();
    world.report(Report::Consumed { instruction_id: again.id, result: None });
    assert_eq!(world.book.head(), answered, "no command waits for this");
}
