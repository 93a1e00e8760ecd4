//! One agent's life: from its start to its last report.

use std::{
    collections::VecDeque,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
};

use portolan_core::{
    Event,
    event::{Exit, ExitReason, Level},
    ports::{Instruction, Order, Report},
};
use tokio::{
    sync::mpsc,
    time::{Duration, Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Desk, Output, Translator, UNREADABLE_KEPT, Write,
    ending::Rung,
    outgoing::{Unread, write_some},
    tasks::DriverTasks,
    timers::Timers,
};
use crate::{
    Supervision,
    child::{Child, Ladder, Pipes, environment, processes::Process},
    counters,
    link::{Arrival, Ends, Inbound, Input, Link, Source},
};

/// Bytes that wait to be written to the agent. Beyond this the agent does not read; no further instruction is taken
/// until it does.
const UNWRITTEN: usize = 1024 * 1024;

/// An agent that has left this much unread will not read it: it is ended. Portolan answers its requests, so otherwise
/// an agent that asks and never reads would fill the memory with answers. A few large files fit.
const UNREAD: usize = 64 * 1024 * 1024;

/// A line of this length is not a mistake but a flood: the agent is ended.
const FLOOD: u64 = 256 * 1024 * 1024;

/// An agent that has closed its output sends nothing more; if it goes on running, it is ended.
const SILENT: Duration = Duration::from_secs(5);

/// When the agent and all its processes are gone, the rest in the pipe is readable at once.
const DRAIN: Duration = Duration::from_millis(500);

/// At most this much is left in a pipe.
const LARGEST_PIPE: usize = 1024 * 1024;

/// How a session ends its agent.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) stop: CancellationToken,
    pub(super) kill: CancellationToken,
}

/// The state of a running agent, except its process and its output.
pub(super) struct Driver {
    pub(super) agent: String,
    pub(super) translator: Box<dyn Translator>,
    pub(super) output: Output,
    /// Reports that wait for room. While there is one, the agent's output is not read.
    pub(super) outbox: VecDeque<Report>,
    pub(super) reports: mpsc::Sender<Report>,
    /// The session is gone and wants no reports.
    pub(super) abandoned: bool,
    pub(super) writes: VecDeque<Write>,
    /// How much of the first write is written.
    pub(super) written: usize,
    pub(super) unwritten: usize,
    /// How much was ever written.
    pub(super) position: u64,
    /// Messages that were written and are consumed once they are read, oldest first.
    pub(super) unread: VecDeque<Unread>,
    /// Where writes go; absent once it is closed.
    pub(super) input: Option<Box<dyn Input>>,
    /// The link has reported a connection, and no loss since.
    pub(super) is_connected: bool,
    /// When a lost connection must be back.
    pub(super) link_by: Option<Instant>,
    pub(super) link_within: Duration,
    /// How often the process is looked for.
    pub(super) look_every: Duration,
    pub(super) timers: Timers,
    tasks: DriverTasks,
    pub(super) ladder: Ladder,
    pub(super) rung: Rung,
    pub(super) next_rung: Option<Instant>,
    pub(super) close_when_written: bool,
    pub(super) ready_within: Duration,
    pub(super) ready_by: Option<Instant>,
    pub(super) was_ready: bool,
    pub(super) silent_until: Option<Instant>,
    /// Why Portolan ends the agent, if it does.
    pub(super) ending: Option<(ExitReason, String)>,
    pub(super) max_line: usize,
    /// The processes that the agent started, as seen before it was asked to end.
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
            output: Output::default(),
            outbox: [started].into(),
            reports,
            abandoned: false,
            writes: VecDeque::new(),
            written: 0,
            unwritten: 0,
            position: 0,
            unread: VecDeque::new(),
            input: None,
            is_connected: false,
            link_by: None,
            link_within: supervision.link_down,
            look_every: supervision.liveness,
            timers: Timers::default(),
            tasks: DriverTasks::default(),
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

    /// Adds a desk for tasks.
    pub(super) fn with_desk(mut self, desk: Option<Box<dyn Desk>>) -> Self {
        self.tasks = DriverTasks::at(desk);
        self
    }

