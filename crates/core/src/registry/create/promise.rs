//! The promise of a command's id: which session the id creates, recorded before that session exists. After a crash, or
//! when a client asks again, the same id gives the same session.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    LogId, Refusal, RefusalCode, Seq, SessionId,
    command::{CommandKey, Stage},
    ports::{CommandRow, Op},
    registry::{Registry, broken},
    session::{machine::hex, state::Summary, task::DELETED},
};

impl Registry {
    /// Did this id create a session before? Refused if it was for something else, or if that session was deleted.
    pub(in crate::registry) async fn session_for(
        &self,
        key: &CommandKey,
        asked: &Wanted,
    ) -> Result<Known, Refusal> {
        let row = self.shared.store.command(LogId::Daemon, key.clone()).await.map_err(broken)?;
        let Some(promised) = row.as_ref().and_then(promised) else { return Ok(Known::Nothing) };
        let session = promised.session;
        if promised.digest.is_some_and(|digest| digest != asked.digest(session)) {
            let message = format!(
                "the id `{}` was used for another session (`{session}`), so this session was not created; use a new id",
                key.id
            );
            return Err(Refusal::new(RefusalCode::Invalid, message));
        }
        match self.wake(session).await {
            Ok(handle) => {
                // A caller that asks again waits for the session's first prompt, which the daemon's end may have
                // parked.
                self.send_parked(&handle, None).await?;
                Ok(Known::Made(Box::new(handle.log.state().summary.clone())))
            }
            Err(refusal) if refusal.code == RefusalCode::NotFound => {
                let deleted = self.shared.store.record(DELETED, session.to_string()).await.map_err(broken)?;
                if deleted.is_none() {
                    return Ok(Known::Promised(session));
                }
                let message = format!(
                    "the id `{}` was used for a session that is deleted now; use a new id to create another session",
                    key.id
                );
                Err(Refusal::new(RefusalCode::Ended, message))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Records which session this id creates, before the session exists: after a crash no second session is created.
    pub(in crate::registry) async fn promise(
        &self,
        key: &CommandKey,
        session: SessionId,
        asked: &Wanted,
    ) -> Result<(), Refusal> {
        let digest = Some(asked.digest(session));
        let result = serde_json::to_value(Promised { session, digest }).ok();
        let stage = Stage::Consumed { result };
        // Our own types serialise.
        let stage = serde_json::to_vec(&stage).unwrap_or_default().into();
        let row = CommandRow { key: key.clone(), seq: Seq::ZERO, stage };
        self.commit(LogId::Daemon, vec![Op::Command(row)]).await
    }
}

/// What an id was used for.
pub(in crate::registry) enum Known {
    Made(Box<Summary>),
    Promised(SessionId),
    Nothing,
}

/// The record of an id that creates a session.
#[derive(Serialize, Deserialize)]
struct Promised {
    session: SessionId,
    /// The digest of the requested settings; absent in records of an older Portolan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

fn promised(row: &CommandRow) -> Option<Promised> {
    let stage: Stage = serde_json::from_slice(&row.stage).ok()?;
    let Stage::Consumed { result: Some(result) } = stage else { return None };
    serde_json::from_value(result).ok()
}

/// Everything that a client requested for a session, as text that is equal for equal requests.
pub(in crate::registry) struct Wanted(Vec<u8>);

impl Wanted {
    /// `way` separates the different ways to create a session.
    pub(in crate::registry) fn new(way: &str, what: &impl Serialize) -> Self {
        // Our own types serialise. Names are sorted: a client may send the same settings in another order.
        let mut what = serde_json::to_value(what).unwrap_or_default();
        what.sort_all_objects();
        Self(serde_json::to_vec(&(way, what)).unwrap_or_default())
    }

    /// Secrets count and must not be readable: each session has its own digest.
    fn digest(&self, session: SessionId) -> String {
        let digest = Sha256::new().chain_update(session.to_string()).chain_update(&self.0).finalize();
        hex(&digest)
    }
}
