//! The demo agent's process: reads instructions from its input, plays scenes to its output.
//!
//! One thread reads, one plays; the player listens while it plays, so that it can be interrupted, answered and
//! reconfigured at any point. It touches no file, no account, and no network but MCP servers on this machine. Some
//! scenes misbehave, on request only.

mod about;
mod controls;
mod ledger;
mod mcp;
mod permit;
mod scenes;
mod script;
mod stage;

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read, Write},
    process::ExitCode,
    thread,
    time::Duration,
};

use portolan_core::{
    event::{Content, TurnOrigin, TurnOutcome, plain_text},
    request::Answer,
};
use tokio::sync::mpsc;

use self::{
    script::Scene,
    stage::{Stage, Stop},
};
use super::wire::{FromAgent, Hello, ToAgent};

/// Instructions that were read but not handled yet. A player that hangs lets this fill up, then the pipe, as a hanging
/// program would.
const INBOX: usize = 16;

/// Prompts that came while a turn ran. Portolan itself holds prompts back, so there are hardly ever any.
const PROMPTS: usize = 64;

/// Plays the demo agent until its input ends or it is asked to end.
pub fn run(input: impl Read + Send + 'static, output: impl Write + 'static) -> ExitCode {
    let (told, inbox) = mpsc::channel(INBOX);
    let reader = thread::Builder::new().name("input".into()).spawn(move || read(input, &told));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match (reader, runtime) {
        (Ok(_), Ok(runtime)) => runtime.block_on(play(inbox, Box::new(output))),
        _ => ExitCode::FAILURE,
    }
}

fn read(input: impl Read, told: &mpsc::Sender<ToAgent>) {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    while matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
        // Unknown messages are skipped, as the protocol says.
        if let Ok(message) = serde_json::from_slice(&line)
            && told.blocking_send(message).is_err()
        {
            return;
        }
        line.clear();
    }
}

async fn play(mut inbox: mpsc::Receiver<ToAgent>, output: Box<dyn Write>) -> ExitCode {
    let hello = loop {
        match inbox.recv().await {
            Some(ToAgent::Hello(hello)) => break *hello,
            Some(ToAgent::Bye {}) | None => return ExitCode::SUCCESS,
            Some(_) => {}
        }
    };
    let player = Player::new(hello, output).await;
    player.run(inbox).await;
    ExitCode::SUCCESS
}

/// The next message. An agent that ignores SIGTERM also ignores the end of its input.
async fn listen(inbox: &mut mpsc::Receiver<ToAgent>, stage: &Stage) -> Option<ToAgent> {
    match inbox.recv().await {
        None if stage.stays() => std::future::pending().await,
        message => message,
    }
}

/// What began a turn.
struct Cue {
    /// The prompt's id; none if the agent begins by itself.
    id: Option<u64>,
    scene: Scene,
    content: Vec<Content>,
}

/// The effect of a message on the running turn.
enum Next {
    GoOn,
    Interrupt,
    /// Continue with this prompt.
    Steer(Cue),
    Leave,
}

struct Player {
    stage: Stage,
    waiting: VecDeque<Cue>,
}

impl Player {
    async fn new(hello: Hello, output: Box<dyn Write>) -> Self {
        let stage = Stage::new(hello, output);
        let servers = stage.with(|inner| inner.spec.mcp_servers.clone());
        stage.reach(&servers).await;
        // Real agents take a second or two.
        let start = std::env::var("DEMO_START_MS").ok().and_then(|text| text.parse().ok());
        if let Some(start) = start {
            tokio::time::sleep(Duration::from_millis(start)).await;
        }
        stage.introduce();
        Self { stage, waiting: VecDeque::new() }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<ToAgent>) {
        loop {
            self.stage.flush();
            let cue = if let Some(cue) = self.waiting.pop_front() {
                cue
            } else {
                tokio::select! {
                    biased;
                    message = listen(&mut inbox, &self.stage) => match self.hear(message).await {
                        Next::Leave => return,
                        Next::GoOn | Next::Interrupt => continue,
                        // There is no running turn any more that it could enter.
                        Next::Steer(cue) => cue,
                    },
                    task = self.stage.next_task() => {
                        Cue { id: None, scene: Scene::TaskDone(task), content: vec![] }
                    }
                }
            };
            if let Next::Leave = self.turn(cue, &mut inbox).await {
                return;
            }
        }
    }