    /// Runs the agent until its end; sends everything but the last report.
    pub(super) async fn run(
        mut self,
        child: Child,
        pipes: Pipes,
        link: Box<dyn Link>,
        mut instructions: mpsc::Receiver<Instruction>,
        tokens: Tokens,
    ) -> Exit {
        counters::STARTED.add(1);
        self.ready_by = Some(Instant::now() + self.ready_within);
        let Ends { mut source, input } = link.open(pipes, self.max_line);
        self.input = Some(input);
        self.consult(|translator, out| translator.start(out));
        self.supervise(&child, &mut *source, &mut instructions, tokens).await;
        self.tasks.close().await;

        let stragglers = std::mem::take(&mut self.stragglers);
        let (status, stderr) = child.end(stragglers).await;
        self.drain(&mut *source).await;
        self.refuse_rest(&mut instructions).await;
        self.exit(status.ok(), stderr)
    }

    /// Runs until the process has ended.
    async fn supervise(
        &mut self,
        child: &Child,
        source: &mut dyn Source,
        instructions: &mut mpsc::Receiver<Instruction>,
        tokens: Tokens,
    ) {
        let (reports, mut more_wanted) = (self.reports.clone(), true);
        // Made once: otherwise each of these is made again for every line.
        let mut stopped = pin!(tokens.stop.cancelled());
        let mut killed = pin!(tokens.kill.cancelled());
        let mut ended = pin!(child.ended());
        let mut gone = pin!(reports.closed());
        let mut alive_at = Instant::now() + self.look_every;
        loop {
            self.deliver();
            while self.outbox.is_empty()
                && self.due_rung().is_none()
                && let Some(arrival) = source.next_arrival()
            {
                self.arrive(arrival);
                self.deliver();
            }
            // After the arrivals: a lost link makes uncertain what the clock would settle here.
            self.settle_read();
            self.deliver();
            self.flood_check(source.skipped());
            // Before any wait: the last arrival may be the reason.
            if let Some(rung) = self.due_rung() {
                self.climb(rung, child).await;
            }
            self.close_input_when_written();
            let wake = self.next_wake().unwrap_or(alive_at).min(alive_at);
            let accepting = more_wanted
                && self.rung == Rung::Running
                && self.unwritten < UNWRITTEN
                && !self.timers.is_full();
            // Every arm is cancel-safe: an unfinished arm has no effect.
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
                written = write_some(&mut self.input, &self.writes, self.written), if !self.writes.is_empty() => {
                    self.wrote(written);
                }
                Some((key, done)) = self.tasks.next(), if self.tasks.any() => {
                    self.consult(|translator, out| translator.task_done(&key, done, out));
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
                // Arrivals are taken above, before anything else.
                () = more(source), if self.outbox.is_empty() && self.silent_until.is_none() => {}
            }
        }
    }

    // -------------------------------------------------------------------------------- what comes in

    /// Runs the translator, and takes its output.
    pub(super) fn consult(&mut self, work: impl FnOnce(&mut dyn Translator, &mut Output)) {
        let (translator, output) = (&mut self.translator, &mut self.output);
        // A fault in one translator ends that agent, and the exit reports it; the fault must not prevent the last
        // report.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut **translator, output)));
        if outcome.is_err() {
            self.end_for(ExitReason::Failed, "internal error while reading its output; please report it");
        }
        self.absorb();
    }

    fn absorb(&mut self) {
        for report in self.output.reports.drain(..) {
            if report == Report::Ready {
                self.was_ready = true;
                self.ready_by = None;
            }
            self.outbox.push_back(report);
        }
        for (timer, after) in self.output.timers.drain(..) {
            self.timers.change(timer, after);
        }
        for task in std::mem::take(&mut self.output.tasks) {
            let key = task.key.clone();
            if let Err(fault) = self.tasks.begin(task) {
                self.translator.task_done(&key, Err(*fault), &mut self.output);
                // The output answers the agent, and needs no tasks any more.
                self.output.tasks.clear();
            }
        }
        for write in self.output.writes.drain(..) {
            self.unwritten += write.outbound.bytes().len();
            self.writes.push_back(write);
        }
        if self.unwritten > UNREAD && self.input.is_some() {
            let unread = format!("it left {} MiB of its input unread", UNREAD >> 20);
            self.end_for(ExitReason::Misbehaved, &unread);
            // The agent's end closes this too; until then nothing more may pile up.
            self.close_input();
        }
        self.close_when_written |= std::mem::take(&mut self.output.closes_input);
        if let Some(fault) = self.output.fault.take() {
            self.end_for(ExitReason::Misbehaved, &fault);
        }
        if self.input.is_none() {
            self.refuse_writes("the agent no longer reads its input");
        }
    }

