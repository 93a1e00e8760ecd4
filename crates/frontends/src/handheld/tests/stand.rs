//! The test stand: a registry in memory, an agent that does what a prompt says, the four slots, and devices on a pipe.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use portolan_core::{
    Action, Capabilities, CommandId, SessionId, SessionSpec,
    capabilities::{Asks, NativeProtocol},
    event::{AgentInfo, Content, Event, ExitReason, TurnOutcome, TurnResult, plain_text},
    ports::Clock,
    registry::Registry,
    request::{Answer, Ask, Choice, Question},
    session::{
        machine::Policy,
        state::{State, Status},
    },
    spec::SpecOption,
};
use portolan_store::MemoryStore;
pub(super) use portolan_testkit::sessions::{PATIENCE, owner};
use portolan_testkit::{
    agents::{self, Cut, Played, Puppet, Strings, exit},
    sessions::until,
};
use serde_json::{Value, json};
use tokio::{
    io::{DuplexStream, duplex},
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol},
};

use crate::handheld::{
    desk::GUARD,
    device::{self, Visitor},
    devices::{Devices, Origin, Peer, principal},
    in_flight::InFlight,
    session_slots::{SessionSlots, Slots},
};

// ------------------------------------------------------------------------------------- the agent

/// Does what a prompt says: `say WORDS`, `ask TOOL TEXT`, `blocked TOOL TEXT`, `question`, `stream`, `hang`, `exit`.
#[derive(Clone, Debug)]
pub(super) struct Obedient {
    pub(super) puppet: Arc<Puppet>,
    pub(super) faults: Arc<Faults>,
}

/// The fault of the agent.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// No start works.
    pub(super) broken: AtomicBool,
    /// No start works that resumes an old conversation.
    pub(super) forgetful: AtomicBool,
}

impl Obedient {
    fn new() -> Self {
        let faults = Arc::new(Faults::default());
        let at_a_start = Arc::clone(&faults);
        let puppet = Puppet::new("obedient").with_capabilities(capabilities()).playing(move |strings| {
            let forgets = strings.launch.resume.is_some() && at_a_start.forgetful.load(Ordering::Relaxed);
            let fails = forgets || at_a_start.broken.load(Ordering::Relaxed);
            Box::pin(async move {
                if fails {
                    return exit(ExitReason::Failed, "it would not start");
                }
                let (session, resume) = (strings.launch.session, strings.launch.resume.as_ref());
                let session =
                    resume.map_or_else(|| format!("own-{session}"), |resume| resume.agent_session.clone());
                let info = AgentInfo { agent_session: Some(session), ..AgentInfo::default() };
                strings.ready_as(info).await;
                strings.act(|strings, content| Box::pin(obey(strings, content))).await
            })
        });
        Self { puppet: Arc::new(puppet), faults }
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        streaming: true,
        interrupt: true,
        session_resume: true,
        native_protocol: NativeProtocol::Demo,
        mode_asks: [("plan".to_owned(), Asks::Everything)].into_iter().collect(),
        options: vec![
            SpecOption::Cwd,
            SpecOption::Prompt,
            SpecOption::Model,
            SpecOption::Mode,
            SpecOption::Env,
            SpecOption::MaxTurns,
        ],
        ..Capabilities::default()
    }
}

async fn obey(strings: &mut Strings, content: Vec<Content>) -> Played {
    let words = plain_text(&content);
    let (word, rest) = words.split_once(' ').unwrap_or((&words, ""));
    let (tool, text) = rest.split_once(' ').unwrap_or((rest, "."));
    let ask = match word {
        "ask" => permission(tool, text, None),
        "blocked" => permission(tool, text, Some("/elsewhere")),
        "question" => question(),
        "stream" => {
            stream(strings).await;
            return Err(strings.interrupted().await);
        }
        "hang" => return Err(strings.interrupted().await),
        "exit" => return Err(Cut::Ends(exit(ExitReason::Finished, "it has ended"))),
        _ => {
            strings.speak(&words).await;
            return Ok(TurnResult::bare(TurnOutcome::Completed));
        }
    };
    let answer = strings.answer_to(ask, None, None).await?;
    strings.speak(&told(&answer)).await;
    Ok(TurnResult::bare(TurnOutcome::Completed))
}

fn told(answer: &Answer) -> String {
    match answer {
        Answer::Allow { .. } => "allowed".into(),
        Answer::Deny { message, .. } => format!("denied: {}", message.clone().unwrap_or_default()),
        Answer::Choices { answers } => format!("chosen: {}", json!(answers)),
        other => format!("{other:?}"),
    }
}

fn permission(tool: &str, text: &str, blocked_path: Option<&str>) -> Ask {
    let input = if tool == "Bash" { json!({ "command": text }) } else { json!({ "file_path": text }) };
    let mut ask = agents::permission(tool, input);
    if let Ask::Permission { description, blocked_path: blocked, .. } = &mut ask {
        (*description, *blocked) = (Some("may I".into()), blocked_path.map(Into::into));
    }
    ask
}

