//! Checks whether a session already has a message. The log decides, whichever client sent the message: a page sends its
//! whole thread with every run, and that thread may have begun in a terminal or with another token.

use portolan_core::{
    Action, Actor, Event, LogId, Refusal, RefusalCode, Seq, SessionId, Stored,
    command::{CommandKey, Stage},
    entry::Decoded,
    ports::StoreError,
};

use super::{Task, end::End, open::is_busy};
use crate::agui::{
    VIA, context,
    project::history::HISTORY_ENTRIES,
    prompt::{Said, again},
};

/// How many entries are read at once in the search for a message, from the newest back.
const WINDOW: u32 = 1000;

/// How far back the search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// As far as the history of a page.
    Shown,
    /// To the beginning.
    All,
}

fn unreadable(error: &StoreError) -> Refusal {
    Refusal::new(RefusalCode::StoreFailing, format!("the store cannot be read: {error}"))
}

impl Task {
    /// The message, if it must be sent: if the session does not have it; or again, if the session has it, but from
    /// another run, and nothing runs.
    pub(super) async fn news(
        &self,
        session: SessionId,
        said: Said,
        brings_answers: BringsAnswers,
    ) -> Result<Option<Said>, End> {
        let refused = |refusal: Refusal| End::refused(&refusal);
        let key = CommandKey { token: self.who.token.clone(), id: said.id.clone() };
        let is_own = self.stage_of(session, key).await.map_err(refused)?.is_some();
        let snapshot = self.agui.registry.snapshot(&self.who, session).await.map_err(refused)?;
        // Noted before the send, and checked after the log: a message that came at the same moment is found by one of
        // the two.
        if let Some(command) = self.agui.runs.said_by(session, &self.run, &said.id) {
            return self.said_before(session, command).await.map(|()| None);
        }
        // The message already waits: for its turn, or for the start of an agent.
        let waits = snapshot.state.commands.iter();
        if waits.filter(|open| open.is_queued_prompt()).any(|open| open.key.id == said.id) {
            return Ok(None);
        }
        let reach = match brings_answers {
            // Answers continue a run; the rest of its thread was sent before, unless the log does not have it.
            BringsAnswers::Yes => Some(Reach::All),
            BringsAnswers::No if is_busy(&snapshot.state) => Some(Reach::Shown),
            BringsAnswers::No => None,
        };
        let Some(reach) = reach else {
            let id = if is_own { again(&said.id, &self.run) } else { said.id };
            return Ok(Some(Said { id, ..said }));
        };
        // A message without an id cannot be distinguished from earlier messages; an answer is not a message.
        let is_nameless = said.message.is_empty() && brings_answers == BringsAnswers::Yes;
        let is_known = is_own
            || is_nameless
            || self.log_holds(session, snapshot.seq, &said, reach).await.map_err(refused)?;
        Ok((!is_known).then_some(said))
    }

    /// The same run is requested again, because its client lost the first response. It gets the result of the first
    /// run.
    async fn said_before(&self, session: SessionId, command: CommandKey) -> Result<(), End> {
        match self.stage_of(session, command).await.map_err(|refusal| End::refused(&refusal))? {
            Some(Stage::Refused { refusal }) => Err(End::refused(&refusal)),
            Some(Stage::Uncertain { reason }) => Err(End::failed("uncertain", reason)),
            Some(Stage::Accepted | Stage::Sending | Stage::Delivered | Stage::Consumed { .. }) | None => {
                Ok(())
            }
        }
    }

    async fn stage_of(&self, session: SessionId, key: CommandKey) -> Result<Option<Stage>, Refusal> {
        let row = self.agui.registry.store().command(LogId::Session(session), key).await;
        let row = row.map_err(|error| unreadable(&error))?;
        Ok(row.map(|row| serde_json::from_slice(&row.stage).unwrap_or(Stage::Consumed { result: None })))
    }

    /// Does the log have this message, up to this entry?
    async fn log_holds(
        &self,
        session: SessionId,
        newest: Seq,
        said: &Said,
        reach: Reach,
    ) -> Result<bool, Refusal> {
        let (registry, who) = (&self.agui.registry, &self.who);
        // A message that did not come from a page is named by the number of its entry.
        if let Some(entry) = entry_of(&said.message) {
            let before = Seq(entry.0.saturating_sub(1));
            let found = registry.history(who, session, before, Some(entry), 1).await?;
            if found.first().is_some_and(|stored| says(stored, said)) {
                return Ok(true);
            }
        }
        let (mut upto, mut read) = (newest, 0);
        while upto > Seq::ZERO && (reach == Reach::All || read < HISTORY_ENTRIES) {
            let after = registry.store().tail(LogId::Session(session), upto, WINDOW).await;
            let after = after.map_err(|error| unreadable(&error))?;
            let mut last = after;
            while last < upto {
                let page = registry.history(who, session, last, Some(upto), WINDOW).await?;
                let Some(end) = page.last() else { break };
                last = end.seq;
                if page.iter().any(|stored| takes_in(stored, said)) {
                    return Ok(true);
                }
            }
            if after >= upto {
                break;
            }
            (upto, read) = (after, read + WINDOW);
        }
        Ok(false)
    }
}

/// Whether a run brings answers to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BringsAnswers {
    Yes,
    No,
}

/// The entry number in a message id, if the page has the message from the history.
fn entry_of(message: &str) -> Option<Seq> {
    let number = message.strip_prefix("prompt-")?;
    number.split('#').next()?.parse().ok().map(Seq)
}

/// Is this entry a prompt with this text, from anyone?
fn says(stored: &Stored, said: &Said) -> bool {
    let Ok(Decoded { event, .. }) = stored.decode::<Event>() else { return false };
    let content = match &event {
        Event::Prompt { content, .. } => content,
        Event::CommandAccepted { action, .. } => match &**action {
            Action::Prompt { content } => content,
            _ => return false,
        },
        _ => return false,
    };
    context::own_words(content) == context::own_words(&said.words)
}

/// Is this entry the prompt of this message, from any page?
fn takes_in(stored: &Stored, said: &Said) -> bool {
    // Few entries are prompts; the others need not be parsed.
    let text = std::str::from_utf8(&stored.frame).unwrap_or_default();
    if !text.contains("\"command_accepted\"") {
        return false;
    }
    let Ok(Decoded { by, event: Event::CommandAccepted { key, action }, .. }) = stored.decode() else {
        return false;
    };
    let from_a_page = matches!(by, Some(Actor::Person { via, .. }) if via == VIA);
    let (name, number) = said.message.rsplit_once('#').unwrap_or_default();
    // In the history, a second message with the same id has a number appended.
    let is_numbered = number.parse::<u32>().is_ok() && key.id == crate::agui::prompt::command_id(name);
    from_a_page && matches!(*action, Action::Prompt { .. }) && (key.id == said.id || is_numbered)
}
