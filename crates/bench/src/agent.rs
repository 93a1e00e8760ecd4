//! The fake agent: speaks Claude Code's protocol over stdin and stdout, and plays what a prompt asks for.
//!
//! A prompt holds a [`Play`] as JSON. Portolan and the floor start the fake agent like the real CLI; it writes the same
//! bytes to both.

use std::{
    io::{self, BufRead as _, Write as _},
    process::ExitCode,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::marker::{self, LENGTH, Marker};

/// How many input lines may wait while a turn plays.
const WAITING: usize = 1024;

/// How many lines are written at once without a rate: a pipe accepts more in one write.
const AT_ONCE: u32 = 32;

/// Deltas of one message: 50 KB, as long as answers get. The finished message then holds all of their text again.
const MESSAGE: u32 = 250;

/// An answer that takes longer counts as lost.
const ANSWER: Duration = Duration::from_secs(10);

/// The content of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Play {
    /// The number of the run.
    pub(crate) run: u32,
    /// What.
    pub(crate) what: What,
    /// How many.
    pub(crate) count: u32,
    /// How many per second; 0 means as fast as possible.
    pub(crate) rate: u32,
    /// How many characters each.
    pub(crate) size: usize,
}

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// Deltas, and after every 250 deltas the finished message.
    Deltas,
    /// Finished messages.
    Messages,
    /// Permissions, one after the other; the last message reports how long each answer took, in nanoseconds.
    Permissions,
}

/// Runs the agent until its input ends.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--version") {
        // A version that uses stdio.
        return ended(writeln!(io::stdout(), "2.1.325 (Claude Code)"));
    }
    let (lines, incoming) = sync_channel(WAITING);
    thread::spawn(move || listen(&lines));
    ended(Agent { incoming, out: Vec::new() }.run())
}

fn ended(result: io::Result<()>) -> ExitCode {
    // The reader is gone, so an error cannot be reported.
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn listen(lines: &SyncSender<Value>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if let Ok(message) = serde_json::from_str(&line)
            && lines.send(message).is_err()
        {
            return;
        }
    }
}

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

struct Agent {
    incoming: Receiver<Value>,
    out: Vec<u8>,
}

impl Agent {
    fn run(mut self) -> io::Result<()> {
        self.say(&json!({
            "type": "system", "subtype": "init", "cwd": "/", "session_id": SESSION, "tools": ["Bash"],
            "mcp_servers": [], "model": "fake", "permissionMode": "default", "slash_commands": [],
            "apiKeySource": "none", "claude_code_version": "2.1.325", "output_style": "default",
            "agents": [], "skills": [], "plugins": [], "uuid": uuid(0, 0),
        }))?;
        while let Ok(message) = self.incoming.recv() {
            match message["type"].as_str() {
                Some("control_request") => self.acknowledge(&message)?,
                Some("user") => {
                    let text = message["message"]["content"].as_str().unwrap_or_default();
                    if let Ok(play) = serde_json::from_str(text) {
                        self.play(play, message["uuid"].as_str())?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&self.out)?;
        self.out.clear();
        stdout.flush()
    }

    fn say(&mut self, message: &Value) -> io::Result<()> {
        self.put(&message.to_string());
        self.flush()
    }

    fn acknowledge(&mut self, request: &Value) -> io::Result<()> {
        self.say(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": request["request_id"],
            "response": {"commands": [], "models": [], "agents": [], "output_style": "default"},
        }}))
    }

    fn play(&mut self, play: Play, prompt: Option<&str>) -> io::Result<()> {
        self.lifecycle(prompt, "started")?;
        let told = match play.what {
            What::Permissions => self.ask(play)?,
            What::Deltas | What::Messages => self.emit(play).map(|()| String::new())?,
        };
        let last = format!("{} {told}", marker::end(play.run));
        self.put(&message(play.run, u32::MAX, &format!("msg_{}", play.run), &last));
        self.say(&json!({
            "type": "result", "subtype": "success", "is_error": false, "duration_ms": 1, "duration_api_ms": 1,
            "num_turns": 1, "result": "", "session_id": SESSION, "total_cost_usd": 0, "stop_reason": "end_turn",
            "usage": usage(), "modelUsage": {}, "permission_denials": [], "uuid": uuid(play.run, u32::MAX - 1),
        }))?;
        self.lifecycle(prompt, "completed")
    }

