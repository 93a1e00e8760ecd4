//! One connection and several: hello, attaching, answering, falling behind, closing.

use std::time::Duration;

use portolan_core::RequestId;
use portolan_testkit::agents::OWN_WORDS;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::native::connection::ATTACHMENTS;

const ALL: fn() -> Value = || json!({"after": 0});

// covers: 003-179
#[tokio::test]
async fn only_hello_is_answered_first_and_no_invalid_frame_ends_the_connection() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    let mut client = Client::over(stand.connect(&who, 4096).0).await;
    for bad in ["", "{", "[]", r#"{"type":"dance","id":"1"}"#, r#"{"type":"ping","id":"1"}"#] {
        client.send_text(bad).await;
        let error = client.next().await;
        assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("invalid")), "{bad}");
    }
    let welcome = client.hello().await;
    assert_eq!(welcome["you"], json!({"token": who.token, "name": "ada", "role": "viewer"}));
    assert_eq!(client.ask(json!({"type": "ping"})).await["reply"], "pong");
    client.send(json!({"type": "hello", "protocol": 1, "client": {"name": "test"}})).await;
    assert_eq!(client.next().await["message"], "`hello` was already sent");
    client.send_text("\u{1}").await;
    assert_eq!(client.next().await["code"], "invalid");
    assert_eq!(client.ask(json!({"type": "ping"})).await["reply"], "pong");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_says_hello_is_closed() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    let mut client = Client::over(stand.connect(&who, 4096).0).await;
    let (frames, code) = client.closed().await;
    assert_eq!(
        (frames[0]["type"].as_str(), frames[0]["reason"].as_str(), code),
        (Some("closing"), Some("protocol"), Some(1008))
    );
}

// covers: 003-173
#[tokio::test]
async fn a_newer_client_is_answered_in_the_version_that_both_speak() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    let mut client = Client::over(stand.connect(&who, 4096).0).await;
    client.send(json!({"type": "hello", "protocol": 9, "client": {"name": "x"}, "new_field": {}})).await;
    assert_eq!(client.next().await["protocol"], 1);
    let mut ancient = Client::over(stand.connect(&who, 4096).0).await;
    ancient.send(json!({"type": "hello", "protocol": 0, "client": {"name": "x"}})).await;
    let (frames, code) = ancient.closed().await;
    assert_eq!((frames[0]["type"].as_str(), code), (Some("error"), Some(1008)));
}

// covers: 003-006, 003-101
#[tokio::test]
async fn a_late_client_gets_the_history_a_snapshot_and_then_everything_as_it_happens() {
    let stand = Stand::new().await;
    let mut first = stand.client("ada", Role::Owner).await;
    let session = first.create("say one two").await;
    first.attach(session, ALL()).await;
    first.until_event("turn_ended").await;

    let mut late = stand.client("bob", Role::Viewer).await;
    assert_eq!(late.attach(session, ALL()).await["reply"], "attached");
    let history = late.until(|frame| frame["type"] == "snapshot").await;
    let kinds: Vec<_> = history.iter().filter_map(|frame| frame["event"]["type"].as_str()).collect();
    assert!(kinds.contains(&"message") && !kinds.contains(&"delta"), "{kinds:?}");
    let snapshot = history.last().unwrap();
    assert_eq!(snapshot["state"]["summary"]["session"], json!(session));

    first.command(session, json!({"name": "prompt", "content": text("say three four five")})).await;
    let live = late.until_event("turn_ended").await;
    assert_eq!(streamed(&live), "three four five");
    let numbers = seqs(&live);
    assert!(
        numbers[0] > snapshot["seq"].as_u64().unwrap() && numbers.is_sorted_by(|a, b| a < b),
        "{numbers:?}"
    );
}

#[tokio::test]
async fn a_client_that_comes_back_with_its_last_number_gets_what_it_missed_and_nothing_twice() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("say one").await;
    client.attach(session, ALL()).await;
    let seen = seqs(&client.until_event("turn_ended").await);
    let last = *seen.last().unwrap();
    drop(client);

    let mut other = stand.client("bob", Role::Owner).await;
    other.command(session, json!({"name": "prompt", "content": text("say two")})).await;
    other.attach(session, ALL()).await;
    other.until(|frame| frame["event"]["turn"] == 2 && frame["event"]["type"] == "turn_ended").await;

    let mut back = stand.client("ada", Role::Owner).await;
    back.attach(session, json!({"after": last})).await;
    let missed = back.until(|frame| frame["type"] == "snapshot").await;
    assert!(seqs(&missed).iter().all(|seq| *seq > last));
    let words: Vec<_> = missed
        .iter()
        .filter(|frame| frame["event"]["type"] == "message")
        .map(|frame| &frame["event"]["content"])
        .collect();
    assert_eq!(words, [&text("two")]);
}

