//! Golden transcripts: what Claude Code really said, as its translator tells it, through core to the dashboard's messages.
//!
//! The agents' own goldens are the source: each line under a heading is what the translator reports for a recorded line
//! of the CLI. An agent that plays these to a real session stands in for the CLI; prompts and answers come when they
//! came in the recording. What is in the log afterwards is projected.

use std::{collections::HashMap, path::PathBuf};

use portolan_core::{
    Action, Capabilities, CommandId, Event, Role, Seq, SessionSpec, TokenId,
    capabilities::{NativeProtocol, PromptQueue},
    event::{Content, Exit, ExitReason, Level, TurnOrigin},
    log::delivery::{Delivery, Mode, Start},
    ports::{
        Agent, AgentLink, Boxed, INSTRUCTIONS, Instruction, Launch, Order, Probe, REPORTS, Report, Ticket,
    },
    registry::SessionReader,
    request::{Answer, Ask},
    session::state::State,
    spec::SpecOption,
};
use tokio::sync::mpsc;

use super::*;
use crate::insights::project::{Detail, Past, View};

/// How the notices begin that the player puts between the lines; they become no message.
pub(crate) const MARK: &str = "the player waits for ";

/// One step of a recording.
#[derive(Clone, Debug)]
enum Step {
    /// The agent reports this.
    Report(Box<Report>),
    /// It took up what has this number in the recording.
    Settled(u64, Result<(), String>),
    /// Someone says this, under that number.
    Prompt(u64, String),
    /// Someone answers the oldest request so.
    Answer(u64, Value),
    /// Someone interrupts.
    Interrupt(u64),
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../agents/src/claude/transcripts/expected")
}

/// Reads what the translator's golden says.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines().skip_while(|line| !line.starts_with("> ")) {
        if let Some(heading) = line.strip_prefix("> ") {
            let (name, number) = heading.split_once(' ').unwrap_or((heading, "0"));
            let number = number.parse().unwrap_or(0);
            steps.extend(match name {
                "prompt" => Some(Step::Prompt(number, String::new())),
                "answer" => Some(Step::Answer(number, Value::Null)),
                "interrupt" => Some(Step::Interrupt(number)),
                // The dashboard cannot ask for these; what comes of them is played all the same.
                _ => None,
            });
        } else if let Some(written) = line.strip_prefix("    -> ") {
            let written: Value = serde_json::from_str(written).unwrap();
            fill(&mut steps, &written);
        } else if let Some(report) = line.strip_prefix("    ") {
            steps.extend(report_of(report));
        }
    }
    // An answer that came too late, after an interrupt, is none here: core has closed what it was for.
    let late = |step: &Step| match step {
        Step::Settled(number, Err(why)) if why.contains("does not wait for this") => Some(*number),
        _ => None,
    };
    let late: Vec<u64> = steps.iter().filter_map(late).collect();
    steps.retain(|step| !matches!(step, Step::Answer(number, _) if late.contains(number)));
    // Nor is a prompt to a CLI that never became ready: core keeps it.
    let is_ready = |step: &Step| matches!(step, Step::Report(report) if **report == Report::Ready);
    if !steps.iter().any(is_ready) {
        steps.retain(|step| !matches!(step, Step::Prompt(..)));
    }
    steps
}

/// What was written to the CLI tells what was asked.
fn fill(steps: &mut [Step], written: &Value) {
    match steps.last_mut() {
        Some(Step::Prompt(_, words)) if words.is_empty() => {
            *words = match &written["message"]["content"] {
                Value::String(text) => text.clone(),
                Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
                _ => String::new(),
            };
        }
        Some(Step::Answer(_, answer)) if answer.is_null() => {
            *answer = written["response"]["response"].clone();
        }
        _ => {}
    }
}

fn report_of(line: &str) -> Option<Step> {
    let report = |report| Some(Step::Report(Box::new(report)));
    let number = |line: &str| line.split("Ticket(").nth(1)?.split(')').next()?.parse::<u64>().ok();
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
        "RequestWithdrawn" => {
            let key = line.split('"').nth(1)?.to_owned();
            report(Report::RequestWithdrawn { key })
        }
        "CutOff" => {
            let mut quoted = line.split('"').skip(1).step_by(2).map(str::to_owned);
            report(Report::CutOff { item: quoted.next()?, model: quoted.next() })
        }
        // Timers are the translator's own.
        "timer" => None,
        other => panic!("`{other}` is new in the goldens of the translator"),
    }
}

/// An agent that plays a recording.
#[derive(Debug)]
struct Recorded(Vec<Step>);

