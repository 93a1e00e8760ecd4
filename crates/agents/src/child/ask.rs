//! Asks a program for something that it reports by itself, such as its version: start it, read its output, end it.

use std::time::Duration;

use portolan_core::SessionId;
use tokio::{io::AsyncReadExt as _, time::timeout};

use super::{Child, Program};

/// How much of an answer is read. A version or a status is a few lines.
const HEARD: u64 = 64 * 1024;

/// The output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) stderr: String,
}

/// Runs a program without input until it ends, at most for this long; then it is ended with all processes that it
/// started.
pub(crate) async fn ask(program: Program, home_key: &str, within: Duration) -> Result<Said, String> {
    let agent = program.agent.clone();
    let (child, pipes) = Child::start(program, home_key, SessionId::new()).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    })?;
    drop(pipes.input);
    let mut output = Vec::new();
    let heard = timeout(within, async {
        // Unreadable output counts as none: the exit code decides.
        let _ = pipes.output.take(HEARD).read_to_end(&mut output).await;
        child.ended().await;
    });
    let in_time = heard.await.is_ok();
    let (status, stderr) = child.end(vec![]).await;
    if !in_time {
        return Err(format!("agent `{agent}` did not answer within {} s", within.as_secs_f32()));
    }
    let code = status.ok().and_then(|status| status.code());
    Ok(Said { code, output: String::from_utf8_lossy(&output).into_owned(), stderr })
}
