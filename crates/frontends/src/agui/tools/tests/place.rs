//! The agent's endpoint over a real listener: what the agent gets, and that nobody else gets anything.

use std::time::Duration;

use http::{Method, StatusCode};
use portolan_core::{Action, SessionId, ports::Order, session::state::Status};
use serde_json::{Value, json};

use super::{
    super::{LeftOut, Limits, PREFIX, PageTool, SERVER},
    stand::{Stand, tool},
};

fn names(list: &Value) -> Vec<String> {
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

// covers: 004-120, 004-121, 004-122
#[tokio::test]
async fn an_agent_is_told_of_the_server_and_finds_the_pages_tools_there() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (offered, _) = stand.offer(session, &["addTask", "set title"]).await;
    let told: Vec<_> =
        offered.tools.iter().map(|tool| (tool.name.as_str(), tool.page.name.as_str())).collect();
    assert_eq!(
        told,
        [
            ("mcp__copilotkit-frontend__addTask", "addTask"),
            ("mcp__copilotkit-frontend__set_title", "set title")
        ]
    );
    assert_eq!((offered.left_out, offered.unavailable), (vec![], None));
    assert_eq!(stand.servers().keys().collect::<Vec<_>>(), [SERVER]);
    assert_eq!(stand.servers()[SERVER]["type"], "http");
    let mut agent = stand.connection(session);
    let said = agent.handshake().await;
    assert_eq!(said["serverInfo"]["name"], SERVER);
    assert_eq!(said["capabilities"], json!({ "tools": { "listChanged": true } }));
    assert_eq!(names(&agent.ask("tools/list", json!({})).await), ["addTask", "set_title"]);
    assert_eq!(stand.tools.page_name(session, &format!("{PREFIX}set_title")).unwrap(), "set title");
    assert_eq!(stand.tools.page_name(session, "Bash"), None);
}

// covers: 004-022
#[tokio::test]
async fn a_call_waits_for_the_pages_result() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (_, mut agent) = stand.offer(session, &["addTask"]).await;
    let calling = tokio::spawn(async move { agent.call("addTask", "toolu_1").await });
    let mut waiting = stand.tools.waiting(session);
    waiting.wait_for(|calls| *calls == ["toolu_1"]).await.unwrap();
    assert!(!calling.is_finished());
    stand.tools.handed_over(session, &["toolu_1".into()]);
    assert_eq!(stand.tools.results(session, [("toolu_1".to_owned(), Ok("2 tasks".to_owned()))]), 1);
    assert_eq!(calling.await.unwrap(), (false, "2 tasks".to_owned()));
}

#[tokio::test]
async fn a_call_that_failed_in_the_page_has_failed_for_the_agent() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (_, mut agent) = stand.offer(session, &["addTask"]).await;
    let calling = tokio::spawn(async move { agent.call("addTask", "toolu_1").await });
    stand.tools.waiting(session).wait_for(|calls| *calls == ["toolu_1"]).await.unwrap();
    let failed = ("toolu_1".to_owned(), Err("the list is full".to_owned()));
    assert_eq!(stand.tools.results(session, [failed]), 1);
    assert_eq!(calling.await.unwrap(), (true, "the list is full".to_owned()));
}

#[tokio::test]
async fn a_call_that_the_page_cannot_carry_out_gets_an_error_in_words() {
    let limits = Limits { page: Duration::from_millis(50), ..Limits::default() };
    let stand = Stand::with(limits).await;
    let session = stand.session().await;
    let (_, mut agent) = stand.offer(session, &["addTask"]).await;
    let (is_error, text) = agent.call("addTask", "toolu_1").await;
    assert!(is_error && text.starts_with("no page took the call"), "{text}");
    assert_eq!(
        agent.call("gone", "toolu_2").await,
        (true, "the page has no tool `gone` at the moment".to_owned())
    );
    let nameless = agent.ask("tools/call", json!({ "name": "addTask", "arguments": {} })).await;
    assert_eq!(nameless["result"]["isError"], true, "{nameless}");
    let unknown = agent.ask("resources/read", json!({ "uri": "file:///etc/passwd" })).await;
    assert!(unknown["error"].is_object(), "{unknown}");
}