// covers: 003-005
#[tokio::test]
async fn everyone_sees_who_is_present_and_who_leaves() {
    let stand = Stand::new().await;
    let mut ada = stand.client("ada", Role::Owner).await;
    let session = ada.create("").await;
    ada.attach(session, ALL()).await;
    let names = |frame: &Value| -> Vec<String> {
        let present = frame["present"].as_array().into_iter().flatten();
        present
            .map(|one| format!("{} {} {}", one["name"], one["role"], one["via"]).replace('"', ""))
            .collect()
    };
    let mut bob = stand.client("bob", Role::Viewer).await;
    bob.attach(session, ALL()).await;
    ada.until(|frame| names(frame) == ["ada owner test", "bob viewer test"]).await;
    assert_eq!(bob.ask(json!({"type": "detach", "session": session})).await["reply"], "done");
    ada.until(|frame| names(frame) == ["ada owner test"]).await;
}

// covers: 003-104
#[tokio::test]
async fn the_second_answer_to_a_request_is_told_who_was_first() {
    let stand = Stand::new().await;
    let mut ada = stand.client("ada", Role::Operator).await;
    let mut bob = stand.client("bob", Role::Operator).await;
    let session = ada.create("ask").await;
    ada.attach(session, ALL()).await;
    bob.attach(session, ALL()).await;
    let opened = ada.until_event("request_opened").await;
    let request = &opened.last().unwrap()["event"]["request"];
    let answer = |kind: &str| json!({"name": "answer", "request": request["request"], "digest": request["digest"], "answer": {"kind": kind}});
    assert_eq!(ada.command(session, answer("allow")).await["reply"], "receipt");
    let closed = bob.until_event("request_closed").await;
    assert_eq!(closed.last().unwrap()["event"]["outcome"]["by"]["name"], "ada");
    let refused = bob.command(session, answer("deny")).await;
    assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("already_closed")));
    assert_eq!(refused["outcome"]["by"]["name"], "ada");
}

#[tokio::test]
async fn the_same_command_id_twice_is_done_once() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    let prompt = json!({"type": "command", "id": "once", "session": session, "command": {"name": "prompt", "content": text("say hi")}});
    let mut receipts = Vec::new();
    for _ in 0..2 {
        client.send(prompt.clone()).await;
        receipts.push(client.next().await["receipt"]["seq"].clone());
    }
    assert_eq!(receipts[0], receipts[1]);
    client.attach(session, ALL()).await;
    let frames = client.until_event("turn_ended").await;
    assert_eq!(frames.iter().filter(|frame| frame["event"]["type"] == "prompt").count(), 1);
}

#[tokio::test]
async fn calls_about_one_session_are_answered_in_their_order() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    for index in 0..20 {
        let command = json!({"name": "rename", "to": format!("name {index}")});
        client
            .send(
                json!({"type": "command", "id": format!("r{index}"), "session": session, "command": command}),
            )
            .await;
    }
    for index in 0..20 {
        assert_eq!(client.next().await["id"], format!("r{index}"));
    }
}

#[tokio::test]
async fn attaching_again_replaces_the_first_and_detaching_ends_it() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    client.attach(session, ALL()).await;
    client.until(|frame| frame["type"] == "snapshot").await;
    client.attach(session, json!({"tail": 0})).await;
    client.until(|frame| frame["type"] == "snapshot").await;
    assert_eq!(stand.native.registry.presence(session).len(), 1);
    client.command(session, json!({"name": "prompt", "content": text("say once only")})).await;
    let frames = client.until_event("turn_ended").await;
    assert_eq!(streamed(&frames), "once only");

    client.ask(json!({"type": "detach", "session": session})).await;
    client.early.clear();
    client.command(session, json!({"name": "prompt", "content": text("say unseen")})).await;
    assert_eq!(client.ask(json!({"type": "ping"})).await["reply"], "pong");
    assert_eq!(client.early, [] as [Value; 0]);
}

