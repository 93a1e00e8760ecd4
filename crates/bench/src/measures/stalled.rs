//! A stalled reader: ten readers read, an eleventh has stopped. Measures its effect on the ten and on the server's
//! memory, and checks that it gets everything when it reads again.

use std::slice;

use anyhow::Result;

use super::{Lab, crowd};
use crate::{
    agent::What,
    reader::{Entrance, Reader},
    server::Kind,
    table::{Row, Target, quantile},
};

/// Deltas per second, and the characters of each: 2 MB/s, so that the kernel's buffers for the stalled reader are full
/// at once. Shorter than the ten seconds after which the server disconnects a stalled reader.
const RATE: u32 = 1000;
const SIZE: usize = 2000;

/// The kernel's buffer of the stalled reader: the smallest allowed size.
const BUFFER: u32 = 8 * 1024;

/// How much slower the ten may get: two equal runs differ by this much.
const NOTICED: f64 = 1.2;

pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    let (mut medians, mut costs) = ([vec![], vec![]], vec![]);
    for _ in 0..lab.rounds {
        let mut growths = [0.0; 2];
        for (index, stalls) in [false, true].into_iter().enumerate() {
            let (server, session, all) = crowd(lab, Kind::Portolan, 10).await?;
            let entrance = Entrance { buffer: Some(BUFFER), ..Entrance::new(&server, &session) };
            let eleventh = Reader::attach(entrance).await?;
            let what = "ten readers beside a stalled one";
            let warm_up = lab.play(What::Deltas, lab.count(500, 20), RATE, SIZE);
            lab.perform(&all, warm_up, what).await?;
            eleventh.pause(stalls);
            let before = server.memory();
            let play = lab.play(What::Deltas, lab.count(8000, 500), RATE, SIZE);
            eleventh.expect(play, play.count);
            lab.perform(&all, play, what).await?;
            growths[index] = (server.memory() as f64 - before as f64) / 1_048_576.0;
            let mut latencies: Vec<u64> =
                all.iter().flat_map(|reader| reader.seen().ledger.latencies.clone()).collect();
            medians[index].push(quantile(&mut latencies, 0.5));
            eleventh.pause(false);
            lab.check(slice::from_ref(&eleventh), play, "the stalled reader, once it reads again").await?;
        }
        costs.push(growths[1] - growths[0]);
    }
    let [without, with] = medians;
    let name = "p50 of ten readers while an eleventh stalls; floor: Portolan, no stall".into();
    let target = Some(Target::RatioAtMost(NOTICED));
    lab.add(Row { name, unit: "us", beside: without, ours: with, target });
    let target = Some(Target::AtMost(1.0));
    lab.add(Row {
        name: "memory for a stalled reader".into(),
        unit: "MiB",
        beside: vec![],
        ours: costs,
        target,
    });
    Ok(())
}
