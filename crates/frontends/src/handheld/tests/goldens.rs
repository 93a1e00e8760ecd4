//! The recorded conversations of the real Claude Code through core to the handheld's frames.
//!
//! Each recording is played to core's machine with its prompts and answers; the golden has every status that a device
//! would get.

use std::fmt::Write as _;

use portolan_core::log::delivery::Delivery;
use portolan_testkit::{
    agents::{Recording, recorded},
    replay::{NOW, SESSION, replay, spec},
};

use crate::{
    handheld::{
        names,
        project::View,
        wire::{AgentStatus, AutoEdit},
    },
    testing::goldens,
};

/// Every status that a device would get, each once.
async fn frames_of(recording: &Recording) -> String {
    let spec = spec();
    let name = names::of_session(0, &spec.agent, &spec.cwd);
    let (mut view, mut last, mut frames) = (View::new(SESSION), String::new(), String::new());
    replay(recording, &mut |delivery| match delivery {
        Delivery::Entries(pieces) => {
            for piece in pieces {
                view.apply(&piece.entry().unwrap());
                let face = view.face(AutoEdit::Off, NOW);
                let status = AgentStatus::fitted(0, &name, AutoEdit::Off, face);
                let frame = String::from_utf8(status.frame().to_vec()).unwrap();
                if frame != last {
                    writeln!(frames, "{frame}").unwrap();
                    last = frame;
                }
            }
        }
        Delivery::Snapshot(snapshot) => view.reset(&snapshot.state),
        other => panic!("{other:?}"),
    })
    .await;
    frames
}

// covers: 000-041, 000-042, 000-043, 000-046, 000-048, 000-049, 000-050, 000-051
#[tokio::test]
async fn the_recorded_conversations_give_these_frames() {
    let recordings = recorded::of_claude();
    for version in ["2.1.42-ws", "2.1.120-ws", "2.1.325-stdio"] {
        let mut all = String::new();
        for (name, recording) in recordings.iter().filter(|(name, _)| name.starts_with(version)) {
            let name = name.trim_start_matches(version).trim_matches('.');
            writeln!(all, "# {name}\n{}", frames_of(recording).await).unwrap();
        }
        goldens().bind(|| insta::assert_snapshot!(version, all));
    }
}
