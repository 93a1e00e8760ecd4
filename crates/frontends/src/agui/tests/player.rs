//! An agent that plays what its prompt says: JSON steps, or plain words, which it streams back.

use std::collections::VecDeque;

use portolan_core::{
    Capabilities,
    capabilities::{NativeProtocol, PromptQueue},
    event::{
        AgentInfo, Content, ErrorInfo, ErrorKind, Event, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome,
        TurnResult, plain_text,
    },
    ports::{
        Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, Launch, Order, Probe, REPORTS, Report, Ticket,
    },
    request::Ask,
    spec::SpecOption,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One thing it does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// Reports this.
    Event(Event),
    /// Asks this, and goes on with the answer; `tool` is the call it belongs to.
    Ask { ask: Ask, tool: Option<String> },
    /// Waits until it is interrupted.
    Wait,
    /// Fails the turn.
    Fail(String),
    /// Ends the process.
    Crash,
    /// Asks this once the turn is over: what runs in the background may.
    Linger(Ask),
}

#[derive(Debug)]
pub(super) struct Player {
    kind: &'static str,
    starts: Starts,
}

/// How it starts.
#[derive(Clone, Debug)]
pub(super) enum Starts {
    AtOnce,
    /// It is ready once this is cancelled.
    After(CancellationToken),
    /// It never says that it is ready.
    Never,
}

impl Player {
    pub(super) fn new(kind: &'static str, starts: Starts) -> Self {
        Self { kind, starts }
    }
}

impl Agent for Player {
    fn kind(&self) -> &str {
        self.kind
    }
    fn title(&self) -> String {
        format!("The {}", self.kind)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            interrupt: true,
            session_resume: true,
            image_input: true,
            // One of them takes a prompt while a turn runs, and begins the next turn with it.
            prompt_queue: if self.kind == "eager" { PromptQueue::Agent } else { PromptQueue::Held },
            edited_input: true,
            native_protocol: NativeProtocol::Demo,
            options: vec![SpecOption::Cwd, SpecOption::Prompt, SpecOption::Name],
            ..Capabilities::default()
        }
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(std::future::ready(Probe { available: true, ..Probe::default() }))
    }
    fn start(&self, launch: Launch) -> AgentLink {
        let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
        let (reports, told) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let (end, starts, capabilities) = (stop.clone(), self.starts.clone(), self.capabilities());
        tokio::spawn(async move {
            let queued = VecDeque::new();
            let mut stage = Stage { launch, wanted, reports: reports.clone(), names: 0, queued };
            let reason = tokio::select! {
                reason = stage.play(starts, capabilities) => reason,
                () = end.cancelled() => ExitReason::Stopped,
            };
            let message = if reason == ExitReason::Failed { "it broke" } else { "it ended" }.into();
            let exit = Exit { reason, code: None, signal: None, message, stderr: String::new() };
            let _ = reports.send(Report::Exited(exit)).await;
        });
        AgentLink { instructions, reports: told, stop, kill, recorded: None }
    }
}

struct Stage {
    launch: Launch,
    wanted: mpsc::Receiver<Instruction>,
    reports: mpsc::Sender<Report>,
    names: u32,
    /// Prompts that came while a turn ran.
    queued: VecDeque<(Ticket, Vec<Content>)>,
}

enum Cut {
    Interrupted,
    Failed(String),
    Crashed,
}

impl Stage {
    async fn tell(&self, report: Report) {
        // A session that is gone hears nothing.
        let _ = self.reports.send(report).await;
    }

    async fn event(&self, event: Event) {
        self.tell(Report::Event { event, raw: None }).await;
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("{}.{}", self.launch.generation, self.names)
    }

