//! Sessions as a frontend sees them: created, joined, left, slow, crashed, shared.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{Reader, World, capabilities, spec};
use portolan_core::{
    Action, Capabilities, CommandId, DaemonEvent, Event, LogId, Millis, RefusalCode, Role, Seq, SessionSpec,
    capabilities::NativeProtocol,
    command::Stage,
    event::{Content, ErrorInfo, ErrorKind, ExitReason, ResetReason},
    log::delivery::{Closed, Delivery, Mode, Start},
    ports::{Clock, Order, Report, SessionQuery, Store as _},
    request::{Answer, Ask, Outcome},
    session::{machine::Policy, state::Status},
    spec::ForkPoint,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::finished,
    sessions::{owner, principal},
};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn is_message(event: &Event) -> bool {
    matches!(event, Event::Message { .. })
}

// covers: 003-006, 003-101
#[tokio::test]
async fn a_late_reader_gets_the_history_then_the_open_text_then_new_entries() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "hello").await;
    agent.take_prompt().await;
    let mut early = world.attach(session, Start::After(Seq::ZERO)).await;
    agent.finish_item("1.1", "first").await;
    agent.begin_item("1.2").await;
    agent.delta("1.2", "so ").await;
    early.until(|event| matches!(event, Event::Delta { .. })).await;

    let mut late =
        world.registry.attach(&owner(), session, Start::After(Seq::ZERO), Mode::Every).await.unwrap();
    let (mut numbers, snapshot) = (
        Vec::new(),
        loop {
            match late.next().await {
                Delivery::Snapshot(snapshot) => break snapshot,
                Delivery::Entries(pieces) => println!("{} entries of history", pieces.len()),
                _ => {}
            }
        },
    );
    assert_eq!(snapshot.state.items[0].text, "so ");
    agent.delta("1.2", "far").await;
    let mut late = Reader { reader: late, seen: Vec::new() };
    late.until(|event| matches!(event, Event::Delta { .. })).await;
    assert_eq!(late.text("1.2"), "far", "nothing twice, nothing missing");
    numbers.extend(late.seen.iter().map(|(seq, _)| *seq));
    assert!(numbers.iter().all(|seq| *seq > snapshot.seq));
}

#[tokio::test]
async fn a_reader_that_reconnects_with_its_last_number_misses_nothing() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "count").await;
    agent.take_prompt().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let mut seen = Vec::new();
    for number in 0..40 {
        agent.finish_item(&format!("1.{number}"), &number.to_string()).await;
        if number % 7 == 3 {
            reader.until(is_message).await;
            seen.append(&mut reader.seen);
            let last = seen.last().unwrap().0;
            drop(reader);
            reader = world.attach(session, Start::After(last)).await;
        }
    }
    reader.until(|event| matches!(event, Event::Message { item, .. } if item == "1.39")).await;
    seen.append(&mut reader.seen);
    let texts: Vec<_> = seen
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Message { content, .. } => match &content[0] {
                Content::Text { text } => text.parse::<u32>().ok(),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(texts, (0..40).collect::<Vec<_>>());
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, each once");
}

#[tokio::test]
async fn a_reader_that_stopped_reading_catches_up_without_loss_of_text() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "a lot").await;
    agent.take_prompt().await;
    let mut stopped = world.attach(session, Start::After(Seq::ZERO)).await;
    let mut steady = world.attach(session, Start::After(Seq::ZERO)).await;
    agent.begin_item("1.1").await;
    let begun = |event: &Event| matches!(event, Event::ItemStarted { .. });
    stopped.until(begun).await;
    steady.until(begun).await;
    // Far more than the ring holds.
    let mut expected = String::new();
    for number in 0..10_000 {
        let text = format!("{number} ");
        agent.delta("1.1", &text).await;
        expected.push_str(&text);
    }
    agent.begin_item("1.2").await;
    let next = |event: &Event| matches!(event, Event::ItemStarted { item, .. } if item == "1.2");
    steady.until(next).await;
    assert_eq!(steady.text("1.1"), expected);
    stopped.until(next).await;
    assert_eq!(stopped.text("1.1"), expected);
    let deltas = stopped.seen.iter().filter(|(_, event)| matches!(event, Event::Delta { .. })).count();
    assert!(deltas < 6_000, "{deltas} deltas: the ones it was behind by are merged");
}

#[tokio::test]
async fn nothing_uncommitted_is_shown_or_sent_to_the_agent() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    world.store.hold();
    let registry = world.registry.clone();
    let action = Action::Prompt { content: vec![Content::text("wait")] };
    let sent =
        tokio::spawn(async move { registry.submit(&owner(), session, CommandId::random(), action).await });
    let silent = tokio::time::timeout(Duration::from_millis(100), reader.until(|_| true)).await;
    assert!(silent.is_err(), "shown before it was committed: {:?}", reader.seen.last());
    assert!(agent.instructions.try_recv().is_err(), "told before it was committed");
    assert!(!sent.is_finished(), "acknowledged before it was committed");
    world.store.release();
    assert_eq!(sent.await.unwrap().unwrap().stage, Stage::Sending);
    reader.until(|event| matches!(event, Event::Prompt { .. })).await;
    assert!(matches!(agent.told().await.order, Order::Prompt { .. }));
}

