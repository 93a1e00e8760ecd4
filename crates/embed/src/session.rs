//! A session as a program uses it: one method for each action.
//!
//! Every method passes an [`Action`] to the registry, as every frontend does; an action that the agent does not support
//! is refused. A handle keeps nothing open: the session continues without it.

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Action, Capabilities, CommandId, Event, Principal, Refusal, RefusalCode, RequestId, Seq, SessionId,
    capabilities::{CommandInfo, ModelInfo},
    command::{Receipt, Stage},
    event::{Account, AgentInfo, Content, McpServer},
    log::delivery::{Mode, Start},
    registry::Registry,
    request::Answer,
    session::state::{State, Status},
};
use serde_json::Value;

use crate::{BridgeStatus, Entries, News, Told};

/// A session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Session {
    registry: Registry,
    who: Principal,
    id: SessionId,
}

/// The result of a slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its output.
    pub content: String,
    /// Who ran it.
    pub source: CommandSource,
}

/// Who runs a slash command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSource {
    /// The agent itself.
    Native,
    /// Portolan, from its own data.
    Emulated,
    /// An agent in a terminal; the command was typed into the terminal.
    Pty,
}

impl Session {
    pub(crate) fn new(registry: Registry, who: Principal, id: SessionId) -> Self {
        Self { registry, who, id }
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    // ---------------------------------------------------------------------------------- what it is

    /// The whole current state.
    pub async fn state(&self) -> Result<Arc<State>, Refusal> {
        Ok(self.registry.snapshot(&self.who, self.id).await?.state)
    }

    /// Its status.
    pub async fn status(&self) -> Result<BridgeStatus, Refusal> {
        Ok(BridgeStatus::from(&self.state().await?.summary))
    }

    /// The capabilities of its agent.
    pub async fn capabilities(&self) -> Result<Capabilities, Refusal> {
        Ok(self.state().await?.capabilities.clone())
    }

    /// What the agent reported about itself: its own session id, folder, model, mode, tools, MCP servers, commands,
    /// models, account and version. Waits until the agent is ready; fails if the agent ended before that.
    pub async fn info(&self) -> Result<AgentInfo, Refusal> {
        let mut entries = self.entries(Start::Tail(0)).await?;
        loop {
            let state = self.state().await?;
            match state.summary.status {
                Status::Starting => {}
                Status::Error => {
                    let error = state.summary.error.clone().unwrap_or_default();
                    return Err(Refusal::new(RefusalCode::NotRunning, error));
                }
                _ => return Ok(state.agent.clone()),
            }
            self.following(&mut entries).await?;
        }
    }

    /// The slash commands of the agent.
    pub async fn commands(&self) -> Result<Vec<CommandInfo>, Refusal> {
        let told = self.info().await?.commands;
        Ok(told.or(self.capabilities().await?.supported_commands).unwrap_or_default())
    }

    /// The models of the agent.
    pub async fn models(&self) -> Result<Vec<ModelInfo>, Refusal> {
        let told = self.info().await?.models;
        Ok(told.or(self.capabilities().await?.supported_models).unwrap_or_default())
    }

    /// The account of the agent, if the agent reports it.
    pub async fn account(&self) -> Result<Option<Account>, Refusal> {
        Ok(self.info().await?.account)
    }

    // -------------------------------------------------------------------------------- what happens

    /// Joins the session: the durable entries after `start`, then every new entry.
    pub async fn entries(&self, start: Start) -> Result<Entries, Refusal> {
        Ok(Entries::new(self.registry.attach(&self.who, self.id, start, Mode::Every).await?))
    }

    /// The status and the capabilities of the agent: the current values, then every change.
    pub async fn news(&self) -> Result<News, Refusal> {
        Ok(News::new(self.registry.attach(&self.who, self.id, Start::Tail(0), Mode::Items).await?))
    }

    /// The agent's original message for this entry, byte for byte, if it was kept. For owners.
    pub async fn raw(&self, entry: Seq) -> Result<Option<Vec<u8>>, Refusal> {
        Ok(self.registry.raw(&self.who, self.id, entry).await?.map(|bytes| bytes.to_vec()))
    }

    // ---------------------------------------------------------------------------------- what is asked

    /// Sends any action. Returns when the command is in the log, with its number and its progress.
    pub async fn submit(&self, action: Action) -> Result<Receipt, Refusal> {
        self.registry.submit(&self.who, self.id, CommandId::random(), action).await
    }

    /// Sends any action and waits for its result.
    pub async fn settle(&self, action: Action) -> Result<Option<Value>, Refusal> {
        let Receipt { seq, mut stage } = self.submit(action).await?;
        if !stage.is_final() {
            let mut entries = self.entries(Start::After(seq)).await?;
            stage = loop {
                if let Event::Receipt { command, stage } = self.following(&mut entries).await?.event
                    && command == seq
                    && stage.is_final()
                {
                    break stage;
                }
            };
        }
        match stage {
            Stage::Refused { refusal } => Err(refusal),
            Stage::Uncertain { reason } => Err(Refusal::new(RefusalCode::NotRunning, reason)),
            Stage::Consumed { result } => Ok(result),
            Stage::Accepted | Stage::Sending | Stage::Delivered => Ok(None),
        }
    }

    /// Sends a prompt to the agent. The returned number names the prompt from then on.
    pub async fn prompt(&self, text: &str) -> Result<Seq, Refusal> {
        Ok(self.submit(Action::Prompt { content: vec![Content::text(text)] }).await?.seq)
    }

    /// Sends a prompt, with images if there are any, and returns all entries until the turn of the prompt has ended. An
    /// agent may handle several prompts in one turn.
    pub async fn send(&self, content: Vec<Content>) -> Result<Reply, Refusal> {
        let command = self.submit(Action::Prompt { content }).await?.seq;
        let entries = self.entries(Start::After(command)).await?;
        Ok(Reply { entries, command, taken_up: false, ended: false })
    }

    /// Answers a request. Only the first answer counts; the refusal of a later answer says who was first.
    pub async fn answer(&self, request: RequestId, answer: Answer) -> Result<Seq, Refusal> {
        Ok(self.submit(Action::Answer { request, digest: None, answer, persist: None }).await?.seq)
    }

    /// Allows a request, with its original input.
    pub async fn allow(&self, request: RequestId) -> Result<Seq, Refusal> {
        self.answer(request, Answer::allow()).await
    }

    /// Denies a request, with a reason.
    pub async fn deny(&self, request: RequestId, message: Option<&str>) -> Result<Seq, Refusal> {
        self.answer(request, Answer::deny(message.map(Into::into))).await
    }

    /// The same, and ends the turn.
    pub async fn deny_and_interrupt(
        &self,
        request: RequestId,
        message: Option<&str>,
    ) -> Result<Seq, Refusal> {
        let message = message.map(Into::into);
        self.answer(request, Answer::Deny { message, interrupt: true, option: None }).await
    }

    /// Stops the running turn. Open requests are closed for every client.
    pub async fn interrupt(&self) -> Result<(), Refusal> {
        self.settle(Action::Interrupt).await.map(drop)
    }

    /// Changes the model; `None` is the agent's default.
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), Refusal> {
        self.settle(Action::SetModel { model: model.map(Into::into) }).await.map(drop)
    }

