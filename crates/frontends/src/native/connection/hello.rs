//! The beginning of a connection: `hello`, and who sends it.

use bytes::Bytes;
use portolan_core::{Millis, Principal, Refusal, RefusalCode, ports::Secret};
use portolan_protocol::{Greeting, Limits, PROTOCOL, ServerFrame, ServerInfo, You};

use super::ATTACHMENTS;
use crate::native::{
    Native,
    answer::{error_frame, frame_of},
    parse::{client_name, parse_greeting},
};
use portolan_host::door::{Cause, FRAME_BYTES, Guest, Visitor};
use portolan_wire::websocket::Outbound;

/// The identity of the visitor, now that its key (if it needs one) is known, or a refusal. Its token or login may have
/// ended since the upgrade.
fn enter(native: &Native, visitor: &Visitor, key: Option<&str>) -> Result<Principal, &'static str> {
    if visitor.stay().is_over() {
        return Err("the token or login of this connection has ended; connect again with a valid one");
    }
    match visitor {
        Visitor::Known(Guest(principal), _) => Ok(principal.clone()),
        Visitor::Half(half) => key
            .and_then(|key| native.access.complete(half, key))
            .ok_or("the key does not belong to the login in the cookie; log in again with a new ticket"),
    }
}

/// Answers a message of a client that has not sent `hello` yet. Any other message gets an answer, too.
pub(super) fn hello(
    native: &Native,
    visitor: &Visitor,
    message: &Bytes,
    out: &mut Outbound,
) -> Result<Option<Principal>, Cause> {
    match parse_greeting(message) {
        Ok(Greeting::Hello { protocol: 0, .. }) => {
            let refusal = Refusal::new(RefusalCode::Invalid, "this server speaks protocol 1");
            out.text(&error_frame(None, &refusal));
            Err(Cause::NotEntered)
        }
        Ok(Greeting::Hello { protocol, client, key }) => {
            let mut who = match enter(native, visitor, key.as_ref().map(Secret::reveal)) {
                Ok(who) => who,
                Err(why) => {
                    out.text(&error_frame(None, &Refusal::new(RefusalCode::Unauthenticated, why)));
                    return Err(Cause::StayOver);
                }
            };
            who.via = client_name(&client.name);
            tracing::debug!(token = %who.token, via = who.via, "client connected");
            out.text(&welcome(native, &who, protocol));
            Ok(Some(who))
        }
        Err(unreadable) => {
            out.text(&error_frame(unreadable.id.as_ref(), &unreadable.refusal));
            Ok(None)
        }
    }
}

fn welcome(native: &Native, who: &Principal, protocol: u32) -> Bytes {
    frame_of(&ServerFrame::Welcome {
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
    })
}
