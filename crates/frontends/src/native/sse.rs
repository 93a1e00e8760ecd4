//! Events by SSE: the same entries as by WebSocket, as a stream that a browser's `EventSource` or `curl` reads.
//!
//! The id of an event is the number of its entry, so `Last-Event-ID` continues a broken stream. One task per stream; at
//! most one chunk is queued.

use axum::{
    extract::{Path, State},
    response::Response,
};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Uri};
use portolan_core::{
    Refusal, RefusalCode, Seq,
    log::delivery::{Closed, Delivery, Mode, Presence, Start},
    registry::{DaemonReader, SessionReader},
};
use portolan_protocol::ClosingReason;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tracing::Instrument as _;

use super::{
    Native,
    rest::{flag, query_of, session_of},
};
use portolan_host::door::{Denied, Guest, Stay};
use portolan_host::sse::{HEARTBEAT, STALLED};

#[derive(Deserialize)]
struct StreamQuery {
    after: Option<Seq>,
    tail: Option<u32>,
    #[serde(default, deserialize_with = "flag")]
    items_only: bool,
}

impl StreamQuery {
    /// Where to begin: the last event of a reconnecting client overrides its URL.
    fn start(&self, headers: &HeaderMap) -> Result<Start, Denied> {
        let invalid = |message| Err(Refusal::new(RefusalCode::Invalid, message).into());
        if let Some(last) = headers.get("last-event-id") {
            return match last.to_str().ok().and_then(|last| last.parse().ok()) {
                Some(last) => Ok(Start::After(Seq(last))),
                None => invalid("the header Last-Event-ID must be the number of an entry"),
            };
        }
        // The last seen entry overrides the wanted number of entries, in the URL as in the header.
        Ok(match (self.after, self.tail) {
            (Some(after), _) => Start::After(after),
            (None, Some(tail)) => Start::Tail(tail),
            (None, None) => Start::After(Seq::ZERO),
        })
    }
}

pub(super) async fn session(
    State(native): State<Native>,
    Guest(who): Guest,
    stay: Stay,
    Path(session): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    let query: StreamQuery = query_of(&uri)?;
    let start = query.start(&headers)?;
    let session = session_of(&native, &who, &session).await?;
    let mode = if query.items_only { Mode::Items } else { Mode::Every };
    let reader = native.registry.attach(&who, session, start, mode).await?;
    Ok(stream_of(native, stay, reader))
}

pub(super) async fn daemon(
    State(native): State<Native>,
    Guest(who): Guest,
    stay: Stay,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Denied> {
    let query: StreamQuery = query_of(&uri)?;
    let reader = native.registry.watch(&who, query.start(&headers)?).await?;
    Ok(stream_of(native, stay, reader))
}

/// A reader of either log, as chunks of an event stream.
trait Source: Send + 'static {
    /// The next chunk as text, with its number of entries. Cancel-safe.
    fn next_chunk(&mut self) -> impl Future<Output = (Chunk, usize)> + Send;
}

enum Chunk {
    More(Bytes),
    Last(Bytes),
}

impl Source for SessionReader {
    async fn next_chunk(&mut self) -> (Chunk, usize) {
        chunk_of(self.next().await, "entry", "snapshot")
    }
}

impl Source for DaemonReader {
    async fn next_chunk(&mut self) -> (Chunk, usize) {
        chunk_of(self.next().await, "daemon", "daemon_snapshot")
    }
}

#[derive(Serialize)]
struct PresenceData<'a> {
    present: &'a [Presence],
}

#[derive(Serialize)]
struct EndedData {
    reason: Closed,
}

