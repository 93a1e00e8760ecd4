//! Approvals: from the agent's question to the answer back at the agent, through one reader that answers at once.

use anyhow::{Result, bail};

use super::{Lab, name};
use crate::{
    agent::What,
    reader::{Entrance, Permissions, Reader, session},
    server::{Kind, Server},
    table::{Row, Target, quantile},
};

/// Questions per second: each finds an idle server, as in real use.
const RATE: u32 = 30;

pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    let (mut medians, mut tails) = ([vec![], vec![]], [vec![], vec![]]);
    for _ in 0..lab.rounds {
        for (index, kind) in Kind::BOTH.into_iter().enumerate() {
            let (median, tail) = once(lab, kind).await?;
            medians[index].push(median);
            tails[index].push(tail);
        }
    }
    let [beside, ours] = medians;
    let target = Some(Target::RatioAtMost(1.4));
    lab.add(Row { name: "approval p50".into(), unit: "us", beside, ours, target });
    let [beside, ours] = tails;
    lab.add(Row { name: "approval p99".into(), unit: "us", beside, ours, target: None });
    Ok(())
}

/// The median and the 99th percentile of a new server, in microseconds.
pub(super) async fn once(lab: &mut Lab, kind: Kind) -> Result<(f64, f64)> {
    let server = Server::start(kind, &lab.program)?;
    let session = session(&server).await?;
    let entrance = Entrance { permissions: Permissions::Answered, ..Entrance::new(&server, &session) };
    let reader = Reader::attach(entrance).await?;
    let what = format!("approvals, {}", name(kind));
    let play = lab.play(What::Permissions, lab.count(150, 10), RATE, 0);
    lab.perform(std::slice::from_ref(&reader), play, &what).await?;
    let told = reader.seen().ledger.ended.clone().unwrap_or_default();
    let mut took: Vec<u64> = told.split_whitespace().filter_map(|one| one.parse().ok()).collect();
    if took.len() != play.count as usize {
        lab.report.fault(format!("{what}: {} of {} were answered", took.len(), play.count));
    }
    if took.is_empty() {
        bail!("{what}: nothing was answered");
    }
    Ok((quantile(&mut took, 0.5), quantile(&mut took, 0.99)))
}
