//! attach: the terminal client. Reads frames and keys, and shows the lines that `terminal` makes.
//!
//! Reconnects by itself after a lost connection, from the last entry seen. A command without a reply is sent again
//! under its old id, and the daemon runs each id at most once.
//!
//! - [`follow`]: for a file, a pipe or a program: lines or frames, without keys
//! - [`joined`]: at a terminal: the session, its connection, and the loop over frames and keys
//! - [`inbound`]: frames from the daemon
//! - [`typed`]: keys of the user; [`edit`]: the user's editor
//! - [`draw`]: what is on the screen; [`screen`]: the terminal itself

mod draw;
mod edit;
mod follow;
mod inbound;
mod joined;
mod screen;
mod typed;

use std::io::IsTerminal as _;

use portolan_client::{Attached, Client};
use portolan_core::{SessionId, log::delivery::Start};

use self::joined::Joined;
use super::Context;
use crate::{
    arguments::Attach,
    failure::Outcome,
    output::{self, Format},
};

pub(super) async fn attach(context: &Context, attach: Attach) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(&attach.id).await?;
    let start = attach.from.map_or(Start::Tail(attach.tail), |from| Start::After(portolan_core::Seq(from)));
    join(context, client, session, start).await
}

/// Joins a session and stays until the user leaves or the session is deleted.
pub(super) async fn join(context: &Context, client: Client, session: SessionId, start: Start) -> Outcome {
    let attached = Attached::new(client, session, start).await?;
    if context.format() == Format::Json {
        return follow::frames(attached).await;
    }
    if std::io::stdin().is_terminal() && output::is_terminal() {
        return Joined::new(attached).interactive().await;
    }
    follow::plain(attached).await
}
