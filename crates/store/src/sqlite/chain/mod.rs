//! The chain: every entry of the daemon's log is sealed with a hash over the seal before it, its number and its frame.
//!
//! A seal is written in the transaction of its entry, on the writer's thread; sessions' logs have none. Whoever
//! changes, removes or adds an entry later breaks the chain there, unless they make every seal after it anew, or cut
//! the end off: only a head that was noted elsewhere shows those.

use std::{fmt, path::Path, str::FromStr};

use portolan_core::{LogId, Seq, ports::StoreError};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    apply::{entry_id, find_log, number},
    faults::failed,
    reader::READ_PATIENCE,
    schema,
};
use crate::rules::HIGHEST;

/// The log that is sealed.
pub(super) const SEALED: LogId = LogId::Daemon;

/// What a seal is made of and looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal([u8; 32]);

impl Seal {
    /// Stands before the first entry.
    const NONE: Self = Self([0; 32]);

    /// The seal of an entry that follows the one with this seal.
    fn next(self, seq: Seq, frame: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(self.0).chain_update(seq.0.to_be_bytes()).chain_update(frame);
        Self(hash.finalize().into())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An entry and its seal, as people note it down: `NUMBER:SEAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The entry.
    pub seq: Seq,
    /// Its seal.
    pub seal: Seal,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.seal)
    }
}

impl FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Self, NotAHead> {
        let (seq, seal) = text.trim().split_once(':').ok_or(NotAHead)?;
        let mut bytes = [0; 32];
        if seal.len() != 64 || !seal.is_ascii() {
            return Err(NotAHead);
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&seal[2 * index..2 * index + 2], 16).map_err(|_| NotAHead)?;
        }
        // "+5" is a number for the standard library too; a head is written in one way only.
        let plain = seq.bytes().all(|byte| byte.is_ascii_digit());
        let seq = seq.parse().ok().filter(|_| plain).ok_or(NotAHead)?;
        let head = Self { seq: Seq(seq), seal: Seal(bytes) };
        if seal.bytes().any(|byte| byte == b'+') { Err(NotAHead) } else { Ok(head) }
    }
}

/// A text is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAHead;

impl fmt::Display for NotAHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a head is an entry's number, a colon and 64 hexadecimal digits")
    }
}

impl std::error::Error for NotAHead {}

/// What a look at the whole chain found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many entries were looked at, up to the first that is not as it was sealed.
    pub entries: u64,
    /// The last entry that is as it was sealed.
    pub head: Option<Head>,
    /// Entries up to this one were there before the chain was: they were sealed when the database was brought up to
    /// date, so what happened to them before that, it does not show.
    pub sealed_later: Option<Seq>,
    /// Entries up to this one have been trimmed away; only the seal of the last of them is left.
    pub trimmed: Option<Seq>,
    /// The first entry that is not as it was sealed.
    pub broken: Option<Broken>,
}

/// Where a chain is broken, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Broken {
    /// The entry does not fit its seal: it was changed, or one before it was added or removed together with its seal.
    Changed {
        /// Which.
        seq: Seq,
    },
    /// There is a seal, but the entry is gone.
    Missing {
        /// Which.
        seq: Seq,
    },
    /// There is an entry, but no seal.
    Unsealed {
        /// Which.
        seq: Seq,
    },
    /// The chain is whole, but at the entry that was noted earlier it has another seal, or no longer reaches it: the
    /// log was rewritten, or its end was cut off.
    NotTheNoted {
        /// The noted entry.
        seq: Seq,
    },
}

/// Looks at every entry of the daemon's log in the database at `path`, and whether it is the one whose head was noted
/// earlier. Only reads; a daemon may be writing at the same time.
pub fn verify(path: &Path, noted: Option<Head>) -> Result<Verified, StoreError> {
    read(path, |connection| follow(connection, noted))
}

/// The newest frames of the daemon's log in the database at `path`, at most `limit`, oldest of them first, as they lie
/// there: whether they are as they were written, [`verify`] tells. Only reads; a daemon may be writing at the same time.
pub fn newest_frames(path: &Path, limit: u32) -> Result<Vec<String>, StoreError> {
    read(path, |connection| {
        let Some(log) = find_log(connection, SEALED)? else { return Ok(Vec::new()) };
        let mut statement = connection
            .prepare("SELECT frame FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT ?3")?;
        let range = params![entry_id(log.key, log.trimmed), entry_id(log.key, HIGHEST), limit];
        let frames = statement.query_map(range, |row| {
            let bytes = row.get_ref(0)?.as_bytes_or_null().map_err(rusqlite::Error::from)?;
            Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
        })?;
        let mut frames = frames.collect::<rusqlite::Result<Vec<_>>>()?;
        frames.reverse();
        Ok(frames)
    })
}

/// Looks into the database at `path` without changing it.
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
        // What was trimmed left no seal: nothing says that what follows was ever behind it.
        found.broken = Some(Broken::Missing { seq: log.trimmed });
        return Ok(found);
    }
    // Of what was trimmed only the last seal can be compared.
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

/// The newest seal up to an entry.
fn newest(connection: &Connection, key: i64, upto: Seq) -> rusqlite::Result<Seal> {
    let newest: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT hash FROM seals WHERE entry > ?1 AND entry <= ?2 ORDER BY entry DESC LIMIT 1",
        )?
        .query_row([entry_id(key, Seq::ZERO), entry_id(key, upto)], |row| row.get(0))
        .optional()?;
    // A seal that is none breaks the chain where it is looked at, not the writing.
    Ok(newest.and_then(|bytes| Seal::read(&bytes)).unwrap_or(Seal::NONE))
}

/// Seals an entry that was just added, after the seal before it, where that is known. Gives its own.
pub(super) fn seal(
    connection: &Connection,
    key: i64,
    seq: Seq,
    frame: &[u8],
    before: Option<Seal>,
) -> rusqlite::Result<Seal> {
    let before = before.map_or_else(|| newest(connection, key, seq), Ok)?;
    let seal = before.next(seq, frame);
    connection
        .prepare_cached("INSERT INTO seals (entry, hash) VALUES (?1, ?2)")?
        .execute(params![entry_id(key, seq), seal.0])?;
    Ok(seal)
}

/// Seals what a database without a chain has, and notes up to where that was.
pub(super) fn seal_what_is_there(connection: &Connection) -> rusqlite::Result<()> {
    let Some(log) = find_log(connection, SEALED)? else { return Ok(()) };
    let mut statement =
        connection.prepare("SELECT id, frame FROM entries WHERE id > ?1 AND id <= ?2 ORDER BY id")?;
    let mut rows = statement.query([entry_id(log.key, log.trimmed), entry_id(log.key, HIGHEST)])?;
    let (mut before, mut last) = (Seal::NONE, Seq::ZERO);
    while let Some(row) = rows.next()? {
        last = number(row.get(0)?);
        let frame = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        before = seal(connection, log.key, last, frame, Some(before))?;
    }
    connection
        .execute("UPDATE logs SET sealed_later = ?2 WHERE key = ?1", params![log.key, last.0 as i64])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use portolan_core::ports::{Op, Store as _, Write};

    use super::*;
    use crate::{
        Durability, SqliteStore,
        contract::{Home as _, OnDisk, append, commit, fill, log},
    };

    async fn five() -> OnDisk {
        let home = OnDisk::new();
        let store = home.store();
        for seq in [1, 2, 5, 6, 9] {
            commit(&store, LogId::Daemon, vec![append(LogId::Daemon, seq, "x")]).await.unwrap();
        }
        store.close().unwrap();
        home
    }

    fn tamper(home: &OnDisk, sql: &str) {
        Connection::open(home.path()).unwrap().execute_batch(sql).unwrap();
    }

    fn look(home: &OnDisk) -> Verified {
        verify(&home.path(), None).unwrap()
    }

    #[tokio::test]
    async fn every_entry_of_the_daemons_log_is_sealed_across_restarts_and_no_other() {
        let home = OnDisk::new();
        let store = home.store();
        commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 1, "a"), append(LogId::Daemon, 2, "b")])
            .await
            .unwrap();
        fill(&store, log(1), 1..=3).await;
        assert_eq!(look(&home).entries, 2, "while it is open too");
        store.close().unwrap();
        let store = home.store();
        commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 9, "c")]).await.unwrap();
        store.close().unwrap();
        let found = look(&home);
        // As docs/security.md tells it, so that anyone can check it with other tools.
        let mut seal = [0; 32];
        for (seq, text) in [(1_u64, "a"), (2, "b"), (9, "c")] {
            let frame = crate::contract::entry(LogId::Daemon, seq, text).frame;
            seal = Sha256::new()
                .chain_update(seal)
                .chain_update(seq.to_be_bytes())
                .chain_update(&frame)
                .finalize()
                .into();
        }
        let head = Head { seq: Seq(9), seal: Seal(seal) };
        assert_eq!(found, Verified { entries: 3, head: Some(head), ..Verified::default() });
        assert_eq!(head.to_string().parse(), Ok(head));
    }

    #[tokio::test]
    async fn the_first_entry_that_is_not_as_it_was_sealed_is_told() {
        let cases: [(&str, Broken, u64); 6] = [
            (
                "UPDATE entries SET frame = replace(frame, 'x', 'y') WHERE id & 0xff = 5",
                Broken::Changed { seq: Seq(5) },
                2,
            ),
            ("DELETE FROM entries WHERE id & 0xff = 2", Broken::Missing { seq: Seq(2) }, 1),
            ("DELETE FROM seals WHERE entry & 0xff = 1", Broken::Unsealed { seq: Seq(1) }, 0),
            (
                "DELETE FROM entries WHERE id & 0xff = 5; DELETE FROM seals WHERE entry & 0xff = 5",
                Broken::Changed { seq: Seq(6) },
                2,
            ),
            (
                "INSERT INTO entries (id, version, at, frame) SELECT id + 1, 1, 0, frame FROM entries WHERE id & 0xff = 6",
                Broken::Unsealed { seq: Seq(7) },
                4,
            ),
            (
                "UPDATE entries SET id = id + 1 WHERE id & 0xff = 9; UPDATE seals SET entry = entry + 1 WHERE entry & 0xff = 9",
                Broken::Changed { seq: Seq(10) },
                4,
            ),
        ];
        for (sql, broken, entries) in cases {
            let home = five().await;
            tamper(&home, sql);
            let found = look(&home);
            assert_eq!((found.broken, found.entries), (Some(broken), entries), "{sql}");
        }
    }

    #[tokio::test]
    async fn a_cut_end_and_a_rewritten_log_show_only_against_a_head_noted_earlier() {
        let home = five().await;
        let noted = look(&home).head.unwrap();
        assert_eq!(verify(&home.path(), Some(noted)).unwrap().broken, None);
        let store = home.store();
        commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 12, "later")]).await.unwrap();
        store.close().unwrap();
        assert_eq!(verify(&home.path(), Some(noted)).unwrap().broken, None, "it may have grown");

        tamper(&home, "DELETE FROM entries WHERE id & 0xff >= 9; DELETE FROM seals WHERE entry & 0xff >= 9");
        assert_eq!(look(&home).broken, None, "this a chain alone cannot show");
        let not_noted = Some(Broken::NotTheNoted { seq: Seq(9) });
        assert_eq!(verify(&home.path(), Some(noted)).unwrap().broken, not_noted);

        // Whoever can write the database can seal another history.
        let home = OnDisk::new();
        let store = home.store();
        for seq in [1, 2, 5, 6, 9] {
            commit(&store, LogId::Daemon, vec![append(LogId::Daemon, seq, "another")]).await.unwrap();
        }
        store.close().unwrap();
        assert_eq!(look(&home).broken, None);
        assert_eq!(verify(&home.path(), Some(noted)).unwrap().broken, not_noted);
    }

    #[tokio::test]
    async fn what_was_there_before_the_chain_is_sealed_when_the_database_is_brought_up_to_date() {
        let home = OnDisk::new();
        let first = &schema::STEPS[..1];
        super::super::create_private(&home.path(), schema::Contents::Kept).unwrap();
        let connection = super::super::connect(&home.path(), Durability::Normal, first).unwrap();
        // As the first version wrote it.
        connection
            .execute_batch(&format!(
                "INSERT INTO logs (name) VALUES ('{}');
                 INSERT INTO entries (id, version, at, frame) VALUES (1 << 40 | 3, 1, 0, 'three'), (1 << 40 | 4, 1, 0, 'four');",
                LogId::Daemon
            ))
            .unwrap();
        drop(connection);
        let error = verify(&home.path(), None).unwrap_err().to_string();
        assert!(error.contains("the chain began with version 2"), "{error}");
        let store = SqliteStore::open(&home.path(), Durability::Normal).unwrap();
        commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 5, "new")]).await.unwrap();
        store.close().unwrap();
        let found = look(&home);
        assert_eq!((found.entries, found.sealed_later, found.broken), (3, Some(Seq(4)), None));
    }

    #[tokio::test]
    async fn a_head_from_before_what_was_trimmed_is_not_taken_on_trust() {
        let home = five().await;
        let noted = look(&home).head.unwrap();
        tamper(&home, "DELETE FROM entries; DELETE FROM seals; UPDATE logs SET trimmed = 9, last = 9");
        let lost = Some(Broken::Missing { seq: Seq(9) });
        assert_eq!((look(&home).broken, verify(&home.path(), Some(noted)).unwrap().broken), (lost, lost));
        let home = five().await;
        let store = home.store();
        commit(&store, LogId::Daemon, vec![Op::Trim { upto: Seq(9) }]).await.unwrap();
        store.flush().await.unwrap();
        store.close().unwrap();
        assert_eq!(verify(&home.path(), Some(noted)).unwrap().broken, None, "its seal is kept");
        let other = Head { seal: Seal([7; 32]), ..noted };
        let not_noted = |seq| Some(Broken::NotTheNoted { seq });
        assert_eq!(verify(&home.path(), Some(other)).unwrap().broken, not_noted(Seq(9)));
        let earlier = Head { seq: Seq(6), ..noted };
        assert_eq!(verify(&home.path(), Some(earlier)).unwrap().broken, not_noted(Seq(6)));
    }

    #[tokio::test]
    async fn a_trimmed_log_goes_on_from_the_seal_of_what_was_trimmed() {
        let home = five().await;
        let store = home.store();
        commit(&store, LogId::Daemon, vec![Op::Trim { upto: Seq(5) }]).await.unwrap();
        commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 10, "new")]).await.unwrap();
        store.flush().await.unwrap();
        store.close().unwrap();
        let found = look(&home);
        assert_eq!((found.entries, found.trimmed, found.broken), (3, Some(Seq(5)), None));
    }

    #[tokio::test]
    async fn a_batch_that_was_rolled_back_leaves_no_trace_in_the_chain() {
        let home = OnDisk::new();
        let store = home.store();
        store
            .write(Write { log: LogId::Daemon, ops: vec![append(LogId::Daemon, 3, "a")], done: None })
            .await
            .unwrap();
        // A number twice is refused; what waits behind it is sealed as if it had never been.
        store
            .write(Write { log: LogId::Daemon, ops: vec![append(LogId::Daemon, 3, "b")], done: None })
            .await
            .unwrap();
        commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 4, "c")]).await.unwrap();
        store.close().unwrap();
        assert_eq!((look(&home).entries, look(&home).broken), (2, None));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let hex = "ab".repeat(32);
        for text in [
            "",
            "7",
            ":",
            &hex,
            &format!("x:{hex}"),
            &format!("+7:{hex}"),
            &format!("7:{}", &hex[1..]),
            &format!("7:{hex}00"),
            &format!("7:+b{}", &hex[2..]),
            &format!("7:{}é", &hex[2..]),
        ] {
            assert_eq!(text.parse::<Head>(), Err(NotAHead), "{text}");
        }
        assert_eq!(format!(" 7:{hex}\n").parse::<Head>().unwrap().to_string(), format!("7:{hex}"));
    }
}
