//! A program with its own server that embeds Portolan: `cargo run -p portolan-embed --example own_server`.
//!
//! The program mounts Portolan's router next to its own routes, adds its own agent, creates a session, reads the
//! session as typed events, and answers the agent's requests with its own code. Other clients may join the same session
//! with the printed token, by WebSocket or REST.
#![expect(clippy::print_stdout, reason = "the example prints what it does")]

mod parrot;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use axum::{Router, routing::get};
use portolan_core::{event::Content, request::Ask};
use portolan_embed::{Client, Event, Portolan, RequestId, Role, Seq, Session, SessionSpec, Settings, Start};

#[tokio::main]
async fn main() -> Result<()> {
    let program = Program::start().await?;
    println!("this program listens at {}", program.url);
    println!("a client may read along with the token {}", program.token);
    for line in program.talk().await? {
        println!("{line}");
    }
    program.stop().await;
    Ok(())
}

/// The program.
pub(crate) struct Program {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) me: Client,
    portolan: Portolan,
    server: tokio::task::JoinHandle<()>,
}

impl Program {
    pub(crate) async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let host = listener.local_addr()?.to_string();
        // The agent is our own; `portolan_agents::catalogue` has Portolan's agents.
        let settings = Settings::in_memory(vec![Arc::new(parrot::Parrot)]).with_hosts([host.clone()]);
        let portolan = Portolan::open(settings).await?;
        let token = portolan.token("a friend", Role::Operator).await?;
        // Our own routes, and all of Portolan's routes.
        let router = Router::new()
            .route("/", get(async || "the program's own page\n"))
            .fallback_service(portolan.router());
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                println!("the server has ended: {error}");
            }
        });
        Ok(Self {
            url: format!("http://{host}"),
            token,
            me: portolan.client("the program"),
            portolan,
            server,
        })
    }

    /// A conversation, and what the program saw of it.
    pub(crate) async fn talk(&self) -> Result<Vec<String>> {
        let folder = std::env::current_dir()?;
        let spec = SessionSpec { agent: "parrot".into(), cwd: folder, ..SessionSpec::default() };
        let session = self.me.create(spec).await?;
        let mut seen = vec![format!("{} is there", session.info().await?.model.unwrap_or_default())];
        let mut entries = session.entries(Start::After(Seq::ZERO)).await?;
        for text in ["hello", "stop that!", "land ahoy!"] {
            session.prompt(text).await?;
            loop {
                let told = entries.next().await?.context("the session is gone")?;
                match told.event {
                    Event::RequestOpened { request } => {
                        seen.push(decide(&session, request.request, &request.ask).await?);
                    }
                    Event::Message { content, .. } => seen.push(format!("it says {:?}", words(&content))),
                    Event::TurnEnded { .. } => break,
                    _ => {}
                }
            }
        }
        session.close().await?;
        seen.push(format!("{:?}", session.status().await?));
        Ok(seen)
    }

    pub(crate) async fn stop(self) {
        let stuck = self.portolan.shutdown(Duration::from_secs(5)).await;
        if !stuck.is_empty() {
            println!("did not stop: {stuck:?}");
        }
        self.server.abort();
    }
}

/// The program's answer to a request of its agent.
async fn decide(session: &Session, request: RequestId, ask: &Ask) -> Result<String> {
    let title = ask.title();
    match ask {
        Ask::Permission { input, .. } if input["text"] == "land ahoy!" => {
            session.allow(request).await?;
            Ok(format!("yes to {title}"))
        }
        _ => {
            session.deny(request, Some("not so loud")).await?;
            Ok(format!("no to {title}"))
        }
    }
}

fn words(content: &[Content]) -> String {
    let text = |piece: &Content| match piece {
        Content::Text { text } => Some(text.clone()),
        _ => None,
    };
    content.iter().filter_map(text).collect()
}