#[tokio::test]
async fn a_store_that_fails_refuses_commands_and_changes_nothing() {
    let world = World::new().await;
    let (session, _agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    world.store.fail("the disk is full");
    let action = Action::Rename { title: "new".into() };
    let refusal =
        world.registry.submit(&owner(), session, CommandId::random(), action.clone()).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::StoreFailing);
    assert!(refusal.message.contains("the disk is full"), "{}", refusal.message);
    world.store.release();
    world.registry.submit(&owner(), session, CommandId::random(), action).await.unwrap();
}

#[tokio::test]
async fn a_long_stream_writes_no_checkpoint_before_its_end() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "a long story").await;
    agent.take_prompt().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    agent.begin_item("1.1").await;
    for _ in 0..5000 {
        agent.delta("1.1", "x").await;
    }
    agent.delta("1.1", "end").await;
    reader.until(|event| matches!(event, Event::Delta { text, .. } if text.ends_with("end"))).await;
    let checkpoint = async || {
        world.store.flush().await.unwrap();
        world.store.load(LogId::Session(session)).await.unwrap().unwrap().checkpoint
    };
    assert_eq!(checkpoint().await, None, "all of the open text would be written again and again");
    agent.finish_item("1.1", "done").await;
    reader.until(is_message).await;
    assert!(checkpoint().await.is_some());
}

#[tokio::test]
async fn an_agent_is_not_read_while_its_streamed_text_cannot_be_written() {
    streams_no_further(|store| store.fail("the disk is full")).await;
}

#[tokio::test]
async fn an_agent_is_not_read_while_a_slow_disk_writes_its_streamed_text() {
    streams_no_further(MemoryStore::hold).await;
}

/// An agent that streams while the store is as `stuck` makes it: the agent is held back, and nothing is lost.
async fn streams_no_further(stuck: impl FnOnce(&MemoryStore)) {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "a long story").await;
    agent.take_prompt().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    agent.begin_item("1.1").await;
    stuck(&world.store);
    let mut said = 0;
    // Without this limit, so much would be shown that a kill would lose.
    let blocked = loop {
        if said == 1_000_000 {
            break false;
        }
        if tokio::time::timeout(Duration::from_secs(1), agent.delta("1.1", "x")).await.is_err() {
            break true;
        }
        said += 1;
        if said == 1 {
            while world.store.waiting() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    assert!(blocked, "the agent is read although nothing can be written");
    world.store.release();
    agent.finish_item("1.1", &"x".repeat(said)).await;
    reader.until(is_message).await;
    let text = reader.text("1.1");
    assert!(said <= text.len() && text.len() <= said + 1, "{said} were said, {} came", text.len());
}

#[tokio::test]
async fn a_stop_or_interrupt_reaches_the_agent_even_when_nothing_can_be_recorded() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "a long story").await;
    agent.take_prompt().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::TurnStarted { .. })).await;
    let owner = owner();
    let submit = |action| world.registry.submit(&owner, session, CommandId::random(), action);
    world.store.fail("the disk is full");

    let refusal = submit(Action::Interrupt).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::StoreFailing);
    assert_eq!(
        refusal.message,
        "the agent was asked to interrupt its turn; nothing can be recorded at the moment: the disk is full"
    );
    assert_eq!(agent.told().await.order, Order::Interrupt);

    // Even if the session's task itself waits for the disk: the store's queue is full.
    let mut number = 0;
    loop {
        number += 1;
        let item = format!("1.{number}");
        let said = agent.finish_item(&item, "more");
        if tokio::time::timeout(Duration::from_millis(200), said).await.is_err() {
            break;
        }
    }
    let refusal = world.registry.delete(&owner, session).await.unwrap_err();
    assert!(
        refusal.message.starts_with("the session's agent was asked to stop, but the session was not deleted")
    );
    agent.stop.cancelled().await;
    let refusal = submit(Action::Stop).await.unwrap_err();
    assert!(refusal.message.starts_with("the agent was asked to stop; nothing"), "{}", refusal.message);

    world.store.release();
    reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    let interrupts = reader.seen.iter().filter(
        |(_, event)| matches!(event, Event::CommandAccepted { action, .. } if **action == Action::Interrupt),
    );
    assert_eq!(interrupts.count(), 0, "a late interrupt would hit another turn");
}

#[tokio::test]
async fn an_archived_session_loses_its_agent_even_when_nothing_can_be_recorded() {
    let world = World::new().await;
    let (session, agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    world.store.fail("the disk is full");
    let archive = |archived| Action::Archive { archived };
    let owner = owner();
    let submit = |action| world.registry.submit(&owner, session, CommandId::random(), action);
    let refusal = submit(archive(true)).await.unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (
            RefusalCode::StoreFailing,
            "the session is archived as soon as the change can be recorded; the agent was asked to stop; \
             nothing can be recorded at the moment: the disk is full"
        )
    );
    agent.stop.cancelled().await;
    let refusal = submit(archive(false)).await.unwrap_err();
    assert!(refusal.message.starts_with("nothing can be recorded"), "taking it out can wait: {refusal:?}");

    world.store.release();
    // In either order: the agent does not wait for the recording.
    let seen = |reader: &Reader, fits: fn(&Event) -> bool| reader.seen.iter().any(|(_, event)| fits(event));
    while !(seen(&reader, |event| matches!(event, Event::SessionArchived { archived: true }))
        && seen(&reader, |event| matches!(event, Event::AgentExited { .. })))
    {
        reader.until(|_| true).await;
    }
    assert_eq!(
        world.registry.snapshot(&owner, session).await.unwrap().state.summary.status,
        Status::Terminated
    );
}

