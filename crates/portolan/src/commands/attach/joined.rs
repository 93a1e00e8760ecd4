//! A joined session at a terminal: its connection, its state, and the loop over frames, keys and signals.

use std::time::Instant;

use crossterm::event::EventStream;
use futures_util::StreamExt as _;
use indexmap::IndexMap;
use portolan_client::Attached;
use portolan_core::{
    Action, CommandId, RequestId, log::delivery::Presence, request::Request, session::state::State,
};
use portolan_protocol::{Call, ClientFrame};

use super::screen::{self, Raw, Screen};
use crate::{
    failure::{Failure, Outcome},
    output,
    terminal::{
        keys::Keyboard,
        style::{Colours, Line, Style},
        transcript::{Layout, Transcript},
    },
};

/// What the keys do, shown on joining.
const KEYS: &str =
    "· Enter sends · Esc stops the turn · Ctrl-O shows a request or call in full · Ctrl-D leaves";

/// The connection as the screen sees it.
pub(super) enum Link {
    Up,
    Down { why: String, again_at: Instant },
}

/// A joined session at a terminal.
pub(super) struct Joined {
    pub(super) attached: Attached,
    pub(super) link: Link,
    pub(super) transcript: Transcript,
    pub(super) state: Option<Box<State>>,
    pub(super) present: Vec<Presence>,
    pub(super) keyboard: Keyboard,
    /// The request that a key would answer, and since when the request is on the screen.
    pub(super) shown: Option<(RequestId, Instant)>,
    /// The request that closed last, and when.
    pub(super) closed: Option<(Request, Instant)>,
    /// Commands that were sent and have no reply yet.
    pub(super) unanswered: IndexMap<CommandId, ClientFrame>,
    /// Lines to print with the next drawing.
    pub(super) lines: Vec<Line>,
}

/// Whether to stay in the session.
pub(super) enum Stay {
    Yes,
    Leave,
}

impl Joined {
    pub(super) fn new(attached: Attached) -> Self {
        Self {
            attached,
            link: Link::Up,
            transcript: Transcript::new(Layout::Live, Screen::columns()),
            state: None,
            present: Vec::new(),
            keyboard: Keyboard::default(),
            shown: None,
            closed: None,
            unanswered: IndexMap::new(),
            lines: Vec::new(),
        }
    }

    /// Shows the session and handles the keys until the user leaves or the session is deleted.
    pub(super) async fn interactive(mut self) -> Outcome {
        // A panic message is only readable on a terminal that is not in raw mode.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            screen::restore();
            before(panic);
        }));
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut hang_up = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
        let raw =
            Raw::enter().map_err(|error| Failure::new(format!("the terminal cannot be used: {error}")))?;
        let mut keys = EventStream::new();
        let mut screen = Screen::new(Colours::when(output::colours()));
        self.remark(Style::Dim, KEYS.into());
        loop {
            self.draw(&mut screen)?;
            let again_at = match &self.link {
                Link::Up => None,
                Link::Down { again_at, .. } => Some(*again_at),
            };
            let stay = tokio::select! {
                inbound = self.attached.next(), if again_at.is_none() => self.take_in(inbound),
                event = keys.next() => match event {
                    Some(Ok(event)) => self.terminal_event(event, &mut keys, &mut screen).await,
                    Some(Err(_)) | None => Stay::Leave,
                },
                () = sleep_until(again_at), if again_at.is_some() => {
                    self.try_again().await;
                    Stay::Yes
                }
                _ = terminate.recv() => Stay::Leave,
                _ = hang_up.recv() => Stay::Leave,
            };
            if let Stay::Leave = stay {
                break;
            }
        }
        if let Link::Down { .. } = self.link
            && !self.unanswered.is_empty()
        {
            self.remark(
                Style::Warning,
                format!("! you left the session; commands that were never sent: {}", self.unanswered.len()),
            );
        }
        let rest = std::mem::take(&mut self.lines);
        screen.draw(&rest, &[], 0, 0)?;
        screen.clear()?;
        drop(raw);
        self.attached.close().await;
        Ok(())
    }

    /// Prints a line of this program.
    pub(super) fn remark(&mut self, style: Style, text: String) {
        self.lines.push(Line::new(style, text));
    }

    /// The connection is lost: the next attempt comes after a pause.
    pub(super) fn lost(&mut self, why: String) {
        self.link = Link::Down { why, again_at: Instant::now() + self.attached.pause() };
    }

    async fn try_again(&mut self) {
        match self.attached.try_again().await {
            Ok(()) => {
                self.link = Link::Up;
                self.present.clear();
                for frame in self.unanswered.values().cloned().collect::<Vec<_>>() {
                    if let Err(lost) = self.attached.send(&frame).await {
                        self.lost(lost.0);
                        return;
                    }
                }
            }
            Err(error) => self.lost(error.to_string()),
        }
    }

    /// Sends a command now, or when the connection is restored.
    pub(super) async fn act(&mut self, command: Action) {
        let id = CommandId::random();
        let frame =
            ClientFrame { id: id.clone(), call: Call::Command { session: self.attached.session(), command } };
        self.unanswered.insert(id, frame.clone());
        if let Link::Up = self.link
            && let Err(lost) = self.attached.send(&frame).await
        {
            self.lost(lost.0);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
