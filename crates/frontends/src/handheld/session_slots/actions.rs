//! The actions of devices and the owner on the slots.

use portolan_core::{
    Action, CommandId, Principal, Refusal, RefusalCode, SessionId, event::Content, request::Answer,
};

use super::{SessionSlots, deadline};
use crate::{
    handheld::{
        answers::{self, Words},
        board::{Bound, How, Kept},
        desk::{Asked, Panel},
        parse::{Address, Button},
        wire::SLOTS,
    },
    way_out,
};

/// How long the owner waits for a binding to be written.
const KEPT_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// The message if text came too soon after a question to be its answer.
const NOT_MEANT: &str = "Not sent: a question has just come up. Send it again.";

/// The message if a button was pressed too soon after a prompt appeared.
const TOO_EARLY: &str = "Too early: this has just come up. Press again.";

/// The message if there is nothing to stop.
const NOTHING_RUNS: &str = "Nothing to stop: the agent does nothing.";
const HAS_ENDED: &str = "Nothing to stop: the agent has ended.";
const IS_FREE: &str = "Nothing to stop: this slot is free. The command spawn starts an agent.";

/// The message if text reaches no agent.
const NOBODY_HERE: &str = "Not sent: this slot is free. The command spawn starts an agent.";

impl SessionSlots {
    /// The slot of a message.
    pub fn route(&self, to: &Address) -> Option<usize> {
        self.board().route(to)
    }

    /// Answers the prompt on the device. A closed prompt, or a prompt without this button, stays unchanged.
    pub async fn press(&self, who: &Principal, slot: usize, asked: Asked, button: Button) {
        let ask = {
            let board = self.board();
            let still = board.bound(slot).is_some_and(|bound| bound.session == asked.session);
            board.request(slot, asked.request).filter(|_| still).map(|open| open.ask.clone())
        };
        let Some(answer) = ask.and_then(|ask| answers::pressed(&ask, button)) else { return };
        self.answer(who, slot, asked, answer).await;
    }

    async fn answer(&self, who: &Principal, slot: usize, asked: Asked, answer: Answer) {
        let Asked { session, request, digest, .. } = asked;
        self.submit(
            who,
            slot,
            session,
            Action::Answer { request, digest: Some(digest), answer, persist: None },
        )
        .await;
    }

    /// A button came too soon for the prompt on the device: shows a message, if the prompt is still open.
    pub fn too_early(&self, slot: usize, asked: &Asked) {
        let waits = self.board().step(slot, asked).is_some();
        if waits {
            self.tell(slot, asked.session, TOO_EARLY.to_owned());
        }
    }

    /// Stops the running turn of a slot. Shows a message if nothing runs.
    pub async fn interrupt(&self, who: &Principal, slot: usize) {
        let nothing = |bound: &Bound| {
            let idle = bound.known && !bound.view.can_interrupt();
            idle.then(|| if bound.view.is_gone() { HAS_ENDED } else { NOTHING_RUNS })
        };
        let found = self.board().bound(slot).map(|bound| (bound.session, nothing(bound)));
        match found {
            Some((session, None)) => self.submit(who, slot, session, Action::Interrupt).await,
            Some((session, Some(why))) => self.tell(slot, session, why.to_owned()),
            None => self.tell_empty(slot, IS_FREE),
        }
    }

    /// Text for a slot: the answer to the question on the device, otherwise a prompt.
    pub async fn say(&self, who: &Principal, slot: usize, panel: Panel, text: String) {
        let (shows, seen) = match panel {
            Panel::Empty => (None, true),
            Panel::New(asked) => (Some(asked), false),
            Panel::Seen(asked) => (Some(asked), true),
        };
        let Some((session, words)) = self.meaning(slot, shows.as_ref(), &text) else {
            return self.tell_empty(slot, NOBODY_HERE);
        };
        let current = |asked: &Asked| self.board().step(slot, asked) == Some(asked.step);
        if words != Words::Prompt && !(seen && shows.as_ref().is_some_and(current)) {
            // The text was written before the question appeared, or for the question before it.
            return self.tell(slot, session, NOT_MEANT.to_owned());
        }
        match (words, shows) {
            (Words::Answer(answer), Some(asked)) => self.answer(who, slot, asked, answer).await,
            (Words::More(given), Some(asked)) => self.answer_so_far(slot, asked, given, None),
            (Words::Wanted(wanted), Some(asked)) => {
                let given = self.board().bound(slot).map(|bound| bound.view.given(asked.request));
                self.answer_so_far(slot, asked, given.unwrap_or_default(), Some(wanted));
            }
            (Words::Prompt, _) | (_, None) => {
                let content = vec![Content::text(text)];
                self.submit(who, slot, session, Action::Prompt { content }).await;
            }
        }
    }

