//! The life of agents: when an agent is started again, when an idle agent is ended, and how many run at once.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use common::{World, capabilities, spec};
use portolan_core::{
    Action, Capabilities, CommandId, Event, RefusalCode, Seq, SessionId, SessionSpec, WayOut,
    capabilities::NativeProtocol,
    command::{Receipt, Stage},
    event::{Content, ExitReason, Task, TaskStatus},
    log::delivery::Start,
    ports::{Report, SessionQuery},
    session::{machine::Policy, state::Status},
};
use portolan_store::MemoryStore;
use portolan_testkit::{agents::Strings, sessions::owner};

fn prompt(text: &str) -> Action {
    Action::Prompt { content: vec![Content::text(text)] }
}

fn id(name: &str) -> CommandId {
    name.parse().expect("an id")
}

async fn submit(world: &World, session: SessionId, name: &str, action: Action) -> Receipt {
    world.registry.submit(&owner(), session, id(name), action).await.expect("taken in")
}

/// A daemon that is killed at the end of its life: every task stops where it is, as with kill -9.
fn killed<T, F>(store: &Arc<MemoryStore>, life: impl FnOnce(Arc<World>) -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = (T, Vec<Strings>)>,
{
    let store = Arc::clone(store);
    let lived = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let lived = runtime.block_on(async move {
            let world = Arc::new(World::over(store, Policy::default()).await);
            let (lived, agents) = life(Arc::clone(&world)).await;
            std::mem::forget((world, agents));
            lived
        });
        runtime.shutdown_background();
        lived
    });
    lived.join().expect("a life")
}

/// The agent of this session was not started, although there was time for it.
async fn starts_nothing(world: &World) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(world.started().is_none(), "an agent was started");
}

// ---------------------------------------------------------------------------- what a kill has parked

