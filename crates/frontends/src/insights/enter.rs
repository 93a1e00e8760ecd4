//! The beginning of a connection: authentication. No session is used before that.

use bytes::Bytes;
use portolan_core::{Principal, Role, TokenId};

use super::{
    Insights,
    connection::tell,
    parse::parse,
    wire::{AuthOk, ClientMessage, ErrorCode, ServerMessage},
};
use crate::way_out;
use portolan_host::door::{Arrival, Cause, Stay, Stranger};
use portolan_wire::websocket::Outbound;

/// The largest message of an unauthenticated client: many times the size of a token and its envelope.
pub(super) const STRANGERS_BYTES: usize = 16 * 1024;

/// The name of this frontend in the log.
const VIA: &str = "insights";

/// A WebSocket client.
#[derive(Debug)]
pub(super) enum Visitor {
    /// Authenticated, with its expiry.
    Known(Principal, Stay),
    /// Must authenticate with a message.
    Stranger(Stranger, Arrival),
}

/// An authenticated client.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) who: Principal,
    pub(super) stay: Stay,
    /// A client that came without a token may still send one.
    pub(super) stranger: Option<Stranger>,
}

impl Entered {
    fn by_token(mut who: Principal, stay: Stay) -> Self {
        VIA.clone_into(&mut who.via);
        Self { who, stay, stranger: None }
    }

    /// A client on this machine without a token, if that is allowed. It may only prompt and answer.
    fn anonymous(stranger: &Stranger) -> Option<Self> {
        let token: TokenId = "anonymous-insights".parse().ok()?;
        let who = Principal {
            token,
            name: "anonymous".into(),
            role: Role::Operator,
            sessions: None,
            via: VIA.into(),
        };
        let stranger = Some(stranger.clone());
        Some(Self { who, stay: Stay::endless(), stranger })
    }
}

/// The answer to `auth`.
pub(super) fn welcome(who: &Principal) -> ServerMessage {
    ServerMessage::AuthOk(AuthOk { name: who.name.clone(), role: who.role.to_string() })
}

/// How a visitor authenticates.
#[derive(Debug)]
pub(super) enum Entrance {
    /// At once.
    Open(Entered),
    /// Not at all.
    Shut(Cause),
    /// By a message with a token.
    ByToken(Stranger),
}

impl Entrance {
    pub(super) fn of(insights: &Insights, visitor: Visitor) -> Self {
        let (stranger, arrival) = match visitor {
            Visitor::Known(_, stay) if stay.is_over() => return Self::Shut(Cause::StayOver),
            Visitor::Known(who, stay) => return Self::Open(Entered::by_token(who, stay)),
            Visitor::Stranger(stranger, arrival) => (stranger, arrival),
        };
        if insights.settings.allow_anonymous_loopback
            && is_loopback(&arrival)
            && stranger.is_local()
            && let Some(anonymous) = Entered::anonymous(&stranger)
        {
            return Self::Open(anonymous);
        }
        Self::ByToken(stranger)
    }
}

/// Answers a message of an unauthenticated client. `auth` authenticates it; any other message gets an error.
pub(super) fn greet(
    insights: &Insights,
    stranger: &Stranger,
    message: &Bytes,
    out: &mut Outbound,
) -> Result<Option<Entered>, Cause> {
    let answer = match parse(message).map(|parsed| parsed.message) {
        Ok(ClientMessage::Auth(auth)) => match insights.access.introduce(stranger, &auth.token) {
            Ok((who, stay)) => {
                tell(out, &welcome(&who));
                return Ok(Some(Entered::by_token(who, stay)));
            }
            Err(denied) => {
                let why = format!("this token gives no access: {}", way_out::told(&denied.refusal));
                tell(out, &ServerMessage::error(ErrorCode::HandlerError, None, None, why));
                return Err(Cause::NotEntered);
            }
        },
        Ok(other) => {
            let session = other.session_id().map(str::to_owned);
            let why = if stranger.was_passed_on() {
                "send `auth` with a token first; connections through a proxy need a token"
            } else {
                "send `auth` with a token first"
            };
            ServerMessage::error(ErrorCode::HandlerError, session, None, why)
        }
        Err(error) => ServerMessage::Error(error),
    };
    tell(out, &answer);
    Ok(None)
}

/// Both ends are on this machine.
fn is_loopback(arrival: &Arrival) -> bool {
    match arrival {
        Arrival::Tcp { peer, local, .. } => {
            peer.ip().to_canonical().is_loopback() && local.ip().to_canonical().is_loopback()
        }
        Arrival::Unix | Arrival::Unknown => false,
    }
}
