//! A connect: the history, the open requests, and the running turn. It changes nothing in the session, and a viewer's
//! connect leaves no trace anywhere.

use portolan_core::{
    RefusalCode,
    log::delivery::{Delivery, Mode, Start},
};

use super::{
    Task,
    end::End,
    follow::{Follow, Goal},
    open::{Joined, is_busy, open_prompts},
};
use crate::agui::{
    project::{
        Projector, Prompts,
        history::{HISTORY_ENTRIES, History},
    },
    runs::Left,
    threads::Wanted,
    wire::AguiEvent,
};

impl Task {
    pub(super) async fn connect(&mut self) -> End {
        let wanted = Wanted { who: &self.who, agent: &self.agent, thread: &self.thread };
        let found = match self.agui.threads.find_made(&self.agui.registry, wanted).await {
            Ok(Some(found)) => found.session,
            // A thread without any message yet.
            Ok(None) => {
                self.is_a_page();
                return End::Finished;
            }
            Err(refusal) => return End::refused(&refusal),
        };
        let start = Start::Tail(HISTORY_ENTRIES);
        let reader = self.agui.registry.attach(&self.who, found, start, Mode::Every).await;
        let mut reader = match reader {
            Ok(reader) => reader,
            Err(refusal) if refusal.code == RefusalCode::NotFound => return End::Finished,
            Err(refusal) => return End::refused(&refusal),
        };
        self.is_a_page();
        if self.may_act() {
            // The page gets everything again, so the state of its earlier stream is dropped.
            self.agui.runs.take_left(found, &self.client());
        }
        let mut history = History::new(self.names(found));
        let state = loop {
            match reader.next().await {
                Delivery::Entries(pieces) => {
                    for piece in &pieces {
                        if let Ok(entry) = piece.entry() {
                            history.take(entry.seq, entry.by.as_deref(), &entry.event);
                        }
                    }
                }
                Delivery::Snapshot(snapshot) => break snapshot,
                Delivery::Presence(_) => {}
                Delivery::Closed(reason) => return End::closed(reason),
            }
        };
        let (last, state) = (state.seq, state.state);
        let mut projector =
            Projector::new(found, &self.agent, self.names(found), self.approvals, Prompts::All, &state);
        let mut events = Vec::new();
        projector.tell_state(&mut events);
        events.push(AguiEvent::MessagesSnapshot { messages: history.into_messages(&state) });
        projector.shows_queued(&state);
        projector.tell_requests(&mut events);
        if is_busy(&state) {
            projector.from_the_beginning(&state, &mut events);
        }
        let asks = projector.asks();
        // The page must answer first, with its own run after this stream has ended. A viewer's page never will.
        let page_is_asked = self.may_act() && self.agui.tools.shown(found);
        if !is_busy(&state) || page_is_asked || asks.is_some() {
            projector.close(&mut events);
            self.out.send(&mut events).await;
            if is_busy(&state) && self.may_act() {
                self.agui.runs.leave(found, &self.client(), Left { projector, last });
            }
            return asks.map_or(End::Finished, End::Asks);
        }
        let place = self.agui.runs.enter(found, &self.run, None);
        place.begin();
        self.out.send(&mut events).await;
        let joined = Joined {
            session: found,
            reader,
            projector,
            last,
            is_ready: true,
            is_busy: true,
            turn_runs: state.turn.is_some(),
            prompts: open_prompts(&state),
            place,
        };
        Follow::new(self, joined, Goal::Any, None).run().await
    }

    /// Plain clients never connect, so a thread with a connect belongs to a page.
    fn is_a_page(&self) {
        if self.may_act() {
            self.agui.runs.connected(&self.client());
        }
    }
}
