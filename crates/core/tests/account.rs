//! Accounts of agents: anyone may look, only owners change them, one login runs at a time, and no key is kept.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::World;
use portolan_core::{
    DaemonEvent, LogId, RefusalCode, Role, Seq,
    ports::{
        Account, AccountError, AccountState, Boxed, LogIn, Login, LoginBegun, LoginPage, Page, Secret,
        Store as _,
    },
};
use portolan_testkit::sessions::{owner, principal};
use tokio::sync::oneshot;

const KEY: &str = "sk-harbour-0123456789";

type Ended = Result<AccountState, AccountError>;

/// An agent's account; the test decides how a login with a page ends.
#[derive(Debug, Default)]
struct Purse {
    holder: Arc<Mutex<Option<String>>>,
    pages: Mutex<Vec<oneshot::Sender<Ended>>>,
}

fn state(holder: Option<&str>) -> AccountState {
    let login = match holder {
        Some(how) => Login::LoggedIn { how: how.into() },
        None => Login::LoggedOut { way_out: "log in".into() },
    };
    AccountState { login: Some(login), ..AccountState::default() }
}

impl Purse {
    /// Ends the newest login in this way.
    fn ends(&self, ended: Ended) {
        let page = self.pages.lock().expect("one test").pop().expect("a login is under way");
        page.send(ended).expect("someone waits for it");
    }
}

impl Account for Purse {
    fn look(&self) -> Boxed<'static, Ended> {
        let state = state(self.holder.lock().expect("one test").as_deref());
        Box::pin(async { Ok(state) })
    }

    fn log_in(&self, with: LogIn) -> Boxed<'static, Result<LoginBegun, AccountError>> {
        let LogIn::ApiKey { key } = with else {
            let (page, ended) = oneshot::channel();
            self.pages.lock().expect("one test").push(page);
            let end = Box::pin(async { ended.await.unwrap_or_else(|_| Err(AccountError("lost".into()))) });
            let page = LoginPage { url: "https://login.example/1".into(), code: None };
            return Box::pin(async { Ok(LoginBegun { page: Some(page), end }) });
        };
        let holder = Arc::clone(&self.holder);
        let end = Box::pin(async move {
            if key.reveal() != KEY {
                return Err(AccountError("the key opens nothing".into()));
            }
            *holder.lock().expect("one test") = Some("a key".into());
            Ok(state(Some("a key")))
        });
        Box::pin(async { Ok(LoginBegun { page: None, end }) })
    }

    fn log_out(&self) -> Boxed<'static, Ended> {
        *self.holder.lock().expect("one test") = None;
        Box::pin(async { Ok(state(None)) })
    }
}

fn key(text: &str) -> LogIn {
    LogIn::ApiKey { key: Secret::new(text) }
}

/// The entries about accounts in the daemon's log, and the whole log as text.
async fn noted(world: &World) -> (Vec<DaemonEvent>, String) {
    let page = Page { entries: 1000, bytes: u32::MAX };
    let stored = world.store.read(LogId::Daemon, Seq::ZERO, Seq(u64::MAX), page).await.expect("readable");
    let text = stored.iter().map(|entry| String::from_utf8_lossy(&entry.frame)).collect();
    let events = stored.iter().map(|entry| entry.decode::<DaemonEvent>().expect("readable").event);
    (events.filter(|event| matches!(event, DaemonEvent::AccountChanged { .. })).collect(), text)
}

