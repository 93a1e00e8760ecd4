//! The floor: the least that any server between one agent and many readers must do, and nothing else.
//!
//! One thread. Each line of the agent becomes a ready-made frame at the end of one log; a reader is a position in that
//! log, and everything after the position is written in one call. Nothing is parsed, nothing is kept on disk. Late and
//! slow readers need no special code, as in Portolan; but here the whole history stays in memory.

use std::{cell::RefCell, path::Path, process::Stdio, rc::Rc};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process::{ChildStdout, Command},
    sync::{Notify, mpsc},
    task::LocalSet,
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::websocket::{self, Incoming, Sender};

/// The log grows in pieces of this size, so that it is never moved.
const PIECE: usize = 256 * 1024;

/// How many lines for the agent may wait.
const FOR_AGENT: usize = 256;

/// The most that a reader writes at once.
const KEPT: usize = 64 * 1024;

#[derive(Default)]
struct Log {
    /// A frame is never in two pieces.
    pieces: RefCell<Vec<Vec<u8>>>,
    more: Notify,
}

/// A position in the log.
#[derive(Clone, Copy, Default)]
struct Place {
    piece: usize,
    byte: usize,
}

impl Log {
    fn append(&self, line: &[u8]) {
        let mut pieces = self.pieces.borrow_mut();
        let size = line.len() + 10;
        if pieces.last().is_none_or(|piece| piece.capacity() - piece.len() < size) {
            pieces.push(Vec::with_capacity(PIECE.max(size)));
        }
        if let Some(piece) = pieces.last_mut() {
            websocket::put(piece, websocket::TEXT, line, Sender::Server);
        }
    }

    /// The frames after the position, at most one piece.
    fn read(&self, place: &mut Place, out: &mut Vec<u8>) {
        let pieces = self.pieces.borrow();
        while out.is_empty()
            && let Some(piece) = pieces.get(place.piece)
        {
            out.extend_from_slice(&piece[place.byte..]);
            place.byte = piece.len();
            if place.piece + 1 == pieces.len() {
                return;
            }
            if out.is_empty() {
                *place = Place { piece: place.piece + 1, byte: 0 };
            }
        }
    }
}

/// Serves the session of one agent until it is killed. Writes its address to the file.
pub(crate) fn run(tell: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(tell))
}

#[expect(clippy::disallowed_methods, reason = "the floor starts its agent directly")]
async fn serve(tell: &Path) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut agent = Command::new(std::env::current_exe()?)
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (mut input, output) =
        agent.stdin.take().zip(agent.stdout.take()).context("the agent's pipes are missing")?;
    let log: Rc<Log> = Rc::default();
    tokio::task::spawn_local(listen(Rc::clone(&log), output));
    let (to_agent, mut lines) = mpsc::channel::<Vec<u8>>(FOR_AGENT);
    tokio::task::spawn_local(async move {
        while let Some(line) = lines.recv().await {
            if input.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    let url = format!("http://{}", listener.local_addr()?);
    // A reader of the file must not see half of it.
    let unfinished = tell.with_extension("unfinished");
    std::fs::write(&unfinished, serde_json::json!({"url": url, "pid": std::process::id()}).to_string())?;
    std::fs::rename(&unfinished, tell)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (log, to_agent) = (Rc::clone(&log), to_agent.clone());
        tokio::task::spawn_local(async move {
            // A reader that is gone does not matter.
            let _ = reader(stream, log, to_agent).await;
        });
    }
}

async fn listen(log: Rc<Log>, mut output: ChildStdout) {
    let mut bytes = Vec::with_capacity(PIECE);
    while let Ok(1..) = output.read_buf(&mut bytes).await {
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &bytes[start..]) {
            log.append(&bytes[start..start + length]);
            start += length + 1;
        }
        bytes.drain(..start);
        bytes.reserve(64 * 1024);
        log.more.notify_waiters();
    }
}

async fn reader(mut stream: TcpStream, log: Rc<Log>, to_agent: mpsc::Sender<Vec<u8>>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut incoming = Incoming::default();
    let head = loop {
        if let Some(head) = incoming.head() {
            break head;
        }
        if stream.read_buf(incoming.space()).await? == 0 {
            return Ok(());
        }
    };
    let Some(key) = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")) else {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        return Ok(stream.write_all(plain).await?);
    };
    let accept = derive_accept_key(key.trim().as_bytes());
    let switch = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(switch.as_bytes()).await?;
    let (mut from, mut to) = stream.into_split();
    let writing = tokio::task::spawn_local(async move {
        let (mut place, mut out) = (Place::default(), Vec::new());
        loop {
            let more = log.more.notified();
            log.read(&mut place, &mut out);
            if out.is_empty() {
                more.await;
            } else if to.write_all(&out).await.is_err() {
                return;
            }
            out.clear();
            out.shrink_to(KEPT);
        }
    });
    while from.read_buf(incoming.space()).await? > 0 {
        while let Some((opcode, payload)) = incoming.frame() {
            if opcode == websocket::TEXT {
                let mut line = payload.to_vec();
                line.push(b'\n');
                to_agent.send(line).await?;
            }
        }
    }
    writing.abort();
    Ok(())
}
