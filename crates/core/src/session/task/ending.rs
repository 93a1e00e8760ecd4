//! How the task ends: the session is shut down, deleted, or closed.

use bytes::Bytes;
use tokio::time::Instant;

use super::{AgentsAtShutdown, DELETED, Ending, FORGET_AFTER, ORIGINS, Task, Working};
use crate::{
    log::delivery::Closed,
    ports::{Op, StoreError},
    session::{machine::memory::MEMORIES, marks::Mark},
};

impl Task {
    /// Does the task end here?
    pub(super) async fn has_ended(&mut self, working: &mut Working) -> Result<bool, StoreError> {
        if let Some(Ending::ShutDown { agents: AgentsAtShutdown::Keep, .. }) = &working.ending
            && working.link.is_some()
            && working.marks.is_some()
        {
            // Everything that the agent reported so far is recorded; the next daemon gets the rest.
            working.mark_now = true;
            self.publish(working).await?;
            self.rest().await?;
            self.log.close(Closed::Stopping);
            return Ok(true);
        }
        if let Some(Ending::ShutDown { deadline, .. }) = &working.ending {
            let busy = self.log.state().turn.is_some();
            if !busy || Instant::now() >= *deadline {
                self.machine.end();
                self.publish(working).await?;
            }
        }
        if self.machine.is_running() {
            working.forget_due = None;
            return Ok(false);
        }
        match &working.ending {
            Some(Ending::ShutDown { .. }) => {
                self.rest().await?;
                self.log.close(Closed::Stopping);
                Ok(true)
            }
            Some(Ending::Delete { .. }) => {
                {
                    let mut book = self.log.book();
                    book.also(Op::Delete);
                    book.also(Op::Remove { collection: ORIGINS, key: self.id.to_string() });
                    book.also(Mark::removal(self.id));
                    book.also(Op::Remove { collection: MEMORIES, key: self.id.to_string() });
                    let value = Bytes::from_static(b"{}");
                    book.also(Op::Put { collection: DELETED, key: self.id.to_string(), value });
                }
                self.log.publish().await?;
                self.log.store().flush().await?;
                self.log.close(Closed::Deleted);
                Ok(true)
            }
            None if working.abandoned => {
                self.rest().await?;
                self.log.close(Closed::Stopping);
                Ok(true)
            }
            None => self.is_forgotten(working).await,
        }
    }

    /// Stores the state, so that opening is quick.
    pub(super) async fn rest(&mut self) -> Result<(), StoreError> {
        self.log.book().checkpoint();
        self.log.publish().await?;
        self.log.store().flush().await
    }

    pub(super) async fn is_forgotten(&mut self, working: &mut Working) -> Result<bool, StoreError> {
        let now = Instant::now();
        if *working.forget_due.get_or_insert(now + FORGET_AFTER) > now {
            return Ok(false);
        }
        working.forget_due = Some(now + FORGET_AFTER);
        if self.log.readers() > 0 || !self.machine.is_idle(&self.log.state()) {
            return Ok(false);
        }
        self.rest().await?;
        // Later callers open the session again; an earlier caller keeps it open.
        Ok(self.mailbox.is_empty() && self.live_sessions.forget(self.id))
    }
}
