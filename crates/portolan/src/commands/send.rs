//! send: sends a prompt to the agent and, if wanted, waits for the end of its turn.

use portolan_client::{Client, frames::Inbound};
use portolan_core::{
    Action, CommandId, Event, Seq, SessionId, command::Stage, entry::Decoded, event::TurnOutcome,
    log::delivery::Start,
};
use serde_json::json;

use super::{Context, inputs};
use crate::{
    arguments::Send,
    failure::{Exit, Failure, Outcome},
    output::{self, Format},
    terminal::{
        style::Colours,
        transcript::{Layout, Transcript},
    },
};

pub(super) async fn send(context: &Context, send: Send) -> Outcome {
    let content = inputs::prompt(&send.text, &send.images)?;
    if content.is_empty() {
        return Err(Failure::usage("give a prompt, or `-` to read it from stdin"));
    }
    let mut client = context.client().await?;
    let session = client.resolve(&send.id).await?;
    let action = Action::Prompt { content };
    if send.wait {
        return see_through(context, client, session, action).await;
    }
    let receipt = client.submit(session, CommandId::random(), action).await?;
    client.close().await;
    if let Stage::Refused { refusal } = receipt.stage {
        return Err(refusal.into());
    }
    match context.format() {
        Format::Json => output::json(&json!({"session": session, "receipt": receipt})),
        Format::Plain => Ok(()),
    }
}

/// Shows what the agent does until the turn of this prompt has ended.
async fn see_through(context: &Context, mut client: Client, session: SessionId, action: Action) -> Outcome {
    let (seq, _) = client.state(session).await?;
    client.attach(session, Start::After(seq)).await?;
    let receipt = client.submit(session, CommandId::random(), action).await?;
    if let Stage::Refused { refusal } = receipt.stage {
        return Err(refusal.into());
    }
    let colours = Colours::when(output::colours());
    let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
    let mut watch = Watch { command: receipt.seq, taken_up: false };
    loop {
        let (lines, seen, text) = match client.next().await {
            Ok(Inbound::Entry { entry, text, .. }) => {
                if entry.seq <= transcript.seen() {
                    continue;
                }
                let lines = transcript.entry(&entry);
                (lines, watch.entry(&entry), Some(text))
            }
            Ok(Inbound::Snapshot { seq, state, .. }) => (transcript.snapshot(seq, &state), None, None),
            Ok(Inbound::Ended { .. }) => {
                return Err(Failure::new("the session was deleted, or the daemon is stopping"));
            }
            Ok(_) => continue,
            Err(_) => {
                client.reconnect().await?;
                client.attach(session, Start::After(transcript.seen())).await?;
                continue;
            }
        };
        match (context.format(), text) {
            (Format::Json, Some(text)) => output::json_text(&text)?,
            (Format::Json, None) => {}
            (Format::Plain, _) => {
                for line in lines {
                    output::line(line.paint(colours))?;
                }
            }
        }
        if let Some(outcome) = seen {
            client.close().await;
            return outcome;
        }
    }
}

/// Waits for the end of the turn of one prompt.
struct Watch {
    command: Seq,
    taken_up: bool,
}

impl Watch {
    /// The result of the prompt, when it is known.
    fn entry(&mut self, entry: &Decoded<Event>) -> Option<Outcome> {
        match &entry.event {
            Event::Prompt { command, .. } if *command == self.command => {
                self.taken_up = true;
                None
            }
            Event::Receipt { command, stage } if *command == self.command => match stage {
                Stage::Refused { refusal } => Some(Err(refusal.clone().into())),
                Stage::Uncertain { reason } => Some(Err(Failure {
                    exit: Exit::Uncertain,
                    message: format!("nobody knows whether the prompt reached the agent: {reason}"),
                })),
                Stage::Consumed { .. } => {
                    self.taken_up = true;
                    None
                }
                Stage::Accepted | Stage::Sending | Stage::Delivered => None,
            },
            // The agent may start again automatically, or a person may start it much later. The prompt waits for that;
            // this command does not.
            Event::AgentExited { exit, .. } if exit.reason.is_error() && !self.taken_up => {
                Some(Err(Failure::new(format!(
                    "the agent ended before it began the prompt: {}; the prompt waits until the agent runs again \
                     (`portolan resume`)",
                    exit.message
                ))))
            }
            Event::TurnEnded { result, .. } if self.taken_up => Some(match result.outcome {
                TurnOutcome::Completed => Ok(()),
                TurnOutcome::Interrupted => {
                    Err(Failure { exit: Exit::TurnInterrupted, message: "the turn was interrupted".into() })
                }
                TurnOutcome::Failed
                | TurnOutcome::MaxTurns
                | TurnOutcome::MaxBudget
                | TurnOutcome::StructuredOutputFailed => {
                    let error =
                        result.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
                    Err(Failure { exit: Exit::TurnFailed, message: format!("the turn failed{error}") })
                }
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{
        Generation, Millis,
        event::{ExitReason, TurnResult},
    };

    use super::*;

    fn entry(event: Event) -> Decoded<Event> {
        Decoded { seq: Seq(9), at: Millis(0), by: None, event }
    }

    fn ended(outcome: TurnOutcome) -> Event {
        Event::TurnEnded { turn: 1, result: Box::new(TurnResult::bare(outcome)) }
    }

    #[test]
    fn the_end_of_an_earlier_turn_does_not_end_the_wait() {
        let mut watch = Watch { command: Seq(5), taken_up: false };
        assert!(watch.entry(&entry(ended(TurnOutcome::Completed))).is_none());
        assert!(watch.entry(&entry(Event::Prompt { command: Seq(5), content: vec![] })).is_none());
        assert!(watch.entry(&entry(ended(TurnOutcome::Completed))).unwrap().is_ok());
    }

    #[test]
    fn an_agent_that_cannot_start_ends_the_wait() {
        let exited = |reason| Event::AgentExited {
            generation: Generation(1),
            exit: portolan_core::event::Exit {
                reason,
                code: None,
                signal: None,
                message: "no program `x`".into(),
                stderr: String::new(),
            },
        };
        let mut watch = Watch { command: Seq(5), taken_up: false };
        assert!(
            watch.entry(&entry(exited(ExitReason::Stopped))).is_none(),
            "the prompt starts the agent again"
        );
        let failure = watch.entry(&entry(exited(ExitReason::NotStarted))).unwrap().unwrap_err();
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.message.contains("no program `x`"), "{failure}");
    }

    #[test]
    fn the_exit_code_shows_how_the_turn_ended() {
        let code = |outcome| {
            let mut watch = Watch { command: Seq(5), taken_up: true };
            watch.entry(&entry(ended(outcome))).unwrap().map_err(|failure| failure.exit)
        };
        assert_eq!(code(TurnOutcome::Completed), Ok(()));
        assert_eq!(code(TurnOutcome::Interrupted), Err(Exit::TurnInterrupted));
        assert_eq!(code(TurnOutcome::Failed), Err(Exit::TurnFailed));
        assert_eq!(code(TurnOutcome::MaxBudget), Err(Exit::TurnFailed));
    }
}
