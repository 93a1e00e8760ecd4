//! Tokens: who gets access by a secret, and since when.
//!
//! Only digests are kept, as records in the store; all of them are also in memory, so that a check needs no read. When
//! a token is revoked, rotated or expired, everything that it let in ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use bytes::Bytes;
use portolan_core::{
    LogId, Millis, Principal, Refusal, RefusalCode, Role, SessionId, TokenId, WayOut,
    ports::{Boxed, Clock, Op, Store, StoreError, Write},
};
use serde::{Deserialize, Serialize};
use subtle::Choice;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    authenticator::{Authenticator, Credential, Standing},
    owner_file::{OwnerFileError, read_or_create, replace},
    secret::{Digest, Secret, SecretKind},
    stay::Stay,
};
pub use portolan_protocol::TokenInfo;

/// The records of tokens, by id.
const TOKENS: &str = "tokens";
/// When each token was last used, by id. Separate from the tokens, so that recording a use can never restore a token
/// that was revoked at the same moment.
const USES: &str = "token_uses";
/// More tokens than this come from a loop in a script.
const MAX_TOKENS: usize = 1000;
/// The longest name a token may have, in characters.
const MAX_NAME: usize = 64;
/// How long a change waits for the disk before its sender gets a reply.
pub(super) const COMMIT_WAIT: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    info: TokenInfo,
    digest: Digest,
}

#[derive(Debug)]
struct Held {
    info: TokenInfo,
    digest: Digest,
    gone: CancellationToken,
    use_written: Option<Millis>,
}

impl Held {
    fn new(record: Record) -> Self {
        let Record { info, digest } = record;
        Self { use_written: info.used_at, info, digest, gone: CancellationToken::new() }
    }

    fn is_valid(&self, now: Millis) -> bool {
        self.info.expires_at.is_none_or(|end| now < end)
    }

    fn principal(&self) -> Principal {
        Principal {
            token: self.info.token.clone(),
            name: self.info.name.clone(),
            role: self.info.role,
            sessions: self.info.sessions.clone(),
            via: "api".into(),
        }
    }

    fn standing(&self, clock: &Clock) -> Standing {
        let stay = Stay::until(self.gone.clone());
        let stay = match self.info.expires_at {
            Some(end) => stay.expiring(end, clock.clone()),
            None => stay,
        };
        Standing { principal: self.principal(), since: self.info.created_at, stay }
    }
}

/// The tokens of this daemon: the default [`Authenticator`].
#[derive(Debug)]
pub struct Tokens {
    store: Arc<dyn Store>,
    clock: Clock,
    held: RwLock<BTreeMap<TokenId, Held>>,
    used: Used,
}

/// Whether tokens let anyone in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Yes,
    /// An [`Authenticator`] of the embedding program does instead: a token would give no access, so none can be
    /// created.
    No,
}

impl Tokens {
    /// Reads the stored tokens.
    pub async fn open(store: Arc<dyn Store>, clock: Clock) -> Result<Arc<Self>, StoreError> {
        let mut held = BTreeMap::new();
        for (key, value) in store.records(TOKENS).await? {
            match serde_json::from_slice::<Record>(&value) {
                Ok(record) => {
                    held.insert(record.info.token.clone(), Held::new(record));
                }
                // One bad record must not lock everybody out. Its token gives no access.
                Err(error) => tracing::warn!(token = key, %error, "the record of a token cannot be read"),
            }
        }
        for (key, value) in store.records(USES).await? {
            let used = serde_json::from_slice::<Millis>(&value).ok();
            if let (Ok(id), Some(used)) = (key.parse::<TokenId>(), used)
                && let Some(token) = held.get_mut(&id)
            {
                token.info.used_at = Some(used);
                token.use_written = Some(used);
            }
        }
        Ok(Arc::new(Self { store, clock, held: RwLock::new(held), used: Used::Yes }))
    }

