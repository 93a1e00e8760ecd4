//! Readers: clients of either server that check everything they receive, all on one thread.
//!
//! A reader of Portolan speaks the native protocol and checks the number of every entry; a reader of the floor gets the
//! agent's lines as they are. Both look for the markers in them, and can prompt and approve.

use std::{
    cell::{Ref, RefCell, RefMut},
    collections::VecDeque,
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream, tcp::OwnedReadHalf},
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use crate::{
    agent::{Play, What},
    marker::{self, Copy, Ledger},
    server::{Kind, Server},
    websocket::{self, Incoming, Sender},
};

/// How many frames may wait to be written; readers write only a few.
const OUTGOING: usize = 64;

/// The beginning of an entry's frame, up to its session.
const ENTRY: &[u8] = br#"{"type":"entry","session":""#;

/// The position of its number: after the 36 characters of the session.
const NUMBER: usize = ENTRY.len() + 36 + br#"","seq":"#.len();

/// The kind of an entry is within this many bytes.
const HEAD: usize = 200;

/// How many requests all readers have sent.
static ASKED: AtomicU32 = AtomicU32::new(1);

/// What a reader does about permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    Answered,
    Ignored,
}

/// The state of a reader.
#[derive(Debug)]
pub(crate) struct Seen {
    kind: Kind,
    session: String,
    permissions: Permissions,
    outgoing: mpsc::Sender<Vec<u8>>,
    /// The texts of the run.
    pub(crate) ledger: Ledger,
    /// The run streams: its finished messages repeat what came before.
    streams: bool,
    /// The highest number of an entry.
    number: u64,
    /// Entries with a number below an earlier number.
    pub(crate) backwards: u64,
    replies: VecDeque<Value>,
    paused: bool,
    /// The server is gone, or sent an invalid frame.
    pub(crate) ended: bool,
}

/// A client with one connection.
#[derive(Debug)]
pub(crate) struct Reader {
    seen: Rc<RefCell<Seen>>,
    news: Rc<Notify>,
    task: JoinHandle<()>,
}

/// How a reader connects.
#[derive(Clone, Debug)]
pub(crate) struct Entrance<'a> {
    pub(crate) server: &'a Server,
    /// The session to read; the floor has only one.
    pub(crate) session: &'a str,
    pub(crate) permissions: Permissions,
    /// The size of the kernel's buffer for unread bytes; default: the kernel's choice.
    pub(crate) buffer: Option<u32>,
}

impl<'a> Entrance<'a> {
    /// A reader that answers nothing.
    pub(crate) fn new(server: &'a Server, session: &'a str) -> Self {
        Self { server, session, permissions: Permissions::Ignored, buffer: None }
    }
}

impl Reader {
    /// Connects, and reads the session from its beginning.
    pub(crate) async fn attach(entrance: Entrance<'_>) -> Result<Self> {
        Self::attach_for(entrance, Ledger::default()).await
    }

    /// The same, with a run to look for in the existing history.
    pub(crate) async fn attach_for(entrance: Entrance<'_>, ledger: Ledger) -> Result<Self> {
        let session = entrance.session.to_owned();
        let reader = Self::connect(&entrance, ledger).await?;
        if entrance.server.kind != Kind::Floor {
            reader.ask(json!({"type": "attach", "session": session, "start": {"after": 0}})).await?;
        }
        Ok(reader)
    }

    async fn connect(entrance: &Entrance<'_>, ledger: Ledger) -> Result<Self> {
        let server = entrance.server;
        let socket = TcpSocket::new_v4()?;
        if let Some(size) = entrance.buffer {
            socket.set_recv_buffer_size(size)?;
        }
        let mut stream = socket.connect(server.address.parse()?).await?;
        stream.set_nodelay(true)?;
        let request = websocket::handshake(&server.address, "/ws", server.token.as_deref());
        stream.write_all(request.as_bytes()).await?;
        let incoming = upgraded(&mut stream).await?;
        let (from, mut to) = stream.into_split();
        let (outgoing, mut frames) = mpsc::channel::<Vec<u8>>(OUTGOING);
        tokio::task::spawn_local(async move {
            while let Some(frame) = frames.recv().await {
                if to.write_all(&frame).await.is_err() {
                    return;
                }
            }
        });
        let seen = Rc::new(RefCell::new(Seen {
            kind: server.kind,
            session: entrance.session.to_owned(),
            permissions: entrance.permissions,
            outgoing,
            ledger,
            streams: false,
            number: 0,
            backwards: 0,
            replies: VecDeque::new(),
            paused: false,
            ended: false,
        }));
        let news: Rc<Notify> = Rc::default();
        let task = tokio::task::spawn_local(read(from, incoming, Rc::clone(&seen), Rc::clone(&news)));
        let reader = Self { seen, news, task };
        if server.kind != Kind::Floor {
            reader.send(&json!({"type": "hello", "protocol": 1, "client": {"name": "bench"}}))?;
        }
        Ok(reader)
    }