impl Agent for Recorded {
    fn kind(&self) -> &'static str {
        "recorded"
    }
    fn title(&self) -> String {
        "Recorded".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            interrupt: true,
            native_protocol: NativeProtocol::AgentSdk,
            prompt_queue: PromptQueue::Agent,
            options: vec![SpecOption::Cwd, SpecOption::Prompt],
            ..Capabilities::default()
        }
    }
    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(std::future::ready(Probe { available: true, ..Probe::default() }))
    }
    fn start(&self, _: Launch) -> AgentLink {
        let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
        let (reports, told) = mpsc::channel(REPORTS);
        let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
        let (end, steps, capabilities) = (stop.clone(), self.0.clone(), self.capabilities());
        tokio::spawn(async move {
            tokio::select! {
                () = play(steps, capabilities, wanted, reports.clone()) => {}
                () = end.cancelled() => {}
            }
            let (reason, message) = (ExitReason::Stopped, "stopped".into());
            let exit = Exit { reason, code: None, signal: None, message, stderr: String::new() };
            let _ = reports.send(Report::Exited(exit)).await;
        });
        AgentLink { instructions, reports: told, stop, kill, recorded: None }
    }
}

async fn play(
    steps: Vec<Step>,
    capabilities: Capabilities,
    mut wanted: mpsc::Receiver<Instruction>,
    reports: mpsc::Sender<Report>,
) {
    let reports = &reports;
    let tell = |report| async move { drop(reports.send(report).await) };
    let protocol = NativeProtocol::AgentSdk;
    let capabilities = Box::new(capabilities);
    tell(Report::Started { pid: None, version: None, protocol, capabilities }).await;
    let mut tickets: HashMap<u64, Ticket> = HashMap::new();
    for step in steps {
        let (number, waits_for) = match step {
            Step::Report(report) => {
                tell(*report).await;
                continue;
            }
            Step::Settled(number, how) => {
                if let Some(ticket) = tickets.remove(&number) {
                    tell(match how {
                        Ok(()) => Report::Consumed { ticket, result: None },
                        Err(error) => Report::Rejected { ticket, error },
                    })
                    .await;
                }
                continue;
            }
            Step::Prompt(number, _) => (number, "a prompt"),
            Step::Answer(number, _) => (number, "an answer"),
            Step::Interrupt(number) => (number, "an interrupt"),
        };
        let text = format!("{MARK}{waits_for}");
        tell(Report::Event { event: Event::Notice { level: Level::Info, text }, raw: None }).await;
        let Some(instruction) = wanted.recv().await else { return };
        tell(Report::Delivered(instruction.ticket)).await;
        if matches!(instruction.order, Order::Answer { .. }) {
            // The translator takes answers by writing them; its golden does not say so again.
            tell(Report::Consumed { ticket: instruction.ticket, result: None }).await;
        }
        tickets.insert(number, instruction.ticket);
    }
    let text = format!("{MARK}the end");
    tell(Report::Event { event: Event::Notice { level: Level::Info, text }, raw: None }).await;
    std::future::pending::<()>().await;
}

/// Is given all that the session delivers.
type Taken<'t> = &'t mut (dyn FnMut(SessionId, &Delivery<Event, State>) + Send);

/// Reads entries until the player waits, or the agent has ended.
async fn until_it_waits(reader: &mut SessionReader, taken: Taken<'_>) {
    loop {
        let delivery = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap();
        taken(reader.session(), &delivery);
        let mut waits = false;
        match delivery {
            Delivery::Entries(pieces) => {
                for piece in &pieces {
                    waits |= match &*piece.entry().unwrap().event {
                        Event::Notice { text, .. } => text.starts_with(MARK),
                        Event::AgentExited { .. } => true,
                        _ => false,
                    };
                }
            }
            Delivery::Snapshot(_) | Delivery::Presence(_) => {}
            Delivery::Closed(why) => panic!("{why:?}"),
        }
        if waits {
            return;
        }
    }
}

fn answer(ask: &Ask, response: &Value) -> Answer {
    match (ask, response["behavior"].as_str()) {
        (_, Some("deny")) => Answer::deny(response["message"].as_str().map(Into::into)),
        (Ask::Question { questions }, _) => {
            let given = &response["updatedInput"]["answers"];
            let one = |question: &portolan_core::request::Question| {
                let chosen = given[&question.question].as_str()?;
                Some((question.question.clone(), vec![chosen.to_owned()]))
            };
            Answer::Choices { answers: questions.iter().filter_map(one).collect() }
        }
        (Ask::Permission { .. } | Ask::Plan { .. }, _) => Answer::allow(),
        (Ask::Elicitation { .. }, _) => Answer::Content { content: json!({}) },
        (Ask::Hook { .. } | Ask::Other { .. }, _) => Answer::Output { output: json!({}) },
    }
}

