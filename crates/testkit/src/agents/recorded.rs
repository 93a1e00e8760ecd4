//! Recorded conversations: a real agent's messages, as its translator reports them, and people's messages to it.
//!
//! The goldens of the agents' translators are the source: each line under a heading is the translator's report for a
//! recorded line of the agent. A puppet plays a [`Recording`] to a real session ([`Recording::play_back`]), or it is
//! played to core's machine alone ([`crate::replay`]).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use portolan_core::{
    Action, Capabilities, CommandId, Event, Principal, Role, Seq, SessionId, SessionSpec,
    capabilities::{NativeProtocol, PromptQueue},
    event::{Content, Exit, Level, TurnOrigin},
    log::delivery::{Delivery, Mode, Start},
    ports::{Instruction, InstructionId, Order, Report},
    registry::SessionReader,
    request::{Answer, Ask, Question},
    session::state::State,
    spec::SpecOption,
};
use serde_json::{Value, json};

use super::{Puppet, Strings};
use crate::sessions::{PATIENCE, principal, registry};

/// The beginning of the notices that the player puts between the lines; they are in no recording.
pub const MARK: &str = "the player waits for ";

/// A recorded conversation.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a recording. Numbers are the names of instructions in it.
#[derive(Clone, Debug)]
pub enum Step {
    /// The agent reports this.
    Report(Box<Report>),
    /// The agent accepted this instruction, or said why not.
    Settled(u64, Result<(), String>),
    /// Somebody sends a prompt, with the text that was written to the agent; null if nothing was written.
    Prompt(u64, Value),
    /// Somebody answers a request, with the text that was written to the agent; null if nothing was written.
    Answer(u64, Value),
    /// Somebody interrupts.
    Interrupt(u64),
}

/// The recordings of Claude Code by name, sorted.
pub fn of_claude() -> Vec<(String, Recording)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../agents/src/claude/transcripts/expected");
    let mut all: Vec<(String, Recording)> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_suffix(".snap")?.to_owned();
            Some((name, Recording::read(&std::fs::read_to_string(&path).unwrap())))
        })
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(all.len() > 60, "recordings are missing: {}", all.len());
    all
}

impl Recording {
    /// Reads the translator's golden.
    pub fn read(text: &str) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for line in text.lines().skip_while(|line| !line.starts_with("> ")) {
            if let Some(heading) = line.strip_prefix("> ") {
                let (name, number) = heading.split_once(' ').unwrap_or((heading, "0"));
                let number = number.parse().unwrap_or(0);
                steps.extend(match name {
                    "prompt" => Some(Step::Prompt(number, Value::Null)),
                    "answer" => Some(Step::Answer(number, Value::Null)),
                    "interrupt" => Some(Step::Interrupt(number)),
                    // No client of a test asks for these; their results are played anyway.
                    _ => None,
                });
            } else if let Some(line) = line.strip_prefix("    -> ") {
                if let Some(Step::Prompt(_, written) | Step::Answer(_, written)) = steps.last_mut()
                    && written.is_null()
                {
                    *written = serde_json::from_str(line).unwrap();
                }
            } else if let Some(report) = line.strip_prefix("    ") {
                steps.extend(reported(report));
            }
        }
        Self { steps }
    }

    /// The steps that a session can take: core refuses an answer that comes too late, and keeps a prompt to an agent
    /// that never becomes ready.
    fn for_a_session(&self) -> Vec<Step> {
        let late = |step: &Step| match step {
            Step::Settled(number, Err(why)) if why.contains("no longer waits for this") => Some(*number),
            _ => None,
        };
        let late: Vec<u64> = self.steps.iter().filter_map(late).collect();
        let is_ready = |step: &Step| matches!(step, Step::Report(report) if **report == Report::Ready);
        let becomes_ready = self.steps.iter().any(is_ready);
        let is_played = |step: &&Step| match step {
            Step::Answer(number, _) => !late.contains(number),
            Step::Prompt(..) => becomes_ready,
            Step::Report(_) | Step::Settled(..) | Step::Interrupt(_) => true,
        };
        self.steps.iter().filter(is_played).cloned().collect()
    }

    /// Plays the recording to its own session; `taken` gets every delivery to a reader of the session.
    pub async fn play_back(&self, mode: Mode, taken: Taken<'_>) -> SessionId {
        let steps = self.for_a_session();
        let registry = registry(vec![Arc::new(recorded(steps.clone()))]).await;
        let who = Principal { via: "insights".into(), ..principal("ada", Role::Owner) };
        let spec = SessionSpec { agent: "recorded".into(), cwd: "/".into(), ..SessionSpec::default() };
        let session = registry.create(&who, CommandId::random(), spec).await.unwrap().session;
        let mut reader = registry.attach(&who, session, Start::After(Seq::ZERO), mode).await.unwrap();
        for step in steps {
            let action = match &step {
                Step::Report(_) | Step::Settled(..) => continue,
                Step::Prompt(..) | Step::Interrupt(_) | Step::Answer(..) => {
                    until_it_waits(&mut reader, taken).await;
                    let state = registry.snapshot(&who, session).await.unwrap().state;
                    action(&step, &state)
                }
            };
            registry.submit(&who, session, CommandId::random(), action).await.unwrap();
        }
        until_it_waits(&mut reader, taken).await;
        registry.submit(&who, session, CommandId::random(), Action::Stop).await.unwrap();
        until_it_waits(&mut reader, taken).await;
        session
    }
}

