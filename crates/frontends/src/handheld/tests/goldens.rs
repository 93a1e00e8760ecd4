//! The recorded conversations of the real Claude Code through core to the handheld's frames.
//!
//! What the agent side makes of each recording is kept as its own golden; this reads those, plays them to core's machine
//! with the prompts and answers of the recording, and writes down every status that a device would be sent. So there is
//! one set of recordings, and no crate beside this one is needed to play them.

use std::{collections::HashMap, fmt::Write as _, path::PathBuf, sync::Arc};

use portolan_core::{
    Action, Actor, Capabilities, CommandId, LogId, Millis, RequestId, Seq, SessionId, SessionSpec, TokenId,
    capabilities::NativeProtocol,
    command::{Command, CommandKey},
    event::{Content, TurnOrigin},
    log::{
        Book, Writer,
        cursor::Cursor,
        delivery::{Delivery, Mode, Start},
    },
    ports::{Report, Ticket},
    request::{Answer, Ask},
    session::{
        machine::{Machine, Policy},
        state::State,
    },
};
use portolan_store::MemoryStore;
use serde_json::Value;

use crate::handheld::{
    names,
    project::View,
    wire::{AgentStatus, AutoEdit},
};

const NOW: Millis = Millis(0);

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../agents/src/claude/transcripts/expected")
}

/// Plays one recording.
struct Replay {
    log: Writer<State>,
    machine: Machine,
    cursor: Cursor<State>,
    view: View,
    name: String,
    /// The commands by the number that the recording gives them.
    tickets: HashMap<u64, Seq>,
    requests: HashMap<String, RequestId>,
    commands: u64,
    last: String,
    frames: String,
}

impl Replay {
    async fn new() -> Self {
        let session = SessionId::from_u128(7);
        let spec =
            SessionSpec { agent: "claude".into(), cwd: "/workspace/demo".into(), ..SessionSpec::default() };
        let name = names::of_session(0, &spec.agent, &spec.cwd);
        let book = Book::new(LogId::Session(session), Seq::ZERO, State::new(session, spec, NOW));
        let log = Writer::new(Arc::new(MemoryStore::new()), book);
        let cursor = Cursor::join(log.log(), Start::After(Seq::ZERO), Mode::Every).await.unwrap();
        let mut replay = Self {
            machine: Machine::new(Policy::default()),
            view: View::new(session),
            cursor,
            log,
            name,
            tickets: HashMap::new(),
            requests: HashMap::new(),
            commands: 0,
            last: String::new(),
            frames: String::new(),
        };
        replay.machine.begin();
        replay.machine.take_wants(Seq::ZERO);
        let can = Capabilities { interrupt: true, streaming: true, ..Capabilities::default() };
        replay.machine.starting(&mut replay.log.book(), NOW, can.clone(), None);
        let started = Report::Started {
            pid: None,
            version: None,
            protocol: NativeProtocol::Demo,
            capabilities: Box::new(can),
        };
        replay.report(started).await;
        replay
    }

    async fn report(&mut self, report: Report) {
        self.machine.report(&mut self.log.book(), NOW, report);
        self.show().await;
    }

    async fn command(&mut self, ticket: u64, action: Action) {
        self.commands += 1;
        let token: TokenId = "handheld".parse().unwrap();
        let id: CommandId = self.commands.to_string().parse().unwrap();
        let by = Actor::Person { token: token.clone(), name: "handheld".into(), via: "handheld".into() };
        let command = Command { key: CommandKey { token, id }, by, action };
        let receipt = self.machine.command(&mut self.log.book(), NOW, command).unwrap();
        self.tickets.insert(ticket, receipt.seq);
        self.show().await;
    }

    /// Shows what has become visible, and tells the agent what it is to be told.
    async fn show(&mut self) {
        self.log.publish().await.unwrap();
        let head = self.log.book().head();
        assert!(self.log.wait_visible(head).await);
        while self.machine.next_instruction(head).is_some() {}
        while self.cursor.last() < head {
            match self.cursor.next().await {
                Delivery::Entries(pieces) => {
                    for piece in &pieces {
                        self.view.apply(&piece.entry().unwrap());
                        self.look();
                    }
                }
                Delivery::Snapshot(snapshot) => self.view.reset(&snapshot.state),
                other => panic!("{other:?}"),
            }
        }
    }

    fn look(&mut self) {
        let status = AgentStatus::fitted(0, &self.name, AutoEdit::Off, self.view.face(AutoEdit::Off, NOW));
        let frame = String::from_utf8(status.frame().to_vec()).unwrap();
        if frame != self.last {
            writeln!(self.frames, "{frame}").unwrap();
            self.last = frame;
        }
    }

