//! Memory of an idle server: alone, and with many sessions, each with its agent and its reader.

use anyhow::Result;

use super::Lab;
use crate::{
    reader::{Entrance, Reader, session},
    server::{Kind, Server},
    table::{Row, Target},
};

/// Memory without sessions.
pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    let mut ours = Vec::new();
    for _ in 0..lab.rounds {
        let server = Server::start(Kind::Portolan, &lab.program)?;
        tokio::time::sleep(lab.settled()).await;
        ours.push(server.memory() as f64 / 1_048_576.0);
    }
    let target = Some(Target::AtMost(12.0));
    lab.add(Row { name: "idle memory".into(), unit: "MiB", beside: vec![], ours, target });
    Ok(())
}

/// Memory for each session.
pub(super) async fn sessions(lab: &mut Lab) -> Result<()> {
    let count = lab.count(1000, 5);
    let server = Server::start(Kind::Portolan, &lab.program)?;
    tokio::time::sleep(lab.settled()).await;
    let before = server.memory();
    let mut readers = Vec::new();
    for _ in 0..count {
        let session = session(&server).await?;
        readers.push(Reader::attach(Entrance::new(&server, &session)).await?);
    }
    tokio::time::sleep(lab.settled()).await;
    let each = (server.memory() as f64 - before as f64) / 1024.0 / f64::from(count);
    drop(readers);
    let name = format!("memory for each of {count} idle sessions with a reader");
    let target = Some(Target::AtMost(64.0));
    lab.add(Row { name, unit: "KiB", beside: vec![], ours: vec![each], target });
    Ok(())
}
