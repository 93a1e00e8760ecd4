//! Past conversations: listed, imported once, imported whole or not at all.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{World, capabilities, spec};
use portolan_core::{
    Action, Actor, Capabilities, CommandId, Event, Generation, LogId, Millis, Refusal, RefusalCode, Role,
    Seq, SessionId, SessionSpec, WayOut,
    access::Bypass,
    capabilities::NativeProtocol,
    event::{AgentInfo, Content, ExitReason, ToolKind, ToolOutcome, TurnOutcome, TurnResult},
    log::delivery::Start,
    ports::{
        Agent, Boxed, Clock, Op, Order, Page, Past, PastEntry, PastError, PastPiece, PastPlace, PastQuery,
        PastSession, Report, ResumePoint, Store as _, Write,
    },
    registry::{PastDescription, PastListing, PastMove, Registry, TakeUp},
    session::{machine::Policy, state::Status},
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::{Puppet, finished},
    sessions::{self, owner, principal},
};
use tokio::sync::mpsc;

const FIRST: &str = "aaaa1111-first";
const SECOND: &str = "aaaa2222-second";

/// An agent's past conversations, each with its pieces.
#[derive(Debug, Default)]
struct Kept {
    sessions: Vec<PastSession>,
    pieces: Mutex<Vec<PastPiece>>,
    away: Arc<Mutex<Vec<String>>>,
}

impl Past for Kept {
    fn list(&self, query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>> {
        let away = self.away.lock().expect("one test").clone();
        let is_there = |past: &PastSession| away.contains(&past.past) == (query.place == PastPlace::Archived);
        let mut found: Vec<_> = self
            .sessions
            .iter()
            .filter(|past| is_there(past))
            .filter(|past| query.names(&past.past) && query.admits(past.cwd.as_deref()))
            .cloned()
            .collect();
        found.truncate(query.limit);
        Box::pin(async { Ok(found) })
    }

    fn read(&self, _past: String) -> mpsc::Receiver<PastPiece> {
        let pieces = self.pieces.lock().expect("one test").clone();
        let (queue, pieces_out) = mpsc::channel(1);
        tokio::spawn(async move {
            for piece in pieces {
                if queue.send(piece).await.is_err() {
                    return;
                }
            }
        });
        pieces_out
    }

    fn put(&self, past: String, place: PastPlace) -> Boxed<'static, Result<(), PastError>> {
        let mut away = self.away.lock().expect("one test");
        away.retain(|known| *known != past);
        if place == PastPlace::Archived {
            away.push(past);
        }
        Box::pin(async { Ok(()) })
    }
}

fn past_session(past: &str, title: &str, updated_at: i64) -> PastSession {
    PastSession {
        past: past.into(),
        title: title.into(),
        cwd: Some(std::env::temp_dir()),
        started_at: Some(Millis(100)),
        updated_at: Millis(updated_at),
        version: Some("1.0".into()),
        held_by: None,
    }
}

fn kept(pieces: Vec<PastPiece>) -> Arc<Kept> {
    let sessions = vec![past_session(SECOND, "the second", 400), past_session(FIRST, "the first", 300)];
    Arc::new(Kept { sessions, pieces: Mutex::new(pieces), ..Kept::default() })
}

fn said(at: Option<i64>, event: Event) -> PastPiece {
    PastPiece::Entry(Box::new(PastEntry { at: at.map(Millis), event }))
}

fn prompt(text: &str) -> Event {
    Event::Prompt { command: Seq::ZERO, content: vec![Content::text(text)] }
}

fn call(tool: &str, kind: ToolKind) -> Event {
    Event::ToolCall {
        tool: tool.into(),
        item: None,
        message: None,
        parent: None,
        name: "Tool".into(),
        kind,
        title: None,
        input: serde_json::json!({}),
        changes: vec![],
    }
}

fn subagent(name: &str) -> Event {
    Event::SubagentStarted {
        subagent: name.into(),
        parent: None,
        subagent_type: None,
        description: "an errand".into(),
        prompt: None,
        model: None,
        background: false,
        team: None,
    }
}