    async fn play(text: &str) -> String {
        let mut replay = Self::new().await;
        let mut order: Option<(String, u64)> = None;
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("> ") {
                let (name, ticket) = heading.rsplit_once(' ').unwrap_or((heading, "0"));
                order = Some((name.to_owned(), ticket.parse().unwrap_or(0)));
            } else if let Some(written) = line.strip_prefix("    -> ") {
                let written: Value = serde_json::from_str(written).unwrap();
                if let Some((name, ticket)) = order.take() {
                    replay.order(&name, ticket, &written).await;
                }
            } else if let Some(told) = line.strip_prefix("    ") {
                replay.told(told).await;
            }
        }
        replay.frames
    }

    /// What the host of the recording did.
    async fn order(&mut self, name: &str, ticket: u64, written: &Value) {
        match name {
            "prompt" => {
                let content = match &written["message"]["content"] {
                    Value::String(text) => vec![Content::text(text)],
                    // A device sends no pictures; what the agent does with one is the same.
                    _ => vec![Content::text("(a picture)")],
                };
                self.command(ticket, Action::Prompt { content }).await;
            }
            "interrupt" => self.command(ticket, Action::Interrupt).await,
            "answer" => {
                let key = written["response"]["request_id"].as_str().unwrap();
                let Some(request) = self.requests.get(key).copied() else { return };
                let ask = {
                    let book = self.log.book();
                    book.state()
                        .requests
                        .iter()
                        .find(|open| open.request == request)
                        .map(|open| open.ask.clone())
                };
                let Some(ask) = ask else { return };
                let answer = answer(&ask, &written["response"]["response"]);
                self.command(ticket, Action::Answer { request, digest: None, answer }).await;
            }
            // What a device cannot ask for, others did.
            _ => {}
        }
    }

    /// What the agent did.
    async fn told(&mut self, told: &str) {
        if let Some(result) = told.strip_prefix("turn ended ") {
            let result = serde_json::from_str(result).unwrap();
            return self.report(Report::TurnEnded { result, raw: None }).await;
        }
        if let Some(request) = told.strip_prefix("request ") {
            return self.asked(request).await;
        }
        if told.starts_with('{') {
            let event = serde_json::from_str(told).unwrap();
            return self.report(Report::Event { event, raw: None }).await;
        }
        let ticket = || {
            let number = told.split("Ticket(").nth(1)?.split(')').next()?;
            self.tickets.get(&number.parse().ok()?).copied()
        };
        let word = told.split([' ', '(']).next().unwrap_or_default();
        match word {
            "Ready" => self.report(Report::Ready).await,
            "TurnStarted" => {
                let agent = told.contains("Agent");
                let origin = if agent { TurnOrigin::Agent } else { TurnOrigin::Prompt };
                self.report(Report::TurnStarted { origin }).await;
            }
            "Consumed" => {
                if let Some(seq) = ticket() {
                    self.report(Report::Consumed { ticket: Ticket(seq.0), result: None }).await;
                }
            }
            "Rejected" => {
                if let Some(seq) = ticket() {
                    let error = told.split('"').nth(1).unwrap_or_default().to_owned();
                    self.report(Report::Rejected { ticket: Ticket(seq.0), error }).await;
                }
            }
            "RequestWithdrawn" => {
                let key = told.split('"').nth(1).unwrap().to_owned();
                self.report(Report::RequestWithdrawn { key }).await;
            }
            "CutOff" => {
                let mut quoted = told.split('"').skip(1).step_by(2).map(str::to_owned);
                let (item, model) = (quoted.next().unwrap(), quoted.next());
                self.report(Report::CutOff { item, model }).await;
            }
            // What the translator asks of its driver.
            "timer" => {}
            other => panic!("`{other}` in {told}"),
        }
    }

    async fn asked(&mut self, told: &str) {
        let (key, rest) = told.split_once(" parent=").unwrap();
        let (parent, rest) = rest.split_once(" tool=").unwrap();
        let (tool, ask) = rest.split_at(rest.find(" {").unwrap());
        let option = |text: &str| text.split('"').nth(1).map(str::to_owned);
        let report = Report::RequestOpened {
            key: key.to_owned(),
            ask: serde_json::from_str(ask).unwrap(),
            parent: option(parent),
            tool: option(tool),
            raw: None,
        };
        self.report(report).await;
        let newest = self.log.book().state().requests.last().map(|open| open.request);
        self.requests.extend(newest.map(|request| (key.to_owned(), request)));
    }
}

fn answer(ask: &Ask, response: &Value) -> Answer {
    match (ask, response["behavior"].as_str()) {
        (_, Some("deny")) => Answer::deny(response["message"].as_str().map(str::to_owned)),
        (Ask::Question { questions }, _) => {
            let given = &response["updatedInput"]["answers"];
            let chosen = |question: &str| {
                let chosen = given[question].as_str()?;
                Some((question.to_owned(), chosen.split(", ").map(Into::into).collect()))
            };
            Answer::Choices { answers: questions.iter().filter_map(|one| chosen(&one.question)).collect() }
        }
        (Ask::Permission { .. } | Ask::Plan { .. }, _) => Answer::allow(),
        _ => Answer::Output { output: response.clone() },
    }
}

// covers: 000-041, 000-042, 000-043, 000-046, 000-048, 000-049, 000-050, 000-051
#[tokio::test]
async fn the_recorded_conversations_give_these_frames() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.strip_suffix(".snap").is_some())
        .collect();
    names.sort();
    assert!(names.len() > 60, "recordings are missing: {}", names.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("goldens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for version in ["2.1.42-ws", "2.1.120-ws", "2.1.325-stdio"] {
        let mut all = String::new();
        for name in names.iter().filter(|name| name.starts_with(version)) {
            let text = std::fs::read_to_string(folder().join(name)).unwrap();
            let frames = Replay::play(&text).await;
            let recording = name.trim_start_matches(version).trim_matches('.').trim_end_matches(".snap");
            writeln!(all, "# {recording}\n{frames}").unwrap();
        }
        settings.bind(|| insta::assert_snapshot!(version, all));
    }
}
