//! Threads and their sessions, across restarts; the active session; the list of agents.

use std::time::Duration;

use portolan_core::{
    Action, CommandId, LogId, SessionSpec,
    ports::{Op, Write},
};

use super::*;
use crate::agui::{
    UnknownThreads,
    kept::{KEPT, RECORDS},
};

// covers: 004-014, 004-083, 004-114
#[tokio::test]
async fn info_lists_every_agent_and_always_the_default_one() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    for path in ["/info", "/api/copilotkit/info", "/agui/info", "/agui/api/copilotkit/info"] {
        let (status, info) = ada.json(Method::GET, path, &Value::Null).await;
        assert_eq!(status, StatusCode::OK);
        let agents: Vec<_> = info["agents"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(agents, ["default", "player", "other", "sleeper", "late", "eager"], "{path}");
        assert_eq!(info["agents"]["default"]["capabilities"]["identity"]["type"], "player");
        assert_eq!(info["mode"], "sse");
    }
    for path in ["/", "/agui", "/agui/", "/api/copilotkit", "/agui/api/copilotkit", "/any/other/path"] {
        let (status, info) = ada.json(Method::POST, path, &json!({"method": "info"})).await;
        assert_eq!((status, info["agents"]["default"].is_object()), (StatusCode::OK, true), "{path}");
    }
    ada.post("/agent/other/run", &input("t1", "r1", &[user("u1", "hi")])).await.events().await;
    let (_, info) = ada.json(Method::GET, "/info", &Value::Null).await;
    assert_eq!(
        info["agents"]["default"]["capabilities"]["identity"]["type"], "other",
        "the active session's"
    );
}

// covers: 004-115, 004-116
#[tokio::test]
async fn both_transports_run_and_connect_under_every_name() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    for (number, base) in ["", "/agui", "/api/copilotkit", "/agui/api/copilotkit"].into_iter().enumerate() {
        let thread = format!("t{number}");
        let said = input(&thread, "r1", &[user("u1", "hi")]);
        let rest = ada.post(&format!("{base}/agent/default/run"), &said).await.events().await;
        assert_eq!(texts(&shown(&[&rest])), [("assistant", "you said: hi")], "{base}");
        let connected = ada.post(&format!("{base}/agent/default/connect"), &input(&thread, "c1", &[])).await;
        let connected = connected.events().await;
        let envelope = json!({"method": "agent/connect", "params": {"agentId": "default"}, "body": input(&thread, "c1", &[])});
        let single = ada.post(&format!("{base}/"), &envelope).await.events().await;
        assert_eq!(connected, single, "{base}");
        let envelope = json!({"method": "agent/run", "params": {"agentId": "player"},
                              "body": input(&thread, "r2", &[user("u2", "again")])});
        let single = ada.post(if base.is_empty() { "/" } else { base }, &envelope).await.events().await;
        assert_eq!(texts(&shown(&[&single])), [("assistant", "you said: again")], "{base}");
    }
    assert_eq!(stand.sessions().await.len(), 4);
}

// covers: 004-012
#[tokio::test]
async fn every_thread_keeps_its_own_session() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let one = session_of(&ada.say("one", "hi").await);
    let two = session_of(&ada.say("two", "hi").await);
    assert_ne!(one, two);
    let again = ada.run(input("one", "r2", &[user("u2", "me again")])).await;
    assert_eq!(session_of(&again), one);
    let by_name = ada.run(input(&two.to_string(), "r3", &[user("u3", "by its own name")])).await;
    assert_eq!(session_of(&by_name), two, "a session's id is a thread, too");
    let other =
        ada.post("/agent/other/run", &input("one", "r4", &[user("u4", "someone else")])).await.events().await;
    assert_ne!(session_of(&other), one, "another agent on the same thread is another session");
    let other_again =
        ada.post("/agent/other/run", &input("one", "r5", &[user("u5", "and again")])).await.events().await;
    assert_eq!(session_of(&other_again), session_of(&other));
    assert_eq!(session_of(&ada.connect("one").await), one);
    let bob = stand.someone("bob", Role::Operator).await;
    assert_eq!(
        session_of(&bob.connect("one").await),
        one,
        "a thread is shared by all who may see its session"
    );
}

#[tokio::test]
async fn two_first_runs_on_a_thread_make_one_session() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let run = |name: &'static str| {
        let ada = ada.clone();
        async move { session_of(&ada.run(input("t1", name, &[user(name, "hi")])).await) }
    };
    let (one, two) = tokio::join!(run("a"), run("b"));
    assert_eq!(one, two);
    assert_eq!(stand.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_thread_finds_its_session_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let stand = Stand::over(store.clone(), |_| {}).await;
    let ada = stand.ada().await;
    let session = session_of(&ada.say("t1", "hi").await);
    stand.agui.registry.shutdown(Duration::from_secs(1)).await;
    let stand = Stand::over(store, |_| {}).await;
    let bob = stand.someone("bob", Role::Operator).await;
    let events = bob.connect("t1").await;
    assert_eq!(session_of(&events), session);
    assert_eq!(texts(&shown(&[&events])), [("user", "hi"), ("assistant", "you said: hi")]);
}

