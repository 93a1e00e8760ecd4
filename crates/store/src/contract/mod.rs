//! The requirements for every engine, as tests. A new engine implements [`Home`] and adds a line at the end of this
//! file.

mod property;
mod suite;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use portolan_core::{
    Entry, LogId, Millis, Position, Seq, SessionId, Stored,
    ports::{CommandRow, Op, Page, Store, Write},
    session::state::{Status, Summary},
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{Durability, MemoryStore, SqliteStore};

/// A place for one store of an engine.
pub(crate) trait Home {
    fn new() -> Self;
    fn open(&self) -> Arc<dyn Store>;
}

pub(crate) struct InMemory;

impl Home for InMemory {
    fn new() -> Self {
        Self
    }
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

pub(crate) struct OnDisk(pub(crate) tempfile::TempDir);

impl OnDisk {
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.0.path().join("portolan.db")
    }
    pub(crate) fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.path(), Durability::Normal).unwrap()
    }
}

impl Home for OnDisk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }
}

/// Everything, in one page.
pub(crate) const ALL: Page = Page { entries: u32::MAX, bytes: u32::MAX };

/// The `n`th session.
pub(crate) const fn session(n: u128) -> SessionId {
    SessionId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + n)
}

/// The session's log.
pub(crate) const fn log(n: u128) -> LogId {
    LogId::Session(session(n))
}

/// An entry as core makes it.
pub(crate) fn entry(log: LogId, seq: u64, text: &str) -> Stored {
    let entry = Entry::new(log, Seq(seq), Millis(1000), None, json!({ "type": "test", "text": text }));
    Stored { seq: Seq(seq), frame: entry.frame().clone() }
}

/// Adds the entry, with the agent's original text.
pub(crate) fn append(log: LogId, seq: u64, text: &str) -> Op {
    let raw = Some(Bytes::from(format!("raw {text}")));
    Op::Append { seq: Seq(seq), at: Millis(1000), frame: entry(log, seq, text).frame, raw }
}

pub(crate) fn chunk(item: &str, seq: u64, started: Option<&'static str>, text: &str) -> Op {
    let started = started.map(|frame| Bytes::from_static(frame.as_bytes()));
    Op::Chunk { item: item.to_owned(), seq: Seq(seq), started, text: text.to_owned() }
}

pub(crate) fn command(token: &str, id: &str, seq: u64, stage: &'static str) -> CommandRow {
    CommandRow::new(
        token.parse().unwrap(),
        id.parse().unwrap(),
        Seq(seq),
        Bytes::from_static(stage.as_bytes()),
    )
}

pub(crate) fn summary(n: u128, status: Status) -> Summary {
    Summary {
        session: session(n),
        agent: "demo".to_owned(),
        name: format!("session {n}"),
        cwd: "/somewhere".into(),
        status,
        error: None,
        asleep: false,
        archived: false,
        created_at: Millis(1),
        active_at: Millis(2),
        agent_session: None,
        model: None,
        mode: None,
        waiting: 0,
        queued: 0,
        turns: 0,
        cost_usd: Some(0.1),
        over_budget: None,
        forked_from: None,
    }
}

/// Writes and waits for the commit; an error if the write was refused.
pub(crate) async fn commit(
    store: &dyn Store,
    log: LogId,
    ops: Vec<Op>,
) -> Result<(), oneshot::error::RecvError> {
    let (done, wait) = oneshot::channel();
    let done: Box<dyn FnOnce() + Send> = Box::new(move || done.send(()).unwrap());
    store.write(Write { log, ops, done: Some(done) }).await.unwrap();
    wait.await
}

/// Writes entries with these numbers.
pub(crate) async fn fill(store: &dyn Store, log: LogId, numbers: impl IntoIterator<Item = u64>) {
    let ops = numbers.into_iter().map(|seq| append(log, seq, &seq.to_string())).collect();
    commit(store, log, ops).await.unwrap();
}

/// All entries of a log.
pub(crate) async fn everything(store: &dyn Store, log: LogId) -> Vec<Stored> {
    store.read(log, Seq::ZERO, Seq(u64::MAX), ALL).await.unwrap()
}

/// Every entry of all logs: its position, its log and its number.
pub(crate) async fn placed(store: &dyn Store) -> Vec<(u64, LogId, u64)> {
    let placed = store.since(Position::ZERO, ALL).await.unwrap();
    placed.into_iter().map(|placed| (placed.position.0, placed.log, placed.entry.seq.0)).collect()
}

/// The numbers of these entries.
pub(crate) fn numbers(entries: &[Stored]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.0).collect()
}

/// Records what happens, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone + Send + 'static> Notes<T> {
    pub(crate) fn when_done(&self, note: T) -> Box<dyn FnOnce() + Send> {
        let notes = self.clone();
        Box::new(move || notes.0.lock().unwrap().push(note))
    }
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

macro_rules! contract {
    ($engine:ident: $home:ty, $($clauses:ident { $($sentence:ident)+ })+) => {
        mod $engine {
            use super::*;
            $($(
                #[tokio::test]
                async fn $sentence() {
                    let home = <$home>::new();
                    suite::$clauses::$sentence(home.open()).await;
                }
            )+)+
        }
    };
    ($engine:ident: $home:ty) => {
        contract! { $engine: $home,
            pages {
                entries_come_back_in_order_and_as_they_were_given
                a_page_ends_at_its_number_of_entries
                a_page_ends_before_its_bytes_run_out
                an_entry_larger_than_a_page_comes_alone
                a_page_that_allows_nothing_gives_one_entry
                reading_between_two_numbers_gives_what_lies_between
                logs_do_not_see_each_other
                a_log_nobody_wrote_to_is_not_there
                the_tail_lies_after_the_entry_before_it
                raw_text_lies_beside_its_entry
            }
            positions {
                positions_are_in_the_order_of_the_commits_over_all_logs
                positions_of_what_is_gone_are_not_given_again
                a_page_of_positions_ends_like_any_page
            }
            heads {
                a_log_tells_its_last_and_its_reserved_number
                chunks_of_open_items_come_back_oldest_item_first
                a_closed_item_is_open_no_more
                the_newest_checkpoint_comes_back
                a_command_is_known_by_its_newest_stage
            }
            lists {
                sessions_come_newest_first_in_pages
                sessions_are_found_by_archived_and_live
                a_summary_replaces_the_one_before
                ids_are_found_by_their_first_or_last_characters
                records_are_kept_by_collection_and_key
            }
            copies {
                a_copy_has_the_same_entries_under_its_own_name
                a_copy_of_nothing_is_an_empty_log
                only_an_empty_session_log_can_become_a_copy
            }
            removal {
                a_deleted_log_leaves_nothing
                a_log_can_begin_anew_after_its_deletion
                a_deletion_gives_its_room_back
                a_trimmed_log_keeps_its_numbers
            }
            writes {
                flush_waits_for_everything_before_it
                done_is_called_in_the_order_of_the_writes
                a_write_that_can_never_succeed_fails_alone_and_whole
                a_summary_of_another_session_is_refused
                many_logs_are_written_at_once
            }
        }
    };
}

contract!(memory: InMemory);
contract!(sqlite: OnDisk);
