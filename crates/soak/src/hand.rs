//! A hand: a client that acts at random, reconnects after every loss, and records everything it sees and sends.
//!
//! A hand behaves like a good client: it asks for the entries after the last number it saw, and sends a command without
//! a reply again, under the same id.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    chance::Chance,
    check::{Reply, Sent},
    link::{Door, Frame, Link, prompt},
    place::{Kill, now},
    record::{DAEMON, Recording, Seen},
};

/// What a hand does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Sends random commands.
    Busy,
    /// Sends nothing new; answers open requests, so that everything ends.
    Settling,
    /// Stops.
    Done,
}

/// What a hand sends to its agents, and how often it acts.
#[derive(Clone, Copy, Debug)]
pub struct Repertoire {
    /// The agent.
    pub agent: &'static str,
    /// Prompts; `#` stands for a unique word.
    pub prompts: &'static [&'static str],
    /// The pause between two actions, in milliseconds: from, to.
    pub pause: (u64, u64),
    /// How many unfinished prompts one hand may have in one session.
    pub on_their_way: usize,
}

/// A client that records.
#[derive(Debug)]
pub struct Hand {
    /// Its name.
    pub name: String,
    /// What it saw, by log.
    pub recordings: BTreeMap<String, Recording>,
    /// What it sent, in order.
    pub sent: Vec<Sent>,
    repertoire: Repertoire,
    chance: Chance,
    /// Frames without a reply, by id.
    unanswered: BTreeMap<String, Value>,
    /// The entries of its unfinished prompts, by session.
    underway: HashMap<String, Vec<u64>>,
    /// Open requests, with their session.
    requests: Vec<(String, u64, String)>,
    number: u64,
}

impl Hand {
    /// A hand that reads these sessions, and the daemon's own log.
    pub fn new(name: &str, sessions: &[String], repertoire: Repertoire, chance: Chance) -> Self {
        let logs = sessions.iter().cloned().chain([DAEMON.to_owned()]);
        Self {
            name: name.to_owned(),
            recordings: logs.map(|log| (log.clone(), Recording::new(name, log))).collect(),
            sent: Vec::new(),
            repertoire,
            chance,
            unanswered: BTreeMap::new(),
            underway: HashMap::new(),
            requests: Vec::new(),
            number: 0,
        }
    }

    /// Works until the connection is lost, or until it must stop.
    pub async fn work(&mut self, door: Door, mut mood: watch::Receiver<Mood>) -> Result<()> {
        let mut link = Link::open(&door, &self.name).await?;
        let lost = self.connected(&mut link, &mut mood).await;
        self.recordings.values_mut().for_each(|recording| recording.seen.push(Seen::Lost));
        self.requests.clear();
        if *mood.borrow() == Mood::Done { lost } else { Ok(()) }
    }

