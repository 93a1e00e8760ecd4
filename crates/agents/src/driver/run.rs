//! One agent's life: from its start to its last report.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
};

use portolan_core::{
    Event,
    event::{Exit, ExitReason, Level},
    ports::{Instruction, Order, Report},
};
use portolan_wire::{limits, ndjson::Line};
use tokio::{
    io::AsyncReadExt as _,
    process::ChildStdout,
    sync::mpsc,
    time::{Duration, Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Desk, Translator, Turnout, UNREADABLE_KEPT, Write,
    ending::Rung,
    errands::Errands,
    link::{Filled, Input, Source, Transport},
    outgoing::{Unread, write_some},
    timers::Timers,
};
use crate::{
    Supervision,
    child::{Child, Ladder, Pipes, environment, processes::Process},
    counters,
};

/// Bytes that wait to be written to the agent. More means that it does not read; no further instruction is taken
/// until it does.
const UNWRITTEN: usize = 1024 * 1024;

/// An agent that has left this much unread will not read it: it is ended. What it asks us is answered, so that an agent
/// that asks and never reads would else fill our memory with answers. A few large files fit.
const UNREAD: usize = 64 * 1024 * 1024;

/// A line that goes on for this long is not a mistake but a flood: the agent is ended.
const FLOOD: u64 = 256 * 1024 * 1024;

/// An agent that has closed its output says nothing more; one that then goes on running is ended.
const SILENT: Duration = Duration::from_secs(5);

/// Once the agent and all it started are gone, what is left in the pipe is there at once.
const DRAIN: Duration = Duration::from_millis(500);

/// At most this much is left in a pipe.
const LARGEST_PIPE: usize = 1024 * 1024;

/// How a session ends its agent.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) stop: CancellationToken,
    pub(super) kill: CancellationToken,
}

/// Everything about a running agent but its process and its output.
pub(super) struct Driver {
    pub(super) agent: String,
    pub(super) translator: Box<dyn Translator>,
    pub(super) turnout: Turnout,
    /// Reports that wait for room. While there is one, the agent's output is not read.
    pub(super) outbox: VecDeque<Report>,
    pub(super) reports: mpsc::Sender<Report>,
    /// The session is gone: nobody wants reports.
    pub(super) abandoned: bool,
    pub(super) writes: VecDeque<Write>,
    /// How much of the first write is written.
    pub(super) written: usize,
    pub(super) unwritten: usize,
    /// How much was ever written.
    pub(super) position: u64,
    /// What was written and is consumed once it is read, oldest first.
    pub(super) unread: VecDeque<Unread>,
    pub(super) input: Option<Input>,
    /// When a lost connection must be back.
    pub(super) link_by: Option<Instant>,
    pub(super) link_within: Duration,
    /// How often the process is looked for.
    pub(super) look_every: Duration,
    pub(super) timers: Timers,
    errands: Errands,
    pub(super) ladder: Ladder,
    pub(super) rung: Rung,
    pub(super) next_rung: Option<Instant>,
    pub(super) close_when_written: bool,
    pub(super) ready_within: Duration,
    pub(super) ready_by: Option<Instant>,
    pub(super) was_ready: bool,
    pub(super) silent_until: Option<Instant>,
    /// Why we end it, where we do.
    pub(super) ending: Option<(ExitReason, String)>,
    pub(super) max_line: usize,
    /// What it started, as seen before it was told to end.
    pub(super) stragglers: Vec<Process>,
}

impl Driver {
    pub(super) fn new(
        agent: String,
        translator: Box<dyn Translator>,
        supervision: &Arc<Supervision>,
        reports: mpsc::Sender<Report>,
        started: Report,
    ) -> Self {
        Self {
            agent,
            translator,
            turnout: Turnout::default(),
            outbox: [started].into(),
            reports,
            abandoned: false,
            writes: VecDeque::new(),
            written: 0,
            unwritten: 0,
            position: 0,
            unread: VecDeque::new(),
            input: None,
            link_by: None,
            link_within: supervision.link_down,
            look_every: supervision.liveness,
            timers: Timers::default(),
            errands: Errands::default(),
            ladder: supervision.ladder,
            rung: Rung::Running,
            next_rung: None,
            close_when_written: false,
            ready_within: supervision.ready,
            ready_by: None,
            was_ready: false,
            silent_until: None,
            ending: None,
            max_line: supervision.max_line,
            stragglers: vec![],
        }
    }

    /// With a place where errands are done.
    pub(super) fn with_desk(mut self, desk: Option<Box<dyn Desk>>) -> Self {
        self.errands = Errands::at(desk);
        self
    }

