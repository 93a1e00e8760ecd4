//! A client with the limits of the 3DS app's own network code: 4,096 bytes for everything unread, lengths of 7 and 16
//! bits, whole text frames, no pong, unescaped text, and always slot 0.
//!
//! Where the app would hang, cut or misread, this panics: the tests exist for that.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::daemon::PATIENCE;

/// The app's buffer, with the byte that ends its string.
const BUFFER: usize = 4096;

/// How much the app can send at once.
const SEND_BUFFER: usize = 1024;

/// The app polls once per picture.
const PICTURE: Duration = Duration::from_millis(16);

/// How long people look at a prompt before they answer: longer than the half second in which nothing counts.
const SEEN: Duration = Duration::from_millis(800);

/// After this time without an effect they press again: the server may have been slower than that half second.
const AGAIN: Duration = Duration::from_secs(5);

/// The mask that the app always uses.
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

/// How much of each text the app keeps, in bytes.
const SIZES: [(&str, usize); 5] = [
    ("agent", 31),
    ("message", 127),
    ("promptToolType", 63),
    ("promptToolDetail", 1023),
    ("promptDescription", 255),
];

/// The app, connected.
#[derive(Debug)]
pub struct App {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What each slot shows.
    pub slots: [Value; 4],
    /// Results of spawns, oldest first.
    pub results: Vec<Value>,
    /// Every status, in the order it came.
    pub statuses: Vec<Value>,
}

