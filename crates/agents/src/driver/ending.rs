//! The end of an agent: when it is due, how it is brought about, what is reported.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use portolan_core::event::{Exit, ExitReason};
use tokio::time::Instant;

use super::run::Driver;
use crate::child::Child;

/// The current step of the stop ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    Running,
    Asked,
    InputClosed,
    Terminated,
    Killed,
}

impl Driver {
    /// The first reason is the one that is reported.
    pub(super) fn end_for(&mut self, reason: ExitReason, why: &str) {
        self.ending.get_or_insert_with(|| (reason, why.into()));
    }

    /// The step that is due now, apart from those that the clock triggers.
    pub(super) fn due_rung(&self) -> Option<Rung> {
        let (reason, _) = self.ending.as_ref()?;
        let first = match reason {
            // The agent is asked only if it can be expected to listen.
            ExitReason::Stopped => Rung::Asked,
            _ => Rung::Terminated,
        };
        (self.rung < first).then_some(first)
    }

    pub(super) async fn climb(&mut self, rung: Rung, child: &Child) {
        if rung <= self.rung {
            return;
        }
        self.rung = rung;
        let now = Instant::now();
        match rung {
            Rung::Running => {}
            Rung::Asked => {
                self.next_rung = Some(now + self.ladder.ask);
                self.stragglers = child.descendants().await;
                self.consult(|translator, out| translator.farewell(out));
            }
            Rung::InputClosed => {
                self.close_input();
                self.next_rung = Some(now + self.ladder.close);
            }
            Rung::Terminated => {
                self.close_input();
                self.next_rung = Some(now + self.ladder.terminate);
                self.stragglers.extend(child.descendants().await);
                child.terminate();
            }
            Rung::Killed => {
                self.close_input();
                self.next_rung = None;
                self.stragglers.extend(child.descendants().await);
                child.kill();
            }
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let silent = self.silent_until.filter(|_| self.rung == Rung::Running);
        let ready = self.ready_by.filter(|_| self.rung == Rung::Running);
        let link = self.link_by.filter(|_| self.rung == Rung::Running);
        let read = self.next_look();
        [self.next_rung, silent, ready, link, read, self.timers.next()].into_iter().flatten().min()
    }

    pub(super) async fn on_time(&mut self, child: &Child) {
        let now = Instant::now();
        let passed = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if passed(self.ready_by) {
            self.ready_by = None;
            let within = self.ready_within.as_secs_f32();
            self.end_for(ExitReason::NotReady, &format!("it was not ready within {within} s"));
        }
        if passed(self.link_by) {
            self.link_by = None;
            let within = self.link_within.as_secs_f32();
            self.end_for(ExitReason::LinkDown, &format!("its connection stayed down for {within} s"));
        }
        if self.rung == Rung::Running && passed(self.silent_until) {
            self.end_for(ExitReason::Misbehaved, "it closed its output and went on running");
        }
        while let Some(timer) = self.timers.expired(now) {
            self.consult(|translator, out| translator.timeout(timer, out));
        }
        if passed(self.next_rung) {
            let next = match self.rung {
                Rung::Running => Rung::Asked,
                Rung::Asked => Rung::InputClosed,
                Rung::InputClosed => Rung::Terminated,
                Rung::Terminated | Rung::Killed => Rung::Killed,
            };
            self.climb(next, child).await;
        }
    }

    pub(super) fn exit(self, status: Option<ExitStatus>, stderr: String) -> Exit {
        let (code, signal) = (status.and_then(|it| it.code()), status.and_then(|it| it.signal()));
        let how = match (code, signal) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "did not end when it was killed".into(),
        };
        let agent = &self.agent;
        let (reason, message) = match self.ending {
            Some((ExitReason::Stopped, why)) => {
                (ExitReason::Stopped, format!("agent `{agent}` {how}: {why}"))
            }
            Some((reason, why)) => (reason, format!("agent `{agent}` was ended: {why}")),
            None if !self.was_ready => {
                (ExitReason::NotReady, format!("agent `{agent}` {how} before it was ready"))
            }
            None if code == Some(0) => (ExitReason::Finished, format!("agent `{agent}` {how}")),
            None => (ExitReason::Failed, format!("agent `{agent}` {how}")),
        };
        Exit { reason, code, signal, message, stderr }
    }
}