fn question() -> Ask {
    let choice = |label: &str| Choice { label: label.into(), description: None };
    let question = |text: &str, choices: Vec<Choice>| Question {
        question: text.into(),
        header: None,
        free_text: choices.is_empty(),
        choices,
        multiple: false,
        secret: false,
    };
    Ask::Question {
        questions: vec![
            question("Where?", vec![choice("Genoa"), choice("Majorca")]),
            question("Name?", vec![]),
            question("When?", vec![]),
        ],
    }
}

/// Streams a long text, and leaves it open.
async fn stream(strings: &mut Strings) {
    let item = strings.name();
    strings.begin_item(&item).await;
    for number in 0..200 {
        strings.delta(&item, &format!("word{number} ")).await;
    }
    strings.event(Event::ToolSummary { summary: "wrote".into(), tools: vec![] }).await;
}

// ------------------------------------------------------------------------------------- the stand

/// A registry, its slots, and what stays when both are created again.
pub(super) struct Stand {
    pub(super) store: Arc<MemoryStore>,
    pub(super) agent: Obedient,
    pub(super) registry: Registry,
    pub(super) session_slots: SessionSlots,
    pub(super) folder: PathBuf,
    home: Arc<tempfile::TempDir>,
}

/// The settings of the slots.
pub(super) fn slots(folder: &std::path::Path) -> Slots {
    Slots { agent: "obedient".into(), folder: folder.to_path_buf(), fill: false, autospawn: false }
}

impl Stand {
    pub(super) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut Slots)) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let folder = home.path().canonicalize().unwrap();
        let (store, agent) = (Arc::new(MemoryStore::new()), Obedient::new());
        Self::build(store, agent, home, folder, change).await
    }

    async fn build(
        store: Arc<MemoryStore>,
        agent: Obedient,
        home: Arc<tempfile::TempDir>,
        folder: PathBuf,
        change: impl FnOnce(&mut Slots),
    ) -> Self {
        let clock = Clock::system();
        // Portolan's own files, as far as policy is concerned.
        let policy = Policy { own: [folder.join("daemon")].into(), ..Policy::default() };
        let registry =
            Registry::open(store.clone(), vec![agent.puppet.clone()], clock.clone(), policy).await.unwrap();
        let everyone = vec!["0.0.0.0/0".parse().unwrap()];
        let devices = Devices::open(store.clone(), clock.clone(), everyone).await.unwrap();
        let mut slots = slots(&folder);
        change(&mut slots);
        let session_slots = SessionSlots::new(registry.clone(), clock, slots, devices);
        session_slots.start();
        Self { store, agent, registry, session_slots, folder, home }
    }

    /// The daemon ends in order, and another one starts over the same store.
    pub(super) async fn restarted(self, change: impl FnOnce(&mut Slots)) -> Self {
        self.session_slots.stop();
        assert_eq!(self.registry.shutdown(Duration::from_secs(1)).await, [""; 0]);
        self.session_slots.closed().await;
        Self::build(self.store, self.agent, self.home, self.folder, change).await
    }

    /// A session made by someone else.
    pub(super) async fn session(&self, prompt: &str) -> SessionId {
        self.session_with(prompt, |_| {}).await
    }

    pub(super) async fn session_with(
        &self,
        prompt: &str,
        change: impl FnOnce(&mut SessionSpec),
    ) -> SessionId {
        let mut spec = SessionSpec {
            agent: "obedient".into(),
            cwd: self.folder.clone(),
            prompt: vec![Content::text(prompt)],
            ..SessionSpec::default()
        };
        change(&mut spec);
        self.registry.create(&owner(), CommandId::random(), spec).await.unwrap().session
    }

    pub(super) async fn state(&self, session: SessionId) -> Arc<State> {
        self.registry.snapshot(&owner(), session).await.unwrap().state
    }

    /// Waits until a session matches.
    pub(super) async fn until(&self, session: SessionId, so: impl Fn(&State) -> bool) -> Arc<State> {
        until(&self.registry, session, so).await
    }

    pub(super) async fn submit(&self, session: SessionId, action: Action) {
        self.registry.submit(&owner(), session, CommandId::random(), action).await.unwrap();
    }

    /// The session in a slot.
    pub(super) fn in_slot(&self, slot: usize) -> Option<SessionId> {
        self.session_slots.board().bound(slot).map(|bound| bound.session)
    }

    /// An approved device at this address.
    pub(super) async fn device(&self, address: &str) -> Device {
        self.device_over(address, 64 * 1024).await
    }

    pub(super) async fn device_over(&self, address: &str, pipe: usize) -> Device {
        let (client, server) = duplex(pipe);
        let address = address.parse().unwrap();
        let unconfirmed = Arc::new(AtomicU64::new(0));
        let visitor = Visitor {
            who: principal(address),
            peer: Peer { address, origin: Origin::Elsewhere },
            in_flight: Arc::new(InFlight::told(Arc::clone(&unconfirmed))),
        };
        let serving = tokio::spawn(device::serve(self.session_slots.clone(), visitor, server));
        let socket = WebSocketStream::from_raw_socket(client, protocol::Role::Client, None).await;
        Device { socket, serving, unconfirmed, slots: Default::default() }
    }
}

