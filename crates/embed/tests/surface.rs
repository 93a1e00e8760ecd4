//! Every method of a session's handle reaches the agent as what it means, and what comes of it comes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::unnecessary_wraps, reason = "results are optional, and compared with this")]

use std::{sync::Arc, time::Duration};

use portolan_core::{
    Capabilities, Event,
    capabilities::{CommandInfo, ModelInfo, NativeProtocol, PromptQueue},
    event::{Account, AgentInfo, Content, Exit, ExitReason, McpServer, TurnOrigin, TurnOutcome, TurnResult},
    ports::{Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, Launch, Order, Probe, REPORTS, Report},
    request::{Answer, Ask, Scope},
};
use portolan_embed::{
    BridgeStatus, CommandOutput, CommandSource, DryRun, Portolan, RefusalCode, Seq, Session, SessionSpec,
    Settings, Start, Switch,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An agent that can do everything and tells what it was told.
#[derive(Debug)]
struct Mirror;

impl Agent for Mirror {
    fn kind(&self) -> &'static str {
        "mirror"
    }
    fn title(&self) -> String {
        "Mirror".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            interrupt: true,
            session_resume: true,
            model_switching: true,
            permission_mode_switching_mid_session: true,
            thinking_budget: true,
            environment: true,
            file_checkpointing: true,
            mcp: true,
            image_input: true,
            passthrough: true,
            slash_commands: true,
            prompt_queue: PromptQueue::Held,
            options: portolan_core::spec::SpecOption::ALL.to_vec(),
            ..Capabilities::default()
        }
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(std::future::ready(Probe { available: true, ..Probe::default() }))
    }
    fn start(&self, launch: Launch) -> AgentLink {
        let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
        let (told, reports) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let end = stop.clone();
        tokio::spawn(async move {
            if launch.spec.model.as_deref() != Some("dead on arrival") {
                tokio::select! {
                    _ = live(&launch, wanted, &told) => {}
                    () = end.cancelled() => {}
                }
            }
            let reason = if end.is_cancelled() { ExitReason::Stopped } else { ExitReason::NotReady };
            let exit =
                Exit { reason, code: None, signal: None, message: "it ended".into(), stderr: String::new() };
            let _ = told.send(Report::Exited(exit)).await;
        });
        AgentLink { instructions, reports, stop, kill }
    }
}

fn info(launch: &Launch) -> AgentInfo {
    AgentInfo {
        agent_session: Some(
            launch.resume.as_ref().map_or("mirror-1".into(), |from| from.agent_session.clone()),
        ),
        version: Some("1.2.3".into()),
        cwd: Some(launch.spec.cwd.clone()),
        model: Some("glass".into()),
        mode: Some("default".into()),
        tools: Some(vec!["Bash".into()]),
        mcp_servers: Some(vec![]),
        commands: Some(vec![CommandInfo {
            name: "compact".into(),
            description: "make it smaller".into(),
            argument_hint: Some("what to keep".into()),
        }]),
        models: Some(vec![ModelInfo { id: "glass".into(), display_name: "Glass".into(), description: None }]),
        account: Some(Account { email: Some("ada@example.org".into()), ..Account::default() }),
        ..AgentInfo::default()
    }
}

type Told = mpsc::Sender<Report>;

