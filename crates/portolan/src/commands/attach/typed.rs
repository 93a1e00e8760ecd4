//! Handles keys: a key becomes a command, an answer, a redraw or the end.

use std::time::Duration;

use crossterm::event::{Event as TerminalEvent, EventStream};
use portolan_core::{
    Action,
    event::Content,
    request::{Answer, Request},
    session::state::Status,
};

use super::{
    joined::{Joined, Stay},
    screen::{self, Screen},
};
use crate::terminal::{
    keys::{Situation, Wish},
    requests,
    style::Style,
};

impl Joined {
    pub(super) async fn terminal_event(
        &mut self,
        event: TerminalEvent,
        keys: &mut EventStream,
        screen: &mut Screen,
    ) -> Stay {
        if let TerminalEvent::Resize(..) = event {
            self.transcript.resize(Screen::columns());
            return Stay::Yes;
        }
        let Some(key) = screen::key(&event) else { return Stay::Yes };
        let request = self.state.as_ref().and_then(|state| state.requests.first());
        let shown_for = match (request, self.shown) {
            (Some(request), Some((id, since))) if request.request == id => since.elapsed(),
            _ => Duration::ZERO,
        };
        let running = self.state.as_ref().is_some_and(|state| state.summary.status == Status::Active);
        let closed = self.closed.as_ref().map(|(request, at)| (request, at.elapsed()));
        let wish = self.keyboard.press(key, Situation { request, shown_for, closed, running });
        match wish {
            Wish::Look => {}
            Wish::Leave => return Stay::Leave,
            Wish::TooLate(request) => {
                let text =
                    format!("· too late: request {} is closed, so this key did nothing", request.request);
                self.remark(Style::Dim, text);
            }
            Wish::Unfold => {
                // An open request comes before finished calls.
                let lines = match request {
                    Some(request) => requests::in_full(request),
                    None => self.transcript.unfold(),
                };
                self.lines.extend(lines.into_iter().flat_map(|line| line.wrapped(Screen::columns())));
            }
            Wish::Interrupt => self.act(Action::Interrupt).await,
            Wish::Send(text) => self.act(Action::Prompt { content: vec![Content::text(text)] }).await,
            Wish::Answer(request, answer) => self.answer(*request, answer).await,
            Wish::Edit(request) => self.edit(*request, keys, screen).await,
        }
        Stay::Yes
    }

    pub(super) async fn answer(&mut self, request: Request, answer: Answer) {
        match answer.fits(&request.ask) {
            Ok(()) => {
                let digest = Some(request.digest);
                self.act(Action::Answer { request: request.request, digest, answer, persist: None }).await;
            }
            Err(why) => self.remark(Style::Warning, format!("! {why}")),
        }
    }
}
