//! Sessions of a registry in memory: their users and requests in tests, and how a test waits for them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use portolan_core::{
    Generation, Millis, Principal, RequestId, Role, SessionId,
    ports::{Agent, Clock},
    registry::Registry,
    request::{Ask, Choice, Question, Request},
    session::{machine::Policy, state::State},
};
use portolan_store::MemoryStore;

pub use crate::daemon::PATIENCE;

/// How long a test waits between two checks.
const A_MOMENT: Duration = Duration::from_millis(5);

/// A registry of these agents, over its own store.
pub async fn registry(agents: Vec<Arc<dyn Agent>>) -> Registry {
    Registry::open(Arc::new(MemoryStore::new()), agents, Clock::system(), Policy::default()).await.unwrap()
}

/// A principal of this name.
pub fn principal(name: &str, role: Role) -> Principal {
    Principal { token: name.parse().unwrap(), name: name.into(), role, sessions: None, via: "test".into() }
}

/// A principal who may do everything.
pub fn owner() -> Principal {
    principal("owner", Role::Owner)
}

/// A question with these choices.
pub fn question(text: &str, labels: &[&str]) -> Question {
    let choice = |label: &&str| Choice { label: (*label).into(), description: None };
    Question {
        question: text.into(),
        header: None,
        choices: labels.iter().map(choice).collect(),
        multiple: false,
        free_text: false,
        secret: false,
    }
}

/// An open request, as a client sees it.
pub fn request(number: u64, ask: Ask) -> Request {
    Request {
        request: RequestId(number),
        generation: Generation(1),
        ask,
        parent: None,
        tool: None,
        digest: "d".into(),
        opened_at: Millis(0),
        shortened: false,
        policy: None,
        suggested_rule: None,
        deadline: None,
    }
}

/// Waits until this is true.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(A_MOMENT).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "never so: {what}");
}

/// Waits until a session is in this state.
pub async fn until(registry: &Registry, session: SessionId, fits: impl Fn(&State) -> bool) -> Arc<State> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let state = registry.snapshot(&owner(), session).await.unwrap().state;
        if fits(&state) {
            return state;
        }
        assert!(tokio::time::Instant::now() < deadline, "the session is never so: {state:#?}");
        tokio::time::sleep(A_MOMENT).await;
    }
}
