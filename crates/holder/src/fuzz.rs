//! Properties for any bytes on a holder's socket or in a spool: the body of the fuzz target in fuzz/.

use bytes::BytesMut;

use crate::frames::{FromHolder, ToHolder, put_message, put_report, report_in, take_body};

/// Frames: the same however the bytes are cut; what can be read is the same after it was written again.
pub fn frames(data: &[u8]) {
    let (first, rest) = data.split_at(data.len() / 2);
    assert_eq!(read([data, b""]), read([first, rest]), "it depends on where the bytes are cut");
}

/// What each frame is, up to the first that cannot be read.
fn read(pieces: [&[u8]; 2]) -> Vec<String> {
    let (mut waiting, mut found) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        waiting.extend_from_slice(piece);
        loop {
            match take_body(&mut waiting) {
                Ok(None) => break,
                Ok(Some(body)) => match report_in(body.clone()) {
                    Ok((number, report)) => {
                        let mut again = BytesMut::new();
                        put_report(&mut again, number, report.clone()).unwrap_or_default();
                        let again = take_body(&mut again).ok().flatten().unwrap_or_default();
                        assert!(matches!(report_in(again), Ok(same) if same == (number, report)), "{number}");
                        found.push(format!("report {number}"));
                    }
                    Err(_) => found.push(message(&body)),
                },
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    found.push(error.to_string());
                    return found;
                }
            }
        }
    }
    found
}

fn message(body: &[u8]) -> String {
    if let Ok(message) = serde_json::from_slice::<ToHolder>(body) {
        let mut again = BytesMut::new();
        put_message(&mut again, &message).unwrap_or_default();
        assert!(matches!(serde_json::from_slice::<ToHolder>(&again[4..]), Ok(same) if same == message));
        return "to a holder".into();
    }
    if serde_json::from_slice::<FromHolder>(body).is_ok() {
        "from a holder".into()
    } else {
        "unreadable".into()
    }
}
