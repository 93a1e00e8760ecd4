//! The lines that are redrawn below the permanent lines: the streaming text, running calls, the prompt line, the
//! status.

use std::time::Instant;

use super::{
    joined::{Joined, Link},
    screen::Screen,
};
use crate::{
    failure::Outcome,
    terminal::{
        clean, requests, status,
        style::{Line, Style},
    },
};

/// How many running calls are shown one by one; of more, only the number is shown.
const RUNNING: usize = 4;

impl Joined {
    /// Draws everything again.
    pub(super) fn draw(&mut self, screen: &mut Screen) -> Outcome {
        let columns = Screen::columns();
        let mut below: Vec<Line> = self.transcript.unfinished().into_iter().collect();
        let running = self.transcript.running();
        if running.len() > RUNNING {
            below.push(Line::new(Style::Dim, format!("▸ {} calls run", running.len())));
        } else {
            below.extend(running);
        }
        let request = self.state.as_ref().and_then(|state| state.requests.first());
        match (request, self.shown) {
            (Some(request), Some((id, _))) if request.request == id => {}
            (Some(request), _) => self.shown = Some((request.request, Instant::now())),
            (None, _) => self.shown = None,
        }
        if let (Some(request), Some(state)) = (request, &self.state) {
            // Several requests are on the screen, and a key answers one of them.
            let which = match state.requests.len() {
                1 => String::new(),
                _ => format!("request {}: ", request.request),
            };
            let keys = requests::keys(&request.ask, &state.capabilities);
            below.push(Line::new(Style::Warning, format!("{which}{keys}")));
        }
        let row = below.len();
        let (line, column) = self.keyboard.line(columns);
        below.push(line);
        below.push(match (&self.link, &self.state) {
            (Link::Down { why, .. }, _) => {
                let kept = match self.unanswered.len() {
                    0 => String::new(),
                    number => format!(" · {number} waiting to be sent"),
                };
                let text = format!("reconnecting{kept} · connection lost: {}", clean::line(why));
                Line::new(Style::Warning, text)
            }
            (Link::Up, Some(state)) => status::line(state, &self.present),
            (Link::Up, None) => Line::new(Style::Dim, "joining"),
        });
        let lines = std::mem::take(&mut self.lines);
        screen.draw(&lines, &below, row, column)?;
        Ok(())
    }
}
