//! The beginning of a connection: hello, and who says it.

use portolan_core::{Millis, Principal, Refusal, RefusalCode, ports::Secret};
use portolan_protocol::{ClosingReason, Greeting, Limits, PROTOCOL, ServerFrame, ServerInfo, You};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{ATTACHMENTS, farewell::Ending};
use crate::native::{
    Native,
    answer::{error_frame, frame_of},
    parse::{client_name, parse_greeting},
};
use portolan_host::door::{FRAME_BYTES, Guest, Visitor};
use portolan_wire::websocket::{Received, Socket};

/// Frames before hello. A client that begins with something else learns so, and may go on.
const FRAMES: usize = 16;

/// Who the visitor is, now that its key (where it needs one) is known, or why not. What let it in may have ended since.
fn enter(native: &Native, visitor: &Visitor, key: Option<&str>) -> Result<Principal, &'static str> {
    if visitor.stay().is_over() {
        return Err(
            "what let this connection in has ended meanwhile; connect again with a valid token or login",
        );
    }
    match visitor {
        Visitor::Known(Guest(principal), _) => Ok(principal.clone()),
        Visitor::Half(half) => key
            .and_then(|key| native.keeper.complete(half, key))
            .ok_or("the key does not go with the cookie; log in again with a new ticket"),
    }
}

/// Waits for hello and answers it. What cannot be taken for one is answered, too; the caller's clock runs on.
pub(super) async fn hello<S>(
    native: &Native,
    visitor: &Visitor,
    socket: &mut Socket<S>,
) -> Result<Principal, Ending>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..FRAMES {
        let frame = match socket.receive().await? {
            Received::Message(text) => parse_greeting(&text),
            Received::Ping(payload) => {
                socket.feed_pong(payload);
                socket.flush().await.map_err(|_| Ending::Gone)?;
                continue;
            }
            Received::Pong => continue,
            Received::Close(code) => return Err(Ending::Closed(code)),
        };
        let refusal = match frame {
            Ok(Greeting::Hello { protocol: 0, .. }) => {
                let refusal = Refusal::new(RefusalCode::Invalid, "this server speaks protocol 1");
                socket.feed(error_frame(None, &refusal));
                return Err(Ending::Close(ClosingReason::Protocol));
            }
            Ok(Greeting::Hello { protocol, client, key }) => {
                let mut who = match enter(native, visitor, key.as_ref().map(Secret::reveal)) {
                    Ok(who) => who,
                    Err(why) => {
                        socket.feed(error_frame(None, &Refusal::new(RefusalCode::Unauthenticated, why)));
                        return Err(Ending::Close(ClosingReason::TokenGone));
                    }
                };
                who.via = client_name(&client.name);
                tracing::debug!(token = %who.token, via = who.via, "client connected");
                socket.feed(frame_of(&ServerFrame::Welcome {
                    protocol: protocol.min(PROTOCOL),
                    server: ServerInfo {
                        name: "portolan".into(),
                        version: native.version.clone(),
                        now: Some(Millis::now()),
                        incarnation: native.incarnation.clone(),
                    },
                    you: You {
                        token: who.token.clone(),
                        name: who.name.clone(),
                        role: who.role,
                        sessions: who.sessions.clone(),
                    },
                    limits: Limits { frame_bytes: FRAME_BYTES as u32, attachments: ATTACHMENTS as u32 },
                }));
                return Ok(who);
            }
            Err(unreadable) => error_frame(unreadable.id.as_ref(), &unreadable.refusal),
        };
        socket.feed(refusal);
        socket.flush().await.map_err(|_| Ending::Gone)?;
    }
    Err(Ending::Close(ClosingReason::Protocol))
}
