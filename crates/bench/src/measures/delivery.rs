//! Saturated delivery: the agent writes as fast as the server reads. Texts per second over all readers, from the first
//! stamp to the last arrival, and the server's processor time for each of them.

use anyhow::Result;

use super::{Lab, crowd, name};
use crate::{
    agent::What,
    server::Kind,
    table::{Row, Target},
};

/// Characters of a delta, its marker included.
const SIZE: usize = 200;

pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    for &readers in lab.crowds() {
        let (mut rates, mut costs) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..lab.rounds {
            for (index, kind) in Kind::BOTH.into_iter().enumerate() {
                let (server, _session, all) = crowd(lab, kind, readers).await?;
                let what = format!("delivery, {readers} readers, {}", name(kind));
                let warm_up = lab.play(What::Deltas, lab.count(2000, 20), 2000, SIZE);
                lab.perform(&all, warm_up, &what).await?;
                let full = match readers {
                    1 => 400_000,
                    10 => 150_000,
                    _ => 30_000,
                };
                let play = lab.play(What::Deltas, lab.count(full, 5000), 0, SIZE);
                let before = server.processor_time();
                lab.perform(&all, play, &what).await?;
                let spent = server.processor_time().saturating_sub(before);
                let first =
                    all.iter().map(|reader| reader.seen().ledger.first_sent).min().unwrap_or_default();
                let last = all.iter().map(|reader| reader.seen().ledger.last_read).max().unwrap_or_default();
                let delivered = f64::from(play.count) * readers as f64;
                rates[index].push(delivered / (last.saturating_sub(first) as f64 / 1e9));
                costs[index].push(spent.as_secs_f64() * 1e6 / delivered);
            }
        }
        let (least, most) = match readers {
            1 => (0.35, 5.0),
            10 => (0.5, 3.0),
            _ => (0.5, 2.0),
        };
        let [beside, ours] = rates;
        let name = format!("saturated, {readers} readers");
        lab.add(Row { name, unit: "texts/s", beside, ours, target: Some(Target::RatioAtLeast(least)) });
        let [beside, ours] = costs;
        let name = format!("processor, {readers} readers");
        lab.add(Row { name, unit: "us/text", beside, ours, target: Some(Target::RatioAtMost(most)) });
    }
    Ok(())
}