    async fn play(&mut self, starts: Starts, capabilities: Capabilities) -> ExitReason {
        let protocol = NativeProtocol::Demo;
        let capabilities = Box::new(capabilities);
        self.tell(Report::Started { pid: None, version: None, protocol, capabilities }).await;
        match starts {
            Starts::AtOnce => {}
            Starts::After(ready) => ready.cancelled().await,
            Starts::Never => return std::future::pending().await,
        }
        self.tell(Report::Ready).await;
        let info =
            AgentInfo { model: Some("oak".into()), mode: Some("default".into()), ..AgentInfo::default() };
        self.event(Event::AgentInfo { info: Box::new(info) }).await;
        loop {
            let (ticket, content) = if let Some(queued) = self.queued.pop_front() {
                queued
            } else {
                let Some(Instruction { ticket, order }) = self.wanted.recv().await else {
                    return ExitReason::Stopped;
                };
                self.tell(Report::Delivered(ticket)).await;
                let Order::Prompt { content } = order else {
                    self.tell(Report::Consumed { ticket, result: None }).await;
                    continue;
                };
                (ticket, content)
            };
            self.tell(Report::TurnStarted { origin: TurnOrigin::Prompt }).await;
            self.tell(Report::Consumed { ticket, result: None }).await;
            let mut lingering = Vec::new();
            let result = match self.scene(&content, &mut lingering).await {
                Ok(()) => TurnResult {
                    cost_usd: Some(0.25),
                    steps: Some(1),
                    ..TurnResult::bare(TurnOutcome::Completed)
                },
                Err(Cut::Interrupted) => TurnResult::bare(TurnOutcome::Interrupted),
                Err(Cut::Failed(message)) => TurnResult {
                    error: Some(ErrorInfo { kind: ErrorKind::Overloaded, message, way_out: None }),
                    ..TurnResult::bare(TurnOutcome::Failed)
                },
                Err(Cut::Crashed) => return ExitReason::Failed,
            };
            self.tell(Report::TurnEnded { result: Box::new(result), raw: None }).await;
            for ask in lingering {
                let key = self.name();
                self.tell(Report::RequestOpened {
                    key,
                    ask: Box::new(ask),
                    parent: None,
                    tool: None,
                    raw: None,
                })
                .await;
            }
        }
    }

    async fn scene(&mut self, content: &[Content], lingering: &mut Vec<Ask>) -> Result<(), Cut> {
        let words = plain_text(content);
        let Ok(steps) = serde_json::from_str::<Vec<Step>>(&words) else {
            self.stream(&format!("you said: {words}")).await;
            return Ok(());
        };
        for step in steps {
            match step {
                Step::Event(event) => self.event(event).await,
                Step::Ask { ask, tool } => {
                    let answer = self.ask(ask, tool).await?;
                    self.stream(&format!("answer: {}", serde_json::to_string(&answer).unwrap())).await;
                }
                Step::Wait => return Err(self.interrupted().await),
                Step::Fail(message) => return Err(Cut::Failed(message)),
                Step::Crash => return Err(Cut::Crashed),
                Step::Linger(ask) => lingering.push(ask),
            }
        }
        Ok(())
    }

    async fn stream(&mut self, text: &str) {
        let item = self.name();
        let begun: Event = serde_json::from_value(
            serde_json::json!({"type": "item_started", "item": item, "kind": ItemKind::Text}),
        )
        .unwrap();
        self.event(begun).await;
        for word in text.split_inclusive(' ') {
            self.event(Event::Delta { item: item.clone(), text: word.into() }).await;
        }
        self.event(Event::Message {
            item,
            message: None,
            parent: None,
            model: None,
            content: vec![Content::text(text)],
            interrupted: false,
            stop_reason: None,
        })
        .await;
    }

    async fn ask(&mut self, ask: Ask, tool: Option<String>) -> Result<Value, Cut> {
        let key = self.name();
        self.tell(Report::RequestOpened { key, ask: Box::new(ask), parent: None, tool, raw: None }).await;
        loop {
            let (ticket, order) = self.next().await;
            self.tell(Report::Consumed { ticket, result: None }).await;
            match order {
                Order::Answer { answer, .. } => return Ok(serde_json::to_value(&answer).unwrap()),
                Order::Interrupt => return Err(Cut::Interrupted),
                _ => {}
            }
        }
    }

    async fn interrupted(&mut self) -> Cut {
        loop {
            let (ticket, order) = self.next().await;
            self.tell(Report::Consumed { ticket, result: None }).await;
            if order == Order::Interrupt {
                return Cut::Interrupted;
            }
        }
    }

    async fn next(&mut self) -> (Ticket, Order) {
        while let Some(Instruction { ticket, order }) = self.wanted.recv().await {
            self.tell(Report::Delivered(ticket)).await;
            match order {
                Order::Prompt { content } => self.queued.push_back((ticket, content)),
                order => return (ticket, order),
            }
        }
        std::future::pending().await
    }
}
