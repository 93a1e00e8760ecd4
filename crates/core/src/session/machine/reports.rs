//! Reports: what the agent did, and its effect on the session.

use std::time::Duration;

use serde_json::Value;

use super::{Machine, RESTARTS, Want, budgets::Moment, memory::Running, requests::Opened};
use crate::{
    Actor, Event, Generation, Millis, Refusal, RefusalCode, Seq,
    command::{ActionName, Stage},
    event::{AgentStart, Exit, ExitReason, ItemKind, Level, Setting, TurnOrigin, TurnOutcome, TurnResult},
    log::Book,
    ports::{InstructionId, Order, Report},
    request::Outcome,
    session::{
        settle::{self, Reach, receipt},
        state::{OpenCommand, State},
    },
};

impl Machine {
    /// Handles a report of the agent.
    pub fn report(&mut self, book: &mut Book<State>, now: Millis, report: Report) {
        match report {
            Report::Started { pid, version, holder, protocol, capabilities } => {
                let generation = book.state().generation;
                let started = AgentStart { generation, pid, version, holder, protocol, capabilities };
                book.append(now, None, Event::AgentStarted(started));
            }
            Report::Ready => self.ready(book, now),
            Report::Event { event, raw } => self.event(book, now, event, raw),
            Report::CutOff { item, model } => self.cut_off(book, now, &item, model),
            Report::TurnStarted { origin } => {
                Self::turn_started(book, now, origin);
                self.weigh(book, now, Moment::TurnStarted);
            }
            Report::TurnEnded { result, raw } => self.turn_ended(book, now, result, raw),
            Report::RequestOpened { key, ask, parent, tool, raw } => {
                self.open_request(book, now, Opened { key, ask: *ask, parent, tool, raw });
            }
            Report::Unasked { key, ask, parent, tool, doer, raw } => {
                self.check(book, now, doer, Opened { key, ask: *ask, parent, tool, raw });
            }
            Report::RequestWithdrawn { key } => self.withdrawn(book, now, &key),
            Report::Delivered(InstructionId(seq)) => {
                let sending = |open: &OpenCommand| open.seq.0 == seq && open.stage == Stage::Sending;
                if book.state().commands.iter().any(sending) {
                    receipt(book, now, Seq(seq), Stage::Delivered);
                }
            }
            Report::Consumed { instruction_id, result } => self.consumed(book, now, instruction_id, result),
            Report::Rejected { instruction_id, error } => {
                self.settle(book, instruction_id);
                let refusal = Refusal::new(RefusalCode::AgentRefused, error);
                receipt(book, now, Seq(instruction_id.0), Stage::Refused { refusal });
                self.pump(book, now);
            }
            Report::Uncertain { instruction_id, reason } => {
                self.uncertain(book, now, instruction_id, reason);
            }
            Report::Missing { reports } => {
                let text = format!(
                    "{reports} reports of the agent are missing here: the file that kept them while no daemon ran is \
                     damaged"
                );
                book.append(now, None, Event::Notice { level: Level::Warning, text });
            }
            Report::Remark { level, text } => {
                book.append(now, None, Event::Notice { level, text });
            }
            Report::LinkLost { reason } => {
                book.append(now, None, Event::LinkLost { reason });
            }
            Report::LinkRestored => {
                book.append(now, None, Event::LinkRestored);
            }
            Report::Exited(exit) => self.exited(book, now, exit),
        }
    }

    /// Handles an event of the agent.
    fn event(&mut self, book: &mut Book<State>, now: Millis, mut event: Event, raw: Option<bytes::Bytes>) {
        match &mut event {
            // A reset of an empty conversation loses nothing.
            Event::ConversationReset { reason: Some(_), .. } if nothing_was_said(book.state()) => return,
            Event::SettingChanged { setting: Setting::Mode { mode } } => {
                let mode = std::mem::take(mode);
                if let Some(event) = self.take_changed_mode(book, now, mode) {
                    take_event(book, now, event, raw);
                }
                return;
            }
            Event::AgentInfo { info } => {
                **info = self.take_mode_of(book, now, std::mem::take(&mut **info));
            }
            Event::Failure { recoverable: false, .. } if self.memory.running == Running::Starting => {
                self.memory.hopeless = true;
            }
            _ => {}
        }
        let used = matches!(event, Event::Usage { context_only: false, .. });
        if let Some(event) = self.memory.parts().rename(book, now, event) {
            take_event(book, now, event, raw);
        }
        if used {
            self.weigh(book, now, Moment::Other);
        }
    }

    fn withdrawn(&mut self, book: &mut Book<State>, now: Millis, key: &str) {
        let request = self.memory.keys.iter().find(|(_, open)| *open == key).map(|(request, _)| *request);
        // An agent that is being ended withdraws its requests. The agent did not decide that: its end closes the
        // request, and says why.
        if let Some(request) = request.filter(|_| !self.is_stopping()) {
            self.close_request(book, now, request, Outcome::Withdrawn);
        }
    }

    fn uncertain(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        instruction_id: InstructionId,
        reason: String,
    ) {
        self.settle(book, instruction_id);
        let seq = Seq(instruction_id.0);
        let underway =
            |open: &OpenCommand| open.seq == seq && matches!(open.stage, Stage::Sending | Stage::Delivered);
        if book.state().commands.iter().any(underway) {
            receipt(book, now, seq, Stage::Uncertain { reason });
        }
        self.pump(book, now);
    }