impl App {
    /// Connects and shakes hands. Returns the first line of the answer if it is not what the app expects.
    ///
    /// # Panics
    /// When nobody listens there.
    #[expect(clippy::unwrap_used, reason = "a test without its connection has failed")]
    pub fn connect(address: SocketAddr) -> Result<Self, String> {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PICTURE)).unwrap();
        let hello = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(hello.as_bytes()).unwrap();
        let mut app = Self {
            stream,
            buffer: Vec::with_capacity(BUFFER),
            slots: Default::default(),
            results: Vec::new(),
            statuses: Vec::new(),
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            app.receive()?;
            let text = String::from_utf8_lossy(&app.buffer).into_owned();
            if let Some(end) = text.find("\r\n\r\n") {
                // The app only looks for this, anywhere in the text.
                if !text.contains("101") {
                    return Err(text.lines().next().unwrap_or_default().to_owned());
                }
                app.buffer.drain(..end + 4);
                return Ok(app);
            }
            assert!(Instant::now() < deadline, "no answer to the handshake: {text}");
        }
    }

    /// Reads once, into the rest of the buffer.
    fn receive(&mut self) -> Result<(), String> {
        let space = BUFFER - self.buffer.len() - 1;
        assert!(space > 0, "the app is wedged: a frame does not fit its buffer");
        let mut bytes = vec![0; space];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err("the server hung up".into()),
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// One picture: reads once and takes every whole frame. An error if the connection is gone.
    ///
    /// # Panics
    /// When a frame is none that the app understands.
    #[expect(clippy::unwrap_used, reason = "what the app cannot read fails the test")]
    pub fn poll(&mut self) -> Result<(), String> {
        self.receive()?;
        while let [first, second, rest @ ..] = self.buffer.as_slice() {
            let (head, length) = match second & 0x7F {
                126 => match rest {
                    [high, low, ..] => (4, usize::from(*high) << 8 | usize::from(*low)),
                    _ => break,
                },
                127 => panic!("a 64-bit length: the app would take it for 127 bytes"),
                short => (2, usize::from(short)),
            };
            assert_eq!(second & 0x80, 0, "a server does not mask");
            if self.buffer.len() < head + length {
                break;
            }
            match first {
                0x81 => {
                    let text = std::str::from_utf8(&self.buffer[head..head + length]).unwrap();
                    let message = serde_json::from_str(text).unwrap();
                    self.take(message);
                }
                // The app ignores a close; the connection ends by itself.
                0x88 => {}
                other => {
                    panic!("a frame {other:#x}: the app knows whole text frames only and answers no ping")
                }
            }
            self.buffer.drain(..head + length);
        }
        Ok(())
    }

    #[expect(clippy::unwrap_used, reason = "what the app cannot read fails the test")]
    fn take(&mut self, message: Value) {
        match message["type"].as_str() {
            Some("agent_status") => {
                for (field, size) in SIZES {
                    let length = message[field].as_str().unwrap_or_default().len();
                    assert!(length <= size, "`{field}` has {length} bytes, the app keeps {size}");
                }
                let percent = message["contextPercent"].as_u64().unwrap();
                assert!(percent <= 100, "{message}");
                let waits = message.get("promptToolType").is_some();
                assert_eq!(waits, message["state"] == "waiting", "the panel: {message}");
                let slot = usize::try_from(message["slot"].as_u64().unwrap()).unwrap();
                self.statuses.push(message.clone());
                self.slots[slot] = message;
            }
            Some("spawn_result") => self.results.push(message),
            other => panic!("the app knows no {other:?}"),
        }
    }

    /// Polls until the app is in this state.
    ///
    /// # Panics
    /// When it never is, or the connection ends first.
    pub fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !so(self) {
            if let Err(why) = self.poll() {
                panic!("{what}: {why}");
            }
            assert!(Instant::now() < deadline, "{what} did not come: {:#?}", self.slots);
        }
    }

    /// Waits until a slot shows this message.
    ///
    /// # Panics
    /// When it never does.
    pub fn message(&mut self, slot: usize, text: &str) {
        self.until(text, |app| app.slots[slot]["message"].as_str().is_some_and(|shown| shown.contains(text)));
    }

    /// Waits until a slot is in this state.
    ///
    /// # Panics
    /// When it never is.
    pub fn state(&mut self, slot: usize, state: &str) {
        self.until(state, |app| app.slots[slot]["state"] == state);
    }

    /// Waits until a panel shows this. Returns the status.
    ///
    /// # Panics
    /// When it never does.
    pub fn panel(&mut self, slot: usize, tool_type: &str) -> Value {
        self.until(tool_type, |app| app.slots[slot]["promptToolType"] == tool_type);
        self.slots[slot].clone()
    }

    /// Presses a button until it has answered the panel.
    ///
    /// # Panics
    /// When it never does.
    pub fn decide(&mut self, slot: usize, action: &str) {
        self.answer(slot, |app| app.press(slot, action));
    }

    /// Answers the panel with text.
    ///
    /// # Panics
    /// When that never does.
    pub fn reply(&mut self, slot: usize, words: &str) {
        self.answer(slot, |app| app.command(slot, words));
    }

    /// Acts as people do: after they have seen the panel, and again if nothing happened.
    fn answer(&mut self, slot: usize, act: impl Fn(&mut Self)) {
        let panel = |app: &Self| app.slots[slot]["promptToolType"].clone();
        let before = panel(self);
        assert_ne!(before, Value::Null, "nothing waits: {:#}", self.slots[slot]);
        let deadline = Instant::now() + PATIENCE;
        let mut next = Instant::now() + SEEN;
        while panel(self) == before {
            if let Err(why) = self.poll() {
                panic!("the answer to {before}: {why}");
            }
            if Instant::now() >= next {
                act(self);
                next = Instant::now() + AGAIN;
            }
            assert!(Instant::now() < deadline, "{before} is never answered: {:#}", self.slots[slot]);
        }
    }

    /// A button for the selected slot: its name, and slot 0.
    pub fn press(&mut self, slot: usize, action: &str) {
        let agent = self.name(slot);
        self.send(&format!(r#"{{"type":"action","agent":"{agent}","action":"{action}","slot":0}}"#));
    }

    /// A command for the selected slot. Not escaped.
    pub fn command(&mut self, slot: usize, text: &str) {
        let agent = self.name(slot);
        self.send(&format!(r#"{{"type":"command","agent":"{agent}","command":"{text}","slot":0}}"#));
    }

    /// Switches auto-edit.
    pub fn auto_edit(&mut self, to: &str) {
        let agent = self.name(0);
        self.send(&format!(r#"{{"type":"config","agent":"{agent}","autoEdit":{to}}}"#));
    }

    /// Spawns in the first free slot and waits until it works. Returns the slot.
    ///
    /// # Panics
    /// When it does not.
    #[expect(clippy::unwrap_used, reason = "a spawn without a slot has failed")]
    pub fn spawn(&mut self) -> usize {
        let before = self.results.len();
        self.command(0, "spawn");
        self.until("the spawn", |app| app.results.len() > before);
        let result = self.results[before].clone();
        assert_eq!(result["success"], true, "{result}");
        let slot = usize::try_from(result["slot"].as_u64().unwrap()).unwrap();
        self.until("an idle agent", |app| {
            app.slots[slot]["active"] == true && app.slots[slot]["state"] == "idle"
        });
        slot
    }

    fn name(&self, slot: usize) -> String {
        self.slots[slot]["agent"].as_str().unwrap_or("claude").to_owned()
    }

    /// A frame as the app makes it: cut to its buffer, wherever that is.
    ///
    /// # Panics
    /// When it cannot be written.
    #[expect(clippy::unwrap_used, reason = "a test without its connection has failed")]
    pub fn send(&mut self, text: &str) {
        let text = &text.as_bytes()[..text.len().min(SEND_BUFFER - 8)];
        let mut frame = vec![0x81];
        match u8::try_from(text.len()) {
            Ok(short) if short < 126 => frame.push(0x80 | short),
            _ => {
                frame.push(0xFE);
                frame.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend_from_slice(&MASK);
        frame.extend(text.iter().enumerate().map(|(index, byte)| byte ^ MASK[index % 4]));
        self.stream.write_all(&frame).unwrap();
    }
}