    fn arrive(&mut self, arrival: Arrival<'_>) {
        if !arrival.is_of_the_link() {
            counters::LINES.add(1);
            // The agent's next message may be the result of something that it has read.
            self.settle_read();
        }
        match arrival {
            Arrival::Said(said) => self.hear(said),
            Arrival::Unreadable { bytes, why } => self.unreadable(bytes, why),
            Arrival::TooLong { length, head } => self.too_long(length, &head),
            Arrival::Connected => self.connected(),
            Arrival::Lost => self.link_lost(),
            Arrival::Ended => self.silent_until = Some(Instant::now() + SILENT),
        }
    }

    fn hear(&mut self, said: Inbound<'_>) {
        match said.check() {
            Ok(()) => self.consult(|translator, out| translator.hear(said, out)),
            Err(error) => self.unreadable(said.bytes(), &error.to_string()),
        }
    }

    fn too_long(&mut self, length: u64, head: &[u8]) {
        counters::TOO_LONG.add(1);
        let text = format!(
            "{} sent a line of {length} bytes, which Portolan skipped: a line has at most {} bytes. The line \
             begins: {}",
            self.agent,
            self.max_line,
            String::from_utf8_lossy(head)
        );
        self.output.event(Event::Notice { level: Level::Warning, text });
        self.absorb();
    }

    fn unreadable(&mut self, line: &[u8], why: &str) {
        self.output.unreadable(&self.agent, line, why);
        self.absorb();
    }

    fn instruct(&mut self, instruction: Instruction) {
        if let Order::SetEnvironment(variables) = &instruction.order
            && let Err(refused) =
                variables.iter().try_for_each(|(name, value)| environment::admit(name, value))
        {
            self.output.rejected(instruction.id, refused.to_string());
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

    /// The agent is gone: takes its last output, and waits for room.
    async fn drain(&mut self, source: &mut dyn Source) {
        self.refuse_unread();
        self.absorb();
        self.input = None;
        self.refuse_writes("the agent has ended");
        let mut left = LARGEST_PIPE;
        loop {
            // A link that comes or goes now has no agent any more.
            let is_over = self.take_rest(source).await || self.silent_until.is_some() || left == 0;
            if is_over || timeout(DRAIN, more(source)).await.is_err() {
                break;
            }
            left = left.saturating_sub(4096);
        }
        source.finish();
        self.take_rest(source).await;
        let dropped = self.output.unreadable.saturating_sub(UNREADABLE_KEPT);
        if dropped > 0 {
            let text = format!(
                "{} sent {dropped} more lines that Portolan cannot read; they were not kept",
                self.agent
            );
            self.output.event(Event::Notice { level: Level::Warning, text });
            self.absorb();
        }
        self.send_all().await;
    }

    /// Takes what has arrived already. `true`: the link has changed.
    async fn take_rest(&mut self, source: &mut dyn Source) -> bool {
        let mut has_changed = false;
        while let Some(arrival) = source.next_arrival() {
            has_changed |= arrival.is_of_the_link();
            self.arrive(arrival);
            self.send_all().await;
        }
        has_changed
    }

    /// Refuses messages that were never written, so that their state is certain.
    async fn refuse_rest(&mut self, instructions: &mut mpsc::Receiver<Instruction>) {
        instructions.close();
        while let Ok(Instruction { id: instruction_id, .. }) = instructions.try_recv() {
            self.output.rejected(instruction_id, "the agent has ended");
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

/// Waits for more from the agent. Cancel-safe: the source keeps what has come.
async fn more(source: &mut dyn Source) {
    poll_fn(|context| source.poll_more(context)).await;
}
