//! An agent that supports everything and repeats its input, and sessions with that agent.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::Arc;

use portolan_core::{
    Capabilities, Event,
    capabilities::{CommandInfo, ModelInfo, PromptQueue},
    event::{Account, AgentInfo, Content, ExitReason, McpServer, TurnOutcome, TurnResult, plain_text},
    ports::{Launch, Order, Report},
};
use portolan_embed::{Portolan, Session, SessionSpec, Settings};
use portolan_testkit::agents::{Played, Puppet, Settled, Strings, exit, message, permission};
use serde_json::json;

pub(crate) fn capabilities() -> Capabilities {
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

/// An agent that supports everything and repeats its input.
pub(crate) fn mirror() -> Arc<Puppet> {
    let mirror = Puppet::new("mirror").with_capabilities(capabilities()).playing(|strings| {
        Box::pin(async move {
            match strings.launch.spec.model.as_deref() {
                Some("dead on arrival") => return exit(ExitReason::NotReady, "it ended"),
                Some("never ready") => {
                    strings.started().await;
                    return std::future::pending().await;
                }
                _ => strings.ready_as(info(&strings.launch)).await,
            }
            strings.aside = aside;
            strings.act(|strings, content| Box::pin(reflected(strings, content))).await
        })
    });
    Arc::new(mirror)
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

/// Repeats a prompt as it was understood; `ask` asks for Bash first and repeats the answer, `ask Read` asks for Read.
async fn reflected(strings: &mut Strings, content: Vec<Content>) -> Played {
    let words = plain_text(&content);
    let text = match words.strip_prefix("ask").filter(|_| content.len() == 1) {
        None => format!("{content:?}"),
        Some(tool) => {
            let tool = if tool.is_empty() { "Bash" } else { tool.trim() };
            let ask = permission(tool, json!({ "command": "ls" }));
            format!("{:?}", strings.answer_to(ask, None, None).await?)
        }
    };
    let event = message(strings.name(), Content::text(&text));
    strings.say(Report::Event { event, raw: Some(raw(&text).into()) }).await;
    Ok(TurnResult::bare(TurnOutcome::Completed))
}

/// Repeats everything else as the result of its command.
fn aside(order: &Order) -> Settled {
    match order {
        Order::Native(body) if body["fail"] == true => Settled::Refused("as you wish".into()),
        Order::Native(body) if body["silent"] == true => Settled::Never,
        Order::McpStatus => {
            let (name, status) = ("files".into(), "connected".into());
            let server = McpServer { name, status, error: None, tools: vec![], scope: None };
            Settled::With(Box::new(Event::McpServers { servers: vec![server] }))
        }
        other => Settled::Done(Some(json!(format!("{other:?}")))),
    }
}

/// The raw form of this message of the mirror.
pub(crate) fn raw(text: &str) -> Vec<u8> {
    format!("<glass>{text}</glass>").into_bytes()
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec { agent: "mirror".into(), cwd: "/".into(), ..SessionSpec::default() }
}

pub(crate) async fn opened() -> (Portolan, Session) {
    let portolan = Portolan::open(Settings::in_memory(vec![mirror()])).await.unwrap();
    let session = portolan.client("test").create(spec()).await.unwrap();
    session.info().await.unwrap();
    (portolan, session)
}

/// The text of all messages in the reply to a prompt.
pub(crate) async fn said(session: &Session, content: Vec<Content>) -> Vec<String> {
    let all = session.send(content).await.unwrap().all().await.unwrap();
    assert!(matches!(all.last().unwrap().event, Event::TurnEnded { .. }), "{all:#?}");
    let text = |event: &Event| match event {
        Event::Message { content, .. } => Some(format!("{content:?}")),
        _ => None,
    };
    all.iter().filter_map(|told| text(&told.event)).collect()
}
