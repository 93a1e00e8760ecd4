//! Newline-delimited text: bytes in, lines out, however the bytes were cut.
//!
//! Owns only the bytes of the incomplete line: a line beyond the limit is reported once, with its length and its
//! beginning, and its bytes are dropped as they arrive. A line's content is only checked for UTF-8.

use std::{
    future::{Future as _, poll_fn},
    io,
    ops::Range,
    pin::pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line, in bytes without its newline. An agent's longest real lines carry a picture or a file in base64 (a
/// few MiB); a longer line is a fault and must not fill the memory.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// How much of a line beyond the limit is kept, to show people what it was.
pub const HEAD: usize = 100;

/// How much is read at once from a quiet source; an idle session holds this much.
const SMALL_READ: usize = 8 * 1024;

/// How much is read at once from a busy source: the size of a Linux pipe.
const LARGE_READ: usize = 64 * 1024;

/// One line, without its newline. Blank lines are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Text.
    Text(&'a str),
    /// Not UTF-8; the bytes as they came.
    NotUtf8(&'a [u8]),
    /// Longer than the limit; skipped.
    TooLong {
        /// The line's length.
        length: u64,
        /// The line's first bytes, at most [`HEAD`].
        head: Vec<u8>,
    },
}

impl Line<'_> {
    /// At most the first [`HEAD`] bytes as text, for people.
    pub fn head(&self) -> String {
        match self {
            Self::Text(text) => head(text.as_bytes()),
            Self::NotUtf8(bytes) => head(bytes),
            Self::TooLong { head, .. } => String::from_utf8_lossy(head).into_owned(),
        }
    }
}

/// At most the first [`HEAD`] bytes of a line as text, for people.
pub fn head(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(HEAD)]).into_owned()
}

/// Cuts pushed bytes into lines. After each push, take lines until there is none: the splitter then holds at most one
/// incomplete line within the limit.
#[derive(Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// The beginning of the first line that was not returned yet.
    start: usize,
    /// There is certainly no newline up to here.
    scanned: usize,
    /// A line beyond the limit is being skipped.
    skipping: Option<Skipped>,
    max_line: usize,
}

#[derive(Debug, Default)]
struct Skipped {
    length: u64,
    head: Vec<u8>,
}

impl Skipped {
    fn add(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&part[..part.len().min(room)]);
    }
}

/// A line, found but not borrowed yet.
enum Found {
    Within(Range<usize>),
    Beyond(Skipped),
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new(MAX_LINE)
    }
}

impl Splitter {
    /// A splitter for lines of at most this many bytes.
    pub const fn new(max_line: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, skipping: None, max_line }
    }

    /// More bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.make_room();
        self.buffer.extend_from_slice(bytes);
    }

    /// No more of the current line will come: its held bytes are a complete line from now on.
    pub fn end_line(&mut self) {
        self.push(b"\n");
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let found = self.find()?;
        Some(self.line(found))
    }

    /// The last line, without a newline. For use when the source has ended and [`Self::next_line`] returned none.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        let rest = self.start..self.buffer.len();
        (self.start, self.scanned) = (rest.end, rest.end);
        if let Some(mut skipped) = self.skipping.take() {
            skipped.add(&self.buffer[rest]);
            return Some(self.line(Found::Beyond(skipped)));
        }
        let found = self.judge(rest)?;
        Some(self.line(found))
    }

    /// The length so far of the line beyond the limit that is being skipped; zero if there is none.
    pub fn skipped(&self) -> u64 {
        self.skipping.as_ref().map_or(0, |skipped| skipped.length)
    }

    /// Moves the rest to the front, so that the buffer does not grow.
    fn make_room(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
    }

    fn find(&mut self) -> Option<Found> {
        loop {
            let Some(newline) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.hold();
                return None;
            };
            let line = self.start..self.scanned + newline;
            (self.start, self.scanned) = (line.end + 1, line.end + 1);
            if let Some(mut skipped) = self.skipping.take() {
                skipped.add(&self.buffer[line]);
                return Some(Found::Beyond(skipped));
            }
            if let Some(found) = self.judge(line) {
                return Some(found);
            }
        }
    }

    /// The rest holds no newline: keeps it, or drops it if it is beyond the limit.
    fn hold(&mut self) {
        self.scanned = self.buffer.len();
        let rest = &self.buffer[self.start..];
        if self.skipping.is_none() && rest.len() <= self.max_line {
            return;
        }
        self.skipping.get_or_insert_default().add(rest);
        self.buffer = Vec::new();
        (self.start, self.scanned) = (0, 0);
    }

    /// The kind of a complete line; `None` if it is blank.
    fn judge(&self, line: Range<usize>) -> Option<Found> {
        let bytes = &self.buffer[line.clone()];
        if bytes.len() > self.max_line {
            let mut skipped = Skipped::default();
            skipped.add(bytes);
            return Some(Found::Beyond(skipped));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let carriage_return = usize::from(bytes.last() == Some(&b'\r'));
        Some(Found::Within(line.start..line.end - carriage_return))
    }

    fn line(&self, found: Found) -> Line<'_> {
        match found {
            Found::Beyond(Skipped { length, head }) => Line::TooLong { length, head },
            Found::Within(range) => {
                let bytes = &self.buffer[range];
                std::str::from_utf8(bytes).map_or(Line::NotUtf8(bytes), Line::Text)
            }
        }
    }
}

