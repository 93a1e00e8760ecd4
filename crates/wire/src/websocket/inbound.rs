//! Bytes from a WebSocket client into messages (RFC 6455, the server's side). Pure: no I/O, no clock.
//!
//! Every length is checked before anything is kept, so that a client cannot make the server hold more than one message
//! of the allowed size. Invalid framing is a [`Violation`]; nothing readable follows it.

use bytes::{Buf as _, Bytes, BytesMut};

/// A control frame's payload is at most this long (RFC 6455, 5.5).
const CONTROL_BYTES: usize = 125;

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole message. Text and binary are equal: both must be JSON.
    Message(Bytes),
    /// A ping. The same bytes go back in a pong.
    Ping(Bytes),
    /// A pong.
    Pong,
    /// The client closes, with this code if it gave one.
    Close(Option<u16>),
}

/// How a client broke the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A message above the limit.
    #[error("a message is larger than this server accepts")]
    TooLarge,
    /// A frame that RFC 6455 does not allow.
    #[error("{0}")]
    Framing(&'static str),
}

impl Violation {
    /// The WebSocket close code for the violation.
    pub fn code(self) -> u16 {
        match self {
            Self::TooLarge => 1009,
            Self::Framing(_) => 1002,
        }
    }
}

/// The bytes that are not a message yet.
#[derive(Debug)]
pub struct Inbound {
    limit: usize,
    buffer: BytesMut,
    /// The fragments of a message so far, while one is open.
    fragments: Option<BytesMut>,
}

struct Head {
    fin: bool,
    opcode: u8,
    mask: [u8; 4],
    length: usize,
    /// The length of the head itself.
    size: usize,
}

impl Inbound {
    /// Takes messages of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: BytesMut::new(), fragments: None }
    }

    /// Takes messages of up to `limit` bytes from now on.
    pub fn take_up_to(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Adds bytes from the client.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    pub fn received(&mut self) -> Result<Option<Received>, Violation> {
        loop {
            let Some(head) = self.head()? else { return Ok(None) };
            if self.buffer.len() < head.size + head.length {
                return Ok(None);
            }
            self.buffer.advance(head.size);
            let mut payload = self.buffer.split_to(head.length);
            unmask(&mut payload, head.mask);
            if self.buffer.is_empty() {
                // An idle client costs nothing: a returned message owns its memory, and the next bytes get new memory.
                self.buffer = BytesMut::new();
            }
            let received = match head.opcode {
                0x8 => Received::Close(close_code(&payload)?),
                0x9 => Received::Ping(payload.freeze()),
                0xA => Received::Pong,
                _ => match self.data(&head, payload) {
                    Some(message) => Received::Message(message),
                    None => continue,
                },
            };
            return Ok(Some(received));
        }
    }

    /// A message if this frame is its last one; otherwise the fragment is kept.
    fn data(&mut self, head: &Head, payload: BytesMut) -> Option<Bytes> {
        let whole = match self.fragments.take() {
            None => payload,
            Some(mut fragments) => {
                fragments.extend_from_slice(&payload);
                fragments
            }
        };
        if head.fin {
            return Some(whole.freeze());
        }
        self.fragments = Some(whole);
        None
    }

    fn head(&self) -> Result<Option<Head>, Violation> {
        let [first, second, rest @ ..] = &self.buffer[..] else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(Violation::Framing("reserved bits are set, but no extension was agreed on"));
        }
        if second & 0x80 == 0 {
            return Err(Violation::Framing("a client's frame must be masked"));
        }
        let (fin, opcode) = (first & 0x80 != 0, first & 0x0F);
        let (length, rest, length_size) = match second & 0x7F {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest, 2),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest, 8),
                None => return Ok(None),
            },
            short => (u64::from(short), rest, 0),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match opcode {
            0x8..=0xA if !fin => return Err(Violation::Framing("a control frame must not be fragmented")),
            0x8..=0xA if length > CONTROL_BYTES => {
                return Err(Violation::Framing("a control frame is too long"));
            }
            0x8..=0xA => {}
            0x0 if self.fragments.is_none() => return Err(Violation::Framing("nothing to continue")),
            0x1 | 0x2 if self.fragments.is_some() => {
                return Err(Violation::Framing("a new message begins inside another"));
            }
            0x0..=0x2 => {
                let held = self.fragments.as_ref().map_or(0, BytesMut::len);
                if length > self.limit.saturating_sub(held) {
                    return Err(Violation::TooLarge);
                }
            }
            _ => return Err(Violation::Framing("an unknown kind of frame")),
        }
        let Some(mask) = rest.first_chunk() else { return Ok(None) };
        let size = 2 + length_size + mask.len();
        Ok(Some(Head { fin, opcode, mask: *mask, length, size }))
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    for (index, byte) in payload.iter_mut().enumerate() {
        *byte ^= mask[index & 3];
    }
}

