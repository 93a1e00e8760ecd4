//! The tables, and the upgrade of an older database.
//!
//! The version is in `PRAGMA user_version`. A newer version is refused. An older database is copied to
//! `portolan.db.v<N>.bak` beside it, then upgraded step by step, each step in its own transaction.

use std::{fs, io, path::Path};

use portolan_core::ports::StoreError;
use rusqlite::{
    Connection, OpenFlags, TransactionBehavior,
    backup::{Backup, StepResult},
    ffi,
};
use tracing::info;

use super::{chain, faults::failed};

/// "Port": distinguishes our databases from those of other programs.
const APPLICATION_ID: i32 = 0x506f_7274;

/// One upgrade step to the next version.
#[derive(Clone, Copy)]
pub(super) struct Step {
    sql: &'static str,
    /// What SQL alone cannot do, in the same transaction.
    then: fn(&Connection) -> rusqlite::Result<()>,
}

impl Step {
    /// A step that SQL alone can do.
    pub(super) const fn sql(sql: &'static str) -> Self {
        Self { sql, then: |_| Ok(()) }
    }
}

/// Step `n` makes version `n + 1` from version `n`. Released steps are never changed.
pub(super) const STEPS: &[Step] =
    &[Step::sql(FIRST), Step { sql: SEALS, then: chain::seal_what_is_there }, Step::sql(POSITIONS)];

/// The version since which the daemon's log is a chain.
pub(super) const CHAINED: u32 = 2;

