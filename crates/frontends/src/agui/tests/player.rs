//! An agent that plays what its prompt says: JSON steps, or plain text, which it streams back.

use std::sync::Arc;

use portolan_core::{
    Capabilities,
    capabilities::{NativeProtocol, PromptQueue},
    event::{AgentInfo, Content, Event, ExitReason, TurnOutcome, TurnResult, plain_text},
    ports::Report,
    request::Ask,
    spec::SpecOption,
};
use portolan_testkit::agents::{Cut, Played, Puppet, Strings, exit};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// One step.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// Reports this.
    Event(Event),
    /// Asks this, and continues with the answer; `tool` is its call.
    Ask { ask: Ask, tool: Option<String> },
    /// Waits until it is interrupted.
    Wait,
    /// Fails the turn.
    Fail(String),
    /// Ends the process.
    Crash,
    /// Asks this after the end of the turn, as a background task may.
    Linger(Ask),
}

/// How it starts.
#[derive(Clone, Debug)]
pub(super) enum Starts {
    AtOnce,
    /// It is ready when this is cancelled.
    After(CancellationToken),
    /// It never becomes ready.
    Never,
}

pub(super) fn player(kind: &str, starts: Starts) -> Arc<Puppet> {
    let capabilities = Capabilities {
        streaming: true,
        interrupt: true,
        session_resume: true,
        image_input: true,
        // One of them accepts a prompt during a turn, and starts the next turn with it.
        prompt_queue: if kind == "eager" { PromptQueue::Agent } else { PromptQueue::Held },
        edited_input: true,
        native_protocol: NativeProtocol::Demo,
        options: vec![SpecOption::Cwd, SpecOption::Prompt, SpecOption::Name],
        ..Capabilities::default()
    };
    let player = Puppet::new(kind).with_capabilities(capabilities).playing(move |strings| {
        let starts = starts.clone();
        Box::pin(async move {
            strings.started().await;
            match starts {
                Starts::AtOnce => {}
                Starts::After(ready) => ready.cancelled().await,
                Starts::Never => return std::future::pending().await,
            }
            strings.say(Report::Ready).await;
            let (model, mode) = (Some("oak".into()), Some("default".into()));
            let info = Box::new(AgentInfo { model, mode, ..AgentInfo::default() });
            strings.event(Event::AgentInfo { info }).await;
            strings.act(|strings, content| Box::pin(scene(strings, content))).await
        })
    });
    Arc::new(player)
}

async fn scene(strings: &mut Strings, content: Vec<Content>) -> Played {
    let words = plain_text(&content);
    let Ok(steps) = serde_json::from_str::<Vec<Step>>(&words) else {
        stream(strings, &format!("you said: {words}")).await;
        return Ok(paid());
    };
    for step in steps {
        match step {
            Step::Event(event) => strings.event(event).await,
            Step::Ask { ask, tool } => {
                let answer = strings.answer_to(ask, None, tool.as_deref()).await?;
                stream(strings, &format!("answer: {}", serde_json::to_string(&answer).unwrap())).await;
            }
            Step::Wait => return Err(strings.interrupted().await),
            Step::Fail(message) => return Err(Cut::Failed(message)),
            Step::Crash => return Err(Cut::Ends(exit(ExitReason::Failed, "it broke"))),
            Step::Linger(ask) => strings.linger(ask),
        }
    }
    Ok(paid())
}

async fn stream(strings: &mut Strings, text: &str) {
    strings.stream(text.split_inclusive(' ')).await;
}

/// The cost of every successful turn.
fn paid() -> TurnResult {
    TurnResult { cost_usd: Some(0.25), steps: Some(1), ..TurnResult::bare(TurnOutcome::Completed) }
}
