//! Subagents as runs inside a run. A client accepts a name once in each run, and requires that it is closed at the end.

use std::collections::HashMap;

use indexmap::IndexMap;
use portolan_core::{event::ToolOutcome, session::state::State};

use super::{Projector, calls::failure};
use crate::agui::wire::AguiEvent;

/// How deep subagents nest. Agents allow a few levels; the limit is for a faulty agent.
const DEPTH: usize = 16;

/// How many subagents are kept by name: more than a turn starts.
const KNOWN: usize = 4096;

#[derive(Clone, Debug)]
struct Known {
    parent: Option<String>,
    name: String,
    description: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// Its name is used up in this run.
    Over,
}

/// The subagents of a session, and those that this run has started.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    known: HashMap<String, Known>,
    here: IndexMap<String, Life>,
}

impl Subagents {
    pub(super) fn of(state: &State) -> Self {
        let mut subagents = Self::default();
        for open in &state.subagents {
            let kind = open.subagent_type.as_deref();
            subagents.know(&open.subagent, open.parent.as_deref(), kind, &open.description);
        }
        subagents
    }

    /// About how many bytes they take.
    pub(super) fn weight(&self) -> usize {
        let known =
            self.known.iter().map(|(id, known)| id.len() + known.name.len() + known.description.len() + 160);
        known.sum::<usize>() + self.here.keys().map(|id| id.len() + 64).sum::<usize>()
    }

    pub(super) fn next_run(&mut self) {
        self.here.clear();
    }

    pub(super) fn know(
        &mut self,
        subagent: &str,
        parent: Option<&str>,
        kind: Option<&str>,
        description: &str,
    ) {
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        let name = kind.unwrap_or(if description.is_empty() { "subagent" } else { description });
        let known = Known {
            parent: parent.map(str::to_owned),
            name: name.to_owned(),
            description: description.to_owned(),
        };
        self.known.insert(subagent.to_owned(), known);
    }

    /// The tag for the events of this subagent; sends its start first if this run has not sent it.
    pub(super) fn enter(&mut self, subagent: Option<&str>, out: &mut Vec<AguiEvent>) -> Option<String> {
        self.enter_at(subagent?, 0, out)
    }

    fn enter_at(&mut self, subagent: &str, depth: usize, out: &mut Vec<AguiEvent>) -> Option<String> {
        match self.here.get(subagent) {
            Some(Life::Open) => return Some(subagent.to_owned()),
            // Late output of an ended subagent: its name cannot be used again in this run.
            Some(Life::Over) => return None,
            None => {}
        }
        let known = self.known.get(subagent).cloned();
        let parent = known.as_ref().and_then(|known| known.parent.clone());
        // An ended subagent is not started again for its children.
        let parent = parent.filter(|parent| depth < DEPTH && self.known.contains_key(parent));
        let parent_subagent_run_id = parent.and_then(|parent| self.enter_at(&parent, depth + 1, out));
        let (name, description) = match known {
            Some(known) => (known.name, Some(known.description).filter(|text| !text.is_empty())),
            None => ("subagent".to_owned(), None),
        };
        self.here.insert(subagent.to_owned(), Life::Open);
        out.push(AguiEvent::SubagentStarted {
            subagent_run_id: subagent.to_owned(),
            name,
            description,
            parent_subagent_run_id,
            parent_tool_call_id: Some(subagent.to_owned()),
        });
        Some(subagent.to_owned())
    }

    fn leave(&mut self, subagent: &str, event: AguiEvent, out: &mut Vec<AguiEvent>) {
        if self.here.get(subagent) == Some(&Life::Open) {
            self.here.insert(subagent.to_owned(), Life::Over);
            out.push(event);
        }
    }

    /// Closes running subagents: the next run starts them again.
    pub(super) fn close(&mut self, out: &mut Vec<AguiEvent>) {
        let open: Vec<String> =
            self.here.iter().filter(|(_, life)| **life == Life::Open).map(|(name, _)| name.clone()).collect();
        for subagent in open.into_iter().rev() {
            let finished = AguiEvent::SubagentFinished { subagent_run_id: subagent.clone(), result: None };
            self.leave(&subagent, finished, out);
        }
    }
}

impl Projector {
    pub(super) fn subagent_ended(
        &mut self,
        subagent: &str,
        outcome: ToolOutcome,
        summary: Option<&str>,
        out: &mut Vec<AguiEvent>,
    ) {
        let of_it: Vec<String> = self
            .open
            .iter()
            .filter(|(_, open)| open.is_begun && open.tag.as_deref() == Some(subagent))
            .map(|(item, _)| item.clone())
            .collect();
        for item in of_it {
            self.pause_item(&item, out);
        }
        let subagent_run_id = subagent.to_owned();
        let event = match failure(outcome) {
            None => AguiEvent::SubagentFinished { subagent_run_id, result: summary.map(Into::into) },
            Some(why) => {
                AguiEvent::SubagentError { subagent_run_id, message: summary.unwrap_or(why).to_owned() }
            }
        };
        self.subagents.known.remove(subagent);
        self.subagents.leave(subagent, event, out);
    }
}
