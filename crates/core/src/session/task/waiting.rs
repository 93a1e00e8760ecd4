//! What the task waits for: each of these waits without end if there is nothing to wait for.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};

use super::REPORT_BATCH;
use crate::{
    Refusal,
    log::Tip,
    policy::Facts,
    ports::{Boxed, Instruction, Report},
    session::crew::Berth,
};

/// Takes the next reports; returns how many.
pub(super) async fn take_reports(
    reports: Option<&mut mpsc::Receiver<Report>>,
    into: &mut Vec<Report>,
) -> usize {
    match reports {
        Some(reports) => reports.recv_many(into, REPORT_BATCH).await,
        None => std::future::pending().await,
    }
}

/// Waits for what is known of the disk.
pub(super) async fn looked(looking: &mut Option<Boxed<'static, Facts>>) -> Facts {
    match looking {
        Some(looking) => looking.await,
        None => std::future::pending().await,
    }
}

/// Waits until the agent has room for another instruction, or is gone.
pub(super) async fn has_room(instructions: Option<mpsc::Sender<Instruction>>) {
    match instructions {
        // A closed queue is followed by the exit report.
        Some(instructions) => drop(instructions.reserve().await),
        None => std::future::pending().await,
    }
}

/// Waits for the berth of a start.
pub(super) async fn board(
    boarding: &mut Option<Boxed<'static, Result<Berth, Refusal>>>,
) -> Result<Berth, Refusal> {
    match boarding {
        Some(boarding) => boarding.await,
        None => std::future::pending().await,
    }
}

/// Waits until a resting agent must make room.
pub(super) async fn asked_for(room: Option<Arc<Notify>>) {
    match room {
        Some(room) => room.notified().await,
        None => std::future::pending().await,
    }
}

/// Waits until more is visible, if something waits for that.
pub(super) async fn visible(tips: &mut watch::Receiver<Tip>, wanted: bool) {
    if wanted {
        // The sender lives in the log that the task holds.
        let _ = tips.changed().await;
    } else {
        std::future::pending::<()>().await;
    }
}

/// Waits until the log was closed while its task runs, which happens only if the store refused a write.
pub(super) async fn refused(closings: &mut watch::Receiver<Tip>) {
    // The sender lives in the log that the task holds.
    let _ = closings.wait_for(|tip| tip.closed.is_some()).await;
}
