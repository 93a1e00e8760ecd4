//! A late joiner: a new reader gets the whole of a long history, and a long history is not in memory.

use std::slice;

use anyhow::Result;

use super::{Lab, PATIENCE, crowd, name};
use crate::{
    agent::What,
    marker::{self, Ledger},
    reader::{Entrance, Reader},
    server::Kind,
    table::{Row, Target},
};

/// Characters of a message, its marker included.
const SIZE: usize = 200;

/// How much memory a history of 100,000 messages (about 40 MB) may leave: caches of a fixed size, and what the
/// allocator keeps after a busy time.
const LEFT: f64 = 4.0;

/// How much memory the same number again may add: nothing, except for variations of the allocator. By then all code has
/// run, every cache is full, and the allocator has enough for a busy time: further growth would be the history.
const ADDED: f64 = 1.0;

pub(super) async fn take(lab: &mut Lab) -> Result<()> {
    let (mut times, mut growths, mut additions) = ([vec![], vec![]], [vec![], vec![]], [vec![], vec![]]);
    let mebibytes = |before: u64, after: u64| (after as f64 - before as f64) / 1_048_576.0;
    for _ in 0..lab.rounds {
        for (index, kind) in Kind::BOTH.into_iter().enumerate() {
            let (server, session, all) = crowd(lab, kind, 1).await?;
            let what = format!("the history, {}", name(kind));
            let before = server.memory();
            let play = lab.play(What::Messages, lab.count(100_000, 2000), 0, SIZE);
            lab.perform(&all, play, &what).await?;
            drop(all);
            tokio::time::sleep(lab.settled()).await;
            growths[index].push(mebibytes(before, server.memory()));

            let began = marker::now();
            let ledger = Ledger::new(play.run, play.count);
            let joiner = Reader::attach_for(Entrance::new(&server, &session), ledger).await?;
            joiner.until("the history", PATIENCE, |seen| seen.ledger.is_whole()).await?;
            times[index].push(joiner.seen().ledger.last_read.saturating_sub(began) as f64 / 1e6);
            lab.check(slice::from_ref(&joiner), play, &format!("late joiner, {}", name(kind))).await?;

            tokio::time::sleep(lab.settled()).await;
            let before = server.memory();
            let again = lab.play(What::Messages, play.count, 0, SIZE);
            lab.perform(slice::from_ref(&joiner), again, &what).await?;
            tokio::time::sleep(lab.settled()).await;
            additions[index].push(mebibytes(before, server.memory()));
        }
    }
    let messages = lab.count(100_000, 2000);
    let [beside, ours] = times;
    let name = format!("late joiner of {messages} messages");
    lab.add(Row { name, unit: "ms", beside, ours, target: Some(Target::RatioAtMost(2.0)) });
    let [beside, ours] = growths;
    let name = format!("memory for {messages} messages");
    lab.add(Row { name, unit: "MiB", beside, ours, target: Some(Target::AtMost(LEFT)) });
    let [beside, ours] = additions;
    let name = format!("memory for {messages} more of them");
    lab.add(Row { name, unit: "MiB", beside, ours, target: Some(Target::AtMost(ADDED)) });
    Ok(())
}
