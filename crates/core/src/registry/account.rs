//! Accounts: the agents' logins, and logins through Portolan.
//!
//! A login with a page continues while nobody waits for it. Its end goes into the daemon's log; until then Portolan
//! shows only its page. Each agent has at most one login in progress, the newest. No key is kept or written down.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Registry, gone};
use crate::{
    Actor, DaemonEvent, Principal, Refusal, RefusalCode, Role,
    ports::{Account, AccountError, AccountState, Agent, LogIn, LoginBegun, LoginPage},
};

/// How long an agent may take to report its account, or to change it.
const PATIENCE: Duration = Duration::from_mins(1);

/// How many agents are checked at once: each check may start a program.
const LOOKS_AT_ONCE: usize = 2;

/// When to ask again for the account while a login is in progress.
const RETRY_AFTER_MS: u32 = 1000;

/// How long a person may take for a login page. Agents give up earlier or never.
const PAGE_PATIENCE: Duration = Duration::from_mins(15);

/// An agent's account, as frontends show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AccountDescription {
    /// The agent's kind.
    pub agent: String,
    /// The login and its holder. Empty while a login is in progress.
    #[serde(flatten)]
    pub state: AccountState,
    /// The page of a login in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub under_way: Option<LoginPage>,
    /// Why the last login through Portolan failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub failed: Option<String>,
}

/// Logins through Portolan.
#[derive(Debug)]
pub(super) struct Logins {
    /// The last login of each agent.
    last: Mutex<HashMap<String, LastLogin>>,
    /// Only one caller at a time changes an account.
    turn: Semaphore,
    /// See [`LOOKS_AT_ONCE`].
    looks: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Self { last: Mutex::default(), turn: Semaphore::new(1), looks: Semaphore::new(LOOKS_AT_ONCE) }
    }
}

#[derive(Debug)]
enum LastLogin {
    UnderWay {
        page: LoginPage,
        /// Cancelled to give the login up.
        give_up: CancellationToken,
    },
    Failed(String),
}

impl Registry {
    /// The account that an agent is logged in with. An agent that cannot be asked is checked from outside. Only a
    /// client that may begin a login sees its page: the agent works for whoever logs in there.
    pub async fn account(&self, who: &Principal, kind: &str) -> Result<AccountDescription, Refusal> {
        who.may_daemon(Role::Operator)?;
        let agent = Arc::clone(self.agent(kind).ok_or_else(|| self.no_agent(kind))?);
        let (under_way, failed) = match self.logins().get(kind) {
            Some(LastLogin::UnderWay { page, .. }) => (Some(page.clone()), None),
            Some(LastLogin::Failed(why)) => (None, Some(why.clone())),
            None => (None, None),
        };
        if under_way.is_some() {
            let message =
                format!("an owner is logging the agent `{kind}` in; try again when the login has ended");
            let busy = |_| Refusal::busy(message, RETRY_AFTER_MS);
            who.may_daemon(Role::Owner).map_err(busy)?;
            let state = AccountState::default();
            return Ok(AccountDescription { agent: kind.to_owned(), state, under_way, failed });
        }
        let look = async {
            let _turn = self.shared.logins.looks.acquire().await.map_err(|_| AccountError("gone".into()))?;
            match agent.account() {
                Some(account) => account.look().await,
                None => match agent.probe().await {
                    probe if probe.available => {
                        Ok(AccountState { login: probe.login, ..AccountState::default() })
                    }
                    probe => Err(AccountError(probe.message)),
                },
            }
        };
        let state = self.in_time(look).await?;
        Ok(AccountDescription { agent: kind.to_owned(), state, under_way, failed })
    }

    /// Logs an agent in, for every program that uses the agent's home. Returns when the login is done, or when a person
    /// must continue; [`Registry::account`] and the daemon's log then report the result. An earlier login in progress
    /// is given up.
    pub async fn log_in(
        &self,
        who: &Principal,
        kind: &str,
        with: LogIn,
    ) -> Result<AccountDescription, Refusal> {
        who.may_daemon(Role::Owner)?;
        let account = self.changeable(kind)?;
        let way = with.way();
        if !self.agent(kind).is_some_and(|agent| agent.capabilities().logins.contains(&way)) {
            let message =
                format!("the agent `{kind}` cannot be logged in {}; use another way to log in", way.words());
            return Err(Refusal::new(RefusalCode::Unsupported, message));
        }
        if matches!(&with, LogIn::ApiKey { key } if key.reveal().trim().is_empty()) {
            return Err(Refusal::new(RefusalCode::Invalid, "the key is empty"));
        }
        let (registry, by, kind) = (self.clone(), who.actor(), kind.to_owned());
        to_its_end(async move { registry.log_in_now(by, kind, &*account, with).await }).await
    }