#[tokio::test]
async fn an_agent_is_stopped_even_if_its_session_accepts_nothing_more() {
    let world = World::new().await;
    let (session, agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    world.store.fail("the disk is full");
    // The task waits for the store, and its mailbox is full.
    let mut number = 0;
    loop {
        number += 1;
        let item = format!("1.{number}");
        let said = agent.finish_item(&item, "more");
        if tokio::time::timeout(Duration::from_millis(200), said).await.is_err() {
            break;
        }
    }
    let owner = owner();
    for _ in 0..200 {
        let stop = world.registry.submit(&owner, session, CommandId::random(), Action::Stop);
        let refusal = stop.await.unwrap_err();
        assert!(refusal.message.starts_with("the agent was asked to stop; nothing"), "{}", refusal.message);
    }
    agent.stop.cancelled().await;
    let archived = Action::Archive { archived: true };
    let refusal = world.registry.submit(&owner, session, CommandId::random(), archived).await.unwrap_err();
    assert!(refusal.message.starts_with("the agent was asked to stop; nothing"), "{}", refusal.message);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_recorded_is_refused_and_not_waited_for_for_ever() {
    let world = World::new().await;
    let owner = owner();
    let (session, _agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    world.store.fail("the disk is full");
    let archive = Action::Archive { archived: true };
    world.registry.submit(&owner, session, CommandId::random(), archive).await.unwrap_err();
    while !world.registry.newest_state(&owner, session).await.unwrap().summary.archived {
        tokio::task::yield_now().await;
    }
    let refusal = world.registry.snapshot(&owner, session).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::StoreFailing);
    assert!(refusal.message.contains("the disk is full"), "{}", refusal.message);
    world.store.release();
    assert!(world.registry.snapshot(&owner, session).await.unwrap().state.summary.archived);
}

#[tokio::test]
async fn a_start_that_can_never_work_is_not_tried_again() {
    let world = World::new().await;
    let (session, agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    agent.exit(ExitReason::Failed).await;
    let again = world.puppet().await;
    assert!(again.launch.resume.is_some(), "the first failure is taken for an accident");
    let error = ErrorInfo { kind: ErrorKind::Agent, message: "no such conversation".into(), way_out: None };
    again.event(Event::Failure { error, recoverable: false }).await;
    again.exit(ExitReason::NotReady).await;
    let notice = reader.until(|event| matches!(event, Event::Notice { .. })).await;
    let Event::Notice { text, .. } = notice else { unreachable!() };
    assert!(text.contains("cannot resume its conversation and stays stopped"), "{text}");
    assert_eq!(
        reader.seen.iter().filter(|(_, event)| matches!(event, Event::AgentStarting { .. })).count(),
        2
    );
}

#[tokio::test]
async fn an_interrupt_on_its_way_when_the_disk_fills_up_still_reaches_the_agent() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "a long story").await;
    agent.take_prompt().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::TurnStarted { .. })).await;
    world.store.hold();
    let registry = world.registry.clone();
    let sent = tokio::spawn(async move {
        registry.submit(&owner(), session, CommandId::random(), Action::Interrupt).await
    });
    // The command's entry waits for its commit.
    while world.store.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    world.store.fail("the disk is full");
    assert_eq!(sent.await.unwrap().unwrap_err().code, RefusalCode::StoreFailing);
    assert_eq!(agent.told().await.order, Order::Interrupt);
}

// covers: 003-104
#[tokio::test]
async fn fifty_answers_at_once_reach_the_agent_as_one_and_the_others_learn_who_was_first() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    agent.ask("key").await;
    let opened = reader.until(|event| matches!(event, Event::RequestOpened { .. })).await;
    let Event::RequestOpened { request } = opened else { unreachable!() };
    let mut answers = tokio::task::JoinSet::new();
    for number in 0..50 {
        let registry = world.registry.clone();
        let request = request.request;
        answers.spawn(async move {
            let who = principal(&format!("person-{number}"), Role::Operator);
            let answer = Answer::allow();
            let action = Action::Answer { request, digest: None, answer, persist: None };
            loop {
                match registry.submit(&who, session, CommandId::random(), action.clone()).await {
                    Err(refusal) if refusal.code == RefusalCode::Busy => tokio::task::yield_now().await,
                    other => return (number, other),
                }
            }
        });
    }
    let all = answers.join_all().await;
    let winners: Vec<_> =
        all.iter().filter(|(_, result)| result.is_ok()).map(|(number, _)| *number).collect();
    assert_eq!(winners.len(), 1);
    let first = format!("person-{}", winners[0]);
    for (_, refused) in all.iter().filter(|(_, result)| result.is_err()) {
        let refusal = refused.as_ref().unwrap_err();
        let Some(Outcome::Answered { by, .. }) = refusal.outcome.as_deref() else { panic!("{refusal:?}") };
        assert_eq!(by.to_string(), format!("{first} (test)"));
    }
    assert!(matches!(agent.told().await.order, Order::Answer { key, .. } if key == "key"));
    assert!(agent.instructions.try_recv().is_err(), "a second answer");
}

