//! The parts, each without the others, through the public interface: a process, the translator of an agent, the
//! translator to AG-UI, the server of AG-UI, and the tools of a page.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod mirror;

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use portolan_core::{
    Actor, CommandId, Event, Generation, Millis, Seq, SessionId, SessionSpec, TokenId,
    command::CommandKey,
    event::Content,
    ports::{Launch, Report},
    session::state::State,
};
use portolan_embed::{
    Action, Portolan, Role, Settings,
    agents::{
        self, KINDS, Supervision,
        child::{Child, Ladder, Program, environment::environment},
        claude::{self, Claude, Version},
        codex,
        dial_in::DialIn,
        driver::{Output, Translator as _},
    },
    door::{Door, DoorSettings, ListenAddress, Listening},
    frontends::agui::{
        self, Agui,
        project::{Approvals, PageNames, Projector, Prompts, history::History},
        tools::{FrontendTools, Limits, PREFIX, PageTool},
        wire::{AguiEvent, Message},
    },
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use mirror::{mirror, spec};

fn supervision() -> Arc<Supervision> {
    let path = std::env::var_os("PATH").unwrap();
    Arc::new(Supervision::new("parts", vec![("PATH".into(), path)]))
}

/// The output of Claude Code in a turn: its answer, a report about itself, a sign of life, the progress of a login, and
/// an echo of the prompt.
const LINES: [&str; 7] = [
    r#"{"type":"system","subtype":"status","status":"requesting","session_id":"s","uuid":"u1"}"#,
    r#"{"type":"keep_alive"}"#,
    r#"{"type":"auth_status","isAuthenticating":true,"output":["Opening a browser"],"session_id":"s","uuid":"u2"}"#,
    r#"{"type":"user","message":{"role":"user","content":"hello"},"isReplay":true,"parent_tool_use_id":null,"session_id":"s","uuid":"u3"}"#,
    r#"{"type":"assistant","message":{"id":"m","role":"assistant","model":"x","content":[{"type":"text","text":"Good morning."}]},"parent_tool_use_id":null,"session_id":"s","uuid":"u4"}"#,
    r#"{"type":"system","subtype":"status","status":null,"session_id":"s","uuid":"u5"}"#,
    r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1200,"duration_api_ms":900,"num_turns":1,"result":"Good morning.","session_id":"s","total_cost_usd":0.25,"usage":{"input_tokens":11,"output_tokens":7,"cache_creation_input_tokens":5,"cache_read_input_tokens":3},"uuid":"u6"}"#,
];

/// The same output as Portolan's events, after a prompt.
fn entries() -> Vec<(Option<Actor>, Event)> {
    let claude = Claude::new(claude::Config::default(), supervision(), DialIn::new());
    let spec = Arc::new(SessionSpec { agent: "claude".into(), ..SessionSpec::default() });
    let launch = Launch { session: SessionId::new(), generation: Generation(1), spec, resume: None };
    let mut translator = claude.translator(&launch, Some(Version(2, 1, 325)));
    let mut out = Output::default();
    translator.start(&mut out);
    let asked: Value = serde_json::from_slice(out.writes[0].outbound.bytes()).unwrap();
    let answer = json!({"subtype": "success", "request_id": asked["request_id"], "response": {"current_permission_mode": "default"}});
    let ready = json!({"type": "control_response", "response": answer}).to_string();
    for line in std::iter::once(ready.as_str()).chain(LINES) {
        translator.line(line, &mut out);
    }
    let token: TokenId = "ada".parse().unwrap();
    let by = Actor::Person { token: token.clone(), name: "ada".into(), via: agui::VIA.into() };
    let content = vec![Content::text("hello")];
    let key = CommandKey { token, id: "page-1".parse::<CommandId>().unwrap() };
    let prompt = Action::Prompt { content: content.clone() };
    let mut entries = vec![
        (Some(by.clone()), Event::CommandAccepted { key, action: Box::new(prompt) }),
        (Some(by), Event::Prompt { command: Seq(1), content }),
    ];
    entries.extend(out.reports.into_iter().filter_map(|report| match report {
        Report::Event { event, .. } => Some((None, event)),
        Report::TurnStarted { origin } => Some((None, Event::TurnStarted { turn: 1, origin })),
        Report::TurnEnded { result, .. } => Some((None, Event::TurnEnded { turn: 1, result })),
        _ => None,
    }));
    entries
}

