//! The audit, for owners.

use super::{Registry, broken};
use crate::{
    Position, Principal, Refusal, RefusalCode, Role,
    audit::{self, AuditDetails, AuditPage, AuditQuery},
};

impl Registry {
    /// A page of the audit. A token that is bound to sessions reads nothing of it, not even of its sessions: records name
    /// other people, their tokens and their addresses.
    pub async fn audit(&self, who: &Principal, query: &AuditQuery) -> Result<AuditPage, Refusal> {
        who.may_daemon(Role::Owner)?;
        audit::list(&*self.shared.store, query).await.map_err(broken)
    }

    /// One record of the audit with its entry and its seal.
    pub async fn audit_record(&self, who: &Principal, position: Position) -> Result<AuditDetails, Refusal> {
        who.may_daemon(Role::Owner)?;
        let found = audit::show(&*self.shared.store, position).await.map_err(broken)?;
        found.ok_or_else(|| {
            Refusal::new(RefusalCode::NotFound, format!("there is no record `{position}` in the audit"))
        })
    }
}