#[tokio::test]
async fn the_same_command_id_is_answered_from_the_log_even_after_a_restart_and_takes_no_other_command() {
    let store = Arc::new(MemoryStore::new());
    let id: CommandId = "my-prompt".parse().unwrap();
    let action = Action::Prompt { content: vec![Content::text("once")] };
    let (session, first) = {
        let world = World::over(Arc::clone(&store), Policy::default()).await;
        let (session, mut agent) = world.session().await;
        let first = world.registry.submit(&owner(), session, id.clone(), action.clone()).await.unwrap();
        agent.take_prompt().await;
        let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
        reader.until(|event| matches!(event, Event::Receipt { stage: Stage::Consumed { .. }, .. })).await;
        let again = world.registry.submit(&owner(), session, id.clone(), action.clone()).await.unwrap();
        assert_eq!(again.seq, first.seq);
        let other = Action::Prompt { content: vec![Content::text("something else")] };
        let refused = world.registry.submit(&owner(), session, id.clone(), other).await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::Invalid);
        assert!(refused.message.contains("`my-prompt` was used for another command"), "{}", refused.message);
        world.registry.shutdown(Duration::ZERO).await;
        (session, first)
    };
    let world = World::over(store, Policy::default()).await;
    let again = world.registry.submit(&owner(), session, id, action).await.unwrap();
    assert_eq!((again.seq, again.stage), (first.seq, Stage::Consumed { result: None }));
}

// covers: 002-038
#[tokio::test]
async fn the_same_create_id_makes_one_session() {
    let world = World::new().await;
    let id: CommandId = "my-session".parse().unwrap();
    let first = world.registry.create(&owner(), id.clone(), spec()).await.unwrap();
    let again = world.registry.create(&owner(), id.clone(), spec()).await.unwrap();
    assert_eq!(first.session, again.session);
    let other = world.registry.create(&principal("other", Role::Operator), id, spec()).await.unwrap();
    assert_ne!(first.session, other.session);
}

// covers: 002-036, 002-039, 003-093
#[tokio::test]
async fn a_prompt_to_an_ended_session_resumes_it_by_the_agents_own_id() {
    let world = World::new().await;
    let (session, agent) = world.session().await;
    assert_eq!(agent.launch.resume, None);
    agent.exit(ExitReason::Finished).await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    world.prompt(session, "are you there?").await;
    let mut again = world.puppet().await;
    assert_eq!(again.launch.resume.as_ref().unwrap().agent_session, "agent-session");
    assert_eq!(again.launch.generation.0, 2);
    again.ready().await;
    again.take_prompt().await;
}

#[tokio::test]
async fn an_agent_that_cannot_resume_reports_its_lost_conversation_before_the_next_prompt() {
    let world = World::new().await;
    let made = world.registry.create(&owner(), CommandId::random(), spec()).await.unwrap();
    let session = made.session;
    let can = Capabilities { session_resume: false, ..capabilities() };
    let started = |can: &Capabilities| {
        let (pid, version, protocol) = (None, None, NativeProtocol::Demo);
        Report::Started { pid, version, holder: None, protocol, capabilities: Box::new(can.clone()) }
    };
    // The agent reports no id of its own: there is nothing to resume.
    let mut agent = world.puppet().await;
    agent.say(started(&can)).await;
    agent.say(Report::Ready).await;
    let forgot = Event::ConversationReset { agent_session: None, reason: Some(ResetReason::CannotResume) };
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let is_exit = |event: &Event| matches!(event, Event::AgentExited { .. });
    for said in ["", "hello"] {
        if !said.is_empty() {
            world.prompt(session, said).await;
            agent.take_prompt().await;
            agent.end_turn().await;
        }
        agent.exit(ExitReason::Finished).await;
        reader.until(is_exit).await;
        reader.seen.clear();
        world.registry.submit(&owner(), session, CommandId::random(), Action::Resume).await.unwrap();
        agent = world.puppet().await;
        agent.say(started(&can)).await;
        agent.say(Report::Ready).await;
        reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
        let told = reader.seen.iter().any(|(_, event)| *event == forgot);
        assert_eq!(told, !said.is_empty(), "only where something was said: {:?}", reader.seen);
    }
    // The adapter's report of a loss is passed on, and resets the known context.
    let lost = Event::ConversationReset { agent_session: None, reason: Some(ResetReason::Lost) };
    agent.event(lost.clone()).await;
    reader.until(|event| *event == lost).await;
}

#[tokio::test]
async fn a_reset_of_an_empty_conversation_is_not_reported_as_a_loss() {
    let world = World::new().await;
    let (session, agent) = world.session().await;
    let lost = Event::ConversationReset { agent_session: None, reason: Some(ResetReason::Lost) };
    agent.event(lost.clone()).await;
    agent.finish_item("1.1", "after it").await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(is_message).await;
    assert!(reader.seen.iter().all(|(_, event)| *event != lost), "{:?}", reader.seen);
}

