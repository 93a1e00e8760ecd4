//! The spool: an agent's reports on disk, from the first that no daemon has recorded to the last.
//!
//! The spool outlives its holder: who finds the holder dead reads the spool to its end. It is bounded; a full spool makes
//! the agent wait, and nothing is dropped. If the disk takes no more, the newest reports wait in memory.
//!
//! Positions are counted from the first report of the agent's start and never change; the file begins at one of them.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufReader, Read as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use portolan_core::{Generation, ports::Report};

use crate::frames::{self, MAX_BODY};

/// Bytes of reports that no daemon has recorded. Beyond this the agent waits.
pub(crate) const BOUND: u64 = 64 * 1024 * 1024;

/// Bytes that wait in memory because the disk takes no more. Beyond this the agent waits.
const IN_MEMORY: usize = 1024 * 1024;

/// Further bytes for the last reports of an agent that is being ended: it must come to its end in any case.
const LAST_REPORTS: usize = 4 * 1024 * 1024;

/// A file that is smaller than this is not emptied when everything in it is recorded: emptying costs a system call.
const KEEP: u64 = 256 * 1024;

/// Recorded bytes at the beginning of the file that are worth a copy of the rest.
const COMPACT: u64 = 4 * 1024 * 1024;

/// A position is remembered every so many bytes: enough to find where recorded reports end.
const INDEX_EVERY: u64 = 64 * 1024;

/// The beginning of the file: its kind and version, then the number of the agent's start.
const HEAD: u64 = 16;
const MAGIC: &[u8; 8] = b"PRTSPL01";

#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    generation: Generation,
    file: File,
    /// The position of the file's first report.
    base: u64,
    /// Bytes of reports in the file.
    in_file: u64,
    /// Bytes after those, which the disk has not taken.
    tail: BytesMut,
    /// Up to this position everything is recorded.
    recorded_to: u64,
    /// Numbers of reports and their positions, oldest first.
    index: VecDeque<(u64, u64)>,
    /// The number of the last report.
    last: u64,
    /// The position of the last report.
    last_at: u64,
}

impl Spool {
    /// An empty spool for this start of the agent, in place of any other.
    pub(crate) fn create(path: &Path, generation: Generation) -> io::Result<Self> {
        let file = new_file(path, generation)?;
        Ok(Self {
            path: path.to_path_buf(),
            generation,
            file,
            base: 0,
            in_file: 0,
            tail: BytesMut::new(),
            recorded_to: 0,
            index: VecDeque::new(),
            last: 0,
            last_at: 0,
        })
    }