/// Plays one recording; `taken` is given all that a reader of its session gets.
pub(crate) async fn play_back(text: &str, mode: Mode, taken: Taken<'_>) -> SessionId {
    let steps = steps(text);
    let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(Recorded(steps.clone()))];
    let registry = Registry::open(Arc::new(MemoryStore::new()), agents, Clock::system(), Policy::default())
        .await
        .unwrap();
    let token = TokenId::random();
    let who =
        Principal { token, name: "ada".into(), role: Role::Owner, sessions: None, via: "insights".into() };
    let spec = SessionSpec { agent: "recorded".into(), cwd: "/".into(), ..SessionSpec::default() };
    let session = registry.create(&who, CommandId::random(), spec).await.unwrap().session;
    let mut reader = registry.attach(&who, session, Start::After(Seq::ZERO), mode).await.unwrap();
    for step in steps {
        let action = match step {
            Step::Report(_) | Step::Settled(..) => continue,
            Step::Prompt(_, words) => Action::Prompt { content: vec![Content::text(words)] },
            Step::Interrupt(_) => Action::Interrupt,
            Step::Answer(_, response) => {
                until_it_waits(&mut reader, taken).await;
                let state = registry.snapshot(&who, session).await.unwrap().state;
                let open = state.requests.first().unwrap();
                let (request, answer) = (open.request, answer(&open.ask, &response));
                let action = Action::Answer { request, digest: None, answer };
                registry.submit(&who, session, CommandId::random(), action).await.unwrap();
                continue;
            }
        };
        until_it_waits(&mut reader, taken).await;
        registry.submit(&who, session, CommandId::random(), action).await.unwrap();
    }
    until_it_waits(&mut reader, taken).await;
    registry.submit(&who, session, CommandId::random(), Action::Stop).await.unwrap();
    until_it_waits(&mut reader, taken).await;
    session
}

/// Every message the dashboard gets.
async fn dashboard_of(text: &str) -> Vec<Value> {
    let mut view: Option<View> = None;
    let mut told = Vec::new();
    let session = play_back(text, Mode::Items, &mut |session, delivery| {
        let view = view.get_or_insert_with(|| View::new(session, Detail::Blocks, Past::Everything));
        let mut messages = Vec::new();
        match delivery {
            Delivery::Entries(pieces) => {
                for piece in pieces {
                    let entry = piece.entry().unwrap();
                    view.project(entry.seq, &entry.event, &mut messages);
                }
            }
            Delivery::Snapshot(snapshot) => view.snapshot(&snapshot.state, &mut messages),
            Delivery::Presence(_) | Delivery::Closed(_) => {}
        }
        for message in &messages {
            let message = serde_json::from_slice(&message.to_text()).unwrap();
            fits(&SERVER, &message);
            told.push(message);
        }
    })
    .await;
    let text = serde_json::to_string(&told).unwrap().replace(&session.to_string(), "SESSION");
    let mut told: Vec<Value> = serde_json::from_str(&text).unwrap();
    number(&mut told);
    told
}

/// Requests are named by their entry's number; which one that is says nothing here.
fn number(messages: &mut [Value]) {
    let mut names: Vec<String> = Vec::new();
    for message in messages {
        for key in ["permission_id", "question_id"] {
            if let Some(id) = message["payload"].get(key).and_then(Value::as_str) {
                let (request, rest) =
                    id.split_once('.').map_or((id, String::new()), |(r, n)| (r, format!(".{n}")));
                let place = names.iter().position(|name| name == request).unwrap_or_else(|| {
                    names.push(request.to_owned());
                    names.len() - 1
                });
                message["payload"][key] = format!("request-{}{rest}", place + 1).into();
            }
        }
    }
}

// covers: 001-021, 001-023, 001-024, 001-025, 001-035, 001-051, 001-053, 001-060
#[tokio::test]
async fn every_recording_of_claude_becomes_the_messages_that_are_expected() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() > 60, "recordings are missing: {}", names.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("goldens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for name in names {
        let text = std::fs::read_to_string(folder().join(format!("{name}.snap"))).unwrap();
        let messages = dashboard_of(&text).await;
        let lines: Vec<String> = messages.iter().map(ToString::to_string).collect();
        settings.bind(|| insta::assert_snapshot!(name.as_str(), lines.join("\n")));
    }
}

#[test]
fn what_was_said_in_a_recording_is_read_from_its_golden() {
    let text = std::fs::read_to_string(folder().join("2.1.325-stdio.b1-permission-allow.snap")).unwrap();
    let steps = steps(&text);
    let said = |step: &Step| match step {
        Step::Prompt(_, words) => Some(format!("prompt {words}")),
        Step::Answer(_, response) => Some(format!("answer {}", response["behavior"])),
        _ => None,
    };
    let said: Vec<String> = steps.iter().filter_map(said).collect();
    assert_eq!(said, ["prompt @@bash go", "answer \"allow\""]);
}
