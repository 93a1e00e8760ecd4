//! The daemon's log: on stderr in the foreground, in a file of limited size in the background. The log of a process that
//! holds an agent is on its stderr, a file in the folder `run`, and small.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::{fstat, ftruncate};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use crate::{
    config::{Log, LogFormat},
    failure::{Failure, Outcome},
    home::Home,
};

/// A log file larger than this is rotated: about a day of a busy daemon at `info`.
const LARGEST: u64 = 8 * 1024 * 1024;

/// The log of a process that holds an agent is emptied when it gets larger: a holder writes a few lines, unless something
/// happens again and again.
const LARGEST_OF_HOLDER: u64 = 256 * 1024;

/// How many rotated files are kept.
const KEPT: u32 = 3;

/// Where the log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// stderr.
    Foreground,
    /// logs/daemon.log.
    File,
}

/// Starts the log. From then on, a panic is a line in the log too.
pub(crate) fn start(log: &Log, home: &Home, to: Where) -> Outcome {
    // rmcp logs every message; our own lines contain what matters.
    let level = format!("{},rmcp=off", log.level.filter());
    let builder = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(level)).with_target(false);
    let started = match to {
        Where::Foreground => {
            let builder = builder.with_writer(io::stderr).with_ansi(crate::output::colours_on_stderr());
            match log.format {
                LogFormat::Text => builder.try_init(),
                LogFormat::Json => builder.json().try_init(),
            }
        }
        Where::File => {
            home.make_logs()?;
            let file = Rotating::open(&home.daemon_log())
                .map_err(|error| crate::home::unusable(&home.daemon_log(), &error))?;
            let builder = builder.with_writer(file).with_ansi(false);
            match log.format {
                LogFormat::Text => builder.try_init(),
                LogFormat::Json => builder.json().try_init(),
            }
        }
    };
    started.map_err(|error| Failure::new(format!("the log cannot be started: {error}")))?;
    log_panics();
    Ok(())
}

/// Starts the log of a process that holds an agent.
pub(crate) fn start_on_stderr() -> Outcome {
    let builder = tracing_subscriber::fmt().with_env_filter(EnvFilter::new("info,rmcp=off"));
    let builder = builder.with_target(false).with_ansi(false).with_writer(|| Small(io::stderr()));
    builder.try_init().map_err(|error| Failure::new(format!("the log cannot be started: {error}")))?;
    log_panics();
    Ok(())
}

fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        tracing::error!(at, thread, "a task panicked and was ended: {message}");
    }));
}

/// A file that is emptied when it gets too large: the end of the log matters most. Anything else, such as a terminal, has
/// no size.
struct Small<F>(F);

impl<F: Write + AsFd> Write for Small<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if fstat(&self.0).is_ok_and(|file| u64::try_from(file.st_size).unwrap_or(0) > LARGEST_OF_HOLDER) {
            // A large log is better than none.
            let _ = ftruncate(&self.0, 0);
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file that is rotated when it gets too large.
#[derive(Clone, Debug)]
struct Rotating(Arc<Mutex<Current>>);

#[derive(Debug)]
struct Current {
    path: PathBuf,
    file: File,
    size: u64,
    largest: u64,
}

impl Rotating {
    fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, LARGEST)
    }

    fn open_with(path: &Path, largest: u64) -> io::Result<Self> {
        let file = append_to(path)?;
        let size = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(Current { path: path.to_path_buf(), file, size, largest }))))
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl Current {
    fn put_aside(&mut self) -> io::Result<()> {
        let numbered = |number: u32| self.path.with_extension(format!("log.{number}"));
        for number in (1..KEPT).rev() {
            // Files that do not exist yet need no new name.
            let _ = std::fs::rename(numbered(number), numbered(number + 1));
        }
        std::fs::rename(&self.path, numbered(1))?;
        self.file = append_to(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for Rotating {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if current.size > 0 && current.size + bytes.len() as u64 > current.largest {
            // If the rotation fails, a large log is better than none.
            let _ = current.put_aside();
        }
        let written = current.file.write(bytes)?;
        current.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).file.flush()
    }
}

impl<'a> MakeWriter<'a> for Rotating {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The last lines of a file, read from its end, at most `most` bytes of it.
pub(crate) fn tail(path: &Path, lines: usize) -> io::Result<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    /// More than a person reads at once.
    const MOST: u64 = 4 * 1024 * 1024;
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MOST)))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let mut out = all[all.len().saturating_sub(lines)..].join("\n");
    if !out.is_empty() {
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_gets_too_large_is_rotated_and_few_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let mut log = Rotating::open_with(&path, 10).unwrap();
        for line in ["first.\n", "second\n", "third.\n", "fourth\n", "fifth.\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let mut found: Vec<(String, String)> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                (path.file_name().unwrap().to_string_lossy().into(), std::fs::read_to_string(&path).unwrap())
            })
            .collect();
        found.sort();
        let expected = [
            ("daemon.log", "fifth.\n"),
            ("daemon.log.1", "fourth\n"),
            ("daemon.log.2", "third.\n"),
            ("daemon.log.3", "second\n"),
        ];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn the_log_of_a_holder_keeps_its_end_and_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        let mut log = Small(append_to(&path).unwrap());
        let line = [b'x'; 1024];
        for _ in 0..1000 {
            log.write_all(&line).unwrap();
        }
        log.write_all(b"the end\n").unwrap();
        let text = std::fs::read(&path).unwrap();
        assert!(text.len() as u64 <= LARGEST_OF_HOLDER + 2 * 1024, "{}", text.len());
        assert!(text.ends_with(b"the end\n"));
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), "b\nc\n");
        assert_eq!(tail(&path, 9).unwrap(), "a\nb\nc\n");
        std::fs::write(&path, "").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), "");
    }
}