    fn cut_off(&mut self, book: &mut Book<State>, now: Millis, item: &str, wrote: Option<String>) {
        let name = self.memory.parts.name_of(item);
        let Some(open) = book.state().items.iter().find(|open| open.item == name) else { return };
        let mut ended = settle::finished(open, settle::Ended::CutOff);
        if let Event::Message { model, .. } = &mut ended {
            *model = wrote;
        }
        book.append(now, None, ended);
    }

    fn ready(&mut self, book: &mut Book<State>, now: Millis) {
        if self.memory.running != Running::Starting {
            return;
        }
        self.memory.running = Running::Ready;
        let generation = book.state().generation;
        book.append(now, None, Event::AgentReady { generation });
        let resumes: Vec<_> = book
            .state()
            .commands
            .iter()
            .filter(|open| open.name == ActionName::Resume)
            .map(|open| open.seq)
            .collect();
        for seq in resumes {
            receipt(book, now, seq, Stage::Consumed { result: None });
        }
        if generation == Generation(1) {
            Self::say_unpriced(book, now);
        }
        if generation > Generation(1)
            && let Some(tokens) = book.state().thinking
        {
            // No start accepts this as an option. No command waits for it: its instruction's id is the entry of this start.
            self.tell(book, InstructionId(book.head().0), Order::SetThinking(Some(tokens)), None);
        }
        self.pump(book, now);
    }

    fn turn_started(book: &mut Book<State>, now: Millis, origin: TurnOrigin) {
        if book.state().turn.is_some() {
            return;
        }
        let turn = book.state().summary.turns + 1;
        book.append(now, None, Event::TurnStarted { turn, origin });
    }

    fn turn_ended(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        result: Box<TurnResult>,
        raw: Option<bytes::Bytes>,
    ) {
        // An end without a beginning still counts.
        Self::turn_started(book, now, TurnOrigin::Agent);
        settle::close_work(book, now, Reach::Foreground);
        self.memory.parts().forget_closed(book.state());
        let turn = book.state().summary.turns;
        if self.memory.led.is_some() || !self.memory.allowed.is_empty() {
            self.memory.led = None;
            self.memory.allowed.clear();
        }
        if result.outcome == TurnOutcome::Completed && self.memory.restarts > 0 {
            self.memory.restarts = 0;
        }
        book.append_raw(now, None, Event::TurnEnded { turn, result }, raw);
        self.pump(book, now);
    }

    fn consumed(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        instruction_id: InstructionId,
        result: Option<Value>,
    ) {
        let seq = Seq(instruction_id.0);
        if let Some(setting) = self.settle(book, instruction_id) {
            let by = book.state().commands.iter().find(|open| open.seq == seq).map(|open| open.by.clone());
            book.append(now, by, Event::SettingChanged { setting });
        }
        receipt(book, now, seq, Stage::Consumed { result });
        self.pump(book, now);
    }

    fn exited(&mut self, book: &mut Book<State>, now: Millis, exit: Exit) {
        let asked_to = self.memory.running == Running::Stopping;
        let was_ready = self.memory.running == Running::Ready;
        self.memory.running = Running::No;
        self.memory.keys.clear();
        self.memory.led = None;
        self.memory.allowed.clear();
        self.forget_told(book);
        let failed = exit.reason.is_error();
        let rest = self.memory.rest.take().filter(|_| asked_to && !failed);
        let exit = match rest {
            Some(rest) => Exit { reason: ExitReason::Idle, message: rest.words(), ..exit },
            None => exit,
        };
        settle::agent_ended(book, now, exit);
        self.memory.parts().forget_closed(book.state());
        if std::mem::take(&mut self.memory.again) {
            self.memory.restarts = 0;
            return self.start_agent();
        }
        let can_resume =
            book.state().capabilities.session_resume && book.state().summary.agent_session.is_some();
        if !failed
            || asked_to
            || self.shutting_down
            || !(was_ready || self.memory.restarts > 0)
            || !can_resume
        {
            return;
        }
        if self.memory.hopeless {
            let text = "the agent cannot resume its conversation and stays stopped; its own message says why";
            book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text: text.into() });
            return;
        }
        if self.memory.restarts == RESTARTS {
            let text = format!(
                "the agent failed {RESTARTS} times in a row and stays stopped; resume the session to try again"
            );
            book.append(now, Some(Actor::Daemon), Event::Notice { level: Level::Warning, text });
            return;
        }
        self.memory.running = Running::Starting;
        let after = Duration::from_secs(1 << (2 * self.memory.restarts));
        self.memory.restarts += 1;
        self.wants.push(Want::Start { after });
    }
}

/// No turn ran, and no conversation was to be resumed.
fn nothing_was_said(state: &State) -> bool {
    state.summary.turns == 0 && state.spec.resume.is_none() && state.spec.fork.is_none()
}

/// Handles an event that the agent reports.
fn take_event(book: &mut Book<State>, now: Millis, event: Event, raw: Option<bytes::Bytes>) {
    match &event {
        // Text for an item that was never announced, or is finished, still counts.
        Event::Delta { item, .. } if !book.state().items.iter().any(|open| open.item == *item) => {
            let kind = ItemKind::Text;
            book.append(
                now,
                None,
                Event::ItemStarted { item: item.clone(), kind, message: None, parent: None },
            );
        }
        Event::ItemStarted { item, .. } if book.state().items.iter().any(|open| open.item == *item) => return,
        _ => {}
    }
    book.append_raw(now, None, event, raw);
}
