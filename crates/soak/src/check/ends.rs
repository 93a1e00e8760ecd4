//! Ends: each start of an agent has one end, which gives a reason and leaves nothing open.
//!
//! This is *not* a fault, although it looks like one: an agent that failed, waits to be started again, and is stopped
//! meanwhile, has a second end with the reason `stopped`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Complaint;
use crate::record::Entry;

/// What is open in a session, by the entries so far.
#[derive(Debug, Default)]
struct Open {
    requests: BTreeSet<u64>,
    turn: Option<u64>,
    tools: BTreeSet<String>,
    /// The stages of unsettled commands, and whether a command is a prompt.
    commands: BTreeMap<u64, (String, bool)>,
}

/// Checks every end of an agent in the history of a session whose agent does not run.
pub fn ends(history: &[Entry]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut open = Open::default();
    // The number of the last start, if its end has not come; and the starts that have ended, with the reasons.
    let (mut running, mut ended) = (None, BTreeMap::new());
    for entry in history {
        let event = &entry.event;
        match entry.kind() {
            "agent_starting" => {
                let start = number(&event["generation"]);
                complaints.extend(running.replace(start).map(Complaint::NeverExited));
            }
            "agent_exited" => {
                let start = number(&event["generation"]);
                running = None;
                let (reason, message) = (text(&event["exit"]["reason"]), text(&event["exit"]["message"]));
                if ended.insert(start, reason).is_some_and(|before| before != "failed" || reason != "stopped")
                {
                    complaints.push(Complaint::ExitedTwice(start));
                }
                if reason.is_empty() || message.is_empty() {
                    complaints.push(Complaint::Unexplained(entry.seq));
                }
                let left = open.left().into_iter();
                complaints.extend(left.map(|what| Complaint::LeftByEnd { end: entry.seq, what }));
            }
            kind => open.follow(entry.seq, kind, event),
        }
    }
    complaints.extend(running.map(Complaint::NeverExited));
    complaints
}

impl Open {
    fn follow(&mut self, seq: u64, kind: &str, event: &Value) {
        match kind {
            "request_opened" => {
                self.requests.insert(number(&event["request"]["request"]));
            }
            "request_closed" => {
                self.requests.remove(&number(&event["request"]));
            }
            "turn_started" => self.turn = Some(number(&event["turn"])),
            "turn_ended" => self.turn = None,
            "tool_call" => {
                self.tools.insert(text(&event["tool"]).to_owned());
            }
            "tool_result" => {
                self.tools.remove(text(&event["tool"]));
            }
            "command_accepted" => {
                let is_prompt = event["action"]["name"] == "prompt";
                self.commands.insert(seq, ("accepted".to_owned(), is_prompt));
            }
            "receipt" => {
                let (command, stage) = (number(&event["command"]), text(&event["stage"]));
                if ["consumed", "refused", "uncertain"].contains(&stage) {
                    self.commands.remove(&command);
                } else if let Some((known, _)) = self.commands.get_mut(&command) {
                    stage.clone_into(known);
                }
            }
            _ => {}
        }
    }

    /// What the end of the agent should have closed, in words. Only a prompt that was not being sent may wait for the
    /// next start.
    fn left(&self) -> Vec<String> {
        let requests = self.requests.iter().map(|request| format!("request {request}"));
        let turn = self.turn.iter().map(|turn| format!("turn {turn}"));
        let tools = self.tools.iter().map(|tool| format!("tool call `{tool}`"));
        let waits = |stage: &str, is_prompt: bool| is_prompt && stage == "accepted";
        let commands = self.commands.iter().filter(|(_, (stage, is_prompt))| !waits(stage, *is_prompt));
        let commands = commands.map(|(command, (stage, _))| format!("command {command} at `{stage}`"));
        requests.chain(turn).chain(tools).chain(commands).collect()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
