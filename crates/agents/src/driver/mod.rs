//! The driver runs any translator over any child.
//!
//! A translator is a pure state machine: it takes arrivals and instructions and returns reports and outputs, without
//! I/O or a clock. A [`Link`] brings the arrivals and takes the outputs. The driver owns everything else that all
//! agents need: the queues and their back pressure, the clock, the limits, the stop ladder, and the guarantee that the
//! last report is always [`Report::Exited`].

pub(crate) mod asking;
mod ending;
mod outgoing;
mod run;
mod tasks;
#[cfg(test)]
mod tests;
mod timers;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use portolan_core::{
    Capabilities, Event, SessionId,
    capabilities::NativeProtocol,
    event::{Exit, ExitReason, Level},
    ports::{AgentLink, INSTRUCTIONS, Instruction, InstructionId, Launch, REPORTS, Report},
};
use portolan_wire::ndjson;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub use self::tasks::{Desk, Done, DriverTask, MAX_TASKS};
use crate::{
    Supervision,
    child::{Child, Program},
    counters,
    link::{Inbound, Link, Outbound},
};

/// Unreadable lines of one agent are kept up to this many; further lines are only counted. An agent that prints garbage
/// must not fill the disk.
const UNREADABLE_KEPT: u64 = 1000;

/// Portolan's name and version, for an agent that asks its client.
pub(crate) fn client() -> Value {
    json!({ "name": "portolan", "title": "Portolan", "version": env!("CARGO_PKG_VERSION") })
}

/// One agent's protocol, as a pure state machine: the same calls give the same output.
pub trait Translator: Send {
    /// The child runs: returns the first message. If no message is needed, it may be [`Output::ready`] now.
    fn start(&mut self, out: &mut Output);

    /// The agent sent this. Passes it to the method for its form.
    fn hear(&mut self, said: Inbound<'_>, out: &mut Output) {
        match said {
            Inbound::Line(line) => self.line(line, out),
        }
    }

    /// The agent wrote this line. This must not fail for any line: an unreadable line goes to [`Output::unreadable`],
    /// an unknown message to [`Output::unknown`].
    fn line(&mut self, line: &str, out: &mut Output);

    /// An instruction of the session. Settle each with [`Output::consumed`] or [`Output::rejected`], now or after the
    /// agent's own answer. For [`Output::write_for`], the driver reports that it is written.
    fn instruct(&mut self, instruction: Instruction, out: &mut Output);

    /// The message for this instruction did not reach the agent.
    fn undelivered(&mut self, instruction_id: InstructionId, why: &str, out: &mut Output) {
        out.rejected(instruction_id, why);
    }

    /// A timer that was set with [`Output::set_timer`] ran out.
    fn timeout(&mut self, timer: Timer, out: &mut Output) {
        let _ = (timer, out);
    }

    /// A task of [`Output::task`] is done.
    fn task_done(&mut self, key: &str, done: Done, out: &mut Output) {
        let _ = (key, done, out);
    }

    /// The connection to the agent was lost; the agent still runs. Open requests will never be answered.
    fn link_lost(&mut self, out: &mut Output) {
        let _ = out;
    }

    /// The connection is back. Messages now go over the new connection.
    fn link_restored(&mut self, out: &mut Output) {
        let _ = out;
    }

    /// The agent will be stopped: the last messages to it, such as an interrupt. Its input is closed after
    /// [`Output::close_input`], or when the time of the stop ladder's first step is over.
    fn farewell(&mut self, out: &mut Output) {
        out.close_input();
    }
}

/// Names a timer of a translator. Setting it again moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timer(pub u64);

/// Something to write to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The message.
    pub outbound: Outbound,
    /// The instruction that is delivered once it is written.
    pub instruction_id: Option<InstructionId>,
    /// What else is settled then.
    pub settles: Settles,
}

/// The state of an instruction once it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settles {
    /// Delivered; the agent will report more.
    #[default]
    Later,
    /// Also consumed: the agent reports nothing about it.
    Now,
}