#[tokio::test]
async fn a_client_may_ask_for_finished_items_only() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    client
        .ask(json!({"type": "attach", "session": session, "start": {"after": 0}, "items_only": true}))
        .await;
    client.command(session, json!({"name": "prompt", "content": text("say a b c")})).await;
    let frames = client.until_event("turn_ended").await;
    assert!(frames.iter().any(|frame| frame["event"]["type"] == "message"));
    assert_eq!(streamed(&frames), "");
}

#[tokio::test]
async fn one_connection_reads_several_sessions_and_the_daemon() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    assert_eq!(client.ask(json!({"type": "subscribe", "start": {"tail": 0}})).await["reply"], "subscribed");
    client.until(|frame| frame["type"] == "daemon_snapshot").await;
    let (one, two) = (client.create("").await, client.create("").await);
    client.attach(one, ALL()).await;
    client.attach(two, ALL()).await;
    client.command(one, json!({"name": "prompt", "content": text("say one")})).await;
    client.command(two, json!({"name": "prompt", "content": text("say two")})).await;
    let mut ended = std::collections::BTreeSet::new();
    let mut daemon = 0;
    while ended.len() < 2 || daemon == 0 {
        let frame = client.next().await;
        daemon += usize::from(frame["type"] == "daemon");
        if frame["event"]["type"] == "turn_ended" {
            ended.insert(frame["session"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ended, [one.to_string(), two.to_string()].into());
    assert_eq!(client.ask(json!({"type": "unsubscribe"})).await["reply"], "done");
}

// covers: 003-004
#[tokio::test]
async fn a_viewer_reads_and_is_refused_everything_else() {
    let stand = Stand::new().await;
    let mut owner = stand.client("ada", Role::Owner).await;
    let session = owner.create("").await;
    let mut viewer = stand.client("bob", Role::Viewer).await;
    assert_eq!(viewer.attach(session, ALL()).await["reply"], "attached");
    for frame in [
        json!({"type": "command", "session": session, "command": {"name": "interrupt"}}),
        json!({"type": "create", "spec": {"agent": "obedient"}}),
        json!({"type": "delete", "session": session}),
        json!({"type": "raw", "session": session, "seq": 1}),
        json!({"type": "environment", "session": session}),
        json!({"type": "agents", "probe": true}),
        json!({"type": "token_create", "name": "x", "role": "owner"}),
        json!({"type": "token_list"}),
        json!({"type": "token_revoke", "token": "x"}),
        json!({"type": "files", "session": session}),
        json!({"type": "pair", "name": "x", "role": "viewer"}),
        json!({"type": "browser_list"}),
        json!({"type": "browser_log_out", "browser": "x"}),
    ] {
        let refused = viewer.ask(frame.clone()).await;
        assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("forbidden")), "{frame}");
    }
}

#[tokio::test]
async fn every_call_gets_its_kind_of_reply() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("ask").await;
    client.attach(session, ALL()).await;
    let opened = client.until_event("request_opened").await.pop().unwrap();
    let request: RequestId = serde_json::from_value(opened["event"]["request"]["request"].clone()).unwrap();
    let prefix = session.to_string()[..35].to_owned();
    for (frame, reply) in [
        (json!({"type": "list", "limit": 5}), "sessions"),
        (json!({"type": "resolve", "prefix": prefix}), "resolved"),
        (json!({"type": "state", "session": session}), "state"),
        (json!({"type": "history", "session": session, "limit": 2}), "history"),
        (json!({"type": "raw", "session": session, "seq": request.0}), "raw"),
        (json!({"type": "environment", "session": session}), "environment"),
        (json!({"type": "agents"}), "agents"),
        (json!({"type": "agents", "probe": true}), "agents"),
        (json!({"type": "token_list"}), "tokens"),
        (json!({"type": "ticket_create"}), "ticket"),
        (json!({"type": "pair", "name": "phone", "role": "viewer"}), "ticket"),
        (json!({"type": "browser_list"}), "browsers"),
        (json!({"type": "files", "session": session, "query": "zzz"}), "files"),
        (json!({"type": "unsubscribe"}), "done"),
        (json!({"type": "delete", "session": session}), "done"),
    ] {
        let answered = client.ask(frame.clone()).await;
        assert_eq!(answered["reply"], reply, "{frame}: {answered}");
        match reply {
            "raw" => assert_eq!(answered["text"], OWN_WORDS),
            "history" => assert_eq!(answered["entries"].as_array().unwrap().len(), 2),
            _ => {}
        }
    }
    let ended = client.until(|frame| frame["type"] == "ended").await.pop().unwrap();
    assert_eq!(ended, json!({"type": "ended", "session": session, "reason": "deleted"}));
}

