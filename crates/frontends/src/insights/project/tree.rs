//! The agents of a session as a tree: their parents, labels and statuses.

use indexmap::IndexMap;

use crate::insights::wire::{AgentSpawned, StatusWord};

/// The main agent's id.
pub const MAIN: &str = "main";

/// How many agents are kept. A session with more forgets the agents that finished first, which the client already
/// knows.
const AGENTS: usize = 4096;

/// The progress of an agent, apart from its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    /// It has done nothing yet.
    #[default]
    New,
    Working,
    Completed,
    Error,
}

#[derive(Debug, Default)]
struct Node {
    label: String,
    children: u32,
    model: Option<String>,
    life: Life,
    tools: u32,
    asks: u32,
    told: Option<StatusWord>,
}

impl Node {
    fn status(&self) -> Option<StatusWord> {
        match self.life {
            _ if self.asks > 0 => Some(StatusWord::WaitingUser),
            Life::New => None,
            Life::Completed => Some(StatusWord::Completed),
            Life::Error => Some(StatusWord::Error),
            Life::Working if self.tools > 0 => Some(StatusWord::WaitingTool),
            Life::Working => Some(StatusWord::Working),
        }
    }
}

/// The agents of a session.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: IndexMap<String, Node>,
}

impl Tree {
    pub(super) fn knows(&self, agent: &str) -> bool {
        self.nodes.contains_key(agent)
    }

    /// A new agent; without a parent it belongs to the main agent, except the main agent itself.
    pub(super) fn spawn(
        &mut self,
        session: &str,
        agent: &str,
        parent: Option<&str>,
        task_description: Option<String>,
        model: Option<String>,
    ) -> AgentSpawned {
        let parent = (agent != MAIN).then(|| parent.unwrap_or(MAIN).to_owned());
        let label = parent.as_deref().map_or_else(|| "Main".into(), |parent| self.label_below(parent));
        if self.nodes.len() >= AGENTS {
            self.forget_one();
        }
        self.nodes.insert(agent.to_owned(), Node { label: label.clone(), model, ..Node::default() });
        AgentSpawned {
            session_id: session.to_owned(),
            agent_id: agent.to_owned(),
            parent_id: parent,
            label,
            task_description,
        }
    }

    /// `Sub1` below the main agent, `Sub1.1` below that.
    fn label_below(&mut self, parent: &str) -> String {
        let Some(node) = self.nodes.get_mut(parent) else { return "Sub".into() };
        node.children += 1;
        if parent == MAIN {
            format!("Sub{}", node.children)
        } else {
            format!("{}.{}", node.label, node.children)
        }
    }

    fn forget_one(&mut self) {
        let over = |(name, node): (&String, &Node)| {
            name != MAIN && matches!(node.life, Life::Completed | Life::Error)
        };
        if let Some(oldest) = self.nodes.iter().position(over) {
            self.nodes.shift_remove_index(oldest);
        }
    }

    fn with(&mut self, agent: &str, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(agent) {
            change(node);
        }
    }

    pub(super) fn set_life(&mut self, agent: &str, life: Life) {
        self.with(agent, |node| {
            node.life = life;
            if matches!(life, Life::Completed | Life::Error) {
                // Calls without a result by now get none that matters.
                node.tools = 0;
            }
        });
    }

    pub(super) fn set_model(&mut self, agent: &str, model: &str) {
        self.with(agent, |node| node.model = Some(model.to_owned()));
    }

    pub(super) fn model(&self, agent: &str) -> Option<String> {
        self.nodes.get(agent)?.model.clone()
    }

    pub(super) fn tool_began(&mut self, agent: &str) {
        self.with(agent, |node| node.tools += 1);
    }

    pub(super) fn tool_ended(&mut self, agent: &str) {
        self.with(agent, |node| node.tools = node.tools.saturating_sub(1));
    }

    pub(super) fn asks(&mut self, agent: &str) {
        self.with(agent, |node| node.asks += 1);
    }

    pub(super) fn was_answered(&mut self, agent: &str) {
        self.with(agent, |node| node.asks = node.asks.saturating_sub(1));
    }

    /// The agent's status, if it differs from the last one sent.
    pub(super) fn status_to_tell(&mut self, agent: &str) -> Option<StatusWord> {
        let node = self.nodes.get_mut(agent)?;
        let status = node.status();
        if status == node.told {
            return None;
        }
        node.told = status;
        status
    }

    pub(super) fn forget_told(&mut self, agent: &str) {
        self.with(agent, |node| node.told = None);
    }

    /// The main agent and every one that has not finished.
    pub(super) fn at_work(&self) -> Vec<String> {
        let at_work = |(name, node): (&String, &Node)| {
            let is = name == MAIN || node.asks > 0 || node.life == Life::Working;
            is.then(|| name.clone())
        };
        self.nodes.iter().filter_map(at_work).collect()
    }
}
