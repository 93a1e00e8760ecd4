//! The beginning of a connection: who it is. Nothing is asked of any session before that is known.

use std::time::Duration;

use portolan_core::{Principal, Role, TokenId};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Insights,
    connection::{Ending, tell},
    parse::parse,
    wire::{AuthOk, ClientMessage, ErrorCode, ServerMessage},
};
use crate::way_out;
use portolan_host::door::{Arrival, Stay, Stranger};
use portolan_wire::websocket::{Received, Socket};

/// Someone with no token shows one within this time, or gives the place to another.
pub(super) const AUTH: Duration = Duration::from_secs(10);

/// The largest message of someone who is not known yet: a token and its envelope, many times over.
pub(super) const STRANGERS_BYTES: usize = 16 * 1024;

/// Messages of someone who is not known yet: a client that speaks before it says who it is learns so, and may go on.
const STRANGERS_MESSAGES: usize = 16;

/// What this frontend calls itself in the log.
const VIA: &str = "insights";

/// Who comes by WebSocket.
#[derive(Debug)]
pub(super) enum Visitor {
    /// Known, and for how long.
    Known(Principal, Stay),
    /// To be known by a message.
    Stranger(Stranger, Arrival),
}

/// Someone who is let in.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) who: Principal,
    pub(super) stay: Stay,
    /// Who came in without one may still show it.
    pub(super) stranger: Option<Stranger>,
}

impl Entered {
    fn by_token(mut who: Principal, stay: Stay) -> Self {
        VIA.clone_into(&mut who.via);
        Self { who, stay, stranger: None }
    }

    /// Someone of this machine who shows nothing, where that is allowed. They may prompt and answer, no more.
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

/// Finds out who it is. What cannot be taken for an `auth` is answered, too; the caller's clock runs on.
pub(super) async fn enter<S>(
    insights: &Insights,
    visitor: Visitor,
    socket: &mut Socket<S>,
) -> Result<Entered, Ending>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (stranger, arrival) = match visitor {
        Visitor::Known(_, stay) if stay.is_over() => return Err(Ending::TokenGone),
        Visitor::Known(who, stay) => return Ok(Entered::by_token(who, stay)),
        Visitor::Stranger(stranger, arrival) => (stranger, arrival),
    };
    if insights.settings.allow_anonymous_loopback
        && is_loopback(&arrival)
        && stranger.is_local()
        && let Some(anonymous) = Entered::anonymous(&stranger)
    {
        return Ok(anonymous);
    }
    for _ in 0..STRANGERS_MESSAGES {
        let answer = match socket.receive().await? {
            Received::Message(text) => match parse(&text) {
                Ok(parsed) => match parsed.message {
                    ClientMessage::Auth(auth) => match insights.keeper.introduce(&stranger, &auth.token) {
                        Ok((who, stay)) => {
                            tell(socket, &welcome(&who));
                            return Ok(Entered::by_token(who, stay));
                        }
                        Err(denied) => {
                            let message =
                                format!("this token does not let you in: {}", way_out::told(&denied.refusal));
                            let code = ErrorCode::HandlerError;
                            tell(socket, &ServerMessage::error(code, None, None, message));
                            return Err(Ending::Unknown);
                        }
                    },
                    other => {
                        let session = other.session_id().map(str::to_owned);
                        let message = if stranger.was_passed_on() {
                            "who are you? Through a proxy nobody gets in without a token: send `auth` first"
                        } else {
                            "who are you? Send `auth` with a token first"
                        };
                        ServerMessage::error(ErrorCode::HandlerError, session, None, message)
                    }
                },
                Err(error) => ServerMessage::Error(error),
            },
            Received::Ping(payload) => {
                socket.feed_pong(payload);
                socket.flush().await.map_err(|_| Ending::Gone)?;
                continue;
            }
            Received::Pong => continue,
            Received::Close(code) => return Err(Ending::Closed(code)),
        };
        tell(socket, &answer);
        socket.flush().await.map_err(|_| Ending::Gone)?;
    }
    Err(Ending::Unknown)
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