/// A conversation with a subagent and an unfinished tool call.
fn conversation() -> Vec<PastPiece> {
    vec![
        said(Some(100), prompt("mend the mast")),
        said(Some(110), call("tool-1", ToolKind::Subagent)),
        said(None, subagent("tool-1")),
        said(Some(120), finished("0.1", "mended")),
        PastPiece::End,
    ]
}

async fn world(past: Arc<Kept>) -> World {
    World::with_past(Arc::new(MemoryStore::new()), Policy::default(), past).await
}

fn take_up(past: &str) -> TakeUp {
    TakeUp { past: past.into(), copy: false, spec: SessionSpec::default() }
}

fn listing() -> PastListing {
    PastListing { limit: 100, ..PastListing::default() }
}

/// Every stored entry: its time, who caused it, and its event.
async fn stored(world: &World, session: SessionId) -> Vec<(Millis, Option<Actor>, Event)> {
    let (mut all, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let page = world.store.read(LogId::Session(session), after, Seq(u64::MAX), Page::BATCH).await;
        let page = page.expect("readable");
        let Some(last) = page.last() else { return all };
        after = last.seq;
        for stored in page {
            let entry = stored.decode::<Event>().expect("readable");
            all.push((entry.at, entry.by, entry.event));
        }
    }
}

#[tokio::test]
async fn the_list_is_newest_first_and_bounded_and_names_existing_sessions() {
    let world = world(kept(conversation())).await;
    let all = world.registry.past(&owner(), listing()).await.expect("a list");
    let ids = |list: &[portolan_core::registry::PastDescription]| {
        list.iter().map(|one| (one.past.past.clone(), one.session)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&all), [(SECOND.to_owned(), None), (FIRST.to_owned(), None)]);
    assert_eq!((all[0].agent.as_str(), all[0].past.title.as_str()), ("fake", "the second"));
    let one = world.registry.past(&owner(), PastListing { limit: 1, ..listing() }).await.expect("a list");
    assert_eq!(ids(&one), [(SECOND.to_owned(), None)]);
    let taken = world.registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await.expect("taken");
    let all = world.registry.past(&owner(), listing()).await.expect("a list");
    assert_eq!(ids(&all), [(SECOND.to_owned(), None), (FIRST.to_owned(), Some(taken.session.session))]);
}

// covers: 004-042
#[tokio::test]
async fn an_import_leads_to_a_mode_that_asks_nobody_only_for_an_owner_and_only_if_allowed() {
    let allowing = Policy { bypass: Bypass::ForOwners, ..Policy::default() };
    let operator = principal("operator", Role::Operator);
    for (policy, who, refused) in
        [(Policy::default(), owner(), true), (allowing.clone(), operator, true), (allowing, owner(), false)]
    {
        let world = World::with_past(Arc::new(MemoryStore::new()), policy, kept(conversation())).await;
        let spec = SessionSpec { mode: Some("off".into()), ..SessionSpec::default() };
        let asked = TakeUp { spec, ..take_up(FIRST) };
        let taken = world.registry.take_up(&who, CommandId::random(), asked).await;
        let forbidden = taken.err().map(|refusal| refusal.code) == Some(RefusalCode::Forbidden);
        assert_eq!(forbidden, refused, "{}", who.name);
    }
}

#[derive(Debug)]
struct Absent;

