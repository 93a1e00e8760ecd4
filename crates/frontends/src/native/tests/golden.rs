//! Every frame of the server as text: a change of the wire shows here first.

use portolan_core::{
    Actor, CommandId, Millis, Refusal, RefusalCode, RequestId, Seq, TokenId, WayOut,
    command::{Receipt, Stage},
    event::Account,
    log::delivery::{Closed, Presence},
    ports::{AccountState, Login, LoginPage, PastSession, Secret, UsageLimit},
    registry::{AccountDescription, PastDescription},
    request::{Answer, Outcome},
    session::state::{Status, Summary},
};
use portolan_protocol::{
    AgentsRunning, BrowserInfo, ClosingReason, Limits, PROTOCOL, ReplyBody, ServerFrame, ServerInfo,
    TokenInfo, You,
};

use super::*;
use crate::native::answer::frame_of;

const GOLDEN: &str = include_str!("server_frames.jsonl");

fn summary() -> Summary {
    Summary {
        session: SessionId::from_u128(1),
        agent: "demo".into(),
        name: "a name".into(),
        cwd: "/home/ada".into(),
        status: Status::Idle,
        error: None,
        asleep: false,
        archived: false,
        created_at: Millis(1),
        active_at: Millis(2),
        agent_session: None,
        model: None,
        mode: None,
        waiting: 0,
        queued: 0,
        turns: 1,
        cost_usd: Some(0.25),
        over_budget: None,
        forked_from: None,
    }
}

fn past(session: Option<SessionId>) -> PastDescription {
    let past = PastSession {
        past: "0aaaaaaa-0000-4000-8000-000000000001".into(),
        title: "fix the mast".into(),
        cwd: Some("/home/ada".into()),
        started_at: Some(Millis(1)),
        updated_at: Millis(2),
        version: session.map(|_| "2.1.325".into()),
        held_by: None,
    };
    PastDescription { agent: "claude".into(), past, session }
}

fn account() -> AccountDescription {
    let holder = Account { email: Some("ada@example.org".into()), ..Account::default() };
    let limit = UsageLimit {
        used_percent: 12.5,
        window_minutes: Some(300),
        resets_at: Some(Millis(1_900_000_000_000)),
    };
    AccountDescription {
        agent: "codex".into(),
        state: AccountState {
            login: Some(Login::LoggedIn { how: "chatgpt, ada@example.org".into() }),
            account: Some(holder),
            limits: vec![limit],
        },
        under_way: Some(LoginPage { url: "https://login.example".into(), code: Some("AB-12".into()) }),
        failed: Some("the login failed: declined".into()),
    }
}