// covers: 002-046
#[tokio::test]
async fn a_command_for_an_unknown_session_is_refused_by_name() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let nowhere = SessionId::from_u128(1);
    let refused = client.command(nowhere, json!({"name": "interrupt"})).await;
    assert_eq!(refused["code"], "not_found");
    assert!(refused["message"].as_str().unwrap().contains(&nowhere.to_string()), "{refused}");
}

#[tokio::test]
async fn a_bound_token_sees_no_files_of_other_sessions() {
    let stand = Stand::new().await;
    let mut owner = stand.client("ada", Role::Owner).await;
    let (own, other) = (owner.create("").await, owner.create("").await);
    let bound = Principal { sessions: Some([own].into()), ..stand.someone("bob", Role::Operator).await };
    let mut bob = stand.client_of(&bound, 4096).await;
    assert_eq!(bob.ask(json!({"type": "files", "session": own})).await["reply"], "files");
    assert_eq!(bob.ask(json!({"type": "files", "session": other})).await["code"], "not_found");
}

#[tokio::test]
async fn a_revoked_token_closes_its_connections_and_no_others() {
    let stand = Stand::new().await;
    let mut owner = stand.client("ada", Role::Owner).await;
    let made = owner.ask(json!({"type": "token_create", "name": "bob", "role": "viewer"})).await;
    let token = serde_json::from_value(made["token"]["token"].clone()).unwrap();
    let bob = Principal { token, name: "bob".into(), role: Role::Viewer, sessions: None, via: "test".into() };
    let mut bob = stand.client_of(&bob, 4096).await;
    owner.ask(json!({"type": "token_revoke", "token": made["token"]["token"]})).await;
    let (frames, code) = bob.closed().await;
    assert_eq!(
        (frames[0]["reason"].as_str(), &frames[0]["resumable"], code),
        (Some("token_gone"), &json!(false), Some(4001))
    );
    assert_eq!(owner.ask(json!({"type": "ping"})).await["reply"], "pong");
}

#[tokio::test]
async fn frames_that_cannot_be_read_take_their_share_of_the_rate() {
    let stand = Stand::with(|settings| {
        settings.limits.requests_per_second = 1;
        settings.limits.request_burst = 4;
    })
    .await;
    let who = stand.someone("ada", Role::Owner).await;
    let mut client = stand.client_of(&who, 64 * 1024).await;
    for text in ["{", r#"{"type":"hello","protocol":1,"client":{"name":"again"}}"#, "[]", "x"] {
        client.send_text(text).await;
        assert_eq!(client.next().await["code"], "invalid", "{text}");
    }
    client.send_text("{").await;
    assert_eq!(client.next().await["code"], "busy");
    assert_eq!(client.ask(json!({"type": "ping"})).await["code"], "busy");
}

#[tokio::test]
async fn a_client_that_never_says_hello_is_not_answered_for_ever() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Owner).await;
    let mut client = Client::over(stand.connect(&who, 64 * 1024).0).await;
    // More than are answered: otherwise the timeout for `hello` would also end the connection.
    for _ in 0..20 {
        client.send_text("{").await;
    }
    let (frames, code) = client.closed().await;
    assert_eq!((frames.len(), frames[16]["reason"].as_str(), code), (17, Some("protocol"), Some(1008)));
}

#[tokio::test]
async fn a_token_bound_to_sessions_learns_nothing_of_this_machines_programs_and_logins() {
    let stand = Stand::new().await;
    stand.native.registry.probe().await;
    let mut owner = stand.client("ada", Role::Owner).await;
    let session = owner.create("").await;
    let told = owner.ask(json!({"type": "agents"})).await["agents"][0]["probe"].clone();
    assert_eq!((&told["program"], &told["login"]["state"]), (&json!("/opt/obedient"), &json!("logged_in")));
    let bound = Principal { sessions: Some([session].into()), ..stand.someone("bob", Role::Owner).await };
    let mut bob = stand.client_of(&bound, 4096).await;
    let told = bob.ask(json!({"type": "agents"})).await["agents"][0]["probe"].clone();
    assert_eq!(told, json!({"available": true, "version": "1.0", "message": "can be started"}));
    assert_eq!(bob.ask(json!({"type": "agents", "probe": true})).await["code"], "forbidden");
    assert_eq!(bob.ask(json!({"type": "account", "agent": "obedient"})).await["code"], "forbidden");
}

