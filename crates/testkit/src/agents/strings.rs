//! Strings: the inner end of a running puppet. Their holder sends reports and reads instructions.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{collections::VecDeque, sync::Arc, time::Duration};

use portolan_core::{
    Capabilities,
    event::Content,
    ports::{Instruction, InstructionId, Launch, Order, Report},
    request::Ask,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::actor::Settled;

/// How long a test waits for an instruction to its agent.
const SOON: Duration = Duration::from_secs(5);

/// Every order that a puppet has read.
pub type Told = Arc<watch::Sender<Vec<Order>>>;

/// The holder of the strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A test: its reports arrive, or the test has failed.
    Test,
    /// A function: its session may end at any moment.
    Play,
}

/// The inner end of a running puppet.
#[derive(Debug)]
pub struct Strings {
    /// The launch of this start.
    pub launch: Launch,
    /// What the puppet supports.
    pub capabilities: Capabilities,
    /// Where its reports go.
    pub reports: mpsc::Sender<Report>,
    /// Its unread instructions.
    pub instructions: mpsc::Receiver<Instruction>,
    /// Cancelled when the session wants its end.
    pub stop: CancellationToken,
    /// How it settles everything except prompts, answers, and interrupts that a scene waits for.
    pub aside: fn(&Order) -> Settled,
    told: Told,
    holder: Holder,
    names: u32,
    /// The requests that it waits for.
    pub(super) asked: Vec<String>,
    /// What it asks when the turn is over.
    pub(super) lingering: Vec<Ask>,
    /// Prompts that came while a turn ran.
    pub(super) queued: VecDeque<(InstructionId, Vec<Content>)>,
}

impl Strings {
    pub(super) fn new(
        launch: Launch,
        capabilities: Capabilities,
        reports: mpsc::Sender<Report>,
        instructions: mpsc::Receiver<Instruction>,
        (stop, told): (CancellationToken, Told),
        holder: Holder,
    ) -> Self {
        Self {
            launch,
            capabilities,
            reports,
            instructions,
            stop,
            aside: |_| Settled::Done(None),
            told,
            holder,
            names: 0,
            asked: Vec::new(),
            lingering: Vec::new(),
            queued: VecDeque::new(),
        }
    }

    /// Reports this.
    pub async fn say(&self, report: Report) {
        let is_heard = self.reports.send(report).await.is_ok();
        assert!(is_heard || self.holder == Holder::Play, "the session does not listen");
    }

    /// A name that this start has not used yet, for items, tools and requests.
    pub fn name(&mut self) -> String {
        self.names += 1;
        format!("{}-{}", self.launch.generation, self.names)
    }

    /// The next instruction, which a test expects.
    pub async fn told(&mut self) -> Instruction {
        let next = tokio::time::timeout(SOON, self.read()).await;
        next.expect("the agent gets an instruction").expect("the session lives")
    }

    /// The next instruction, reported as delivered; `None` when the session is gone.
    pub async fn next(&mut self) -> Option<Instruction> {
        let instruction = self.read().await?;
        self.say(Report::Delivered(instruction.id)).await;
        Some(instruction)
    }

    async fn read(&mut self) -> Option<Instruction> {
        let instruction = self.instructions.recv().await?;
        self.told.send_modify(|told| told.push(instruction.order.clone()));
        Some(instruction)
    }

    /// Withdraws all its requests, as real agents do before they end.
    pub(super) async fn withdraw(&mut self) {
        for key in std::mem::take(&mut self.asked) {
            self.say(Report::RequestWithdrawn { key }).await;
        }
    }
}
