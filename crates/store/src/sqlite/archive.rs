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
    reader::{self, Readers, reads},
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
    StoreError::Failed("this database is open for reading only".into())
}

impl Store for Archive {
    fn write(&self, _: Write) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Err(only_reads())))
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    reads!();

    fn size(&self) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(std::future::ready(Err(only_reads())))
    }

    fn flush(&self) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