impl Past for Absent {
    fn list(&self, _query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>> {
        Box::pin(async { Err(PastError::NotOffered("it is not installed".into())) })
    }

    fn read(&self, _past: String) -> mpsc::Receiver<PastPiece> {
        mpsc::channel(1).1
    }
}

#[tokio::test]
async fn a_missing_agent_is_an_error_only_for_a_call_that_names_it() {
    let absent = World::with_past(Arc::new(MemoryStore::new()), Policy::default(), Arc::new(Absent)).await;
    assert_eq!(absent.registry.past(&owner(), listing()).await.expect("a list"), []);
    let named = PastListing { agent: Some("fake".into()), ..listing() };
    let refused = absent.registry.past(&owner(), named).await.expect_err("it is named");
    assert_eq!((refused.code, refused.message.as_str()), (RefusalCode::Unsupported, "it is not installed"));
}

// covers: 003-003, 003-039
#[tokio::test]
async fn a_conversation_is_archived_and_restored_but_not_while_a_session_runs_it() {
    let world = world(kept(conversation())).await;
    let registry = &world.registry;
    let ids = async |place| {
        let listed = registry.past(&owner(), PastListing { place, ..listing() }).await.expect("a list");
        listed.into_iter().map(|one| one.past.past).collect::<Vec<_>>()
    };
    let to = |past: &str, place| PastMove { agent: String::new(), past: past.into(), place };
    let away = registry.move_past(&owner(), to("aaaa1", PastPlace::Archived)).await.expect("archived");
    assert_eq!((away.agent.as_str(), away.past.past.as_str()), ("fake", FIRST));
    assert_eq!(ids(PastPlace::Listed).await, [SECOND]);
    assert_eq!(ids(PastPlace::Archived).await, [FIRST]);
    let again = registry.move_past(&owner(), to(FIRST, PastPlace::Archived)).await.expect_err("not there");
    assert_eq!(again.code, RefusalCode::NotFound);
    registry.move_past(&owner(), to(FIRST, PastPlace::Listed)).await.expect("taken out");
    assert_eq!(ids(PastPlace::Archived).await, [""; 0]);

    let taken = registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await.expect("taken");
    world.prompt(taken.session.session, "go on").await;
    let _starting = world.puppet().await;
    let refused = registry.move_past(&owner(), to(FIRST, PastPlace::Archived)).await.expect_err("it runs");
    assert_eq!(refused.code, RefusalCode::Invalid);
    let session = taken.session.session;
    assert_eq!(refused.way_out, Some(WayOut::StopSession { session }));
    let viewer = principal("viewer", Role::Viewer);
    let refused = registry.move_past(&viewer, to(SECOND, PastPlace::Archived)).await.expect_err("a reader");
    assert_eq!(refused.code, RefusalCode::Forbidden);
}

#[tokio::test]
async fn a_viewer_sees_no_past_conversations() {
    let world = world(kept(conversation())).await;
    let viewer = principal("viewer", Role::Viewer);
    let refused = world.registry.past(&viewer, listing()).await.expect_err("refused");
    assert_eq!(refused.code, RefusalCode::Forbidden);
    let refused = world.registry.take_up(&viewer, CommandId::random(), take_up(FIRST)).await;
    assert_eq!(refused.expect_err("refused").code, RefusalCode::Forbidden);
    let operator = principal("operator", Role::Operator);
    assert_eq!(world.registry.past(&operator, listing()).await.expect("a list").len(), 2);
    let with_env = TakeUp {
        spec: SessionSpec { env: [("A".into(), "1".into())].into(), ..SessionSpec::default() },
        ..take_up(FIRST)
    };
    let refused = world.registry.take_up(&operator, CommandId::random(), with_env).await;
    assert_eq!(refused.expect_err("refused").code, RefusalCode::Forbidden, "as with a new session");
}

#[tokio::test]
async fn an_import_holds_marked_messages_with_their_times_and_closes_open_work() {
    let clock = Millis(5_000);
    let world = world(kept(conversation())).await;
    let taken = world.registry.take_up(&owner(), CommandId::random(), take_up("aaaa1")).await.expect("taken");
    assert!(!taken.already);
    assert_eq!(taken.session.name, "the first");
    assert_eq!(taken.session.status, Status::Terminated);
    assert_eq!(taken.session.agent_session.as_deref(), Some(FIRST));
    let session = taken.session.session;
    let all = stored(&world, session).await;
    let imported: Vec<_> = all.iter().filter(|(_, by, _)| *by == Some(Actor::Imported)).cloned().collect();
    let by = || Some(Actor::Imported);
    let outcome = ToolOutcome::Interrupted;
    let ended =
        Event::ToolResult { tool: "tool-1".into(), parent: None, outcome, content: vec![], changes: vec![] };
    let left = Event::SubagentEnded { subagent: "tool-1".into(), outcome, summary: None, work: None };
    assert_eq!(
        imported,
        [
            (Millis(100), by(), prompt("mend the mast")),
            (Millis(110), by(), call("tool-1", ToolKind::Subagent)),
            (Millis(110), by(), subagent("tool-1")),
            (Millis(120), by(), finished("0.1", "mended")),
            (Millis(120), by(), ended),
            (Millis(120), by(), left),
        ]
    );
    let (at, by, last) = all.last().expect("an entry");
    assert!(*at > clock && matches!(by, Some(Actor::Person { .. })), "{by:?}");
    let capabilities = Box::new(capabilities());
    let past = FIRST.to_owned();
    assert_eq!(*last, Event::Imported { past, copy: false, entries: 6, left_out: 0, capabilities });
    let state = world.registry.snapshot(&owner(), session).await.expect("a state").state;
    assert!(state.tools.is_empty() && state.subagents.is_empty());
    assert!(state.capabilities.session_resume, "so that frontends offer it");
    assert_eq!((all.len(), state.generation), (8, Generation(0)), "no agent was started for reading");
}

#[tokio::test]
async fn the_next_prompt_resumes_the_conversation_by_its_id() {
    let world = world(kept(conversation())).await;
    let taken = world.registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await.expect("taken");
    let session = taken.session.session;
    let set = Action::SetModel { model: Some("large".into()) };
    world.registry.submit(&owner(), session, CommandId::random(), set).await.expect("taken in");
    world.prompt(session, "and the sail").await;
    let mut agent = world.puppet().await;
    let expected = ResumePoint {
        agent_session: FIRST.into(),
        fork: false,
        at_message: None,
        last_message: None,
        exchanges: 0,
    };
    assert_eq!(agent.launch.resume, Some(expected));
    assert_eq!(
        agent.launch.spec.model.as_deref(),
        Some("large"),
        "what was set before the first start counts"
    );
    agent.ready().await;
    let told = agent.told().await;
    assert_eq!(told.order, Order::Prompt { content: vec![Content::text("and the sail")] });
}

#[tokio::test]
async fn an_import_sends_its_prompt_and_a_copy_leaves_the_conversation_unchanged() {
    let world = world(kept(conversation())).await;
    let spec = SessionSpec {
        prompt: vec![Content::text("go on")],
        name: Some("the copy".into()),
        ..SessionSpec::default()
    };
    let asked = TakeUp { past: FIRST.into(), copy: true, spec };
    let taken = world.registry.take_up(&owner(), CommandId::random(), asked).await.expect("taken");
    assert_eq!(taken.session.agent_session, None, "that one is not its own");
    assert_eq!(taken.session.name, "the copy");
    let mut agent = world.puppet().await;
    let point = agent.launch.resume.clone().expect("a conversation");
    assert_eq!((point.agent_session.as_str(), point.fork), (FIRST, true));
    agent.ready().await;
    assert!(matches!(agent.told().await.order, Order::Prompt { .. }));
}

#[tokio::test]
async fn a_conversation_is_imported_once_unless_a_copy_is_requested() {
    let world = world(kept(conversation())).await;
    let take = |id: CommandId, asked: TakeUp| async { world.registry.take_up(&owner(), id, asked).await };
    let (id, again) = (CommandId::random(), CommandId::random());
    let first = take(id.clone(), take_up(FIRST)).await.expect("taken");
    let same = take(id, take_up(FIRST)).await.expect("taken");
    assert_eq!(
        (same.session.session, same.already),
        (first.session.session, false),
        "the same id, the same answer"
    );
    let second = take(again, take_up(FIRST)).await.expect("taken");
    assert_eq!((second.session.session, second.already), (first.session.session, true));
    let copy = TakeUp { copy: true, ..take_up(FIRST) };
    let copied = take(CommandId::random(), copy).await.expect("taken");
    assert!(copied.session.session != first.session.session && !copied.already);
    world.registry.delete(&owner(), first.session.session).await.expect("deleted");
    let anew = take(CommandId::random(), take_up(FIRST)).await.expect("taken");
    assert!(!anew.already && anew.session.session != first.session.session);
}

#[tokio::test]
async fn a_conversation_of_a_session_is_listed_with_that_session() {
    let mut past = past_session("agent-session", "its own", 1);
    past.cwd = None;
    let world = world(Arc::new(Kept { sessions: vec![past], ..Kept::default() })).await;
    let (session, _agent) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    let taken = world.registry.take_up(&owner(), CommandId::random(), take_up("agent-session")).await;
    let taken = taken.expect("taken");
    assert_eq!((taken.session.session, taken.already), (session, true));
}

// Two sessions once continued one conversation, each without the other.
#[tokio::test]
async fn a_conversation_that_a_session_continues_is_not_resumed_in_another() {
    let world = world(kept(conversation())).await;
    let (first, _agent) = world.session().await;
    let mut reader = world.attach(first, Start::After(Seq::ZERO)).await;
    reader.until(|event| matches!(event, Event::AgentReady { .. })).await;
    let resuming = |own: &str| SessionSpec { resume: Some(own.into()), ..spec() };
    let who = owner();
    let create = |own: &str| world.registry.create(&who, CommandId::random(), resuming(own));
    let refused = create("agent-session").await.expect_err("refused");
    assert!(
        refused.code == RefusalCode::Invalid && refused.message.contains(&first.to_string()),
        "{refused}"
    );
    // Before its agent has reported its conversation.
    let second = create("another").await.expect("nobody has that one").session;
    let refused = create("another").await.expect_err("refused");
    assert!(refused.message.contains(&second.to_string()), "{refused}");
    assert_eq!(refused.way_out, Some(WayOut::UseSession { session: second }));
}

#[tokio::test]
async fn a_named_conversation_must_exist_and_be_unique() {
    let world = world(kept(conversation())).await;
    let refused = |past: &'static str| async {
        let asked = take_up(past);
        world.registry.take_up(&owner(), CommandId::random(), asked).await.expect_err("refused")
    };
    assert_eq!(refused("aaaa").await.code, RefusalCode::Invalid, "both begin so");
    assert_eq!(refused("aaa").await.code, RefusalCode::Invalid, "too short");
    assert_eq!(refused("aaaa\u{7}").await.code, RefusalCode::Invalid);
    let missing = refused("bbbb").await;
    assert_eq!((missing.code, missing.way_out), (RefusalCode::NotFound, Some(WayOut::ListPast)));
    let of = |agent: &str| PastListing { agent: Some(agent.into()), ..listing() };
    let unknown = world.registry.past(&owner(), of("nobody")).await.expect_err("refused");
    assert_eq!(unknown.code, RefusalCode::NotFound);
    let without = World::new().await;
    let unsupported = without.registry.past(&owner(), of("fake")).await.expect_err("refused");
    assert_eq!(unsupported.code, RefusalCode::Unsupported);
    assert_eq!(without.registry.past(&owner(), listing()).await.expect("a list"), []);
    let odd = TakeUp { spec: SessionSpec { resume: Some("x".into()), ..spec() }, ..take_up(FIRST) };
    let odd = world.registry.take_up(&owner(), CommandId::random(), odd).await.expect_err("refused");
    assert_eq!(odd.code, RefusalCode::Invalid);
}

