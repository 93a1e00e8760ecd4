//! The catalogue: which agents there are.

use std::{collections::BTreeSet, sync::Arc};

use portolan_agents::{KINDS, Supervision, claude, codex, demo, dial_in::DialIn};
use portolan_core::ports::Agent as _;

// covers: 003-090
#[test]
fn every_agent_has_a_kind_that_no_other_has() {
    assert_eq!(KINDS.iter().collect::<BTreeSet<_>>().len(), KINDS.len(), "{KINDS:?}");
    // The kind is what a session is made from and what its summary shows: one plain word.
    let plain = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    assert!(KINDS.iter().all(|kind| plain(kind)), "{KINDS:?}");
    let supervision = Arc::new(Supervision::new("test", vec![]));
    let claude = claude::Claude::new(claude::Config::default(), Arc::clone(&supervision), DialIn::new());
    let codex = codex::Codex::new(codex::Config::default(), Arc::clone(&supervision));
    let demo = demo::Demo::new(vec![], supervision);
    assert_eq!([claude.kind(), codex.kind(), demo.kind()], KINDS);
}
