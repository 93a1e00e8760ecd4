//! Tests of the checks themselves: each check gets a history with its fault and must complain, and gets allowed
//! histories and must not complain.

use std::collections::BTreeMap;

use portolan_soak::{
    check::{Complaint, Losses, Reply, Sent, Told, commands, ends, kept, numbers, order, requests, text},
    record::{Entry, Recording, Seen},
};
use serde_json::{Value, json};

fn notice(seq: u64) -> Entry {
    Entry::made(seq, 1000 + seq as i64, json!({ "type": "notice", "text": format!("number {seq}") }))
}

fn message(seq: u64, item: &str, text: &str) -> Entry {
    let content = json!([{ "type": "text", "text": text }]);
    Entry::made(seq, 1000 + seq as i64, json!({ "type": "message", "item": item, "content": content }))
}

fn started(seq: u64, item: &str) -> Entry {
    Entry::made(seq, 1000 + seq as i64, json!({ "type": "item_started", "item": item, "kind": "text" }))
}

fn delta(seq: u64, item: &str, text: &str) -> Entry {
    Entry::made(seq, 1000 + seq as i64, json!({ "type": "delta", "item": item, "text": text }))
}

/// A client that attached at the beginning and saw these entries.
fn saw(entries: &[Entry]) -> Recording {
    let mut recording = Recording::new("client", "session");
    recording.seen.push(Seen::Attached { after: 0 });
    for entry in entries {
        recording.entry(entry);
    }
    recording
}

fn killed(at: i64) -> Seen {
    Seen::Killed { at, dead: at, unwritable: 0 }
}

#[test]
fn a_client_that_saw_everything_once_and_in_order_gives_no_complaint() {
    let history = [notice(1), notice(2), message(9, "a", "hello"), notice(10)];
    let mut recording =
        saw(&[notice(1), notice(2), started(3, "a"), delta(5, "a", "hel"), delta(6, "a", "lo")]);
    recording.seen.push(Seen::Lost);
    recording.seen.push(Seen::Attached { after: 6 });
    recording.entry(&history[2]);
    recording.entry(&history[3]);
    assert_eq!(order(&history, &recording), []);
    assert_eq!(text(&history, &recording, 0), (vec![], Losses::default()));
    assert_eq!(numbers(&history, &[&recording]), []);
}

#[test]
fn a_lost_entry_is_found() {
    let history = [notice(1), notice(2), notice(3)];
    assert_eq!(order(&history, &saw(&[notice(1), notice(3)])), [Complaint::Missing(2)]);
}

#[test]
fn an_entry_that_no_client_was_shown_yet_is_not_lost() {
    let history = [notice(1), notice(2), notice(3)];
    assert_eq!(order(&history, &saw(&[notice(1), notice(2)])), []);
}

#[test]
fn an_entry_lost_before_a_snapshot_is_found() {
    let mut recording = saw(&[notice(1)]);
    recording.snapshot(5, 0, &json!({ "items": [] }));
    assert_eq!(order(&[notice(1), notice(4)], &recording), [Complaint::Missing(4)]);
}

#[test]
fn a_doubled_entry_is_found() {
    let history = [notice(1), notice(2)];
    assert_eq!(order(&history, &saw(&[notice(1), notice(2), notice(2)])), [Complaint::Doubled(2)]);
    let mut recording = saw(&[notice(1), notice(2)]);
    recording.seen.push(Seen::Lost);
    recording.seen.push(Seen::Attached { after: 2 });
    recording.entry(&notice(2));
    assert_eq!(order(&history, &recording), [Complaint::Doubled(2)], "across a reconnect too");
}

#[test]
fn entries_out_of_order_are_found() {
    let history = [notice(1), notice(2), notice(3)];
    let found = order(&history, &saw(&[notice(1), notice(3), notice(2)]));
    assert_eq!(found, [Complaint::Back { seq: 2, after: 3 }]);
}

#[test]
fn an_entry_that_was_seen_and_is_gone_is_found() {
    assert_eq!(order(&[notice(1)], &saw(&[notice(1), notice(2)])), [Complaint::Gone(2)]);
}