    /// No tokens, for a host where another [`Authenticator`] lets people in. Creating a token is refused: the token
    /// would give no access. Tokens in the store stay there.
    pub fn unused(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, held: RwLock::default(), used: Used::No })
    }

    /// Refuses if a token would give no access.
    fn are_used(&self) -> Result<(), Refusal> {
        match self.used {
            Used::Yes => Ok(()),
            Used::No => Err(Refusal::new(
                RefusalCode::Unsupported,
                "this program accepts no tokens, because it has its own accounts; ask the program for access",
            )),
        }
    }

    /// The id of the owner's own token, whose secret is in a file.
    pub fn owner_id() -> TokenId {
        OWNER.clone()
    }

    /// Ensures that the owner's token exists, and returns its secret: read from the file at `path` if there is one,
    /// otherwise created and written there with mode 0600. The file decides: the store follows it.
    pub async fn owner_secret_file(&self, path: &Path) -> Result<Secret, OwnerFileError> {
        self.are_used()?;
        let secret = read_or_create(path)?;
        let digest = secret.digest();
        let known = self.read().get(&OWNER).is_some_and(|held| bool::from(held.digest.same(&digest)));
        if !known {
            self.register_owner(digest).await?;
        }
        Ok(secret)
    }

    /// Gives the owner's token a new secret, in the file too. Clients of the old secret are disconnected.
    pub async fn rotate_owner(&self, path: &Path) -> Result<Secret, OwnerFileError> {
        self.are_used()?;
        let secret = Secret::random(SecretKind::Token)?;
        replace(path, &secret)?;
        self.register_owner(secret.digest()).await?;
        Ok(secret)
    }

    async fn register_owner(&self, digest: Digest) -> Result<(), Refusal> {
        let info = TokenInfo {
            token: OWNER.clone(),
            name: "owner".into(),
            role: Role::Owner,
            sessions: None,
            created_at: self.clock.now(),
            expires_at: None,
            used_at: None,
        };
        let record = Record { info, digest };
        let put = put(&record)?;
        let before = self.write().insert(OWNER.clone(), Held::new(record));
        if let Some(before) = before {
            before.gone.cancel();
        }
        commit(&self.store, vec![put]).await
    }

    /// Whether a new token may have this name. People identify tokens by name: two tokens with one name could not be
    /// told apart when one must be revoked.
    pub fn is_free(&self, name: &str) -> Result<(), Refusal> {
        self.are_used()?;
        let name = name.trim();
        if !self.read().values().any(|held| held.info.name == name) {
            return fits(name);
        }
        Err(Refusal::new(
            RefusalCode::Invalid,
            format!("a token `{name}` already exists; use another name, or revoke that token first"),
        ))
    }

    /// Creates a token. The secret is shown only once.
    pub async fn create(
        &self,
        name: &str,
        role: Role,
        sessions: Option<BTreeSet<SessionId>>,
        expires_at: Option<Millis>,
    ) -> Result<(TokenInfo, String), Refusal> {
        self.are_used()?;
        let name = name.trim();
        fits(name)?;
        opens_something(sessions.as_ref())?;
        let now = self.clock.now();
        if expires_at.is_some_and(|end| end <= now) {
            return Err(Refusal::new(
                RefusalCode::Invalid,
                "the token would already be expired; give a later time, or leave the time out",
            ));
        }
        if self.read().len() >= MAX_TOKENS {
            return Err(Refusal::new(
                RefusalCode::Busy,
                format!("there are {MAX_TOKENS} tokens, which is the limit"),
            )
            .with_way_out(WayOut::RevokeToken));
        }
        let secret = Secret::random(SecretKind::Token)?;
        let info = TokenInfo {
            token: TokenId::random(),
            name: name.to_owned(),
            role,
            sessions,
            created_at: now,
            expires_at,
            used_at: None,
        };
        let record = Record { info: info.clone(), digest: secret.digest() };
        commit(&self.store, vec![put(&record)?]).await?;
        self.write().insert(info.token.clone(), Held::new(record));
        Ok((info, secret.expose().to_owned()))
    }

    /// All tokens, oldest first, including expired ones.
    pub fn list(&self) -> Vec<TokenInfo> {
        let mut all: Vec<_> = self.read().values().map(|held| held.info.clone()).collect();
        all.sort_by(|a, b| (a.created_at, &a.token).cmp(&(b.created_at, &b.token)));
        all
    }

    /// Revokes a token, at once.
    pub async fn revoke(&self, token: &TokenId) -> Result<(), Refusal> {
        self.are_used()?;
        if *token == *OWNER {
            return Err(Refusal::new(
                RefusalCode::Invalid,
                "the owner's own token cannot be revoked, only replaced",
            )
            .with_way_out(WayOut::RotateOwnerToken));
        }
        // Out of memory first: whatever the disk does, the token gives no access from here on.
        let Some(held) = self.write().remove(token) else {
            return Err(Refusal::new(RefusalCode::NotFound, format!("no token `{token}`"))
                .with_way_out(WayOut::ListTokens));
        };
        held.gone.cancel();
        let remove = |collection| Op::Remove { collection, key: token.as_str().to_owned() };
        commit(&self.store, vec![remove(TOKENS), remove(USES)]).await
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<TokenId, Held>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<TokenId, Held>> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_use(&self, token: &TokenId, now: Millis) {
        if let Some(held) = self.write().get_mut(token) {
            held.info.used_at = Some(now);
        }
    }
}