#[tokio::test]
async fn past_conversations_in_forbidden_folders_are_neither_listed_nor_imported() {
    let allowed = tempfile::tempdir().expect("a folder");
    let inside = PastSession { cwd: Some(allowed.path().into()), ..past_session(FIRST, "inside", 1) };
    let outside = PastSession { cwd: Some(PathBuf::from("/")), ..past_session(SECOND, "outside", 2) };
    let pieces = Mutex::new(conversation());
    let past = Arc::new(Kept { sessions: vec![inside, outside], pieces, ..Kept::default() });
    let policy = Policy { roots: [allowed.path().to_path_buf()].into(), ..Policy::default() };
    let world = World::with_past(Arc::new(MemoryStore::new()), policy, past).await;
    let listed = world.registry.past(&owner(), listing()).await.expect("a list");
    assert_eq!(listed.iter().map(|one| one.past.title.as_str()).collect::<Vec<_>>(), ["inside"]);
    let elsewhere = PastListing { cwd: Some("/".into()), ..listing() };
    let refused = world.registry.past(&owner(), elsewhere).await.expect_err("refused");
    assert_eq!(refused.code, RefusalCode::Forbidden);
    let op = principal("op", Role::Operator);
    let hidden = world.registry.take_up(&op, CommandId::random(), take_up(SECOND)).await;
    assert_eq!(hidden.expect_err("refused").code, RefusalCode::NotFound);
    let moved = TakeUp { spec: SessionSpec { cwd: "/".into(), ..SessionSpec::default() }, ..take_up(FIRST) };
    let moved = world.registry.take_up(&op, CommandId::random(), moved).await;
    assert_eq!(moved.expect_err("refused").code, RefusalCode::Forbidden);
    assert!(world.registry.take_up(&op, CommandId::random(), take_up(FIRST)).await.is_ok());
}