    fn stream(&mut self, event: &Value) {
        let message = json!({
            "type": "stream_event", "event": event, "parent_tool_use_id": null, "session_id": SESSION,
            "uuid": uuid(0, 1),
        });
        self.put(&message.to_string());
    }

    fn begin_message(&mut self, id: &str) {
        self.stream(&json!({"type": "message_start", "message": {
            "id": id, "type": "message", "role": "assistant", "model": "fake", "content": [],
            "stop_reason": null, "usage": usage(),
        }}));
        self.stream(
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        );
    }

    fn end_message(&mut self, run: u32, number: u32, id: &str, text: &str) {
        self.put(&message(run, number, id, text));
        self.stream(&json!({"type": "content_block_stop", "index": 0}));
        self.stream(&json!({"type": "message_stop"}));
    }

    fn lifecycle(&mut self, prompt: Option<&str>, state: &str) -> io::Result<()> {
        let Some(prompt) = prompt else { return Ok(()) };
        self.say(&json!({
            "type": "command_lifecycle", "command_uuid": prompt, "state": state, "session_id": SESSION,
            "uuid": uuid(0, 2),
        }))
    }

    fn emit(&mut self, play: Play) -> io::Result<()> {
        let padding = "x".repeat(play.size.saturating_sub(LENGTH));
        let (began, mut whole) = (marker::now(), String::new());
        for number in 0..play.count {
            if play.rate > 0 {
                let due = began + u64::from(number) * 1_000_000_000 / u64::from(play.rate);
                thread::sleep(Duration::from_nanos(due.saturating_sub(marker::now())));
            }
            let text = Marker { run: play.run, number, sent: marker::now() }.text() + &padding;
            match play.what {
                What::Deltas => {
                    let id = format!("msg_{}_{}", play.run, number / MESSAGE);
                    if number % MESSAGE == 0 {
                        self.begin_message(&id);
                    }
                    let uuid = uuid(play.run, number);
                    // Written by hand: the agent must be faster than its reader.
                    self.put(&format!(
                        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"{SESSION}","parent_tool_use_id":null,"uuid":"{uuid}"}}"#
                    ));
                    whole.push_str(&text);
                    if number % MESSAGE == MESSAGE - 1 || number + 1 == play.count {
                        self.end_message(play.run, number, &id, &whole);
                        whole.clear();
                    }
                }
                What::Messages | What::Permissions => {
                    let id = format!("msg_{}_{number}", play.run);
                    self.put(&message(play.run, number, &id, &text));
                }
            }
            if play.rate > 0 || number % AT_ONCE == AT_ONCE - 1 {
                self.flush()?;
            }
        }
        self.flush()
    }

    /// Asks for permissions, one after the other, and reports how long each answer took.
    fn ask(&mut self, play: Play) -> io::Result<String> {
        let mut took = Vec::new();
        for number in 0..play.count {
            let id = uuid(play.run, number);
            let began = marker::now();
            self.say(&json!({"type": "control_request", "request_id": id, "request": {
                "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "true"},
                "tool_use_id": format!("toolu_{number}"),
            }}))?;
            while let Ok(message) = self.incoming.recv_timeout(ANSWER) {
                if message["type"] == "control_response" && message["response"]["request_id"] == id.as_str() {
                    took.push((marker::now() - began).to_string());
                    break;
                }
                if message["type"] == "control_request" {
                    self.acknowledge(&message)?;
                }
            }
            if play.rate > 0 {
                thread::sleep(Duration::from_secs(1) / play.rate);
            }
        }
        Ok(took.join(" "))
    }
}

fn message(run: u32, number: u32, id: &str, text: &str) -> String {
    let uuid = uuid(run, number);
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","type":"message","role":"assistant","model":"fake","content":[{{"type":"text","text":"{text}"}}],"stop_reason":null,"usage":{{"input_tokens":1,"output_tokens":1}}}},"parent_tool_use_id":null,"session_id":"{SESSION}","uuid":"{uuid}"}}"#
    )
}

fn usage() -> Value {
    json!({"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0})
}

fn uuid(run: u32, number: u32) -> String {
    format!("{run:08x}-0000-4000-8000-0000{number:08x}")
}
