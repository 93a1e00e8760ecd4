//! Recorded conversations of real agents, played to the translator: line to events, order to lines.
//!
//! `transcripts/<agent>/*.ndjson` hold the lines of both sides, with long texts of the vendors cut;
//! `transcripts/expected/` holds the expected result. Portolan chooses the ids of its requests, so the ids of the
//! recording are replaced by them.

mod errands;
mod goldens;
mod naive;
mod orders;
mod sdk;
mod subagents;
mod suite;
mod unsaid;

use std::{collections::HashMap, path::PathBuf};

use portolan_core::{
    Event,
    event::Content,
    policy::Decision,
    ports::{Instruction, InstructionId, Order, Report},
    request::{Answer, Ask, Scope},
};
use serde_json::{Value, json};

use super::{
    Serves, catalogue,
    fuzz::setup,
    translate::{Begin, Setup, Translate},
};
use crate::driver::{Output, Translator as _};

fn output_of(work: impl FnOnce(&mut Output)) -> Output {
    let mut out = Output::default();
    work(&mut out);
    out
}

fn said(translate: &mut Translate, message: &Value) -> Output {
    output_of(|out| translate.line(&message.to_string(), out))
}

fn told(translate: &mut Translate, instruction_id: u64, order: Order) -> Output {
    output_of(|out| {
        translate.instruct(Instruction { id: InstructionId(instruction_id), order }, out);
    })
}

fn written(out: &Output) -> Vec<Value> {
    let line = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    out.writes.iter().map(|write| line(write.outbound.bytes())).collect()
}

fn update(update: &Value) -> Value {
    json!({ "method": "session/update", "params": { "sessionId": "S", "update": update } })
}

fn words(text: &str) -> Value {
    let content = json!({ "type": "text", "text": text });
    update(&json!({ "sessionUpdate": "agent_message_chunk", "content": content }))
}

fn prompt(text: &str) -> Order {
    Order::Prompt { content: vec![Content::text(text)] }
}

/// The answer to Portolan's newest request with this method.
fn answer_to(out: &Output, method: &str, result: &Value) -> Value {
    json!({ "id": asked(out, method)["id"], "result": result })
}

fn refusal_of(out: &Output, method: &str, code: i64, message: &str) -> Value {
    json!({ "id": asked(out, method)["id"], "error": { "code": code, "message": message } })
}

fn asked(out: &Output, method: &str) -> Value {
    let asked = written(out).into_iter().rev().find(|line| line["method"] == method);
    asked.unwrap_or_else(|| panic!("{method} was not asked: {out:?}"))
}

/// The first report of an agent that offers everything.
fn everything() -> Value {
    json!({ "protocolVersion": 1, "agentInfo": { "name": "harbour", "version": "1.2.3" }, "authMethods": [],
        "agentCapabilities": { "loadSession": true, "promptCapabilities": { "image": true, "embeddedContext": true },
            "mcpCapabilities": { "http": true },
            "sessionCapabilities": { "resume": {}, "fork": {}, "list": {}, "close": {}, "additionalDirectories": {} } } })
}

/// An initialised translator, and its output.
fn initialized(setup: Setup, told: &Value) -> (Translate, Output) {
    let mut translate = Translate::new(setup);
    let out = output_of(|out| translate.start(out));
    let out = said(&mut translate, &answer_to(&out, "initialize", told));
    (translate, out)
}

/// A translator whose session has begun.
fn ready(setup: Setup) -> Translate {
    let ask = setup.known.asking_mode.unwrap_or("ask");
    let (mut translate, out) = initialized(setup, &everything());
    let modes = json!({ "currentModeId": ask, "availableModes": [{ "id": ask }, { "id": "code" }] });
    let out =
        said(&mut translate, &answer_to(&out, "session/new", &json!({ "sessionId": "S", "modes": modes })));
    assert!(out.reports.contains(&Report::Ready), "{out:?}");
    translate
}

fn events(out: &Output) -> Vec<&Event> {
    events_of(&out.reports)
}

