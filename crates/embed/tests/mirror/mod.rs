//! An agent that can do everything and tells what it was told, and sessions of it.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::Arc;

use portolan_core::{
    Capabilities, Event,
    capabilities::{CommandInfo, ModelInfo, NativeProtocol, PromptQueue},
    event::{Account, AgentInfo, Content, Exit, ExitReason, McpServer, TurnOrigin, TurnOutcome, TurnResult},
    ports::{Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, Launch, Order, Probe, REPORTS, Report},
    request::Ask,
};
use portolan_embed::{Portolan, Session, SessionSpec, Settings};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An agent that can do everything and tells what it was told.
#[derive(Debug)]
pub(crate) struct Mirror;

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
            mcp_changes: true,
            edited_input: true,
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
        AgentLink { instructions, reports, stop, kill, recorded: None }
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
    if launch.spec.model.as_deref() == Some("never ready") {
        return std::future::pending().await;
    }
    told.send(event(Event::AgentInfo { info: Box::new(info(launch)) })).await.ok()?;
    told.send(Report::Ready).await.ok()?;
    while let Some(Instruction { ticket, order }) = wanted.recv().await {
        told.send(Report::Delivered(ticket)).await.ok()?;
        match order {
            Order::Native(body) if body["fail"] == true => {
                told.send(Report::Rejected { ticket, error: "as you wish".into() }).await.ok()?;
            }
            Order::Native(body) if body["silent"] == true => {}
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
                if let Some(tool_name) = asked_for(&content) {
                    let ask = Ask::Permission {
                        tool_name,
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

/// `ask` asks for Bash, `ask Read` for that.
fn asked_for(content: &[Content]) -> Option<String> {
    let [Content::Text { text }] = content else { return None };
    match text.strip_prefix("ask")? {
        "" => Some("Bash".into()),
        tool => Some(tool.trim().into()),
    }
}

/// What the mirror really says when it says this.
pub(crate) fn raw(text: &str) -> Vec<u8> {
    format!("<glass>{text}</glass>").into_bytes()
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
    told.send(Report::Event { event: message, raw: Some(raw(text).into()) }).await.ok()?;
    let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
    told.send(Report::TurnEnded { result, raw: None }).await.ok()
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec { agent: "mirror".into(), cwd: "/".into(), ..SessionSpec::default() }
}

pub(crate) async fn opened() -> (Portolan, Session) {
    let portolan = Portolan::open(Settings::in_memory(vec![Arc::new(Mirror)])).await.unwrap();
    let session = portolan.client("test").create(spec()).await.unwrap();
    session.info().await.unwrap();
    (portolan, session)
}

/// The words of all messages in what came of a prompt.
pub(crate) async fn said(session: &Session, content: Vec<Content>) -> Vec<String> {
    let all = session.send(content).await.unwrap().all().await.unwrap();
    assert!(matches!(all.last().unwrap().event, Event::TurnEnded { .. }), "{all:#?}");
    let text = |event: &Event| match event {
        Event::Message { content, .. } => Some(format!("{content:?}")),
        _ => None,
    };
    all.iter().filter_map(|told| text(&told.event)).collect()
}
