//! What it costs that agents outlive the daemon: latency and approvals with a holder and without one, in turns, and the
//! memory of a holder.

use anyhow::{Result, ensure};

use super::{Lab, approval, latency};
use crate::{
    reader::session,
    server::{Kind, Server},
    table::{Row, Target},
};

/// How much later a text may arrive through a holder, in microseconds.
const LATER: f64 = 50.0;

/// The private memory that a holder may have, in MiB.
const MEMORY: f64 = 6.0;

/// Holders whose memory is measured.
const HOLDERS: u32 = 10;

pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    let (mut latencies, mut approvals) = ([vec![], vec![]], [vec![], vec![]]);
    let mut memory = Vec::new();
    for _ in 0..lab.rounds {
        for (index, kind) in [Kind::Portolan, Kind::Held].into_iter().enumerate() {
            latencies[index].push(latency::once(lab, kind, 1).await?.0);
            approvals[index].push(approval::once(lab, kind).await?.0);
        }
        memory.push(memory_of_one(lab).await?);
    }
    for (what, measured) in [("latency p50, 1 readers", latencies), ("approval p50", approvals)] {
        let [beside, ours] = measured;
        let name = format!("{what}, with a holder; floor: Portolan without one");
        lab.add(Row { name, unit: "us", beside, ours, target: Some(Target::MoreAtMost(LATER)) });
    }
    let target = Some(Target::AtMost(MEMORY));
    lab.add(Row { name: "memory for each holder".into(), unit: "MiB", beside: vec![], ours: memory, target });
    Ok(())
}

/// The median of several holders, in MiB.
async fn memory_of_one(lab: &Lab) -> Result<f64> {
    let count = lab.count(HOLDERS, 1);
    let server = Server::start(Kind::Held, &lab.program)?;
    for _ in 0..count {
        session(&server).await?;
    }
    tokio::time::sleep(lab.settled()).await;
    let mut each = server.memory_of_holders(&lab.program)?;
    ensure!(each.len() == count as usize, "{} of {count} holders run", each.len());
    each.sort_unstable();
    Ok(each[each.len() / 2] as f64 / 1_048_576.0)
}