async fn live(launch: &Launch, mut wanted: mpsc::Receiver<Instruction>, told: &Told) -> Option<()> {
    let event = |event| Report::Event { event, raw: None };
    let capabilities = Box::new(Mirror.capabilities());
    let protocol = NativeProtocol::Demo;
    told.send(Report::Started { pid: None, version: None, protocol, capabilities }).await.ok()?;
    told.send(event(Event::AgentInfo { info: Box::new(info(launch)) })).await.ok()?;
    told.send(Report::Ready).await.ok()?;
    while let Some(Instruction { ticket, order }) = wanted.recv().await {
        told.send(Report::Delivered(ticket)).await.ok()?;
        match order {
            Order::Native(body) if body["fail"] == true => {
                told.send(Report::Rejected { ticket, error: "as you wish".into() }).await.ok()?;
            }
            Order::McpStatus => {
                let server = McpServer {
                    name: "files".into(),
                    status: "connected".into(),
                    error: None,
                    tools: vec![],
                    scope: None,
                };
                told.send(event(Event::McpServers { servers: vec![server] })).await.ok()?;
                told.send(Report::Consumed { ticket, result: None }).await.ok()?;
            }
            Order::Prompt { content } => {
                told.send(Report::Consumed { ticket, result: None }).await.ok()?;
                told.send(Report::TurnStarted { origin: TurnOrigin::Prompt }).await.ok()?;
                if content == [Content::text("ask")] {
                    let ask = Ask::Permission {
                        tool_name: "Bash".into(),
                        input: json!({ "command": "ls" }),
                        description: None,
                        changes: vec![],
                        reason: None,
                        blocked_path: None,
                        suggestions: vec![],
                        options: vec![],
                    };
                    let (key, parent, tool, raw) = (format!("k{}", ticket.0), None, None, None);
                    told.send(Report::RequestOpened { key, ask: Box::new(ask), parent, tool, raw })
                        .await
                        .ok()?;
                } else {
                    reflect(&format!("{content:?}"), ticket.0, told).await?;
                }
            }
            Order::Answer { answer, .. } => {
                told.send(Report::Consumed { ticket, result: None }).await.ok()?;
                reflect(&format!("{answer:?}"), ticket.0, told).await?;
            }
            other => {
                let result = Some(json!(format!("{other:?}")));
                told.send(Report::Consumed { ticket, result }).await.ok()?;
            }
        }
    }
    Some(())
}

async fn reflect(text: &str, number: u64, told: &Told) -> Option<()> {
    let message = Event::Message {
        item: format!("m{number}"),
        message: None,
        parent: None,
        model: None,
        content: vec![Content::text(text)],
        interrupted: false,
        stop_reason: None,
    };
    told.send(Report::Event { event: message, raw: None }).await.ok()?;
    let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
    told.send(Report::TurnEnded { result, raw: None }).await.ok()
}

fn spec() -> SessionSpec {
    SessionSpec { agent: "mirror".into(), cwd: "/".into(), ..SessionSpec::default() }
}

async fn opened() -> (Portolan, Session) {
    let portolan = Portolan::open(Settings::in_memory(vec![Arc::new(Mirror)])).await.unwrap();
    let session = portolan.client("test").create(spec()).await.unwrap();
    session.info().await.unwrap();
    (portolan, session)
}

/// The words of all messages in what came of a prompt.
async fn said(session: &Session, content: Vec<Content>) -> Vec<String> {
    let all = session.send(content).await.unwrap().all().await.unwrap();
    assert!(matches!(all.last().unwrap().event, Event::TurnEnded { .. }), "{all:#?}");
    let text = |event: &Event| match event {
        Event::Message { content, .. } => Some(format!("{content:?}")),
        _ => None,
    };
    all.iter().filter_map(|told| text(&told.event)).collect()
}

fn told(what: &str) -> Option<Value> {
    Some(json!(what))
}

// covers: 003-091
#[tokio::test]
async fn what_an_agent_can_do_is_known_without_a_session() {
    let portolan = Portolan::open(Settings::in_memory(vec![Arc::new(Mirror)])).await.unwrap();
    let agents = portolan.client("test").agents();
    assert_eq!((agents[0].kind.as_str(), &agents[0].capabilities), ("mirror", &Mirror.capabilities()));
}

