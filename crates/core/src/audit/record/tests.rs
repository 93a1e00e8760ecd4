use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::{Position, command::CommandKey, entry::Entry, event::Content};

fn placed(log: LogId, frame: impl Into<Bytes>) -> Placed {
    Placed { position: Position(7), log, entry: Stored { seq: Seq(3), frame: frame.into() } }
}

fn prompt(text: &str, by: Actor) -> Placed {
    let log = LogId::Session(SessionId::from_u128(1));
    let key = CommandKey { token: "token".parse().unwrap(), id: "c".parse().unwrap() };
    let action = Box::new(Action::Prompt { content: vec![Content::text(text)] });
    let entry = Entry::new(log, Seq(3), Millis(5), Some(by), Event::CommandAccepted { key, action });
    placed(log, entry.frame().clone())
}

fn person(name: &str) -> Actor {
    Actor::Person { token: "0123456789".parse().unwrap(), name: name.into(), via: "page".into() }
}

#[test]
fn a_name_that_looks_like_an_event_does_not_hide_the_event() {
    let placed = prompt("hello", person(r#"","event":{"type":"delta","x":""#));
    assert_eq!(kind(&placed.entry), Some("command_accepted"));
    assert_eq!(record(&placed).unwrap().what, "prompt");
}

#[test]
fn a_long_prompt_is_cut_off_in_its_record() {
    let record = record(&prompt(&"long ".repeat(100_000), person("ada"))).unwrap();
    assert!(record.shortened);
    assert!(serde_json::to_string(&record).unwrap().len() < 4096);
    assert!(record.text.ends_with('…') && record.text.chars().count() == LINE + 1);
}

#[test]
fn entries_of_the_daemons_log_that_a_newer_version_wrote_are_records_too() {
    let frame = r#"{"type":"daemon","seq":3,"at":5,"event":{"type":"moon_landed","by":"ada"}}"#;
    let found = record(&placed(LogId::Daemon, frame)).unwrap();
    assert_eq!((found.what.as_str(), found.text.as_str()), ("moon_landed", r#"{"by":"ada"}"#));
    let log = LogId::Session(SessionId::from_u128(1));
    assert_eq!(record(&placed(log, frame)), None, "in a session's log nobody knows whether it is a record");
}

#[test]
fn imported_entries_answers_and_texts_are_no_records() {
    assert_eq!(record(&prompt("hello", Actor::Imported)), None);
    assert_eq!(record(&placed(LogId::Daemon, "no JSON")), None);
    let session = SessionId::from_u128(1);
    let changed = r#"{"type":"daemon","seq":3,"at":5,"event":{"type":"session_changed","summary":{}}}"#;
    assert!(!may_be(&placed(LogId::Daemon, changed)));
    let text = r#"{"type":"entry","session":"x","seq":3,"at":5,"event":{"type":"message","item":"a"}}"#;
    assert!(!may_be(&placed(LogId::Session(session), text)));
}

#[test]
fn a_person_is_found_by_name_token_frontend_and_address() {
    let of = |by| record(&prompt("hello", by)).unwrap();
    let finds = |record: &AuditRecord, who: &str| {
        AuditQuery { who: Some(who.into()), ..AuditQuery::default() }.wants(record)
    };
    let ada = of(person("Ada's phone"));
    for who in ["ada", "Ada's phone", "0123", "0123456789", "page", " ADA "] {
        assert!(finds(&ada, who), "{who}");
    }
    for who in ["bob", "012", "3456", "cli", "agent", "rule"] {
        assert!(!finds(&ada, who), "{who}");
    }
    assert!(finds(&of(Actor::policy(PolicySource::Rule, "allow Bash")), "rule"));
    let login =
        json!({"type": "daemon", "seq": 3, "at": 5, "event": {"type": "logged_in", "address": "10.0.0.7"}});
    assert!(finds(&record(&placed(LogId::Daemon, login.to_string())).unwrap(), "10.0.0.7"));
}