    fn meaning(&self, slot: usize, shows: Option<&Asked>, text: &str) -> Option<(SessionId, Words)> {
        let board = self.board();
        let bound = board.bound(slot)?;
        let open = shows
            .filter(|asked| asked.session == bound.session)
            .and_then(|asked| board.request(slot, asked.request));
        let words = open
            .map_or(Words::Prompt, |open| answers::said(&open.ask, &bound.view.given(open.request), text));
        Some((bound.session, words))
    }

    fn answer_so_far(&self, slot: usize, asked: Asked, given: answers::Given, complaint: Option<String>) {
        if let Some(bound) = self.board().bound_mut(slot, asked.session) {
            bound.view.answer_so_far(asked.request, given, complaint);
        }
        self.bump();
    }

    async fn submit(&self, who: &Principal, slot: usize, session: SessionId, action: Action) {
        let name = action.name();
        let Err(refusal) = self.registry().submit(who, session, CommandId::random(), action).await else {
            return;
        };
        tracing::debug!(%session, %name, %refusal, "a device's command was refused");
        if refusal.code == RefusalCode::AlreadyClosed {
            // Somebody else answered first; the next status shows it.
            return;
        }
        self.tell(slot, session, way_out::told(&refusal));
    }

    /// Shows a message in a slot, until something happens in it.
    fn tell(&self, slot: usize, session: SessionId, words: String) {
        if let Some(bound) = self.board().bound_mut(slot, session) {
            bound.view.note(words);
        }
        self.bump();
    }

    /// Shows a message in a slot without a session.
    fn tell_empty(&self, slot: usize, words: &str) {
        self.board().note_empty(slot, words);
        self.bump();
    }

    // --------------------------------------------------------------------------------------- owner

    /// Puts a session into a slot, for the owner. Returns when the binding is stored.
    pub async fn put_in(&self, who: &Principal, slot: usize, session: SessionId) -> Result<(), Refusal> {
        within(slot)?;
        let snapshot = self.registry().snapshot(who, session).await?;
        self.bind(slot, &snapshot.state.summary, How::Bound);
        self.until_kept(slot, |kept| kept.is_some_and(|kept| kept.session == session)).await
    }

    /// Empties a slot, for the owner. Returns when that is stored.
    pub async fn take_out(&self, slot: usize) -> Result<SessionId, Refusal> {
        within(slot)?;
        let session = self.board().take_out(slot)?;
        self.lend_edits();
        self.bump();
        self.until_kept(slot, |kept| kept.is_none_or(|kept| kept.session != session)).await?;
        Ok(session)
    }

    async fn until_kept(&self, slot: usize, so: impl Fn(Option<&Kept>) -> bool) -> Result<(), Refusal> {
        let mut saved = self.0.saved.subscribe();
        let kept = saved.wait_for(|saved| so(saved[slot].as_ref()));
        match tokio::time::timeout_at(deadline(KEPT_WITHIN), kept).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Refusal::new(RefusalCode::StoreFailing, "the change was not saved in time; try again")),
        }
    }
}

fn within(slot: usize) -> Result<(), Refusal> {
    if slot < SLOTS {
        return Ok(());
    }
    Err(Refusal::new(RefusalCode::Invalid, format!("there is no slot {slot}; slots are 0 to {}", SLOTS - 1)))
}
