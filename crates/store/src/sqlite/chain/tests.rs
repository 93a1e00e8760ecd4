//! What a tampered log shows.

use portolan_core::ports::{Op, Store as _, Write};
use sha2::{Digest as _, Sha256};

use super::*;
use crate::{
    Durability, SqliteStore,
    contract::{Home as _, OnDisk, append, commit, fill, log},
    sqlite::schema,
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
    // As docs/security.md describes it, so that anyone can check it with other tools.
    let mut seal = [0_u8; 32];
    for (seq, text) in [(1_u64, "a"), (2, "b"), (9, "c")] {
        let frame = crate::contract::entry(LogId::Daemon, seq, text).frame;
        seal = Sha256::new()
            .chain_update(seal)
            .chain_update(seq.to_be_bytes())
            .chain_update(&frame)
            .finalize()
            .into();
    }
    let head = Head { seq: Seq(9), seal: Seal::read(&seal).unwrap() };
    assert_eq!(found, Verified { entries: 3, head: Some(head), ..Verified::default() });
    assert_eq!(head.to_string().parse(), Ok(head));
}

#[tokio::test]
async fn the_first_entry_that_is_not_as_it_was_sealed_is_reported() {
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
async fn a_cut_end_and_a_rewritten_log_show_only_against_a_head_recorded_earlier() {
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

    // A person who can write the database can seal another history.
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
async fn entries_older_than_the_chain_are_sealed_when_the_database_is_upgraded() {
    let home = OnDisk::new();
    let first = &schema::STEPS[..1];
    crate::sqlite::create_private(&home.path(), schema::Contents::Kept).unwrap();
    let connection = crate::sqlite::connect(&home.path(), Durability::Normal, first).unwrap();
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
async fn a_head_older_than_the_trimmed_entries_is_not_trusted() {
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
    let other = Head { seal: Seal::read(&[7; 32]).unwrap(), ..noted };
    let not_noted = |seq| Some(Broken::NotTheNoted { seq });
    assert_eq!(verify(&home.path(), Some(other)).unwrap().broken, not_noted(Seq(9)));
    let earlier = Head { seq: Seq(6), ..noted };
    assert_eq!(verify(&home.path(), Some(earlier)).unwrap().broken, not_noted(Seq(6)));
}

#[tokio::test]
async fn a_trimmed_log_continues_from_the_seal_of_its_last_trimmed_entry() {
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
    // A number twice is refused; the writes behind it are sealed as if it had never existed.
    store
        .write(Write { log: LogId::Daemon, ops: vec![append(LogId::Daemon, 3, "b")], done: None })
        .await
        .unwrap();
    commit(&store, LogId::Daemon, vec![append(LogId::Daemon, 4, "c")]).await.unwrap();
    store.close().unwrap();
    assert_eq!((look(&home).entries, look(&home).broken), (2, None));
}

#[test]
fn a_text_that_is_not_a_head_is_refused() {
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

#[tokio::test]
async fn the_place_of_an_entry_says_whether_the_entry_matches_its_seal() {
    let home = five().await;
    let link = async |seq| {
        let archive = crate::Archive::open(&home.path()).await.unwrap();
        archive.place(LogId::Daemon, Seq(seq)).await.unwrap().unwrap().link.unwrap()
    };
    let (second, fifth) = (link(2).await, link(5).await);
    assert!(second.matches && fifth.matches);
    assert_eq!(Some(fifth.before), second.seal, "the chain goes on");
    assert_eq!(link(1).await.before, "0".repeat(64));
    tamper(&home, "UPDATE entries SET frame = replace(frame, 'x', 'y') WHERE id & 0xff = 5");
    tamper(&home, "DELETE FROM seals WHERE entry & 0xff = 9");
    assert!(!link(5).await.matches && link(6).await.matches);
    assert_eq!((link(9).await.seal, link(9).await.matches), (None, false));
}

#[tokio::test]
async fn an_archive_only_reads() {
    let home = five().await;
    let archive = crate::Archive::open(&home.path()).await.unwrap();
    let write = Write { log: LogId::Daemon, ops: vec![append(LogId::Daemon, 10, "x")], done: None };
    assert!(archive.write(write).await.is_err());
    assert_eq!(look(&home).entries, 5);
}