    /// The number of the last report.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The position after the last report.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.in_file + self.tail.len() as u64
    }

    /// Bytes of reports that no daemon has recorded.
    pub(crate) fn unrecorded(&self) -> u64 {
        self.end() - self.recorded_to
    }

    /// No further report may come.
    pub(crate) fn is_full(&self) -> bool {
        self.unrecorded() >= BOUND || self.tail.len() >= IN_MEMORY
    }

    /// Not even the last reports of an agent that is being ended have room.
    pub(crate) fn is_overfull(&self) -> bool {
        self.unrecorded() >= BOUND + LAST_REPORTS as u64 || self.tail.len() >= IN_MEMORY + LAST_REPORTS
    }

    /// Some reports are in memory only.
    pub(crate) fn is_behind(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Adds a report and returns its frame. [`Spool::write`] brings it to the disk.
    pub(crate) fn add(&mut self, report: Report) -> io::Result<Bytes> {
        let (number, at) = (self.last + 1, self.end());
        let start = self.tail.len();
        frames::put_report(&mut self.tail, number, report)?;
        if self.index.back().is_none_or(|(_, known)| at - known >= INDEX_EVERY) {
            self.index.push_back((number, at));
        }
        (self.last, self.last_at) = (number, at);
        Ok(Bytes::copy_from_slice(&self.tail[start..]))
    }

    /// Takes the last report back, if it is in no connection yet: another one replaces it under the same number.
    pub(crate) fn take_back_last(&mut self) {
        if let Some(in_tail) = self.last_at.checked_sub(self.base + self.in_file) {
            self.tail.truncate(in_tail as usize);
        } else {
            // The file keeps the report until the other one, which is longer, is written over it: a kill in between
            // loses nothing.
            self.in_file = self.last_at - self.base;
            self.tail.clear();
        }
        self.last -= 1;
        if self.index.back().is_some_and(|(_, at)| *at >= self.last_at) {
            self.index.pop_back();
        }
    }

    /// Writes what is in memory to the disk. An error leaves it in memory.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.tail.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(&self.tail, HEAD + self.in_file)?;
        self.in_file += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }

    /// So many reports are recorded.
    pub(crate) fn recorded(&mut self, reports: u64) -> io::Result<()> {
        if reports >= self.last {
            self.recorded_to = self.end();
            self.index.clear();
            if self.in_file >= KEEP || !self.tail.is_empty() {
                self.base = self.end();
                self.in_file = 0;
                self.tail.clear();
                self.file.set_len(HEAD)?;
            }
            return Ok(());
        }
        while let Some((next, at)) = self.index.get(1).copied()
            && next <= reports + 1
        {
            self.index.pop_front();
            self.recorded_to = at;
        }
        let recorded = self.recorded_to - self.base;
        if recorded >= COMPACT && recorded * 2 > self.in_file && self.tail.is_empty() {
            self.compact()?;
        }
        Ok(())
    }

    /// Drops the recorded reports at the beginning of the file.
    fn compact(&mut self) -> io::Result<()> {
        let next = self.path.with_extension("spool-new");
        let file = new_file(&next, self.generation)?;
        let (mut at, end) = (self.recorded_to, self.base + self.in_file);
        while at < end {
            let piece = self.read(at, KEEP as usize)?;
            file.write_all_at(&piece, HEAD + at - self.recorded_to)?;
            at += piece.len() as u64;
        }
        fs::rename(&next, &self.path)?;
        self.file = file;
        self.base = self.recorded_to;
        self.in_file = end - self.base;
        Ok(())
    }

    /// Bytes from this position on, at most so many; none at the end.
    pub(crate) fn read(&self, at: u64, most: usize) -> io::Result<Vec<u8>> {
        let file_end = self.base + self.in_file;
        if at >= file_end {
            let from = ((at - file_end) as usize).min(self.tail.len());
            let to = (from + most).min(self.tail.len());
            return Ok(self.tail[from..to].to_vec());
        }
        let length = most.min((file_end - at) as usize);
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, HEAD + at - self.base)?;
        Ok(bytes)
    }

    /// The position after the report with this number.
    pub(crate) fn after(&self, number: u64) -> io::Result<u64> {
        if number >= self.last {
            return Ok(self.end());
        }
        let known = self.index.iter().rev().find(|(first, _)| *first <= number + 1);
        let mut at = known.map_or(self.base, |(_, at)| *at);
        loop {
            // The length, the first byte, the checksum and the number.
            let head = self.read(at, 4 + 1 + 8 + 8)?;
            let (Some(length), Some(found)) = (head.get(..4), head.get(4..).and_then(frames::report_number))
            else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the spool is damaged"));
            };
            if found > number {
                return Ok(at);
            }
            at += 4 + u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
        }
    }
}

fn new_file(path: &Path, generation: Generation) -> io::Result<File> {
    // Removed first: a link at this place must not be followed.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let mut head = [0; HEAD as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&u64::from(generation.0).to_le_bytes());
    file.write_all_at(&head, 0)?;
    Ok(file)
}

/// The reports that a dead holder left.
#[derive(Debug)]
pub(crate) struct Left {
    file: BufReader<File>,
    next: u64,
    /// Nothing more can be read.
    is_over: bool,
    /// The last record could not be read.
    is_damaged: bool,
}