fn close_code(payload: &[u8]) -> Result<Option<u16>, Violation> {
    match payload {
        [] => Ok(None),
        [_] => Err(Violation::Framing("a close code has two bytes")),
        [high, low, ..] => match u16::from_be_bytes([*high, *low]) {
            // Other codes are never sent: we would have to send them back.
            code @ (1000..=1003 | 1007..=1014 | 3000..=4999) => Ok(Some(code)),
            _ => Err(Violation::Framing("a close code that is never sent")),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MASK: [u8; 4] = [7, 200, 0, 33];

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            short @ 0..=125 => out.push(0x80 | short as u8),
            medium @ 126..=0xFFFF => {
                out.push(0xFE);
                out.extend_from_slice(&(medium as u16).to_be_bytes());
            }
            long => {
                out.push(0xFF);
                out.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&MASK);
        out.extend(payload.iter().enumerate().map(|(index, byte)| byte ^ MASK[index & 3]));
        out
    }

    fn all(limit: usize, bytes: &[u8]) -> (Vec<Received>, Option<Violation>) {
        let mut inbound = Inbound::new(limit);
        inbound.extend(bytes);
        rest(&mut inbound)
    }

    fn rest(inbound: &mut Inbound) -> (Vec<Received>, Option<Violation>) {
        let mut received = Vec::new();
        loop {
            match inbound.received() {
                Ok(Some(one)) => received.push(one),
                Ok(None) => return (received, None),
                Err(violation) => return (received, Some(violation)),
            }
        }
    }

    fn message(text: &[u8]) -> Received {
        Received::Message(Bytes::copy_from_slice(text))
    }

    #[test]
    fn a_control_frame_may_stand_between_the_fragments_of_a_message() {
        let bytes =
            [frame(0x01, b"one "), frame(0x89, b"?"), frame(0x00, b"two "), frame(0x80, b"three")].concat();
        let expected = vec![Received::Ping(Bytes::from_static(b"?")), message(b"one two three")];
        assert_eq!(all(100, &bytes), (expected, None));
    }

    #[test]
    fn lengths_of_all_three_sizes_are_read() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![b'x'; length];
            assert_eq!(all(70_000, &frame(0x81, &payload)), (vec![message(&payload)], None), "{length}");
        }
    }

    #[test]
    fn a_message_above_the_limit_is_refused_before_its_bytes_arrive() {
        let head = &frame(0x81, &[0; 101])[..8];
        assert_eq!(all(100, head), (vec![], Some(Violation::TooLarge)));
        let in_parts = [frame(0x01, &[0; 60]), frame(0x80, &[0; 41])].concat();
        assert_eq!(all(100, &in_parts), (vec![], Some(Violation::TooLarge)));
        let huge = [&[0x81, 0xFF][..], &u64::MAX.to_be_bytes()].concat();
        assert_eq!(all(100, &huge), (vec![], Some(Violation::TooLarge)));
    }

    #[test]
    fn a_frame_that_the_rfc_forbids_is_a_violation() {
        let unmasked = vec![0x81, 0x01, b'x'];
        let bad = [
            unmasked,
            frame(0xC1, b"x"),
            frame(0x83, b"x"),
            frame(0x80, b"x"),
            frame(0x09, b"x"),
            frame(0x89, &[0; 126]),
            frame(0x88, &[3]),
            frame(0x88, &1005_u16.to_be_bytes()),
            frame(0x88, &[0, 0]),
            [frame(0x01, b"x"), frame(0x81, b"y")].concat(),
        ];
        for bytes in bad {
            let (received, violation) = all(1000, &bytes);
            assert!(
                received.is_empty() && violation.is_some_and(|v| v.code() == 1002),
                "{bytes:?}: {violation:?}"
            );
        }
    }

    #[test]
    fn a_close_carries_its_code() {
        assert_eq!(all(9, &frame(0x88, &[0x0F, 0xA1])), (vec![Received::Close(Some(4001))], None));
        assert_eq!(all(9, &frame(0x88, b"")), (vec![Received::Close(None)], None));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_messages(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
            cuts in prop::collection::vec(1_usize..50, 0..40),
        ) {
            let bytes: Vec<u8> = texts.iter().flat_map(|text| frame(0x82, text)).collect();
            let mut inbound = Inbound::new(300);
            let (mut received, mut left) = (Vec::new(), &bytes[..]);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (now, later) = left.split_at(cut.min(left.len()));
                inbound.extend(now);
                received.extend(rest(&mut inbound).0);
                left = later;
            }
            let expected: Vec<_> = texts.iter().map(|text| message(text)).collect();
            prop_assert_eq!(received, expected);
        }

        #[test]
        fn no_bytes_make_it_panic_or_keep_more_than_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut inbound = Inbound::new(64);
            inbound.extend(&bytes);
            let (received, _) = rest(&mut inbound);
            for one in received {
                if let Received::Message(text) = one {
                    prop_assert!(text.len() <= 64);
                }
            }
        }
    }
}
