//! What an agent is to have before a message reaches it: the tools that its page offers, and results of earlier calls. The
//! message is in the log meanwhile, and kept back.

use portolan_core::{SessionId, ports::Boxed, registry::HeldPrompt};

use crate::agui::tools::{FrontendTools, PageResult, PageTool};

/// What a run has for its agent beside the message.
#[derive(Debug)]
pub(super) struct Preparation {
    /// What the page has mounted.
    pub(super) tools: Vec<PageTool>,
    /// What the page has carried out.
    pub(super) results: Vec<PageResult>,
    /// The message, where the run says something.
    pub(super) message: Option<HeldPrompt>,
}

impl Preparation {
    /// Tells the agent, which takes prompts by now. Then it gets the message.
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

/// How far the agent is prepared.
pub(super) enum Preparing {
    /// As far as it will be.
    Done,
    /// The agent is not there yet.
    Waits(Preparation),
    /// The agent is being told.
    Tells(Boxed<'static, ()>),
}

impl Preparing {
    /// The agent takes prompts now.
    pub(super) fn begin(&mut self, page: &FrontendTools, session: SessionId) {
        if let Self::Waits(preparation) = std::mem::replace(self, Self::Done) {
            *self = Self::Tells(Box::pin(preparation.tell(page.clone(), session)));
        }
    }

    /// Returns once the agent has been told. Cancel-safe: what was begun lies in `self`.
    pub(super) async fn told(&mut self) {
        match self {
            Self::Tells(telling) => telling.await,
            Self::Done | Self::Waits(_) => return std::future::pending().await,
        }
        *self = Self::Done;
    }
}
