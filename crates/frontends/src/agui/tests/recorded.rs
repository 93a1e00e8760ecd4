//! Golden transcripts: recordings of Claude Code, through its translator and core to the events of runs. The agents'
//! own goldens are the source; a run begins with each prompt and ends with its turn.

use std::sync::Mutex;

use portolan_core::{
    Event,
    log::delivery::{Delivery, Mode},
};

use portolan_testkit::agents::{
    Recording,
    recorded::{MARK, of_claude},
};

use super::*;
use crate::{
    agui::{
        project::{Approvals, Ended, PageNames, Projector, Prompts, history::History},
        wire::AguiEvent,
    },
    testing::goldens,
};

/// Runs of one stream of entries, each verified; then the history that a page would get.
struct Page {
    projector: Option<Projector>,
    history: History,
    state: Option<Arc<State>>,
    began: bool,
    events: Vec<AguiEvent>,
    runs: Vec<Vec<Value>>,
    messages: Vec<(String, String, String)>,
}

impl Page {
    fn take(&mut self, session: SessionId, delivery: &Delivery<Event, State>) {
        let mut begun = Vec::new();
        let Delivery::Entries(pieces) = delivery else {
            if let Delivery::Snapshot(snapshot) = delivery {
                let projector = Projector::new(
                    session,
                    "default",
                    PageNames::none(),
                    Approvals::Event,
                    Prompts::All,
                    &snapshot.state,
                );
                self.projector = Some(projector);
                self.state = Some(Arc::clone(&snapshot.state));
            }
            return;
        };
        for piece in pieces {
            let entry = piece.entry().unwrap();
            self.history.take(entry.seq, entry.by.as_deref(), &entry.event);
            let Some(projector) = &mut self.projector else { continue };
            match &*entry.event {
                // The player's own marks.
                Event::Notice { text, .. } if text.starts_with(MARK) => continue,
                // The reader may attach at any moment of the start: the first run begins here.
                Event::Prompt { .. } if !self.began => {
                    self.began = true;
                    self.events.clear();
                    projector.next_run("default", Approvals::Event);
                    projector.tell_state(&mut self.events);
                }
                _ => {}
            }
            projector.project(entry.seq, entry.by.as_deref(), &entry.event, &mut self.events);
            if let Event::TurnEnded { result, .. } = &*entry.event {
                projector.close(&mut self.events);
                let last = match Ended::of(result) {
                    Ended::Finished => {
                        AguiEvent::RunFinished { thread_id: "t".into(), run_id: "r".into(), outcome: None }
                    }
                    Ended::Failed { message, code } => AguiEvent::RunError { message, code: Some(code) },
                };
                begun.push(AguiEvent::RunStarted { thread_id: "t".into(), run_id: "r".into() });
                begun.append(&mut self.events);
                begun.push(last);
                projector.next_run("default", Approvals::Event);
                let run: Vec<Value> =
                    begun.drain(..).map(|event| serde_json::to_value(event).unwrap()).collect();
                verify(&run).unwrap_or_else(|why| panic!("{why}\n{run:#?}"));
                self.runs.push(run);
            }
        }
    }
}

/// Plays one recording: every event that a page gets.
async fn page_of(recording: &Recording) -> Page {
    let page = Mutex::new(Page {
        projector: None,
        history: History::new(PageNames::none()),
        state: None,
        began: false,
        events: Vec::new(),
        runs: Vec::new(),
        messages: Vec::new(),
    });
    let session = recording
        .play_back(Mode::Every, &mut |session, delivery| page.lock().unwrap().take(session, delivery))
        .await;
    let mut page = page.into_inner().unwrap();
    let told = serde_json::to_string(&page.runs).unwrap().replace(&session.to_string(), "SESSION");
    page.runs = serde_json::from_str(&told).unwrap();
    for run in &mut page.runs {
        number(run);
    }
    page
}

/// Requests are named by the number of their entry, which does not matter here.
fn number(events: &mut [Value]) {
    let mut names: Vec<String> = Vec::new();
    for event in events.iter_mut().filter(|event| event["type"] == "CUSTOM") {
        if let Some(id) = event["value"].get("requestId").and_then(Value::as_str).map(str::to_owned) {
            let place = names.iter().position(|name| *name == id).unwrap_or_else(|| {
                names.push(id);
                names.len() - 1
            });
            event["value"]["requestId"] = format!("request-{}", place + 1).into();
        }
        if event["value"].get("digest").is_some() {
            event["value"]["digest"] = "DIGEST".into();
        }
    }
    for event in events {
        let id = event.get("messageId").and_then(Value::as_str);
        if id.is_some_and(|id| id.starts_with("prompt-")) {
            event["messageId"] = "PROMPT".into();
        }
    }
}

// covers: 004-033, 004-064, 004-070, 004-113
#[tokio::test]
async fn every_recording_of_claude_becomes_runs_that_both_clients_accept() {
    for (name, recording) in of_claude() {
        let mut page = page_of(&recording).await;
        let lines: Vec<String> = page.runs.iter().flatten().map(ToString::to_string).collect();
        goldens().bind(|| insta::assert_snapshot!(name.as_str(), lines.join("\n")));
        // The history equals the stream: the same ids, the same texts.
        let runs: Vec<&[Value]> = page.runs.iter().map(Vec::as_slice).collect();
        let mut streamed = shown(&runs);
        let Some(state) = page.state.take() else { continue };
        let history = json!({"type": "MESSAGES_SNAPSHOT", "messages": page.history.into_messages(&state)});
        page.messages = shown(&[&[history]]);
        page.messages.retain(|(role, ..)| role != "user");
        streamed.retain(|(role, ..)| role != "user");
        // Entries after the last turn are only in the history.
        let told: Vec<_> = page
            .messages
            .iter()
            .filter(|one| streamed.iter().any(|(_, id, _)| *id == one.1))
            .cloned()
            .collect();
        assert_eq!(told.len(), streamed.len(), "{name}: {streamed:#?}\n{:#?}", page.messages);
        for (role, id, text) in &streamed {
            let kept = told.iter().find(|(_, known, _)| known == id).unwrap();
            assert_eq!(&kept.0, role, "{name}");
            let read = |text: &str| serde_json::from_str::<Value>(text).ok();
            let same = read(text).is_some() && read(text) == read(&kept.2);
            assert!(text == &kept.2 || same, "{name} {id}: {text} was told, {} is kept", kept.2);
        }
    }
}