#[test]
fn secrets_on_the_wire_do_not_show_themselves_in_debug_output() {
    use portolan_core::{Millis, ports::Secret};

    use portolan_protocol::{ClientInfo, Greeting, ReplyBody};
    let client = ClientInfo { name: "page".into(), version: "1".into() };
    let hello = Greeting::Hello { protocol: 1, client, key: Some(Secret::new("hush")) };
    let ticket = ReplyBody::Ticket { ticket: Secret::new("hush"), expires_at: Millis(1) };
    let shown = format!("{hello:?}{ticket:?}");
    assert!(!shown.contains("hush"), "{shown}");
}

#[tokio::test]
async fn a_daemon_that_stops_says_so_and_that_one_can_come_back() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    client.attach(session, ALL()).await;
    stand.native.registry.shutdown(Duration::ZERO).await;
    stand.native.stopping.cancel();
    let (frames, code) = client.closed().await;
    let last = frames.last().unwrap();
    assert_eq!(
        (last["reason"].as_str(), &last["resumable"], code),
        (Some("stopping"), &json!(true), Some(1012))
    );
    drop(client);
    stand.native.closed().await;
}

#[tokio::test]
async fn a_frame_that_breaks_the_websocket_itself_is_answered_with_its_close_code() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    for (bytes, code) in [(&[0x81, 0x01, b'x'][..], 1002), (&[0x81, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0][..], 1009)]
    {
        let (mut io, _) = stand.connect(&who, 4096);
        io.write_all(bytes).await.unwrap();
        let (frames, closed) = Client::over(io).await.closed().await;
        assert_eq!((frames[0]["reason"].as_str(), closed), (Some("protocol"), Some(code)));
    }
}

#[tokio::test]
async fn a_client_that_closes_gets_a_close_frame_back() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    let (io, served) = stand.connect(&who, 4096);
    let mut client = Client::over(io).await;
    client.hello().await;
    client.socket.close(None).await.unwrap();
    assert_eq!(client.closed().await.0, [] as [Value; 0]);
    served.await.unwrap();
}

/// The network buffers little and nobody reads: unsent data stays bounded, and the client is closed but can resume.
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_is_closed_and_can_come_back_without_loss() {
    let stand = Stand::new().await;
    let mut writer = stand.client("ada", Role::Owner).await;
    let session = writer.create("").await;
    let who = stand.someone("bob", Role::Viewer).await;
    let mut slow = stand.client_of(&who, 1024).await;
    slow.attach(session, ALL()).await;
    for _ in 0..8 {
        writer.command(session, json!({"name": "prompt", "content": text("flood 256")})).await;
    }
    writer.attach(session, ALL()).await;
    writer.until(|frame| frame["event"]["type"] == "turn_ended" && frame["event"]["turn"] == 8).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(stand.native.registry.presence(session).len(), 1, "the stalled reader has left the session");

    let (frames, code) = slow.closed().await;
    let closing = frames.last().unwrap();
    assert_eq!(
        (closing["reason"].as_str(), &closing["resumable"], code),
        (Some("too_slow"), &json!(true), Some(4008))
    );
    let sent: usize = frames.iter().map(|frame| frame.to_string().len()).sum();
    assert!(sent < 600 * 1024, "{sent} bytes waited for a client that did not read");

    let last = seqs(&frames).into_iter().max().unwrap_or(0);
    let mut back = stand.client_of(&who, 64 * 1024).await;
    back.attach(session, json!({"after": last})).await;
    let rest = back.until(|frame| frame["type"] == "snapshot").await;
    let finished =
        |frames: &[Value]| frames.iter().filter(|frame| frame["event"]["type"] == "message").count();
    assert_eq!(finished(&frames) + finished(&rest), 8);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_client_does_not_slow_the_others() {
    let stand = Stand::new().await;
    let mut writer = stand.client("ada", Role::Owner).await;
    let session = writer.create("").await;
    let who = stand.someone("bob", Role::Viewer).await;
    let mut stalled = stand.client_of(&who, 1024).await;
    stalled.attach(session, ALL()).await;
    writer.attach(session, ALL()).await;
    let before = tokio::time::Instant::now();
    writer.command(session, json!({"name": "prompt", "content": text("flood 2000")})).await;
    writer.until_event("turn_ended").await;
    assert_eq!(before.elapsed(), Duration::ZERO, "no timer had to run");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_asked_twice_and_then_dropped() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    let (io, served) = stand.connect(&who, 4096);
    let mut client = Client::over(io).await;
    client.hello().await;
    let before = tokio::time::Instant::now();
    // Nobody polls the client, so no pong is sent.
    served.await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(90));
    let mut rest = Vec::new();
    client.socket.get_mut().read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, [0x89, 0, 0x89, 0], "two pings and nothing else");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_pings_stays_for_as_long_as_it_likes() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Viewer).await;
    let quiet = tokio::time::timeout(Duration::from_mins(10), client.fresh()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(client.ask(json!({"type": "ping"})).await["reply"], "pong");
}

