//! Replay: a recorded conversation through core's machine and log alone, without a task, a clock or an agent. The same
//! recording gives the same entries, their numbers and times included.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::HashMap, sync::Arc};

use portolan_core::{
    Action, Actor, Capabilities, CommandId, Event, LogId, Millis, RequestId, Seq, SessionId, SessionSpec,
    TokenId,
    capabilities::NativeProtocol,
    command::{Command, CommandKey},
    event::Content,
    log::{
        Book, Writer,
        cursor::Cursor,
        delivery::{Delivery, Mode, Start},
    },
    ports::{InstructionId, Report},
    session::{
        machine::{Machine, Policy},
        state::State,
    },
};
use portolan_store::MemoryStore;
use serde_json::Value;

use crate::agents::{
    Recording,
    recorded::{Step, answer},
};

/// The time of every entry.
pub const NOW: Millis = Millis(0);

/// The session that every recording is played to.
pub const SESSION: SessionId = SessionId::from_u128(7);

/// Gets every delivery to a reader of the session.
pub type Taken<'t> = &'t mut dyn FnMut(&Delivery<Event, State>);

/// A session of this kind before anything has happened.
pub fn spec() -> SessionSpec {
    SessionSpec { agent: "claude".into(), cwd: "/workspace/demo".into(), ..SessionSpec::default() }
}

/// Plays a recording.
pub async fn replay(recording: &Recording, taken: Taken<'_>) {
    let mut replay = Replay::new(taken).await;
    for step in &recording.steps {
        match step {
            Step::Report(report) => replay.reported((**report).clone()).await,
            Step::Settled(number, how) => {
                let Some(instruction_id) = replay.instruction_ids.get(number).map(|seq| InstructionId(seq.0))
                else {
                    continue;
                };
                let report = match how.clone() {
                    Ok(()) => Report::Consumed { instruction_id, result: None },
                    Err(error) => Report::Rejected { instruction_id, error },
                };
                replay.report(report).await;
            }
            // Nothing was written to the agent: the agent did not take this.
            Step::Prompt(_, Value::Null) | Step::Answer(_, Value::Null) => {}
            Step::Prompt(number, written) => {
                let content = match &written["message"]["content"] {
                    Value::String(text) => vec![Content::text(text)],
                    // The agent does the same with any picture.
                    _ => vec![Content::text("(a picture)")],
                };
                replay.command(*number, Action::Prompt { content }).await;
            }
            Step::Interrupt(number) => replay.command(*number, Action::Interrupt).await,
            Step::Answer(number, written) => replay.answer(*number, written).await,
        }
    }
}

struct Replay<'t> {
    log: Writer<State>,
    machine: Machine,
    cursor: Cursor<State>,
    taken: Taken<'t>,
    /// The commands, by their number in the recording.
    instruction_ids: HashMap<u64, Seq>,
    requests: HashMap<String, RequestId>,
    commands: u64,
}

impl<'t> Replay<'t> {
    async fn new(taken: Taken<'t>) -> Self {
        let book = Book::new(LogId::Session(SESSION), Seq::ZERO, State::new(SESSION, spec(), NOW));
        let log = Writer::new(Arc::new(MemoryStore::new()), book);
        let cursor = Cursor::join(log.log(), Start::After(Seq::ZERO), Mode::Every).await.unwrap();
        let mut replay = Self {
            machine: Machine::new(Policy::default()),
            cursor,
            log,
            taken,
            instruction_ids: HashMap::new(),
            requests: HashMap::new(),
            commands: 0,
        };
        replay.machine.begin();
        replay.machine.take_wants(Seq::ZERO);
        let can = Capabilities { interrupt: true, streaming: true, ..Capabilities::default() };
        replay.machine.starting(&mut replay.log.book(), NOW, can.clone(), None);
        let started = Report::Started {
            holder: None,
            pid: None,
            version: None,
            protocol: NativeProtocol::Demo,
            capabilities: Box::new(can),
        };
        replay.report(started).await;
        replay
    }

    /// Takes a report of the recording, and remembers the request that it opens.
    async fn reported(&mut self, report: Report) {
        let opens = if let Report::RequestOpened { key, .. } = &report { Some(key.clone()) } else { None };
        self.report(report).await;
        if let Some(key) = opens {
            let newest = self.log.book().state().requests.last().map(|open| open.request);
            self.requests.extend(newest.map(|request| (key, request)));
        }
    }

    async fn report(&mut self, report: Report) {
        self.machine.report(&mut self.log.book(), NOW, report);
        self.show().await;
    }

    async fn answer(&mut self, number: u64, written: &Value) {
        let key = written["response"]["request_id"].as_str().unwrap();
        let Some(request) = self.requests.get(key).copied() else { return };
        let ask = {
            let book = self.log.book();
            let open = book.state().requests.iter().find(|open| open.request == request);
            open.map(|open| open.ask.clone())
        };
        let Some(ask) = ask else { return };
        let answer = answer(&ask, &written["response"]["response"]);
        self.command(number, Action::Answer { request, digest: None, answer, persist: None }).await;
    }

    async fn command(&mut self, number: u64, action: Action) {
        self.commands += 1;
        let token: TokenId = "replay".parse().unwrap();
        let id: CommandId = self.commands.to_string().parse().unwrap();
        let by = Actor::Person { token: token.clone(), name: "ada".into(), via: "replay".into() };
        let command = Command { key: CommandKey { token, id }, by, action };
        let receipt = self.machine.command(&mut self.log.book(), NOW, command).unwrap();
        self.instruction_ids.insert(number, receipt.seq);
        self.show().await;
    }

    /// Passes on the visible entries, and sends the agent its instructions.
    async fn show(&mut self) {
        self.log.publish().await.unwrap();
        let head = self.log.book().head();
        assert!(self.log.wait_visible(head).await);
        while self.machine.next_instruction(head).is_some() {}
        while self.cursor.last() < head {
            (self.taken)(&self.cursor.next().await);
        }
    }
}
