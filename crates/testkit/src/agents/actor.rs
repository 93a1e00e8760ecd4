//! An actor: an agent that does what its prompts say. Each prompt is one turn, which a scene of the test plays.

use portolan_core::{
    Event,
    event::{Content, ErrorInfo, ErrorKind, Exit, ExitReason, TurnOutcome, TurnResult},
    ports::{Boxed, Instruction, InstructionId, Order, Report},
    request::{Answer, Ask},
};
use serde_json::Value;

use super::{Strings, moves::exit};

/// The result of a scene: the turn's result, or what cut it short.
pub type Played = Result<TurnResult, Cut>;

/// What cuts a scene short.
#[derive(Debug)]
pub enum Cut {
    /// Somebody interrupted the turn.
    Interrupted,
    /// The turn fails with these words.
    Failed(String),
    /// The agent ends.
    Ends(Exit),
}

/// How an actor settles an instruction that its scene does not wait for.
#[derive(Debug)]
pub enum Settled {
    /// The instruction is done, with this result.
    Done(Option<Value>),
    /// This event is reported, and the instruction is done.
    With(Box<Event>),
    /// The agent refuses.
    Refused(String),
    /// The instruction is never settled.
    Never,
}

impl Strings {
    /// Plays a turn for each prompt, until the session is gone or a scene ends the agent.
    pub async fn act(
        &mut self,
        scene: impl for<'s> Fn(&'s mut Self, Vec<Content>) -> Boxed<'s, Played>,
    ) -> Exit {
        while let Some((instruction_id, content)) = self.next_prompt().await {
            self.begin_turn(instruction_id).await;
            let result = match scene(self, content).await {
                Ok(result) => result,
                Err(Cut::Interrupted) => TurnResult::bare(TurnOutcome::Interrupted),
                Err(Cut::Failed(message)) => TurnResult {
                    error: Some(ErrorInfo { kind: ErrorKind::Overloaded, message, way_out: None }),
                    ..TurnResult::bare(TurnOutcome::Failed)
                },
                Err(Cut::Ends(exit)) => return exit,
            };
            self.end_turn_with(result).await;
            for ask in std::mem::take(&mut self.lingering) {
                let key = self.name();
                self.open_request(&key, ask, None, None).await;
            }
        }
        exit(ExitReason::Stopped, "it ended")
    }

    async fn next_prompt(&mut self) -> Option<(InstructionId, Vec<Content>)> {
        if let Some(queued) = self.queued.pop_front() {
            return Some(queued);
        }
        while let Some(Instruction { id: instruction_id, order }) = self.next().await {
            match order {
                Order::Prompt { content } => return Some((instruction_id, content)),
                other => self.set_aside(instruction_id, &other).await,
            }
        }
        None
    }

    /// Asks this, and waits for the answer.
    pub async fn answer_to(
        &mut self,
        ask: Ask,
        parent: Option<&str>,
        tool: Option<&str>,
    ) -> Result<Answer, Cut> {
        let key = self.name();
        self.asked.push(key.clone());
        self.open_request(&key, ask, parent, tool).await;
        let answer = self.answered().await;
        self.asked.retain(|open| *open != key);
        answer
    }

    /// Asks this when the turn is over, as a background task may, and waits for nothing.
    pub fn linger(&mut self, ask: Ask) {
        self.lingering.push(ask);
    }

    /// Waits until somebody interrupts the turn.
    pub async fn interrupted(&mut self) -> Cut {
        loop {
            // An answer comes too late here.
            if let Err(cut) = self.answered().await {
                return cut;
            }
        }
    }

    async fn answered(&mut self) -> Result<Answer, Cut> {
        while let Some(Instruction { id: instruction_id, order }) = self.next().await {
            match order {
                Order::Prompt { content } => self.queued.push_back((instruction_id, content)),
                Order::Answer { answer, .. } => {
                    self.say(Report::Consumed { instruction_id, result: None }).await;
                    return Ok(answer);
                }
                Order::Interrupt => {
                    self.say(Report::Consumed { instruction_id, result: None }).await;
                    return Err(Cut::Interrupted);
                }
                other => self.set_aside(instruction_id, &other).await,
            }
        }
        // The session is gone: nothing is played any further.
        std::future::pending().await
    }

    async fn set_aside(&self, instruction_id: InstructionId, order: &Order) {
        let report = match (self.aside)(order) {
            Settled::Done(result) => Report::Consumed { instruction_id, result },
            Settled::With(event) => {
                self.event(*event).await;
                Report::Consumed { instruction_id, result: None }
            }
            Settled::Refused(error) => Report::Rejected { instruction_id, error },
            Settled::Never => return,
        };
        self.say(report).await;
    }
}
