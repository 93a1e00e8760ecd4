//! Shows what an agent does until the turn of one prompt has ended.

use portolan_client::{Client, frames::Inbound};
use portolan_core::{
    Action, CommandId, Event, Seq, SessionId,
    command::Stage,
    entry::Decoded,
    event::TurnOutcome,
    log::delivery::Start,
    policy::budget::Level,
    request::{Answer, Ask, Outcome as Ended, Request},
};
use serde_json::{Value, json};

use super::Context;
use crate::{
    failure::{Exit, Failure, Outcome},
    output::{self, Format},
    terminal::{
        clean,
        style::Colours,
        transcript::{Layout, Transcript},
    },
};

/// Sends a prompt, and shows its turn.
pub(super) async fn prompt(
    context: &Context,
    mut client: Client,
    session: SessionId,
    action: Action,
) -> Outcome {
    let (seq, _) = client.state(session).await?;
    client.attach(session, Start::After(seq)).await?;
    let receipt = client.submit(session, CommandId::random(), action).await?;
    if let Stage::Refused { refusal } = receipt.stage {
        return Err(refusal.into());
    }
    let watch = Watch { command: Some(receipt.seq), taken_up: false };
    let ended = see_through(context, &mut client, session, watch, &mut Tally::default()).await;
    client.close().await;
    ended
}

/// Shows the first turn of an unattended session, ends its agent, and says what was denied.
pub(super) async fn unattended(context: &Context, mut client: Client, session: SessionId) -> Outcome {
    client.attach(session, Start::After(Seq::ZERO)).await?;
    let (watch, mut tally) = (Watch { command: None, taken_up: false }, Tally::default());
    let ended = see_through(context, &mut client, session, watch, &mut tally).await;
    // An agent that has ended by itself refuses this.
    let _ = client.submit(session, CommandId::random(), Action::Stop).await;
    client.close().await;
    tally.print(context, session, &ended)?;
    ended?;
    match tally.denied.len() {
        0 => Ok(()),
        denied => {
            let message = format!("{denied} of {} requests were denied", denied + tally.allowed);
            Err(Failure { exit: Exit::Denied, message })
        }
    }
}

async fn see_through(
    context: &Context,
    client: &mut Client,
    session: SessionId,
    mut watch: Watch,
    tally: &mut Tally,
) -> Outcome {
    let colours = Colours::when(output::colours());
    let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
    loop {
        let (lines, seen, text) = match client.next().await {
            Ok(Inbound::Entry { entry, text, .. }) => {
                if entry.seq <= transcript.seen() {
                    continue;
                }
                let lines = transcript.entry(&entry);
                tally.entry(&entry.event);
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
            return outcome;
        }
    }
}

/// What the requests of a turn came to.
#[derive(Debug, Default)]
struct Tally {
    allowed: usize,
    denied: Vec<Denied>,
}

/// A denied request.
#[derive(Debug)]
struct Denied {
    request: u64,
    what: String,
    why: String,
}

impl Tally {
    fn entry(&mut self, event: &Event) {
        let Event::RequestDecided { request, outcome: Ended::Answered { answer, .. } } = event else {
            return;
        };
        match answer {
            Answer::Deny { message, .. } => self.denied.push(Denied {
                request: request.request.0,
                what: what(request),
                why: message.clone().unwrap_or_default(),
            }),
            _ => self.allowed += 1,
        }
    }

    fn print(&self, context: &Context, session: SessionId, ended: &Outcome) -> Outcome {
        if context.format() == Format::Json {
            let denied: Vec<Value> = self
                .denied
                .iter()
                .map(|it| json!({ "request": it.request, "what": it.what, "why": it.why }))
                .collect();
            return output::json(&json!({
                "type": "summary",
                "session": session,
                "completed": ended.is_ok(),
                "allowed": self.allowed,
                "denied": denied,
            }));
        }
        for denied in &self.denied {
            output::note(format!("denied: {}: {}", denied.what, clean::line(&denied.why)));
        }
        output::note(format!("session {session}; `portolan explain {session}` shows every decision"));
        Ok(())
    }
}

/// A request in a line.
fn what(request: &Request) -> String {
    let text = match &request.ask {
        Ask::Permission { tool_name, description, input, .. } => {
            let named = ["command", "file_path", "path", "url"].iter().find_map(|name| input[name].as_str());
            let shown = named.or(description.as_deref());
            shown.map_or_else(|| tool_name.clone(), |shown| format!("{tool_name} {shown}"))
        }
        Ask::Question { questions } => {
            let first = questions.first().map(|question| question.question.as_str());
            format!("question {}", first.unwrap_or_default())
        }
        Ask::Plan { .. } => "plan".into(),
        Ask::Elicitation { server, message, .. } => format!("{server}: {message}"),
        Ask::Hook { event, .. } => format!("hook {event}"),
        Ask::Other { name, .. } => name.clone(),
    };
    clean::line(&text)
}

/// Waits for the end of the turn of one prompt.
struct Watch {
    /// The prompt's entry; `None` until the session's first prompt is seen.
    command: Option<Seq>,
    taken_up: bool,
}

impl Watch {
    /// The result of the prompt, when it is known.
    fn entry(&mut self, entry: &Decoded<Event>) -> Option<Outcome> {
        match &entry.event {
            Event::CommandAccepted { action, .. }
                if self.command.is_none() && matches!(**action, Action::Prompt { .. }) =>
            {
                self.command = Some(entry.seq);
                None
            }
            Event::Prompt { command, .. } if Some(*command) == self.command => {
                self.taken_up = true;
                None
            }
            Event::Receipt { command, stage } if Some(*command) == self.command => match stage {
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
            // The prompt waits until the budget counts less or allows more; this command does not.
            Event::BudgetReached { standing }
                if standing.level == Level::Over && self.command.is_some() && !self.taken_up =>
            {
                let or_tomorrow = if standing.per.is_some() { ", or until the next day begins" } else { "" };
                Some(Err(Failure::new(format!(
                    "{}; the prompt waits until an owner raises or resets the budget (`portolan budget`){or_tomorrow}",
                    standing.words()
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
        let mut watch = Watch { command: Some(Seq(5)), taken_up: false };
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
        let mut watch = Watch { command: Some(Seq(5)), taken_up: false };
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
            let mut watch = Watch { command: Some(Seq(5)), taken_up: true };
            watch.entry(&entry(ended(outcome))).unwrap().map_err(|failure| failure.exit)
        };
        assert_eq!(code(TurnOutcome::Completed), Ok(()));
        assert_eq!(code(TurnOutcome::Interrupted), Err(Exit::TurnInterrupted));
        assert_eq!(code(TurnOutcome::Failed), Err(Exit::TurnFailed));
        assert_eq!(code(TurnOutcome::MaxBudget), Err(Exit::TurnFailed));
    }
}
