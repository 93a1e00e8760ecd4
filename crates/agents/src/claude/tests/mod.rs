//! Recorded conversations of the real CLI, played to the translator: line to events, command to lines.
//!
//! `transcripts/<version>-<transport>/*.ndjson` hold the lines of both sides, with long texts of the vendor cut;
//! `transcripts/expected/` holds the expected result. Portolan chooses the ids of prompts and control requests, so the
//! ids of the recording are replaced by them.

mod commands;
mod goldens;
mod launching;
mod modes;
mod money;
mod mutations;
mod properties;
mod telling;

use std::{collections::HashMap, path::PathBuf, time::Duration};

use indexmap::IndexMap;
use portolan_core::{
    Generation, SessionId,
    event::Content,
    ports::{InstructionId, Order, Report},
    request::{Answer, Ask, Scope},
};
use serde_json::{Value, json};

use super::{
    translate::{Repeats, Setup, Translate},
    version::{self, Version},
};
use crate::{
    driver::{Output, Translator as _},
    prices::Prices,
    talk::{events, output_of, said, told, written},
};

/// The session of every test.
const SESSION: SessionId = SessionId::from_u128(0x0001_0203_0405_7607_8809_0a0b_0c0d_0e0f);

fn setup(version: Version, repeats: Repeats) -> Setup {
    Setup {
        session: SESSION,
        generation: Generation(1),
        folder: "/workspace/demo".into(),
        version: Some(version),
        initialize: json!({ "subtype": "initialize", "forwardSubagentText": true }),
        served: vec!["demo".into()],
        mode: "default".into(),
        modes: version::modes(Some(version)),
        patience: Duration::from_secs(30),
        repeats,
        ..Setup::bare()
    }
}

fn latest() -> Translate {
    Translate::new(setup(Version(2, 1, 325), Repeats::Never))
}

/// A translator that has begun and was answered.
fn ready() -> Translate {
    begun(latest())
}

fn begun(mut translate: Translate) -> Translate {
    let out = output_of(|out| translate.start(out));
    let out = said(&mut translate, &answered_with(&written(&out)[0], &json!({})));
    let out = said(&mut translate, &taken(&written(&out)[0]));
    assert!(out.reports.contains(&Report::Ready), "{out:?}");
    translate
}

/// The CLI's answer to a control request of Portolan.
fn answered_with(asked: &Value, response: &Value) -> Value {
    json!({ "type": "control_response",
        "response": { "subtype": "success", "request_id": asked["request_id"], "response": response } })
}

/// The CLI's answer to the first mode.
fn taken(asked: &Value) -> Value {
    assert_eq!(asked["request"]["subtype"], "set_permission_mode", "{asked}");
    answered_with(asked, &json!({ "mode": asked["request"]["mode"] }))
}

// ----------------------------------------------------------------------------------------- player

/// A recorded message.
#[derive(serde::Deserialize)]
struct Recorded {
    dir: String,
    msg: Value,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/claude/transcripts")
}