#[tokio::test]
async fn an_import_that_fails_leaves_nothing_behind() {
    let broken = PastPiece::Failed(PastError::Unreadable("the disk would not".into()));
    // So many that pieces of it were already written.
    let pieces: Vec<PastPiece> =
        (0..1_000).map(|number| said(Some(number), finished(&format!("0.{number}"), "words"))).collect();
    for last in [Some(broken), None] {
        let past = kept(pieces.iter().cloned().chain(last).collect());
        let world = world(Arc::clone(&past)).await;
        let id = CommandId::random();
        let failed = world.registry.take_up(&owner(), id.clone(), take_up(FIRST)).await.expect_err("failed");
        assert_eq!(failed.code, RefusalCode::AgentRefused);
        world.store.flush().await.expect("flushed");
        let size = world.store.records("imports").await.expect("records").len();
        assert_eq!(size, 0, "no note is left");
        let query = portolan_core::ports::SessionQuery { limit: 10, ..Default::default() };
        assert_eq!(world.registry.list(&owner(), query).await.expect("a list"), []);
        // The same id may try again, and the second try is complete.
        *past.pieces.lock().expect("one test") = conversation();
        let taken = world.registry.take_up(&owner(), id, take_up(FIRST)).await.expect("taken");
        assert_eq!(stored(&world, taken.session.session).await.len(), 8);
    }
}

