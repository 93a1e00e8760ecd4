//! The task that owns a session: only this task appends to the session's log and talks to its agent.
//!
//! The task waits for mail, for its agent's reports and for time, lets the [`Machine`] decide, publishes the appended
//! entries, and sends the agent the instructions whose entries are visible. All decisions are in the machine.

mod budgets;
mod ending;
mod judging;
mod mail;
mod origin;
mod publishing;
mod starting;
mod waiting;

use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use self::waiting::{asked_for, board, has_room, looked, refused, take_reports, visible};
pub(crate) use self::{
    judging::Ground,
    mail::{AgentsAtShutdown, Handle, MAILBOX, Mail},
    origin::{DELETED, ORIGINS, Origin, copied_upto},
};
use super::{
    chunks::Chunks,
    crew::{Berth, Crew},
    machine::{Machine, Rest},
    marks::Marks,
    spending::Used,
    state::{State, Summary},
    stop_handle::StopHandle,
};
use crate::{
    Action, LogId, Millis, Refusal, RefusalCode, RequestId, Seq, SessionId,
    command::CommandKey,
    event::{Exit, ExitReason},
    log::{Writer, delivery::Closed},
    policy::{Facts, RuleSet, Spending},
    ports::{Agent, AgentLink, Boxed, Clock, Report, StoreError, StoreHealth},
    registry::{
        Daemon, LiveSessionsRef,
        ledger::{Ledger, User},
        lent::LentBySession,
    },
};

/// How many reports are taken at once: one fold, one publication, one wake-up of the readers.
const REPORT_BATCH: usize = 64;

/// After this time without an entry the ring is emptied.
const RELEASE_AFTER: Duration = Duration::from_secs(1);

/// How often a session without an agent checks whether anybody still reads it.
const FORGET_AFTER: Duration = Duration::from_secs(15);

/// The state is stored every so many entries, so that opening the session need not read all of its log.
const CHECKPOINT_EVERY: u64 = 1024;

/// How often a session that waits for the store checks whether it may continue: a failure is announced sooner, a single
/// commit is not announced at all.
const HELD_LOOK: Duration = Duration::from_millis(20);

/// A store that owes a commit for this long has stalled (its disk is busy with other work): nothing more is shown until
/// it has caught up. Together with [`CHUNK_DELAY`](super::chunks::CHUNK_DELAY) this makes the 250 ms of an unfinished
/// item that a kill may cost.
const STALLED_AFTER: Duration = Duration::from_millis(75);

/// The session's line in lists is written at most this often if only its time has changed.
const SUMMARY_EVERY: i64 = 1000;

/// How the task must end.
#[derive(Debug)]
enum Ending {
    ShutDown { deadline: Instant, agents: AgentsAtShutdown, reply: oneshot::Sender<()> },
    Delete { reply: oneshot::Sender<()> },
}

pub(crate) struct Task {
    pub(crate) id: SessionId,
    pub(crate) log: Writer<State>,
    pub(crate) mailbox: mpsc::Receiver<Mail>,
    pub(crate) machine: Machine,
    pub(crate) origin: Origin,
    pub(crate) agent: Option<Arc<dyn Agent>>,
    pub(crate) clock: Clock,
    pub(crate) daemon: Daemon,
    pub(crate) live_sessions: LiveSessionsRef,
    pub(crate) stop_handle: StopHandle,
    pub(crate) held: watch::Receiver<HashMap<CommandKey, u32>>,
    pub(crate) crew: Crew,
    /// After this time with nothing to do the agent is ended.
    pub(crate) idle_after: Option<Duration>,
    /// The line in lists that the daemon's log and the store have.
    pub(crate) published: Summary,
    /// The agent, if an earlier daemon left it running, and the number of its recorded reports.
    pub(crate) rejoined: Option<(AgentLink, u64)>,
    /// The daemon's rules.
    pub(crate) rules: watch::Receiver<Arc<RuleSet>>,
    /// The rules that frontends have lent, by session.
    pub(crate) lent: watch::Receiver<LentBySession>,
    /// Where policy looks for files.
    pub(crate) ground: Ground,
    /// What all sessions use, and who this session is there.
    pub(crate) ledger: Ledger,
    pub(crate) user: User,
}

