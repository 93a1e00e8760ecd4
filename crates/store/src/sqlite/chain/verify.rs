//! A check of the chain from outside: is the daemon's log as it was sealed?

use std::path::Path;

use portolan_core::{Seq, ports::StoreError};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use super::{Head, SEALED, Seal, newest};
use crate::{
    rules::HIGHEST,
    sqlite::{
        apply::{entry_id, find_log, number},
        faults::failed,
        reader::READ_PATIENCE,
        schema,
    },
};

/// The result of a check of the whole chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of checked entries, up to the first one that is not as it was sealed.
    pub entries: u64,
    /// The last entry that is as it was sealed.
    pub head: Option<Head>,
    /// Entries up to this one are older than the chain: they were sealed when the database was upgraded, so the chain
    /// does not show earlier changes to them.
    pub sealed_later: Option<Seq>,
    /// Entries up to this one were trimmed; only the seal of the last of them is left.
    pub trimmed: Option<Seq>,
    /// The first entry that is not as it was sealed.
    pub broken: Option<Broken>,
}

/// Where and how a chain is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Broken {
    /// The entry does not match its seal: it was changed, or an earlier entry was added or removed together with its
    /// seal.
    Changed {
        /// The entry's number.
        seq: Seq,
    },
    /// The seal exists, but the entry is missing.
    Missing {
        /// The entry's number.
        seq: Seq,
    },
    /// The entry exists, but has no seal.
    Unsealed {
        /// The entry's number.
        seq: Seq,
    },
    /// The chain is whole, but has another seal at the entry that was recorded earlier, or no longer reaches it: the
    /// log was rewritten, or its end was cut off.
    NotTheNoted {
        /// The recorded entry's number.
        seq: Seq,
    },
}

/// Checks every entry of the daemon's log in the database at `path`, and compares it with the head that was recorded
/// earlier. Only reads; a daemon may be writing at the same time.
pub fn verify(path: &Path, noted: Option<Head>) -> Result<Verified, StoreError> {
    read(path, |connection| follow(connection, noted))
}

/// Reads the database at `path` without changing it.
fn read<T>(path: &Path, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = || -> rusqlite::Result<Result<T, u32>> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(READ_PATIENCE)?;
        let transaction = connection.transaction()?;
        let version = schema::version(&transaction)?;
        if version < schema::CHAINED {
            return Ok(Err(version));
        }
        look(&transaction).map(Ok)
    };
    match look().map_err(|error| failed(path, &error))? {
        Ok(found) => Ok(found),
        Err(version) => Err(StoreError::Failed(format!(
            "the database `{}` has version {version}, and the chain began with version {}; \
             the next start of the daemon brings it up to date",
            path.display(),
            schema::CHAINED
        ))),
    }
}

/// Everything that has an entry or a seal, in order.
const LINKS: &str = "
    SELECT entries.id AS id, frame, hash FROM entries LEFT JOIN seals ON seals.entry = entries.id
     WHERE entries.id > ?1 AND entries.id <= ?2
    UNION ALL
    SELECT seals.entry AS id, NULL, hash FROM seals
     WHERE seals.entry > ?1 AND seals.entry <= ?2 AND NOT EXISTS (SELECT 1 FROM entries WHERE id = seals.entry)
    ORDER BY id";

fn follow(connection: &Connection, noted: Option<Head>) -> rusqlite::Result<Verified> {
    let mut found = Verified::default();
    let Some(log) = find_log(connection, SEALED)? else {
        found.broken = noted.map(|head| Broken::NotTheNoted { seq: head.seq });
        return Ok(found);
    };
    let later: i64 =
        connection.query_row("SELECT sealed_later FROM logs WHERE key = ?1", [log.key], |row| row.get(0))?;
    found.sealed_later = Some(Seq(later as u64)).filter(|seq| *seq > Seq::ZERO);
    found.trimmed = Some(log.trimmed).filter(|seq| *seq > Seq::ZERO);
    let mut before = newest(connection, log.key, log.trimmed)?;
    if log.trimmed > Seq::ZERO && before == Seal::NONE {
        // The trimmed entries left no seal: nothing shows that the next entry ever followed them.
        found.broken = Some(Broken::Missing { seq: log.trimmed });
        return Ok(found);
    }
    // Of the trimmed entries only the last seal can be compared.
    let mut noted_is_there = noted.is_none_or(|noted| noted == Head { seq: log.trimmed, seal: before });
    let mut statement = connection.prepare(LINKS)?;
    let mut rows = statement.query([entry_id(log.key, log.trimmed), entry_id(log.key, HIGHEST)])?;
    while let Some(row) = rows.next()? {
        let seq = number(row.get(0)?);
        let frame = row.get_ref(1)?.as_bytes_or_null().map_err(rusqlite::Error::from)?;
        let seal = row.get_ref(2)?.as_blob_or_null().map_err(rusqlite::Error::from)?.and_then(Seal::read);
        found.broken = match (frame, seal) {
            (None, _) => Some(Broken::Missing { seq }),
            (Some(_), None) => Some(Broken::Unsealed { seq }),
            (Some(frame), Some(seal)) if before.next(seq, frame) != seal => Some(Broken::Changed { seq }),
            (Some(_), Some(seal)) => {
                before = seal;
                let head = Head { seq, seal };
                noted_is_there |= noted == Some(head);
                found.head = Some(head);
                found.entries += 1;
                None
            }
        };
        if found.broken.is_some() {
            return Ok(found);
        }
    }
    if let Some(noted) = noted.filter(|_| !noted_is_there) {
        found.broken = Some(Broken::NotTheNoted { seq: noted.seq });
    }
    Ok(found)
}