// covers: 003-092, 003-108, 003-109, 003-110, 003-112
#[tokio::test]
async fn what_the_agent_tells_of_itself_is_given_once_it_is_ready() {
    let portolan = Portolan::open(Settings::in_memory(vec![Arc::new(Mirror)])).await.unwrap();
    let session = portolan.client("test").create(spec()).await.unwrap();
    let told = session.info().await.unwrap();
    assert_eq!((told.version.as_deref(), told.model.as_deref()), (Some("1.2.3"), Some("glass")));
    assert_eq!((told.agent_session.as_deref(), told.mode.as_deref()), (Some("mirror-1"), Some("default")));
    assert_eq!((told.tools, told.cwd), (Some(vec!["Bash".into()]), Some("/".into())));
    assert_eq!(session.commands().await.unwrap()[0].argument_hint.as_deref(), Some("what to keep"));
    assert_eq!(session.models().await.unwrap()[0].display_name, "Glass");
    assert_eq!(session.account().await.unwrap().unwrap().email.as_deref(), Some("ada@example.org"));
    assert!(session.capabilities().await.unwrap().model_switching);
    let dead = SessionSpec { model: Some("dead on arrival".into()), ..spec() };
    let dead = portolan.client("test").create(dead).await.unwrap();
    let refusal = dead.info().await.unwrap_err();
    assert_eq!((refusal.code, refusal.message.as_str()), (RefusalCode::NotRunning, "it ended"));
    assert_eq!(dead.status().await.unwrap(), BridgeStatus::Error("it ended".into()));
}

// covers: 003-101
#[tokio::test]
async fn any_number_of_readers_see_the_same_entries() {
    let (_portolan, session) = opened().await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(session.entries(Start::After(Seq::ZERO)).await.unwrap());
    }
    said(&session, vec![Content::text("hello")]).await;
    let mut seen = Vec::new();
    for mut reader in readers {
        let mut all = Vec::new();
        while all
            .last()
            .is_none_or(|told: &portolan_embed::Told<Event>| !matches!(told.event, Event::TurnEnded { .. }))
        {
            all.push(reader.next().await.unwrap().unwrap());
        }
        seen.push(all);
    }
    assert!(seen[0].len() > 5);
    assert!(seen.iter().all(|all| *all == seen[0]));
}

// covers: 003-102
#[tokio::test]
async fn what_is_sent_gives_the_messages_of_its_turn() {
    let (_portolan, session) = opened().await;
    let picture = Content::Image { media_type: "image/png".into(), data: "AAAA".into() };
    let content = vec![Content::text("look"), picture];
    let expected = format!("{:?}", vec![Content::text(format!("{content:?}"))]);
    assert_eq!(said(&session, content).await, [expected]);
    let prompts = session.state().await.unwrap().summary.turns;
    assert_eq!(prompts, 1);
}

// covers: 003-104
#[tokio::test]
async fn a_request_is_answered_by_the_program_and_only_once() {
    let (_portolan, session) = opened().await;
    let edited = Answer::Allow {
        input: Some(json!({ "command": "pwd" })),
        scope: Scope::Once,
        mode: None,
        option: None,
    };
    for answer in [edited, Answer::allow(), Answer::deny(Some("no".into()))] {
        let mut reply = session.send(vec![Content::text("ask")]).await.unwrap();
        let mut last = None;
        while let Some(told) = reply.next().await.unwrap() {
            if let Event::RequestOpened { request } = &told.event {
                match &answer {
                    Answer::Deny { message, .. } => session.deny(request.request, message.as_deref()).await,
                    Answer::Allow { input: None, .. } => session.allow(request.request).await,
                    other => session.answer(request.request, other.clone()).await,
                }
                .unwrap();
                let again = session.allow(request.request).await.unwrap_err();
                assert_eq!(again.code, RefusalCode::AlreadyClosed);
            }
            if let Event::Message { content, .. } = told.event {
                last = Some(content);
            }
        }
        assert_eq!(last, Some(vec![Content::text(format!("{answer:?}"))]));
    }
}

