//! A program's own accounts: who has access, and how a program ends the access of a user.
//!
//! A real program fills this from its own users, for example when a user logs in. Portolan asks for every request, so
//! the accounts are in memory.

use std::sync::{PoisonError, RwLock};

use portolan_core::{Millis, TokenId};
use portolan_embed::{
    Authenticator, Credential, Principal, Role, Standing, Stay,
    door::{Digest, Secret},
};
use tokio_util::sync::CancellationToken;

/// The accounts.
#[derive(Debug, Default)]
pub(crate) struct Users(RwLock<Vec<User>>);

#[derive(Debug)]
struct User {
    /// The name of the account in Portolan: the same at each login, and not secret.
    id: TokenId,
    name: String,
    role: Role,
    /// The digest of the user's secret.
    secret: Digest,
    since: Millis,
    /// Cancelling it ends all connections and requests of the user.
    gone: CancellationToken,
}

impl Users {
    /// Gives access to a user with this secret.
    pub(crate) fn add(&self, id: TokenId, name: &str, role: Role, secret: &str) {
        let user = User {
            id,
            name: name.to_owned(),
            role,
            secret: Secret::sent(secret).digest(),
            since: Millis::now(),
            gone: CancellationToken::new(),
        };
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(user);
    }

    /// Ends the access of a user: new requests are refused, and running requests end.
    pub(crate) fn remove(&self, id: &TokenId) {
        let mut users = self.0.write().unwrap_or_else(PoisonError::into_inner);
        users.retain(|user| {
            let stays = user.id != *id;
            if !stays {
                user.gone.cancel();
            }
            stays
        });
    }

    fn find(&self, fits: impl Fn(&User) -> bool) -> Option<Standing> {
        let users = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // Compare with every account, even after a match, so that the time reveals nothing.
        users.iter().filter(|user| fits(user)).map(User::standing).last()
    }
}

impl User {
    fn standing(&self) -> Standing {
        let principal = Principal {
            token: self.id.clone(),
            name: self.name.clone(),
            role: self.role,
            sessions: None,
            via: "api".into(),
        };
        Standing { principal, since: self.since, stay: Stay::until(self.gone.clone()) }
    }
}

impl Authenticator for Users {
    fn authenticate(&self, credential: &Credential) -> Option<Standing> {
        let Credential::Bearer(secret) = credential else { return None };
        let digest = secret.digest();
        self.find(|user| bool::from(user.secret.same(&digest)))
    }

    fn standing(&self, id: &TokenId) -> Option<Standing> {
        self.find(|user| user.id == *id)
    }
}
