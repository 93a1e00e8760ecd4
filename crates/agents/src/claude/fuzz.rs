//! What must hold for any output of Claude Code and any action of people: the bodies of two fuzz targets in fuzz/, and
//! of a test that plays their seeds again.
//!
//! [`lines`] is the codec from the CLI to Portolan. [`conversation`] is both directions, with the session's machine
//! between: actions become lines for the CLI, its lines become entries, and requests are answered at most once.

use std::{collections::HashMap, time::Duration};

use portolan_core::{
    Action, Actor, Event, Generation, LogId, Millis, RequestId, Seq, SessionId, SessionSpec, TokenId,
    command::{Command, CommandKey, Stage},
    event::{Exit, ExitReason},
    log::Book,
    ports::{InstructionId, Report},
    session::{
        machine::{Machine, Policy, Want},
        state::State,
    },
};
use serde_json::{Value, json};

use super::{
    Way, capabilities,
    system::IGNORED,
    translate::{Repeats, Setup, Translate},
    version::{self, Version},
};
use crate::driver::{Output, Settles, Timer, Translator};

const SESSION: SessionId = SessionId::from_u128(7);

/// Kinds of messages that are understood. Some hold nothing new, so they have no result; all others must be kept.
const UNDERSTOOD: [&str; 13] = [
    "assistant",
    "auth_status",
    "command_lifecycle",
    "control_cancel_request",
    "control_request",
    "control_response",
    "conversation_reset",
    "result",
    "stream_event",
    "system",
    "tool_progress",
    "tool_use_summary",
    "user",
];

/// A translator as for one of the versions, chosen by a byte of the input.
fn translator(choice: u8) -> Translate {
    let version = [Version(2, 1, 325), Version(2, 1, 120), Version(2, 1, 42)][usize::from(choice) % 3];
    let repeats = if version.dials_in() { Repeats::AfterReconnect } else { Repeats::Never };
    Translate::new(Setup {
        session: SESSION,
        generation: Generation(1),
        folder: "/workspace/demo".into(),
        version: (choice < 250).then_some(version),
        initialize: json!({ "subtype": "initialize" }),
        served: vec!["demo".into()],
        mode: "default".into(),
        modes: version::modes(Some(version)),
        patience: Duration::from_secs(30),
        repeats,
        ..Setup::bare()
    })
}

/// The first byte and the lines of the rest that are text.
fn read(data: &[u8]) -> (u8, impl Iterator<Item = &str>) {
    let (choice, rest) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let lines = rest.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    (choice, lines.filter(|line| !line.trim_ascii().is_empty()))
}

fn output_of(work: impl FnOnce(&mut Output)) -> Output {
    let mut out = Output::default();
    work(&mut out);
    out
}

/// Every written message is one line of JSON: an object with a type.
fn written(out: &Output) -> Vec<Value> {
    let read = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        assert_eq!(end, Some(bytes.len() - 1), "one line each");
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        assert!(value["type"].is_string(), "{value}");
        value
    };
    out.writes.iter().map(|write| read(write.outbound.bytes())).collect()
}

/// Any lines of the CLI: no line fails, no unknown line is lost, and the same lines give the same result.
pub fn lines(data: &[u8]) {
    let (choice, lines) = read(data);
    let (mut one, mut other) = (translator(choice), translator(choice));
    assert_eq!(output_of(|out| one.start(out)), output_of(|out| other.start(out)));
    for line in lines {
        let out = output_of(|out| one.line(line, out));
        assert_eq!(
            out,
            output_of(|out| other.line(line, out)),
            "the same line gives the same result: {line}"
        );
        written(&out);
        let message = serde_json::from_str::<Value>(line).unwrap_or_default();
        let known = message["type"]
            .as_str()
            .is_some_and(|kind| UNDERSTOOD.contains(&kind) || IGNORED.contains(&kind));
        // Of two types in one message the translator takes the first, and this reader takes the last.
        let first = line.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split('"').next());
        let known = known || first.is_some_and(|kind| UNDERSTOOD.contains(&kind) || IGNORED.contains(&kind));
        // A message that is repeated after a reconnection is reported once.
        let known = known || message["uuid"].is_string();
        let kept = |report: &Report| matches!(report, Report::Event { raw: Some(raw), .. } if raw == line);
        assert!(known || out.reports.iter().any(kept), "lost: {line}");
    }
}

