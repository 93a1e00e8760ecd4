//! How each entry appears on a device.

use std::borrow::Cow;

use portolan_core::{
    Capabilities, Event, Millis, RequestId, Seq, SessionId, event::ResetReason, log::delivery::Seen,
    session::state::State,
};
use serde_json::{Value, json};

use crate::handheld::{
    project::{Effect, View},
    wire::{AutoEdit, Face, SlotState},
};

/// A session that is played entry by entry.
struct Played {
    view: View,
    seq: u64,
    at: i64,
}

impl Played {
    /// A session whose agent is ready.
    fn ready() -> Self {
        let mut played = Self { view: View::new(SessionId::from_u128(1)), seq: 0, at: 0 };
        played
            .then(
                json!({ "type": "session_created", "spec": { "agent": "claude", "cwd": "/home/ada/shop" } }),
            )
            .then(starting(1, None))
            .then(json!({ "type": "agent_ready", "generation": 1 }));
        played
    }

    fn then(&mut self, event: Value) -> &mut Self {
        self.apply(event);
        self
    }

    fn apply(&mut self, event: Value) -> Effect {
        self.seq += 1;
        let event: Event = serde_json::from_value(event).unwrap();
        let entry = Seen { seq: Seq(self.seq), at: Millis(self.at), by: None, event: Cow::Owned(event) };
        self.view.apply(&entry)
    }

    fn after(&mut self, millis: i64) -> &mut Self {
        self.at += millis;
        self
    }

    fn face(&self) -> Face {
        self.view.face(AutoEdit::Off, Millis(self.at))
    }

    fn shows(&self) -> (SlotState, String) {
        let face = self.face();
        (face.state, face.message)
    }

    fn prompt(&mut self) -> &mut Self {
        let number = (self.seq + 1).to_string();
        let content = json!([{ "type": "text", "text": "go" }]);
        self.then(json!({ "type": "command_accepted", "key": { "token": "t", "id": number },
            "action": { "name": "prompt", "content": content } }))
    }

    fn turn(&mut self) -> &mut Self {
        self.prompt();
        let command = self.seq;
        self.then(json!({ "type": "turn_started", "turn": 1, "origin": "prompt" }))
            .then(json!({ "type": "receipt", "command": command, "stage": "consumed" }))
    }

    fn says(&mut self, text: &str) -> &mut Self {
        let item = format!("i{}", self.seq);
        self.then(json!({ "type": "message", "item": item, "content": [{ "type": "text", "text": text }] }))
    }

    fn ends(&mut self, result: Value) -> &mut Self {
        self.then(json!({ "type": "turn_ended", "turn": 1, "result": result }))
    }

    fn asks(&mut self, ask: Value) -> u64 {
        let request = self.seq + 1;
        self.then(
            json!({ "type": "request_opened", "request": { "request": request, "generation": 1, "ask": ask,
            "digest": "d", "opened_at": 0 } }),
        );
        request
    }
}

fn starting(generation: u32, resume: Option<&str>) -> Value {
    json!({ "type": "agent_starting", "generation": generation, "capabilities": Capabilities::default(),
        "resume": resume })
}

fn exited(reason: &str, message: &str) -> Value {
    json!({ "type": "agent_exited", "generation": 1, "exit": { "reason": reason, "message": message } })
}

fn bash() -> Value {
    json!({ "kind": "permission", "tool_name": "Bash", "input": { "command": "ls -la" },
        "description": "List the folder" })
}

fn call(tool: &str, name: &str) -> Value {
    json!({ "type": "tool_call", "tool": tool, "name": name, "kind": "execute", "input": {} })
}

fn shown(state: SlotState, message: &str) -> (SlotState, String) {
    (state, message.to_owned())
}

// covers: 000-041
#[test]
fn a_ready_session_is_idle_and_active_and_agent_info_does_not_change_its_state() {
    let mut played = Played::ready();
    assert_eq!(played.shows(), shown(SlotState::Idle, "Ready"));
    assert!(played.face().active);
    let info = json!({ "type": "agent_info", "info": { "agent_session": "s1", "model": "opus" } });
    played.then(info.clone());
    assert_eq!(played.shows(), shown(SlotState::Idle, "Ready"));
    assert_eq!(played.view.state().summary.agent_session.as_deref(), Some("s1"));
    played.turn().says("On it.").then(info);
    assert_eq!(played.shows(), shown(SlotState::Working, "On it."), "not idle in the middle of a turn");
}