/// A token is bound to some sessions or to none at all, never to an empty list.
pub(super) fn opens_something(sessions: Option<&BTreeSet<SessionId>>) -> Result<(), Refusal> {
    if sessions.is_some_and(BTreeSet::is_empty) {
        return Err(Refusal::new(
            RefusalCode::Invalid,
            "a token bound to no session gives no access; name a session, or leave the sessions out",
        ));
    }
    Ok(())
}

/// A name that people can read and type.
fn fits(name: &str) -> Result<(), Refusal> {
    if !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::Invalid,
        format!("a token's name has 1 to {MAX_NAME} characters and no control characters"),
    ))
}

static OWNER: std::sync::LazyLock<TokenId> = std::sync::LazyLock::new(|| {
    // A valid constant; a random id would only mean that nobody is ever the owner.
    "owner".parse().unwrap_or_else(|_| TokenId::random())
});

/// Uses of a token closer together than this count as one: recording them takes the write lock.
const USE_STEP_MS: i64 = 1000;

impl Authenticator for Tokens {
    fn authenticate(&self, credential: &Credential) -> Option<Standing> {
        let Credential::Bearer(secret) = credential;
        let digest = secret.digest();
        let now = self.clock.now();
        let found = {
            let held = self.read();
            // Every token is compared, even after a match: the time reveals nothing.
            let mut found = None;
            for token in held.values() {
                let same: Choice = token.digest.same(&digest);
                if bool::from(same) {
                    found = Some(token);
                }
            }
            let token = found.filter(|token| token.is_valid(now))?;
            let stale = token.info.used_at.is_none_or(|used| now.0 - used.0 >= USE_STEP_MS);
            (token.standing(&self.clock), stale)
        };
        let (standing, stale) = found;
        if stale {
            self.note_use(&standing.principal.token, now);
        }
        Some(standing)
    }

    fn standing(&self, token: &TokenId) -> Option<Standing> {
        let now = self.clock.now();
        let held = self.read();
        let token = held.get(token).filter(|token| token.is_valid(now))?;
        Some(token.standing(&self.clock))
    }

    fn tidy(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            let mut ops = Vec::new();
            for held in self.write().values_mut() {
                if let Some(used) = held.info.used_at.filter(|used| held.use_written != Some(*used)) {
                    held.use_written = Some(used);
                    let value = Bytes::from(used.0.to_string());
                    ops.push(Op::Put { collection: USES, key: held.info.token.as_str().to_owned(), value });
                }
            }
            if !ops.is_empty()
                && let Err(error) = commit(&self.store, ops).await
            {
                tracing::debug!(%error, "the times when tokens were last used were not written");
            }
        })
    }
}

fn put(record: &Record) -> Result<Op, Refusal> {
    record_op(TOKENS, record.info.token.as_str().to_owned(), record)
}

/// A record as JSON, ready to be written.
pub(super) fn record_op(
    collection: &'static str,
    key: String,
    record: &impl Serialize,
) -> Result<Op, Refusal> {
    match serde_json::to_vec(record) {
        Ok(value) => Ok(Op::Put { collection, key, value: value.into() }),
        Err(error) => {
            Err(Refusal::new(RefusalCode::Internal, format!("a record cannot be written: {error}")))
        }
    }
}

/// Writes records and waits until they are committed.
pub(super) async fn commit(store: &Arc<dyn Store>, ops: Vec<Op>) -> Result<(), Refusal> {
    let failing = |message: String| Refusal::new(RefusalCode::StoreFailing, message);
    let (done, committed) = oneshot::channel();
    let write = Write {
        log: LogId::Daemon,
        ops,
        done: Some(Box::new(move || {
            // The sender may have stopped waiting.
            let _ = done.send(());
        })),
    };
    let written = async {
        store.write(write).await.map_err(|error| failing(error.to_string()))?;
        committed.await.map_err(|_| failing("the store ended before it wrote the change".into()))
    };
    tokio::time::timeout(COMMIT_WAIT, written).await.unwrap_or_else(|_| {
        Err(failing(
            "the disk cannot be written at the moment; the change is written when the disk works again"
                .into(),
        ))
    })
}
