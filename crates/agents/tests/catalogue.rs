//! The catalogue: which agents there are.

use std::{collections::BTreeSet, sync::Arc};

use portolan_agents::{KINDS, Settings, Supervision, acp, catalogue, claude, codex, dial_in::DialIn};

// covers: 003-017, 003-141
#[test]
fn every_agent_has_a_kind_that_no_other_has() {
    assert_eq!(KINDS.iter().collect::<BTreeSet<_>>().len(), KINDS.len(), "{KINDS:?}");
    // The kind is what a session is made from and what its summary shows: one plain word.
    let plain = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    assert!(KINDS.iter().all(|kind| plain(kind)), "{KINDS:?}");
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
    let all = catalogue(&settings);
    let kinds: Vec<&str> = all.iter().map(|agent| agent.kind()).collect();
    assert_eq!(kinds, KINDS.iter().copied().chain(["harbour"]).collect::<Vec<_>>());
}