fn state() -> State {
    State::new(
        SessionId::from_u128(7),
        SessionSpec { agent: "claude".into(), ..SessionSpec::default() },
        Millis(0),
    )
}

/// The same events as a page gets them live.
fn streamed() -> Vec<Value> {
    let state = state();
    let mut projector = Projector::new(
        SessionId::from_u128(7),
        "default",
        PageNames::none(),
        Approvals::Event,
        Prompts::All,
        &state,
    );
    let mut events: Vec<AguiEvent> = Vec::new();
    for (number, (by, event)) in entries().iter().enumerate() {
        projector.project(Seq(number as u64 + 1), by.as_ref(), event, &mut events);
    }
    projector.close(&mut events);
    events.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn custom<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["name"] == name).map(|event| &event["value"]).collect()
}

// covers: 004-079
#[test]
fn the_output_of_an_agent_becomes_ag_ui_events_without_a_server() {
    let events = streamed();
    let texts: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["hello", "Good morning."], "the prompt appears once, although it was echoed");
    assert_eq!(custom(&events, "system_status").len(), 2);
    assert_eq!(
        custom(&events, "auth_status"),
        [&json!({"isAuthenticating": true, "output": ["Opening a browser"], "error": null})]
    );
    // And the reverse: the input of a client is read without a server, too.
    let body = br#"{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"hi"}]}"#;
    let input = agui::parse::run_input(body).unwrap();
    assert_eq!((input.thread_id.as_str(), input.messages[0].role.as_str()), ("t", "user"));
}