    async fn connected(&mut self, link: &mut Link, mood: &mut watch::Receiver<Mood>) -> Result<()> {
        for (log, recording) in &mut self.recordings {
            let after = recording.last();
            let id = format!("{}-attach-{log}", self.name);
            let start = json!({ "after": after });
            let frame = if log == DAEMON {
                json!({ "type": "subscribe", "id": id, "start": start })
            } else {
                json!({ "type": "attach", "id": id, "session": log, "start": start })
            };
            link.send(&frame).await?;
            recording.seen.push(Seen::Attached { after });
        }
        for frame in self.unanswered.values() {
            link.send(frame).await?;
        }
        let mut next_act = self.pause();
        loop {
            tokio::select! {
                frame = link.next() => self.take(frame?),
                () = sleep_until(next_act) => {
                    next_act = self.pause();
                    let now = *mood.borrow();
                    if let Some(frame) = self.act(now) {
                        link.send(&frame).await?;
                    }
                }
                changed = mood.changed() => {
                    if changed.is_err() || *mood.borrow() == Mood::Done {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn pause(&mut self) -> Instant {
        let (from, to) = self.repertoire.pause;
        Instant::now() + Duration::from_millis(self.chance.between(from, to))
    }

    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Entry { log, entry } => {
                self.follow(&log, entry.kind(), entry.seq, &entry.event);
                if let Some(recording) = self.recordings.get_mut(&log) {
                    recording.entry(&entry);
                }
            }
            Frame::Snapshot { log, seq, state } => {
                for request in state["requests"].as_array().into_iter().flatten() {
                    if log != DAEMON {
                        self.request(&log, request);
                    }
                }
                if let Some(recording) = self.recordings.get_mut(&log) {
                    recording.snapshot(seq, now(), &state);
                }
            }
            Frame::Reply { id, body } => {
                let seq = body["receipt"]["seq"].as_u64();
                self.replied(&id, seq.map(Reply::Taken));
            }
            Frame::Error { id, body } => {
                self.replied(&id, Some(Reply::Refused(body["message"].as_str().unwrap_or_default().into())));
            }
            Frame::Other(_) => {}
        }
    }

    fn replied(&mut self, id: &str, reply: Option<Reply>) {
        if self.unanswered.remove(id).is_none() {
            return;
        }
        let (Some(reply), Some(sent)) = (reply, self.sent.iter_mut().rev().find(|sent| sent.id == id)) else {
            return;
        };
        if let (Reply::Taken(seq), "prompt") = (&reply, sent.action.as_str()) {
            self.underway.entry(sent.session.clone()).or_default().push(*seq);
        }
        sent.replies.push(reply);
    }

    /// Updates the open requests and unfinished prompts.
    fn follow(&mut self, log: &str, kind: &str, _seq: u64, event: &Value) {
        match kind {
            "request_opened" if log != DAEMON => self.request(log, &event["request"]),
            "request_closed" => {
                let closed = event["request"].as_u64();
                self.requests.retain(|(session, request, _)| session != log || Some(*request) != closed);
            }
            "receipt" if matches!(event["stage"].as_str(), Some("consumed" | "refused" | "uncertain")) => {
                let command = event["command"].as_u64();
                if let Some(underway) = self.underway.get_mut(log) {
                    underway.retain(|seq| Some(*seq) != command);
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, session: &str, request: &Value) {
        let (Some(number), Some(kind)) = (request["request"].as_u64(), request["ask"]["kind"].as_str())
        else {
            return;
        };
        if !self.requests.iter().any(|(known, open, _)| known == session && *open == number) {
            self.requests.push((session.to_owned(), number, kind.to_owned()));
        }
    }

    fn act(&mut self, mood: Mood) -> Option<Value> {
        let throw = self.chance.between(0, 100);
        match mood {
            Mood::Done => None,
            Mood::Settling => self.answer(),
            Mood::Busy if throw < 40 && !self.requests.is_empty() => self.answer(),
            Mood::Busy if throw < 80 => self.say(),
            // A prompt that was queued when the daemon was killed waits until somebody starts the agent again.
            Mood::Busy if throw < 90 => self.command("resume", json!({ "name": "resume" }), None),
            Mood::Busy if throw < 95 => self.command("interrupt", json!({ "name": "interrupt" }), None),
            Mood::Busy => {
                let to = format!("named by {} at {}", self.name, self.number);
                self.command("rename", json!({ "name": "rename", "to": to }), None)
            }
        }
    }

    fn say(&mut self) -> Option<Value> {
        let session = self.session()?;
        if self.underway.get(&session).map_or(0, Vec::len) >= self.repertoire.on_their_way {
            return None;
        }
        let marker = format!("mark{}x{}x", self.name, self.number);
        let text = self.chance.pick(self.repertoire.prompts)?.replace('#', &marker);
        Some(self.command_to(session, "prompt", prompt(&text), Some(marker)))
    }

    fn answer(&mut self) -> Option<Value> {
        let (session, request, kind) = self.chance.pick(&self.requests)?.clone();
        let answer = match kind.as_str() {
            "permission" | "plan" if self.chance.percent(80) => json!({ "kind": "allow" }),
            _ => json!({ "kind": "deny", "message": "no" }),
        };
        let answer = json!({ "name": "answer", "request": request, "answer": answer });
        self.requests.retain(|(known, open, _)| *known != session || *open != request);
        Some(self.command_to(session, "answer", answer, None))
    }

    fn session(&mut self) -> Option<String> {
        let sessions: Vec<String> = self.recordings.keys().filter(|log| *log != DAEMON).cloned().collect();
        self.chance.pick(&sessions).cloned()
    }

    fn command(&mut self, action: &str, command: Value, marker: Option<String>) -> Option<Value> {
        let session = self.session()?;
        Some(self.command_to(session, action, command, marker))
    }

    fn command_to(&mut self, session: String, action: &str, command: Value, marker: Option<String>) -> Value {
        let id = format!("{}-{}", self.name, self.number);
        self.number += 1;
        let frame = json!({ "type": "command", "id": id, "session": session, "command": command });
        self.unanswered.insert(id.clone(), frame.clone());
        self.sent.push(Sent { id, session, action: action.to_owned(), marker, replies: Vec::new() });
        frame
    }

    /// The daemon was killed.
    pub fn killed(&mut self, Kill { at, dead }: Kill) {
        self.recordings
            .values_mut()
            .for_each(|recording| recording.seen.push(Seen::Killed { at, dead, unwritable: 0 }));
    }
}