/// Waits until the log holds this many.
async fn noted_times(world: &World, times: usize) -> Vec<DaemonEvent> {
    for _ in 0..1000 {
        let (events, _) = noted(world).await;
        if events.len() >= times {
            return events;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it was not written down")
}

fn changed(login: Option<Login>, failed: Option<&str>) -> DaemonEvent {
    DaemonEvent::AccountChanged { agent: "fake".into(), login, failed: failed.map(Into::into) }
}

// covers: 003-050
#[tokio::test]
async fn a_login_with_a_key_and_a_logout_are_recorded_without_the_key() {
    let world = World::with_account(Arc::new(Purse::default())).await;
    let registry = &world.registry;
    assert_eq!(registry.account(&owner(), "fake").await.expect("told").state, state(None));
    let refused = registry.log_in(&owner(), "fake", key("wrong")).await.expect_err("refused");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (RefusalCode::AgentRefused, "the key opens nothing")
    );
    let told = registry.log_in(&owner(), "fake", key(KEY)).await.expect("logged in");
    assert_eq!((&told.state, told.under_way), (&state(Some("a key")), None));
    assert_eq!(registry.account(&owner(), "fake").await.expect("told").state, state(Some("a key")));
    assert_eq!(registry.log_out(&owner(), "fake").await.expect("logged out").state, state(None));
    let events = noted_times(&world, 2).await;
    assert_eq!(events, [changed(state(Some("a key")).login, None), changed(state(None).login, None)]);
    let (_, text) = noted(&world).await;
    assert!(!text.contains(KEY) && !text.contains("wrong"), "{text}");
}

// covers: 003-050
#[tokio::test]
async fn a_login_with_a_page_continues_while_nobody_waits_and_a_newer_one_replaces_it() {
    let purse = Arc::new(Purse::default());
    let world = World::with_account(Arc::clone(&purse) as Arc<dyn Account>).await;
    let registry = &world.registry;
    let page = LoginPage { url: "https://login.example/1".into(), code: None };
    let begun = registry.log_in(&owner(), "fake", LogIn::Browser).await.expect("begun");
    assert_eq!(begun.under_way.as_ref(), Some(&page));
    let told = registry.account(&owner(), "fake").await.expect("told");
    assert_eq!((told.under_way.as_ref(), told.state), (Some(&page), AccountState::default()));

    registry.log_in(&owner(), "fake", LogIn::Browser).await.expect("begun again");
    purse.ends(Err(AccountError("it was declined".into())));
    let failed = noted_times(&world, 1).await;
    assert_eq!(failed, [changed(None, Some("it was declined"))], "the first was given up without a word");
    let told = registry.account(&owner(), "fake").await.expect("told");
    assert_eq!((told.under_way, told.failed.as_deref()), (None, Some("it was declined")));

    registry.log_in(&owner(), "fake", LogIn::Browser).await.expect("begun again");
    purse.ends(Ok(state(Some("ada@example.org"))));
    let all = noted_times(&world, 2).await;
    assert_eq!(all[1], changed(state(Some("ada@example.org")).login, None));
    let told = registry.account(&owner(), "fake").await.expect("told");
    assert_eq!((told.under_way, told.failed), (None, None));
}

#[tokio::test]
async fn only_owners_get_the_page_of_a_login_and_a_logout_cancels_the_login() {
    let purse = Arc::new(Purse::default());
    let world = World::with_account(Arc::clone(&purse) as Arc<dyn Account>).await;
    let registry = &world.registry;
    registry.log_in(&owner(), "fake", LogIn::Browser).await.expect("begun");
    // The agent works for whoever logs in on the page first.
    let operator = principal("operator", Role::Operator);
    let refused = registry.account(&operator, "fake").await.expect_err("not for operators");
    assert_eq!(refused.code, RefusalCode::Busy);
    let told = registry.log_out(&owner(), "fake").await.expect("logged out");
    assert_eq!((told.under_way, told.state), (None, state(None)));
    assert_eq!(registry.account(&operator, "fake").await.expect("told").under_way, None);
    assert_eq!(noted_times(&world, 1).await, [changed(state(None).login, None)]);
}

#[tokio::test]
async fn a_change_is_recorded_even_if_its_caller_has_left() {
    let world = World::with_account(Arc::new(Purse::default())).await;
    let who = owner();
    // The login has begun, and nobody waits for it any more.
    tokio::select! {
        biased;
        told = world.registry.log_in(&who, "fake", key(KEY)) => panic!("{told:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(noted_times(&world, 1).await, [changed(state(Some("a key")).login, None)]);
}

#[tokio::test]
async fn only_owners_change_an_account_and_only_in_ways_that_the_agent_supports() {
    let world = World::with_account(Arc::new(Purse::default())).await;
    let registry = &world.registry;
    let operator = principal("operator", Role::Operator);
    assert!(registry.account(&operator, "fake").await.is_ok());
    let viewer = principal("viewer", Role::Viewer);
    let code = |refused: Result<_, portolan_core::Refusal>| match refused {
        Ok(told) => panic!("{told:?}"),
        Err(refusal) => refusal.code,
    };
    assert_eq!(code(registry.account(&viewer, "fake").await), RefusalCode::Forbidden);
    assert_eq!(code(registry.log_in(&operator, "fake", key(KEY)).await), RefusalCode::Forbidden);
    assert_eq!(code(registry.log_out(&operator, "fake").await), RefusalCode::Forbidden);
    assert_eq!(code(registry.log_in(&owner(), "fake", LogIn::DeviceCode).await), RefusalCode::Unsupported);
    assert_eq!(code(registry.log_in(&owner(), "fake", key(" ")).await), RefusalCode::Invalid);
    assert_eq!(code(registry.log_out(&owner(), "nobody").await), RefusalCode::NotFound);

    let without = World::new().await;
    let told = without.registry.account(&owner(), "fake").await.expect("looked at from outside");
    assert_eq!(told.state, AccountState::default());
    assert_eq!(code(without.registry.log_in(&owner(), "fake", key(KEY)).await), RefusalCode::Unsupported);
    assert_eq!(code(without.registry.log_out(&owner(), "fake").await), RefusalCode::Unsupported);
}