// covers: 004-126
#[test]
fn the_history_has_the_messages_but_no_echoes_and_no_agent_info() {
    let entries = entries();
    let told = |wanted: fn(&Event) -> bool| entries.iter().filter(|(_, event)| wanted(event)).count();
    assert_eq!(told(|event| matches!(event, Event::AuthStatus { .. })), 1, "the log keeps it");
    assert_eq!(told(|event| matches!(event, Event::Activity { .. })), 2, "and this");
    let mut history = History::new(PageNames::none());
    for (number, (by, event)) in entries.iter().enumerate() {
        history.take(Seq(number as u64 + 1), by.as_ref(), event);
    }
    let messages = history.into_messages(&state());
    let said: Vec<_> = messages
        .iter()
        .map(|message| match message {
            Message::User { id, content } => format!("{id}: {content}"),
            Message::Assistant { content, .. } => format!("assistant: {}", content.as_deref().unwrap()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(said, ["page-1: hello", "assistant: Good morning."]);
}

// covers: 004-130
#[test]
fn the_figures_of_a_turn_are_its_tokens_cost_steps_and_durations() {
    let events = streamed();
    let usage = json!({
        "inputTokens": 11, "outputTokens": 7, "cacheCreationInputTokens": 5, "cacheReadInputTokens": 3,
    });
    let expected = json!({
        "subtype": "success", "isError": false, "durationMs": 1200, "durationApiMs": 900, "numTurns": 1,
        "sessionTurns": 1, "costUsd": 0.25, "totalCostUsd": 0.25, "usage": usage, "stopReason": null,
        "structuredOutput": null,
    });
    assert_eq!(custom(&events, "result_stats"), [&expected]);
}

// covers: 004-129
#[tokio::test]
async fn a_process_is_started_used_and_ended_with_all_its_children() {
    let supervision = supervision();
    let program = Program {
        agent: "echo".into(),
        command: vec!["cat".into()],
        folder: std::env::temp_dir(),
        environment: environment(&supervision.environment, &indexmap::IndexMap::new()).unwrap(),
    };
    let (child, mut pipes) = Child::start(program, "parts", SessionId::new()).await.unwrap();
    pipes.input.write_all(b"aye\n").await.unwrap();
    let mut heard = [0; 4];
    pipes.output.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"aye\n");
    assert!(!child.has_ended());
    child.terminate();
    tokio::time::timeout(Duration::from_secs(30), child.ended()).await.unwrap();
    assert!(Ladder::default().terminate > Duration::ZERO, "the time before a kill is public, too");
}

/// The server of AG-UI, built from its parts, over the sessions of a program.
struct Server {
    tools: FrontendTools,
    address: String,
    closing: CancellationToken,
}

impl Server {
    async fn new(portolan: &Portolan) -> Self {
        // The agents here never use the tools.
        let limits = Limits { register: Duration::from_millis(100), ..Limits::default() };
        let tools = FrontendTools::new(portolan.registry().clone(), limits);
        let closing = CancellationToken::new();
        let settings = agui::Settings { folder: Some(std::env::temp_dir()), ..agui::Settings::default() };
        let agui = Agui::new(
            portolan.registry().clone(),
            settings,
            tools.clone(),
            closing.clone(),
            TaskTracker::new(),
        );
        let listen = vec![ListenAddress::Tcp("127.0.0.1:0".parse().unwrap())];
        let door = Door::bind(&DoorSettings { listen, ..DoorSettings::default() }).await.unwrap();
        let address = door.addresses().iter().find_map(Listening::url).unwrap();
        door.serve(portolan.access(), agui::routes(agui), closing.clone());
        Self { tools, address, closing }
    }

    async fn info(&self, token: &str) -> Value {
        let host = self.address.strip_prefix("http://").unwrap();
        let stream = tokio::net::TcpStream::connect(host).await.unwrap();
        let (mut sender, line) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(line);
        let request = http::Request::get("/agui/info")
            .header("host", host)
            .header("authorization", format!("Bearer {token}"))
            .body(String::new())
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }
}

// covers: 004-129
#[tokio::test]
async fn the_info_says_for_every_agent_whether_it_can_use_the_tools_of_a_page() {
    let settings = agents::Settings {
        supervision: supervision(),
        demo: vec![],
        claude: claude::Config::default(),
        codex: codex::Config::default(),
        acp: vec![],
        dial_in: DialIn::new(),
    };
    let portolan = Portolan::open(Settings::in_memory(agents::catalogue(&settings))).await.unwrap();
    let token = portolan.token("page", Role::Operator).await.unwrap();
    let server = Server::new(&portolan).await;
    let told = |info: &Value| {
        let can = |kind: &&&str| info["agents"][**kind]["capabilities"]["tools"]["clientProvided"] == true;
        assert!(KINDS.iter().all(|kind| info["agents"][*kind].is_object()), "{info}");
        KINDS.iter().filter(can).copied().collect::<Vec<_>>()
    };
    assert!(
        told(&server.info(&token).await).is_empty(),
        "agents cannot reach the tools before the listener's address is set"
    );
    server.tools.listens_at(server.address.clone());
    let mut can = told(&server.info(&token).await);
    can.sort_unstable();
    assert_eq!(can, ["claude", "demo"], "all other agents accept MCP servers when they start, or not at all");
    server.closing.cancel();
    portolan.shutdown(Duration::from_secs(5)).await;
}

// covers: 004-131
#[tokio::test]
async fn the_tool_server_of_a_page_gives_its_address_and_its_tools() {
    let portolan = Portolan::open(Settings::in_memory(vec![mirror()])).await.unwrap();
    let session = portolan.client("test").create(spec()).await.unwrap().id();
    let server = Server::new(&portolan).await;
    assert_eq!(server.tools.address(), None);
    server.tools.listens_at(server.address.clone());
    assert_eq!(
        server.tools.address().as_deref(),
        Some(server.address.as_str()),
        "with the port that was picked"
    );
    let tool =
        |name: &str| PageTool { name: name.into(), description: String::new(), parameters: Value::Null };
    assert!(!server.tools.has_tool(session, "setColor"));
    server.tools.offer(session, vec![tool("setColor"), tool("set title")]).await;
    for name in ["setColor", "set title", "set_title", &format!("{PREFIX}setColor")] {
        assert!(server.tools.has_tool(session, name), "{name}");
    }
    assert!(!server.tools.has_tool(session, "addTask"));
    assert!(!server.tools.has_tool(SessionId::new(), "setColor"), "another session's page");
    server.tools.offer(session, vec![tool("addTask")]).await;
    assert!(!server.tools.has_tool(session, "setColor"), "only what is mounted now");
    server.closing.cancel();
    portolan.shutdown(Duration::from_secs(5)).await;
}