/// Gets every delivery of a session.
pub type Taken<'t> = &'t mut (dyn FnMut(SessionId, &Delivery<Event, State>) + Send);

/// A person's action at this step; it answers the oldest request.
fn action(step: &Step, state: &State) -> Action {
    match step {
        Step::Prompt(_, written) => Action::Prompt { content: vec![Content::text(words(written))] },
        Step::Answer(_, written) => {
            let open = state.requests.first().unwrap();
            let answer = answer(&open.ask, &written["response"]["response"]);
            Action::Answer { request: open.request, digest: None, answer, persist: None }
        }
        Step::Interrupt(_) => Action::Interrupt,
        Step::Report(_) | Step::Settled(..) => unreachable!("the agent did this"),
    }
}

/// The text of a prompt, from what was written to the agent.
pub fn words(written: &Value) -> String {
    match &written["message"]["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The answer that became this response of the recording.
pub fn answer(ask: &Ask, response: &Value) -> Answer {
    match (ask, response["behavior"].as_str()) {
        (_, Some("deny")) => Answer::deny(response["message"].as_str().map(Into::into)),
        (Ask::Question { questions }, _) => {
            let given = &response["updatedInput"]["answers"];
            let one = |question: &Question| {
                let chosen = given[&question.question].as_str()?;
                Some((question.question.clone(), chosen.split(", ").map(Into::into).collect()))
            };
            Answer::Choices { answers: questions.iter().filter_map(one).collect() }
        }
        (Ask::Permission { .. } | Ask::Plan { .. }, _) => Answer::allow(),
        (Ask::Elicitation { .. }, _) => Answer::Content { content: json!({}) },
        (Ask::Hook { .. } | Ask::Other { .. }, _) => Answer::Output { output: response.clone() },
    }
}

/// The report of a line of the golden.
fn reported(line: &str) -> Option<Step> {
    let report = |report| Some(Step::Report(Box::new(report)));
    let number = |line: &str| line.split("InstructionId(").nth(1)?.split(')').next()?.parse::<u64>().ok();
    let quoted = |line: &str, key: &str| -> Option<String> {
        let rest = line.split(&format!("{key}=Some(\"")).nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    };
    if line.starts_with('{') {
        let event: Event = serde_json::from_str(line).unwrap();
        return report(Report::Event { event, raw: None });
    }
    if let Some(result) = line.strip_prefix("turn ended ") {
        let result = Box::new(serde_json::from_str(result).unwrap());
        return report(Report::TurnEnded { result, raw: None });
    }
    if let Some(request) = line.strip_prefix("request ") {
        let (head, ask) = request.split_once(" {").unwrap();
        let ask: Ask = serde_json::from_str(&format!("{{{ask}")).unwrap();
        let key = head.split(' ').next().unwrap().to_owned();
        let (parent, tool) = (quoted(head, "parent"), quoted(head, "tool"));
        return report(Report::RequestOpened { key, ask: Box::new(ask), parent, tool, raw: None });
    }
    match line.split(' ').next()? {
        "Ready" => report(Report::Ready),
        "TurnStarted" if line.contains("Agent") => report(Report::TurnStarted { origin: TurnOrigin::Agent }),
        "TurnStarted" => report(Report::TurnStarted { origin: TurnOrigin::Prompt }),
        "Consumed" => Some(Step::Settled(number(line)?, Ok(()))),
        "Rejected" => {
            let why = line.split("error: \"").nth(1)?.trim_end_matches("\" }").to_owned();
            Some(Step::Settled(number(line)?, Err(why)))
        }
        "RequestWithdrawn" => report(Report::RequestWithdrawn { key: line.split('"').nth(1)?.to_owned() }),
        "CutOff" => {
            let mut quoted = line.split('"').skip(1).step_by(2).map(str::to_owned);
            report(Report::CutOff { item: quoted.next()?, model: quoted.next() })
        }
        // Timers are the translator's own.
        "timer" => None,
        other => panic!("`{other}` is new in the goldens of the translator"),
    }
}

/// The agent that plays these steps. It waits where a person acts.
fn recorded(steps: Vec<Step>) -> Puppet {
    let capabilities = Capabilities {
        interrupt: true,
        native_protocol: NativeProtocol::AgentSdk,
        prompt_queue: PromptQueue::Agent,
        options: vec![SpecOption::Cwd, SpecOption::Prompt],
        ..Capabilities::default()
    };
    Puppet::new("recorded").with_capabilities(capabilities).playing(move |strings| {
        let steps = steps.clone();
        Box::pin(async move { perform(steps, strings).await })
    })
}

async fn perform(steps: Vec<Step>, strings: &mut Strings) -> Exit {
    strings.started().await;
    let mut instruction_ids: HashMap<u64, InstructionId> = HashMap::new();
    for step in steps {
        let (number, waits_for) = match step {
            Step::Report(report) => {
                strings.say(*report).await;
                continue;
            }
            Step::Settled(number, how) => {
                if let Some(instruction_id) = instruction_ids.remove(&number) {
                    strings
                        .say(match how {
                            Ok(()) => Report::Consumed { instruction_id, result: None },
                            Err(error) => Report::Rejected { instruction_id, error },
                        })
                        .await;
                }
                continue;
            }
            Step::Prompt(number, _) => (number, "a prompt"),
            Step::Answer(number, _) => (number, "an answer"),
            Step::Interrupt(number) => (number, "an interrupt"),
        };
        mark(waits_for, strings).await;
        let Some(Instruction { id: instruction_id, order }) = strings.next().await else { break };
        if matches!(order, Order::Answer { .. }) {
            // The translator settles answers by writing them; its golden does not repeat that.
            strings.say(Report::Consumed { instruction_id, result: None }).await;
        }
        instruction_ids.insert(number, instruction_id);
    }
    mark("the end", strings).await;
    // Its session stops it.
    std::future::pending().await
}

async fn mark(waits_for: &str, strings: &Strings) {
    strings.event(Event::Notice { level: Level::Info, text: format!("{MARK}{waits_for}") }).await;
}

/// Reads entries until the player waits, or the agent has ended.
async fn until_it_waits(reader: &mut SessionReader, taken: Taken<'_>) {
    loop {
        let delivery = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap();
        taken(reader.session(), &delivery);
        let waits = |event: &Event| match event {
            Event::Notice { text, .. } => text.starts_with(MARK),
            Event::AgentExited { .. } => true,
            _ => false,
        };
        match delivery {
            Delivery::Entries(pieces) => {
                if pieces.iter().any(|piece| waits(&piece.entry().unwrap().event)) {
                    return;
                }
            }
            Delivery::Snapshot(_) | Delivery::Presence(_) => {}
            Delivery::Closed(why) => panic!("{why:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompts_of_a_recording_are_read_from_its_golden() {
        let all = of_claude();
        let (_, recording) =
            all.iter().find(|(name, _)| name == "2.1.325-stdio.b1-permission-allow").unwrap();
        let said = |step: &Step| match step {
            Step::Prompt(_, written) => Some(format!("prompt {}", words(written))),
            Step::Answer(_, written) => {
                Some(format!("answer {}", written["response"]["response"]["behavior"]))
            }
            _ => None,
        };
        let said: Vec<String> = recording.steps.iter().filter_map(said).collect();
        assert_eq!(said, ["prompt @@bash go", "answer \"allow\""]);
    }
}
