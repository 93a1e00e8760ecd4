//! The database of a daemon, read from outside: for the audit, which needs no daemon and trusts none.
//!
//! Only reads; a daemon may be writing at the same time.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use portolan_core::{
    LogId, Position, Seq, SessionId, Stored,
    command::CommandKey,
    ports::{
        Boxed, CommandRow, LogHead, Page, Place, Placed, SessionQuery, Store, StoreError, StoreHealth, Write,
    },
    session::state::Summary,
};
use tokio::sync::watch;

use super::{
    reader::{self, Readers},
    schema,
};

/// A database that is only read.
#[derive(Debug)]
pub struct Archive {
    readers: Arc<Readers>,
    health: watch::Sender<StoreHealth>,
}

impl Archive {
    /// The database at `path`, which must have the version of this program.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let readers = Readers::new(path.to_owned());
        let (found, known) = (readers.run(schema::version).await?, schema::STEPS.len() as u32);
        if found > known {
            return Err(StoreError::Newer { found, known });
        }
        if found < known {
            return Err(StoreError::Failed(format!(
                "the database `{}` has version {found}, this Portolan reads version {known}; the next start of the \
                 daemon brings it up to date",
                path.display()
            )));
        }
        Ok(Self { readers, health: watch::Sender::new(StoreHealth::Good) })
    }
}

fn only_reads() -> StoreError {
    StoreError::Failed("this database is only read".into())
}

impl Store for Archive {
    fn write(&self, _: Write) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Err(only_reads())))
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    fn read(
        &self,
        log: LogId,
        after: Seq,
        upto: Seq,
        page: Page,
    ) -> Boxed<'_, Result<Vec<Stored>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::entries(connection, log, after, upto, page)))
    }

    fn since(&self, after: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::since(connection, after, page)))
    }

    fn before(&self, before: Position, page: Page) -> Boxed<'_, Result<Vec<Placed>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::before(connection, before, page)))
    }

    fn place(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Place>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::place(connection, log, seq)))
    }

    fn tail(&self, log: LogId, upto: Seq, count: u32) -> Boxed<'_, Result<Seq, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::tail(connection, log, upto, count)))
    }

    fn raw(&self, log: LogId, seq: Seq) -> Boxed<'_, Result<Option<Bytes>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::raw(connection, log, seq)))
    }

    fn load(&self, log: LogId) -> Boxed<'_, Result<Option<LogHead>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::head(connection, log)))
    }

    fn command(&self, log: LogId, key: CommandKey) -> Boxed<'_, Result<Option<CommandRow>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::command(connection, log, key)))
    }

    fn sessions(&self, query: SessionQuery) -> Boxed<'_, Result<Vec<Summary>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::sessions(connection, &query)))
    }

    fn matching(&self, part: String, limit: u32) -> Boxed<'_, Result<Vec<SessionId>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::matching(connection, &part, limit)))
    }

    fn records(&self, collection: &'static str) -> Boxed<'_, Result<Vec<(String, Bytes)>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::records(connection, collection)))
    }

    fn record(&self, collection: &'static str, key: String) -> Boxed<'_, Result<Option<Bytes>, StoreError>> {
        Box::pin(self.readers.run(move |connection| reader::record(connection, collection, &key)))
    }

    fn size(&self) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(std::future::ready(Err(only_reads())))
    }

    fn flush(&self) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
