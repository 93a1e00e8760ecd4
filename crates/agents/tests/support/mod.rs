//! A session's end of an agent, for tests: sends instructions, collects reports, never waits without a bound.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use portolan_agents::{
    Supervision,
    child::{
        Ladder, Program,
        environment::{Environment, environment},
    },
    demo::Demo,
    driver::{self, Job, Output, Translator},
    link::{Link, PipeLink},
};
use portolan_core::{
    Capabilities, Event, Generation, SessionId, SessionSpec,
    capabilities::NativeProtocol,
    event::{Content, Exit, Level, TurnResult},
    policy::Decision,
    ports::{Agent as _, AgentLink, Instruction, InstructionId, Launch, Order, Report, ResumePoint},
    request::{Answer, Ask},
};

/// Nothing in these tests takes longer; a longer wait is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn user_environment() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap();
    vec![("PATH".into(), path), ("DEMO_PACE_MS".into(), "0".into())]
}

pub(crate) fn supervision() -> Supervision {
    let quick = Duration::from_millis(300);
    Supervision {
        ladder: Ladder { ask: quick, close: quick, terminate: quick },
        ..Supervision::new(format!("test-{}", uuid::Uuid::new_v4().simple()), user_environment())
    }
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec { agent: "demo".into(), ..SessionSpec::default() }
}

pub(crate) fn launch(spec: SessionSpec) -> Launch {
    Launch { session: SessionId::new(), generation: Generation(1), spec: Arc::new(spec), resume: None }
}

pub(crate) fn demo_command() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_demo-agent").into()]
}

pub(crate) struct Session {
    pub(crate) link: AgentLink,
    pub(crate) seen: Vec<Report>,
    pub(crate) pid: u32,
    instruction_ids: u64,
}

impl Session {
    pub(crate) fn of(link: AgentLink) -> Self {
        Self { link, seen: vec![], pid: 0, instruction_ids: 100 }
    }

    /// The demo agent, ready.
    pub(crate) async fn demo(spec: SessionSpec) -> Self {
        Self::demo_with(spec, supervision(), None).await
    }

    pub(crate) async fn demo_with(
        spec: SessionSpec,
        supervision: Supervision,
        resume: Option<ResumePoint>,
    ) -> Self {
        let agent = Demo::new(demo_command(), Arc::new(supervision));
        let mut session = Self::of(agent.start(Launch { resume, ..launch(spec) }));
        session.until(|report| *report == Report::Ready).await;
        session
    }

    pub(crate) async fn next(&mut self) -> Report {
        let next = tokio::time::timeout(PATIENCE, self.link.reports.recv()).await;
        let Ok(next) = next else { panic!("no report came; so far: {:#?}", self.seen) };
        let next = next.expect("the last report is `Exited`, and nothing was asked of it after that");
        if let Report::Started { pid: Some(pid), .. } = &next {
            self.pid = *pid;
        }
        if let Report::Unasked { key, .. } = &next {
            // As a session in its default mode does.
            let order = Order::Checked { key: key.clone(), decision: Decision::Allow };
            let instruction = Instruction { id: InstructionId::UNRECORDED, order };
            self.link.instructions.send(instruction).await.unwrap();
        }
        self.seen.push(next.clone());
        next
    }

    pub(crate) async fn until(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        loop {
            let report = self.next().await;
            if wanted(&report) {
                return report;
            }
            assert!(!matches!(report, Report::Exited(_)), "it ended first; all of it: {:#?}", self.seen);
        }
    }

    pub(crate) async fn order(&mut self, order: Order) -> InstructionId {
        self.instruction_ids += 1;
        let instruction_id = InstructionId(self.instruction_ids);
        self.link.instructions.send(Instruction { id: instruction_id, order }).await.unwrap();
        instruction_id
    }

    pub(crate) async fn prompt(&mut self, text: &str) -> InstructionId {
        self.order(Order::Prompt { content: vec![Content::text(text)] }).await
    }