fn one_of_each() -> Vec<ServerFrame> {
    let (session, token): (_, TokenId) = (SessionId::from_u128(1), "owner".parse().unwrap());
    let id: CommandId = "c-1".parse().unwrap();
    let ada = Actor::Person { token: token.clone(), name: "ada".into(), via: "cli".into() };
    let info = TokenInfo {
        token: token.clone(),
        name: "ada".into(),
        role: Role::Owner,
        sessions: None,
        created_at: Millis(1),
        expires_at: Some(Millis(2)),
        used_at: None,
    };
    let browser = BrowserInfo {
        browser: "0123456789abcdef".into(),
        token: token.clone(),
        name: "phone".into(),
        role: Role::Operator,
        logged_in_at: Millis(1),
        seen_at: Millis(2),
        address: Some("192.0.2.7".into()),
        user_agent: Some("Mozilla/5.0".into()),
    };
    let you =
        You { token: token.clone(), name: "ada".into(), role: Role::Owner, sessions: Some([session].into()) };
    let mut frames = vec![
        ServerFrame::Welcome {
            protocol: PROTOCOL,
            server: ServerInfo {
                name: "portolan".into(),
                version: "0.1.0".into(),
                now: Some(Millis(1_790_000_000_000)),
                incarnation: Some("5c3f".into()),
            },
            you,
            limits: Limits { frame_bytes: 8_388_608, attachments: 256 },
        },
        ServerFrame::Error {
            id: None,
            refusal: Refusal::new(RefusalCode::Invalid, "unknown frame type `dance`"),
        },
        ServerFrame::Error { id: Some(id.clone()), refusal: Refusal::busy("try again", 250) },
        ServerFrame::Error {
            id: Some(id.clone()),
            refusal: Refusal::already_closed(
                RequestId(7),
                None,
                Outcome::Answered { answer: Answer::allow(), by: ada },
            ),
        },
        ServerFrame::Error {
            id: Some(id.clone()),
            refusal: Refusal::new(RefusalCode::NotRunning, "the agent is not running")
                .with_way_out(WayOut::ResumeSession { session }),
        },
        ServerFrame::Presence {
            session,
            present: vec![Presence {
                token,
                name: "ada".into(),
                role: Role::Owner,
                via: "cli".into(),
                since: Millis(3),
            }],
        },
        ServerFrame::Ended { session: Some(session), reason: Closed::Deleted },
        ServerFrame::Ended { session: None, reason: Closed::Stopping },
        ServerFrame::Closing {
            reason: ClosingReason::TooSlow,
            message: "nothing was read".into(),
            resumable: true,
        },
    ];
    let replies = [
        ReplyBody::Done,
        ReplyBody::Attached { session },
        ReplyBody::Subscribed,
        ReplyBody::Receipt { receipt: Receipt { seq: Seq(9), stage: Stage::Accepted } },
        ReplyBody::Session { session: summary() },
        ReplyBody::Sessions { sessions: vec![summary()], agents: None },
        ReplyBody::Sessions { sessions: vec![], agents: Some(AgentsRunning { running: 2, limit: Some(32) }) },
        ReplyBody::Past { past: vec![past(None), past(Some(session))] },
        ReplyBody::TakenUp { session: summary(), already: true },
        ReplyBody::Resolved { session },
        ReplyBody::History { entries: vec![json!({"type": "entry"})] },
        ReplyBody::Files { files: vec!["src/".into(), "src/main.rs".into()], truncated: false },
        ReplyBody::Raw { text: Some("raw".into()) },
        ReplyBody::Environment { variables: [("A".to_owned(), "1".to_owned())].into_iter().collect() },
        ReplyBody::Agents { agents: vec![] },
        ReplyBody::Account { account: account() },
        ReplyBody::Token { token: info.clone(), secret: Secret::new("secret") },
        ReplyBody::Tokens { tokens: vec![info] },
        ReplyBody::Ticket { ticket: Secret::new("ticket"), expires_at: Millis(60_000) },
        ReplyBody::Browsers { browsers: vec![browser] },
        ReplyBody::Pong,
    ];
    frames.extend(replies.map(|body| ServerFrame::Reply { id: id.clone(), body: Box::new(body) }));
    frames
}

#[test]
fn the_frames_of_the_server_have_not_changed() {
    let lines: Vec<String> =
        one_of_each().iter().map(|frame| String::from_utf8(frame_of(frame).to_vec()).unwrap()).collect();
    if std::env::var_os("UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/native/tests/server_frames.jsonl");
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    assert_eq!(lines, GOLDEN.lines().collect::<Vec<_>>());
}

#[test]
fn every_frame_of_the_server_reads_back() {
    for line in GOLDEN.lines() {
        let frame: ServerFrame = serde_json::from_str(line).unwrap();
        assert_eq!(frame_of(&frame), line);
    }
}

#[test]
fn the_close_codes_have_not_changed() {
    let codes =
        [ClosingReason::Stopping, ClosingReason::TooSlow, ClosingReason::TokenGone, ClosingReason::Protocol];
    assert_eq!(codes.map(ClosingReason::code), [1012, 4008, 4001, 1008]);
}
