//! MCP servers: their tools, their questions to the user, and changes while a session runs.

use std::time::Duration;

use portolan_core::{
    Action, Event, SessionSpec,
    event::{Content, McpServer, plain_text},
    request::{Answer, Ask, Request},
};
use portolan_scripted::{Script, contains, text, tool};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{Bench, Fault, bench::LOOK, fault::must, session::Session};

/// The server that a session begins with.
const HARBOUR: &str = "harbour";

/// The server that comes later.
const QUAY: &str = "quay";

/// How long a server may take to connect, or to disconnect.
const CONNECTING: Duration = Duration::from_secs(30);

/// The server in the agent's own form, and the model's names for its tools.
fn harbour(bench: &Bench) -> Result<(Value, impl Fn(&str) -> String), Fault> {
    let Some(name) = bench.profile().mcp_tool else { return Err(Fault::NotOffered("MCP servers".into())) };
    let Some(command) = &bench.subject.tool_server else {
        return Err(Fault::NotOffered("no MCP server to try it with".into()));
    };
    Ok(((bench.profile().mcp_server)(command), move |tool: &str| name(HARBOUR, tool)))
}

/// A session with the server from its start, and a first prompt.
async fn session_with(bench: &Bench, server: Value, prompt: &str) -> Result<Session, Fault> {
    let mcp_servers = [(HARBOUR.to_owned(), server)].into_iter().collect();
    let spec = SessionSpec { mcp_servers, prompt: vec![Content::text(prompt)], ..bench.spec() };
    bench.session_from(spec).await
}

pub(super) async fn tool_runs(bench: &Bench) -> Result<(), Fault> {
    let (server, name) = harbour(bench)?;
    let script = Script::new()
        .on(contains("ask the harbour"))
        .reply(tool(name("depth"), json!({ "berth": "seven" })))
        .then(text("the harbour said: {last_tool_result}"));
    bench.play(script);
    let mut session = session_with(bench, server, "ask the harbour").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let said = session.completes().await?;
    must!(said.contains("berth seven is 12 fathoms deep"), "the model got: {said}");
    if !bench.profile().mcp_listed {
        return Ok(());
    }
    session.carry_out(Action::McpStatus).await?;
    let state = session.state().await?;
    let connected =
        state.mcp_servers.iter().any(|server| server.name == HARBOUR && server.status == "connected");
    must!(connected, "the listed servers are {:?}", state.mcp_servers);
    Ok(())
}

pub(super) async fn elicitation(bench: &Bench) -> Result<(), Fault> {
    let (server, name) = harbour(bench)?;
    let script = Script::new()
        .on(contains("moor here"))
        .reply(tool(name("moor"), json!({})))
        .then(text("the harbour said: {last_tool_result}"))
        .on(contains("moor there"))
        .reply(tool(name("moor"), json!({})))
        .then(text("the harbour said: {last_tool_result}"));
    bench.play(script);
    let mut session = session_with(bench, server, "moor here").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let asked = asked_for_berth(&mut session).await?;
    let Some(asked) = asked else {
        return Err(Fault::NotOffered("questions of MCP servers: the agent answers them by itself".into()));
    };
    let Ask::Elicitation { server, message, schema, .. } = &asked.ask else {
        return Err(Fault::wrong(format!(
            "the agent asked for {} instead of the server's question",
            asked.ask.title()
        )));
    };
    let named = server == HARBOUR || !bench.profile().mcp_listed;
    must!(named && message == "Which berth?", "{server} asks {message:?}");
    let field = schema.as_ref().is_some_and(|schema| schema["properties"]["berth"].is_object());
    must!(field, "the form is {schema:?}");
    session.answer(&asked, Answer::Content { content: json!({ "berth": "nine" }) }).await?;
    let said = session.completes().await?;
    must!(said.contains("moored at berth nine"), "the model got: {said}");
    // And once more, with a denial.
    session.prompt("moor there").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let Some(asked) = asked_for_berth(&mut session).await? else {
        return Err(Fault::wrong("the second time nobody was asked"));
    };
    session.answer(&asked, Answer::deny(None)).await?;
    let said = session.completes().await?;
    must!(said.contains("not moored: decline"), "after the denial the model got: {said}");
    Ok(())
}

/// The server's question; none if its tool reports that nobody can be asked.
async fn asked_for_berth(session: &mut Session) -> Result<Option<Request>, Fault> {
    session
        .until("the question of the server", |event| match event {
            Event::RequestOpened { request } => Some(Some((**request).clone())),
            Event::ToolResult { content, .. } if plain_text(content).contains("nobody can be asked") => {
                Some(None)
            }
            _ => None,
        })
        .await
}

