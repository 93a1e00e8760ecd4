//! Names that are given to the CLI. Pure and repeatable: the same session and number give the same name, so that a
//! prompt can be named after a restart, and no two things ever share a name.

use portolan_core::{Generation, SessionId, ports::InstructionId};
use sha2::{Digest as _, Sha256};

/// The uuid of a prompt. The CLI drops a uuid that it has seen before, and rewinds files by it.
pub(super) fn prompt(session: SessionId, instruction_id: InstructionId) -> String {
    uuid(&format!("prompt {session} {}", instruction_id.0))
}

/// The id of a control request.
pub(super) fn request(session: SessionId, generation: Generation, number: u64) -> String {
    uuid(&format!("request {session} {generation} {number}"))
}

/// The CLI's own session id for a start that resumes no earlier conversation. The first start has the session's own id,
/// so that people find it with `claude --resume`; an id in use would be refused.
pub(super) fn conversation(session: SessionId, generation: Generation) -> String {
    if generation.0 <= 1 {
        session.to_string()
    } else {
        uuid(&format!("conversation {session} {generation}"))
    }
}

fn uuid(of: &str) -> String {
    let digest = Sha256::digest(of.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_repeatable_and_belongs_to_one_thing() {
        let (here, there) = (SessionId::from_u128(1), SessionId::from_u128(2));
        assert_eq!(prompt(here, InstructionId(7)), prompt(here, InstructionId(7)));
        let all = [
            prompt(here, InstructionId(7)),
            prompt(here, InstructionId(8)),
            prompt(there, InstructionId(7)),
            request(here, Generation(1), 7),
            request(here, Generation(2), 7),
            conversation(here, Generation(1)),
            conversation(here, Generation(2)),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