    /// Changes the permission mode.
    pub async fn set_mode(&self, mode: &str) -> Result<(), Refusal> {
        self.settle(Action::SetMode { mode: mode.into() }).await.map(drop)
    }

    /// Changes the thinking budget; `None` is the agent's default.
    pub async fn set_thinking(&self, tokens: Option<u32>) -> Result<(), Refusal> {
        self.settle(Action::SetThinking { tokens }).await.map(drop)
    }

    /// Sets environment variables for programs that the agent starts from now on.
    pub async fn set_environment(&self, variables: IndexMap<String, String>) -> Result<(), Refusal> {
        self.settle(Action::SetEnvironment { variables }).await.map(drop)
    }

    /// Restores files to what they were before the prompt with this number, or only reports what would change.
    pub async fn rewind(&self, prompt: Seq, dry_run: DryRun) -> Result<Option<Value>, Refusal> {
        self.settle(Action::Rewind { to: prompt, dry_run: dry_run == DryRun::Yes }).await
    }

    /// The current state of its MCP servers, from the agent.
    pub async fn mcp_status(&self) -> Result<Vec<McpServer>, Refusal> {
        self.settle(Action::McpStatus).await?;
        Ok(self.state().await?.mcp_servers.clone())
    }

    /// Reconnects an MCP server.
    pub async fn mcp_reconnect(&self, server: &str) -> Result<(), Refusal> {
        self.settle(Action::McpReconnect { server: server.into() }).await.map(drop)
    }

    /// Switches an MCP server on or off.
    pub async fn mcp_toggle(&self, server: &str, switch: Switch) -> Result<(), Refusal> {
        self.settle(Action::McpToggle { server: server.into(), enabled: switch == Switch::On })
            .await
            .map(drop)
    }

    /// Sets the session's own MCP servers, each in the agent's own format.
    pub async fn mcp_set(&self, servers: IndexMap<String, Value>) -> Result<Option<Value>, Refusal> {
        self.settle(Action::McpSet { servers, keep: false }).await
    }

