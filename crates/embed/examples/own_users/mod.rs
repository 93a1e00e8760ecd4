//! Accounts of a program's own: who comes in by them, and how a program puts somebody out.
//!
//! A real program fills this from its own users, for example when one of them logs in. Portolan asks for every request, so the
//! accounts lie in memory.

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
    /// The name of the account in Portolan: the same at each login, and no secret.
    id: TokenId,
    name: String,
    role: Role,
    /// Of what the user shows.
    secret: Digest,
    since: Millis,
    /// Cancelled, it ends everything that the user has under way.
    gone: CancellationToken,
}

impl Users {
    /// Lets somebody in who shows this secret.
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

    /// Puts somebody out: no further request is let in, and what is under way ends.
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
        // Every account is looked at, whichever fits: the time tells nothing.
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