// covers: 004-127
#[tokio::test]
async fn a_tool_that_the_page_no_longer_has_is_no_longer_offered() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    stand.offer(session, &["addTask", "clear"]).await;
    let (offered, mut agent) = stand.offer(session, &["clear"]).await;
    assert_eq!(offered.unavailable, None);
    assert_eq!(stand.orders().last(), Some(&Order::McpReconnect(SERVER.to_owned())), "it is connected anew");
    assert_eq!(names(&agent.ask("tools/list", json!({})).await), ["clear"]);
    assert!(agent.call("addTask", "toolu_1").await.0);
    // The same set again causes no notification.
    let before = stand.orders().len();
    stand.tools.offer(session, vec![tool("clear")]).await;
    assert_eq!(stand.orders().len(), before);
}

#[tokio::test]
async fn a_change_of_the_tools_within_a_turn_sends_a_notification() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (_, mut agent) = stand.offer(session, &["addTask"]).await;
    stand.prompt(session, "Bash").await;
    stand.until(session, |state| state.summary.status == Status::Active).await;
    let before = stand.orders().len();
    let listening = agent.clone();
    let mut stream = tokio::spawn(async move { listening.hears("tools/list_changed").await });
    let offering = stand.tools.clone();
    let offering = tokio::spawn(async move { offering.offer(session, vec![tool("clear")]).await });
    assert!(tokio::time::timeout(super::stand::PATIENCE, &mut stream).await.unwrap().unwrap());
    assert_eq!(names(&agent.ask("tools/list", json!({})).await), ["clear"]);
    assert_eq!(offering.await.unwrap().unavailable, None);
    assert_eq!(stand.orders().len(), before, "nothing was connected anew");
}

#[tokio::test]
async fn only_the_secret_of_the_sessions_agent_gives_access_to_its_tools() {
    let stand = Stand::new().await;
    let (session, other) = (stand.session().await, stand.session().await);
    stand.offer(session, &["addTask"]).await;
    let secret = stand.servers()[SERVER]["headers"]["Authorization"].as_str().unwrap().to_owned();
    stand.offer(other, &["clear"]).await;
    let others = stand.servers()[SERVER]["headers"]["Authorization"].as_str().unwrap().to_owned();
    assert_ne!(secret, others);
    let owner = format!("Bearer {}", stand.owner_secret);
    let cut = secret[..secret.len() - 1].to_owned();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    for authorization in ["", "Bearer ", "Bearer x", &cut, &others, &owner, &secret.to_uppercase()] {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::PUT] {
            let connection = stand.connection_with(session, authorization);
            let (status, _, body) = connection.send(method.clone(), hello.clone()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {authorization:?}: {body}");
            assert!(!body.contains("addTask"), "{body}");
        }
    }
    let nowhere = stand.connection_with(SessionId::new(), &secret);
    assert_eq!(nowhere.send(Method::POST, hello).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn invalid_and_oversized_messages_are_refused_and_the_server_goes_on() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (_, mut agent) = stand.offer(session, &["addTask"]).await;
    let deep = "[".repeat(100_000);
    let huge = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    for body in ["", "{", "null", "[]", "\u{0}", "{\"jsonrpc\":\"1.0\"}", "{\"method\":7}", &deep, &huge] {
        let (status, _, answer) = agent.send(Method::POST, body.to_owned()).await;
        let shown: String = body.chars().take(40).collect();
        assert!(status.is_client_error(), "{shown}: {status} {answer}");
    }
    let (status, _, _) = agent.send(Method::PUT, "{}").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(names(&agent.ask("tools/list", json!({})).await), ["addTask"]);
}

#[tokio::test]
async fn the_number_of_unfinished_connections_is_limited() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    stand.offer(session, &["addTask"]).await;
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let mut last = StatusCode::OK;
    for _ in 0..20 {
        last = stand.connection(session).send(Method::POST, hello.clone()).await.0;
    }
    assert_eq!(last, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn an_unfinished_connection_is_dropped_after_a_while() {
    let stand = Stand::with(Limits { connect: Duration::from_millis(1), ..Limits::default() }).await;
    let session = stand.session().await;
    stand.offer(session, &["addTask"]).await;
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    for number in 0..30 {
        let (status, _, body) = stand.connection(session).send(Method::POST, hello.clone()).await;
        assert_eq!(status, StatusCode::OK, "{number}: {body}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut agent = stand.connection(session);
    agent.handshake().await;
    assert_eq!(names(&agent.ask("tools/list", json!({})).await), ["addTask"]);
}

#[tokio::test(start_paused = true)]
async fn runs_that_offer_at_once_wait_side_by_side_for_an_agent_that_never_comes() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let began = tokio::time::Instant::now();
    let offer = |name: &'static str| stand.tools.offer(session, vec![tool(name)]);
    let (one, two, three) = tokio::join!(offer("one"), offer("two"), offer("three"));
    for offered in [one, two, three] {
        assert!(offered.unavailable.unwrap().contains("did not fetch"));
    }
    let waited = began.elapsed();
    let limit = Limits::default().register;
    assert!(waited >= limit && waited < limit * 2, "{waited:?}");
}

#[tokio::test]
async fn an_agent_that_connects_anew_again_and_again_keeps_its_newest_connection() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (_, mut newest) = stand.offer(session, &["addTask"]).await;
    for _ in 0..20 {
        newest = stand.connection(session);
        newest.handshake().await;
    }
    assert_eq!(names(&newest.ask("tools/list", json!({})).await), ["addTask"]);
}

#[tokio::test]
async fn the_end_of_an_agent_ends_its_tool_server_and_waiting_calls() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let (_, agent) = stand.offer(session, &["addTask"]).await;
    let caller = agent.clone();
    let calling = tokio::spawn(async move {
        let message = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
            "name": "addTask", "arguments": {}, "_meta": { "claudecode/toolUseId": "toolu_1" } } });
        caller.send(Method::POST, message.to_string()).await
    });
    stand.tools.waiting(session).wait_for(|calls| *calls == ["toolu_1"]).await.unwrap();
    stand.act(session, Action::Stop).await;
    tokio::time::timeout(super::stand::PATIENCE, calling).await.unwrap().unwrap();
    let look = async {
        while agent.send(Method::POST, "{}").await.0 != StatusCode::UNAUTHORIZED {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::stand::PATIENCE, look).await.unwrap();
    // A new start of the agent gets the server again, with a new secret.
    let before = stand.servers();
    stand.act(session, Action::Resume).await;
    stand.until(session, |state| state.summary.status == Status::Connected).await;
    stand.offer(session, &["addTask"]).await;
    assert_ne!(stand.servers(), before);
}

