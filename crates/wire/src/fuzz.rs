//! What must hold for any bytes: the bodies of the fuzz targets in fuzz/, and of a test that replays their seeds.
//!
//! Each takes the fuzzer's input and panics if something is wrong. docs/fuzzing.md explains how to add one.

use crate::{limits, ndjson, sse};

/// The longest line and the largest event in these targets. Small, so that the fuzzer soon goes beyond them.
const MOST: [usize; 4] = [0, 7, 64, 4096];

/// A line that owns its text.
#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Text(String),
    NotUtf8(Vec<u8>),
    TooLong(u64, Vec<u8>),
}

impl From<ndjson::Line<'_>> for Owned {
    fn from(line: ndjson::Line<'_>) -> Self {
        match line {
            ndjson::Line::Text(text) => Self::Text(text.to_owned()),
            ndjson::Line::NotUtf8(bytes) => Self::NotUtf8(bytes.to_vec()),
            ndjson::Line::TooLong { length, head } => Self::TooLong(length, head),
        }
    }
}

/// The first byte chooses a limit and how the rest is cut; returns the limit, the rest, and its pieces.
fn cut(data: &[u8]) -> (usize, &[u8], Vec<&[u8]>) {
    let Some((&first, rest)) = data.split_first() else { return (MOST[0], data, vec![]) };
    let most = MOST[usize::from(first & 3)];
    // 1 to 64 bytes at once, so that every line is cut somewhere.
    (most, rest, rest.chunks(usize::from(first >> 2) + 1).collect())
}

/// Newline-delimited text: the same lines however the bytes are cut, and the lines that a plain `split` gives.
pub fn ndjson(data: &[u8]) {
    let (max_line, whole, pieces) = cut(data);
    let mut splitter = ndjson::Splitter::new(max_line);
    let mut lines: Vec<Owned> = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        while let Some(line) = splitter.next_line() {
            lines.push(line.into());
        }
    }
    lines.extend(splitter.finish().map(Owned::from));
    assert_eq!(splitter.finish(), None, "the end comes once");
    assert_eq!(lines, plainly(whole, max_line));
}

/// The lines, found in the simplest way.
fn plainly(whole: &[u8], max_line: usize) -> Vec<Owned> {
    let judge = |line: &[u8]| {
        if line.len() > max_line {
            let head = line[..line.len().min(ndjson::HEAD)].to_vec();
            return Some(Owned::TooLong(line.len() as u64, head));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(match std::str::from_utf8(line) {
            Ok(text) => Owned::Text(text.to_owned()),
            Err(_) => Owned::NotUtf8(line.to_vec()),
        })
    };
    whole.split(|byte| *byte == b'\n').filter_map(judge).collect()
}

/// Server-sent events: the same events however the bytes are cut, and written events are read back.
pub fn sse(data: &[u8]) {
    let (max_event, whole, pieces) = cut(data);
    let decode = |pieces: &[&[u8]]| {
        let (mut decoder, mut found) = (sse::Decoder::new(max_event), Vec::new());
        for piece in pieces {
            decoder.push(piece, |decoded| found.push(decoded));
        }
        found
    };
    let found = decode(&pieces);
    assert_eq!(found, decode(&[whole]), "cut otherwise, the same");
    for decoded in found {
        let sse::Decoded::Event(event) = decoded else { continue };
        let mut written = Vec::new();
        event.encode(&mut written);
        // A NUL, which clients do not accept in an id, is written as a space.
        let event = sse::Event { event: event.event.map(|kind| kind.replace('\0', " ")), ..event };
        let mut again = Vec::new();
        sse::Decoder::default().push(&written, |decoded| again.push(decoded));
        assert_eq!(again, [sse::Decoded::Event(event)], "written and read back");
    }
}

/// The limit on nesting: the JSON parser accepts everything within the limit without reaching its own limit, and deeper
/// JSON is always refused.
pub fn depth(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else {
        let _ = limits::check_depth(data, limits::MAX_DEPTH);
        return;
    };
    let levels = levels(&value);
    assert_eq!(limits::check_depth(data, levels), Ok(()));
    if levels > 0 {
        assert!(limits::check_depth(data, levels - 1).is_err(), "{levels} levels are more than one fewer");
    }
}

fn levels(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        serde_json::Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        type Target = fn(&[u8]);
        let targets: [(&str, Target); 3] = [("ndjson", ndjson), ("sse", sse), ("depth", depth)];
        for (name, target) in targets {
            let files = std::fs::read_dir(format!("{folder}/{name}")).unwrap();
            let played = files.map(|file| target(&std::fs::read(file.unwrap().path()).unwrap())).count();
            assert!(played > 0, "{name} has no seeds");
        }
    }
}