/// An entry's id is its log's key and, in the lowest 40 bits, its number: one integer key keeps the entries of a
/// log together and in order, so that a seek costs the same in a log of ten and of a million. `raw` comes last in
/// its row, so that reading frames does not touch it where it is long.
const FIRST: &str = "
    CREATE TABLE logs (
        key      INTEGER PRIMARY KEY,
        name     TEXT UNIQUE,                 -- null: deleted, its entries wait to be swept
        last     INTEGER NOT NULL DEFAULT 0,  -- the last entry at the time of the last trim
        trimmed  INTEGER NOT NULL DEFAULT 0,  -- entries up to here are deleted
        reserved INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE entries (
        id      INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        at      INTEGER NOT NULL,
        frame   TEXT NOT NULL,
        raw     BLOB
    ) STRICT;
    CREATE TABLE checkpoints (
        log   INTEGER PRIMARY KEY,
        seq   INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT;
    CREATE TABLE chunks (
        id      INTEGER PRIMARY KEY,
        log     INTEGER NOT NULL,
        item    TEXT NOT NULL,
        seq     INTEGER NOT NULL,
        started TEXT,
        text    TEXT NOT NULL
    ) STRICT;
    CREATE INDEX chunks_of_item ON chunks (log, item);
    CREATE TABLE commands (
        log   INTEGER NOT NULL,
        token TEXT NOT NULL,
        id    TEXT NOT NULL,
        seq   INTEGER NOT NULL,
        stage BLOB NOT NULL,
        PRIMARY KEY (log, token, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sessions (
        session  TEXT PRIMARY KEY,
        archived INTEGER NOT NULL,
        live     INTEGER NOT NULL,
        summary  TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX live_sessions ON sessions (session) WHERE live = 1;
    CREATE TABLE records (
        collection TEXT NOT NULL,
        key        TEXT NOT NULL,
        value      BLOB NOT NULL,
        PRIMARY KEY (collection, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sweeps (                     -- entries that are deleted but still take room
        log  INTEGER PRIMARY KEY,
        upto INTEGER NOT NULL
    ) STRICT;
";

/// The chain of the daemon's log. A separate table: sessions' entries pay nothing for it.
const SEALS: &str = "
    CREATE TABLE seals (
        entry INTEGER PRIMARY KEY,            -- the id of an entry
        hash  BLOB NOT NULL
    ) STRICT;
    ALTER TABLE logs ADD COLUMN sealed_later INTEGER NOT NULL DEFAULT 0;
";

/// Every entry's position in the order of all entries. After `raw`, so that reading frames stays the same: reading by
/// position uses the index. Existing entries are ordered by their time, which never goes back here within one log,
/// whatever the clock did.
const POSITIONS: &str = "
    ALTER TABLE entries ADD COLUMN position INTEGER;
    UPDATE entries SET position = placed.position FROM (
        SELECT id, row_number() OVER (ORDER BY reached, id) AS position FROM (
            SELECT id, max(at) OVER (PARTITION BY id >> 40 ORDER BY id) AS reached FROM entries
        )
    ) AS placed WHERE placed.id = entries.id;
    CREATE UNIQUE INDEX entries_by_position ON entries (position);
    CREATE TABLE positions (
        given INTEGER NOT NULL                -- the highest that was given, as of the last deletion
    ) STRICT;
    INSERT INTO positions VALUES (0);
";

/// Upgrades the database to the newest version, from any older one.
pub(super) fn bring_up_to_date(
    connection: &mut Connection,
    path: &Path,
    steps: &[Step],
) -> Result<(), StoreError> {
    let known = steps.len() as u32;
    let found = version(connection).map_err(|error| failed(path, &error))?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found == 0 {
        claim(connection, path)?;
    } else if found < known {
        back_up(connection, path, found)?;
    }
    for next in found..known {
        let step = steps[next as usize];
        apply(connection, step, next + 1).map_err(|error| failed(path, &error))?;
        if found > 0 {
            info!(path = %path.display(), version = next + 1, "database brought up to date");
        }
    }
    Ok(())
}

pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Makes an empty database ours; a database with another program's tables stays unchanged.
fn claim(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| failed(path, &error))?;
    if tables > 0 {
        return Err(StoreError::Failed(format!(
            "`{}` is the database of another program; move it away, or use another PORTOLAN_HOME",
            path.display()
        )));
    }
    // Only possible before the first page is written; deleted data then releases its room.
    connection
        .pragma_update(None, "auto_vacuum", "INCREMENTAL")
        .and_then(|()| connection.pragma_update(None, "journal_mode", "WAL"))
        .and_then(|()| connection.pragma_update(None, "application_id", APPLICATION_ID))
        .map_err(|error| failed(path, &error))
}

fn apply(connection: &mut Connection, step: Step, version: u32) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(step.sql)?;
    (step.then)(&transaction)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

/// Copies the database beside itself. The copy gets its name only when it is complete.
fn back_up(connection: &Connection, path: &Path, version: u32) -> Result<(), StoreError> {
    let backup = beside(path, &format!(".v{version}.bak"));
    let unfinished = beside(path, &format!(".v{version}.bak.unfinished"));
    let copied = create_private(&unfinished, Contents::Emptied)
        .map_err(|error| error.to_string())
        .and_then(|()| copy_into(connection, &unfinished).map_err(|error| error.to_string()))
        .and_then(|()| fs::rename(&unfinished, &backup).map_err(|error| error.to_string()));
    copied.map_err(|error| {
        StoreError::Failed(format!(
            "the database must be brought up to date, but its backup `{}` cannot be written: {error}; \
             make room for it",
            backup.display()
        ))
    })?;
    info!(backup = %backup.display(), "database backed up before it is brought up to date");
    Ok(())
}

fn copy_into(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    const ALL_PAGES: i32 = -1;
    let mut copy = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    match Backup::new(connection, &mut copy)?.step(ALL_PAGES)? {
        StepResult::Done => {}
        _ => return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)),
    }
    copy.close().map_err(|(_, error)| error)
}

fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What happens to an existing file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// The content stays.
    Kept,
    /// The file is emptied.
    Emptied,
}

/// Creates a file that only its owner can read; an existing file gets the same mode. The file holds the agents'
/// messages.
pub(super) fn create_private(path: &Path, contents: Contents) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(contents == Contents::Emptied);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let file = options.mode(0o600).open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    #[cfg(not(unix))]
    options.open(path)?;
    Ok(())
}