/// The lines of a byte stream.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    splitter: Splitter,
    /// How much to read at once: doubled while the source fills it, small again when it does not.
    read: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most this many bytes.
    pub const fn new(source: R, max_line: usize) -> Self {
        Self { source, splitter: Splitter::new(max_line), read: SMALL_READ, ended: false }
    }

    /// The next line that is already buffered, without reading.
    pub fn buffered(&mut self) -> Option<Line<'_>> {
        self.splitter.next_line()
    }

    /// The length so far of the line beyond the limit that is being skipped.
    pub fn skipped(&self) -> u64 {
        self.splitter.skipped()
    }

    /// Reads once. `false` when the source has ended. Cancel-safe: bytes are kept or not yet taken.
    ///
    /// Call this only after [`Self::buffered`] returned nothing; otherwise the buffer grows beyond one line.
    pub async fn fill(&mut self) -> io::Result<bool> {
        poll_fn(|context| self.poll_fill(context)).await
    }

    /// [`Self::fill`], for callers that poll.
    pub fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.splitter.make_room();
        let buffer = &mut self.splitter.buffer;
        if buffer.is_empty() && buffer.capacity() > self.read.max(SMALL_READ) {
            // One long line must not keep its memory for ever.
            *buffer = Vec::with_capacity(self.read);
        }
        buffer.reserve(self.read);
        let mut within = (&mut self.source).take(self.read as u64);
        // A read that is not ready has taken nothing, so the next poll may begin another read.
        let count = ready!(pin!(within.read_buf(buffer)).poll(context))?;
        self.ended = count == 0;
        self.read = if count == self.read { (self.read * 2).min(LARGE_READ) } else { SMALL_READ };
        Poll::Ready(Ok(!self.ended))
    }

    /// The next line; `None` when the source has ended. Cancel-safe.
    pub async fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let found = loop {
            match self.splitter.find() {
                Some(found) => break found,
                None if self.ended => return Ok(self.splitter.finish()),
                None => {
                    self.fill().await?;
                }
            }
        };
        Ok(Some(self.splitter.line(found)))
    }

    /// No more will be read: the held bytes are the last line that [`Self::buffered`] returns.
    pub fn end_line(&mut self) {
        self.splitter.end_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: usize = 8;

    fn owned(line: &Line<'_>) -> String {
        match line {
            Line::Text(text) => format!("text {text}"),
            Line::NotUtf8(bytes) => format!("not utf-8 {bytes:?}"),
            Line::TooLong { length, head } => format!("too long {length} {head:?}"),
        }
    }

    fn split(pieces: &[&[u8]], max_line: usize) -> Vec<String> {
        let mut splitter = Splitter::new(max_line);
        let mut lines = vec![];
        for piece in pieces {
            splitter.push(piece);
            while let Some(line) = splitter.next_line() {
                lines.push(owned(&line));
            }
            assert!(
                splitter.buffer.len() - splitter.start <= max_line,
                "more is held than one line within the limit"
            );
        }
        lines.extend(splitter.finish().as_ref().map(owned));
        lines
    }

    // covers: 000-008
    #[test]
    fn several_lines_in_one_piece_come_one_by_one_and_blank_ones_are_skipped() {
        assert_eq!(split(&[b"{}\n\n  \n[1]\r\n\r\nlast"], 100), ["text {}", "text [1]", "text last"]);
    }

    #[test]
    fn a_line_beyond_the_limit_is_reported_once_and_the_next_is_read() {
        let lines = split(&[b"123456789", b"0", b"\nok\n", b"12345678\n"], SMALL);
        assert_eq!(
            lines,
            [format!("too long 10 {:?}", b"1234567890"), "text ok".into(), "text 12345678".into()]
        );
    }

    #[test]
    fn only_the_head_of_a_line_beyond_the_limit_is_kept() {
        let mut splitter = Splitter::new(200);
        for _ in 0..100 {
            splitter.push(&[b'x'; 1000]);
            assert_eq!(splitter.next_line(), None);
            assert!(splitter.buffer.capacity() <= 1200);
        }
        assert_eq!(splitter.skipped(), 100_000);
        assert_eq!(splitter.finish(), Some(Line::TooLong { length: 100_000, head: vec![b'x'; HEAD] }));
        assert_eq!(splitter.finish(), None);
    }

    #[test]
    fn a_line_that_is_ended_without_its_newline_is_complete() {
        let mut splitter = Splitter::new(SMALL);
        splitter.push(b"half");
        splitter.end_line();
        splitter.push(b"other\n");
        assert_eq!(splitter.next_line(), Some(Line::Text("half")));
        assert_eq!(splitter.next_line(), Some(Line::Text("other")));
        splitter.end_line();
        assert_eq!(splitter.next_line(), None, "nothing was begun");
        splitter.push(b"1234567890");
        assert_eq!(splitter.next_line(), None);
        splitter.end_line();
        assert_eq!(splitter.next_line(), Some(Line::TooLong { length: 10, head: b"1234567890".to_vec() }));
        assert_eq!(splitter.skipped(), 0);
    }

    #[test]
    fn bytes_that_are_not_utf_8_cost_one_line_only() {
        let lines = split(&[b"a\xff\n", b"b\n"], 100);
        assert_eq!(lines, [format!("not utf-8 {:?}", b"a\xff"), "text b".into()]);
        assert_eq!(Line::NotUtf8(b"a\xff").head(), "a\u{fffd}");
    }

    #[test]
    fn a_character_cut_in_two_is_whole_again() {
        assert_eq!(split(&[b"\xe2\x82", b"\xac\n"], 100), ["text \u{20ac}"]);
    }

    #[tokio::test]
    async fn a_stream_gives_its_lines_and_the_unfinished_last_one() {
        let long = "x".repeat(3 * LARGE_READ);
        let text = format!("one\n{long}\nlast");
        let mut lines = Lines::new(text.as_bytes(), MAX_LINE);
        let mut got = vec![];
        while let Some(line) = lines.next_line().await.unwrap() {
            got.push(owned(&line));
        }
        assert_eq!(got, ["text one".into(), format!("text {long}"), "text last".into()]);
        assert_eq!(lines.next_line().await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_long_line_does_not_keep_its_memory_for_ever() {
        let (mut there, here) = tokio::io::duplex(MAX_LINE);
        let mut lines = Lines::new(here, MAX_LINE);
        let write = |text: String| async move {
            tokio::io::AsyncWriteExt::write_all(&mut there, text.as_bytes()).await.unwrap();
            there
        };
        let there = write(format!("{}\n", "x".repeat(1024 * 1024))).await;
        assert!(matches!(lines.next_line().await, Ok(Some(Line::Text(_)))));
        assert!(lines.splitter.buffer.capacity() > 1024 * 1024);
        assert!(tokio::time::timeout(std::time::Duration::ZERO, lines.next_line()).await.is_err());
        assert!(lines.splitter.buffer.capacity() <= 2 * LARGE_READ);
        drop(there);
    }

    proptest! {
        #[test]
        fn any_cut_of_the_bytes_gives_the_same_lines(
            pieces in proptest::collection::vec(
                proptest::collection::vec(proptest::sample::select(b"ab\n\r \xc3\xa9\xff".as_slice()), 0..12), 0..12),
        ) {
            let whole = pieces.concat();
            let single: Vec<&[u8]> = whole.chunks(1).collect();
            let given: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let once = split(&[&whole], SMALL);
            prop_assert_eq!(&split(&given, SMALL), &once);
            prop_assert_eq!(&split(&single, SMALL), &once);
        }
    }
}
