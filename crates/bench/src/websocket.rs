//! The part of WebSocket that the readers and the floor need: whole frames, no extensions, no fragments.
//!
//! Written by hand so that the measuring itself costs little and the same for every server.

use std::ops::Range;

/// A text frame.
pub(crate) const TEXT: u8 = 1;
/// A close.
pub(crate) const CLOSE: u8 = 8;
/// A ping.
pub(crate) const PING: u8 = 9;
/// A pong.
pub(crate) const PONG: u8 = 10;

/// The space reserved for each read.
const READ: usize = 64 * 1024;

/// Who sends a frame: clients mask. With a key of zeros that costs them nothing, and the server its usual work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// Appends one frame.
pub(crate) fn put(out: &mut Vec<u8>, opcode: u8, payload: &[u8], sender: Sender) {
    let mask = if sender == Sender::Client { 0x80 } else { 0 };
    out.push(0x80 | opcode);
    match payload.len() {
        short @ 0..=125 => out.push(mask | short as u8),
        medium @ 126..=0xFFFF => {
            out.push(mask | 0x7E);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(mask | 0x7F);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    if sender == Sender::Client {
        out.extend_from_slice(&[0; 4]);
    }
    out.extend_from_slice(payload);
}

/// The request that begins a WebSocket.
pub(crate) fn handshake(host: &str, path: &str, token: Option<&str>) -> String {
    let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{bearer}\r\n"
    )
}

/// Bytes that came in and are not all read yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    start: usize,
}

impl Incoming {
    /// Where to read more into.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.reserve(READ);
        &mut self.bytes
    }

    /// The head of an HTTP message, once it is whole.
    pub(crate) fn head(&mut self) -> Option<String> {
        let rest = &self.bytes[self.start..];
        let length = memchr::memmem::find(rest, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.start += length;
        Some(head)
    }

    /// The next whole frame: its opcode and its payload.
    pub(crate) fn frame(&mut self) -> Option<(u8, &[u8])> {
        let (opcode, payload) = self.find()?;
        self.start = payload.end;
        Some((opcode, &self.bytes[payload]))
    }

    fn find(&mut self) -> Option<(u8, Range<usize>)> {
        let [first, second, rest @ ..] = &self.bytes[self.start..] else { return None };
        let (length, size) = match second & 0x7F {
            126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
            127 => (usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).ok()?, 10),
            short => (usize::from(short), 2),
        };
        let masked = second & 0x80 != 0;
        let opcode = first & 0x0F;
        let start = self.start + size + if masked { 4 } else { 0 };
        let payload = start..start + length;
        if payload.end > self.bytes.len() {
            return None;
        }
        if masked && self.bytes[start - 4..start] != [0; 4] {
            let key: [u8; 4] = *self.bytes[start - 4..].first_chunk()?;
            for (byte, key) in self.bytes[payload.clone()].iter_mut().zip(key.into_iter().cycle()) {
                *byte ^= key;
            }
        }
        Some((opcode, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_size_are_read_as_written() {
        for sender in [Sender::Client, Sender::Server] {
            let mut incoming = Incoming::default();
            for length in [0, 125, 126, 65_535, 65_536] {
                put(incoming.space(), TEXT, &vec![b'x'; length], sender);
            }
            for length in [0, 125, 126, 65_535, 65_536] {
                assert_eq!(
                    incoming.frame().map(|(opcode, payload)| (opcode, payload.len())),
                    Some((TEXT, length))
                );
            }
            assert_eq!(incoming.frame(), None);
        }
    }

    #[test]
    fn half_a_frame_is_not_a_frame() {
        let mut incoming = Incoming::default();
        incoming.space().extend_from_slice(&[0x81, 3, b'a', b'b']);
        assert_eq!(incoming.frame(), None);
        incoming.space().push(b'c');
        assert_eq!(incoming.frame(), Some((TEXT, &b"abc"[..])));
    }
}