// covers: 000-058
#[test]
fn a_prompt_shows_at_once_that_it_is_being_processed() {
    let mut played = Played::ready();
    played.prompt();
    assert_eq!(played.shows(), shown(SlotState::Working, "Processing prompt..."));
    played.then(json!({ "type": "turn_started", "turn": 1, "origin": "prompt" }));
    assert_eq!(played.shows(), shown(SlotState::Working, "Processing prompt..."));
    played.says("Here.");
    assert_eq!(played.shows(), shown(SlotState::Working, "Here."));
}

// covers: 000-043
#[test]
fn the_last_finished_text_stays_while_other_text_streams() {
    let mut played = Played::ready();
    played.turn().says("First words.");
    played.then(json!({ "type": "message", "item": "x", "content": [{ "type": "thinking", "text": "hm" }] }));
    played.then(json!({ "type": "message", "item": "y", "parent": "sub", "content": [{ "type": "text", "text": "sub" }] }));
    assert_eq!(played.shows(), shown(SlotState::Working, "First words."));
    let item = json!({ "type": "item_started", "item": "z", "kind": "text" });
    assert_eq!(played.apply(item), Effect::Unseen);
    assert_eq!(played.apply(json!({ "type": "delta", "item": "z", "text": "more" })), Effect::Unseen);
    let summary = json!({ "type": "tool_summary", "summary": "did things", "tools": [] });
    played.then(summary);
    assert_eq!(played.shows(), shown(SlotState::Working, "First words."));
}

// covers: 000-044
#[test]
fn the_context_is_everything_that_was_read_over_the_window() {
    let percent = |input: u64, window: Option<u64>| {
        let mut played = Played::ready();
        played.turn().then(json!({ "type": "usage", "context_window": window,
            "usage": { "input": input, "output": 9999, "cache_creation": 10_000, "cache_read": 20_000 } }));
        played.face().context_percent
    };
    assert_eq!(percent(30_000, None), 30, "of 200,000 until known");
    assert_eq!(percent(30_000, Some(1_000_000)), 6);
    assert_eq!(percent(900_000, None), 100);
    assert_eq!(percent(30_000, Some(0)), 100, "a window of nothing is full");
    let mut played = Played::ready();
    assert_eq!(played.face().context_percent, 0);
    played.turn().then(json!({ "type": "usage", "parent": "sub", "usage": { "input": 90_000 } }));
    assert_eq!(played.face().context_percent, 0, "a subagent has its own");
}

// covers: 000-046, 000-065
#[test]
fn the_oldest_open_request_is_shown_until_it_is_closed() {
    let mut played = Played::ready();
    played.turn();
    let first = played.asks(bash());
    let second = played.asks(json!({ "kind": "plan", "plan": "1. Sail", "input": {} }));
    let prompt = played.face().prompt.unwrap();
    assert_eq!(played.shows(), shown(SlotState::Waiting, "Bash: ls -la"));
    assert_eq!(
        (&*prompt.tool_type, &*prompt.tool_detail, &*prompt.description),
        ("Bash", "ls -la", "List the folder")
    );
    played.then(json!({ "type": "request_closed", "request": first, "outcome": { "how": "withdrawn" } }));
    assert_eq!(played.face().prompt.unwrap().tool_type, "Plan");
    played.then(json!({ "type": "request_closed", "request": second, "outcome": { "how": "expired" } }));
    assert_eq!(
        (played.face().prompt, played.face().state),
        (None, SlotState::Working),
        "the panel is cleared"
    );
}

// covers: 000-052
#[test]
fn a_running_tool_shows_its_seconds_from_its_own_start() {
    let mut played = Played::ready();
    played.turn().says("Let me see.").then(call("t1", "Bash")).after(3_400);
    assert_eq!(played.shows(), shown(SlotState::Working, "Running: Bash (3s)"));
    played.then(json!({ "type": "tool_progress", "tool": "t1", "name": "Bash", "elapsed_seconds": 61.5 }));
    assert_eq!(played.shows(), shown(SlotState::Working, "Running: Bash (61s)"));
    played.then(json!({ "type": "tool_progress", "tool": "t1", "name": "Bash" })).after(1_000);
    assert_eq!(played.shows(), shown(SlotState::Working, "Running: Bash (62s)"));
    played.then(json!({ "type": "tool_result", "tool": "t1", "outcome": "done", "content": [] }));
    assert_eq!(played.shows(), shown(SlotState::Working, "Let me see."));
}

