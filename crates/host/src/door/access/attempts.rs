//! The check of attempts: an address that shows too many wrong credentials is locked out for a while.

use std::net::IpAddr;

use portolan_core::DaemonEvent;

use super::AccessCheck;
use crate::door::denied::Denied;

impl AccessCheck {
    /// Counts wrong credentials. A locked-out address gets nothing in, except on loopback: there every user and program
    /// of the machine has the same address, and none may lock out the others.
    pub(in crate::door) fn check_attempt<T>(
        &self,
        found: Option<T>,
        address: Option<IpAddr>,
    ) -> Result<T, Denied> {
        let locked = self.locked(address);
        match (found, locked) {
            (Some(found), None) => Ok(found),
            (Some(found), Some(_)) if is_loopback(address) => Ok(found),
            (_, Some(left)) => Err(locked_out(left)),
            (None, None) => {
                self.note_failure(address);
                Err(Denied::unauthenticated())
            }
        }
    }

    /// Whether requests from this address are accepted now.
    pub(in crate::door) fn check_lockout(&self, address: Option<IpAddr>) -> Result<(), Denied> {
        match self.locked(address) {
            Some(left) if !is_loopback(address) => Err(locked_out(left)),
            _ => Ok(()),
        }
    }

    fn locked(&self, address: Option<IpAddr>) -> Option<u32> {
        self.failures.locked_for(address?, self.clock.now())
    }

    fn note_failure(&self, address: Option<IpAddr>) {
        if let Some(address) = address
            && self.failures.note(address, self.clock.now())
        {
            tracing::warn!(%address, "locked out after too many wrong credentials");
            let (from, attempts) = (address.to_string(), self.limits.failures);
            let reason = "wrong credentials; the address is locked out for a while".to_owned();
            self.tell(None, DaemonEvent::AccessRefused { from, attempts, reason });
        }
    }
}

fn locked_out(left: u32) -> Denied {
    Denied::too_often("too many wrong credentials from this address; wait, then use a valid token", left)
}

fn is_loopback(address: Option<IpAddr>) -> bool {
    address.is_some_and(|address| address.is_loopback())
}