#[tokio::test]
async fn a_prompt_that_a_kill_parked_is_sent_when_its_sender_repeats_it() {
    for starting in [true, false] {
        let store = Arc::new(MemoryStore::new());
        let (session, before) = killed(&store, move |world| async move {
            let made = world.registry.create(&owner(), CommandId::random(), spec()).await.expect("a session");
            let mut agent = world.puppet().await;
            if !starting {
                // Accepted while another turn runs.
                agent.ready().await;
                world.prompt(made.session, "first").await;
                agent.take_prompt().await;
            }
            let receipt = submit(&world, made.session, "parked", prompt("second")).await;
            assert_eq!(receipt.stage, Stage::Accepted);
            ((made.session, receipt), vec![agent])
        });
        let world = World::over(store, Policy::default()).await;
        let all = SessionQuery { archived: None, live: false, before: None, limit: 10 };
        let listed = world.registry.list(&owner(), all).await.expect("a list").remove(0);
        assert_eq!((listed.status, listed.queued), (Status::Terminated, 1));
        assert_eq!(listed.parked().as_deref(), Some("1 prompt waits; resume the session to send it"));
        starts_nothing(&world).await;
        let again = submit(&world, session, "parked", prompt("second")).await;
        assert_eq!(again, before, "the same command");
        let mut agent = world.puppet().await;
        agent.ready().await;
        assert_eq!(agent.take_prompt().await.0, before.seq.0);
        // A third try starts nothing more, and nothing is sent twice.
        submit(&world, session, "parked", prompt("second")).await;
        starts_nothing(&world).await;
        assert!(agent.instructions.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_session_created_just_before_a_kill_begins_when_its_creator_repeats_the_call() {
    let first = || SessionSpec { prompt: vec![Content::text("hello")], ..spec() };
    let store = Arc::new(MemoryStore::new());
    let session = killed(&store, move |world| async move {
        let made = world.registry.create(&owner(), id("made"), first()).await.expect("a session");
        (made.session, vec![world.puppet().await])
    });
    let world = World::over(store, Policy::default()).await;
    world.registry.snapshot(&owner(), session).await.expect("settled");
    starts_nothing(&world).await;
    let again = world.registry.create(&owner(), id("made"), first()).await.expect("the session");
    assert_eq!(again.session, session);
    let mut agent = world.puppet().await;
    agent.ready().await;
    agent.take_prompt().await;
}

#[tokio::test]
async fn sending_again_does_not_undo_a_stop() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    world.prompt(session, "first").await;
    agent.take_prompt().await;
    submit(&world, session, "waits", prompt("second")).await;
    submit(&world, session, "stop", Action::Stop).await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    assert_eq!(submit(&world, session, "waits", prompt("second")).await.stage, Stage::Accepted);
    starts_nothing(&world).await;
    submit(&world, session, "resume", Action::Resume).await;
    world.puppet().await;
}

// ------------------------------------------------------------------------------ nothing to do

async fn is_running(world: &World, session: SessionId) -> bool {
    world.registry.snapshot(&owner(), session).await.expect("a state").state.summary.is_live()
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_nothing_to_do_is_ended_and_the_next_prompt_starts_it_where_it_left_off() {
    let world = World::new().await;
    let (session, mut agent) = world.session().await;
    // A reader does not keep the agent running.
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    world.prompt(session, "hello").await;
    agent.take_prompt().await;
    agent.end_turn().await;
    tokio::time::sleep(Duration::from_mins(29)).await;
    assert!(is_running(&world, session).await, "the time begins with the end of the turn");
    tokio::time::sleep(Duration::from_mins(2)).await;
    let told = reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    let Event::AgentExited { exit, .. } = told else { unreachable!("looked for") };
    assert_eq!(exit.reason, ExitReason::Idle);
    assert_eq!(
        exit.message,
        "the agent had nothing to do for 30 minutes and was ended; the next prompt starts it again"
    );
    let summary = world.registry.snapshot(&owner(), session).await.expect("a state").state.summary.clone();
    assert_eq!((summary.status, summary.asleep, summary.is_open()), (Status::Terminated, true, true));
    assert_eq!(world.registry.agents_running(), (0, Some(32)));
    world.prompt(session, "are you there?").await;
    let mut again = world.puppet().await;
    assert_eq!(again.launch.resume.as_ref().expect("a conversation").agent_session, "agent-session");
    again.ready().await;
    again.take_prompt().await;
    let summary = world.registry.snapshot(&owner(), session).await.expect("a state").state.summary.clone();
    assert!(!summary.asleep && summary.is_live());
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_busy_or_would_lose_something_keeps_running() {
    let world = World::new().await;
    let mut kept: Vec<(&str, SessionId, Strings)> = Vec::new();
    let (session, mut agent) = world.session().await;
    world.prompt(session, "go on").await;
    agent.take_prompt().await;
    kept.push(("a turn runs", session, agent));
    let (session, agent) = world.session().await;
    agent.ask("key").await;
    kept.push(("a request is open", session, agent));
    let (session, agent) = world.session().await;
    let task = Task { task: "t".into(), status: TaskStatus::Running, ..Task::default() };
    agent.event(Event::TaskChanged { task: Box::new(task) }).await;
    kept.push(("a background task runs", session, agent));
    let (session, mut agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    let servers = Action::McpSet { servers: indexmap::IndexMap::new(), keep: false };
    submit(&world, session, "servers", servers).await;
    let instruction_id = agent.told().await.id;
    agent.say(Report::Consumed { instruction_id, result: None }).await;
    kept.push(("no later start would have its servers", session, agent));
    let made = world.registry.create(&owner(), CommandId::random(), spec()).await.expect("a session");
    let agent = world.puppet().await;
    let can = Capabilities { reliable_resume: false, ..capabilities() };
    let (pid, version, protocol) = (None, None, NativeProtocol::Demo);
    agent.say(Report::Started { pid, version, holder: None, protocol, capabilities: Box::new(can) }).await;
    agent.say(Report::Ready).await;
    kept.push(("it may lose its conversation", made.session, agent));
    tokio::time::sleep(Duration::from_hours(5)).await;
    for (why, session, _agent) in &kept {
        assert!(is_running(&world, *session).await, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn agents_run_for_ever_if_the_policy_says_so() {
    let policy = Policy { idle_after: None, ..Policy::default() };
    let world = World::over(Arc::new(MemoryStore::new()), policy).await;
    let (session, _agent) = world.session().await;
    tokio::time::sleep(Duration::from_hours(100)).await;
    assert!(is_running(&world, session).await);
}

#[tokio::test(start_paused = true)]
async fn one_agent_too_many_ends_the_longest_resting_agent_or_is_refused() {
    let policy = Policy { agents_at_once: NonZeroUsize::new(2), ..Policy::default() };
    let world = World::over(Arc::new(MemoryStore::new()), policy).await;
    let (first, _first) = world.session().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (second, mut busy) = world.session().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (third, mut also_busy) = world.session().await;
    let asleep = |session| {
        let world = &world;
        async move {
            let state = world.registry.snapshot(&owner(), session).await.expect("a state").state;
            state.summary.asleep
        }
    };
    assert_eq!((asleep(first).await, asleep(second).await, asleep(third).await), (true, false, false));
    let mut reader = world.attach(first, Start::After(Seq::ZERO)).await;
    let told = reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
    let Event::AgentExited { exit, .. } = told else { unreachable!("looked for") };
    assert!(exit.message.contains("at most 2 run at once"), "{}", exit.message);
    for (session, agent) in [(second, &mut busy), (third, &mut also_busy)] {
        world.prompt(session, "work").await;
        agent.take_prompt().await;
    }
    let refused = world.registry.submit(&owner(), first, id("no-room"), prompt("wake up")).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::Busy);
    let setting = "limits.agents_at_once".into();
    assert_eq!(refused.way_out, Some(WayOut::EndAnotherAgent { setting }));
    let refused = world.registry.create(&owner(), CommandId::random(), spec()).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::Busy);
    busy.end_turn().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    submit(&world, first, "no-room", prompt("wake up")).await;
    let mut again = world.puppet().await;
    again.ready().await;
    again.take_prompt().await;
    assert_eq!((asleep(first).await, asleep(second).await, asleep(third).await), (false, true, false));
    assert_eq!(world.registry.agents_running(), (2, Some(2)));
}