// covers: 003-105, 003-106, 003-107, 003-111, 003-114
#[tokio::test]
async fn everything_else_reaches_the_agent_as_what_it_means() {
    let (_portolan, session) = opened().await;
    session.set_model(Some("silver")).await.unwrap();
    session.set_mode("plan").await.unwrap();
    session.set_thinking(Some(7)).await.unwrap();
    session.set_environment([("A".to_owned(), "b".to_owned())].into()).await.unwrap();
    let state = session.state().await.unwrap();
    assert_eq!(
        (state.summary.model.as_deref(), state.summary.mode.as_deref()),
        (Some("silver"), Some("plan"))
    );
    assert_eq!(state.thinking, Some(7));
    let prompt = session.prompt("ask").await.unwrap();
    let rewound = session.rewind(prompt, DryRun::Yes).await.unwrap();
    assert_eq!(rewound, told(&format!("Rewind {{ prompt: Ticket({prompt}), dry_run: true }}")));
    session.interrupt().await.unwrap();
    assert_eq!(session.state().await.unwrap().requests, [], "nothing waits after an interrupt");
    assert_eq!(session.mcp_status().await.unwrap()[0].name, "files");
    session.mcp_reconnect("files").await.unwrap();
    session.mcp_toggle("files", Switch::Off).await.unwrap();
    let set = session.mcp_set([("s".to_owned(), json!({}))].into()).await.unwrap();
    assert!(set.unwrap().as_str().unwrap().starts_with("McpSet("));
    let passed = session.mcp_message("files", json!({ "jsonrpc": "2.0" })).await.unwrap();
    assert!(passed.unwrap().as_str().unwrap().starts_with("McpMessage { server: \"files\""));
    assert!(session.native(json!({ "type": "x" })).await.unwrap().is_some());
    let refusal = session.native(json!({ "fail": true })).await.unwrap_err();
    assert_eq!((refusal.code, refusal.message.as_str()), (RefusalCode::AgentRefused, "as you wish"));
}

// covers: 003-113
#[tokio::test]
async fn a_slash_command_is_the_agents_own_or_told_by_us_or_refused() {
    let (_portolan, session) = opened().await;
    let own = session.execute("/compact a little").await.unwrap();
    let said = format!("{:?}", vec![Content::text("/compact a little")]);
    assert_eq!(own, CommandOutput { content: said, source: CommandSource::Native });
    let ours = session.execute("cost").await.unwrap();
    let content = "an unknown sum in 1 turns".to_owned();
    assert_eq!(ours, CommandOutput { content, source: CommandSource::Emulated });
    assert_eq!(session.execute("/dance").await.unwrap_err().code, RefusalCode::Unsupported);
}

// covers: 003-093, 003-116
#[tokio::test]
async fn a_closed_session_can_be_read_and_resumed_and_taken_up_by_the_agents_own_id() {
    let (portolan, session) = opened().await;
    said(&session, vec![Content::text("hello")]).await;
    session.close().await.unwrap();
    assert_eq!(session.status().await.unwrap(), BridgeStatus::Terminated);
    let mut history = session.entries(Start::After(Seq::ZERO)).await.unwrap();
    assert!(matches!(history.next().await.unwrap().unwrap().event, Event::SessionCreated { .. }));
    session.resume().await.unwrap();
    assert!(session.status().await.unwrap().is_connected());
    let taken = SessionSpec { resume: Some("mirror-9".into()), model: Some("silver".into()), ..spec() };
    let taken = portolan.client("test").create(taken).await.unwrap();
    assert_eq!(taken.info().await.unwrap().agent_session.as_deref(), Some("mirror-9"));
}

// covers: 003-094
#[tokio::test]
async fn after_the_shutdown_nothing_runs_and_readers_hear_of_it() {
    let (portolan, session) = opened().await;
    let mut entries = session.entries(Start::Tail(0)).await.unwrap();
    assert_eq!(portolan.shutdown(Duration::from_secs(5)).await, Vec::<String>::new());
    let mut ended = false;
    while let Some(told) = entries.next().await.unwrap() {
        ended |= matches!(told.event, Event::AgentExited { .. });
    }
    assert!(ended, "its agent was ended first");
    assert_eq!(session.prompt("still there?").await.unwrap_err().code, RefusalCode::ShuttingDown);
}
