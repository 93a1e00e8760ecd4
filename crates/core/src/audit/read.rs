//! Reads records from a store, a page at a time. Needs no daemon: any store that can be read will do.

use std::collections::HashMap;

use serde::Deserialize;

use super::{
    AuditDetails, AuditOrder, AuditPage, AuditQuery, PAGE,
    record::{may_be, record},
};
use crate::{
    LogId, Millis, Position, Seq, SessionId,
    ports::{Page, Placed, Store, StoreError},
    session::task::copied_upto,
};

/// How many records a page holds when nobody says.
const USUAL: u32 = 100;

/// Pages of entries that one call reads at most: some 30,000 entries or 8 MiB. A caller that looks for something rare
/// gets the place where it can continue, and keeps nobody waiting.
const PAGES: u32 = 32;

/// The records that a query wants, a page of them.
pub async fn list(store: &dyn Store, query: &AuditQuery) -> Result<AuditPage, StoreError> {
    let limit = query.limit.unwrap_or(USUAL).clamp(1, PAGE) as usize;
    let floor = match query.since {
        Some(since) => older_than(store, since).await?,
        None => Position::ZERO,
    };
    let mut from = match query.order {
        AuditOrder::Newest => query.from.unwrap_or(Position(u64::MAX)),
        AuditOrder::Oldest => query.from.unwrap_or_default().max(floor),
    };
    let mut copies = Copies::default();
    let mut records = Vec::new();
    for _ in 0..PAGES {
        let page = match query.order {
            AuditOrder::Newest => store.before(from, Page::HISTORY).await?,
            AuditOrder::Oldest => store.since(from, Page::HISTORY).await?,
        };
        if page.is_empty() {
            return Ok(AuditPage { records, next: None });
        }
        for placed in page {
            if placed.position <= floor {
                return Ok(AuditPage { records, next: None });
            }
            from = placed.position;
            if !may_be(&placed) || copies.is_copy(store, &placed).await? {
                continue;
            }
            records.extend(record(&placed).filter(|record| query.wants(record)));
            if records.len() >= limit {
                return Ok(AuditPage { records, next: Some(from) });
            }
        }
    }
    Ok(AuditPage { records, next: Some(from) })
}

/// One record with its entry and its place in the chain; `None` if the entry at this position is no record.
pub async fn show(store: &dyn Store, position: Position) -> Result<Option<AuditDetails>, StoreError> {
    let one = Page { entries: 1, bytes: 0 };
    let before = Position(position.0.saturating_sub(1));
    let found = store.since(before, one).await?.into_iter().find(|placed| placed.position == position);
    let Some(placed) = found else { return Ok(None) };
    let Some(record) = record(&placed) else { return Ok(None) };
    if Copies::default().is_copy(store, &placed).await? {
        return Ok(None);
    }
    let place = store.place(placed.log, placed.entry.seq).await?;
    // Every record was read from JSON.
    let entry = serde_json::from_slice(&placed.entry.frame).unwrap_or_default();
    Ok(Some(AuditDetails { record, entry, link: place.and_then(|place| place.link) }))
}

/// The history that a fork took over from its source, as far as it was looked up. Those entries are records of the
/// source.
#[derive(Debug, Default)]
pub(crate) struct Copies(HashMap<SessionId, Seq>);

impl Copies {
    pub(crate) async fn is_copy(&mut self, store: &dyn Store, placed: &Placed) -> Result<bool, StoreError> {
        let LogId::Session(session) = placed.log else { return Ok(false) };
        let upto = if let Some(upto) = self.0.get(&session) {
            *upto
        } else {
            let upto = copied_upto(store, session).await?;
            self.0.insert(session, upto);
            upto
        };
        Ok(placed.entry.seq <= upto)
    }
}

/// The position of the newest entry of the daemon's log that is older than a time. Every record of that time or later
/// has a higher position: entries of a session may be older than their position (a fork takes over entries), those of
/// the daemon's log are not. If the clock was set back meanwhile, records of the time between may be missing.
async fn older_than(store: &dyn Store, since: Millis) -> Result<Position, StoreError> {
    #[derive(Deserialize)]
    struct At {
        at: Millis,
    }
    let one = Page { entries: 1, bytes: 0 };
    let newest = store.load(LogId::Daemon).await?.map_or(Seq::ZERO, |head| head.last);
    // Every entry up to `older` is older, every entry after `newer` is not.
    let (mut older, mut newer) = (Seq::ZERO, newest);
    while older < newer {
        let middle = Seq(older.0 + (newer.0 - older.0) / 2);
        let found = store.read(LogId::Daemon, middle, newer, one).await?;
        let Some(entry) = found.first() else {
            newer = middle;
            continue;
        };
        match serde_json::from_slice::<At>(&entry.frame) {
            Ok(At { at }) if at < since => older = entry.seq,
            _ => newer = middle,
        }
    }
    let place = store.place(LogId::Daemon, older).await?;
    Ok(place.map(|place| place.position).unwrap_or_default())
}