    /// What the reader has seen.
    pub(crate) fn seen(&self) -> Ref<'_, Seen> {
        self.seen.borrow()
    }

    /// From now on the reader looks for this run.
    pub(crate) fn expect(&self, play: Play, texts: u32) {
        let mut seen = self.change();
        seen.ledger = Ledger::new(play.run, texts);
        seen.streams = play.what == What::Deltas;
    }

    fn change(&self) -> RefMut<'_, Seen> {
        self.seen.borrow_mut()
    }

    /// Stops or resumes reading.
    pub(crate) fn pause(&self, paused: bool) {
        self.change().paused = paused;
        self.news.notify_waiters();
    }

    fn send(&self, frame: &Value) -> Result<()> {
        self.change().send(frame)
    }

    /// Sends a request to Portolan and returns the reply.
    async fn ask(&self, mut frame: Value) -> Result<Value> {
        // Each request needs a new id: a command with a known id does not run again.
        let id = format!("ask-{}", ASKED.fetch_add(1, Ordering::Relaxed));
        frame["id"] = json!(id);
        self.send(&frame)?;
        let is_it = |reply: &Value| reply["id"] == id.as_str();
        self.until("a reply", Duration::from_mins(1), |seen| seen.replies.iter().any(is_it)).await?;
        let mut seen = self.change();
        let place = seen.replies.iter().position(is_it).context("the reply is gone")?;
        let reply = seen.replies.remove(place).unwrap_or_default();
        if reply["type"] != "reply" {
            bail!("sent {frame}, and got {reply}");
        }
        Ok(reply)
    }

    /// Makes the agent play something.
    pub(crate) async fn prompt(&self, play: Play) -> Result<()> {
        let text = serde_json::to_string(&play)?;
        let (kind, session) = {
            let seen = self.seen();
            (seen.kind, seen.session.clone())
        };
        match kind {
            Kind::Floor => self.send(&json!({"type": "user", "message": {"role": "user", "content": text}})),
            Kind::Portolan | Kind::Held => {
                let content = json!([{"type": "text", "text": text}]);
                let command = json!({"name": "prompt", "content": content});
                self.ask(json!({"type": "command", "session": session, "command": command})).await.map(drop)
            }
        }
    }

    /// Waits until this holds for what the reader has seen.
    pub(crate) async fn until(
        &self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Seen) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let news = self.news.notified();
            {
                let seen = self.seen();
                if is_so(&seen) {
                    return Ok(());
                }
                if seen.ended {
                    bail!("the server closed the connection while {what} was waited for");
                }
            }
            timeout_at(deadline, news).await.with_context(|| format!("{what} did not come"))?;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Creates a session, if the server supports several, and waits until its agent is ready.
