//! Tests of the checks themselves: each check gets a history with its fault and must complain, and gets allowed
//! histories and must not complain.

use std::collections::BTreeMap;

use portolan_soak::{
    check::{Complaint, Losses, Reply, Sent, Told, commands, numbers, order, text},
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