#[tokio::test]
async fn a_token_that_is_bound_to_other_sessions_finds_nothing() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let session = session_of(&ada.say("t1", "hi").await);
    let mut bound = stand.someone("bound", Role::Operator).await;
    bound.who.sessions = Some([SessionId::new()].into());
    for thread in ["t1".to_owned(), session.to_string()] {
        assert_eq!(
            outline(&bound.connect(&thread).await),
            ["RUN_STARTED", "RUN_FINISHED"],
            "as if there were none"
        );
        let events = bound.run(input(&thread, "r9", &[user("u9", "let me in")])).await;
        assert_eq!(events.last().unwrap()["code"], "forbidden");
        let (_, stopped) =
            bound.json(Method::POST, &format!("/agent/default/stop/{thread}"), &json!({})).await;
        assert_eq!(stopped["stopped"], false);
    }
    assert_eq!(stand.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_bound_token_decides_nothing_about_threads_and_the_active_session() {
    let stand = Stand::with(|settings| settings.unknown_threads = UnknownThreads::JoinActive).await;
    let ada = stand.ada().await;
    let one = session_of(&ada.say("one", "hi").await);
    let spec = SessionSpec { agent: "player".into(), cwd: "/".into(), ..SessionSpec::default() };
    let two = stand.agui.registry.create(&owner(), CommandId::random(), spec).await.unwrap().session;
    let mut bound = stand.someone("bound", Role::Operator).await;
    bound.who.sessions = Some([two].into());
    for thread in ["one", "unheard of"] {
        let events = bound.run(input(thread, "r1", &[user("u1", "mine now")])).await;
        assert_eq!(events.last().unwrap()["code"], "forbidden", "{thread}");
    }
    let events = bound.run(input("active", "r2", &[user("u2", "what I am bound to")])).await;
    assert_eq!(session_of(&events), two, "where a session is named, nothing is decided");
    assert_eq!(session_of(&ada.connect("one").await), one, "the thread leads where it led");
    let (status, answer) = bound.json(Method::PUT, "/active", &json!({"sessionId": two})).await;
    assert_eq!((status, &answer["error"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
}

#[tokio::test]
async fn a_thread_is_forgotten_when_its_session_is_deleted() {
    let store = Arc::new(MemoryStore::new());
    let stand = Stand::over(store.clone(), |_| {}).await;
    let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
    stand.agui.start(&tasks, stopping.clone());
    let ada = stand.ada().await;
    let mut sessions = Vec::new();
    for thread in ["one", "two", "three"] {
        sessions.push(session_of(&ada.say(thread, "hi").await));
    }
    assert_eq!(kept(&stand).await, 3);
    stand.agui.registry.delete(&owner(), sessions[0]).await.unwrap();
    until_kept(&stand, 2).await;
    stopping.cancel();
    // A session that is deleted while nobody watches is found at the next start.
    stand.agui.registry.delete(&owner(), sessions[1]).await.unwrap();
    stand.agui.registry.shutdown(Duration::from_secs(1)).await;
    let stand = Stand::over(store, |_| {}).await;
    stand.agui.start(&tasks, CancellationToken::new());
    until_kept(&stand, 1).await;
    let bob = stand.someone("bob", Role::Operator).await;
    assert_eq!(session_of(&bob.connect("three").await), sessions[2]);
}

#[tokio::test]
async fn only_the_newest_threads_are_kept() {
    let stand = Stand::new().await;
    let session = |n: usize| SessionId::from_u128(n as u128 + 1);
    let put = |n: usize| Op::Put {
        collection: RECORDS,
        key: format!("[\"old {n}\",null]"),
        value: json!({"session": session(n)}).to_string().into(),
    };
    let write = Write { log: LogId::Daemon, ops: (0..KEPT).map(put).collect(), done: None };
    stand.agui.registry.store().write(write).await.unwrap();
    let ada = stand.ada().await;
    let new = session_of(&ada.say("new", "hi").await);
    assert_eq!(kept(&stand).await, KEPT);
    let oldest = stand.agui.registry.store().record(RECORDS, "[\"old 0\",null]".into()).await.unwrap();
    assert_eq!(oldest, None);
    assert_eq!(session_of(&ada.connect("new").await), new);
}

async fn kept(stand: &Stand) -> usize {
    stand.agui.registry.store().records(RECORDS).await.unwrap().len()
}

async fn until_kept(stand: &Stand, count: usize) {
    let look = async {
        while kept(stand).await != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap();
}

async fn active(client: &Client) -> Value {
    client.json(Method::GET, "/active", &Value::Null).await.1["activeSessionId"].clone()
}

// covers: 004-012
#[tokio::test]
async fn a_new_session_is_active_until_it_ends_or_another_is_chosen() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    assert_eq!(active(&ada).await, json!(null));
    let one = session_of(&ada.say("one", "hi").await);
    let two = session_of(&ada.say("two", "hi").await);
    assert_eq!(active(&ada).await, json!(two));
    let (status, chosen) = ada.json(Method::PUT, "/agui/active", &json!({"sessionId": one})).await;
    assert_eq!((status, &chosen["activeSessionId"]), (StatusCode::OK, &json!(one)));
    // No thread, or the thread `active`, is the active session.
    let nameless = ada.run(input("", "r2", &[user("u2", "to whom?")])).await;
    assert_eq!(session_of(&nameless), one);
    assert_eq!(session_of(&ada.connect("active").await), one);
    let spec = SessionSpec { agent: "other".into(), cwd: "/".into(), ..SessionSpec::default() };
    let three = stand.agui.registry.create(&owner(), CommandId::random(), spec).await.unwrap().session;
    assert_eq!(active(&ada).await, json!(three), "a new one takes its place, whoever made it");
    stand.agui.registry.submit(&owner(), three, CommandId::random(), Action::Stop).await.unwrap();
    stand.until(three, |state| !state.summary.is_live()).await;
    assert_eq!(active(&ada).await, json!(one), "and when it ends, the chosen one is active again");
    let (status, _) = ada.json(Method::PUT, "/active", &json!({"sessionId": three})).await;
    assert_eq!(status, StatusCode::CONFLICT, "one that has ended cannot be");
    for body in [json!({}), json!({"sessionId": "x"}), json!([])] {
        assert_eq!(ada.json(Method::PUT, "/active", &body).await.0, StatusCode::BAD_REQUEST);
    }
    let viewer = stand.someone("val", Role::Viewer).await;
    assert_eq!(
        viewer.json(Method::PUT, "/active", &json!({"sessionId": two})).await.0,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn an_unknown_thread_may_join_the_active_session() {
    let stand = Stand::with(|settings| settings.unknown_threads = UnknownThreads::JoinActive).await;
    let ada = stand.ada().await;
    let one = session_of(&ada.say("one", "hi").await);
    let two = session_of(&ada.run(input("two", "r2", &[user("u2", "me too")])).await);
    assert_eq!(one, two);
    let named =
        ada.post("/agent/other/run", &input("three", "r3", &[user("u3", "not me")])).await.events().await;
    assert_ne!(session_of(&named), one, "who names an agent wants that one");
}

// covers: 004-117
#[tokio::test]
async fn an_agent_that_nobody_knows_and_a_method_that_is_none_are_refused() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let body = input("t", "r", &[user("u", "hi")]);
    for (path, body) in [
        ("/agent/nobody/run", body.clone()),
        ("/agent/nobody/connect", body.clone()),
        ("/agent/nobody/stop/t", json!({})),
        ("/", json!({"method": "agent/run", "params": {"agentId": "nobody"}, "body": body})),
    ] {
        let (status, answer) = ada.json(Method::POST, path, &body).await;
        assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("Agent not found")), "{path}");
    }
    let (status, answer) = ada.json(Method::POST, "/", &json!({"method": "agent/suggest"})).await;
    assert_eq!((status, &answer["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_request")));
    let (status, answer) = ada.json(Method::POST, "/nowhere", &json!([])).await;
    assert_eq!((status, &answer["error"]), (StatusCode::BAD_REQUEST, &json!("Invalid request body")));
    assert!(stand.sessions().await.is_empty());
}

#[tokio::test]
async fn a_viewer_connects_and_cannot_run() {
    let stand = Stand::new().await;
    stand.ada().await.say("t1", "hi").await;
    let viewer = stand.someone("val", Role::Viewer).await;
    assert_eq!(texts(&shown(&[&viewer.connect("t1").await]))[0], ("user", "hi"));
    let answer = viewer.post("/agent/default/run", &input("t1", "r2", &[user("u2", "hi")])).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let (status, _) = viewer.json(Method::POST, "/agent/default/stop/t1", &json!({})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

// covers: 004-123
#[tokio::test]
async fn the_addresses_on_the_documentation_page_work() {
    let page = include_str!("../../../../../docs/copilotkit.md");
    let address = |before: &str| {
        let rest = page.split(before).nth(1).unwrap_or_else(|| panic!("no {before} in docs/copilotkit.md"));
        let url = rest.split('"').next().unwrap();
        url.strip_prefix("http://127.0.0.1:7420").unwrap_or_else(|| panic!("{url}")).to_owned()
    };
    let stand = Stand::new().await;
    let ada = Client { router: crate::agui::routes(stand.agui.clone()), ..stand.ada().await };
    let runtime = address("runtimeUrl=\"");
    let (status, info) = ada.json(Method::GET, &format!("{runtime}/info"), &Value::Null).await;
    assert_eq!((status, info["agents"]["default"].is_object()), (StatusCode::OK, true));
    assert!(page.contains("agent=\"default\"") && page.contains("Authorization: `Bearer ${token}`"));
    let run = ada.post(&address("url: \""), &input("t1", "r1", &[user("u1", "hi")])).await.events().await;
    assert_eq!(texts(&shown(&[&run])), [("assistant", "you said: hi")]);
}