pub(crate) async fn session(server: &Server) -> Result<String> {
    if server.kind == Kind::Floor {
        return Ok(String::new());
    }
    let reader = Reader::connect(&Entrance::new(server, ""), Ledger::default()).await?;
    let spec = json!({"agent": "claude", "cwd": server.folder()});
    let reply = reader.ask(json!({"type": "create", "spec": spec})).await?;
    let session = reply["session"]["session"].as_str().context("a session without an id")?.to_owned();
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let state = reader.ask(json!({"type": "state", "session": session})).await?;
        if state["state"]["summary"]["status"] == "connected" {
            return Ok(session);
        }
        if Instant::now() > deadline {
            bail!("the agent did not get ready: {state}");
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

async fn upgraded(stream: &mut TcpStream) -> Result<Incoming> {
    let mut incoming = Incoming::default();
    loop {
        if let Some(head) = incoming.head() {
            if !head.starts_with("HTTP/1.1 101") {
                bail!("the server refused the WebSocket: {head}");
            }
            return Ok(incoming);
        }
        if stream.read_buf(incoming.space()).await? == 0 {
            bail!("the server closed the connection");
        }
    }
}

async fn read(mut from: OwnedReadHalf, mut incoming: Incoming, seen: Rc<RefCell<Seen>>, news: Rc<Notify>) {
    loop {
        loop {
            let more = news.notified();
            if !seen.borrow().paused {
                break;
            }
            more.await;
        }
        let now = marker::now();
        {
            let mut seen = seen.borrow_mut();
            while let Some((opcode, payload)) = incoming.frame() {
                seen.take(opcode, payload, now);
            }
        }
        news.notify_waiters();
        if !matches!(from.read_buf(incoming.space()).await, Ok(1..)) {
            seen.borrow_mut().ended = true;
            news.notify_waiters();
            return;
        }
    }
}

impl Seen {
    fn send(&mut self, frame: &Value) -> Result<()> {
        let mut out = Vec::new();
        websocket::put(&mut out, websocket::TEXT, frame.to_string().as_bytes(), Sender::Client);
        self.outgoing.try_send(out).context("the server does not read")
    }

    fn take(&mut self, opcode: u8, payload: &[u8], now: u64) {
        match opcode {
            websocket::TEXT => match self.kind {
                Kind::Floor => {
                    let finished = payload.starts_with(br#"{"type":"assistant""#);
                    self.ledger.take(payload, self.copy(finished), now);
                    if self.permissions == Permissions::Answered
                        && memchr::memmem::find(payload, b"can_use_tool").is_some()
                    {
                        self.answer_floor(payload);
                    }
                }
                Kind::Portolan | Kind::Held if payload.starts_with(ENTRY) => self.take_entry(payload, now),
                Kind::Portolan | Kind::Held => self.take_other(payload),
            },
            websocket::PING => {
                let mut out = Vec::new();
                websocket::put(&mut out, websocket::PONG, payload, Sender::Client);
                // A full queue means that the server does not read; then a missing answer does not matter.
                let _ = self.outgoing.try_send(out);
            }
            websocket::CLOSE => self.ended = true,
            _ => {}
        }
    }

    /// If messages only come whole, each must come once.
    fn copy(&self, finished: bool) -> Copy {
        if finished && self.streams { Copy::Finished } else { Copy::First }
    }

    fn take_entry(&mut self, entry: &[u8], now: u64) {
        let digits = entry[NUMBER.min(entry.len())..].iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        if number < self.number || number == 0 {
            self.backwards += 1;
        }
        self.number = number;
        let head = &entry[..entry.len().min(HEAD)];
        let finished = memchr::memmem::find(head, br#""event":{"type":"message""#).is_some();
        self.ledger.take(entry, self.copy(finished), now);
        if self.permissions == Permissions::Answered
            && memchr::memmem::find(entry, br#""request_opened""#).is_some()
        {
            self.answer_portolan(entry);
        }
    }

    fn take_other(&mut self, frame: &[u8]) {
        let is_reply = frame.starts_with(br#"{"type":"reply""#) || frame.starts_with(br#"{"type":"error""#);
        if is_reply && let Ok(reply) = serde_json::from_slice(frame) {
            self.replies.push_back(reply);
        }
    }

    fn answer_floor(&mut self, line: &[u8]) {
        let Ok(asked) = serde_json::from_slice::<Value>(line) else { return };
        let answer = json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": asked["request_id"],
            "response": {"behavior": "allow", "updatedInput": asked["request"]["input"]},
        }});
        // A missing answer shows in the measure.
        let _ = self.send(&answer);
    }

    fn answer_portolan(&mut self, entry: &[u8]) {
        let Ok(entry) = serde_json::from_slice::<Value>(entry) else { return };
        let request = &entry["event"]["request"];
        let answer = json!({"name": "answer", "request": request["request"], "digest": request["digest"],
            "answer": {"kind": "allow"}});
        let id = format!("answer-{}", request["request"]);
        // A missing answer shows in the measure.
        let _ = self.send(&json!({"type": "command", "id": id, "session": self.session, "command": answer}));
    }
}