/// The next of these reports.
#[derive(Debug)]
pub(crate) enum Next {
    Report(Box<Report>),
    /// Reports with the numbers in between are missing; the report after them follows.
    Gap {
        missing: u64,
    },
    /// The rest cannot be read: the holder was killed while it wrote, or the file is damaged.
    Damaged,
    End,
}

impl Left {
    /// The reports after this many, of this start of the agent. `None` if there is no such spool.
    pub(crate) fn open(path: &Path, generation: Generation, after: u64) -> Option<Self> {
        let mut file = BufReader::new(File::open(path).ok()?);
        let mut head = [0; HEAD as usize];
        file.read_exact(&mut head).ok()?;
        let is_it = head[..8] == *MAGIC && head[8..] == u64::from(generation.0).to_le_bytes();
        is_it.then_some(Self { file, next: after + 1, is_over: false, is_damaged: false })
    }

    /// Whether no report is left.
    pub(crate) fn ends_here(mut self) -> bool {
        matches!(self.next(), Next::End)
    }

    /// The number of the last report that was returned.
    pub(crate) fn number(&self) -> u64 {
        self.next - 1
    }

    /// The next report. After [`Next::Gap`], the report behind the gap comes next; after [`Next::Damaged`] nothing comes.
    pub(crate) fn next(&mut self) -> Next {
        if self.is_over {
            return Next::End;
        }
        let next = self.read();
        self.is_over = matches!(next, Next::Damaged | Next::End);
        next
    }

