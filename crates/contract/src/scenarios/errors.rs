//! Errors of the model's service, as kinds that a user understands.

use portolan_core::event::{ErrorKind, TurnOutcome};
use portolan_scripted::{FailureKind, Script, contains, fail, text};

use crate::{Bench, Fault, fault::must, session::Session};

/// Sends a prompt and waits for the turn to fail with this kind of error.
async fn fails_as(session: &mut Session, kind: ErrorKind) -> Result<(), Fault> {
    session.prompt("are you there").await?;
    let result = session.turn_end().await?;
    must!(result.outcome == TurnOutcome::Failed, "the turn ended as {:?} instead of failed", result.outcome);
    let Some(error) = result.error else { return Err(Fault::wrong("the failed turn has no error")) };
    must!(error.kind == kind, "the error is {:?} instead of {kind:?}: {}", error.kind, error.message);
    must!(!error.message.is_empty(), "the error has no words");
    must!(error.way_out.is_some(), "the error has no way out: {}", error.message);
    Ok(())
}

async fn fails_then_goes_on(bench: &Bench, failure: FailureKind, kind: ErrorKind) -> Result<(), Fault> {
    // Agents that always try again do so soon. Some agents read the second header, which is in milliseconds.
    bench.play(Script::new().otherwise(fail(failure).retry_after(1).header("retry-after-ms", "1")));
    let mut session = bench.session().await?;
    fails_as(&mut session, kind).await?;
    bench.play(Script::new().on(contains("and now")).reply(text("Here again.")));
    let said = session.exchange("and now").await?;
    must!(said == "Here again.", "once the service works, the session says {said:?}");
    Ok(())
}

pub(super) async fn unauthorized(bench: &Bench) -> Result<(), Fault> {
    fails_then_goes_on(bench, FailureKind::Unauthorized, ErrorKind::Auth).await
}

pub(super) async fn rate_limited(bench: &Bench) -> Result<(), Fault> {
    fails_then_goes_on(bench, FailureKind::RateLimited, ErrorKind::RateLimit).await
}

pub(super) async fn overloaded(bench: &Bench) -> Result<(), Fault> {
    fails_then_goes_on(bench, FailureKind::Overloaded, ErrorKind::Overloaded).await
}

pub(super) async fn unreachable(bench: &Bench) -> Result<(), Fault> {
    let mut session = bench.session().await?;
    // Some agents try for more than a minute.
    session.may_take_long();
    fails_as(&mut session, ErrorKind::Network).await
}
