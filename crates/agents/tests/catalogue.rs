//! The catalogue: which agents exist.

use std::{collections::BTreeSet, sync::Arc};

use portolan_agents::{KINDS, Settings, Supervision, acp, catalogue, claude, codex, dial_in::DialIn};
use portolan_core::ports::Agent;

// covers: 003-017, 003-141
#[test]
fn every_agent_has_a_kind_that_no_other_has() {
    assert_eq!(KINDS.iter().collect::<BTreeSet<_>>().len(), KINDS.len(), "{KINDS:?}");
    // A session is made from the kind, and its summary shows the kind: one plain word.
    let plain = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    assert!(KINDS.iter().all(|kind| plain(kind)), "{KINDS:?}");
    let all = everyone();
    let kinds: Vec<&str> = all.iter().map(|agent| agent.kind()).collect();
    assert_eq!(kinds, KINDS.iter().copied().chain(["harbour"]).collect::<Vec<_>>());
}

/// All agents, and one that only the configuration names.
fn everyone() -> Vec<Arc<dyn Agent>> {
    let settings = Settings {
        supervision: Arc::new(Supervision::new("test", vec![])),
        demo: vec![],
        claude: claude::Config::default(),
        codex: codex::Config::default(),
        acp: vec![acp::Config {
            kind: "harbour".into(),
            command: vec!["harbour".into()],
            ..acp::Config::default()
        }],
        dial_in: DialIn::new(),
    };
    catalogue(&settings)
}

// The suite of Claude Code shows that it can rewind, scenario `rewind`; core's own tests show that core refuses it for
// the others.
// covers: 003-027
#[test]
fn only_claude_code_and_the_demo_can_rewind_files() {
    let all = everyone();
    let can: Vec<&str> = all
        .iter()
        .filter(|agent| agent.capabilities().file_checkpointing)
        .map(|agent| agent.kind())
        .collect();
    assert_eq!(can.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&"claude", &"demo"]));
}