#[test]
fn a_changed_entry_is_found() {
    let other = Entry::made(2, 1002, json!({ "type": "notice", "text": "something else" }));
    assert_eq!(order(&[notice(1), other], &saw(&[notice(1), notice(2)])), [Complaint::Changed(2)]);
}

#[test]
fn text_merged_under_the_number_of_the_entry_before_it_is_not_a_fault() {
    let history = [notice(1), notice(4), message(9, "a", "hello")];
    let recording = saw(&[notice(1), notice(4), started(4, "a"), delta(4, "a", "hel"), history[2].clone()]);
    assert_eq!(order(&history, &recording), []);
    assert_eq!(text(&history, &recording, 0).0, []);
}

#[test]
fn a_reused_number_is_found() {
    let mut before = saw(&[notice(1), started(2, "a"), delta(7, "a", "x")]);
    before.seen.push(killed(2000));
    let again = Entry::made(7, 2500, json!({ "type": "notice", "text": "new" }));
    let found = numbers(&[notice(1), again], &[&before]);
    assert_eq!(found, [Complaint::Reused { seq: 7, shown: 7 }]);
    let fresh = Entry::made(8, 2500, json!({ "type": "notice", "text": "new" }));
    assert_eq!(numbers(&[notice(1), fresh], &[&before]), []);
}

#[test]
fn a_number_that_only_another_client_had_seen_is_not_reused_either() {
    let (mut slow, mut fast) = (saw(&[notice(1)]), saw(&[notice(1), delta(9, "a", "x")]));
    slow.seen.push(killed(2000));
    fast.seen.push(killed(2000));
    let again = Entry::made(5, 2500, json!({ "type": "notice", "text": "new" }));
    assert_eq!(numbers(&[notice(1), again], &[&slow, &fast]), [Complaint::Reused { seq: 5, shown: 9 }]);
}

#[test]
fn an_entry_written_during_the_kill_is_not_a_reused_number() {
    let mut before = saw(&[notice(1)]);
    before.entry(&Entry::made(7, 2003, json!({ "type": "delta", "item": "a", "text": "x" })));
    before.seen.push(Seen::Killed { at: 2000, dead: 2005, unwritable: 0 });
    assert_eq!(numbers(&[notice(1)], &[&before]), []);
}

#[test]
fn lost_and_doubled_text_is_found() {
    let history = [message(9, "a", "one two three")];
    let missing = saw(&[started(1, "a"), delta(2, "a", "one "), delta(4, "a", "three"), history[0].clone()]);
    let doubled = saw(&[started(1, "a"), delta(2, "a", "one "), delta(2, "a", "one "), history[0].clone()]);
    for (recording, seen) in [(missing, "one three"), (doubled, "one one ")] {
        let complaint = Complaint::Text { item: "a".into(), seen: seen.into(), kept: "one two three".into() };
        assert_eq!(text(&history, &recording, 10_000).0, [complaint], "there was no kill");
    }
}

#[test]
fn text_that_shrinks_from_one_snapshot_to_the_next_is_found() {
    let history = [message(9, "a", "one two")];
    let mut recording = saw(&[started(1, "a"), delta(2, "a", "one two")]);
    recording.snapshot(3, 0, &json!({ "items": [{ "item": "a", "text": "one" }] }));
    let complaint = Complaint::Text { item: "a".into(), seen: "one two".into(), kept: "one".into() };
    assert_eq!(text(&history, &recording, 0).0, [complaint]);
}

#[test]
fn an_item_that_is_gone_without_an_end_is_found() {
    let mut recording = saw(&[started(1, "a"), delta(2, "a", "one")]);
    recording.snapshot(3, 0, &json!({ "items": [] }));
    assert_eq!(text(&[], &recording, 0).0, [Complaint::ItemGone("a".into())]);
}