/// Is the agent of a session idle?
pub(super) fn is_idle(state: &State) -> bool {
    state.turn.is_none() && matches!(state.summary.status, Status::Idle | Status::Connected)
}

/// A device, with the last status of each slot.
pub(super) struct Device {
    pub(super) socket: WebSocketStream<DuplexStream>,
    pub(super) serving: JoinHandle<()>,
    /// Bytes in the network that the device does not have.
    pub(super) unconfirmed: Arc<AtomicU64>,
    pub(super) slots: [Value; 4],
}

impl Device {
    pub(super) async fn say(&mut self, message: Value) {
        self.raw(message.to_string()).await;
    }

    pub(super) async fn raw(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next message. Statuses are remembered.
    pub(super) async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("nothing comes");
        let Some(Ok(Message::Text(text))) = next else { panic!("{next:?}") };
        let message: Value = serde_json::from_str(&text).unwrap();
        if message["type"] == "agent_status" {
            self.slots[message["slot"].as_u64().unwrap() as usize] = message.clone();
        }
        message
    }

    /// Waits for a matching status of a slot.
    pub(super) async fn until(&mut self, slot: usize, so: impl Fn(&Value) -> bool) -> Value {
        while !so(&self.slots[slot]) {
            self.next().await;
        }
        self.slots[slot].clone()
    }

    pub(super) async fn until_state(&mut self, slot: usize, state: &str) -> Value {
        self.until(slot, |status| status["state"] == state).await
    }

    pub(super) async fn until_message(&mut self, slot: usize, text: &str) -> Value {
        self.until(slot, |status| status["message"] == text).await
    }

    /// Waits for the result of a spawn.
    pub(super) async fn spawn_result(&mut self) -> Value {
        loop {
            let message = self.next().await;
            if message["type"] == "spawn_result" {
                return message;
            }
        }
    }

    /// Spawns in the first free slot, and waits until it is idle. Returns the slot.
    pub(super) async fn spawn(&mut self) -> usize {
        self.command(0, "spawn").await;
        let result = self.spawn_result().await;
        assert_eq!(result["success"], true, "{result}");
        let slot = result["slot"].as_u64().unwrap() as usize;
        self.until(slot, |status| status["active"] == true && status["state"] == "idle").await;
        slot
    }

    fn name(&self, slot: usize) -> String {
        self.slots[slot]["agent"].as_str().unwrap_or_default().to_owned()
    }

    /// A button, as the app sends it: the name that is selected, and always slot 0.
    pub(super) async fn press(&mut self, slot: usize, action: &str) {
        let agent = self.name(slot);
        self.say(json!({ "type": "action", "agent": agent, "action": action, "slot": 0 })).await;
    }

    /// A command, as the app sends it.
    pub(super) async fn command(&mut self, slot: usize, command: &str) {
        let agent = self.name(slot);
        self.say(json!({ "type": "command", "agent": agent, "command": command, "slot": 0 })).await;
    }

    /// Waits until a panel shows this kind of prompt.
    pub(super) async fn panel(&mut self, slot: usize, tool_type: &str) -> Value {
        self.until(slot, |status| status["promptToolType"] == tool_type).await
    }

    /// Presses a button until it has answered the panel: after the prompt was there for a while, like a person.
    pub(super) async fn decide(&mut self, slot: usize, action: &str) {
        self.answer(slot, |device, slot| {
            json!({ "type": "action", "agent": device.name(slot), "action": action, "slot": 0 })
        })
        .await;
    }

    /// The same with text.
    pub(super) async fn reply(&mut self, slot: usize, words: &str) {
        self.answer(slot, |device, slot| {
            json!({ "type": "command", "agent": device.name(slot), "command": words, "slot": 0 })
        })
        .await;
    }

    /// Sends a message after the prompt counts, and again if the server was slower, until the panel changes.
    async fn answer(&mut self, slot: usize, what: impl Fn(&Self, usize) -> Value) {
        let panel = |status: &Value| (status["promptToolType"].clone(), status["promptDescription"].clone());
        let before = panel(&self.slots[slot]);
        assert_ne!(before.0, Value::Null, "nothing waits: {}", self.slots[slot]);
        let answered = async {
            let mut wait = GUARD + Duration::from_millis(100);
            loop {
                let look = self.until(slot, |status| panel(status) != before);
                if tokio::time::timeout(wait, look).await.is_ok() {
                    return;
                }
                let words = what(self, slot);
                self.say(words).await;
                wait = Duration::from_secs(5);
            }
        };
        tokio::time::timeout(PATIENCE, answered).await.expect("it is never answered");
    }
}