// covers: 000-053, 000-054
#[test]
fn compacting_is_shown_and_its_end_clears_the_message() {
    let mut played = Played::ready();
    played.turn().says("Words.").then(json!({ "type": "activity", "activity": "compacting" }));
    assert_eq!(played.shows(), shown(SlotState::Working, "Compacting context..."));
    played.then(json!({ "type": "compacted", "tokens_after": 100 }));
    played.then(json!({ "type": "activity", "activity": null }));
    assert_eq!(played.shows(), shown(SlotState::Working, ""));
    played.ends(json!({ "outcome": "completed" })).then(json!({ "type": "activity", "activity": null }));
    assert_eq!(played.shows(), shown(SlotState::Idle, ""));
}

// covers: 000-048, 000-049, 000-050, 000-051, 000-064
#[test]
fn every_result_of_a_turn_has_a_state_of_the_slot() {
    let after = |result: Value| {
        let mut played = Played::ready();
        played.turn().says("Words.").ends(result);
        played.shows()
    };
    let error = json!({ "kind": "server", "message": "the service failed" });
    assert_eq!(after(json!({ "outcome": "completed" })), shown(SlotState::Idle, "Words."));
    assert_eq!(after(json!({ "outcome": "completed", "text": "All." })), shown(SlotState::Idle, "All."));
    assert_eq!(
        after(json!({ "outcome": "failed", "error": error })),
        shown(SlotState::Error, "the service failed")
    );
    assert_eq!(after(json!({ "outcome": "failed" })), shown(SlotState::Error, "The turn failed"));
    assert_eq!(
        after(json!({ "outcome": "max_turns" })),
        shown(SlotState::Idle, "Stopped at the limit of turns")
    );
    assert_eq!(
        after(json!({ "outcome": "max_budget" })),
        shown(SlotState::Idle, "Stopped at the budget limit")
    );
    assert_eq!(after(json!({ "outcome": "interrupted" })), shown(SlotState::Idle, "Interrupted"));
    assert_eq!(after(json!({ "outcome": "structured_output_failed" })).0, SlotState::Error);
}

// covers: 000-042, 000-028
#[test]
fn a_failure_is_shown_as_an_error_until_the_agent_goes_on() {
    let mut played = Played::ready();
    let failure = json!({ "type": "failure", "recoverable": true,
        "error": { "kind": "rate_limit", "message": "too many requests" } });
    played.turn().then(failure);
    assert_eq!(played.shows(), shown(SlotState::Error, "too many requests"));
    played.says("Better.");
    assert_eq!(played.shows(), shown(SlotState::Working, "Better."));
    played.ends(json!({ "outcome": "completed" }));
    played.then(json!({ "type": "auth_status", "authenticating": false, "error": "log in again" }));
    assert_eq!(played.shows(), shown(SlotState::Error, "log in again"));
    played.then(json!({ "type": "auth_status", "authenticating": true }));
    assert_eq!(played.shows(), shown(SlotState::Idle, "Better."), "without an error it shows nothing");
    let retry = json!({ "type": "retry", "attempt": 2, "max": 10, "error": { "kind": "overloaded", "message": "busy" } });
    played.turn().then(retry);
    assert_eq!(played.shows(), shown(SlotState::Working, "Retrying (2/10): busy"));
}

// covers: 000-059, 000-064
#[test]
fn an_interrupt_is_shown_at_once_and_leaves_the_slot_idle() {
    let mut played = Played::ready();
    let interrupt = json!({ "type": "command_accepted", "key": { "token": "t", "id": "esc" },
        "action": { "name": "interrupt" } });
    played.then(interrupt.clone());
    assert_eq!(played.shows(), shown(SlotState::Idle, "Ready"), "there was nothing to interrupt");
    played.turn().says("On it.");
    let request = played.asks(bash());
    played.then(interrupt);
    assert_eq!(played.shows(), shown(SlotState::Working, "Interrupting..."));
    assert_eq!(played.face().prompt, None);
    let by = json!({ "kind": "daemon" });
    played.then(json!({ "type": "request_closed", "request": request, "outcome": { "how": "interrupted", "by": by } }));
    assert_eq!(played.shows(), shown(SlotState::Working, "Interrupting..."));
    played.ends(json!({ "outcome": "interrupted" }));
    assert_eq!(played.shows(), shown(SlotState::Idle, "Interrupted"));
}

