//! Transcript: what a scenario saw, so that a failure can be understood without another run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use portolan_core::{Event, Seq};

use crate::grammar::Grammar;

/// Lines kept: every entry of the longest scenario, several times over.
const LINES: usize = 4000;

/// Characters of a line kept: enough to see what an entry is about.
const WIDTH: usize = 600;

/// The transcript so far. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    lines: Vec<String>,
    /// One for each reader: a new reader reads a session from its beginning.
    sessions: BTreeMap<String, Grammar>,
}

impl Transcript {
    /// The next entry of a reader.
    pub(crate) fn entry(&self, reader: &str, seq: Seq, event: &Event) {
        // Portolan's own types serialise.
        let line = serde_json::to_string(event).unwrap_or_default();
        self.add(&format!("{reader} {seq} {line}"));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sessions.entry(reader.to_owned()).or_default().see(event);
    }

    /// The violations in all sessions.
    pub(crate) fn breaches(&self) -> Vec<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let breaches = kept.sessions.iter().flat_map(|(reader, grammar)| {
            grammar.breaches.iter().map(move |breach| format!("session {reader}: {breach}"))
        });
        breaches.collect()
    }

    /// Messages of the agent that its adapter does not know, by the agent's own names.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sessions.values().flat_map(|grammar| grammar.unknown.iter().cloned()).collect()
    }

    pub(crate) fn add(&self, line: &str) {
        let lines = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).lines;
        if lines.len() == LINES {
            lines.push("(and more)".to_owned());
        }
        if lines.len() > LINES {
            return;
        }
        let mut kept: String = line.chars().take(WIDTH).collect();
        if kept.len() < line.len() {
            kept.push('…');
        }
        lines.push(kept);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).lines)
    }
}