    async fn log_in_now(
        &self,
        by: Actor,
        kind: String,
        account: &dyn Account,
        with: LogIn,
    ) -> Result<AccountDescription, Refusal> {
        let _turn = self.shared.logins.turn.acquire().await.map_err(|_| gone())?;
        self.give_up_login(&kind);
        let LoginBegun { page, end } = self.in_time(account.log_in(with)).await?;
        let Some(page) = page else {
            let state = self.in_time(end).await?;
            return Ok(self.account_changed(by, &kind, Ok(state)).await);
        };
        let give_up = CancellationToken::new();
        let under_way = LastLogin::UnderWay { page: page.clone(), give_up: give_up.clone() };
        self.logins().insert(kind.clone(), under_way);
        let (registry, agent) = (self.clone(), kind.clone());
        tokio::spawn(async move {
            let ended = tokio::select! {
                biased;
                // The caller that gave this login up has already replaced it.
                () = give_up.cancelled() => return,
                ended = tokio::time::timeout(PAGE_PATIENCE, end) => ended,
            };
            let in_vain = |_| AccountError("nobody logged in on the page in time".into());
            let ended = ended.map_err(in_vain).and_then(|ended| ended);
            if registry.is_under_way(&agent, &give_up) {
                registry.account_changed(by, &agent, ended).await;
            }
        });
        let state = AccountState::default();
        Ok(AccountDescription { agent: kind, state, under_way: Some(page), failed: None })
    }

    /// Logs an agent out, for every program that uses its home.
    pub async fn log_out(&self, who: &Principal, kind: &str) -> Result<AccountDescription, Refusal> {
        who.may_daemon(Role::Owner)?;
        let account = self.changeable(kind)?;
        let (registry, by, kind) = (self.clone(), who.actor(), kind.to_owned());
        to_its_end(async move {
            let _turn = registry.shared.logins.turn.acquire().await.map_err(|_| gone())?;
            registry.give_up_login(&kind);
            let state = registry.in_time(account.log_out()).await?;
            Ok(registry.account_changed(by, &kind, Ok(state)).await)
        })
        .await
    }

    fn changeable(&self, kind: &str) -> Result<Arc<dyn Account>, Refusal> {
        let agent = self.agent(kind).ok_or_else(|| self.no_agent(kind))?;
        let can = |agent: &Arc<dyn Agent>| !agent.capabilities().logins.is_empty();
        agent.account().filter(|_| can(agent)).ok_or_else(|| {
            let message = format!(
                "the agent `{kind}` cannot be logged in or out through Portolan; use the agent's own program"
            );
            Refusal::new(RefusalCode::Unsupported, message)
        })
    }

    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, AccountError>>) -> Result<T, Refusal> {
        let refused = |message: String| Refusal::new(RefusalCode::AgentRefused, message);
        let late = |_| refused(format!("the agent took longer than {} s to answer", PATIENCE.as_secs()));
        let told = tokio::time::timeout(PATIENCE, asked).await.map_err(late)?;
        told.map_err(|AccountError(why)| refused(why))
    }

    /// Records the change of an account.
    async fn account_changed(
        &self,
        by: Actor,
        kind: &str,
        ended: Result<AccountState, AccountError>,
    ) -> AccountDescription {
        let (state, failed) = match ended {
            Ok(state) => (state, None),
            Err(AccountError(why)) => (AccountState::default(), Some(why)),
        };
        match &failed {
            Some(why) => self.logins().insert(kind.to_owned(), LastLogin::Failed(why.clone())),
            None => self.logins().remove(kind),
        };
        let (agent, login) = (kind.to_owned(), state.login.clone());
        let event = DaemonEvent::AccountChanged { agent: agent.clone(), login, failed: failed.clone() };
        self.shared.daemon.note(Some(by), event).await;
        AccountDescription { agent, state, under_way: None, failed }
    }

    fn give_up_login(&self, kind: &str) {
        let mut last = self.logins();
        if let Some(LastLogin::UnderWay { give_up, .. }) = last.remove(kind) {
            give_up.cancel();
        }
    }

    /// Is this login still in progress? From now on it is not.
    fn is_under_way(&self, kind: &str, login: &CancellationToken) -> bool {
        let mut last = self.logins();
        let is_it = !login.is_cancelled();
        if is_it {
            last.remove(kind);
        }
        is_it
    }

    fn logins(&self) -> MutexGuard<'_, HashMap<String, LastLogin>> {
        self.shared.logins.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs on its own task: the caller may leave, but the work is finished and recorded.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let fault = |_| Err(Refusal::new(RefusalCode::Internal, "internal error while changing an account"));
    tokio::spawn(change).await.unwrap_or_else(fault)
}