    /// Runs the agent until its end; everything but the last report is sent.
    pub(super) async fn run(
        mut self,
        child: Child,
        pipes: Pipes,
        transport: Transport,
        mut instructions: mpsc::Receiver<Instruction>,
        tokens: Tokens,
    ) -> Exit {
        counters::STARTED.add(1);
        self.ready_by = Some(Instant::now() + self.ready_within);
        let mut lines = match transport {
            Transport::Pipes => {
                self.input = Some(Input::Pipe(pipes.input));
                Source::pipe(pipes.output, self.max_line)
            }
            Transport::DialIn(expected) => {
                self.input = Some(Input::Socket(None));
                // It has nothing to say there, but a full pipe would stop it.
                tokio::spawn(swallow(pipes.output));
                Source::socket(expected, self.max_line)
            }
        };
        self.consult(|translator, out| translator.start(out));
        self.supervise(&child, &mut lines, &mut instructions, tokens).await;
        self.errands.close().await;

        let stragglers = std::mem::take(&mut self.stragglers);
        let (status, stderr) = child.end(stragglers).await;
        self.drain(&mut lines).await;
        self.refuse_rest(&mut instructions).await;
        self.exit(status.ok(), stderr)
    }

    /// Until the process has ended.
    async fn supervise(
        &mut self,
        child: &Child,
        lines: &mut Source,
        instructions: &mut mpsc::Receiver<Instruction>,
        tokens: Tokens,
    ) {
        let (reports, mut more_wanted) = (self.reports.clone(), true);
        // Made once: each of these would else be made anew for every line.
        let mut stopped = pin!(tokens.stop.cancelled());
        let mut killed = pin!(tokens.kill.cancelled());
        let mut ended = pin!(child.ended());
        let mut gone = pin!(reports.closed());
        let mut alive_at = Instant::now() + self.look_every;
        loop {
            // Before its next line: what it says now may be what came of it.
            self.settle_read();
            self.deliver();
            while self.outbox.is_empty()
                && self.due_rung().is_none()
                && let Some(line) = lines.buffered()
            {
                self.take_line(line);
                self.deliver();
            }
            self.flood_check(lines.skipped());
            // Before anything is waited for: what was just read may be the reason.
            if let Some(rung) = self.due_rung() {
                self.climb(rung, child).await;
            }
            self.close_input_when_written();
            let wake = self.next_wake().unwrap_or(alive_at).min(alive_at);
            let accepting = more_wanted
                && self.rung == Rung::Running
                && self.unwritten < UNWRITTEN
                && !self.timers.is_full();
            // Every arm is cancel-safe: what is not finished is not begun.
            tokio::select! {
                biased;
                () = &mut ended => return,
                () = &mut killed, if self.rung < Rung::Killed => {
                    self.end_for(ExitReason::Stopped, "it was killed");
                    self.climb(Rung::Killed, child).await;
                }
                () = &mut stopped, if self.rung == Rung::Running => {
                    self.end_for(ExitReason::Stopped, "it was asked to stop");
                    self.climb(Rung::Asked, child).await;
                }
                () = &mut gone, if !self.abandoned => {
                    self.abandoned = true;
                    self.outbox.clear();
                    self.end_for(ExitReason::Stopped, "its session is gone");
                    self.climb(Rung::Asked, child).await;
                }
                permit = reports.reserve(), if !self.outbox.is_empty() && !self.abandoned => {
                    if let (Ok(permit), Some(report)) = (permit, self.outbox.pop_front()) {
                        permit.send(report);
                    }
                }
                written = write_some(&mut self.input, &self.writes, self.written), if self.can_write() => {
                    self.wrote(written);
                }
                Some((key, done)) = self.errands.next(), if self.errands.any() => {
                    self.consult(|translator, out| translator.errand_done(&key, done, out));
                }
                () = sleep_until(wake) => {
                    self.on_time(child).await;
                    if Instant::now() >= alive_at {
                        alive_at = Instant::now() + self.look_every;
                        if child.has_ended() {
                            return;
                        }
                    }
                }
                instruction = instructions.recv(), if accepting => match instruction {
                    Some(instruction) => self.instruct(instruction),
                    None => more_wanted = false,
                },
                filled = lines.fill(), if self.outbox.is_empty() && self.silent_until.is_none() => match filled {
                    Filled::More => {}
                    Filled::Connected(outgoing) => self.connected(outgoing),
                    Filled::Lost => self.link_lost(),
                    Filled::Ended => {
                        if let Some(line) = lines.finish() {
                            self.take_line(line);
                        }
                        self.silent_until = Some(Instant::now() + SILENT);
                    }
                },
            }
        }
    }

    // -------------------------------------------------------------------------------- what comes in

    /// Lets the translator work, and takes over what it turned out.
    pub(super) fn consult(&mut self, work: impl FnOnce(&mut dyn Translator, &mut Turnout)) {
        let (translator, turnout) = (&mut self.translator, &mut self.turnout);
        // A fault in one translator ends that agent, and with it is told; it must not take the report of its end.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut **translator, turnout)));
        if outcome.is_err() {
            self.end_for(ExitReason::Failed, "a fault of ours in reading it; please report it");
        }
        self.absorb();
    }