#[tokio::test]
async fn an_import_that_a_crash_cut_short_is_gone_after_the_restart() {
    let store = Arc::new(MemoryStore::new());
    let session = SessionId::new();
    let log = LogId::Session(session);
    let frame = bytes::Bytes::from_static(b"{}");
    let ops = vec![
        Op::Put { collection: "imports", key: session.to_string(), value: frame.clone() },
        Op::Append { seq: Seq(1), at: Millis(1), frame, raw: None },
    ];
    store.write(Write { log, ops, done: None }).await.expect("written");
    assert!(store.load(log).await.expect("readable").is_some());
    let world = World::with_past(store, Policy::default(), kept(conversation())).await;
    world.store.flush().await.expect("flushed");
    assert_eq!(world.store.load(log).await.expect("readable"), None);
    assert_eq!(world.store.records("imports").await.expect("records"), []);
}

#[tokio::test]
async fn a_long_conversation_is_imported_whole_and_survives_a_restart() {
    let count: u32 = 3_000;
    let mut pieces: Vec<PastPiece> =
        (0..count).map(|number| said(None, finished(&format!("0.{number}"), &"x".repeat(1000)))).collect();
    // Entries that cannot be imported are left out and counted.
    let end = Box::new(TurnResult::bare(TurnOutcome::Completed));
    pieces.push(said(None, Event::TurnEnded { turn: 1, result: end }));
    pieces.push(said(None, Event::Delta { item: "0.1".into(), text: "x".into() }));
    pieces.push(PastPiece::End);
    let world = world(kept(pieces)).await;
    let taken = world.registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await.expect("taken");
    let session = taken.session.session;
    let all = stored(&world, session).await;
    assert_eq!(all.len(), count as usize + 2);
    assert!(
        all[1..=count as usize].iter().all(|(at, ..)| *at == Millis(100)),
        "without a time: its beginning"
    );
    let Some((_, _, Event::Imported { entries, left_out, .. })) = all.last() else { panic!("no end") };
    assert_eq!((*entries, *left_out), (count, 2));
    let before = world.registry.snapshot(&owner(), session).await.expect("a state").state;
    let store = Arc::clone(&world.store);
    world.registry.shutdown(Duration::ZERO).await;
    let again = World::at(Clock::system(), store, Policy::default()).await;
    let after = again.registry.snapshot(&owner(), session).await.expect("a state").state;
    assert_eq!(*after, *before, "nothing had to be settled");
}