fn chunk_of<E, S>(delivery: Delivery<E, S>, entry: &str, snapshot: &str) -> (Chunk, usize)
where
    E: Serialize + Clone + DeserializeOwned,
{
    match delivery {
        Delivery::Entries(entries) => {
            let mut out = BytesMut::new();
            for piece in &entries {
                event(&mut out, entry, Some(piece.seq()), piece.frame());
            }
            (Chunk::More(out.freeze()), entries.len())
        }
        Delivery::Snapshot(state) => (Chunk::More(one(snapshot, Some(state.seq), &state.frame)), 0),
        Delivery::Presence(present) => {
            (Chunk::More(one("presence", None, &json(&PresenceData { present: &present }))), 0)
        }
        Delivery::Closed(reason) => (Chunk::Last(one("ended", None, &json(&EndedData { reason }))), 0),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Our own types always serialise; if one does not, the event still arrives, without its data.
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

fn one(name: &str, id: Option<Seq>, data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 64);
    event(&mut out, name, id, data);
    out.freeze()
}

/// Adds one event. `data` is JSON on one line: our JSON never has a line end in it.
fn event(out: &mut BytesMut, name: &str, id: Option<Seq>, data: &[u8]) {
    if let Some(id) = id {
        out.put_slice(format!("id: {id}\n").as_bytes());
    }
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\ndata: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
}

fn stream_of(native: Native, stay: Stay, source: impl Source) -> Response {
    let (chunks, response) = portolan_host::sse::response();
    let span = tracing::debug_span!("native stream");
    let tracker = native.connections.clone();
    tracker.spawn(pump(native, stay, source, chunks).instrument(span));
    response
}

#[derive(Serialize)]
struct ClosingData {
    reason: ClosingReason,
    message: &'static str,
    resumable: bool,
}

impl ClosingData {
    fn of(reason: ClosingReason) -> Self {
        Self { reason, message: reason.message(), resumable: reason.is_resumable() }
    }
}

/// Passes chunks from the reader to the response until one of them ends.
async fn pump(native: Native, stay: Stay, mut source: impl Source, chunks: mpsc::Sender<Bytes>) {
    let _counted = native.metrics.streaming();
    // Answer at once, even if there are no events yet, so that the client knows that it is connected.
    let mut next = Bytes::from_static(b": portolan\n\n");
    loop {
        match timeout(STALLED, chunks.send(next)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                native.metrics.closed(ClosingReason::TooSlow);
                return;
            }
        }
        let closing = tokio::select! {
            (chunk, entries) = source.next_chunk() => {
                native.metrics.delivered(entries);
                match chunk {
                    Chunk::More(bytes) => {
                        next = bytes;
                        continue;
                    }
                    Chunk::Last(bytes) => {
                        let _ = timeout(STALLED, chunks.send(bytes)).await;
                        return;
                    }
                }
            }
            () = sleep_until(Instant::now() + HEARTBEAT) => {
                next = Bytes::from_static(b":\n\n");
                continue;
            }
            () = chunks.closed() => return,
            _ = stay.over() => ClosingReason::TokenGone,
            () = native.stopping.cancelled() => ClosingReason::Stopping,
        };
        native.metrics.closed(closing);
        let last = one("closing", None, &json(&ClosingData::of(closing)));
        let _ = timeout(STALLED, chunks.send(last)).await;
        return;
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn start(query: &str, last: Option<&str>) -> Result<Start, Denied> {
        let mut headers = HeaderMap::new();
        if let Some(last) = last {
            headers.insert("last-event-id", HeaderValue::from_str(last).unwrap());
        }
        query_of::<StreamQuery>(&format!("/x?{query}").parse().unwrap())?.start(&headers)
    }

    #[test]
    fn what_a_client_saw_last_counts_before_what_its_address_says() {
        assert_eq!(start("after=3", Some("9")), Ok(Start::After(Seq(9))));
        assert_eq!(start("after=3", None), Ok(Start::After(Seq(3))));
        assert_eq!(start("tail=5", None), Ok(Start::Tail(5)));
        assert_eq!(start("tail=5&after=3", None), Ok(Start::After(Seq(3))));
        assert_eq!(start("", None), Ok(Start::After(Seq::ZERO)));
    }

    #[test]
    fn a_start_that_makes_no_sense_is_refused() {
        for (query, last) in [("after=x", None), ("", Some("abc")), ("tail=-1", None)] {
            let denied = start(query, last).unwrap_err();
            assert_eq!(denied.refusal.code, RefusalCode::Invalid, "{query} {last:?}");
        }
    }

    #[test]
    fn an_event_has_the_number_of_its_entry_as_id() {
        assert_eq!(one("entry", Some(Seq(7)), b"{}"), "id: 7\nevent: entry\ndata: {}\n\n");
        assert_eq!(one("presence", None, b"[]"), "event: presence\ndata: []\n\n");
    }
}