    fn absorb(&mut self) {
        for report in self.turnout.reports.drain(..) {
            if report == Report::Ready {
                self.was_ready = true;
                self.ready_by = None;
            }
            self.outbox.push_back(report);
        }
        for (timer, after) in self.turnout.timers.drain(..) {
            self.timers.change(timer, after);
        }
        for errand in std::mem::take(&mut self.turnout.errands) {
            let key = errand.key.clone();
            if let Err(fault) = self.errands.begin(errand) {
                self.translator.errand_done(&key, Err(*fault), &mut self.turnout);
                // It answers the agent, and asks for nothing more.
                self.turnout.errands.clear();
            }
        }
        for write in self.turnout.writes.drain(..) {
            self.unwritten += write.bytes.len();
            self.writes.push_back(write);
        }
        if self.unwritten > UNREAD && self.input.is_some() {
            let unread = format!("it has left {} MiB of what it was told unread", UNREAD >> 20);
            self.end_for(ExitReason::Misbehaved, &unread);
            // Its end closes this too; until then nothing more may pile up.
            self.close_input();
        }
        self.close_when_written |= std::mem::take(&mut self.turnout.closes_input);
        if let Some(fault) = self.turnout.fault.take() {
            self.end_for(ExitReason::Misbehaved, &fault);
        }
        if self.input.is_none() {
            self.refuse_writes("the agent does not read its input any more");
        }
    }

    fn take_line(&mut self, line: Line<'_>) {
        counters::LINES.add(1);
        match line {
            Line::Text(text) => match limits::check_depth(text.as_bytes(), limits::MAX_DEPTH) {
                Ok(()) => self.consult(|translator, out| translator.line(text, out)),
                Err(error) => self.unreadable(text.as_bytes(), &error.to_string()),
            },
            Line::NotUtf8(bytes) => self.unreadable(bytes, "it is not UTF-8"),
            Line::TooLong { length, .. } => {
                counters::TOO_LONG.add(1);
                let text = format!(
                    "{} sent a line of {length} bytes, which was skipped; at most {} are taken. It begins: {}",
                    self.agent,
                    self.max_line,
                    line.head()
                );
                self.turnout.event(Event::Notice { level: Level::Warning, text });
                self.absorb();
            }
        }
    }

    fn unreadable(&mut self, line: &[u8], why: &str) {
        self.turnout.unreadable(&self.agent, line, why);
        self.absorb();
    }

    fn instruct(&mut self, instruction: Instruction) {
        if let Order::SetEnvironment(variables) = &instruction.order
            && let Err(refused) =
                variables.iter().try_for_each(|(name, value)| environment::admit(name, value))
        {
            self.turnout.rejected(instruction.ticket, refused.to_string());
            self.absorb();
            return;
        }
        self.consult(|translator, out| translator.instruct(instruction, out));
    }

    fn flood_check(&mut self, skipped: u64) {
        if skipped > FLOOD {
            self.end_for(
                ExitReason::Misbehaved,
                &format!("it wrote a line of more than {} MiB", FLOOD >> 20),
            );
        }
    }

    // ------------------------------------------------------------------------------------ the rest

    /// The agent is gone: what it had still said, and what of it waits for room.
    async fn drain(&mut self, lines: &mut Source) {
        self.refuse_unread();
        self.absorb();
        self.input = None;
        self.refuse_writes("the agent has ended");
        let mut left = LARGEST_PIPE;
        loop {
            while let Some(line) = lines.buffered() {
                self.take_line(line);
                self.send_all().await;
            }
            let open = self.silent_until.is_none() && left > 0;
            if !open || !matches!(timeout(DRAIN, lines.fill()).await, Ok(Filled::More)) {
                break;
            }
            left = left.saturating_sub(4096);
        }
        if let Some(line) = lines.finish() {
            self.take_line(line);
        }
        let dropped = self.turnout.unreadable.saturating_sub(UNREADABLE_KEPT);
        if dropped > 0 {
            let text =
                format!("{} sent {dropped} more lines that we cannot read; they were not kept", self.agent);
            self.turnout.event(Event::Notice { level: Level::Warning, text });
            self.absorb();
        }
        self.send_all().await;
    }

    /// What never came to be written is refused, so that nobody has to wonder whether it was.
    async fn refuse_rest(&mut self, instructions: &mut mpsc::Receiver<Instruction>) {
        instructions.close();
        while let Ok(Instruction { ticket, .. }) = instructions.try_recv() {
            self.turnout.rejected(ticket, "the agent has ended");
        }
        self.absorb();
        self.send_all().await;
    }

    async fn send_all(&mut self) {
        self.deliver();
        while let Some(report) = self.outbox.pop_front() {
            if self.reports.send(report).await.is_err() {
                self.outbox.clear();
            }
        }
    }
}

/// Reads what nobody wants, until its end.
async fn swallow(mut output: ChildStdout) {
    let mut nowhere = vec![0; 4096];
    while matches!(output.read(&mut nowhere).await, Ok(1..)) {}
}