/// Both directions. Each line begins with its kind: `{` a message of the CLI; `>` an action of somebody, as JSON; `a`
/// and `e` the CLI's answer to Portolan's oldest request, a success with JSON or an error with text; `t` a timer that
/// runs out, by its number; `u` the last written message does not arrive; `l` and `r` the connection is lost, and back;
/// `d` an hour passes.
pub fn conversation(data: &[u8]) {
    let (choice, lines) = read(data);
    let mut talk = Talk::begin(choice);
    for line in lines {
        let (first, rest) = line.split_at(line.ceil_char_boundary(1));
        match first {
            "{" => talk.agent(line),
            ">" => talk.person(rest),
            "a" => talk.answered(&json!({ "subtype": "success",
                "response": serde_json::from_str::<Value>(rest).unwrap_or_default() })),
            "e" => talk.answered(&json!({ "subtype": "error", "error": rest })),
            "t" => talk.translated(|translate, out| {
                translate.timeout(Timer(rest.trim().parse().unwrap_or_default()), out);
            }),
            "u" => talk.undelivered(),
            "l" => {
                talk.report(Report::LinkLost { reason: "cut".into() });
                talk.translated(Translator::link_lost);
            }
            "r" => {
                talk.report(Report::LinkRestored);
                talk.translated(Translator::link_restored);
            }
            "d" => talk.later(),
            _ => {}
        }
        talk.tell();
    }
    talk.end();
}

/// A session's machine and a translator, connected as by a driver.
struct Talk {
    machine: Machine,
    book: Book<State>,
    translate: Translate,
    now: Millis,
    commands: u64,
    /// Portolan's requests without an answer, oldest first.
    asked: Vec<Value>,
    last_written: Option<InstructionId>,
    /// How often the CLI asked under a key, less how often it was answered.
    owed: HashMap<String, i64>,
    ended: bool,
}

impl Talk {
    fn begin(choice: u8) -> Self {
        let (now, spec) = (Millis(1_000), SessionSpec { agent: "claude".into(), ..SessionSpec::default() });
        let mut book = Book::new(LogId::Session(SESSION), Seq::ZERO, State::new(SESSION, spec.clone(), now));
        book.append(now, None, Event::SessionCreated { spec: Box::new(spec) });
        let policy = Policy { request_deadline: Some(Duration::from_mins(30)), ..Policy::default() };
        let mut talk = Self {
            machine: Machine::new(policy),
            book,
            translate: translator(choice),
            now,
            commands: 0,
            asked: vec![],
            last_written: None,
            owed: HashMap::new(),
            ended: false,
        };
        talk.machine.begin();
        let _ = talk.machine.take_wants(talk.book.head());
        talk.machine.starting(&mut talk.book, now, capabilities(None, Way::Stdio), None);
        talk.translated(Translator::start);
        // The agent's description, and its first mode.
        for _ in 0..2 {
            talk.answered(&json!({ "subtype": "success", "response": {} }));
        }
        assert!(talk.translate.is_ready);
        talk
    }

    fn report(&mut self, report: Report) {
        if !self.ended {
            self.machine.report(&mut self.book, self.now, report);
        }
    }

    /// Does what the driver does with a output.
    fn translated(&mut self, work: impl FnOnce(&mut Translate, &mut Output)) {
        if self.ended {
            return;
        }
        let out = output_of(|out| work(&mut self.translate, out));
        for message in written(&out) {
            match message["type"].as_str() {
                Some("control_request") => self.asked.push(message["request_id"].clone()),
                Some("control_response") => {
                    let key = message["response"]["request_id"].as_str().unwrap_or_default();
                    // Messages that people send in the CLI's own protocol are not checked.
                    if let Some(owed) = self.owed.get_mut(key) {
                        *owed -= 1;
                        assert!(*owed >= 0, "{key} was answered twice");
                    }
                }
                _ => {}
            }
        }
        for report in out.reports {
            self.report(report);
        }
        for write in out.writes {
            self.last_written = write.instruction_id;
            if let Some(instruction_id) = write.instruction_id {
                self.report(Report::Delivered(instruction_id));
                if write.settles == Settles::Now {
                    self.report(Report::Consumed { instruction_id, result: None });
                }
            }
        }
        if let Some(fault) = out.fault {
            self.exit(ExitReason::Failed, &fault);
        }
    }