#[test]
fn a_kill_may_lose_only_the_newest_text() {
    // Shown at 1002, 1202 and 1402; killed at 1500.
    let history = [message(900, "a", "one ")];
    let mut recording =
        saw(&[started(1, "a"), delta(2, "a", "one "), delta(202, "a", "two "), delta(402, "a", "three")]);
    recording.seen.push(killed(1500));
    let losses = Losses { items: 1, worst_milliseconds: 298 };
    assert_eq!(text(&history, &recording, 300), (vec![], losses));
    let lost = Complaint::TextLost { item: "a".into(), milliseconds: 298 };
    assert_eq!(text(&history, &recording, 250), (vec![lost], losses));
}

#[test]
fn the_loss_of_a_whole_item_counts_from_its_first_text() {
    let mut recording = saw(&[started(1, "a"), delta(2, "a", "one")]);
    recording.seen.push(killed(1100));
    assert_eq!(text(&[], &recording, 250).0, []);
    recording.seen.pop();
    recording.seen.push(killed(2000));
    assert_eq!(text(&[], &recording, 250).0, [Complaint::TextLost { item: "a".into(), milliseconds: 998 }]);
}

#[test]
fn the_input_of_a_tool_may_be_written_again_but_must_be_the_same() {
    let call = |input: Value| {
        Entry::made(9, 1009, json!({ "type": "tool_call", "tool": "t", "item": "a", "input": input }))
    };
    let recording = saw(&[
        started(1, "a"),
        delta(2, "a", "{\"command\": "),
        delta(3, "a", "\"ls\" }"),
        call(Value::Null),
    ]);
    assert_eq!(text(&[call(json!({ "command": "ls" }))], &recording, 0).0, []);
    let found = text(&[call(json!({ "command": "rm" }))], &recording, 0).0;
    assert!(matches!(&found[..], [Complaint::Text { .. }]), "{found:?}");
}

// ------------------------------------------------------------------------------------------ commands

fn sent(id: &str, replies: &[Reply]) -> Sent {
    let (session, action) = ("s".to_owned(), "prompt".to_owned());
    Sent { id: id.into(), session, action, marker: Some(format!("mark-{id}-")), replies: replies.to_vec() }
}

fn accepted(seq: u64, id: &str) -> Entry {
    Entry::made(seq, 0, json!({ "type": "command_accepted", "key": { "token": "t", "id": id } }))
}

fn receipt(seq: u64, command: u64, stage: &str) -> Entry {
    Entry::made(seq, 0, json!({ "type": "receipt", "command": command, "stage": stage }))
}

fn prompted(seq: u64, command: u64) -> Entry {
    Entry::made(seq, 0, json!({ "type": "prompt", "command": command, "content": [] }))
}

fn judge(sent: &[Sent], history: &[Entry], told: &[&str]) -> Vec<Complaint> {
    let histories = BTreeMap::from([("s".to_owned(), history.to_vec())]);
    commands(sent, &histories, &Told { lines: told.iter().map(ToString::to_string).collect() })
}

/// A prompt without a fault.
fn good() -> Vec<Entry> {
    vec![
        accepted(1, "a"),
        receipt(2, 1, "sending"),
        prompted(3, 1),
        receipt(4, 1, "delivered"),
        receipt(5, 1, "consumed"),
    ]
}

#[test]
fn a_command_that_ran_once_gives_no_complaint() {
    assert_eq!(judge(&[sent("a", &[Reply::Taken(1)])], &good(), &["{\"prompt\":\"say mark-a-\"}"]), []);
    let asked_twice = sent("a", &[Reply::Taken(1), Reply::Taken(1)]);
    assert_eq!(judge(&[asked_twice], &good(), &["mark-a-"]), []);
    assert_eq!(judge(&[sent("b", &[Reply::Refused("busy".into())])], &[], &[]), []);
    assert_eq!(judge(&[sent("c", &[])], &[], &[]), [], "a command that never arrived was never acknowledged");
}