/// What the loop keeps besides the task's parts.
struct Working {
    link: Option<AgentLink>,
    /// Reports that wait for what is known of the disk.
    unfolded: VecDeque<Report>,
    /// The look at the disk for the first of them.
    looking: Option<Boxed<'static, Facts>>,
    /// The number of recorded reports, if the agent's link asks for it.
    marks: Option<Marks>,
    /// A mark is due, even if nothing else is to be written.
    mark_now: bool,
    /// The right to run the agent.
    berth: Option<Berth>,
    /// A start that waits for a berth.
    boarding: Option<Boxed<'static, Result<Berth, Refusal>>>,
    /// Since when the agent has nothing to do, if it may be ended then.
    resting: Option<Instant>,
    chunks: Chunks,
    chunks_due: Option<Instant>,
    start_due: Option<Instant>,
    release_due: Option<Instant>,
    /// When the last entry was appended.
    appended: Instant,
    forget_due: Option<Instant>,
    /// An instruction that the agent had no room for.
    blocked: bool,
    published: Summary,
    requests: Vec<(RequestId, Option<Millis>)>,
    /// The rules that this session has noted: later ones may be news for its agent.
    noted: Arc<RuleSet>,
    /// What the ledger was told last.
    used: Option<Used>,
    /// The day and its sum that the store was told last.
    row: Option<(i64, Spending)>,
    checkpoint: Seq,
    ending: Option<Ending>,
    /// Nobody is left who could send messages.
    abandoned: bool,
}

impl Task {
    /// Runs until the session is shut down, deleted, or forgotten.
    pub(crate) async fn run(mut self) {
        let head = self.log.head();
        // The daemon's log was compared with these requests before the session was opened.
        let requests = publishing::waiting(&self.log.state());
        let chunks = Chunks::restored(&self.log.state());
        let mut working = Working {
            link: None,
            unfolded: VecDeque::new(),
            looking: None,
            marks: None,
            mark_now: false,
            berth: None,
            boarding: None,
            resting: None,
            chunks,
            chunks_due: None,
            start_due: None,
            release_due: None,
            appended: Instant::now(),
            forget_due: Some(Instant::now() + FORGET_AFTER),
            blocked: false,
            published: self.published.clone(),
            requests,
            noted: Arc::clone(&self.rules.borrow()),
            used: None,
            row: None,
            checkpoint: head,
            ending: None,
            abandoned: false,
        };
        if let Some((link, recorded)) = self.rejoined.take() {
            let berth = self.crew.berth_of_running(self.id);
            self.hold_link(&mut working, link, berth, recorded);
        }
        if let Err(error) = self.work(&mut working).await {
            tracing::error!(%error, "the session cannot be recorded and ends");
            self.log.close(Closed::Failed);
            self.live_sessions.remove(self.id);
        }
        match working.ending {
            Some(Ending::ShutDown { reply, .. } | Ending::Delete { reply }) => {
                // The caller may have left; the work is done anyway.
                let _ = reply.send(());
            }
            None => {}
        }
    }

