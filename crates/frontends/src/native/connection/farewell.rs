//! The end of a connection: the last frame to the client.

use std::time::Duration;

use portolan_host::door::{Cause, LastWords};
use portolan_protocol::{ClosingReason, ServerFrame};

use crate::native::{Native, answer::frame_of};

/// How long a slow client gets to read the reason: it then learns that it can reconnect, instead of only losing its
/// connection.
const FAREWELL_TO_THE_SLOW: Duration = Duration::from_mins(1);

/// Sends the reason in a `closing` frame, and counts the close.
pub(super) fn last_words(native: &Native, cause: Cause) -> LastWords {
    let (reason, code, message) = match cause {
        Cause::Violation(violation) => {
            (ClosingReason::Protocol, violation.code(), format!("{violation}; see docs/protocol.md"))
        }
        Cause::Stopping => of(ClosingReason::Stopping),
        Cause::TooSlow => of(ClosingReason::TooSlow),
        Cause::StayOver => of(ClosingReason::TokenGone),
        Cause::NotEntered => of(ClosingReason::Protocol),
    };
    native.metrics.closed(reason);
    let resumable = reason.is_resumable();
    let words = LastWords::frame(code, frame_of(&ServerFrame::Closing { reason, message, resumable }));
    match cause {
        Cause::TooSlow => LastWords { patience: FAREWELL_TO_THE_SLOW, ..words },
        Cause::Violation(_) | Cause::Stopping | Cause::StayOver | Cause::NotEntered => words,
    }
}

fn of(reason: ClosingReason) -> (ClosingReason, u16, String) {
    (reason, reason.code(), reason.message().into())
}
