//! Moves: the most frequent actions of test agents, each in one line.

use portolan_core::{
    Event,
    event::{AgentInfo, Content, Exit, ExitReason, ItemKind, TurnOrigin, TurnOutcome, TurnResult},
    ports::{Doer, InstructionId, Order, Report},
    request::Ask,
};
use serde_json::{Value, json};

use super::Strings;

/// A puppet's original text of its requests.
pub const OWN_WORDS: &str = "the agent's own words";

/// An end without a process behind it.
pub fn exit(reason: ExitReason, message: &str) -> Exit {
    Exit { reason, code: None, signal: None, message: message.into(), stderr: String::new() }
}

/// A finished message.
pub fn message(item: impl Into<String>, content: Content) -> Event {
    Event::Message {
        item: item.into(),
        message: None,
        parent: None,
        model: None,
        content: vec![content],
        interrupted: false,
        stop_reason: None,
    }
}

/// A finished text with the agent's own id, `m-ITEM`.
pub fn finished(item: &str, text: &str) -> Event {
    Event::Message {
        item: item.into(),
        message: Some(format!("m-{item}")),
        parent: None,
        model: None,
        content: vec![Content::text(text)],
        interrupted: false,
        stop_reason: None,
    }
}

/// Asks for permission to use a tool.
pub fn permission(tool_name: &str, input: Value) -> Ask {
    Ask::permission(tool_name, input)
}

impl Strings {
    /// Reports an event.
    pub async fn event(&self, event: Event) {
        self.say(Report::Event { event, raw: None }).await;
    }

    /// Runs, and takes no instructions yet.
    pub async fn started(&self) {
        let (pid, version, protocol) = (None, None, self.capabilities.native_protocol);
        let capabilities = Box::new(self.capabilities.clone());
        self.say(Report::Started { pid, version, holder: None, protocol, capabilities }).await;
    }

    /// Runs, reports `agent-session` as its conversation, and takes instructions.
    pub async fn ready(&self) {
        self.ready_as(AgentInfo { agent_session: Some("agent-session".into()), ..AgentInfo::default() })
            .await;
    }

    /// Runs, reports this about itself, and takes instructions.
    pub async fn ready_as(&self, info: AgentInfo) {
        self.started().await;
        self.event(Event::AgentInfo { info: Box::new(info) }).await;
        self.say(Report::Ready).await;
    }

    /// Begins a turn with this prompt.
    pub async fn begin_turn(&self, prompt: InstructionId) {
        self.say(Report::TurnStarted { origin: TurnOrigin::Prompt }).await;
        self.say(Report::Consumed { instruction_id: prompt, result: None }).await;
    }

    /// Takes the prompt that a test expects, and begins a turn with it.
    pub async fn take_prompt(&mut self) -> InstructionId {
        let instruction = self.told().await;
        assert!(matches!(instruction.order, Order::Prompt { .. }), "{instruction:?}");
        self.say(Report::Delivered(instruction.id)).await;
        self.begin_turn(instruction.id).await;
        instruction.id
    }

    /// Ends the turn with this result.
    pub async fn end_turn_with(&self, result: TurnResult) {
        self.say(Report::TurnEnded { result: Box::new(result), raw: None }).await;
    }

    /// Ends the turn successfully.
    pub async fn end_turn(&self) {
        self.end_turn_with(TurnResult::bare(TurnOutcome::Completed)).await;
    }

    /// Begins a streamed text.
    pub async fn begin_item(&self, item: &str) {
        let (kind, message, parent) = (ItemKind::Text, None, None);
        self.event(Event::ItemStarted { item: item.into(), kind, message, parent }).await;
    }

    /// Adds to the text.
    pub async fn delta(&self, item: &str, text: &str) {
        self.event(Event::Delta { item: item.into(), text: text.into() }).await;
    }

    /// Ends the text.
    pub async fn finish_item(&self, item: &str, text: &str) {
        self.event(finished(item, text)).await;
    }

    /// Sends this whole text, under a new name.
    pub async fn speak(&mut self, text: &str) {
        let item = self.name();
        self.event(message(item, Content::text(text))).await;
    }

    /// Streams these pieces, then sends the whole text, under a new name.
    pub async fn stream(&mut self, pieces: impl IntoIterator<Item = &str>) {
        let (item, mut whole) = (self.name(), String::new());
        self.begin_item(&item).await;
        for piece in pieces {
            whole.push_str(piece);
            self.delta(&item, piece).await;
        }
        self.event(message(item, Content::text(whole))).await;
    }

    /// Is about to do something that nobody is asked about.
    pub async fn unasked(&self, key: &str, ask: Ask, doer: Doer) {
        let (key, ask) = (key.to_owned(), Box::new(ask));
        self.say(Report::Unasked { key, ask, parent: None, tool: None, doer, raw: None }).await;
    }

    /// Opens a request under this key.
    pub async fn open_request(&self, key: &str, ask: Ask, parent: Option<&str>, tool: Option<&str>) {
        let (key, ask) = (key.to_owned(), Box::new(ask));
        let (parent, tool) = (parent.map(Into::into), tool.map(Into::into));
        let raw = Some(OWN_WORDS.into());
        self.say(Report::RequestOpened { key, ask, parent, tool, raw }).await;
    }

    /// Asks for permission to run a command, under this key.
    pub async fn ask(&self, key: &str) {
        self.open_request(key, permission("Bash", json!({ "command": "ls" })), None, None).await;
    }

    /// Ends the agent.
    pub async fn exit(&self, reason: ExitReason) {
        self.say(Report::Exited(Exit { code: Some(0), ..exit(reason, "it ended") })).await;
    }
}
