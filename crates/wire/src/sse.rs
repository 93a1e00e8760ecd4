//! Server-sent events: `text/event-stream` written, and read back.
//!
//! Whatever the text holds, it cannot make the encoder write a second event. The decoder takes any bytes, cut anywhere,
//! and holds at most one event within its limit.

use std::mem;

/// The largest event that the decoder takes, in bytes of data: as large as the longest line of an agent.
pub const MAX_EVENT: usize = crate::ndjson::MAX_LINE;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The id that a client sends back as `Last-Event-ID` to continue from here.
    pub id: Option<String>,
    /// The kind; `message` when absent.
    pub event: Option<String>,
    /// The data. Line ends arrive as `\n`.
    pub data: String,
}

impl Event {
    /// Writes the event to the end of `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(self.id.as_deref(), self.event.as_deref(), self.data.as_bytes(), out);
    }
}

/// Writes an event to the end of `out`, with data from existing text.
pub fn encode(id: Option<&str>, event: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
    for (name, value) in [("id", id), ("event", event)] {
        if let Some(value) = value {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            // A line end here would begin another field, and clients ignore an id with NUL.
            out.extend(value.bytes().map(|byte| if matches!(byte, b'\n' | b'\r' | 0) { b' ' } else { byte }));
            out.push(b'\n');
        }
    }
    let mut rest = data;
    loop {
        out.extend_from_slice(b"data: ");
        let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
            out.extend_from_slice(rest);
            break;
        };
        out.extend_from_slice(&rest[..end]);
        out.push(b'\n');
        let pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(pair)..];
    }
    out.extend_from_slice(b"\n\n");
}

/// A comment, which clients skip: it keeps proxies from closing a quiet stream.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// Bytes in, events out, however the bytes were cut.
#[derive(Debug)]
pub struct Decoder {
    line: Vec<u8>,
    after_return: bool,
    first: bool,
    last_id: Option<String>,
    kind: Option<String>,
    data: Vec<u8>,
    has_data: bool,
    too_large: bool,
    max_event: usize,
}

/// The decoder's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// An event.
    Event(Event),
    /// The server asks to wait this many milliseconds before reconnecting.
    Retry(u64),
    /// An event beyond the limit; skipped.
    TooLarge,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(MAX_EVENT)
    }
}

