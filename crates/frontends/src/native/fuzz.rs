//! Properties for any input of a client: the bodies of the fuzz targets in fuzz/, and of a test that replays their
//! seeds.

use axum::{body::Body, extract::FromRequest as _};
use futures_util::FutureExt as _;
use portolan_core::{Action, RefusalCode, SessionSpec};
use portolan_protocol::{CreateSession, CreateToken, Greeting, SendCommand};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    parse::{client_name, parse, parse_greeting},
    rest::{
        agents::AgentsQuery,
        query_of,
        sessions::{EntriesQuery, ListQuery},
    },
};
use portolan_host::door::JsonBody;
use portolan_wire::websocket::{Inbound, Received, Violation};

/// A WebSocket text: a frame that round-trips, or an error that says what is wrong.
pub fn frame(data: &[u8]) {
    if let Ok(Greeting::Hello { client, .. }) = parse_greeting(data) {
        let name = client_name(&client.name);
        assert!((1..=32).contains(&name.chars().count()) && !name.chars().any(char::is_control));
    }
    match parse(data) {
        Ok(frame) => {
            let written = serde_json::to_vec(&frame).unwrap_or_default();
            assert_eq!(parse(&written), Ok(frame), "written and read back");
        }
        Err(unreadable) => {
            assert_eq!(unreadable.refusal.code, RefusalCode::Invalid);
            let message = &unreadable.refusal.message;
            assert!(
                (1..2000).contains(&message.len()) && !message.chars().any(char::is_control),
                "{message:?}"
            );
        }
    }
}

/// The body of a REST request, through the real code path. The first byte selects the kind of body, or a query.
pub fn body(data: &[u8]) {
    let (choice, data) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    match choice {
        b'c' => body_of::<CreateSession>(data),
        b't' => body_of::<CreateToken>(data),
        b's' => body_of::<SessionSpec>(data),
        b'a' => body_of::<Action>(data),
        b'q' => queries(data),
        _ => body_of::<SendCommand>(data),
    }
}

fn body_of<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    let read = |bytes: Vec<u8>| {
        let request = http::Request::post("/").header("content-type", "application/json");
        let request = request.body(Body::from(bytes)).unwrap_or_default();
        // The whole body is available, so nothing waits.
        JsonBody::<T>::from_request(request, &()).now_or_never()
    };
    match read(data.to_vec()) {
        Some(Ok(JsonBody(body))) => {
            let written = serde_json::to_vec(&body).unwrap_or_default();
            match read(written) {
                Some(Ok(JsonBody(again))) => assert_eq!(again, body, "written and read back"),
                other => panic!("written, but not read back: {:?}", other.map(|it| it.map(|_| ()))),
            }
        }
        Some(Err(denied)) => {
            let message = &denied.refusal.message;
            assert!(denied.status.is_client_error() && (1..2000).contains(&message.len()), "{denied:?}");
        }
        None => panic!("waits for what is there"),
    }
}

fn queries(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(uri) = format!("/?{text}").parse::<http::Uri>() else { return };
    let _ = query_of::<ListQuery>(&uri).map(|_| ());
    let _ = query_of::<EntriesQuery>(&uri).map(|_| ());
    let _ = query_of::<AgentsQuery>(&uri).map(|_| ());
}

/// Bytes of a WebSocket: the same messages however they are cut, and none above the limit.
pub fn socket(data: &[u8]) {
    const LIMIT: usize = 300;
    let (step, data) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let whole = received(LIMIT, std::iter::once(data));
    assert_eq!(received(LIMIT, data.chunks(step)), whole, "cut otherwise, the same");
    for one in whole.0 {
        if let Received::Message(message) = one {
            assert!(message.len() <= LIMIT);
        }
    }
}

fn received<'a>(limit: usize, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Received>, Option<Violation>) {
    let (mut inbound, mut received) = (Inbound::new(limit), Vec::new());
    for piece in pieces {
        inbound.extend(piece);
        loop {
            match inbound.received() {
                Ok(Some(one)) => received.push(one),
                Ok(None) => break,
                Err(violation) => return (received, Some(violation)),
            }
        }
    }
    (received, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        type Target = fn(&[u8]);
        let targets: [(&str, Target); 3] =
            [("native_frame", frame), ("rest_body", body), ("websocket", socket)];
        for (name, target) in targets {
            let files = std::fs::read_dir(format!("{folder}/{name}")).unwrap();
            let played = files.map(|file| target(&std::fs::read(file.unwrap().path()).unwrap())).count();
            assert!(played > 0, "{name} has no seeds");
        }
    }
}