#[test]
fn a_command_that_ran_twice_is_found() {
    let told = ["mark-a-", "mark-a-"];
    assert_eq!(judge(&[sent("a", &[Reply::Taken(1)])], &good(), &told), [Complaint::DoneTwice("a".into())]);
    let mut twice = good();
    twice.push(prompted(6, 1));
    assert_eq!(judge(&[], &twice, &[]), [Complaint::DoneTwice("a".into())]);
}

#[test]
fn a_command_that_was_accepted_twice_is_found() {
    let mut twice = good();
    twice.extend([accepted(6, "a"), receipt(7, 6, "consumed")]);
    let found = judge(&[], &twice, &[]);
    assert!(found.contains(&Complaint::TakenTwice("a".into())), "{found:?}");
}

#[test]
fn a_command_that_vanished_is_found() {
    assert_eq!(judge(&[sent("a", &[Reply::Taken(1)])], &[], &[]), [Complaint::CommandGone("a".into())]);
    let elsewhere = sent("a", &[Reply::Taken(9)]);
    assert_eq!(judge(&[elsewhere], &good(), &["mark-a-"]), [Complaint::CommandGone("a".into())]);
}

#[test]
fn a_command_without_an_end_is_found() {
    for (stages, last) in
        [(&[][..], "accepted"), (&["sending"][..], "sending"), (&["sending", "delivered"][..], "delivered")]
    {
        let mut history = vec![accepted(1, "a")];
        history.extend(stages.iter().zip(2..).map(|(stage, seq)| receipt(seq, 1, stage)));
        let left = Complaint::Unsettled { command: "a".into(), stage: last.into() };
        assert_eq!(judge(&[], &history, &[]), [left]);
    }
    for stage in ["consumed", "refused", "uncertain"] {
        assert_eq!(judge(&[], &[accepted(1, "a"), receipt(2, 1, stage)], &[]), []);
    }
}

#[test]
fn a_command_that_changes_after_its_end_is_found() {
    let history = [accepted(1, "a"), receipt(2, 1, "uncertain"), receipt(3, 1, "consumed")];
    assert_eq!(judge(&[], &history, &[]), [Complaint::EndedTwice("a".into())]);
}

#[test]
fn a_command_that_counts_as_done_but_never_reached_the_agent_is_found() {
    assert_eq!(judge(&[sent("a", &[Reply::Taken(1)])], &good(), &[]), [Complaint::NeverReached("a".into())]);
}

#[test]
fn a_command_that_was_refused_but_still_ran_is_found() {
    let refused = sent("a", &[Reply::Refused("busy".into())]);
    assert_eq!(judge(&[refused], &good(), &["mark-a-"]), [Complaint::RefusedButDone("a".into())]);
    let history = [accepted(1, "a"), receipt(2, 1, "refused")];
    let taken = sent("a", &[Reply::Taken(1)]);
    assert_eq!(judge(&[taken], &history, &["mark-a-"]), [Complaint::RefusedButDone("a".into())]);
}

// ------------------------------------------------------------------------------------------ requests

fn opened(seq: u64, request: u64) -> Entry {
    Entry::made(seq, 0, json!({ "type": "request_opened", "request": { "request": request } }))
}

fn closed(seq: u64, request: u64) -> Entry {
    Entry::made(seq, 0, json!({ "type": "request_closed", "request": request }))
}

/// A client that was shown these requests in a snapshot with this number.
fn shown(seq: u64, open: &[u64]) -> Recording {
    let mut recording = saw(&[]);
    let open: Vec<Value> = open.iter().map(|request| json!({ "request": request })).collect();
    recording.snapshot(seq, 0, &json!({ "items": [], "requests": open }));
    recording
}

#[test]
fn a_request_that_stays_open_under_its_number_gives_no_complaint() {
    let history = [opened(3, 3), closed(8, 3)];
    let clients = [shown(2, &[]), shown(3, &[3]), shown(7, &[3]), shown(8, &[])];
    assert_eq!(requests(&history, &clients.each_ref()), []);
}

#[test]
fn a_request_that_a_new_daemon_does_not_show_is_found() {
    let history = [opened(3, 3), closed(8, 3)];
    assert_eq!(requests(&history, &[&shown(5, &[])]), [Complaint::NotShown { request: 3, at: 5 }]);
}

