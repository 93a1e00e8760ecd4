//! What only the engine on disk can show: kills, locks, full disks, old and new versions.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use portolan_core::{
    Seq,
    ports::{Op, Page, Store as _, StoreError, StoreHealth, Write},
    session::state::Status,
};
use rusqlite::{Connection, params};

use super::{Durability, SqliteStore, schema};
use crate::contract::{
    Home as _, Notes, OnDisk, append, chunk, commit, entry, everything, fill, log, numbers, placed, summary,
};

/// Waits until the store reports a failure, and returns the reason.
async fn failing(store: &SqliteStore) -> String {
    let mut health = store.health();
    let now = health.wait_for(|now| *now != StoreHealth::Good).await.unwrap();
    match &*now {
        StoreHealth::Good => unreachable!(),
        StoreHealth::Failing { reason } => reason.clone(),
    }
}

async fn good(store: &SqliteStore) {
    store.health().wait_for(|now| *now == StoreHealth::Good).await.unwrap();
}

fn open_error(path: &std::path::Path) -> String {
    SqliteStore::open(path, Durability::Normal).unwrap_err().to_string()
}

// ------------------------------------------------------------------------------------------ life

#[tokio::test]
async fn everything_is_there_after_closing_and_opening_again() {
    let home = OnDisk::new();
    let store = home.store();
    let ops =
        vec![append(log(1), 3, "a"), Op::Reserve { upto: Seq(1000) }, chunk("i", 4, Some("{i}"), "open")];
    commit(&store, log(1), ops).await.unwrap();
    // No wait here: closing waits.
    store.write(Write { log: log(1), ops: vec![append(log(1), 5, "b")], done: None }).await.unwrap();
    let before = store.load(log(1)).await.unwrap().map(|head| (head.reserved, head.open_items));
    store.close().unwrap();

    let wal = home.path().with_extension("db-wal");
    assert!(!wal.exists(), "the write-ahead log is part of the file again");
    let store = home.store();
    assert_eq!(everything(&store, log(1)).await, [entry(log(1), 3, "a"), entry(log(1), 5, "b")]);
    let head = store.load(log(1)).await.unwrap().unwrap();
    assert_eq!(head.last, Seq(5));
    assert_eq!(Some((head.reserved, head.open_items)), before);
}

#[tokio::test]
async fn only_the_owner_can_read_the_database_and_the_files_beside_it() {
    let home = OnDisk::new();
    std::fs::write(home.path(), "").unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let store = home.store();
    fill(&store, log(1), [1]).await;
    let mut modes = Vec::new();
    for file in std::fs::read_dir(home.0.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        modes.push(format!("{} {mode:o}", file.file_name().display()));
    }
    modes.sort();
    assert_eq!(modes, ["portolan.db 600", "portolan.db-shm 600", "portolan.db-wal 600"]);
}

