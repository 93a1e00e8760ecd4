//! Ends of a stream while its session continues: its client has disconnected, or has lost access.

use futures_util::future::FutureExt as _;
use portolan_core::ports::Boxed;

use super::{Task, end::End};
use portolan_host::door::Over;

/// Why a client has lost access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutOut {
    /// Its token is no longer valid.
    TokenGone,
    /// Its browser was logged out.
    LoggedOut,
    /// The daemon ends.
    Stopping,
}

impl From<Over> for PutOut {
    fn from(over: Over) -> Self {
        match over {
            Over::Token => Self::TokenGone,
            Over::Login => Self::LoggedOut,
        }
    }
}

impl From<PutOut> for End {
    fn from(why: PutOut) -> Self {
        match why {
            PutOut::TokenGone => Self::failed("unauthenticated", "the token was revoked or has expired"),
            PutOut::LoggedOut => Self::failed("unauthenticated", "this browser was logged out"),
            PutOut::Stopping => {
                Self::failed("stopping", "Portolan is shutting down; try again when it is back")
            }
        }
    }
}

impl Task {
    /// Returns when the client has lost access.
    pub(super) fn put_out(&self) -> Boxed<'static, PutOut> {
        let (stay, stopping) = (self.stay.clone(), self.agui.stopping.clone());
        async move {
            tokio::select! {
                why = stay.over() => why.into(),
                () = stopping.cancelled() => PutOut::Stopping,
            }
        }
        .boxed()
    }

    /// How the stream ends if the client has lost access; checked before every action for the client.
    pub(super) fn may_stay(&self) -> Result<(), End> {
        self.stay.ended().map_or(Ok(()), |over| Err(PutOut::from(over).into()))
    }

    /// Returns when the client has closed its connection. It holds the body open: drop it before the stream ends.
    pub(super) fn left(&self) -> Boxed<'static, ()> {
        let chunks = self.out.chunks.clone();
        async move { chunks.closed().await }.boxed()
    }
}