// covers: 002-040
#[tokio::test]
async fn a_fork_shares_the_history_up_to_its_point_and_continues_alone() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "hello").await;
    agent.take_prompt().await;
    agent.finish_item("1.1", "shared").await;
    agent.finish_item("1.2", "not shared").await;
    agent.end_turn().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::TurnEnded { .. })).await;
    let at = reader.seen.iter().find(|(_, event)| *event == finished("1.1", "shared")).unwrap().0;

    let fork = Some(ForkPoint { session, at: Some(at) });
    let asked = SessionSpec { fork, ..SessionSpec::default() };
    let summary = world.registry.create(&owner(), CommandId::random(), asked).await.unwrap();
    let started = world.puppet().await;
    let resume = started.launch.resume.clone().unwrap();
    assert_eq!((resume.agent_session.as_str(), resume.fork), ("agent-session", true));
    assert_eq!(resume.at_message.as_deref(), Some("m-1.1"));
    let history = world.registry.history(&owner(), summary.session, Seq::ZERO, Some(at), 1000).await.unwrap();
    let original = world.registry.history(&owner(), session, Seq::ZERO, Some(at), 1000).await.unwrap();
    assert_eq!(history.len(), original.len());
    for (copy, entry) in history.iter().zip(&original) {
        assert_eq!(copy.decode::<Event>().unwrap(), entry.decode::<Event>().unwrap());
        assert!(String::from_utf8_lossy(&copy.frame).contains(&summary.session.to_string()));
    }
    let rest = world.registry.history(&owner(), summary.session, at, None, 1000).await.unwrap();
    assert!(matches!(rest[0].decode::<Event>().unwrap().event, Event::SessionCreated { .. }));
}

#[tokio::test]
async fn a_killed_daemon_leaves_a_session_with_a_true_state() {
    let store = Arc::new(MemoryStore::new());
    let (before, kept) = (Arc::clone(&store), Arc::clone(&store));
    let session = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(async move {
            let world = World::over(before, Policy::default()).await;
            let (session, mut agent) = world.session().await;
            world.prompt(session, "hello").await;
            agent.take_prompt().await;
            agent.begin_item("1.1").await;
            agent.delta("1.1", "half a sentence").await;
            agent.ask("key").await;
            let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
            reader.until(|event| matches!(event, Event::RequestOpened { .. })).await;
            let on_disk = async {
                loop {
                    let head = kept.load(LogId::Session(session)).await.unwrap().expect("the session's log");
                    if head.open_items.iter().any(|item| item.text == "half a sentence") {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(PATIENCE, on_disk).await.expect("streamed text is written behind");
            std::mem::forget((world, agent, reader));
            session
        });
        // Every task stops where it is, as with kill -9.
        runtime.shutdown_background();
        session
    });
    let session = session.join().unwrap();
    let world = World::over(store, Policy::default()).await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    let kept = reader.seen.iter().find_map(|(_, event)| match event {
        Event::Message { content, interrupted: true, .. } => Some(content.clone()),
        _ => None,
    });
    assert_eq!(kept, Some(vec![Content::text("half a sentence")]));
    let closed =
        |event: &Event| matches!(event, Event::RequestClosed { outcome: Outcome::AgentGone { .. }, .. });
    assert!(reader.seen.iter().any(|(_, event)| closed(event)));
    let snapshot = world.registry.snapshot(&owner(), session).await.unwrap();
    assert_eq!(snapshot.state.summary.status, Status::Terminated);
    assert!(snapshot.state.requests.is_empty() && snapshot.state.turn.is_none());
    assert!(reader.seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "no number twice");
    // A reader of only the daemon's log learns it too.
    let mut daemon = world.registry.watch(&owner(), Start::After(Seq::ZERO)).await.unwrap();
    let told = async {
        loop {
            if let Delivery::Entries(pieces) = daemon.next().await {
                for piece in pieces {
                    if let DaemonEvent::SessionChanged { summary } = &*piece.entry().unwrap().event
                        && summary.status == Status::Terminated
                    {
                        return summary.waiting;
                    }
                }
            }
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), told).await.unwrap(), 0);
}

// covers: 003-094, 003-116
#[tokio::test]
async fn dropping_the_registry_ends_its_agents() {
    let world = World::new().await;
    let (_session, agent) = world.session().await;
    drop(world);
    let stopped = tokio::time::timeout(Duration::from_secs(5), agent.stop.cancelled()).await;
    assert!(stopped.is_ok());
}

// covers: 003-005
#[tokio::test]
async fn everyone_sees_who_is_there() {
    let world = World::new().await;
    let (session, _agent) = world.session().await;
    let mut mine = world.registry.attach(&owner(), session, Start::Tail(0), Mode::Every).await.unwrap();
    let ada = principal("ada", Role::Viewer);
    let other = world.registry.attach(&ada, session, Start::Tail(0), Mode::Every).await.unwrap();
    let names = |present: &[portolan_core::log::delivery::Presence]| {
        present.iter().map(|p| format!("{} {}", p.name, p.role)).collect::<Vec<_>>()
    };
    let mut told = Vec::new();
    while told.len() < 2 {
        if let Delivery::Presence(present) = mine.next().await {
            told = names(&present);
        }
    }
    assert_eq!(told, ["owner owner", "ada viewer"]);
    drop(other);
    loop {
        if let Delivery::Presence(present) = mine.next().await {
            assert_eq!(names(&present), ["owner owner"]);
            break;
        }
    }
}