pub(super) async fn changes(bench: &Bench) -> Result<(), Fault> {
    let (server, _) = harbour(bench)?;
    let name = |server: &str| bench.profile().mcp_tool.map_or_else(String::new, |name| name(server, "depth"));
    let script = Script::new()
        .on(contains("what tools"))
        .reply(text("I have: {tools}"))
        .on(contains("ask the harbour"))
        .reply(tool(name(HARBOUR), json!({ "berth": "seven" })))
        .then(text("the harbour said: {last_tool_result}"))
        .on(contains("ask the quay"))
        .reply(tool(name(QUAY), json!({ "berth": "eight" })))
        .then(text("the quay said: {last_tool_result}"));
    bench.play(script);
    let mut session = session_with(bench, server.clone(), "what tools are there").await?;
    session.completes().await?;
    stands_as(&mut session, HARBOUR, Some("connected")).await?;

    // Added beside the first server.
    session
        .carry_out(Action::McpSet { servers: [(QUAY.to_owned(), server)].into_iter().collect(), keep: false })
        .await?;
    stands_as(&mut session, QUAY, Some("connected")).await?;
    stands_as(&mut session, HARBOUR, Some("connected")).await?;
    let said = asks(&mut session, "ask the quay").await?;
    must!(said.contains("berth eight is 12 fathoms deep"), "the model got: {said}");
    session.carry_out(Action::McpSet { servers: indexmap::IndexMap::new(), keep: false }).await?;
    stands_as(&mut session, QUAY, None).await?;
    stands_as(&mut session, HARBOUR, Some("connected")).await?;

    session.carry_out(Action::McpReconnect { server: HARBOUR.into() }).await?;
    stands_as(&mut session, HARBOUR, Some("connected")).await?;
    let said = asks(&mut session, "ask the harbour").await?;
    must!(said.contains("berth seven is 12 fathoms deep"), "after the reconnect the model got: {said}");
    let unknown = session.carry_out(Action::McpReconnect { server: "nowhere".into() }).await;
    must!(unknown.is_err(), "a server that does not exist was connected again");
    Ok(())
}

pub(super) async fn toggle(bench: &Bench) -> Result<(), Fault> {
    let (server, name) = harbour(bench)?;
    let script = ["ask the harbour", "ask while it is off", "ask once more"].iter().fold(
        Script::new().on(contains("are you there")).reply(text("I am.")),
        |script, words| {
            script
                .on(contains(*words))
                .reply(tool(name("depth"), json!({ "berth": "seven" })))
                .then(text("the harbour said: {last_tool_result}"))
        },
    );
    bench.play(script);
    let mut session = session_with(bench, server, "are you there").await?;
    session.completes().await?;
    stands_as(&mut session, HARBOUR, Some("connected")).await?;
    let said = asks(&mut session, "ask the harbour").await?;
    must!(said.contains("12 fathoms deep"), "the model got: {said}");
    session.carry_out(Action::McpToggle { server: HARBOUR.into(), enabled: false }).await?;
    stands_as(&mut session, HARBOUR, Some("disabled")).await?;
    let said = asks(&mut session, "ask while it is off").await?;
    must!(!said.contains("12 fathoms deep"), "the model got this from the server that is off: {said}");
    session.carry_out(Action::McpToggle { server: HARBOUR.into(), enabled: true }).await?;
    stands_as(&mut session, HARBOUR, Some("connected")).await?;
    let said = asks(&mut session, "ask once more").await?;
    must!(said.contains("12 fathoms deep"), "after the server was on again the model got: {said}");
    Ok(())
}

/// Makes the model use a tool, allows it if asked, and returns what the model then says.
async fn asks(session: &mut Session, prompt: &str) -> Result<String, Fault> {
    session.prompt(prompt).await?;
    let mut words = String::new();
    loop {
        let next = session
            .until("a request or the end of the turn", |event| match event {
                Event::RequestOpened { request } => Some(Some((**request).clone())),
                Event::Message { parent: None, content, .. } => {
                    words = plain_text(content);
                    None
                }
                Event::TurnEnded { .. } => Some(None),
                _ => None,
            })
            .await?;
        match next {
            Some(request) => {
                session.answer(&request, Answer::allow()).await?;
            }
            None => return Ok(words),
        }
    }
}

/// Waits until a server has this state, or is gone. It may still connect when the change is done.
async fn stands_as(session: &mut Session, name: &str, wanted: Option<&str>) -> Result<(), Fault> {
    let stands = |servers: &[McpServer]| {
        let found = servers.iter().find(|server| server.name == name).map(|server| server.status.clone());
        found.as_deref() == wanted
    };
    let deadline = Instant::now() + CONNECTING;
    loop {
        session.carry_out(Action::McpStatus).await?;
        let servers = session.state().await?.mcp_servers;
        if stands(&servers) {
            return Ok(());
        }
        must!(
            Instant::now() < deadline,
            "the server {name} is not {wanted:?} after {} s; the servers are {servers:?}",
            CONNECTING.as_secs()
        );
        tokio::time::sleep(LOOK).await;
    }
}