#[tokio::test]
async fn durability_and_settings_are_as_promised() {
    for (durability, synchronous) in [(Durability::Normal, 1), (Durability::Full, 2)] {
        let home = OnDisk::new();
        super::create_private(&home.path(), schema::Contents::Kept).unwrap();
        let connection = super::connect(&home.path(), durability, schema::STEPS).unwrap();
        let ask = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        let incremental = 2;
        assert_eq!(
            (ask("synchronous"), ask("auto_vacuum"), ask("user_version")),
            (synchronous, incremental, 3)
        );
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}

#[tokio::test]
async fn a_panic_in_done_does_not_stop_the_writing() {
    let home = OnDisk::new();
    let store = home.store();
    let ops = vec![append(log(1), 1, "a")];
    store.write(Write { log: log(1), ops, done: Some(Box::new(|| panic!("on purpose"))) }).await.unwrap();
    fill(&store, log(1), [2]).await;
    assert_eq!(numbers(&everything(&store, log(1)).await), [1, 2]);
}

/// Not a test by itself: the process that the next test kills. It writes without end and reports each commit.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os("PORTOLAN_TEST_DATABASE") else { return };
    let store = SqliteStore::open(path.as_ref(), Durability::Normal).unwrap();
    let first = store.load(log(1)).await.unwrap().map_or(1, |head| head.last.0 + 1);
    for seq in first.. {
        let done: Box<dyn FnOnce() + Send> = Box::new(move || {
            // One write each, so that a line is complete or missing.
            std::io::stdout().write_all(format!("\ndone {seq}\n").as_bytes()).unwrap();
            std::io::stdout().flush().unwrap();
        });
        let ops = vec![append(log(1), seq, &"x".repeat((seq % 977) as usize)), chunk("i", seq, None, "x")];
        store.write(Write { log: log(1), ops, done: Some(done) }).await.unwrap();
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test's own child, killed and waited for right here")]
async fn every_committed_write_survives_kill_9() {
    let home = OnDisk::new();
    for lines in [1, 40, 333, 1000, 77] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sqlite::tests::child_that_writes_until_it_is_killed", "--nocapture"])
            .env("PORTOLAN_TEST_DATABASE", home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let done = |line: String| line.strip_prefix("done ").and_then(|seq| seq.parse::<u64>().ok());
        let seen = output.by_ref().filter_map(done).nth(lines).expect("the child writes until it is killed");
        child.kill().unwrap();
        child.wait().unwrap();
        // Its reports before its death count as well.
        let last = output.filter_map(done).last().unwrap_or(seen);

        let store = home.store();
        let found = numbers(&everything(&store, log(1)).await);
        assert!(found.len() as u64 >= last, "{} entries, but {last} were done", found.len());
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "a prefix, without gaps");
        // A write is complete or missing.
        let head = store.load(log(1)).await.unwrap().unwrap();
        assert_eq!(head.open_items[0].text.len(), found.len());
        let positions: Vec<_> =
            placed(&store).await.into_iter().map(|(position, _, seq)| (position, seq)).collect();
        assert_eq!(
            positions,
            found.iter().map(|seq| (*seq, *seq)).collect::<Vec<_>>(),
            "no position is lost"
        );
        store.close().unwrap();
        let intact: String = Connection::open(home.path())
            .unwrap()
            .pragma_query_value(None, "integrity_check", |row| row.get(0))
            .unwrap();
        assert_eq!(intact, "ok");
    }
}

// ---------------------------------------------------------------------------------------- faults

#[tokio::test]
async fn a_locked_database_is_waited_for_and_nothing_is_lost() {
    let home = OnDisk::new();
    let store = home.store();
    fill(&store, log(1), [1]).await;
    let stranger = Connection::open(home.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let notes = Notes::default();
    for seq in 2..=50 {
        let write =
            Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: Some(notes.when_done(seq)) };
        store.write(write).await.unwrap();
    }
    let reason = failing(&store).await;
    let path = home.path();
    assert_eq!(
        reason,
        format!("the database `{}` is locked by another program; close that program", path.display())
    );
    assert_eq!(notes.all(), [0; 0], "nothing is reported before its commit");
    assert_eq!(
        numbers(&everything(&store, log(1)).await),
        [1],
        "reading goes on, without what is uncommitted"
    );
    stranger.execute_batch("ROLLBACK").unwrap();
    good(&store).await;
    store.flush().await.unwrap();
    assert_eq!(notes.all(), (2..=50).collect::<Vec<_>>());
    assert_eq!(numbers(&everything(&store, log(1)).await), (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_disk_is_waited_for_and_nothing_is_lost() {
    let home = OnDisk::new();
    let store = home.store();
    fill(&store, log(1), [1]).await;
    store.page_limit.store(1, Ordering::Release);
    let notes = Notes::default();
    let text = "x".repeat(100_000);
    for seq in 2..=10 {
        let write =
            Write { log: log(1), ops: vec![append(log(1), seq, &text)], done: Some(notes.when_done(seq)) };
        store.write(write).await.unwrap();
    }
    let reason = failing(&store).await;
    let path = home.path();
    assert_eq!(
        reason,
        format!("no space left for the database `{}`; free some space on that disk", path.display())
    );
    assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
    assert_eq!(notes.all(), [0; 0]);
    store.page_limit.store(1_000_000, Ordering::Release);
    good(&store).await;
    store.flush().await.unwrap();
    assert_eq!(notes.all(), (2..=10).collect::<Vec<_>>());
    assert_eq!(numbers(&everything(&store, log(1)).await), (1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_queue_makes_writers_wait() {
    let home = OnDisk::new();
    let store = Arc::new(home.store());
    let stranger = Connection::open(home.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for seq in 1..=3000 {
                let write = Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: None };
                store.write(write).await.unwrap();
            }
        }
    });
    failing(&store).await;
    // The writer took at most one batch from the queue, and the queue holds no more than its limit.
    assert!(!writing.is_finished());
    stranger.execute_batch("ROLLBACK").unwrap();
    writing.await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(numbers(&everything(&*store, log(1)).await), (1..=3000).collect::<Vec<_>>());
}

#[tokio::test]
async fn closing_a_store_that_cannot_write_ends_and_says_what_is_lost() {
    let home = OnDisk::new();
    let store = home.store();
    let stranger = Connection::open(home.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let notes = Notes::default();
    for seq in 1..=3 {
        let write =
            Write { log: log(1), ops: vec![append(log(1), seq, "x")], done: Some(notes.when_done(seq)) };
        store.write(write).await.unwrap();
    }
    failing(&store).await;
    let error = store.close().unwrap_err().to_string();
    assert!(error.starts_with("3 writes could not be written: the database"), "{error}");
    assert_eq!(notes.all(), [0; 0]);
    drop(stranger);
    assert_eq!(home.store().load(log(1)).await.unwrap(), None);
}

#[tokio::test]
async fn closing_waits_a_moment_for_a_lock() {
    let home = OnDisk::new();
    let store = home.store();
    let stranger = Connection::open(home.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.write(Write { log: log(1), ops: vec![append(log(1), 1, "x")], done: None }).await.unwrap();
    failing(&store).await;
    let closing = std::thread::spawn(move || store.close());
    stranger.execute_batch("ROLLBACK").unwrap();
    closing.join().unwrap().unwrap();
    assert_eq!(numbers(&everything(&home.store(), log(1)).await), [1]);
}

#[test]
fn a_missing_folder_is_named() {
    let home = OnDisk::new();
    let path = home.0.path().join("nowhere").join("portolan.db");
    let folder = home.0.path().join("nowhere");
    assert_eq!(
        open_error(&path),
        format!("the folder `{}` does not exist; make it, or set PORTOLAN_HOME", folder.display())
    );
}

#[test]
fn a_file_that_is_not_a_database_stays_unchanged() {
    let home = OnDisk::new();
    let text = "just some notes ".repeat(100);
    std::fs::write(home.path(), &text).unwrap();
    let path = home.path();
    assert_eq!(
        open_error(&path),
        format!("`{}` is not a database; move it away, or use another PORTOLAN_HOME", path.display())
    );
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn the_database_of_another_program_stays_unchanged() {
    let home = OnDisk::new();
    Connection::open(home.path()).unwrap().execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    let path = home.path();
    assert_eq!(
        open_error(&path),
        format!(
            "`{}` is the database of another program; move it away, or use another PORTOLAN_HOME",
            path.display()
        )
    );
}

#[test]
fn a_damaged_database_gives_an_error_and_no_panic() {
    let home = OnDisk::new();
    home.store().close().unwrap();
    let mut bytes = std::fs::read(home.path()).unwrap();
    for byte in &mut bytes[100..] {
        *byte = 0xa5;
    }
    std::fs::write(home.path(), bytes).unwrap();
    assert!(open_error(&home.path()).contains("is damaged; restore a backup"));
}

// -------------------------------------------------------------------------------------- versions

/// Today's steps, and some of a later version.
fn with_more(later: &[&'static str]) -> Vec<schema::Step> {
    schema::STEPS.iter().copied().chain(later.iter().map(|sql| schema::Step::sql(sql))).collect()
}

#[test]
fn a_newer_database_is_refused_untouched() {
    let home = OnDisk::new();
    home.store().close().unwrap();
    Connection::open(home.path()).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = std::fs::read(home.path()).unwrap();
    let error = SqliteStore::open(&home.path(), Durability::Normal).unwrap_err();
    assert_eq!(error, StoreError::Newer { found: 7, known: 3 });
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
}

#[tokio::test]
async fn an_older_database_is_backed_up_and_upgraded() {
    let home = OnDisk::new();
    let store = home.store();
    fill(&store, log(1), [1, 2]).await;
    store.close().unwrap();

    let steps = with_more(&["ALTER TABLE entries ADD COLUMN note TEXT", "CREATE TABLE later (x)"]);
    let store = SqliteStore::open_with(&home.path(), Durability::Normal, &steps).unwrap();
    assert_eq!(numbers(&everything(&store, log(1)).await), [1, 2]);
    store.close().unwrap();
    let version = |file: &std::path::Path| -> i64 {
        Connection::open(file).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    assert_eq!(version(&home.path()), 5);

    let backup = home.path().with_extension("db.v3.bak");
    assert_eq!(version(&backup), 3);
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let old = SqliteStore::open(&backup, Durability::Normal).unwrap();
    assert_eq!(everything(&old, log(1)).await, [entry(log(1), 1, "1"), entry(log(1), 2, "2")]);
    old.close().unwrap();

    // Nothing to do the next time, and no second backup.
    std::fs::remove_file(&backup).unwrap();
    SqliteStore::open_with(&home.path(), Durability::Normal, &steps).unwrap().close().unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(home.0.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["portolan.db"]);
}

#[tokio::test]
async fn entries_from_before_there_were_positions_get_theirs_in_the_order_of_time() {
    let home = OnDisk::new();
    super::create_private(&home.path(), schema::Contents::Kept).unwrap();
    drop(super::connect(&home.path(), Durability::Normal, &schema::STEPS[..2]).unwrap());
    let connection = Connection::open(home.path()).unwrap();
    // The clock of the first log went back once; its entries keep their order.
    let rows = [(1_i64, 1_i64, 100_i64), (1, 2, 300), (1, 3, 50), (2, 1, 200), (2, 2, 400)];
    for key in [1_i64, 2] {
        let name = log(key as u128).to_string();
        connection.execute("INSERT INTO logs (key, name) VALUES (?1, ?2)", params![key, name]).unwrap();
    }
    for (key, seq, at) in rows {
        let frame = entry(log(key as u128), seq as u64, "x").frame;
        connection
            .execute(
                "INSERT INTO entries (id, version, at, frame) VALUES (?1, 1, ?2, ?3)",
                params![key << 40 | seq, at, str::from_utf8(&frame).unwrap()],
            )
            .unwrap();
    }
    drop(connection);
    let store = home.store();
    let found: Vec<_> = placed(&store).await.into_iter().map(|(_, log, seq)| (log, seq)).collect();
    assert_eq!(found, [(log(1), 1), (log(2), 1), (log(1), 2), (log(1), 3), (log(2), 2)]);
    fill(&store, log(1), [4]).await;
    assert_eq!(placed(&store).await.last(), Some(&(6, log(1), 4)));
}

#[tokio::test]
async fn the_position_of_a_deleted_newest_entry_is_not_used_again_after_a_restart() {
    let home = OnDisk::new();
    let store = home.store();
    fill(&store, log(1), 1..=3).await;
    commit(&store, log(1), vec![Op::Delete]).await.unwrap();
    store.flush().await.unwrap();
    store.close().unwrap();
    let store = home.store();
    fill(&store, log(2), [1]).await;
    assert_eq!(placed(&store).await, [(4, log(2), 1)]);
}

#[tokio::test]
async fn a_step_that_fails_leaves_the_older_database_as_it_was() {
    let home = OnDisk::new();
    let store = home.store();
    fill(&store, log(1), [1]).await;
    store.close().unwrap();
    let steps = with_more(&["CREATE TABLE half (x); CREATE TABLE half (x)"]);
    SqliteStore::open_with(&home.path(), Durability::Normal, &steps).unwrap_err();
    let store = home.store();
    assert_eq!(numbers(&everything(&store, log(1)).await), [1]);
}

#[tokio::test]
async fn a_backup_that_cannot_be_written_stops_the_migration() {
    let home = OnDisk::new();
    home.store().close().unwrap();
    std::fs::create_dir(home.path().with_extension("db.v3.bak.unfinished")).unwrap();
    let steps = with_more(&["CREATE TABLE later (x)"]);
    let error = SqliteStore::open_with(&home.path(), Durability::Normal, &steps).unwrap_err().to_string();
    assert!(error.contains("its backup") && error.contains("cannot be written"), "{error}");
    home.store().close().unwrap();
}

// ------------------------------------------------------------------------------- size and speed

#[tokio::test]
async fn sweeping_continues_where_a_kill_left_it() {
    let home = OnDisk::new();
    let store = home.store();
    fill(&store, log(1), 1..=2500).await;
    fill(&store, log(2), 1..=5).await;
    store.close().unwrap();
    // The state after a kill right after the commit of the deletion.
    let connection = super::connect(&home.path(), Durability::Normal, schema::STEPS).unwrap();
    let delete = Write { log: log(1), ops: vec![Op::Delete], done: None };
    super::apply::apply(&connection, &mut super::Logs::default(), &delete).unwrap();
    drop(connection);

    let store = home.store();
    assert_eq!(store.load(log(1)).await.unwrap(), None);
    fill(&store, log(1), [1]).await;
    store.flush().await.unwrap();
    assert_eq!(everything(&store, log(1)).await, [entry(log(1), 1, "1")]);
    assert_eq!(numbers(&everything(&store, log(2)).await), [1, 2, 3, 4, 5]);
    store.close().unwrap();
    let rows: (i64, i64, i64) = Connection::open(home.path())
        .unwrap()
        .query_row(
            "SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM logs), (SELECT count(*) FROM sweeps)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(rows, (6, 2, 0));
}

#[tokio::test]
async fn a_flush_is_answered_even_if_the_queue_is_never_empty() {
    let home = OnDisk::new();
    let store = Arc::new(home.store());
    fill(&*store, log(1), 1..=5000).await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for seq in 1.. {
                let write = Write { log: log(2), ops: vec![append(log(2), seq, "x")], done: None };
                store.write(write).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    commit(&*store, log(1), vec![Op::Delete]).await.unwrap();
    tokio::time::timeout(Duration::from_mins(1), store.flush()).await.unwrap().unwrap();
    writing.abort();
}

#[tokio::test]
async fn seeking_reads_by_key_however_long_the_log_is() {
    let home = OnDisk::new();
    let store = home.store();
    commit(&store, log(1), vec![Op::Summary(Box::new(summary(1, Status::Idle)))]).await.unwrap();
    let connection = Connection::open(home.path()).unwrap();
    let plan = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        statement.raw_query().mapped(|row| row.get(3)).map(Result::unwrap).collect()
    };
    let by_range = ["SEARCH entries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"];
    for sql in [super::apply::NEWEST, super::reader::ENTRIES, super::reader::TAIL] {
        assert_eq!(plan(sql), by_range, "{sql}");
    }
    assert_eq!(
        plan(super::reader::BEFORE),
        [
            "SEARCH entries USING INDEX entries_by_position (position<?)",
            "SEARCH logs USING INTEGER PRIMARY KEY (rowid=?)"
        ]
    );
    assert_eq!(
        plan(super::reader::SINCE),
        [
            "SEARCH entries USING INDEX entries_by_position (position>?)",
            "SEARCH logs USING INTEGER PRIMARY KEY (rowid=?)"
        ]
    );
    assert_eq!(plan(super::apply::LOG), ["SEARCH logs USING INDEX sqlite_autoindex_logs_1 (name=?)"]);
    assert_eq!(plan(super::reader::CHUNKS).len(), 2, "by index, then in order of writing");
    assert_eq!(plan(super::reader::SESSIONS), ["SEARCH sessions USING PRIMARY KEY (session<?)"]);
    assert_eq!(plan(super::reader::LIVE_SESSIONS), ["SEARCH sessions USING INDEX live_sessions (session<?)"]);
    // There is no index of ends: one scan of the ids, for a command that a person types.
    let matching = plan(super::reader::MATCHING);
    assert!(
        matching.contains(&"SEARCH sessions USING PRIMARY KEY (session>? AND session<?)".to_owned()),
        "{matching:?}"
    );
}

#[tokio::test]
async fn a_page_reads_no_more_than_it_gives() {
    let home = OnDisk::new();
    let store = home.store();
    let text = "x".repeat(100_000);
    for seq in 1..=50 {
        commit(&store, log(1), vec![append(log(1), seq, &text)]).await.unwrap();
    }
    store.close().unwrap();
    // The pages of the file that hold later entries are unreadable; a page of one entry never reaches them.
    let mut bytes = std::fs::read(home.path()).unwrap();
    let from = bytes.len() / 2;
    let needle = entry(log(1), 40, &text).frame;
    assert!(
        bytes.windows(80).skip(from).any(|window| needle.starts_with(window)),
        "entry 40 lies in the second half"
    );
    for byte in &mut bytes[from..] {
        *byte = 0xa5;
    }
    std::fs::write(home.path(), bytes).unwrap();
    let store = home.store();
    let page = Page { entries: 100, bytes: 150_000 };
    assert_eq!(numbers(&store.read(log(1), Seq::ZERO, Seq(u64::MAX), page).await.unwrap()), [1]);
}