fn events_of(reports: &[Report]) -> Vec<&Event> {
    let mut events = vec![];
    for report in reports {
        if let Report::Event { event, .. } = report {
            events.push(event);
        }
    }
    events
}

// ----------------------------------------------------------------------------------------- player

#[derive(serde::Deserialize)]
struct Line {
    dir: String,
    msg: Value,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/acp/transcripts")
}

fn recording(name: &str) -> Vec<Line> {
    let path = folder().join(format!("{name}.ndjson"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Plays a recording, and writes down the result.
struct Player {
    translate: Translate,
    instruction_ids: u64,
    /// Portolan's ids for those of the recording.
    ids: HashMap<String, Value>,
    /// Portolan's requests that the recording does not have yet.
    unmatched: Vec<Value>,
    asks: HashMap<String, (Ask, Value)>,
    tasks: Vec<String>,
    score: String,
    reports: Vec<Report>,
    writes: Vec<Value>,
}

impl Player {
    fn play(name: &str) -> Self {
        let lines = recording(name);
        let agent = name.split('/').next().unwrap();
        let known = catalogue::known(agent);
        let resumed = lines
            .iter()
            .find(|line| matches!(line.msg["method"].as_str(), Some("session/load" | "session/resume")));
        let begin = resumed.map_or(Begin::New, |line| Begin::Resume {
            session: line.msg["params"]["sessionId"].as_str().unwrap().into(),
            own: true,
        });
        let serves = Serves { files: true, terminals: true };
        let setup = Setup { agent: agent.into(), title: known.title.into(), known, begin, serves, ..setup() };
        let mut player = Self {
            translate: Translate::new(setup),
            instruction_ids: 100,
            ids: HashMap::new(),
            unmatched: vec![],
            asks: HashMap::new(),
            tasks: vec![],
            score: String::new(),
            reports: vec![],
            writes: vec![],
        };
        for Line { dir, msg } in lines {
            if dir == "out" { player.host(&msg) } else { player.agent(&msg) }
        }
        player
    }

    fn note(&mut self, heading: &str, raw: &Value, out: Output) {
        use std::fmt::Write as _;
        writeln!(self.score, "{heading}").unwrap();
        for report in &out.reports {
            if let Report::RequestOpened { key, ask, .. } = report {
                self.asks.insert(key.clone(), ((**ask).clone(), raw.clone()));
            }
            writeln!(self.score, "    {}", show(report)).unwrap();
        }
        for task in &out.tasks {
            self.tasks.push(task.key.clone());
            writeln!(self.score, "    task {} {} {}", task.key, task.method, task.params).unwrap();
        }
        let lines = written(&out);
        for line in &lines {
            writeln!(self.score, "    -> {line}").unwrap();
        }
        if let Some(fault) = &out.fault {
            writeln!(self.score, "    given up: {fault}").unwrap();
        }
        self.unmatched.extend(lines.iter().filter(|line| line.get("method").is_some()).cloned());
        self.reports.extend(out.reports);
        self.writes.extend(lines);
    }

    fn agent(&mut self, msg: &Value) {
        let mut msg = msg.clone();
        if msg.get("method").is_none() {
            let Some(ours) = self.ids.get(&msg["id"].to_string()) else { return };
            msg["id"] = ours.clone();
        }
        let out = said(&mut self.translate, &msg);
        let heading = match msg["params"]["update"]["sessionUpdate"].as_str() {
            Some(kind) => kind,
            None => msg["method"].as_str().unwrap_or("answer"),
        };
        let unasked: Vec<_> = out.reports.iter().filter_map(unasked).collect();
        self.note(&format!("< {heading}"), &msg, out);
        for key in unasked {
            self.order("> checked", Order::Checked { key, decision: Decision::Allow });
        }
    }

    fn host(&mut self, msg: &Value) {
        let params = &msg["params"];
        match msg["method"].as_str() {
            Some("initialize") => {
                let out = output_of(|out| self.translate.start(out));
                self.note("> start", msg, out);
            }
            Some("session/new" | "session/load" | "session/resume" | "session/close") => {}
            Some("session/prompt") => {
                let text = |piece: &Value| Content::text(piece["text"].as_str().unwrap());
                let content = params["prompt"].as_array().unwrap().iter().map(text).collect();
                self.order("> prompt", Order::Prompt { content });
            }
            Some("session/cancel") => self.order("> interrupt", Order::Interrupt),
            // Portolan sets the mode of the catalogue without being asked.
            Some("session/set_mode") if self.waits_for("session/set_mode") => {}
            Some("session/set_mode") => {
                self.order("> mode", Order::SetMode(params["modeId"].as_str().unwrap().into()));
            }
            Some(method) => self.order(&format!("> {method}"), Order::Native(msg.clone())),
            None => return self.host_answers(msg),
        }
        let fits = |ours: &Value| match msg["method"].as_str() {
            // Portolan would do this if both are offered.
            Some("session/load") => ours["method"] == "session/load" || ours["method"] == "session/resume",
            method => ours["method"].as_str() == method,
        };
        if let Some(place) = self.unmatched.iter().position(fits) {
            let ours = self.unmatched.remove(place);
            self.ids.insert(msg["id"].to_string(), ours["id"].clone());
        }
    }

    fn waits_for(&self, method: &str) -> bool {
        self.unmatched.iter().any(|ours| ours["method"] == method)
    }

    fn host_answers(&mut self, msg: &Value) {
        let key = msg["id"].to_string();
        // Portolan asks about a task that the recording does not ask about.
        let is_task = |(_, raw): &&(Ask, Value)| raw["method"] != "session/request_permission";
        if let Some((ask, _)) = self.asks.get(&key).filter(is_task).cloned() {
            self.asks.remove(&key);
            self.order(
                "> answer",
                Order::Answer { key: key.clone(), ask: Box::new(ask), answer: Answer::allow() },
            );
        }
        if let Some(place) = self.tasks.iter().position(|task| *task == key) {
            self.tasks.remove(place);
            let done = match msg.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(serde_json::from_value(msg["error"].clone()).unwrap()),
            };
            let out = output_of(|out| self.translate.task_done(&key, done, out));
            return self.note("> done", msg, out);
        }
        let Some((ask, raw)) = self.asks.remove(&key) else { return };
        let Some(chosen) = msg["result"]["outcome"]["optionId"].as_str() else { return };
        let options = raw["params"]["options"].as_array().unwrap();
        let kind = &options.iter().find(|option| option["optionId"] == chosen).unwrap()["kind"];
        let answer = match kind.as_str().unwrap() {
            "allow_once" => Answer::allow(),
            "reject_once" => Answer::deny(None),
            _ => {
                Answer::Allow { input: None, scope: Scope::Once, mode: None, option: Some(chosen.to_owned()) }
            }
        };
        self.order("> answer", Order::Answer { key, ask: Box::new(ask), answer });
    }

    fn order(&mut self, heading: &str, order: Order) {
        self.instruction_ids += 1;
        let out = told(&mut self.translate, self.instruction_ids, order);
        self.note(&format!("{heading} {}", self.instruction_ids), &Value::Null, out);
    }
}

/// The key of what waits for policy.
fn unasked(report: &Report) -> Option<String> {
    match report {
        Report::Unasked { key, .. } => Some(key.clone()),
        _ => None,
    }
}

fn show(report: &Report) -> String {
    let json = |value: Result<String, _>| value.unwrap_or_else(|error: serde_json::Error| error.to_string());
    match report {
        Report::Event { event, .. } => json(serde_json::to_string(event)),
        Report::TurnEnded { result, .. } => format!("turn ended {}", json(serde_json::to_string(result))),
        Report::RequestOpened { key, ask, parent, tool, .. } => {
            format!("request {key} parent={parent:?} tool={tool:?} {}", json(serde_json::to_string(ask)))
        }
        Report::Unasked { key, ask, parent, tool, doer, .. } => {
            let ask = json(serde_json::to_string(ask));
            format!("unasked {key} parent={parent:?} tool={tool:?} {doer:?} {ask}")
        }
        other => format!("{other:?}"),
    }
}