    async fn work(&mut self, working: &mut Working) -> Result<(), StoreError> {
        let (mut tips, mut closings) = (self.log.tips(), self.log.tips());
        let (mut health, mut held_back) = (self.log.store().health(), self.held.clone());
        let (mut spent, mut changed_rules) = (self.ledger.changes(), self.rules.clone());
        self.look_at_budgets(working);
        let mut reports = Vec::with_capacity(REPORT_BATCH);
        self.publish(working).await?;
        // Made once, and reset only when it must ring at another time: otherwise it would be reset for every batch.
        let mut alarm = pin!(sleep_until(Instant::now()));
        loop {
            let due = self.next_due(working);
            if let Some(due) = due
                && due != alarm.deadline()
            {
                alarm.as_mut().reset(due);
            }
            let held = self.is_held(working, &health);
            let Working { link, blocked, abandoned, berth, boarding, resting, looking, .. } = working;
            let looks = looking.is_some();
            let boards = boarding.is_some();
            let room = berth.as_ref().filter(|_| resting.is_some()).map(Berth::make_room);
            let linked = link.is_some();
            let (reports_in, instructions) = match link {
                Some(link) => (Some(&mut link.reports), blocked.then(|| link.instructions.clone())),
                None => (None, None),
            };
            tokio::select! {
                mail = self.mailbox.recv(), if !*abandoned => {
                    if let Some(mail) = mail {
                        self.open_mail(working, mail);
                    } else {
                        // The registry and every reader were dropped: nobody can ask for anything any more.
                        working.abandoned = true;
                        self.machine.shut_down();
                        self.machine.end();
                    }
                }
                count = take_reports(reports_in, &mut reports), if linked && !held && !looks => {
                    if count == 0 {
                        // The link's last report is its exit; a link that closes without one has broken its promise.
                        reports.push(Report::Exited(lost_exit(
                            "internal error: the connection to the agent ended without a report; please report it",
                        )));
                    }
                    self.take_reports(working, &mut reports);
                }
                facts = looked(looking), if looks => {
                    working.looking = None;
                    self.judge_first(working, facts);
                }
                Ok(()) = health.changed(), if held => {}
                Ok(()) = held_back.changed() => self.hold_prompts(),
                Ok(()) = spent.changed() => self.look_at_budgets(working),
                Ok(()) = changed_rules.changed() => self.note_rules(working),
                () = tokio::time::sleep(HELD_LOOK), if held => {}
                () = has_room(instructions), if *blocked => working.blocked = false,
                boarded = board(boarding), if boards => {
                    working.boarding = None;
                    self.start_now(working, boarded);
                }
                () = asked_for(room) => {
                    let limit = self.crew.limit().unwrap_or_default();
                    self.machine.put_to_rest(&self.log.state(), Rest::Room(limit));
                }
                () = visible(&mut tips, self.machine.has_instructions() && !*blocked) => {}
                () = refused(&mut closings) => {
                    return Err(StoreError::Failed("the store refused an entry".into()));
                }
                () = &mut alarm, if due.is_some() => self.on_time(working),
            }
            self.publish(working).await?;
            self.look_for_rest(working);
            if self.has_ended(working).await? {
                return Ok(());
            }
        }
    }

    /// Tracks since when the agent has nothing to do. Readers do not change that.
    fn look_for_rest(&self, working: &mut Working) {
        if self.machine.is_stopping() {
            // Another session that waits for this berth waits for the agent's end.
            return;
        }
        let rests = working.link.is_some() && self.machine.may_rest(&self.log.state());
        if rests == working.resting.is_some() {
            return;
        }
        working.resting = rests.then(Instant::now);
        if let Some(berth) = &mut working.berth {
            berth.rests(working.resting);
        }
    }

    /// A store that cannot write, or not now, keeps its queued writes, but a kill would lose them. So nothing more is
    /// read from the agent, and nothing more is shown, until those writes are committed. An agent that must end may
    /// end.
    fn is_held(&self, working: &Working, health: &watch::Receiver<StoreHealth>) -> bool {
        let Some(since) = self.log.owed_since() else { return false };
        let stuck = *health.borrow() != StoreHealth::Good || since.elapsed() >= STALLED_AFTER;
        stuck && working.ending.is_none() && !self.machine.is_stopping()
    }

    /// Applies the current set of held prompts.
    fn hold_prompts(&mut self) {
        if self.held.has_changed().unwrap_or(true) {
            let held = self.held.borrow_and_update().keys().cloned().collect();
            self.machine.hold(&mut self.log.book(), self.clock.now(), held);
        }
    }

    fn open_mail(&mut self, working: &mut Working, mail: Mail) {
        // A holder registers a prompt before it sends the prompt.
        self.hold_prompts();
        match mail {
            Mail::Command { command, reply } => {
                let now = self.clock.now();
                let environment = match &command.action {
                    Action::SetEnvironment { variables } => Some(variables.clone()),
                    _ => None,
                };
                if let Some(refusal) = environment.as_ref().and_then(|added| self.refuse_environment(added)) {
                    // The sender may have left; nothing has changed.
                    let _ = reply.send(Err(refusal));
                    return;
                }
                let mut book = self.log.book();
                let result = self.machine.command(&mut book, now, *command);
                if let (Some(variables), Ok(_)) = (environment, &result) {
                    self.origin.spec.env.extend(variables);
                    book.also(self.origin.record(self.id));
                }
                drop(book);
                // The sender may have left; the command is in the log anyway.
                let _ = reply.send(result);
            }
            Mail::Begin => self.machine.begin(),
            Mail::Again { key, reply } => {
                let started = self.machine.send_parked(&self.log.state(), key.as_ref());
                // The sender may have left; the agent starts anyway.
                let _ = reply.send(started);
            }
            Mail::ShutDown { grace, agents, reply } => {
                self.machine.shut_down();
                let deadline = Instant::now() + grace;
                working.ending.get_or_insert(Ending::ShutDown { deadline, agents, reply });
            }
            Mail::Delete { reply } => {
                self.machine.shut_down();
                self.machine.end();
                working.ending = Some(Ending::Delete { reply });
            }
        }
    }