// covers: 000-055
#[test]
fn a_lost_connection_keeps_the_slot_active_and_the_end_of_the_process_does_not() {
    let mut played = Played::ready();
    played.turn().says("On it.").then(json!({ "type": "link_lost", "reason": "reset" }));
    assert_eq!((played.face().state, played.face().active), (SlotState::Working, true));
    played.then(json!({ "type": "link_restored" }));
    assert_eq!(played.shows(), shown(SlotState::Working, "On it."));
    played.ends(json!({ "outcome": "interrupted" })).then(exited("stopped", "stopped"));
    assert_eq!(played.shows(), shown(SlotState::Done, "Ended: stopped"));
    assert_eq!((played.face().active, played.face().prompt), (false, None));
    played.prompt();
    assert!(played.face().active, "a prompt starts it again");
    played.then(starting(2, Some("s1")));
    assert_eq!(played.shows(), shown(SlotState::Working, "Starting again..."));
}

// covers: 000-094
#[test]
fn a_resume_that_fails_within_five_seconds_is_told_from_one_that_fails_later() {
    let died = |resume: Option<&str>, after: i64, reason: &str| {
        let mut played = Played::ready();
        played.then(exited("stopped", "stopped")).then(starting(2, resume)).after(after);
        played.then(exited(reason, "exit code 1"));
        played.view.died_early()
    };
    assert!(died(Some("s1"), 5_000, "failed"));
    assert!(died(Some("s1"), 10, "not_ready"));
    assert!(!died(Some("s1"), 5_001, "failed"));
    assert!(!died(None, 10, "failed"), "it took up nothing");
    assert!(!died(Some("s1"), 10, "stopped"), "someone stopped it");
}

#[test]
fn auto_edit_hides_requests_that_it_answers_and_shows_the_others() {
    let mut played = Played::ready();
    played.turn();
    let edit = json!({ "kind": "permission", "tool_name": "Edit", "input": { "file_path": "a.rs" } });
    let request = RequestId(played.asks(edit));
    let (on, off) = (AutoEdit::On, AutoEdit::Off);
    let face = |view: &View, auto_edit| view.face(auto_edit, Millis(0)).state;
    assert_eq!(face(&played.view, off), SlotState::Waiting);
    assert_eq!(face(&played.view, on), SlotState::Working);
    assert_eq!(played.view.automatic(on).len(), 1);
    assert_eq!(played.view.automatic(off).len(), 0);
    played.view.leave_to_people(request, "it leads elsewhere".into());
    assert_eq!(face(&played.view, on), SlotState::Waiting);
    assert_eq!(played.view.automatic(on).len(), 0);
    let told = |auto_edit| played.view.face(auto_edit, Millis(0)).prompt.unwrap().description;
    assert_eq!(told(on), "Auto-edit asks you: it leads elsewhere. ");
    assert_eq!(told(off), "");
}

// After the end of a tool, the slot once showed the text of an earlier turn.
#[test]
fn a_turn_does_not_show_the_text_of_an_earlier_turn() {
    let mut played = Played::ready();
    played.turn().says("denied: no").ends(json!({ "outcome": "completed" }));
    assert_eq!(played.shows(), shown(SlotState::Idle, "denied: no"), "until something else happens");
    played.turn().then(call("t1", "Bash"));
    assert_eq!(played.shows(), shown(SlotState::Working, "Running: Bash (0s)"));
    played.then(json!({ "type": "tool_result", "tool": "t1", "outcome": "done", "content": [] }));
    assert_eq!(played.shows(), shown(SlotState::Working, "Working..."));
    played.ends(json!({ "outcome": "completed" }));
    assert_eq!(played.shows(), shown(SlotState::Idle, "Done"), "nor once it is over");
    played.turn().ends(json!({ "outcome": "completed", "text": "All." }));
    assert_eq!(played.shows(), shown(SlotState::Idle, "All."));
}

