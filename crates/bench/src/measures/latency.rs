//! Added latency: a stamp taken in the agent just before it writes, to a reader's `read` returning.

use anyhow::Result;

use super::{Lab, crowd, name};
use crate::{
    agent::What,
    server::Kind,
    table::{Row, Target, quantile},
};

/// Deltas per second: faster than any model writes.
const RATE: u32 = 1000;

/// Characters of a delta, its marker included.
const SIZE: usize = 200;

pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    for &readers in lab.crowds() {
        let (mut medians, mut tails) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..lab.rounds {
            for (index, kind) in Kind::BOTH.into_iter().enumerate() {
                let (median, tail) = once(lab, kind, readers).await?;
                medians[index].push(median);
                tails[index].push(tail);
            }
        }
        let most = if readers == 100 { 1.15 } else { 1.3 };
        let [beside, ours] = medians;
        let name = format!("latency p50, {readers} readers");
        lab.add(Row { name, unit: "us", beside, ours, target: Some(Target::RatioAtMost(most)) });
        let [beside, ours] = tails;
        let name = format!("latency p99, {readers} readers");
        lab.add(Row { name, unit: "us", beside, ours, target: None });
    }
    Ok(())
}

/// The median and the 99th percentile over all readers of a new server, in microseconds.
pub(super) async fn once(lab: &mut Lab, kind: Kind, readers: usize) -> Result<(f64, f64)> {
    let (_server, _session, all) = crowd(lab, kind, readers).await?;
    let what = format!("latency, {readers} readers, {}", name(kind));
    let warm_up = lab.play(What::Deltas, lab.count(500, 20), RATE, SIZE);
    lab.perform(&all, warm_up, &what).await?;
    let play = lab.play(What::Deltas, lab.count(3000, 100), RATE, SIZE);
    lab.perform(&all, play, &what).await?;
    let mut latencies: Vec<u64> =
        all.iter().flat_map(|reader| reader.seen().ledger.latencies.clone()).collect();
    Ok((quantile(&mut latencies, 0.5), quantile(&mut latencies, 0.99)))
}
