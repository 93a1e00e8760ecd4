//! Commands: each is accepted at most once, run at most once, and ends as consumed, refused or uncertain.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::Complaint;
use crate::record::Entry;

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The command is in the log under this number.
    Taken(u64),
    /// The command is not in the log, for this reason.
    Refused(String),
}

/// A command that a client sent, again and again until it got a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub id: String,
    /// Its session.
    pub session: String,
    /// Its kind: `prompt`, `answer`, …
    pub action: String,
    /// A word that occurs only in this prompt.
    pub marker: Option<String>,
    /// The replies, in order.
    pub replies: Vec<Reply>,
}

/// The lines that reached the agents, recorded by a witness between the agents and the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The lines.
    pub lines: Vec<String>,
}

impl Told {
    fn times(&self, marker: &str) -> usize {
        self.lines.iter().filter(|line| line.contains(marker)).count()
    }
}

/// The progress of a command in the history of its session.
#[derive(Debug, Default)]
struct Life {
    accepted: Vec<u64>,
    stages: Vec<String>,
    prompts: usize,
}

/// Compares what clients sent with the histories of all sessions and with what reached the agents.
pub fn commands(sent: &[Sent], histories: &BTreeMap<String, Vec<Entry>>, told: &Told) -> Vec<Complaint> {
    let lives = lives(histories);
    let mut complaints = Vec::new();
    for command in sent {
        let id = || command.id.clone();
        let life = lives.get(&command.id);
        let acknowledged: Vec<u64> = command
            .replies
            .iter()
            .filter_map(|reply| match reply {
                Reply::Taken(seq) => Some(*seq),
                Reply::Refused(_) => None,
            })
            .collect();
        if acknowledged.iter().any(|seq| life.is_none_or(|life| !life.accepted.contains(seq))) {
            complaints.push(Complaint::CommandGone(id()));
        }
        let refused = !command.replies.is_empty() && acknowledged.is_empty();
        if refused && life.is_some() {
            complaints.push(Complaint::RefusedButDone(id()));
        }
        let times = command.marker.as_ref().map_or(0, |marker| told.times(marker));
        if times > 1 {
            complaints.push(Complaint::DoneTwice(id()));
        }
        let consumed = life.is_some_and(|life| life.stages.last().is_some_and(|last| last == "consumed"));
        if consumed && command.marker.is_some() && times == 0 {
            complaints.push(Complaint::NeverReached(id()));
        }
        let never = life.is_some_and(|life| life.stages.last().is_some_and(|last| last == "refused"));
        if never && times > 0 && !life.is_some_and(|life| life.stages.iter().any(|stage| stage == "sending"))
        {
            complaints.push(Complaint::RefusedButDone(id()));
        }
    }
    for (id, life) in lives {
        let ended = |stage: &String| ["consumed", "refused", "uncertain"].contains(&stage.as_str());
        if life.accepted.len() > 1 {
            complaints.push(Complaint::TakenTwice(id.clone()));
        }
        if life.prompts > 1 {
            complaints.push(Complaint::DoneTwice(id.clone()));
        }
        match life.stages.iter().position(ended) {
            None => {
                let stage = life.stages.last().cloned().unwrap_or_else(|| "accepted".into());
                complaints.push(Complaint::Unsettled { command: id, stage });
            }
            Some(end) if end + 1 < life.stages.len() => complaints.push(Complaint::EndedTwice(id)),
            Some(_) => {}
        }
    }
    complaints
}

fn lives(histories: &BTreeMap<String, Vec<Entry>>) -> BTreeMap<String, Life> {
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    for history in histories.values() {
        let mut by_number: HashMap<u64, String> = HashMap::new();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for entry in history {
            let event = &entry.event;
            match entry.kind() {
                "command_accepted" => {
                    let id = text(&event["key"]["id"]);
                    lives.entry(id.clone()).or_default().accepted.push(entry.seq);
                    by_number.insert(entry.seq, id);
                }
                "receipt" | "prompt" => {
                    let number = event["command"].as_u64().unwrap_or_default();
                    let Some(life) = by_number.get(&number).and_then(|id| lives.get_mut(id)) else {
                        continue;
                    };
                    if entry.kind() == "prompt" {
                        life.prompts += 1;
                    } else {
                        life.stages.push(text(&event["stage"]));
                    }
                }
                _ => {}
            }
        }
    }
    lives
}