/// The output of a translator.
#[derive(Debug, Default, PartialEq)]
pub struct Output {
    /// For the session, in order.
    pub reports: Vec<Report>,
    /// For the agent, in order.
    pub writes: Vec<Write>,
    /// Timers to set, and timers to clear if there is no time.
    pub timers: Vec<(Timer, Option<Duration>)>,
    /// For the desk, in order.
    pub tasks: Vec<DriverTask>,
    /// The agent's input may be closed once everything is written.
    pub closes_input: bool,
    /// Why the agent cannot be used.
    pub fault: Option<String>,
    /// The number of unreadable lines of this agent so far.
    pub unreadable: u64,
}

impl Output {
    /// Sends a report to the session.
    pub fn report(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Sends an event to the session.
    pub fn event(&mut self, event: Event) {
        self.report(Report::Event { event, raw: None });
    }

    /// Sends an event to the session, with the agent's raw text.
    pub fn event_with_raw(&mut self, event: Event, line: &str) {
        self.report(Report::Event { event, raw: Some(Bytes::copy_from_slice(line.as_bytes())) });
    }

    /// The agent takes instructions from now on.
    pub fn ready(&mut self) {
        self.report(Report::Ready);
    }

    /// The agent has taken an instruction.
    pub fn consumed(&mut self, instruction_id: InstructionId, result: Option<serde_json::Value>) {
        self.report(Report::Consumed { instruction_id, result });
    }

    /// The agent refused an instruction.
    pub fn rejected(&mut self, instruction_id: InstructionId, error: impl Into<String>) {
        self.report(Report::Rejected { instruction_id, error: error.into() });
    }

    /// A message of an unknown kind: kept, with its raw text.
    pub fn unknown(&mut self, source: &str, kind: &str, line: &str) {
        counters::UNKNOWN.add(1);
        self.event_with_raw(Event::Unknown { source: source.into(), kind: kind.into() }, line);
    }

    /// A line that cannot be read: kept as a notice, with its raw text.
    pub fn unreadable(&mut self, source: &str, line: &[u8], why: &str) {
        counters::UNREADABLE.add(1);
        self.unreadable += 1;
        if self.unreadable > UNREADABLE_KEPT {
            return;
        }
        let text = format!(
            "{source} sent a line that Portolan cannot read ({} bytes, {why}): {}",
            line.len(),
            ndjson::head(line)
        );
        let event = Event::Notice { level: Level::Warning, text };
        self.report(Report::Event { event, raw: Some(Bytes::copy_from_slice(line)) });
    }

    /// Writes a message to the agent, as one line.
    pub fn write(&mut self, message: &impl Serialize) {
        self.write_line(message, None, Settles::Later);
    }

    /// Writes a message to the agent; once that is done, the instruction is delivered.
    pub fn write_for(&mut self, instruction_id: InstructionId, message: &impl Serialize) {
        self.write_line(message, Some(instruction_id), Settles::Later);
    }

    /// Writes a message that the agent does not answer; once that is done, the instruction is consumed.
    pub fn write_and_consume(&mut self, instruction_id: InstructionId, message: &impl Serialize) {
        self.write_line(message, Some(instruction_id), Settles::Now);
    }

    fn write_line(
        &mut self,
        message: &impl Serialize,
        instruction_id: Option<InstructionId>,
        settles: Settles,
    ) {
        match serde_json::to_vec(message) {
            Ok(mut bytes) => {
                bytes.push(b'\n');
                self.writes.push(Write { outbound: Outbound::Line(bytes), instruction_id, settles });
            }
            // Portolan's own types serialise; if one ever fails, its sender is informed.
            Err(error) => match instruction_id {
                Some(instruction_id) => self.rejected(instruction_id, error.to_string()),
                None => self.fault = Some(error.to_string()),
            },
        }
    }

    /// Runs a task for the agent, and calls [`Translator::task_done`] then.
    pub fn task(&mut self, task: DriverTask) {
        self.tasks.push(task);
    }

    /// Calls [`Translator::timeout`] after this time.
    pub fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.timers.push((timer, Some(after)));
    }