    /// Plays one turn, and listens at the same time.
    async fn turn(&mut self, mut cue: Cue, inbox: &mut mpsc::Receiver<ToAgent>) -> Next {
        let stage = self.stage.clone();
        let origin = if cue.id.is_some() { TurnOrigin::Prompt } else { TurnOrigin::Agent };
        stage.begin_turn(cue.id, &cue.content);
        stage.emit(&FromAgent::Turn { origin: Some(origin) });
        loop {
            // After the turn that it begins: if the prompt were consumed without a turn, Portolan would send the next
            // prompt.
            if let Some(id) = cue.id {
                stage.emit(&FromAgent::Ack { id, result: None });
            }
            let (outcome, next) = self.scene(cue, inbox).await;
            stage.close_all();
            if let Next::Steer(next) = next {
                stage.steered(next.id);
                cue = next;
                continue;
            }
            self.end(outcome);
            return next;
        }
    }

    /// Plays until the scene ends, or someone ends it.
    async fn scene(&mut self, cue: Cue, inbox: &mut mpsc::Receiver<ToAgent>) -> (Result<(), Stop>, Next) {
        let stage = self.stage.clone();
        let mut scene = Box::pin(scenes::play(&stage, cue.scene, &cue.content));
        loop {
            tokio::select! {
                biased;
                message = listen(inbox, &stage) => match self.hear(message).await {
                    Next::GoOn => {}
                    next => return (Err(Stop::Interrupted), next),
                },
                outcome = &mut scene => return (outcome, Next::GoOn),
            }
        }
    }

    fn end(&self, outcome: Result<(), Stop>) {
        let stage = &self.stage;
        let (outcome, error) = match outcome {
            Ok(()) => (TurnOutcome::Completed, None),
            Err(Stop::Interrupted) => (TurnOutcome::Interrupted, None),
            Err(Stop::MaxTurns) => (TurnOutcome::MaxTurns, None),
            Err(Stop::MaxBudget) => (TurnOutcome::MaxBudget, None),
            Err(Stop::Failed(error)) => (TurnOutcome::Failed, Some(error)),
        };
        stage.emit(&FromAgent::End(Box::new(stage.result_of_turn(outcome, error))));
        stage.flush();
    }

    /// Handles a message at any time.
    async fn hear(&mut self, message: Option<ToAgent>) -> Next {
        let stage = &self.stage;
        let Some(message) = message else { return Next::Leave };
        match message {
            ToAgent::Bye {} => return if stage.stays() { Next::GoOn } else { Next::Leave },
            ToAgent::Hello(_) => {}
            ToAgent::Prompt { id, content } => {
                let scene = script::scene(&plain_text(&content), &content);
                if self.waiting.len() < PROMPTS {
                    self.waiting.push_back(Cue { id: Some(id), scene, content });
                } else {
                    stage.emit(&FromAgent::Nack { id, error: "too many prompts wait already".into() });
                }
            }
            ToAgent::Steer { id, content } => {
                let scene = script::scene(&plain_text(&content), &content);
                return Next::Steer(Cue { id: Some(id), scene, content });
            }
            ToAgent::Interrupt { id } => {
                stage.emit(&FromAgent::Ack { id, result: None });
                return Next::Interrupt;
            }
            ToAgent::Answer { id, key, answer } => {
                let ends = matches!(answer, Answer::Deny { interrupt: true, .. });
                match stage.answer(&key, answer) {
                    Ok(()) => stage.emit(&FromAgent::Ack { id, result: None }),
                    Err(error) => stage.emit(&FromAgent::Nack { id, error }),
                }
                if ends {
                    return Next::Interrupt;
                }
            }
            control => controls::carry_out(stage, control).await,
        }
        stage.flush();
        Next::GoOn
    }
}