    /// Sends an order, and waits for its result.
    pub(crate) async fn ask_of(&mut self, order: Order) -> Result<Option<serde_json::Value>, String> {
        let wanted = self.order(order).await;
        let settled = |report: &Report| matches!(report, Report::Consumed { instruction_id, .. } | Report::Rejected { instruction_id, .. } if *instruction_id == wanted);
        match self.until(settled).await {
            Report::Consumed { result, .. } => Ok(result),
            Report::Rejected { error, .. } => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// The next request.
    pub(crate) async fn request(&mut self) -> (String, Ask) {
        match self.until(|report| matches!(report, Report::RequestOpened { .. })).await {
            Report::RequestOpened { key, ask, .. } => (key, *ask),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn answer(&mut self, key: String, ask: Ask, answer: Answer) -> InstructionId {
        self.order(Order::Answer { key, ask: Box::new(ask), answer }).await
    }

    /// The end of the turn.
    pub(crate) async fn result(&mut self) -> TurnResult {
        match self.until(|report| matches!(report, Report::TurnEnded { .. })).await {
            Report::TurnEnded { result, .. } => *result,
            other => panic!("{other:?}"),
        }
    }

    /// A whole turn without requests.
    pub(crate) async fn turn(&mut self, prompt: &str) -> (Vec<Report>, TurnResult) {
        let from = self.seen.len();
        self.prompt(prompt).await;
        let result = self.result().await;
        (self.seen[from..].to_vec(), result)
    }

    pub(crate) async fn exit(&mut self) -> Exit {
        let exit = loop {
            if let Report::Exited(exit) = self.next().await {
                break exit;
            }
        };
        let after = tokio::time::timeout(PATIENCE, self.link.reports.recv()).await;
        assert_eq!(after, Ok(None), "nothing follows the last report");
        exit
    }

    pub(crate) async fn stop(&mut self) -> Exit {
        self.link.stop.cancel();
        self.exit().await
    }
}

pub(crate) fn events(reports: &[Report]) -> Vec<Event> {
    let event = |report: &Report| match report {
        Report::Event { event, .. } => Some(event.clone()),
        _ => None,
    };
    reports.iter().filter_map(event).collect()
}

/// The finished text of the main agent.
pub(crate) fn said(reports: &[Report]) -> Vec<String> {
    let text = |event: Event| match event {
        Event::Message { content, parent: None, .. } => match content.as_slice() {
            [Content::Text { text }] => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    events(reports).into_iter().filter_map(text).collect()
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < until, "not so after {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process with this number runs. A process that waits to be reaped does not.
pub(crate) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

/// A translator that passes lines on as notices, and native orders as lines.
pub(crate) struct Plain {
    pub(crate) ready_at_once: bool,
}

impl Translator for Plain {
    fn start(&mut self, out: &mut Output) {
        if self.ready_at_once {
            out.ready();
        }
    }
    fn line(&mut self, line: &str, out: &mut Output) {
        out.event(Event::Notice { level: Level::Info, text: line.into() });
    }
    fn instruct(&mut self, instruction: Instruction, out: &mut Output) {
        match instruction.order {
            Order::Native(body) => {
                out.write_for(instruction.id, &body);
                out.consumed(instruction.id, None);
            }
            _ => panic!("a fault in a translator, on purpose"),
        }
    }
}

/// Any program, as an agent.
pub(crate) fn program(command: &[&str], supervision: Supervision, translator: Plain) -> Session {
    program_in(command, PathBuf::new(), supervision, translator)
}

pub(crate) fn program_in(
    command: &[&str],
    folder: PathBuf,
    supervision: Supervision,
    translator: Plain,
) -> Session {
    let mut job = job(command, &supervision, Box::new(PipeLink), Box::new(translator));
    job.program = job.program.map(|program| Program { folder, ..program });
    Session::of(driver::start(job, Arc::new(supervision)))
}

/// Any program over any link.
pub(crate) fn job(
    command: &[&str],
    supervision: &Supervision,
    link: Box<dyn Link>,
    translator: Box<dyn Translator>,
) -> Job {
    let environment: Environment = environment(&supervision.environment, &indexmap::IndexMap::new()).unwrap();
    let command = command.iter().map(OsString::from).collect();
    let program = Program { agent: "plain".into(), command, folder: PathBuf::new(), environment };
    Job {
        agent: "plain".into(),
        launch: launch(spec()),
        program: Ok(program),
        version: None,
        protocol: NativeProtocol::Pty,
        capabilities: Capabilities::default(),
        link,
        translator,
        desk: None,
    }
}

pub(crate) fn notices(reports: &[Report]) -> Vec<String> {
    let text = |event: Event| match event {
        Event::Notice { text, .. } => Some(text),
        _ => None,
    };
    events(reports).into_iter().filter_map(text).collect()
}