// covers: 003-117
#[tokio::test]
async fn resuming_is_offered_and_accepted_only_if_the_agent_supports_it() {
    for session_resume in [true, false] {
        let world = World::new().await;
        let made = world.registry.create(&owner(), CommandId::random(), spec()).await.expect("a session");
        let session = made.session;
        let agent = world.puppet().await;
        let can = Capabilities { session_resume, ..capabilities() };
        let (pid, version, protocol) = (None, None, NativeProtocol::Demo);
        agent
            .say(Report::Started { pid, version, holder: None, protocol, capabilities: Box::new(can) })
            .await;
        let info = AgentInfo { agent_session: Some("its own".into()), ..AgentInfo::default() };
        agent.event(Event::AgentInfo { info: Box::new(info) }).await;
        agent.say(Report::Ready).await;
        agent.exit(ExitReason::Finished).await;
        let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
        reader.until(|event| matches!(event, Event::AgentExited { .. })).await;
        let state = world.registry.snapshot(&owner(), session).await.expect("a state").state;
        assert_eq!(state.capabilities.session_resume, session_resume, "what frontends look at");
        let resumed = world.registry.submit(&owner(), session, CommandId::random(), Action::Resume).await;
        match resumed {
            Ok(_) => assert!(session_resume),
            Err(refusal) => {
                assert!(!session_resume, "{refusal}");
                assert_eq!(refusal.code, RefusalCode::NotRunning);
                assert!(refusal.message.contains("cannot resume"), "{refusal}");
                assert_eq!(refusal.way_out, Some(WayOut::NewSession));
            }
        }
    }
}