#[tokio::test]
async fn no_more_sessions_than_the_limit_are_attached_at_once() {
    let policy = Policy { agents_at_once: None, ..Policy::default() };
    let stand = Stand::under(vec![obedient()], policy).await;
    let mut owner = stand.client("ada", Role::Owner).await;
    let mut refused = 0;
    for _ in 0..=ATTACHMENTS {
        // A new token for each: this test is not about the rate limit of the door.
        let mut other = stand.client("maker", Role::Owner).await;
        let session = other.create("").await;
        let mut reply = owner.attach(session, json!({"tail": 0})).await;
        while reply["retry_after_ms"].is_number() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            reply = owner.attach(session, json!({"tail": 0})).await;
        }
        refused += usize::from(reply["code"] == "busy");
    }
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_to_wait_and_stays() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Viewer).await;
    let mut refused = None;
    for _ in 0..2 * stand.behind.door.limits.request_burst {
        let reply = client.ask(json!({"type": "ping"})).await;
        if reply["type"] == "error" {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("a limit");
    assert!(refused["code"] == "busy" && refused["retry_after_ms"].is_number(), "{refused}");
}

#[tokio::test]
async fn a_store_that_fails_refuses_commands_and_keeps_the_connection() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    stand.behind.store.fail("the disk is full");
    let refused = client.command(session, json!({"name": "prompt", "content": text("say x")})).await;
    assert_eq!(refused["code"], "store_failing", "{refused}");
    stand.behind.store.release();
    let taken = client.command(session, json!({"name": "prompt", "content": text("say x")})).await;
    assert_eq!(taken["reply"], "receipt", "{taken}");
}

#[tokio::test]
async fn commands_are_answered_while_a_flood_streams() {
    let stand = Stand::new().await;
    let mut client = stand.client("ada", Role::Owner).await;
    let session = client.create("").await;
    client.attach(session, json!({"tail": 0})).await;
    client.command(session, json!({"name": "prompt", "content": text("flood 4000")})).await;
    client.until_event("delta").await;
    assert_eq!(client.ask(json!({"type": "ping"})).await["reply"], "pong");
    assert!(client.early.iter().all(|frame| frame["event"]["type"] != "turn_ended"));
    client.until_event("turn_ended").await;
}

#[tokio::test]
async fn a_prompt_whose_sender_leaves_at_once_is_still_sent() {
    let stand = Stand::new().await;
    let mut reader = stand.client("ada", Role::Owner).await;
    let session = reader.create("").await;
    reader.attach(session, json!({"tail": 0})).await;
    let mut hasty = stand.client("bob", Role::Owner).await;
    for index in 1..=3 {
        let command = json!({"name": "prompt", "content": text(&format!("say {index}"))});
        hasty
            .send(
                json!({"type": "command", "id": format!("p{index}"), "session": session, "command": command}),
            )
            .await;
    }
    drop(hasty);
    reader.until(|frame| frame["event"]["type"] == "turn_ended" && frame["event"]["turn"] == 3).await;
}

/// An idle session with its reader may cost 64 KiB in total; this is the part of the frontend.
#[tokio::test]
async fn a_waiting_connection_is_small() {
    let stand = Stand::new().await;
    let who = stand.someone("ada", Role::Viewer).await;
    let serving = serve(
        stand.native.clone(),
        Visitor::Known(Guest(who), portolan_host::door::Stay::default()),
        duplex(1).0,
    );
    let size = std::mem::size_of_val(&serving);
    assert!(size < 4096, "{size} bytes");
}