fn recording(recorded: &str, name: &str) -> Vec<Recorded> {
    let path = folder().join(recorded).join(format!("{name}.ndjson"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Plays a recording, and writes down the result.
struct Player {
    translate: Translate,
    instruction_ids: u64,
    /// Portolan's ids for those of the recording.
    ids: HashMap<String, String>,
    asks: HashMap<String, Ask>,
    begun: bool,
    score: String,
    reports: Vec<Report>,
    writes: Vec<Value>,
}

impl Player {
    fn new(recorded: &str) -> Self {
        let (version, transport) = recorded.split_once('-').unwrap();
        let repeats = if transport == "ws" { Repeats::AfterReconnect } else { Repeats::Never };
        Self {
            translate: Translate::new(setup(version.parse().unwrap(), repeats)),
            instruction_ids: 100,
            ids: HashMap::new(),
            asks: HashMap::new(),
            begun: false,
            score: String::new(),
            reports: vec![],
            writes: vec![],
        }
    }

    fn play(recorded: &str, name: &str) -> Self {
        let mut player = Self::new(recorded);
        // The session asks for the mode that the recorded session began in.
        let modes = recording(recorded, name);
        let told = modes.iter().find(|line| line.msg["subtype"] == "init");
        if let Some(mode) = told.and_then(|line| line.msg["permissionMode"].as_str()) {
            mode.clone_into(&mut player.translate.setup.mode);
        }
        for Recorded { dir, msg } in recording(recorded, name) {
            if dir == "out" { player.host(&msg) } else { player.agent(&msg) }
        }
        player
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
        for (timer, after) in &out.timers {
            let after = after.map_or("off".into(), |after| format!("{} s", after.as_secs()));
            writeln!(self.score, "    timer {} {after}", timer.0).unwrap();
        }
        self.reports.extend(out.reports);
        self.writes.extend(lines);
    }

    fn agent(&mut self, msg: &Value) {
        let mut line = msg.to_string();
        for (theirs, ours) in &self.ids {
            line = line.replace(theirs, ours);
        }
        let text = |key: &str| msg[key].as_str().unwrap_or_default().to_owned();
        let detail = match text("type").as_str() {
            "system" => text("subtype"),
            "stream_event" => msg["event"]["type"].as_str().unwrap_or_default().to_owned(),
            "control_request" => msg["request"]["subtype"].as_str().unwrap_or_default().to_owned(),
            "command_lifecycle" => text("state"),
            _ => String::new(),
        };
        let out = output_of(|out| self.translate.line(&line, out));
        let first_mode =
            written(&out).into_iter().find(|line| line["request"]["subtype"] == "set_permission_mode");
        self.note(format!("< {} {detail}", text("type")).trim_end(), out);
        if let Some(asked) = first_mode {
            // The recording does not have this request.
            let out = said(&mut self.translate, &taken(&asked));
            self.note("< control_response, made up", out);
        }
    }

    fn host(&mut self, msg: &Value) {
        let request = &msg["request"];
        match (msg["type"].as_str().unwrap(), request["subtype"].as_str()) {
            ("control_request", Some("initialize")) => {
                let out = if self.begun {
                    output_of(|out| self.translate.link_restored(out))
                } else {
                    output_of(|out| self.translate.start(out))
                };
                self.begun = true;
                self.exchange(&msg["request_id"], &out);
                self.note("> initialize", out);
            }
            ("control_request", Some(subtype)) => {
                let order = order(subtype, request, msg);
                self.order(&format!("> {subtype}"), order, &msg["request_id"]);
            }
            ("user", _) => {
                let content = match &msg["message"]["content"] {
                    Value::String(text) => vec![Content::text(text)],
                    Value::Array(blocks) => blocks.iter().map(content).collect(),
                    other => panic!("{other}"),
                };
                self.order("> prompt", Order::Prompt { content }, &msg["uuid"]);
            }
            ("control_response", _) => {
                let key = msg["response"]["request_id"].as_str().unwrap().to_owned();
                let Some(ask) = self.asks.get(&key).cloned() else { return };
                let answer = answer(&ask, &msg["response"]["response"]);
                let order = Order::Answer { key, ask: Box::new(ask), answer };
                self.order("> answer", order, &Value::Null);
            }
            other => panic!("{other:?}"),
        }
    }

    fn order(&mut self, heading: &str, order: Order, theirs: &Value) {
        self.instruction_ids += 1;
        let out = told(&mut self.translate, self.instruction_ids, order);
        self.exchange(theirs, &out);
        self.note(&format!("{heading} {}", self.instruction_ids), out);
    }

    /// Remembers which id of Portolan stands for an id of the recording.
    fn exchange(&mut self, theirs: &Value, out: &Output) {
        let Some(theirs) = theirs.as_str() else { return };
        for line in written(out) {
            let ours = line["request_id"].as_str().or(line["uuid"].as_str()).unwrap_or_default();
            self.ids.insert(theirs.to_owned(), ours.to_owned());
        }
    }
}

fn order(subtype: &str, request: &Value, msg: &Value) -> Order {
    let text = |key: &str| request[key].as_str().map(str::to_owned);
    match subtype {
        "interrupt" if request.get("cancel_queued").is_none() => Order::Interrupt,
        "set_model" => Order::SetModel(text("model")),
        "set_permission_mode" => Order::SetMode(text("mode").unwrap()),
        "set_max_thinking_tokens" => {
            Order::SetThinking(request["max_thinking_tokens"].as_u64().map(|tokens| tokens as u32))
        }
        "mcp_status" => Order::McpStatus,
        "mcp_reconnect" => Order::McpReconnect(text("serverName").unwrap()),
        "mcp_toggle" => Order::McpToggle {
            server: text("serverName").unwrap(),
            enabled: request["enabled"].as_bool().unwrap(),
        },
        "mcp_set_servers" => Order::McpSet(serde_json::from_value(request["servers"].clone()).unwrap()),
        "mcp_message" => {
            Order::McpMessage { server: text("server_name").unwrap(), message: request["message"].clone() }
        }
        "get_context_usage" => Order::Context,
        "stop_task" => Order::StopTask(text("task_id").unwrap()),
        "rewind_files" => Order::Rewind {
            // The first prompt of these recordings.
            prompt: InstructionId(101),
            dry_run: request["dry_run"].as_bool().unwrap_or_default(),
        },
        _ => Order::Native(msg.clone()),
    }
}

fn content(block: &Value) -> Content {
    match block["type"].as_str() {
        Some("text") => Content::text(block["text"].as_str().unwrap()),
        Some("image") => Content::Image {
            media_type: block["source"]["media_type"].as_str().unwrap().into(),
            data: block["source"]["data"].as_str().unwrap().into(),
        },
        other => panic!("{other:?}"),
    }
}

fn answer(ask: &Ask, response: &Value) -> Answer {
    let text = |key: &str| response[key].as_str().map(str::to_owned);
    match (ask, response["behavior"].as_str()) {
        (_, Some("deny")) => {
            Answer::Deny { message: text("message"), interrupt: response["interrupt"] == true, option: None }
        }
        (Ask::Question { questions }, Some("allow")) => {
            let given = &response["updatedInput"]["answers"];
            let chosen = |question: &str| {
                let chosen = given[question].as_str()?;
                Some((question.to_owned(), chosen.split(", ").map(Into::into).collect()))
            };
            Answer::Choices { answers: questions.iter().filter_map(|one| chosen(&one.question)).collect() }
        }
        (Ask::Permission { input, .. } | Ask::Plan { input, .. }, Some("allow")) => {
            let edited = response["updatedInput"].clone();
            let mode = response["updatedPermissions"][0]["mode"].as_str().map(str::to_owned);
            let input = (edited != *input).then_some(edited);
            Answer::Allow { input, scope: Scope::Once, mode, option: None }
        }
        (Ask::Other { .. }, _) => Answer::Output { output: response["mcp_response"].clone() },
        _ => Answer::Output { output: response.clone() },
    }
}

fn show(report: &Report) -> String {
    let json = |value: &dyn erased::Show| value.json();
    match report {
        Report::Event { event, .. } => json(event),
        Report::TurnEnded { result, .. } => format!("turn ended {}", json(&**result)),
        Report::RequestOpened { key, ask, parent, tool, .. } => {
            format!("request {key} parent={parent:?} tool={tool:?} {}", json(&**ask))
        }
        other => format!("{other:?}"),
    }
}

/// Anything as JSON, behind one pointer.
mod erased {
    pub(super) trait Show {
        fn json(&self) -> String;
    }
    impl<T: serde::Serialize> Show for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}