#[tokio::test]
async fn two_simultaneous_imports_of_one_conversation_get_one_session() {
    let world = world(kept(conversation())).await;
    let take = || async {
        loop {
            match world.registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await {
                Ok(taken) => return taken,
                Err(refusal) => {
                    assert_eq!(refusal.code, RefusalCode::Busy, "{refusal}");
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    let (one, other) = tokio::join!(take(), take());
    assert_eq!(one.session.session, other.session.session);
    assert!(one.already != other.already, "one of them made it");
}

// --------------------------------------------------------------------------------- several that keep

/// An agent that only keeps past conversations.
fn source(kind: &str, past: Arc<dyn Past>) -> Puppet {
    Puppet::new(kind).with_capabilities(capabilities()).with_past(past)
}

/// Reports nothing, each in its own way.
#[derive(Debug)]
enum Mute {
    Hangs,
    OffersNothing,
    WantsFolder,
}

impl Past for Mute {
    fn list(&self, _query: PastQuery) -> Boxed<'static, Result<Vec<PastSession>, PastError>> {
        match self {
            Self::Hangs => Box::pin(std::future::pending()),
            Self::OffersNothing => {
                Box::pin(async { Err(PastError::NotOffered("it lists no past conversations".into())) })
            }
            Self::WantsFolder => {
                let (agent, title) = ("narrow".to_owned(), "Narrow".to_owned());
                Box::pin(async { Err(PastError::NeedsFolder { agent, title }) })
            }
        }
    }
    fn read(&self, _past: String) -> mpsc::Receiver<PastPiece> {
        mpsc::channel(1).1
    }
}

async fn registry(sources: Vec<Puppet>) -> Registry {
    let agents = sources.into_iter().map(|source| Arc::new(source) as Arc<dyn Agent>).collect();
    sessions::registry(agents).await
}

fn told(list: &[PastDescription]) -> Vec<(&str, &str)> {
    list.iter().map(|one| (one.agent.as_str(), one.past.past.as_str())).collect()
}

#[tokio::test]
async fn an_agent_that_lists_one_folder_at_a_time_asks_for_the_folder() {
    let narrow = source("narrow", Arc::new(Mute::WantsFolder));
    let registry = registry(vec![narrow]).await;
    let named = PastListing { agent: Some("narrow".into()), ..listing() };
    let refused = registry.past(&owner(), named).await.expect_err("no folder is named");
    let message = "Narrow lists the conversations of one folder at a time, and no folder is named";
    let way_out = WayOut::NameFolder { agent: "narrow".into() };
    assert_eq!(refused, Refusal::new(RefusalCode::Unsupported, message).with_way_out(way_out));
    assert_eq!(registry.past(&owner(), listing()).await.expect("a list"), [], "the others are worth a list");
}

#[tokio::test(start_paused = true)]
async fn agents_that_hang_or_report_nothing_do_not_delay_the_list_of_the_others() {
    let hangs = |kind| source(kind, Arc::new(Mute::Hangs));
    let sources = vec![
        // More agents than are asked at once.
        hangs("h1"),
        hangs("h2"),
        hangs("h3"),
        hangs("h4"),
        hangs("h5"),
        source("mute", Arc::new(Mute::OffersNothing)),
        source("fake", kept(vec![])),
    ];
    let registry = registry(sources).await;
    let begun = tokio::time::Instant::now();
    let all = registry.past(&owner(), listing()).await.expect("a list");
    assert_eq!(told(&all), [("fake", SECOND), ("fake", FIRST)]);
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    let named = |kind: &str| PastListing { agent: Some(kind.into()), ..listing() };
    let refused = registry.past(&owner(), named("h1")).await.expect_err("it hangs");
    assert_eq!(refused.code, RefusalCode::AgentRefused);
    let refused = registry.past(&owner(), named("mute")).await.expect_err("it offers nothing");
    assert_eq!(refused.code, RefusalCode::Unsupported);
}

#[tokio::test]
async fn a_conversation_of_two_agents_is_listed_once_and_imported_without_naming_the_agent() {
    let source = |kind| source(kind, kept(vec![PastPiece::End]));
    let registry = registry(vec![source("own"), source("adapter")]).await;
    let all = registry.past(&owner(), listing()).await.expect("a list");
    assert_eq!(told(&all), [("own", SECOND), ("own", FIRST)]);
    let spec = SessionSpec { agent: "adapter".into(), ..SessionSpec::default() };
    let asked = TakeUp { spec, ..take_up(FIRST) };
    let taken = registry.take_up(&owner(), CommandId::random(), asked).await.expect("taken up");
    let all = registry.past(&owner(), listing()).await.expect("a list");
    assert_eq!(
        told(&all),
        [("own", SECOND), ("adapter", FIRST)],
        "it is listed by the agent that continues it"
    );
    assert_eq!(all[1].session, Some(taken.session.session));
    let again = registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await.expect("taken up");
    assert_eq!((again.session.session, again.already), (taken.session.session, true));
}

#[tokio::test]
async fn a_conversation_that_another_program_has_open_is_imported_only_as_a_copy() {
    let mut held = past_session(FIRST, "the first", 300);
    held.held_by = Some(4711);
    let world =
        world(Arc::new(Kept { sessions: vec![held], pieces: Mutex::new(conversation()), ..Kept::default() }))
            .await;
    let listed = world.registry.past(&owner(), PastListing { limit: 10, ..PastListing::default() }).await;
    assert_eq!(listed.expect("a list")[0].past.held_by, Some(4711));
    let refused = world.registry.take_up(&owner(), CommandId::random(), take_up(FIRST)).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::Invalid);
    assert!(refused.message.contains("process 4711"), "{refused}");
    assert_eq!(refused.way_out, Some(WayOut::CopyPast));
    let copy = TakeUp { copy: true, ..take_up(FIRST) };
    let taken = world.registry.take_up(&owner(), CommandId::random(), copy).await.expect("a copy");
    assert!(!taken.already);
}
