//! Recorded conversations of the real CLI, played to the translator: line to events, order to lines.
//!
//! `transcripts/<version>/*.ndjson` hold the lines of both sides, with long texts of the vendor cut;
//! `transcripts/expected/` holds the expected result. Portolan chooses the ids of its requests, so the ids of the
//! recording are replaced by them.

mod goldens;
mod mutations;
mod notices;
mod orders;
mod steering;

use std::{collections::HashMap, path::PathBuf};

use portolan_core::{
    event::Content,
    ports::{Order, Report},
    request::{Answer, Ask, Scope},
};
use serde_json::{Value, json};

use super::{
    fuzz::setup,
    late::LATE,
    modes,
    translate::{Setup, Translate},
};
use crate::{
    driver::{Output, Translator as _},
    talk::{events, output_of, said, told, written},
};

const RECORDED: &str = "0.166.0";

/// The answer to Portolan's newest request with this method.
fn answer_to(out: &Output, method: &str, result: &Value) -> Value {
    let asked = written(out).into_iter().rev().find(|line| line["method"] == method);
    let asked = asked.unwrap_or_else(|| panic!("{method} was not asked: {out:?}"));
    json!({ "id": asked["id"], "result": result })
}

/// A translator whose thread has begun.
fn ready(setup: Setup) -> Translate {
    let mut translate = Translate::new(setup);
    let out = output_of(|out| translate.start(out));
    let out =
        said(&mut translate, &answer_to(&out, "initialize", &json!({ "userAgent": "portolan/0.166.0 (x)" })));
    let thread = json!({ "thread": { "id": "T" }, "model": "gpt-5.5", "approvalPolicy": "on-request",
        "sandbox": { "type": "readOnly" }, "cwd": "/harbour" });
    let out = said(&mut translate, &answer_to(&out, "thread/start", &thread));
    assert!(out.reports.contains(&Report::Ready), "{out:?}");
    translate
}

// ----------------------------------------------------------------------------------------- player

#[derive(serde::Deserialize)]
struct Line {
    dir: String,
    msg: Value,
}

fn recording(name: &str) -> Vec<Line> {
    recording_of(RECORDED, name)
}

fn recording_of(version: &str, name: &str) -> Vec<Line> {
    let path = folder().join(version).join(format!("{name}.ndjson"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/codex/transcripts")
}

/// Plays a recording, and writes down the result.
struct Player {
    translate: Translate,
    instruction_ids: u64,
    /// Portolan's ids for those of the recording.
    ids: HashMap<String, Value>,
    /// Portolan's requests that the recording does not have yet.
    unmatched: Vec<Value>,
    asks: HashMap<String, Ask>,
    score: String,
    reports: Vec<Report>,
    writes: Vec<Value>,
}

impl Player {
    fn new() -> Self {
        Self {
            translate: Translate::new(setup()),
            instruction_ids: 100,
            ids: HashMap::new(),
            unmatched: vec![],
            asks: HashMap::new(),
            score: String::new(),
            reports: vec![],
            writes: vec![],
        }
    }

    fn play(name: &str) -> Self {
        Self::play_lines(&recording(name))
    }

    /// The session asks for the mode that the recorded thread began in.
    fn play_lines(lines: &[Line]) -> Self {
        let mut player = Self::new();
        let begun = lines.iter().map(|line| &line.msg["result"]).find(|result| result["sandbox"].is_object());
        player.translate.setup.mode =
            begun.and_then(|begun| modes::named(&begun["approvalPolicy"], &begun["sandbox"], &Value::Null));
        for line in lines {
            player.line(line);
        }
        let out = output_of(|out| player.translate.timeout(LATE, out));
        if !out.reports.is_empty() {
            player.note("(a moment later)", out);
        }
        player
    }

    fn line(&mut self, Line { dir, msg }: &Line) {
        if dir == "out" { self.host(msg) } else { self.agent(msg) }
    }

    fn note(&mut self, heading: &str, out: Output) {
        use std::fmt::Write as _;
        writeln!(self.score, "{heading}").unwrap();
        for report in &out.reports {
            if let Report::RequestOpened { key, ask, .. } = report {
                self.asks.insert(key.clone(), (**ask).clone());
            }
            writeln!(self.score, "    {}", show(report)).unwrap();
        }
        let lines = written(&out);
        for line in &lines {
            writeln!(self.score, "    -> {line}").unwrap();
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
        self.note(&format!("< {}", msg["method"].as_str().unwrap_or("answer")), out);
    }

    fn host(&mut self, msg: &Value) {
        let params = &msg["params"];
        match msg["method"].as_str() {
            Some("initialize") => {
                let out = output_of(|out| self.translate.start(out));
                self.note("> start", out);
            }
            Some("initialized" | "thread/start") => {}
            Some("turn/start") => {
                let content = params["input"].as_array().unwrap().iter().map(content).collect();
                self.order("> prompt", Order::Prompt { content });
            }
            Some("turn/interrupt") => self.order("> interrupt", Order::Interrupt),
            Some("review/start") => {
                self.order("> review", Order::Prompt { content: vec![Content::text("/review")] });
            }
            Some(method) => self.order(&format!("> {method}"), Order::Native(msg.clone())),
            None => {
                let key = msg["id"].to_string();
                let Some(ask) = self.asks.get(&key).cloned() else { return };
                let answer = answer(&ask, &msg["result"]);
                self.order("> answer", Order::Answer { key, ask: Box::new(ask), answer });
            }
        }
        let Some(method) = msg.get("method") else { return };
        if let Some(place) = self.unmatched.iter().position(|ours| ours["method"] == *method) {
            let ours = self.unmatched.remove(place);
            self.ids.insert(msg["id"].to_string(), ours["id"].clone());
        }
    }

    fn order(&mut self, heading: &str, order: Order) {
        self.instruction_ids += 1;
        let out = told(&mut self.translate, self.instruction_ids, order);
        self.note(&format!("{heading} {}", self.instruction_ids), out);
    }
}

fn content(piece: &Value) -> Content {
    let url = piece["url"].as_str().unwrap_or_default();
    match (piece["text"].as_str(), url.strip_prefix("data:image/png;base64,")) {
        (Some(text), _) => Content::text(text),
        (None, Some(data)) => Content::Image { media_type: "image/png".into(), data: data.into() },
        _ => Content::Other { body: piece.clone() },
    }
}

fn answer(ask: &Ask, result: &Value) -> Answer {
    // Codex' own approval that lasts: Portolan makes a rule in its place.
    let lasting = || Answer::Allow { input: None, scope: Scope::Session, mode: None, option: None };
    if let Ask::Question { questions } = ask {
        let chosen = result["answers"].as_object().unwrap().values().next().unwrap()["answers"].clone();
        let chosen = serde_json::from_value(chosen).unwrap();
        return Answer::Choices { answers: [(questions[0].question.clone(), chosen)].into() };
    }
    match (result["decision"].as_str(), result["action"].as_str()) {
        (Some("accept"), _) => Answer::allow(),
        (Some("acceptForSession"), _) => lasting(),
        (Some("cancel"), _) | (_, Some("cancel")) => {
            Answer::Deny { message: None, interrupt: true, option: None }
        }
        (None, None) if result["decision"].is_object() => lasting(),
        (None, None) if result["permissions"].is_object() => Answer::allow(),
        (_, Some("accept")) if matches!(ask, Ask::Elicitation { .. }) => {
            Answer::Content { content: result["content"].clone() }
        }
        (_, Some("accept")) => Answer::allow(),
        _ => Answer::deny(None),
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
        other => format!("{other:?}"),
    }
}