    /// Sends a JSON-RPC message to an MCP server.
    pub async fn mcp_message(&self, server: &str, message: Value) -> Result<Option<Value>, Refusal> {
        self.settle(Action::McpMessage { server: server.into(), message }).await
    }

    /// Sends a message of the agent's own protocol, and returns the answer. For owners.
    pub async fn native(&self, body: Value) -> Result<Option<Value>, Refusal> {
        self.settle(Action::Native { body }).await
    }

    /// The same with another timeout. An answer that comes later is still in the log.
    pub async fn native_within(&self, body: Value, patience: Duration) -> Result<Option<Value>, Refusal> {
        tokio::time::timeout(patience, self.native(body)).await.unwrap_or_else(|_| {
            let message = format!("the agent gave no answer within {} s", patience.as_secs_f32());
            Err(Refusal::new(RefusalCode::NotRunning, message))
        })
    }

    /// Runs a slash command, such as `/compact`, and returns its output. Portolan itself answers `/cost` if the agent
    /// does not have that command.
    pub async fn execute(&self, command: &str) -> Result<CommandOutput, Refusal> {
        let line = command.trim().trim_start_matches('/');
        let name = line.split_whitespace().next().unwrap_or_default();
        let known = self.commands().await?.iter().any(|known| known.name.trim_start_matches('/') == name);
        if !known {
            return self.emulated(name).await;
        }
        let mut reply = self.send(vec![Content::text(format!("/{line}"))]).await?;
        let mut said = Vec::new();
        while let Some(told) = reply.next().await? {
            match told.event {
                Event::Message { content, .. } => {
                    said.extend(content.iter().filter_map(text).map(str::to_owned));
                }
                Event::Notice { text, .. } => said.push(text),
                _ => {}
            }
        }
        Ok(CommandOutput { content: said.join("\n"), source: CommandSource::Native })
    }

    async fn emulated(&self, name: &str) -> Result<CommandOutput, Refusal> {
        if name != "cost" {
            let message = format!("the agent has no command `/{name}`");
            return Err(Refusal::new(RefusalCode::Unsupported, message));
        }
        let summary = &self.state().await?.summary;
        let cost =
            summary.cost_usd.map_or_else(|| "an unknown amount".to_owned(), |cost| format!("${cost:.4}"));
        let content = format!("{cost} in {} turns", summary.turns);
        Ok(CommandOutput { content, source: CommandSource::Emulated })
    }

    // ----------------------------------------------------------------------------------------- its end

    /// Starts the agent again where it left off.
    pub async fn resume(&self) -> Result<(), Refusal> {
        self.settle(Action::Resume).await.map(drop)
    }

    /// Ends the agent and everything it started; returns when they have ended. The log stays.
    pub async fn close(&self) -> Result<(), Refusal> {
        self.settle(Action::Stop).await.map(drop)
    }

    /// The next entry; an error if there is none.
    async fn following(&self, entries: &mut Entries) -> Result<Told<Event>, Refusal> {
        entries.next().await?.ok_or_else(|| {
            Refusal::new(RefusalCode::Ended, "the session was deleted, or Portolan is stopping")
        })
    }
}

/// Whether to only report what would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Only report.
    Yes,
    /// Make the change.
    No,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

fn text(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text } => Some(text),
        _ => None,
    }
}

/// The entries from a prompt until its turn has ended.
#[derive(Debug)]
pub struct Reply {
    entries: Entries,
    command: Seq,
    taken_up: bool,
    ended: bool,
}

impl Reply {
    /// The number of the prompt.
    pub fn prompt(&self) -> Seq {
        self.command
    }

    /// The next entry; `None` after the last entry of the turn, or if the prompt started no turn. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Told<Event>>, Refusal> {
        if self.ended {
            return Ok(None);
        }
        let told = self.entries.next().await?;
        self.ended = match told.as_ref().map(|told| &told.event) {
            Some(Event::Receipt { command, stage }) if *command == self.command => {
                self.taken_up |= matches!(stage, Stage::Consumed { .. });
                matches!(stage, Stage::Refused { .. } | Stage::Uncertain { .. })
            }
            Some(Event::TurnEnded { .. }) => self.taken_up,
            Some(Event::AgentExited { .. }) | None => true,
            Some(_) => false,
        };
        Ok(told)
    }

    /// All entries at once.
    pub async fn all(mut self) -> Result<Vec<Told<Event>>, Refusal> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await? {
            all.push(told);
        }
        Ok(all)
    }
}