#[test]
fn a_request_that_is_shown_under_another_number_is_found() {
    let history = [opened(3, 3), closed(8, 3)];
    let found = [Complaint::NotShown { request: 3, at: 5 }, Complaint::ShownClosed { request: 4, at: 5 }];
    assert_eq!(requests(&history, &[&shown(5, &[4])]), found);
}

#[test]
fn a_request_that_is_shown_after_its_end_is_found() {
    let history = [opened(3, 3), closed(8, 3)];
    assert_eq!(requests(&history, &[&shown(9, &[3])]), [Complaint::ShownClosed { request: 3, at: 9 }]);
}

#[test]
fn a_request_that_is_opened_or_closed_twice_or_never_closed_is_found() {
    assert_eq!(requests(&[opened(3, 3), closed(4, 3), closed(5, 3)], &[]), [Complaint::ClosedTwice(3)]);
    assert_eq!(requests(&[closed(5, 3)], &[]), [Complaint::ClosedTwice(3)]);
    assert_eq!(requests(&[opened(3, 3), opened(4, 3), closed(5, 3)], &[]), [Complaint::OpenedTwice(3)]);
    assert_eq!(requests(&[opened(3, 3)], &[]), [Complaint::LeftOpen(3)]);
}

// -------------------------------------------------------------------------- text beside agents that go on

/// A client that saw this much of an item before a kill, and this much in the first snapshot after it.
fn over_a_kill(before: &str, after: Option<&str>) -> Recording {
    let mut recording = saw(&[started(1, "a"), delta(2, "a", before)]);
    recording.seen.extend([killed(1500), Seen::Attached { after: 2 }]);
    let items: Vec<Value> = after.iter().map(|text| json!({ "item": "a", "text": text })).collect();
    recording.snapshot(9, 0, &json!({ "items": items }));
    recording
}

#[test]
fn text_that_the_next_daemon_shows_again_is_kept() {
    let history = [message(20, "a", "one two three")];
    let mut less = over_a_kill("one two ", Some("one "));
    less.entry(&delta(10, "a", "two "));
    less.entry(&delta(11, "a", "three"));
    let mut from_the_start = over_a_kill("one two ", None);
    from_the_start.entry(&started(10, "a"));
    from_the_start.entry(&delta(11, "a", "one two three"));
    let more = over_a_kill("one ", Some("one two "));
    for recording in [less, from_the_start, more] {
        assert_eq!(kept(&history, &recording), []);
    }
}

#[test]
fn text_that_was_seen_before_a_kill_and_is_not_in_the_log_is_found() {
    let recording = over_a_kill("one two ", Some("one "));
    let lost = Complaint::Text { item: "a".into(), seen: "one two ".into(), kept: "one three".into() };
    assert_eq!(kept(&[message(20, "a", "one three")], &recording), [lost]);
    assert_eq!(kept(&[], &recording), [Complaint::ItemGone("a".into())]);
}

#[test]
fn text_that_a_new_daemon_doubles_is_found() {
    let mut recording = over_a_kill("one ", Some("one "));
    recording.entry(&delta(10, "a", "one "));
    let doubled = Complaint::Text { item: "a".into(), seen: "one one ".into(), kept: "one two".into() };
    assert_eq!(kept(&[message(20, "a", "one two")], &recording), [doubled]);
}

#[test]
fn text_without_a_start_is_found() {
    let recording = saw(&[delta(2, "a", "one")]);
    assert_eq!(kept(&[message(3, "a", "one")], &recording), [Complaint::Unannounced("a".into())]);
}

#[test]
fn an_item_without_text_need_not_be_kept_and_an_empty_delta_changes_nothing() {
    assert_eq!(kept(&[], &saw(&[started(1, "a")])), []);
    let recording = saw(&[started(1, "a"), delta(2, "a", "one "), delta(3, "a", ""), delta(4, "a", "two")]);
    assert_eq!(kept(&[message(9, "a", "one two")], &recording), []);
}

