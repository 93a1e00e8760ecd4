//! Scenes with failures.

use portolan_core::{
    Event,
    event::{ErrorInfo, ErrorKind, HookStatus, Level},
};
use serde_json::json;

use super::super::stage::{Played, Stage, Stop};

fn overloaded() -> ErrorInfo {
    ErrorInfo {
        kind: ErrorKind::Overloaded,
        message: "the model is overloaded (simulated)".into(),
        way_out: Some("wait; the agent tries again by itself".into()),
    }
}

pub(super) async fn retry(stage: &Stage) -> Played {
    stage.say("I call a model that does not exist. It is overloaded at first.").await?;
    stumble(stage, 2).await;
    stage.say("Two tries failed; the third succeeded.").await
}

/// A number of failed tries.
pub(super) async fn stumble(stage: &Stage, tries: u32) {
    for attempt in 1..=tries {
        let delay_ms = Some(u64::from(attempt) * 250);
        stage.event(Event::Retry { attempt, max: Some(3), delay_ms, error: overloaded() });
        stage.pause(12 * attempt).await;
    }
}

/// A turn that fails.
pub(super) async fn error(stage: &Stage) -> Played {
    stage.say("This turn is going to fail.").await?;
    stage.pause(10).await;
    Err(Stop::Failed(ErrorInfo {
        kind: ErrorKind::RateLimit,
        message: "too many requests (simulated)".into(),
        way_out: Some("send another prompt; the session continues".into()),
    }))
}

/// All other events of an agent: hooks, notices, a login, a failure that does not end the turn.
pub(super) async fn signals(stage: &Stage) -> Played {
    stage.say("Hooks, notices, a login, and a failure that does not end the turn.").await?;
    small_print(stage).await;
    stage.say("The session continues after all of them.").await
}

pub(super) async fn small_print(stage: &Stage) {
    let hook = stage.name();
    let told = |status, data| Event::Hook {
        hook: hook.clone(),
        name: "weather".into(),
        event: "UserPromptSubmit".into(),
        status,
        data,
    };
    stage.event(told(HookStatus::Started, None));
    stage.event(told(HookStatus::Progress, Some(json!({ "stdout": "looking out of the window" }))));
    stage.event(told(HookStatus::Completed, Some(json!({ "stdout": "fair winds", "exit_code": 0 }))));
    stage.pause(6).await;
    stage.notice(Level::Info, "The wind has turned to the south.");
    stage.notice(Level::Warning, "There is a cat in the cargo.");
    stage.event(Event::AuthStatus {
        authenticating: true,
        output: vec!["asking for a password…".into()],
        error: None,
    });
    stage.pause(6).await;
    stage.event(Event::AuthStatus {
        authenticating: false,
        output: vec!["there is none; come in".into()],
        error: None,
    });
    let error = ErrorInfo {
        kind: ErrorKind::Network,
        message: "the gull that carries the post is late".into(),
        way_out: Some("nothing to do; it will come".into()),
    };
    stage.event(Event::Failure { error, recoverable: true });
    stage.event(Event::ToolSummary { summary: "watched the weather".into(), tools: vec![] });
    stage.event(Event::FilesPersisted {
        files: vec![json!({ "filename": "harbour.txt", "file_id": "make-believe" })],
        failed: vec![],
    });
}
