//! A program whose agent outlives it: `cargo run -p portolan-embed --example outliving -- FOLDER`.
//!
//! Each line that you type is a prompt, and the program prints the number of the agent's process and what the agent
//! says. Kill the program and start it again: the agent is still the same process. `leave` ends the program and leaves
//! the agent running; the end of the input (Ctrl-D) ends both.
#![expect(clippy::print_stdout, reason = "the example prints what it does")]

mod echo;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use portolan_core::{event::plain_text, ports::Agent as _, session::state::Summary};
use portolan_embed::{
    Event, Outliving, Portolan, Session, SessionSpec, Settings, Start, agents::Supervision, outliving,
};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// The argument by which the program recognizes that it holds an agent.
const HOLD: &str = "hold";

/// How long a running turn may take to end.
const GRACE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [HOLD, session] => {
            let session = session.parse().context("the last argument is not the id of a session")?;
            Ok(outliving::hold(session, |key, launch| Ok(agent(key).start(launch))).await?)
        }
        [folder] => talk(Path::new(folder)).await,
        _ => anyhow::bail!("name a folder for the session"),
    }
}

/// The program's agent.
fn agent(key: &str) -> echo::Echo {
    echo::Echo(Arc::new(Supervision::new(key, std::env::vars_os().collect())))
}

async fn talk(folder: &Path) -> Result<()> {
    let outliving = Outliving::in_folder(folder, [HOLD])?;
    let agents = vec![Arc::new(agent(outliving.key())) as _];
    let settings = Settings::in_file(&folder.join("portolan.db"), agents)?.with_outliving(outliving);
    let portolan = Portolan::open(settings).await?;
    let session = session(&portolan, folder.to_path_buf()).await?;
    let mut entries = session.entries(Start::Tail(0)).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    loop {
        match lines.next_line().await?.as_deref() {
            None => {
                portolan.shutdown(GRACE).await;
                return Ok(());
            }
            Some("leave") => {
                portolan.leave(GRACE).await;
                return Ok(());
            }
            Some(text) => {
                session.prompt(text).await?;
            }
        }
        while let Some(told) = entries.next().await? {
            match told.event {
                Event::Message { content, .. } => {
                    let pid = session.state().await?.pid.unwrap_or_default();
                    println!("{pid}: {}", plain_text(&content));
                }
                Event::TurnEnded { .. } => break,
                _ => {}
            }
        }
    }
}

/// The session of the last start, or a new one.
async fn session(portolan: &Portolan, folder: PathBuf) -> Result<Session> {
    let me = portolan.client("the program");
    if let Some(last) = me.sessions().await?.into_iter().find(Summary::is_live) {
        return Ok(me.session(last.session));
    }
    let spec = SessionSpec { agent: "echo".into(), cwd: folder, ..SessionSpec::default() };
    Ok(me.start(spec).await?)
}