// -------------------------------------------------------------------------------------- ends of agents

fn starting(seq: u64, generation: u64) -> Entry {
    Entry::made(seq, 0, json!({ "type": "agent_starting", "generation": generation }))
}

fn exited(seq: u64, generation: u64) -> Entry {
    let exit = json!({ "reason": "failed", "message": "the process that held the agent ended" });
    Entry::made(seq, 0, json!({ "type": "agent_exited", "generation": generation, "exit": exit }))
}

fn event(seq: u64, event: Value) -> Entry {
    Entry::made(seq, 0, event)
}

fn command(seq: u64, name: &str) -> Entry {
    event(seq, json!({ "type": "command_accepted", "key": { "id": "a" }, "action": { "name": name } }))
}

#[test]
fn an_end_that_settles_everything_gives_no_complaint() {
    let history = [
        starting(1, 1),
        command(2, "prompt"),
        receipt(3, 2, "sending"),
        event(4, json!({ "type": "turn_started", "turn": 1 })),
        receipt(5, 2, "consumed"),
        event(6, json!({ "type": "tool_call", "tool": "t" })),
        opened(7, 7),
        command(8, "answer"),
        receipt(9, 8, "delivered"),
        command(10, "prompt"),
        event(11, json!({ "type": "tool_result", "tool": "t" })),
        closed(12, 7),
        event(13, json!({ "type": "turn_ended", "turn": 1 })),
        receipt(14, 8, "uncertain"),
        exited(15, 1),
        starting(16, 2),
        exited(17, 2),
    ];
    assert_eq!(ends(&history), []);
}

#[test]
fn everything_that_an_end_leaves_open_is_found() {
    let turn = event(2, json!({ "type": "turn_started", "turn": 4 }));
    let tool = event(2, json!({ "type": "tool_call", "tool": "t" }));
    for (open, what) in [
        (vec![opened(2, 2)], "request 2"),
        (vec![turn], "turn 4"),
        (vec![tool], "tool call `t`"),
        (vec![command(2, "prompt"), receipt(3, 2, "sending")], "command 2 at `sending`"),
        (vec![command(2, "prompt"), receipt(3, 2, "delivered")], "command 2 at `delivered`"),
        (vec![command(2, "answer")], "command 2 at `accepted`"),
    ] {
        let history = [vec![starting(1, 1)], open, vec![exited(9, 1)]].concat();
        assert_eq!(ends(&history), [Complaint::LeftByEnd { end: 9, what: what.into() }]);
    }
}

#[test]
fn a_prompt_that_waits_for_the_next_agent_is_not_left_open() {
    assert_eq!(ends(&[starting(1, 1), command(2, "prompt"), exited(9, 1)]), []);
}

#[test]
fn a_restart_that_was_called_off_is_not_a_second_end() {
    let stopped = json!({ "reason": "stopped", "message": "the agent was stopped before it started" });
    let stopped = json!({ "type": "agent_exited", "generation": 1, "exit": stopped });
    assert_eq!(ends(&[starting(1, 1), exited(2, 1), event(3, stopped.clone())]), []);
    let twice = [starting(1, 1), event(2, stopped.clone()), event(3, stopped)];
    assert_eq!(ends(&twice), [Complaint::ExitedTwice(1)]);
}

#[test]
fn a_start_without_an_end_with_two_ends_or_without_a_reason_is_found() {
    assert_eq!(ends(&[starting(1, 1)]), [Complaint::NeverExited(1)]);
    assert_eq!(ends(&[starting(1, 1), starting(2, 2), exited(3, 2)]), [Complaint::NeverExited(1)]);
    assert_eq!(ends(&[starting(1, 1), exited(2, 1), exited(3, 1)]), [Complaint::ExitedTwice(1)]);
    let silent =
        json!({ "type": "agent_exited", "generation": 1, "exit": { "reason": "failed", "message": "" } });
    assert_eq!(ends(&[starting(1, 1), event(2, silent)]), [Complaint::Unexplained(2)]);
}
