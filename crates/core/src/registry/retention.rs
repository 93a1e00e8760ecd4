//! Retention: deletes ended sessions that are old, or that take too much room.

use std::time::Duration;

use super::{LIST_PAGE, Registry};
use crate::{
    Millis,
    ports::{SessionQuery, StoreError},
    session::state::Summary,
};

impl Registry {
    /// Deletes ended sessions that are older than `age`, and then, oldest first, until the store is smaller than
    /// `bytes`. Returns how many.
    pub async fn prune(&self, age: Option<Duration>, bytes: Option<u64>) -> Result<u32, StoreError> {
        let now = self.shared.clock.now();
        let oldest =
            age.map(|age| Millis(now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))));
        let mut ended = self.ended_sessions().await?;
        ended.sort_by_key(|summary| summary.active_at);
        let mut deleted = 0;
        for summary in ended {
            let too_old = oldest.is_some_and(|oldest| summary.active_at < oldest);
            let too_much = match bytes {
                Some(limit) if !too_old => self.shared.store.size().await? > limit,
                _ => false,
            };
            if !too_old && !too_much {
                break;
            }
            if self.erase(summary.session, None).await.is_ok() {
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    async fn ended_sessions(&self) -> Result<Vec<Summary>, StoreError> {
        let (mut ended, mut before) = (Vec::new(), None);
        loop {
            let query = SessionQuery { archived: None, live: false, before, limit: LIST_PAGE };
            let page = self.shared.store.sessions(query).await?;
            let Some(last) = page.last() else { return Ok(ended) };
            before = Some(last.session);
            let asleep = |summary: &Summary| self.shared.live_sessions.awake(summary.session).is_none();
            ended.extend(page.into_iter().filter(|summary| !summary.is_live() && asleep(summary)));
        }
    }
}