#[tokio::test]
async fn a_page_without_tools_changes_nothing_and_its_limits_are_told() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let offered = stand.tools.offer(session, vec![]).await;
    assert_eq!((offered.tools.len(), offered.unavailable), (0, None));
    let wrong = PageTool { parameters: json!("x"), ..tool("odd") };
    let offered = stand.tools.offer(session, vec![wrong]).await;
    let why = "its parameters are not a JSON Schema".to_owned();
    assert_eq!(offered.left_out, [LeftOut { name: "odd".into(), why }]);
    assert_eq!(stand.orders(), [], "the agent was told nothing");
    assert_eq!(stand.tools.results(session, [("a".to_owned(), Ok("b".to_owned()))]), 0);
    assert!(stand.tools.waiting(session).borrow().is_empty());
}

#[tokio::test]
async fn an_agent_that_never_fetches_the_list_does_not_hold_the_run_for_long() {
    let limits = Limits { register: Duration::from_millis(50), ..Limits::default() };
    let stand = Stand::with(limits).await;
    let session = stand.session().await;
    let offered = stand.tools.offer(session, vec![tool("addTask")]).await;
    assert!(offered.unavailable.is_some(), "{:?}", offered.tools);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_comes_for_the_tools_is_waited_for_once() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let offer = |name: &'static str| stand.tools.offer(session, vec![tool(name)]);
    assert!(offer("one").await.unavailable.is_some());
    let began = tokio::time::Instant::now();
    for name in ["one", "another"] {
        assert!(offer(name).await.unavailable.unwrap().contains("did not fetch"), "{name}");
    }
    assert!(stand.tools.offer(session, vec![]).await.unavailable.is_some());
    assert_eq!(began.elapsed(), Duration::ZERO, "the next runs do not wait");
}