// covers: 002-046
#[tokio::test]
async fn core_refuses_what_a_principal_may_not_do() {
    let world = World::new().await;
    let (session, _agent) = world.session().await;
    let viewer = principal("viewer", Role::Viewer);
    let prompt = Action::Prompt { content: vec![Content::text("x")] };
    let refusal =
        world.registry.submit(&viewer, session, CommandId::random(), prompt.clone()).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Forbidden);
    let refusal = world.registry.create(&viewer, CommandId::random(), spec()).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Forbidden);
    let operator = principal("operator", Role::Operator);
    assert_eq!(world.registry.delete(&operator, session).await.unwrap_err().code, RefusalCode::Forbidden);
    assert_eq!(
        world.registry.raw(&operator, session, Seq(1)).await.unwrap_err().code,
        RefusalCode::Forbidden
    );
    let mut asked = spec();
    asked.env.insert("A".into(), "1".into());
    let refusal = world.registry.create(&operator, CommandId::random(), asked).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Forbidden, "no way around what only an owner may set");
    let nowhere = portolan_core::SessionId::new();
    let refusal = world.registry.submit(&owner(), nowhere, CommandId::random(), prompt).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::NotFound);
    assert!(refusal.message.contains(&nowhere.to_string()));
}

// covers: 002-041
#[tokio::test]
async fn deleting_ends_the_agent_and_informs_the_readers() {
    let world = World::new().await;
    let (session, agent) = world.session().await;
    let mut reader = world.registry.attach(&owner(), session, Start::Tail(0), Mode::Every).await.unwrap();
    world.registry.delete(&owner(), session).await.unwrap();
    assert!(agent.stop.is_cancelled());
    loop {
        if let Delivery::Closed(why) = reader.next().await {
            assert_eq!(why, Closed::Deleted);
            break;
        }
    }
    let refusal = world.registry.snapshot(&owner(), session).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::NotFound);
    let all = SessionQuery { limit: 10, ..SessionQuery::default() };
    assert_eq!(world.registry.list(&owner(), all).await.unwrap(), []);
}

#[tokio::test]
async fn the_inbox_shows_the_requests_of_every_session_and_closes_them() {
    let world = World::new().await;
    let mut daemon = world.registry.watch(&owner(), Start::Tail(0)).await.unwrap();
    let (session, agent) = world.session().await;
    agent.ask("key").await;
    let mut waiting = None;
    while waiting.is_none() {
        if let Delivery::Entries(pieces) = daemon.next().await {
            for piece in pieces {
                if let DaemonEvent::RequestOpened { session: of, request } = &*piece.entry().unwrap().event {
                    waiting = Some((*of, request.request));
                }
            }
        }
    }
    let (of, request) = waiting.unwrap();
    assert_eq!(of, session);
    let mut late = world.registry.watch(&owner(), Start::Tail(0)).await.unwrap();
    let snapshot = loop {
        if let Delivery::Snapshot(snapshot) = late.next().await {
            break snapshot;
        }
    };
    assert_eq!(snapshot.state.requests.len(), 1);
    assert_eq!(snapshot.state.sessions[0].waiting, 1);
    let answer = Action::Answer { request, digest: None, answer: Answer::allow(), persist: None };
    world.registry.submit(&owner(), session, CommandId::random(), answer).await.unwrap();
    'closed: loop {
        if let Delivery::Entries(pieces) = late.next().await {
            for piece in pieces {
                if matches!(&*piece.entry().unwrap().event, DaemonEvent::RequestClosed { .. }) {
                    break 'closed;
                }
            }
        }
    }
}

#[tokio::test]
async fn secrets_of_a_session_are_not_in_its_log() {
    let world = World::new().await;
    let mut asked = spec();
    asked.env.insert("API_KEY".into(), "hunter2".into());
    let summary = world.registry.create(&owner(), CommandId::random(), asked).await.unwrap();
    let agent = world.puppet().await;
    assert_eq!(agent.launch.spec.env["API_KEY"], "hunter2", "the agent gets it");
    agent.ready().await;
    let variables = [("OTHER".to_owned(), "hunter3".to_owned())].into_iter().collect();
    let action = Action::SetEnvironment { variables };
    world.registry.submit(&owner(), summary.session, CommandId::random(), action).await.unwrap();
    let log = world.registry.history(&owner(), summary.session, Seq::ZERO, None, 1000).await.unwrap();
    let text: String = log.iter().map(|stored| String::from_utf8_lossy(&stored.frame).into_owned()).collect();
    assert!(text.contains("API_KEY") && text.contains("OTHER"), "{text}");
    assert!(!text.contains("hunter"), "{text}");
    let environment = world.registry.environment(&owner(), summary.session).await.unwrap();
    assert_eq!((&*environment["API_KEY"], &*environment["OTHER"]), ("hunter2", "hunter3"));
}

#[tokio::test]
async fn a_variable_that_the_agent_may_not_have_is_refused_and_not_kept() {
    let world = World::new().await;
    let summary = world.registry.create(&owner(), CommandId::random(), spec()).await.unwrap();
    world.puppet().await.ready().await;
    let set = |name: &str| Action::SetEnvironment { variables: [(name.to_owned(), "x".to_owned())].into() };
    let who = owner();
    let submit = |action| world.registry.submit(&who, summary.session, CommandId::random(), action);
    assert_eq!(submit(set("LD_PRELOAD")).await.unwrap_err().code, RefusalCode::Invalid);
    submit(set("FINE")).await.unwrap();
    let environment = world.registry.environment(&owner(), summary.session).await.unwrap();
    assert_eq!(environment.keys().collect::<Vec<_>>(), ["FINE"], "it would not start again with the other");
}