// covers: 000-104
#[test]
fn an_agent_that_starts_or_ends_is_shown_as_working() {
    let mut played = Played { view: View::new(SessionId::from_u128(1)), seq: 0, at: 0 };
    played.then(json!({ "type": "session_created", "spec": { "agent": "claude", "cwd": "/home/ada/shop" } }));
    played.then(starting(1, None));
    assert_eq!(played.shows(), shown(SlotState::Working, "Starting..."));
    played.then(json!({ "type": "agent_ready", "generation": 1 }));
    for action in [json!({ "name": "stop" }), json!({ "name": "archive", "archived": true })] {
        played.turn().says("On it.");
        played.asks(bash());
        let number = (played.seq + 1).to_string();
        played.then(
            json!({ "type": "command_accepted", "key": { "token": "t", "id": number }, "action": action }),
        );
        let command = played.seq;
        played.then(json!({ "type": "receipt", "command": command, "stage": "sending" }));
        assert_eq!(played.shows(), shown(SlotState::Working, "Ending..."));
        assert_eq!(played.face().prompt, None, "there is nobody left to answer");
        played.ends(json!({ "outcome": "interrupted" })).then(exited("stopped", "stopped"));
        played.then(json!({ "type": "receipt", "command": command, "stage": "consumed" }));
        assert_eq!(played.shows(), shown(SlotState::Done, "Ended: stopped"));
        played.then(starting(2, None)).then(json!({ "type": "agent_ready", "generation": 2 }));
    }
}

#[test]
fn a_snapshot_replaces_the_state_and_keeps_the_last_text() {
    let mut played = Played::ready();
    played.turn().says("Last words.").then(call("t1", "Bash"));
    let state: State = played.view.state().clone();
    let mut late = Played { view: View::new(SessionId::from_u128(1)), seq: 90, at: 5_000 };
    late.says("Last words.");
    late.view.reset(&state);
    assert_eq!(late.shows(), shown(SlotState::Working, "Running: Bash (5s)"));
    late.then(json!({ "type": "tool_result", "tool": "t1", "outcome": "done", "content": [] }));
    assert_eq!(late.shows(), shown(SlotState::Working, "Last words."));
}

#[test]
fn a_message_for_one_device_is_shown_until_something_happens() {
    let mut played = Played::ready();
    played.view.note("the session is overloaded; try again".into());
    assert_eq!(played.shows(), shown(SlotState::Idle, "the session is overloaded; try again"));
    played.turn();
    assert_eq!(played.shows().1, "Processing prompt...");
}

#[test]
fn a_command_that_was_refused_says_why_and_the_way_out_in_plain_words() {
    let mut played = Played::ready();
    let way_out = json!({ "kind": "end_another_agent", "setting": "limits.agents_at_once" });
    let refusal = json!({ "code": "busy", "message": "32 agents run", "way_out": way_out });
    played.then(json!({ "type": "receipt", "command": 1, "stage": "refused", "refusal": refusal }));
    let words =
        "32 agents run; stop the agent of another session, or raise the setting `limits.agents_at_once`";
    assert_eq!(played.shows(), shown(SlotState::Idle, words));
}

#[test]
fn an_agent_that_begins_with_an_empty_conversation_says_so_until_it_does_something() {
    let mut played = Played::ready();
    played.turn().says("First.").ends(json!({ "outcome": "completed" }));
    played
        .prompt()
        .then(starting(2, None))
        .then(json!({ "type": "conversation_reset", "reason": "cannot_resume" }));
    let words = ResetReason::CannotResume.words().to_owned();
    assert_eq!(played.shows(), (SlotState::Working, words.clone()));
    played.then(json!({ "type": "agent_ready", "generation": 2 }));
    played.then(json!({ "type": "turn_started", "turn": 2, "origin": "prompt" }));
    assert_eq!(played.shows(), (SlotState::Working, words));
    played.says("Second.");
    assert_eq!(played.shows(), (SlotState::Working, "Second.".into()));
}

#[test]
fn a_session_whose_agent_is_asleep_keeps_its_slot_and_what_it_said_last() {
    let mut played = Played::ready();
    played.turn().says("Done with it.").ends(json!({ "outcome": "completed" }));
    let exit = json!({ "reason": "idle", "message": "the agent had nothing to do" });
    played.then(json!({ "type": "agent_exited", "generation": 1, "exit": exit }));
    let face = played.face();
    assert_eq!((face.state, face.message.as_str(), face.active), (SlotState::Idle, "Done with it.", true));
    assert!(!played.view.is_gone());
}

// A device once showed "Working..." for good.
#[test]
fn an_agent_that_fails_before_it_is_ready_is_an_error_while_its_prompt_waits() {
    let mut played = Played { view: View::new(SessionId::from_u128(1)), seq: 0, at: 0 };
    played
        .then(json!({ "type": "session_created", "spec": { "agent": "claude", "cwd": "/home/ada/shop" } }))
        .prompt()
        .then(starting(1, None))
        .then(exited("not_ready", "ended with exit code 1"));
    assert_eq!(played.shows(), (SlotState::Error, "ended with exit code 1".into()));
}