    /// Why the agent would no longer start with these variables. The agent is asked before the variables are kept,
    /// because every later start uses them.
    fn refuse_environment(&self, added: &indexmap::IndexMap<String, String>) -> Option<Refusal> {
        let mut spec = self.origin.spec.clone();
        spec.env.extend(added.clone());
        let why = self.agent.as_ref()?.environment(&spec).err()?;
        Some(Refusal::new(RefusalCode::Invalid, why))
    }

    fn take_reports(&mut self, working: &mut Working, reports: &mut Vec<Report>) {
        working.unfolded.extend(reports.drain(..));
        self.fold_reports(working);
    }

    /// Folds the reports that came, up to a request for which the disk must be looked at first.
    fn fold_reports(&mut self, working: &mut Working) {
        loop {
            let is_request =
                |report: &Report| matches!(report, Report::RequestOpened { .. } | Report::Unasked { .. });
            let before = working.unfolded.iter().position(is_request);
            self.fold_first(working, before.unwrap_or(working.unfolded.len()));
            let Some(request) = working.unfolded.front() else { return };
            if let Some(looking) = self.look_for(request) {
                working.looking = Some(looking);
                return;
            }
            self.fold_first(working, 1);
        }
    }

    /// Folds this many reports.
    fn fold_first(&mut self, working: &mut Working, count: usize) {
        let now = self.clock.now();
        if let Some(marks) = &mut working.marks {
            working.unfolded.iter().take(count).for_each(|report| marks.fold(report));
        }
        self.machine.know_rules(Arc::clone(&self.rules.borrow()));
        let mut book = self.log.book();
        for report in working.unfolded.drain(..count) {
            if let Report::Exited(exit) = &report {
                tracing::info!(reason = ?exit.reason, code = exit.code, "agent ended");
                working.link = None;
                working.berth = None;
                working.blocked = false;
                self.stop_handle.let_go();
            }
            self.machine.report(&mut book, now, report);
        }
    }

    fn on_time(&mut self, working: &mut Working) {
        let now = Instant::now();
        let is_due = |due: &mut Option<Instant>| due.take_if(|due| *due <= now).is_some();
        if is_due(&mut working.chunks_due) {
            working.chunks.flush(LogId::Session(self.id), &mut self.log.book());
            working.mark_now = true;
        }
        if is_due(&mut working.start_due) {
            self.start_agent(working);
        }
        if is_due(&mut working.release_due) {
            // Set at the first entry of a busy period and not moved by each later one.
            let quiet_at = working.appended + RELEASE_AFTER;
            if quiet_at > now {
                working.release_due = Some(quiet_at);
            } else {
                self.log.release();
            }
        }
        if let (Some(since), Some(after)) = (working.resting, self.idle_after)
            && now >= since + after
        {
            self.machine.put_to_rest(&self.log.state(), Rest::Idle(after));
        }
        let clock = self.clock.now();
        self.machine.expire(&mut self.log.book(), clock);
        if self.waits_for_a_day() {
            self.look_at_budgets(working);
        }
    }

    fn next_due(&self, working: &Working) -> Option<Instant> {
        let request = Machine::next_deadline(&self.log.state()).map(|deadline| {
            let wait = deadline.0.saturating_sub(self.clock.now().0).max(0);
            Instant::now() + Duration::from_millis(wait.unsigned_abs())
        });
        let grace = match &working.ending {
            Some(Ending::ShutDown { deadline, .. }) if !self.machine.is_stopping() => Some(*deadline),
            _ => None,
        };
        let rest = working.resting.zip(self.idle_after).map(|(since, after)| since + after);
        let dues = [
            working.chunks_due,
            working.start_due,
            working.release_due,
            working.forget_due,
            request,
            self.next_day(),
            grace,
            rest.filter(|_| !self.machine.is_stopping()),
        ];
        dues.into_iter().flatten().min()
    }
}

fn lost_exit(message: &str) -> Exit {
    Exit {
        reason: ExitReason::Failed,
        code: None,
        signal: None,
        message: message.to_owned(),
        stderr: String::new(),
    }
}
