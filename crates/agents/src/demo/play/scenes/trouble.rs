//! Scenes in which something goes wrong, honestly told.

use portolan_core::{
    Event,
    event::{ErrorInfo, ErrorKind, HookStatus, Level},
};
use serde_json::json;

use super::super::stage::{Played, Stage, Stop};

fn overloaded() -> ErrorInfo {
    ErrorInfo {
        kind: ErrorKind::Overloaded,
        message: "the model has too much to do (make-believe)".into(),
        way_out: Some("wait; it is tried again by itself".into()),
    }
}

pub(super) async fn retry(stage: &Stage) -> Played {
    stage.say("I call my model, which does not exist. Watch it be busy.").await?;
    stumble(stage, 2).await;
    stage.say("There it is. Two tries failed, the third went through.").await
}

/// So many failed tries.
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
        message: "too many requests (make-believe)".into(),
        way_out: Some("ask for something else; the session goes on".into()),
    }))
}

/// Everything else that an agent may tell: hooks, notices, logging in, a failure that is not the end.
pub(super) async fn signals(stage: &Stage) -> Played {
    stage.say("The small print: hooks, notices, a login, a failure that is not the end.").await?;
    small_print(stage).await;
    stage.say("None of it was serious.").await
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
