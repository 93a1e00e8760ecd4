//! A whole agent that is a separate program: `cat`, which repeats its input. The driver manages its process, its pipes
//! and its end; this file is the part that each agent must provide.

use std::{collections::VecDeque, ffi::OsString, sync::Arc};

use portolan_core::{
    Capabilities, Event,
    capabilities::NativeProtocol,
    event::{Content, TurnOrigin, TurnOutcome, TurnResult, plain_text},
    ports::{Agent, AgentLink, Boxed, Instruction, InstructionId, Launch, Order, Probe, Report},
};
use portolan_embed::agents::{
    Supervision,
    child::{Program, environment::environment},
    driver::{self, Job, Output, Translator},
    link::PipeLink,
};

/// The name of the program.
const PROGRAM: &str = "cat";

/// Repeats its input.
#[derive(Clone, Debug)]
pub(crate) struct Echo(pub(crate) Arc<Supervision>);

impl Agent for Echo {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn title(&self) -> String {
        "An echo".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { native_protocol: NativeProtocol::Demo, ..Capabilities::default() }
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        let found = Probe { available: true, message: "part of every system".into(), ..Probe::default() };
        Box::pin(std::future::ready(found))
    }

    fn start(&self, launch: Launch) -> AgentLink {
        let program = environment(&self.0.environment, &launch.spec.env).map(|environment| Program {
            agent: self.kind().into(),
            command: vec![OsString::from(PROGRAM)],
            folder: launch.spec.cwd.clone(),
            environment,
        });
        let job = Job {
            agent: self.kind().into(),
            program: program.map_err(|refused| refused.to_string()),
            link: Box::new(PipeLink),
            version: None,
            protocol: NativeProtocol::Demo,
            capabilities: self.capabilities(),
            translator: Box::new(Translate {
                generation: launch.generation.0,
                said: 0,
                asked: VecDeque::new(),
            }),
            desk: None,
            launch,
        };
        driver::start(job, Arc::clone(&self.0))
    }
}

/// Translates between the program's lines and reports: each line is one JSON text.
struct Translate {
    generation: u32,
    said: u32,
    /// Prompts that the program has not repeated yet.
    asked: VecDeque<InstructionId>,
}

impl Translator for Translate {
    fn start(&mut self, out: &mut Output) {
        out.ready();
    }

    fn instruct(&mut self, instruction: Instruction, out: &mut Output) {
        match instruction.order {
            Order::Prompt { content } => {
                self.asked.push_back(instruction.id);
                out.write_for(instruction.id, &plain_text(&content));
            }
            _ => out.rejected(instruction.id, "an echo accepts only prompts"),
        }
    }

    fn line(&mut self, line: &str, out: &mut Output) {
        let text = match serde_json::from_str::<String>(line) {
            Ok(text) => text,
            Err(error) => return out.unreadable("echo", line.as_bytes(), &error.to_string()),
        };
        if let Some(instruction_id) = self.asked.pop_front() {
            out.consumed(instruction_id, None);
        }
        self.said += 1;
        out.report(Report::TurnStarted { origin: TurnOrigin::Prompt });
        out.event_with_raw(
            Event::Message {
                // The number of the start is part of every name, so that two starts never share a name.
                item: format!("{}.{}", self.generation, self.said),
                message: None,
                parent: None,
                model: None,
                content: vec![Content::text(text)],
                interrupted: false,
                stop_reason: None,
            },
            line,
        );
        let result = Box::new(TurnResult::bare(TurnOutcome::Completed));
        out.report(Report::TurnEnded { result, raw: None });
    }
}
