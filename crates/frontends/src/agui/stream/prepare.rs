//! Prepares an agent for a message: gives it the tools of the page, and results of earlier calls. Meanwhile the message
//! is in the log, and held back.

use portolan_core::{SessionId, ports::Boxed, registry::HeldPrompt};

use crate::agui::tools::{FrontendTools, PageResult, PageTool};

/// What a run has for its agent besides the message.
#[derive(Debug)]
pub(super) struct Preparation {
    /// The tools that the page has mounted.
    pub(super) tools: Vec<PageTool>,
    /// The results of the page's tools.
    pub(super) results: Vec<PageResult>,
    /// The message, if the run has one.
    pub(super) message: Option<HeldPrompt>,
}

impl Preparation {
    /// Prepares the agent, which accepts prompts by now. Then it gets the message.
    pub(super) async fn tell(self, page: FrontendTools, session: SessionId) {
        let Self { tools, results, message } = self;
        let offered = page.offer(session, tools).await;
        if let Some(why) = &offered.unavailable {
            tracing::debug!(%session, why, "the page's tools are not offered");
        }
        for left_out in &offered.left_out {
            tracing::debug!(%session, ?left_out, "a tool of the page is not offered");
        }
        page.results(session, results);
        if message.is_some() {
            page.overtake(session);
        }
    }
}

/// The progress of the preparation.
pub(super) enum Preparing {
    /// Done.
    Done,
    /// The agent has not started yet.
    Waits(Preparation),
    /// The preparation runs.
    Tells(Boxed<'static, ()>),
}

impl Preparing {
    /// The agent accepts prompts now.
    pub(super) fn begin(&mut self, page: &FrontendTools, session: SessionId) {
        if let Self::Waits(preparation) = std::mem::replace(self, Self::Done) {
            *self = Self::Tells(Box::pin(preparation.tell(page.clone(), session)));
        }
    }

    /// Returns when the agent is prepared. Cancel-safe: `self` keeps the state.
    pub(super) async fn told(&mut self) {
        match self {
            Self::Tells(telling) => telling.await,
            Self::Done | Self::Waits(_) => return std::future::pending().await,
        }
        *self = Self::Done;
    }
}
