//! The marker in every measured text, so that a reader can check it: the run, the number, the time of sending.
//!
//! A marker is inside the text of a message and survives any protocol that does not change text. It has a fixed length
//! and contains nothing that JSON escapes.

use rustix::time::{ClockId, clock_gettime};

/// How long a marker is: two signs around 8 + 8 + 16 hexadecimal digits.
pub(crate) const LENGTH: usize = 34;

/// The character at both ends; it occurs nowhere else in measured texts.
const SIGN: u8 = b'@';

/// One measured text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The run it belongs to.
    pub(crate) run: u32,
    /// Its number in the run, from 0.
    pub(crate) number: u32,
    /// When it was sent, by the clock that all processes share.
    pub(crate) sent: u64,
}

impl Marker {
    /// The marker as text.
    pub(crate) fn text(self) -> String {
        format!("@{:08x}{:08x}{:016x}@", self.run, self.number, self.sent)
    }

    /// All markers in a frame, in order.
    pub(crate) fn all(frame: &[u8]) -> impl Iterator<Item = Self> {
        let mut rest = frame;
        std::iter::from_fn(move || {
            loop {
                let start = memchr::memchr(SIGN, rest)?;
                let marker = rest.get(start..start + LENGTH).and_then(Self::read);
                rest = &rest[start + if marker.is_some() { LENGTH } else { 1 }..];
                if marker.is_some() {
                    return marker;
                }
            }
        })
    }

    fn read(text: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(text.get(1..LENGTH - 1)?).ok()?;
        if text[LENGTH - 1] != SIGN {
            return None;
        }
        Some(Self {
            run: u32::from_str_radix(digits.get(..8)?, 16).ok()?,
            number: u32::from_str_radix(digits.get(8..16)?, 16).ok()?,
            sent: u64::from_str_radix(digits.get(16..)?, 16).ok()?,
        })
    }
}

/// The beginning of the last message of a run.
pub(crate) fn end(run: u32) -> String {
    format!("the end of {run:08x}:")
}

/// Nanoseconds on the clock that all processes of the machine share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What a frame does with its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    /// The frame delivers its texts.
    First,
    /// The frame is the finished message that replaces the stream: texts that came before do not count twice.
    Finished,
}

/// What one reader got of a run, text by text.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    run: u32,
    expected: u32,
    seen: Vec<u64>,
    /// The expected next number.
    next: u32,
    /// How many different texts came.
    pub(crate) got: u32,
    /// How many came more than once.
    pub(crate) doubled: u32,
    /// How many came after a later one.
    pub(crate) reordered: u32,
    /// Times from sending to reading, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// When the first was sent.
    pub(crate) first_sent: u64,
    /// When the last was read.
    pub(crate) last_read: u64,
    /// The last message of the run, once it came.
    pub(crate) ended: Option<String>,
}

impl Ledger {
    /// For a run of this many texts.
    pub(crate) fn new(run: u32, expected: u32) -> Self {
        let seen = vec![0; expected as usize / 64 + 1];
        Self { run, expected, seen, ..Self::default() }
    }

    /// How many never came.
    pub(crate) fn lost(&self) -> u32 {
        self.expected - self.got
    }

    /// Whether everything came exactly once.
    pub(crate) fn is_whole(&self) -> bool {
        self.got == self.expected
    }

    /// Counts a frame that was read at this time.
    pub(crate) fn take(&mut self, frame: &[u8], copy: Copy, read_at: u64) {
        for marker in Marker::all(frame) {
            self.take_marker(marker, copy, read_at);
        }
        if self.ended.is_none() {
            let end = end(self.run);
            if let Some(place) = memchr::memmem::find(frame, end.as_bytes()) {
                let words = frame[place + end.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
                self.ended = Some(String::from_utf8_lossy(words).trim().to_owned());
            }
        }
    }

    fn take_marker(&mut self, marker: Marker, copy: Copy, read_at: u64) {
        if marker.run != self.run || marker.number >= self.expected {
            return;
        }
        let (word, bit) = (marker.number as usize / 64, 1 << (marker.number % 64));
        if self.seen[word] & bit != 0 {
            self.doubled += u32::from(copy == Copy::First);
            return;
        }
        self.seen[word] |= bit;
        self.got += 1;
        // A finished message may contain text that a slow reader never saw stream.
        if marker.number < self.next && copy == Copy::First {
            self.reordered += 1;
        }
        self.next = self.next.max(marker.number + 1);
        if marker.number == 0 {
            self.first_sent = marker.sent;
        }
        self.last_read = read_at;
        self.latencies.push(read_at.saturating_sub(marker.sent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(numbers: &[u32]) -> Vec<u8> {
        let texts: Vec<_> =
            numbers.iter().map(|number| Marker { run: 7, number: *number, sent: 100 }.text()).collect();
        format!(r#"{{"who":"a@b","text":"{}"}}"#, texts.join("xx")).into_bytes()
    }

    #[test]
    fn a_ledger_finds_lost_doubled_and_reordered_texts() {
        let mut ledger = Ledger::new(7, 5);
        ledger.take(&frame(&[0, 1]), Copy::First, 150);
        ledger.take(&frame(&[3, 3]), Copy::First, 160);
        ledger.take(&frame(&[2]), Copy::First, 170);
        let verdict = (ledger.got, ledger.lost(), ledger.doubled, ledger.reordered, ledger.is_whole());
        assert_eq!(verdict, (4, 1, 1, 1, false));
        assert_eq!(ledger.latencies, [50, 50, 60, 70]);
        ledger.take(&frame(&[0, 1, 2, 3, 4]), Copy::Finished, 170);
        assert_eq!((ledger.is_whole(), ledger.doubled), (true, 1));
    }

    #[test]
    fn the_last_message_of_a_run_is_known_by_its_number() {
        let mut ledger = Ledger::new(7, 0);
        ledger.take(br#"{"text":"the end of 00000008: 1"}"#, Copy::First, 0);
        assert_eq!(ledger.ended, None);
        ledger.take(br#"{"text":"the end of 00000007: 12 13"}"#, Copy::First, 0);
        assert_eq!(ledger.ended.as_deref(), Some("12 13"));
    }
}
