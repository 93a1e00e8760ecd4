//! The door: the one listener and its checks. Every frontend is behind it.
//!
//! The door owns the sockets, TLS, tokens, tickets, and the checks of `Host` and `Origin`. It decides *who* a client is
//! and whether a page may use this server at all. Core decides what a client may do.
//!
//! A request passes these checks in order: a place for its connection; its head within limits; the name by which it
//! calls us; the page it comes from; who sends it; how often; its body within limits. The sender's access is checked
//! again with every piece of the body; when the access ends, so do the request, the response and the socket. Only
//! `/healthz`, the page's static files and the login are open without a token, and only under one of our names.
//!
//! A request that becomes a WebSocket runs in the loop of [`Connection`], whichever frontend it belongs to.

mod access;
mod admit;
mod authenticator;
mod authority;
mod bind;
mod body;
mod connection;
mod denied;
mod guard;
mod lasting;
mod late;
mod leash;
mod lockout;
mod login;
mod owner_file;
mod pairing;
mod places;
mod reporter;
mod rules;
mod secret;
mod serve;
mod settings;
mod stay;
#[cfg(test)]
pub(crate) mod tests;
mod tickets;
mod tls;
mod tokens;
mod upgrade;
mod watched;

pub use access::{
    AccessCheck, Arrival, BadName, COOKIE, HEALTH_PATH, KEY_HEADER, LOGIN_PATH, WEBSOCKET_PATH, Witness,
};
pub use admit::{Admit, KnownBySecret, Paths, SecretCheck, SecretVerdict};
pub use authenticator::{Authenticator, Credential, Standing};
pub use bind::{Door, DoorError, Listening, Reach};
pub use body::{JsonBody, collect, json_depth_exceeds, reason};
pub use connection::{Cause, Connection, Ending, LastWords, Protocol, Stall};
pub use denied::Denied;
pub use guard::{CONTENT_SECURITY_POLICY, Guest, Leaving, Visitor, guard};
pub use late::{BEARER_PROTOCOL, Stranger, protocols};
pub use leash::Farewell;
pub use login::LOGOUT_PATH;
pub use owner_file::OwnerFileError;
pub use pairing::Device;
pub use reporter::{Notes, Reporter, opened, reporter};
pub use rules::Rules;
pub use secret::{Digest, Secret, SecretKind, mask};
pub use serve::{Serving, serve};
pub use settings::{DoorLimits, DoorSettings, FRAME_BYTES, JSON_DEPTH, ListenAddress, PeerCheck, TlsFiles};
pub use stay::{Over, Stay};
pub use tickets::{BROWSER_IDLE_MS, BrowserSession, Caller, HalfGuest, PAIRING_MS, TICKET_MS, Tickets};
pub use tls::TlsError;
pub use tokens::{TokenInfo, Tokens};
pub use upgrade::Upgrade;