    /// Clears a timer.
    pub fn clear_timer(&mut self, timer: Timer) {
        self.timers.push((timer, None));
    }

    /// The agent's input may be closed once everything is written.
    pub fn close_input(&mut self) {
        self.closes_input = true;
    }

    /// The agent cannot be used.
    pub fn give_up(&mut self, why: impl Into<String>) {
        self.fault = Some(why.into());
    }
}

/// An agent to start and run.
pub struct Job {
    /// The agent's kind.
    pub agent: String,
    /// What it was started for.
    pub launch: Launch,
    /// What to start, or why it is refused.
    pub program: Result<Program, String>,
    /// The link to it.
    pub link: Box<dyn Link>,
    /// The agent's version, if known before it is asked.
    pub version: Option<String>,
    /// The name of its protocol.
    pub protocol: NativeProtocol,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its protocol.
    pub translator: Box<dyn Translator>,
    /// The place where its tasks are done.
    pub desk: Option<Box<dyn Desk>>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("agent", &self.agent)
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}

/// Starts an agent and runs it until its end. Returns at once; must be called within a runtime.
pub fn start(job: Job, supervision: Arc<Supervision>) -> AgentLink {
    let (kind, session) = (job.agent.clone(), job.launch.session);
    start_prepared(&kind, session, supervision, std::future::ready(job))
}

/// Like [`start`], for an agent that needs a look before it can be started. The look must be bounded.
pub fn start_prepared(
    kind: &str,
    session: SessionId,
    supervision: Arc<Supervision>,
    prepare: impl Future<Output = Job> + Send + 'static,
) -> AgentLink {
    start_supervised(kind, session, async move { (prepare.await, supervision) })
}

/// Like [`start_prepared`], if the look also decides the supervision of the process.
pub fn start_supervised(
    kind: &str,
    session: SessionId,
    prepare: impl Future<Output = (Job, Arc<Supervision>)> + Send + 'static,
) -> AgentLink {
    let (instructions, wanted) = mpsc::channel(INSTRUCTIONS);
    let (told, reports) = mpsc::channel(REPORTS);
    let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
    // Without a parent: the span names its session itself, so a line names it once.
    let span = tracing::info_span!(parent: None, "agent", kind, session = %session);
    let tokens = run::Tokens { stop: stop.clone(), kill: kill.clone() };
    let life = async move {
        let (job, supervision) = prepare.await;
        supervise(job, supervision, wanted, told, tokens).await;
    };
    tokio::spawn(life.instrument(span));
    AgentLink { instructions, reports, stop, kill, recorded: None }
}

async fn supervise(
    job: Job,
    supervision: Arc<Supervision>,
    wanted: mpsc::Receiver<Instruction>,
    told: mpsc::Sender<Report>,
    tokens: run::Tokens,
) {
    let started = match job.program {
        Ok(program) => {
            Child::start(program, &supervision.home_key, job.launch.session).await.map_err(|error| {
                // The cause is included: "no such file" is useless without the file.
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                format!("{error}{cause}")
            })
        }
        Err(refused) => Err(refused),
    };
    let exit = match started {
        Err(message) => {
            tracing::warn!(message, "agent not started");
            Exit { reason: ExitReason::NotStarted, code: None, signal: None, message, stderr: String::new() }
        }
        Ok((child, pipes)) => {
            tracing::info!(pid = child.pid(), generation = %job.launch.generation, "agent started");
            let started = Report::Started {
                holder: None,
                pid: Some(child.pid()),
                version: job.version,
                protocol: job.protocol,
                capabilities: Box::new(job.capabilities),
            };
            let driver = run::Driver::new(job.agent, job.translator, &supervision, told.clone(), started);
            let driver = driver.with_desk(job.desk);
            driver.run(child, pipes, job.link, wanted, tokens).await
        }
    };
    tracing::info!(reason = ?exit.reason, code = exit.code, signal = exit.signal, "agent exited");
    // A session that is gone wants no report.
    let _ = told.send(Report::Exited(exit)).await;
}
