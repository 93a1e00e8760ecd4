//! A child's stderr: always drained, with its tail kept for diagnosis.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    task::JoinHandle,
};

use super::mask::Masker;

/// How much of it is kept: a long stack trace, not a log.
pub const STDERR_TAIL: usize = 16 * 1024;

/// How long after a child's end its stderr may still arrive. Written text is in the pipe already; only a grandchild
/// that holds the pipe keeps it open longer.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The tail of a stream that is being drained.
#[derive(Debug)]
pub(crate) struct Tail {
    kept: Arc<Mutex<Kept>>,
    drain: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    cut: bool,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(STDERR_TAIL);
        self.cut |= over > 0;
        self.bytes.drain(..over);
    }

    /// The text. If its beginning is cut off, it starts at a whole line, or at least a whole word: half a secret would
    /// not be recognised.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let start = match (self.cut, text.find('\n'), text.find(char::is_whitespace)) {
            (false, ..) | (true, None, None) => 0,
            (true, Some(at), _) | (true, None, Some(at)) => at + 1,
        };
        text[start..].trim_end().to_owned()
    }
}

impl Tail {
    /// Drains `source` from now on.
    pub(crate) fn of(mut source: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let into = Arc::clone(&kept);
        let drain = tokio::spawn(async move {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = source.read(&mut buffer).await {
                into.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..count]);
            }
        });
        Self { kept, drain }
    }

    /// The tail once the child has ended, secrets masked.
    pub(crate) async fn finish(mut self, masker: &Masker) -> String {
        if tokio::time::timeout(LAST_WORDS, &mut self.drain).await.is_err() {
            self.drain.abort();
        }
        let text = self.kept.lock().unwrap_or_else(PoisonError::into_inner).text();
        masker.mask(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tail_of(text: &str) -> String {
        let tail = Tail::of(std::io::Cursor::new(text.as_bytes().to_vec()));
        tail.finish(&Masker::default()).await
    }

    #[tokio::test]
    async fn the_last_lines_are_kept_whole_and_masked() {
        assert_eq!(tail_of("one\nAPI_KEY=abc\n").await, "one\nAPI_KEY=***");
        let long = format!("{}\nlast sk-0123456789\n", "x".repeat(STDERR_TAIL));
        assert_eq!(tail_of(&long).await, "last ***");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_stays_open_is_not_waited_for() {
        let (mut there, here) = tokio::io::duplex(64);
        let tail = Tail::of(here);
        tokio::io::AsyncWriteExt::write_all(&mut there, b"words").await.unwrap();
        assert_eq!(tail.finish(&Masker::default()).await, "words");
    }
}
