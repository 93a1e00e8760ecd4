//! When a holder's agent ends, and when the holder itself does.

use tokio::time::Instant;

use super::{Holder, LAST_RECORD};

impl Holder {
    /// Ends the agent by its stop ladder. A daemon may ask for it again after each connection.
    pub(super) fn stop(&mut self, why: &str) {
        tracing::info!(why, "the agent is ended");
        if let Some(link) = &self.link {
            link.stop.cancel();
        }
    }

    /// The same for a person or the machine. The second time the agent is ended at once.
    pub(super) fn end(&mut self, why: &str) {
        if self.is_ending() {
            self.kill();
        }
        self.stop(why);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.stop.is_cancelled() || link.kill.is_cancelled())
    }

    pub(super) fn kill(&mut self) {
        if let Some(link) = &self.link {
            link.kill.cancel();
        }
    }

    pub(super) fn look_for_rest(&mut self) {
        if self.business.is_idle() {
            self.idle_since.get_or_insert_with(Instant::now);
        } else {
            self.idle_since = None;
        }
    }

    /// When the agent must end, because no daemon came.
    fn ends_at(&self) -> Option<Instant> {
        if self.daemon.is_some() || self.link.is_none() || self.is_ending() {
            return None;
        }
        let at_most = self.away_since + self.linger.at_most;
        let idle = self.idle_since.map(|since| since.max(self.away_since) + self.linger.idle);
        Some(idle.map_or(at_most, |idle| idle.min(at_most)))
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        let last = self.exited_at.map(|at| at + LAST_RECORD);
        [self.ends_at(), self.write_again_at, last].into_iter().flatten().min()
    }

    pub(super) fn on_time(&mut self) {
        let now = Instant::now();
        if self.write_again_at.is_some_and(|at| at <= now) {
            self.write();
        }
        if self.ends_at().is_some_and(|at| at <= now) {
            self.stop("no daemon came for the agent in time");
        }
    }

    /// The agent has ended, and nobody waits for its reports, or everything is recorded. A holder also ends if the disk
    /// does not take the last reports: whoever reads the spool then says that its end is missing.
    pub(super) fn is_over(&self) -> bool {
        let Some(exited_at) = self.exited_at else { return false };
        let is_kept = !self.spool.is_behind() && (self.is_recorded() || self.daemon.is_none());
        is_kept || exited_at.elapsed() >= LAST_RECORD
    }
}