// covers: 002-047
#[tokio::test]
async fn a_session_uses_only_allowed_folders_and_symlinks_do_not_help() {
    let inside = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
    let policy = Policy { roots: [inside.path().to_path_buf()].into(), ..Policy::default() };
    let world = World::over(Arc::new(MemoryStore::new()), policy).await;
    for (folder, fine) in [
        (inside.path().to_path_buf(), true),
        (outside.path().to_path_buf(), false),
        (inside.path().join("link"), false),
        (inside.path().join(".."), false),
    ] {
        let asked = SessionSpec { cwd: folder.clone(), ..spec() };
        let made = world.registry.create(&owner(), CommandId::random(), asked).await;
        assert_eq!(made.is_ok(), fine, "{}: {made:?}", folder.display());
    }
    let missing = SessionSpec { cwd: inside.path().join("nowhere"), ..spec() };
    let refusal = world.registry.create(&owner(), CommandId::random(), missing).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Invalid);
    let agent = world.puppet().await;
    assert_eq!(agent.launch.spec.cwd, inside.path().canonicalize().unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_denied_when_its_time_is_up() {
    let policy = Policy { request_deadline: Some(Duration::from_millis(300)), ..Policy::default() };
    let begin = tokio::time::Instant::now();
    let clock = Clock::new(move || Millis(begin.elapsed().as_millis() as i64));
    let world = World::at(clock, Arc::new(MemoryStore::new()), policy).await;
    let (session, mut agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    agent.ask("key").await;
    reader.until(|event| matches!(event, Event::RequestClosed { outcome: Outcome::Expired, .. })).await;
    assert!(matches!(agent.told().await.order, Order::Answer { answer: Answer::Deny { .. }, .. }));
}

#[tokio::test]
async fn pruning_deletes_what_is_old_and_ended_and_nothing_else() {
    let world = World::new().await;
    let (ended, agent) = world.session().await;
    let (running, _agent) = world.session().await;
    agent.exit(ExitReason::Finished).await;
    let mut reader = world.attach(ended, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    drop(reader);
    assert_eq!(world.registry.prune(Some(Duration::from_hours(1)), None).await.unwrap(), 0);
    world.registry.shutdown(Duration::ZERO).await;
    // An hour later, whatever the system's clock says.
    let later = Clock::new(|| Millis(Clock::system().now().0 + 3_600_000));
    let world = World::at(later, Arc::clone(&world.store), Policy::default()).await;
    assert_eq!(world.registry.prune(Some(Duration::from_mins(30)), None).await.unwrap(), 2);
    assert_eq!(world.registry.snapshot(&owner(), running).await.unwrap_err().code, RefusalCode::NotFound);
}

#[tokio::test]
async fn the_id_of_a_deleted_session_creates_no_second_session() {
    let world = World::new().await;
    let id = CommandId::random();
    let made = world.registry.create(&owner(), id.clone(), spec()).await.expect("a session");
    let again = world.registry.create(&owner(), id.clone(), spec()).await.expect("the same session");
    assert_eq!(again.session, made.session);
    world.registry.delete(&owner(), made.session).await.expect("deleted");
    let refusal = world.registry.create(&owner(), id.clone(), spec()).await.expect_err("it is used up");
    assert_eq!(refusal.code, RefusalCode::Ended);
    // A daemon that starts later knows it too.
    let later = World::over(Arc::clone(&world.store), Policy::default()).await;
    let refusal = later.registry.create(&owner(), id, spec()).await.expect_err("it is used up");
    assert_eq!(refusal.code, RefusalCode::Ended);
    let other = later.registry.create(&owner(), CommandId::random(), spec()).await.expect("a session");
    assert_ne!(other.session, made.session);
}

#[tokio::test]
async fn another_spec_under_the_id_of_a_session_is_refused() {
    let world = World::new().await;
    let with = |secret: &str| SessionSpec {
        env: [("KEY".to_owned(), secret.to_owned()), ("B".to_owned(), "b".to_owned())].into(),
        ..spec()
    };
    let id = CommandId::random();
    let made = world.registry.create(&owner(), id.clone(), with("one")).await.expect("a session").session;
    let again = world.registry.create(&owner(), id.clone(), with("one")).await.expect("the same");
    assert_eq!(again.session, made);
    let turned = SessionSpec { env: with("one").env.into_iter().rev().collect(), ..spec() };
    let again = world.registry.create(&owner(), id.clone(), turned).await.expect("the same in another order");
    assert_eq!(again.session, made);
    let named = SessionSpec { name: Some("other".into()), ..with("one") };
    for other in [named, with("another secret")] {
        let refusal = world.registry.create(&owner(), id.clone(), other).await.expect_err("another");
        assert_eq!(refusal.code, RefusalCode::Invalid);
        assert!(refusal.message.contains("use a new id"), "{}", refusal.message);
    }
    let refusal = world.registry.create_like(&owner(), id.clone(), made).await.expect_err("another way");
    assert_eq!(refusal.code, RefusalCode::Invalid);
    // Only a digest is kept: nobody can read the secret there.
    let key = portolan_core::command::CommandKey { token: owner().token, id };
    let row = world.store.command(LogId::Daemon, key).await.expect("readable").expect("kept");
    assert!(!String::from_utf8_lossy(&row.stage).contains("one"), "{:?}", row.stage);
}

#[tokio::test]
async fn two_commands_under_one_id_at_the_same_moment_are_not_confused() {
    let world = World::new().await;
    let (session, _puppet) = world.session().await;
    let owner = owner();
    for _ in 0..20 {
        let id = CommandId::random();
        let rename = |title: &str| {
            let action = Action::Rename { title: title.into() };
            world.registry.submit(&owner, session, id.clone(), action)
        };
        let (one, other, same) = tokio::join!(rename("one"), rename("other"), rename("one"));
        let (one, same) = (one.expect("taken in"), same.expect("the same command"));
        assert_eq!(one.seq, same.seq);
        assert_eq!(other.expect_err("another command").code, RefusalCode::Invalid);
    }
}

// One check for both ways to send a prompt.
#[tokio::test]
async fn a_prompt_with_invalid_content_is_refused_as_a_command_and_as_the_first_of_a_session() {
    let world = World::new().await;
    let thinking = || vec![Content::Thinking { text: "hm".into() }];
    let first = SessionSpec { prompt: thinking(), ..spec() };
    let refused = world.registry.create(&owner(), CommandId::random(), first).await.expect_err("refused");
    assert_eq!(refused.code, RefusalCode::Invalid);
    assert!(refused.message.contains("`thinking`"), "{refused}");
    let (session, _puppet) = world.session().await;
    let prompt = Action::Prompt { content: thinking() };
    let refused = world.registry.submit(&owner(), session, CommandId::random(), prompt).await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.code, RefusalCode::Invalid);
    assert!(refused.message.contains("`thinking`"), "{refused}");
}

#[tokio::test]
async fn a_receipt_says_when_there_was_nothing_to_do() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    let result = async |action| {
        let receipt = world.registry.submit(&owner(), session, CommandId::random(), action).await;
        match receipt.expect("taken in").stage {
            Stage::Consumed { result: Some(result) } => result,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(result(Action::Interrupt).await, "no turn was running");
    assert_eq!(result(Action::Resume).await, "the agent was running already");
    puppet.exit(ExitReason::Stopped).await;
    reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    assert_eq!(result(Action::Stop).await, "the agent was not running");
    assert_eq!(result(Action::Interrupt).await, "no turn was running");
}

#[tokio::test]
async fn a_held_prompt_is_recorded_at_once_and_sent_when_it_is_released() {
    let world = World::new().await;
    let session = world.registry.create(&owner(), CommandId::random(), spec()).await.unwrap().session;
    let mut agent = world.puppet().await;
    let id: CommandId = "prepared".parse().unwrap();
    let held = world.registry.hold_prompt(&owner(), session, id.clone()).await.unwrap();
    let prompt = Action::Prompt { content: vec![Content::text("first")] };
    let receipt = world.registry.submit(&owner(), session, id, prompt).await.unwrap();
    assert_eq!(receipt.stage, Stage::Accepted);
    let behind = world.prompt(session, "second").await;
    agent.ready().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    // Instructions arrive in order, so this one comes after all earlier ones: no prompt was sent.
    let model = Action::SetModel { model: Some("oak".into()) };
    world.registry.submit(&owner(), session, CommandId::random(), model).await.unwrap();
    let told = agent.told().await;
    assert!(matches!(told.order, Order::SetModel(_)), "{told:?}");
    drop(held);
    assert_eq!(agent.take_prompt().await.0, receipt.seq.0);
    agent.end_turn().await;
    assert_eq!(agent.take_prompt().await.0, behind.0, "what waits behind it keeps its place");
}

#[tokio::test]
async fn a_large_request_is_stored_once_and_the_inbox_points_to_it() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    let ask =
        Ask::permission("Write", serde_json::json!({ "file_path": "/a", "content": "x".repeat(1_000_000) }));
    let (key, whole) = ("large".to_owned(), ask.clone());
    puppet.say(Report::RequestOpened { key, ask: Box::new(ask), parent: None, tool: None, raw: None }).await;
    let mut reader = world.registry.watch(&owner(), Start::After(Seq::ZERO)).await.expect("a reader");
    let noted = tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            let Delivery::Entries(pieces) = reader.next().await else { continue };
            for piece in pieces {
                if let DaemonEvent::RequestOpened { request, .. } = &*piece.entry().expect("readable").event {
                    return (request.clone(), piece.frame().len());
                }
            }
        }
    });
    let (brief, bytes) = noted.await.expect("it is noted");
    assert!(brief.shortened && bytes < 2048, "{bytes} bytes");
    let kept: usize =
        world.store.records("inbox").await.expect("a store").iter().map(|(_, value)| value.len()).sum();
    assert!(kept < 2048, "{kept} bytes");
    let state = world.registry.snapshot(&owner(), session).await.expect("a state").state;
    assert_eq!((&state.requests[0].ask, &state.requests[0].digest), (&whole, &brief.digest));
}