impl Decoder {
    /// A decoder for events of at most this many bytes.
    pub const fn new(max_event: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            first: true,
            last_id: None,
            kind: None,
            data: Vec::new(),
            has_data: false,
            too_large: false,
            max_event,
        }
    }

    /// Adds bytes; `found` is called with everything that they complete.
    pub fn push(&mut self, mut bytes: &[u8], mut found: impl FnMut(Decoded)) {
        while !bytes.is_empty() {
            if mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            self.hold(&bytes[..end.unwrap_or(bytes.len())]);
            let Some(end) = end else { return };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = mem::take(&mut self.line);
            self.take_line(&line, &mut found);
            // The next line uses the same memory.
            self.line = line;
            self.line.clear();
        }
    }

    /// Part of a line, within the limit.
    fn hold(&mut self, part: &[u8]) {
        // Room for the field's name in addition to the largest data.
        let room = (self.max_event + 64).saturating_sub(self.line.len());
        if part.len() > room {
            self.too_large = true;
        }
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn take_line(&mut self, line: &[u8], found: &mut impl FnMut(Decoded)) {
        let line = if mem::take(&mut self.first) {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.dispatch(found);
            return;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            None => (line, &b""[..]),
            Some(colon) => {
                (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..]))
            }
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                if self.data.len() + value.len() > self.max_event {
                    self.too_large = true;
                    self.data = Vec::new();
                } else {
                    self.data.extend_from_slice(value);
                }
            }
            b"event" => {
                self.kind = Some(String::from_utf8_lossy(value).into_owned()).filter(|kind| !kind.is_empty());
            }
            b"id" if !value.contains(&0) => {
                self.last_id = Some(String::from_utf8_lossy(value).into_owned()).filter(|id| !id.is_empty());
            }
            b"retry" => {
                let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                let value = digits.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten();
                if let Some(wait) = value {
                    found(Decoded::Retry(wait));
                }
            }
            // Comments (an empty name) and fields of the future.
            _ => {}
        }
    }

    fn dispatch(&mut self, found: &mut impl FnMut(Decoded)) {
        let (kind, data) = (self.kind.take(), mem::take(&mut self.data));
        let has_data = mem::take(&mut self.has_data);
        if mem::take(&mut self.too_large) {
            found(Decoded::TooLarge);
        } else if has_data {
            let data = String::from_utf8(data)
                .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
            found(Decoded::Event(Event { id: self.last_id.clone(), event: kind, data }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Vec<Decoded> {
        let mut decoder = Decoder::default();
        let mut all = vec![];
        for piece in pieces {
            decoder.push(piece, |found| all.push(found));
        }
        all
    }

    fn event(id: Option<&str>, event: Option<&str>, data: &str) -> Event {
        Event { id: id.map(Into::into), event: event.map(Into::into), data: data.into() }
    }

    #[test]
    fn an_event_is_written_as_the_specification_says() {
        let mut out = vec![];
        event(Some("7"), Some("entry"), "one\ntwo").encode(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "id: 7\nevent: entry\ndata: one\ndata: two\n\n");
    }

    #[test]
    fn a_field_cannot_forge_another_event() {
        let mut out = vec![];
        event(Some("1\n\ndata: forged"), Some("x\rid: 2"), "d\r\rdata: y").encode(&mut out);
        let expected = event(Some("1  data: forged"), Some("x id: 2"), "d\n\ndata: y");
        assert_eq!(decode(&[&out]), [Decoded::Event(expected)]);
    }

    #[test]
    fn every_sort_of_line_end_comment_and_unknown_field_is_read() {
        let stream = b"\xef\xbb\xbf: hello\r\ndata:a\rdata: b\nwhat: ever\nretry: 50\n\nid: 5\ndata\n\nevent: e\n\ndata: z\n\n";
        assert_eq!(
            decode(&[stream]),
            [
                Decoded::Retry(50),
                Decoded::Event(event(None, None, "a\nb")),
                Decoded::Event(event(Some("5"), None, "")),
                Decoded::Event(event(Some("5"), None, "z")),
            ]
        );
    }

    #[test]
    fn an_event_beyond_the_limit_is_reported_and_the_next_is_read() {
        let mut decoder = Decoder::new(10);
        let mut all = vec![];
        decoder.push(&[b"data: ".as_slice(), &[b'x'; 1000]].concat(), |found| all.push(found));
        assert!(decoder.line.len() < 100);
        decoder.push(b"\ndata: 123456\ndata: 123456\n\ndata: ok\n\n", |found| all.push(found));
        assert_eq!(all, [Decoded::TooLarge, Decoded::Event(event(None, None, "ok"))]);
    }

    proptest! {
        #[test]
        fn a_written_event_reads_back_however_it_is_cut(
            id in proptest::option::of("[a-z0-9]{1,5}"),
            kind in proptest::option::of("[a-z]{1,5}"),
            data in "[ -~\n\u{e9}\u{20ac}]{0,40}",
            cut in 0_usize..80,
        ) {
            let event = Event { id, event: kind, data };
            let mut out = vec![];
            event.encode(&mut out);
            let (left, right) = out.split_at(cut.min(out.len()));
            prop_assert_eq!(decode(&[left, right]), [Decoded::Event(event)]);
        }

        #[test]
        fn any_cut_of_any_bytes_gives_the_same_events(
            bytes in proptest::collection::vec(proptest::sample::select(b"dat:id \r\n\xff1".as_slice()), 0..80),
        ) {
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(decode(&single), decode(&[&bytes]));
        }
    }
}