    fn read(&mut self) -> Next {
        loop {
            let mut length = [0; 4];
            match self.file.read_exact(&mut length) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return if self.is_damaged { Next::Damaged } else { Next::End };
                }
                Err(_) => return Next::Damaged,
                Ok(()) => {}
            }
            let length = u32::from_le_bytes(length) as usize;
            if length > MAX_BODY {
                return Next::Damaged;
            }
            let mut body = Vec::new();
            let read = self.file.by_ref().take(length as u64).read_to_end(&mut body);
            if !matches!(read, Ok(read) if read == length) {
                return Next::Damaged;
            }
            let (number, report) = match frames::report_in(body.into()) {
                Ok(read) => read,
                // The next record that can be read shows what is missing.
                Err(error) => {
                    tracing::warn!(%error, "a report of a dead holder is left out");
                    self.is_damaged = true;
                    continue;
                }
            };
            self.is_damaged = false;
            if number < self.next {
                continue;
            }
            let missing = number - self.next;
            self.next = number;
            if missing > 0 {
                // The report itself is read again.
                let back = -(length as i64 + 4);
                return if self.file.seek_relative(back).is_ok() {
                    Next::Gap { missing }
                } else {
                    Next::Damaged
                };
            }
            self.next += 1;
            return Next::Report(Box::new(report));
        }
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{Event, event::Level};
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> Report {
        let event = Event::Notice { level: Level::Info, text: text.into() };
        Report::Event { event, raw: Some(Bytes::copy_from_slice(text.as_bytes())) }
    }

    fn spool(folder: &Path) -> Spool {
        Spool::create(&folder.join("s.spool"), Generation(3)).unwrap()
    }

    fn left(folder: &Path, after: u64) -> Vec<String> {
        let Some(mut left) = Left::open(&folder.join("s.spool"), Generation(3), after) else { return vec![] };
        let mut all = Vec::new();
        loop {
            match left.next() {
                Next::Report(report) => match *report {
                    Report::Event { event: Event::Notice { text, .. }, .. } => all.push(text),
                    other => all.push(format!("{other:?}")),
                },
                Next::Gap { missing } => all.push(format!("gap of {missing}")),
                Next::Damaged => all.push("damaged".into()),
                Next::End => return all,
            }
        }
    }

    #[test]
    fn the_file_belongs_to_its_user_and_to_one_start_of_the_agent() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let mut kept = spool(folder.path());
        kept.add(said("a")).unwrap();
        kept.write().unwrap();
        let path = folder.path().join("s.spool");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Left::open(&path, Generation(4), 0).is_none());
        assert_eq!(left(folder.path(), 0), ["a"]);
        assert_eq!(left(folder.path(), 1), [""; 0]);
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("s.spool")).unwrap();
        let mut kept = spool(folder.path());
        kept.add(said("a")).unwrap();
        kept.write().unwrap();
        assert_eq!(fs::read_to_string(other).unwrap(), "precious");
    }

    #[test]
    fn recorded_reports_make_room_and_the_rest_keeps_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = spool(folder.path());
        let large = "x".repeat(100_000);
        for number in 1..=100 {
            kept.add(said(&format!("{number} {large}"))).unwrap();
            kept.write().unwrap();
        }
        let before = kept.unrecorded();
        kept.recorded(60).unwrap();
        assert!(kept.unrecorded() < before / 2, "{} of {before}", kept.unrecorded());
        let size = fs::metadata(folder.path().join("s.spool")).unwrap().len();
        assert!(size < before * 3 / 4, "the file is shorter too: {size} of {before}");
        let rest = left(folder.path(), 60);
        assert_eq!(rest.len(), 40);
        assert!(rest[0].starts_with("61 "), "{}", &rest[0][..4]);
        // What is sent to a daemon begins at the right place, wherever that is.
        for number in [60, 61, 77, 99] {
            let at = kept.after(number).unwrap();
            let bytes = kept.read(at, 32).unwrap();
            assert_eq!(frames::report_number(&bytes[4..]), Some(number + 1));
        }
        assert_eq!(kept.after(100).unwrap(), kept.end());
        kept.recorded(100).unwrap();
        assert_eq!(kept.unrecorded(), 0);
        assert_eq!(left(folder.path(), 100), [""; 0]);
    }

    #[test]
    fn a_gap_is_shown_and_not_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = spool(folder.path());
        for text in ["a", "b", "c"] {
            kept.add(said(text)).unwrap();
        }
        kept.write().unwrap();
        let path = folder.path().join("s.spool");
        let whole = fs::read(&path).unwrap();
        let second = kept.after(1).unwrap() + HEAD;
        let third = kept.after(2).unwrap() + HEAD;
        let without = [&whole[..second as usize], &whole[third as usize..]].concat();
        fs::write(&path, without).unwrap();
        assert_eq!(left(folder.path(), 0), ["a", "gap of 1", "c"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever a killed holder or a bad disk left: reports come whole and in order, or the damage is shown.
        #[test]
        fn a_cut_or_changed_file_gives_whole_reports_in_order_and_shows_what_is_missing(
            texts in prop::collection::vec("[a-z]{0,40}", 1..12),
            cut in 0.0..1.0_f64,
            flip in prop::option::of((0.0..1.0_f64, 1..=255_u8)),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut kept = spool(folder.path());
            for text in &texts {
                kept.add(said(text)).unwrap();
            }
            kept.write().unwrap();
            let path = folder.path().join("s.spool");
            let mut bytes = fs::read(&path).unwrap();
            let length = HEAD as usize + ((bytes.len() - HEAD as usize) as f64 * cut) as usize;
            bytes.truncate(length);
            if let Some((at, by)) = flip
                && length > HEAD as usize
            {
                let at = HEAD as usize + ((length - HEAD as usize) as f64 * at) as usize;
                bytes[at.min(length - 1)] ^= by;
            }
            fs::write(&path, bytes).unwrap();
            let (found, mut next) = (left(folder.path(), 0), 0);
            for (place, line) in found.iter().enumerate() {
                if let Some(missing) = line.strip_prefix("gap of ") {
                    next += missing.parse::<usize>().unwrap();
                } else if line == "damaged" {
                    prop_assert_eq!(place, found.len() - 1);
                } else {
                    prop_assert_eq!(Some(line), texts.get(next), "{:?} of {:?}", found, texts);
                    next += 1;
                }
            }
        }
    }
}
