//! An agent that does what a prompt says, one word after the other.

use indexmap::IndexMap;
use portolan_core::{
    Capabilities,
    capabilities::{Asks, NativeProtocol},
    event::{
        AgentInfo, Content, ErrorInfo, ErrorKind, Event, Exit, ExitReason, ItemKind, ToolKind, ToolOutcome,
        TurnOrigin, TurnOutcome, TurnResult, plain_text,
    },
    ports::{Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, Launch, Order, Probe, REPORTS, Report},
    request::{Answer, Ask, Choice, Question},
    spec::SpecOption,
    usage::{ModelUsage, TokenUsage},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Words it knows: `say:WORDS`, `think:WORDS`, `stream:WORDS`, `tool`, `ask`, `questions`, `subagent`, `subask`, `plan`,
/// `form`, `fail`, `wait`, `crash`.
#[derive(Debug)]
pub(super) struct Puppet;

pub(super) const MODES: [&str; 4] = ["default", "acceptEdits", "bypassPermissions", "plan"];

impl Agent for Puppet {
    fn kind(&self) -> &'static str {
        "puppet"
    }
    fn title(&self) -> String {
        "Puppet".into()
    }
    fn capabilities(&self) -> Capabilities {
        use SpecOption as O;
        Capabilities {
            streaming: true,
            interrupt: true,
            permission_modes: true,
            permission_mode_switching_mid_session: true,
            native_protocol: NativeProtocol::Demo,
            options: vec![O::Cwd, O::Prompt, O::Name, O::Model, O::Mode, O::AllowedTools],
            supported_permission_modes: Some(MODES.map(Into::into).to_vec()),
            mode_asks: [Asks::Everything, Asks::Some, Asks::Nothing, Asks::Everything]
                .into_iter()
                .zip(MODES)
                .map(|(asks, mode)| (mode.into(), asks))
                .collect(),
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
        let end = stop.clone();
        tokio::spawn(async move {
            let mut strings =
                Strings { launch, wanted, reports: reports.clone(), names: 0, asks: Vec::new() };
            let reason = tokio::select! {
                reason = strings.play() => reason,
                () = end.cancelled() => ExitReason::Stopped,
            };
            // As the real ones do before they end.
            for key in strings.asks {
                let _ = reports.send(Report::RequestWithdrawn { key }).await;
            }
            let message = if reason == ExitReason::Failed { "it broke" } else { "it ended" }.into();
            let exit = Exit { reason, code: None, signal: None, message, stderr: String::new() };
            let _ = reports.send(Report::Exited(exit)).await;
        });
        AgentLink { instructions, reports: told, stop, kill, recorded: None }
    }
}

struct Strings {
    launch: Launch,
    wanted: mpsc::Receiver<Instruction>,
    reports: mpsc::Sender<Report>,
    names: u32,
    /// What it waits for.
    asks: Vec<String>,
}

/// Why a scene ended early.
enum Cut {
    Interrupted,
    Failed,
    Crashed,
}

impl Strings {
    async fn tell(&self, report: Report) {
        // A session that is gone hears nothing.
        let _ = self.reports.send(report).await;
    }

    async fn event(&self, event: Event) {
        self.tell(Report::Event { event, raw: None }).await;
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("{}-{}", self.launch.generation, self.names)
    }

    async fn play(&mut self) -> ExitReason {
        if self.launch.spec.model.as_deref() == Some("none") {
            return ExitReason::NotStarted;
        }
        let capabilities = Box::new(Puppet.capabilities());
        let protocol = NativeProtocol::Demo;
        self.tell(Report::Started { pid: None, version: None, protocol, capabilities }).await;
        self.tell(Report::Ready).await;
        let info = AgentInfo {
            model: Some(self.launch.spec.model.clone().unwrap_or_else(|| "wood".into())),
            mode: Some(self.launch.spec.mode.clone().unwrap_or_else(|| "default".into())),
            ..AgentInfo::default()
        };
        self.event(Event::AgentInfo { info: Box::new(info) }).await;
        loop {
            let Some(Instruction { ticket, order }) = self.wanted.recv().await else {
                return ExitReason::Stopped;
            };
            self.tell(Report::Delivered(ticket)).await;
            match order {
                Order::Prompt { content } => {
                    self.tell(Report::Consumed { ticket, result: None }).await;
                    self.tell(Report::TurnStarted { origin: TurnOrigin::Prompt }).await;
                    let result = match self.scene(&plain_text(&content)).await {
                        Ok(()) => finished(),
                        Err(Cut::Interrupted) => TurnResult::bare(TurnOutcome::Interrupted),
                        Err(Cut::Failed) => TurnResult {
                            error: Some(ErrorInfo {
                                kind: ErrorKind::Overloaded,
                                message: "the model has too much to do".into(),
                                way_out: None,
                            }),
                            ..TurnResult::bare(TurnOutcome::Failed)
                        },
                        Err(Cut::Crashed) => return ExitReason::Failed,
                    };
                    self.tell(Report::TurnEnded { result: Box::new(result), raw: None }).await;
                }
                other => self.aside(Instruction { ticket, order: other }).await,
            }
        }
    }

    /// Anything but a prompt.
    async fn aside(&self, Instruction { ticket, order }: Instruction) {
        let report = match order {
            Order::SetMode(mode) if mode == "plan" => {
                Report::Rejected { ticket, error: "a puppet has no plan".into() }
            }
            _ => Report::Consumed { ticket, result: None },
        };
        self.tell(report).await;
    }

    async fn scene(&mut self, words: &str) -> Result<(), Cut> {
        for word in words.split_whitespace() {
            match word.split_once(':') {
                Some(("say", text)) => self.say(None, Content::text(text)).await,
                Some(("think", text)) => self.say(None, Content::Thinking { text: text.into() }).await,
                Some(("stream", text)) => self.stream(text).await,
                _ => self.act(word).await?,
            }
        }
        Ok(())
    }

    async fn say(&mut self, parent: Option<&str>, content: Content) {
        let item = self.name();
        self.finish(item, parent, content).await;
    }

    async fn finish(&self, item: String, parent: Option<&str>, content: Content) {
        let (parent, content) = (parent.map(Into::into), vec![content]);
        self.event(Event::Message {
            item,
            message: None,
            parent,
            model: None,
            content,
            interrupted: false,
            stop_reason: None,
        })
        .await;
    }

    async fn stream(&mut self, text: &str) {
        let item = self.name();
        let (kind, message, parent) = (ItemKind::Text, None, None);
        self.event(Event::ItemStarted { item: item.clone(), kind, message, parent }).await;
        for letter in text.chars() {
            self.event(Event::Delta { item: item.clone(), text: letter.into() }).await;
        }
        self.finish(item, None, Content::text(text)).await;
    }

    async fn act(&mut self, word: &str) -> Result<(), Cut> {
        match word {
            "tool" => {
                let tool = self.call(None, "Read", ToolKind::Read, json!({"file_path": "/a"})).await;
                self.result(&tool, None, ToolOutcome::Done, "contents").await;
            }
            "ask" => drop(self.permission(None).await?),
            "questions" => {
                let answer = self.ask(Ask::Question { questions: questions() }, None, None).await?;
                self.say(None, Content::text(format!("{answer:?}"))).await;
            }
            "plan" => {
                let tool = self.call(None, "ExitPlanMode", ToolKind::Think, json!({"plan": "1. sail"})).await;
                let ask = Ask::Plan { plan: Some("1. sail".into()), input: json!({}) };
                let answer = self.ask(ask, None, Some(&tool)).await?;
                self.result(&tool, None, ToolOutcome::Done, &format!("{answer:?}")).await;
            }
            "form" => {
                let schema = json!({"type": "object", "properties": {"berth": {"type": "integer"}}});
                let (server, message) = ("harbour".into(), "Which berth?".into());
                let ask = Ask::Elicitation { server, message, schema: Some(schema), url: None };
                let answer = self.ask(ask, None, None).await?;
                self.say(None, Content::text(format!("{answer:?}"))).await;
            }
            "hook" => {
                let ask = Ask::Hook { event: "PreToolUse".into(), input: json!({"tool": "Bash"}) };
                let answer = self.ask(ask, None, None).await?;
                self.say(None, Content::text(format!("{answer:?}"))).await;
            }
            "other" => {
                let answer =
                    self.ask(Ask::Other { name: "newer".into(), body: json!([1]) }, None, None).await?;
                self.say(None, Content::text(format!("{answer:?}"))).await;
            }
            "subagent" => self.subagent(None, "dig").await,
            "subask" => {
                let me = self.begin_subagent("ask around").await;
                let answer =
                    self.ask(Ask::Question { questions: questions()[..1].to_vec() }, Some(&me), None).await?;
                self.say(Some(&me), Content::text(format!("{answer:?}"))).await;
                self.end_subagent(&me).await;
            }
            "subwait" => {
                self.begin_subagent("wait").await;
                return Err(self.interrupted().await);
            }
            "fail" => return Err(Cut::Failed),
            "crash" => return Err(Cut::Crashed),
            "wait" => return Err(self.interrupted().await),
            other => panic!("a puppet does not know `{other}`"),
        }
        Ok(())
    }

    async fn interrupted(&mut self) -> Cut {
        while let Some(instruction) = self.wanted.recv().await {
            self.tell(Report::Delivered(instruction.ticket)).await;
            if instruction.order == Order::Interrupt {
                self.tell(Report::Consumed { ticket: instruction.ticket, result: None }).await;
                return Cut::Interrupted;
            }
            self.aside(instruction).await;
        }
        std::future::pending().await
    }

    async fn call(
        &mut self,
        parent: Option<&str>,
        name: &str,
        kind: ToolKind,
        input: serde_json::Value,
    ) -> String {
        let tool = format!("tool-{}", self.name());
        self.event(Event::ToolCall {
            tool: tool.clone(),
            item: None,
            message: None,
            parent: parent.map(Into::into),
            name: name.into(),
            kind,
            title: None,
            input,
            changes: vec![],
        })
        .await;
        tool
    }

    async fn result(&self, tool: &str, parent: Option<&str>, outcome: ToolOutcome, text: &str) {
        let (tool, parent) = (tool.into(), parent.map(Into::into));
        let content = vec![Content::text(text)];
        self.event(Event::ToolResult { tool, parent, outcome, content, changes: vec![] }).await;
    }

    async fn permission(&mut self, parent: Option<&str>) -> Result<Answer, Cut> {
        let input = json!({"command": "ls"});
        let tool = self.call(parent, "Bash", ToolKind::Execute, input.clone()).await;
        let ask = Ask::Permission {
            tool_name: "Bash".into(),
            input,
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            suggestions: vec![],
            options: vec![],
        };
        let answer = self.ask(ask, parent, Some(&tool)).await?;
        let outcome =
            if matches!(answer, Answer::Deny { .. }) { ToolOutcome::Denied } else { ToolOutcome::Done };
        self.result(&tool, parent, outcome, "done with it").await;
        Ok(answer)
    }

    async fn ask(&mut self, ask: Ask, parent: Option<&str>, tool: Option<&str>) -> Result<Answer, Cut> {
        let (key, parent, tool) = (self.name(), parent.map(Into::into), tool.map(Into::into));
        self.asks.push(key.clone());
        self.tell(Report::RequestOpened { key, ask: Box::new(ask), parent, tool, raw: None }).await;
        while let Some(Instruction { ticket, order }) = self.wanted.recv().await {
            self.tell(Report::Delivered(ticket)).await;
            match order {
                Order::Answer { answer, .. } => {
                    self.tell(Report::Consumed { ticket, result: None }).await;
                    self.asks.pop();
                    return Ok(answer);
                }
                Order::Interrupt => {
                    self.tell(Report::Consumed { ticket, result: None }).await;
                    self.asks.pop();
                    return Err(Cut::Interrupted);
                }
                other => self.aside(Instruction { ticket, order: other }).await,
            }
        }
        std::future::pending().await
    }

    async fn begin_subagent(&mut self, prompt: &str) -> String {
        let input = json!({"description": "a task", "prompt": prompt});
        let tool = self.call(None, "Agent", ToolKind::Subagent, input).await;
        self.started(&tool, None, prompt).await;
        tool
    }

    async fn started(&self, tool: &str, parent: Option<&str>, prompt: &str) {
        self.event(Event::SubagentStarted {
            subagent: tool.into(),
            parent: parent.map(Into::into),
            subagent_type: None,
            description: "a task".into(),
            prompt: Some(prompt.into()),
            model: None,
            background: false,
            team: None,
        })
        .await;
    }

    async fn end_subagent(&self, me: &str) {
        let usage = TokenUsage { input: 1000, output: 100, cache_creation: 10, cache_read: 1 };
        self.event(Event::Usage { usage, model: None, parent: Some(me.into()), context_window: None }).await;
        let (outcome, summary) = (ToolOutcome::Done, Some("dug".into()));
        self.event(Event::SubagentEnded { subagent: me.into(), outcome, summary, work: None }).await;
        self.result(me, None, ToolOutcome::Done, "dug").await;
    }

    /// One that says a word and uses a tool.
    async fn subagent(&mut self, parent: Option<&str>, prompt: &str) {
        debug_assert!(parent.is_none());
        let me = self.begin_subagent(prompt).await;
        self.say(Some(&me), Content::text("digging")).await;
        let tool = self.call(Some(&me), "Bash", ToolKind::Execute, json!({"command": "dig"})).await;
        self.result(&tool, Some(&me), ToolOutcome::Done, "a hole").await;
        self.end_subagent(&me).await;
    }
}

/// What every turn that goes well costs.
fn finished() -> TurnResult {
    let usage = TokenUsage { input: 2000, output: 200, cache_creation: 20, cache_read: 2 };
    let share = ModelUsage { usage, ..ModelUsage::default() };
    TurnResult {
        by_model: IndexMap::from_iter([("wood".to_owned(), share)]),
        cost_usd: Some(0.5),
        ..TurnResult::bare(TurnOutcome::Completed)
    }
}

fn questions() -> Vec<Question> {
    let choice = |label: &str| Choice { label: label.into(), description: None };
    let question = |text: &str, choices| Question {
        question: text.into(),
        header: None,
        choices,
        multiple: false,
        free_text: true,
        secret: false,
    };
    let described = Choice { label: "North".into(), description: Some("where it is cold".into()) };
    vec![question("Where to?", vec![described, choice("South")]), question("How?", vec![])]
}
