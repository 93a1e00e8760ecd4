//! A program's own agent, inside the program: it repeats each prompt, and asks before it says something loud.
//!
//! For an agent that is a separate program, use [`portolan_agents::driver`], which manages its process.

use portolan_core::{
    Capabilities, Event,
    capabilities::NativeProtocol,
    event::{AgentInfo, Content, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome, TurnResult},
    ports::{Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, Launch, Order, Probe, REPORTS, Report},
    request::{Answer, Ask},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Repeats each prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parrot;

impl Agent for Parrot {
    fn kind(&self) -> &'static str {
        "parrot"
    }

    fn title(&self) -> String {
        "A parrot".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streaming: true,
            interrupt: true,
            native_protocol: NativeProtocol::Demo,
            ..Capabilities::default()
        }
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        let found = Probe { available: true, message: "always here".into(), ..Probe::default() };
        Box::pin(std::future::ready(found))
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
        let (told, reports) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let (stopped, killed) = (stop.clone(), kill.clone());
        tokio::spawn(async move {
            let mut life = Life { told: told.clone(), generation: launch.generation.0, said: 0, asked: None };
            let reason = tokio::select! {
                // The session has dropped the agent.
                _ = life.live(wanted) => ExitReason::Finished,
                () = stopped.cancelled() => ExitReason::Stopped,
                () = killed.cancelled() => ExitReason::Stopped,
            };
            let (message, stderr) = ("the parrot flew away".into(), String::new());
            let exit = Exit { reason, code: None, signal: None, message, stderr };
            // This must be the last report.
            let _ = told.send(Report::Exited(exit)).await;
        });
        AgentLink { instructions, reports, stop, kill, recorded: None }
    }
}

/// One start of the agent.
struct Life {
    told: mpsc::Sender<Report>,
    generation: u32,
    said: u32,
    /// The text that waits for approval.
    asked: Option<String>,
}

/// The session is gone.
struct Gone;

impl Life {
    async fn tell(&self, report: Report) -> Result<(), Gone> {
        self.told.send(report).await.map_err(|_| Gone)
    }

    async fn live(&mut self, mut wanted: mpsc::Receiver<Instruction>) -> Result<(), Gone> {
        let capabilities = Box::new(Parrot.capabilities());
        let protocol = NativeProtocol::Demo;
        self.tell(Report::Started { pid: None, version: None, holder: None, protocol, capabilities }).await?;
        let info = AgentInfo { model: Some("feathers".into()), ..AgentInfo::default() };
        self.tell(Report::Event { event: Event::AgentInfo { info: Box::new(info) }, raw: None }).await?;
        self.tell(Report::Ready).await?;
        while let Some(Instruction { id: instruction_id, order }) = wanted.recv().await {
            self.tell(Report::Delivered(instruction_id)).await?;
            self.tell(Report::Consumed { instruction_id, result: None }).await?;
            match order {
                Order::Prompt { content } => self.hear(&content).await?,
                Order::Answer { answer, .. } => self.answered(&answer).await?,
                Order::Interrupt => self.end(TurnOutcome::Interrupted).await?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn hear(&mut self, content: &[Content]) -> Result<(), Gone> {
        self.tell(Report::TurnStarted { origin: TurnOrigin::Prompt }).await?;
        let text = content.iter().find_map(|piece| match piece {
            Content::Text { text } => Some(text.clone()),
            _ => None,
        });
        let text = text.unwrap_or_else(|| "a picture!".into());
        if !text.ends_with('!') {
            return self.say(&text).await;
        }
        let ask = Ask::permission("Shout", serde_json::json!({ "text": text }))
            .with_description("say it loudly".to_owned());
        self.said += 1;
        let key = format!("{}-{}", self.generation, self.said);
        self.asked = Some(text);
        self.tell(Report::RequestOpened { key, ask: Box::new(ask), parent: None, tool: None, raw: None })
            .await
    }

    async fn answered(&mut self, answer: &Answer) -> Result<(), Gone> {
        let Some(text) = self.asked.take() else { return Ok(()) };
        let text =
            if matches!(answer, Answer::Allow { .. }) { text.to_uppercase() } else { "(quietly)".into() };
        self.say(&text).await
    }

    /// Streams the words, then sends the whole message.
    async fn say(&mut self, text: &str) -> Result<(), Gone> {
        self.said += 1;
        let item = format!("{}.{}", self.generation, self.said);
        let event = |event| Report::Event { event, raw: None };
        let started =
            Event::ItemStarted { item: item.clone(), kind: ItemKind::Text, message: None, parent: None };
        self.tell(event(started)).await?;
        for word in text.split_inclusive(' ') {
            self.tell(event(Event::Delta { item: item.clone(), text: word.into() })).await?;
        }
        let content = vec![Content::text(text)];
        let (message, parent, model, stop_reason) = (None, None, None, None);
        self.tell(event(Event::Message {
            item,
            message,
            parent,
            model,
            content,
            interrupted: false,
            stop_reason,
        }))
        .await?;
        self.end(TurnOutcome::Completed).await
    }

    async fn end(&mut self, outcome: TurnOutcome) -> Result<(), Gone> {
        self.asked = None;
        self.tell(Report::TurnEnded { result: Box::new(TurnResult::bare(outcome)), raw: None }).await
    }
}