    fn agent(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        if message["type"] == "control_request"
            && let Some(key) = message["request_id"].as_str()
        {
            *self.owed.entry(key.to_owned()).or_default() += 1;
        }
        // Requests that the CLI lists after a reconnection count as asked too.
        let pending = message["response"]["pending_permission_requests"].as_array();
        for key in pending.into_iter().flatten().filter_map(|asked| asked["request_id"].as_str()) {
            *self.owed.entry(key.to_owned()).or_default() += 1;
        }
        self.translated(|translate, out| translate.line(line, out));
    }

    fn answered(&mut self, response: &Value) {
        if self.asked.is_empty() {
            return;
        }
        let mut response = response.clone();
        response["request_id"] = self.asked.remove(0);
        let line = json!({ "type": "control_response", "response": response }).to_string();
        self.translated(|translate, out| translate.line(&line, out));
    }

    fn person(&mut self, text: &str) {
        let Ok(mut action) = serde_json::from_str::<Action>(text) else { return };
        if let Action::Answer { request, .. } = &mut action {
            // The fuzzer cannot know the numbers: it names the open requests in turn.
            let open: Vec<_> = self.book.state().requests.iter().map(|open| open.request).collect();
            if let Some(one) = open.get(request.0 as usize % open.len().max(1)) {
                *request = RequestId(one.0);
            }
        }
        if matches!(action, Action::Native { .. }) {
            // A client that speaks the CLI's own protocol may break it; that is not tested here.
            return;
        }
        self.commands += 1;
        let (Ok(token), Ok(id)) = ("t".parse::<TokenId>(), format!("c{}", self.commands).parse()) else {
            return;
        };
        let by = Actor::Person { token: token.clone(), name: "somebody".into(), via: "fuzz".into() };
        let command = Command { key: CommandKey { token, id }, by, action };
        let _ = self.machine.command(&mut self.book, self.now, command);
    }

    /// Sends everything that waits to the agent, and ends the agent if asked.
    fn tell(&mut self) {
        loop {
            for want in self.machine.take_wants(self.book.head()) {
                if want == Want::Stop {
                    self.translated(Translator::farewell);
                    self.exit(ExitReason::Stopped, "stopped");
                }
            }
            match self.machine.next_instruction(self.book.head()) {
                Some(instruction) => self.translated(|translate, out| translate.instruct(instruction, out)),
                None => return,
            }
        }
    }

    fn undelivered(&mut self) {
        if let Some(instruction_id) = self.last_written.take() {
            self.translated(|translate, out| {
                translate.undelivered(instruction_id, "the agent does not read", out);
            });
        }
    }

    fn later(&mut self) {
        self.now = Millis(self.now.0 + 3_600_000);
        self.machine.expire(&mut self.book, self.now);
        assert!(self.book.state().requests.is_empty(), "nothing waits beyond its deadline");
    }

    fn exit(&mut self, reason: ExitReason, message: &str) {
        let exit = Exit { reason, code: None, signal: None, message: message.into(), stderr: String::new() };
        self.report(Report::Exited(exit));
        self.ended = true;
    }

    /// The agent ends: nothing waits any more, and every command has ended or is uncertain.
    fn end(mut self) {
        self.exit(ExitReason::Finished, "ended");
        let state = self.book.state();
        assert!(state.requests.is_empty() && state.turn.is_none() && state.items.is_empty());
        for open in &state.commands {
            let fine = open.is_queued_prompt() || matches!(open.stage, Stage::Uncertain { .. });
            assert!(fine, "{open:?} has no end");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn seeds(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        for seed in seeds("claude_lines") {
            lines(&seed);
        }
        for seed in seeds("claude_conversation") {
            conversation(&seed);
        }
    }

    #[test]
    fn a_conversation_of_the_fuzzer_is_a_real_one() {
        let ask = r#"{"type":"control_request","request_id":"k","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{},"tool_use_id":"t"}}"#;
        let play = |answers: &str| conversation(format!("\0>{PROMPT}\n{ask}\n{answers}").as_bytes());
        const PROMPT: &str = r#"{"name":"prompt","content":[{"type":"text","text":"go"}]}"#;
        play(&format!("{}\n", r#">{"name":"answer","request":0,"answer":{"kind":"allow"}}"#).repeat(3));
        play(">{\"name\":\"interrupt\"}\na{}\nd\nl\nr\ne no\nu\nt3\n");
    }
}
