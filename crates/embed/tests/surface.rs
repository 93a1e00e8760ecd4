//! Every method of a session's handle reaches the agent as its action, and the result comes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::unnecessary_wraps, reason = "results are optional, and compared with this")]

mod mirror;

use std::time::Duration;

use portolan_core::{
    Event,
    event::Content,
    request::{Answer, Scope},
};
use portolan_embed::{
    BridgeStatus, CommandOutput, CommandSource, DryRun, Portolan, RefusalCode, Seq, SessionSpec, Settings,
    Start, Switch,
};
use serde_json::{Value, json};

use mirror::{mirror, opened, said, spec};

fn told(what: &str) -> Option<Value> {
    Some(json!(what))
}

// covers: 003-091
#[tokio::test]
async fn the_capabilities_of_an_agent_are_known_without_a_session() {
    let portolan = Portolan::open(Settings::in_memory(vec![mirror()])).await.unwrap();
    let agents = portolan.client("test").agents();
    assert_eq!((agents[0].kind.as_str(), &agents[0].capabilities), ("mirror", &mirror::capabilities()));
}

// covers: 003-092, 003-108, 003-109, 003-110, 003-112
#[tokio::test]
async fn the_info_of_an_agent_is_available_when_the_agent_is_ready() {
    let portolan = Portolan::open(Settings::in_memory(vec![mirror()])).await.unwrap();
    let session = portolan.client("test").create(spec()).await.unwrap();
    let told = session.info().await.unwrap();
    assert_eq!((told.version.as_deref(), told.model.as_deref()), (Some("1.2.3"), Some("glass")));
    assert_eq!((told.agent_session.as_deref(), told.mode.as_deref()), (Some("mirror-1"), Some("default")));
    assert_eq!((told.tools, told.cwd), (Some(vec!["Bash".into()]), Some("/".into())));
    assert_eq!(session.commands().await.unwrap()[0].argument_hint.as_deref(), Some("what to keep"));
    assert_eq!(session.models().await.unwrap()[0].display_name, "Glass");
    assert_eq!(session.account().await.unwrap().unwrap().email.as_deref(), Some("ada@example.org"));
    assert!(session.capabilities().await.unwrap().model_switching);
    let dead = SessionSpec { model: Some("dead on arrival".into()), ..spec() };
    let dead = portolan.client("test").create(dead).await.unwrap();
    let refusal = dead.info().await.unwrap_err();
    assert_eq!((refusal.code, refusal.message.as_str()), (RefusalCode::NotRunning, "it ended"));
    assert_eq!(dead.status().await.unwrap(), BridgeStatus::Error("it ended".into()));
}

// covers: 003-101
#[tokio::test]
async fn any_number_of_readers_see_the_same_entries() {
    let (_portolan, session) = opened().await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(session.entries(Start::After(Seq::ZERO)).await.unwrap());
    }
    said(&session, vec![Content::text("hello")]).await;
    let mut seen = Vec::new();
    for mut reader in readers {
        let mut all = Vec::new();
        while all
            .last()
            .is_none_or(|told: &portolan_embed::Told<Event>| !matches!(told.event, Event::TurnEnded { .. }))
        {
            all.push(reader.next().await.unwrap().unwrap());
        }
        seen.push(all);
    }
    assert!(seen[0].len() > 5);
    assert!(seen.iter().all(|all| *all == seen[0]));
}

// covers: 003-102, 004-094
#[tokio::test]
async fn a_prompt_returns_the_messages_of_its_turn() {
    let (_portolan, session) = opened().await;
    let picture = Content::Image { media_type: "image/png".into(), data: "AAAA".into() };
    let content = vec![Content::text("look"), picture];
    let expected = format!("{:?}", vec![Content::text(format!("{content:?}"))]);
    assert_eq!(said(&session, content).await, [expected]);
    let prompts = session.state().await.unwrap().summary.turns;
    assert_eq!(prompts, 1);
}

// covers: 003-104, 004-095, 004-096, 004-097
#[tokio::test]
async fn a_request_is_answered_by_the_program_and_only_once() {
    let (_portolan, session) = opened().await;
    let edited = Answer::Allow {
        input: Some(json!({ "command": "pwd" })),
        scope: Scope::Once,
        mode: None,
        option: None,
    };
    let ending = Answer::Deny { message: Some("stop".into()), interrupt: true, option: None };
    for answer in [edited, Answer::allow(), Answer::deny(Some("no".into())), Answer::deny(None), ending] {
        let mut reply = session.send(vec![Content::text("ask")]).await.unwrap();
        let mut last = None;
        while let Some(told) = reply.next().await.unwrap() {
            if let Event::RequestOpened { request } = &told.event {
                match &answer {
                    Answer::Deny { message, interrupt: true, .. } => {
                        session.deny_and_interrupt(request.request, message.as_deref()).await
                    }
                    Answer::Deny { message, .. } => session.deny(request.request, message.as_deref()).await,
                    Answer::Allow { input: None, .. } => session.allow(request.request).await,
                    other => session.answer(request.request, other.clone()).await,
                }
                .unwrap();
                let again = session.allow(request.request).await.unwrap_err();
                assert_eq!(again.code, RefusalCode::AlreadyClosed);
            }
            if let Event::Message { content, .. } = told.event {
                last = Some(content);
            }
        }
        // A denial without words gets some.
        let told = match &answer {
            Answer::Deny { message: None, interrupt, option } => Answer::Deny {
                message: Some("Tool \"Bash\" was denied by the user.".into()),
                interrupt: *interrupt,
                option: option.clone(),
            },
            other => other.clone(),
        };
        assert_eq!(last, Some(vec![Content::text(format!("{told:?}"))]));
    }
}

// covers: 003-105, 003-106, 003-107, 003-111, 003-114, 004-099
#[tokio::test]
async fn every_other_action_reaches_the_agent() {
    let (_portolan, session) = opened().await;
    session.set_model(Some("silver")).await.unwrap();
    session.set_mode("plan").await.unwrap();
    session.set_thinking(Some(7)).await.unwrap();
    session.set_environment([("A".to_owned(), "b".to_owned())].into()).await.unwrap();
    let state = session.state().await.unwrap();
    assert_eq!(
        (state.summary.model.as_deref(), state.summary.mode.as_deref()),
        (Some("silver"), Some("plan"))
    );
    assert_eq!(state.thinking, Some(7));
    let prompt = session.prompt("ask").await.unwrap();
    let rewound = session.rewind(prompt, DryRun::Yes).await.unwrap();
    assert_eq!(rewound, told(&format!("Rewind {{ prompt: InstructionId({prompt}), dry_run: true }}")));
    session.interrupt().await.unwrap();
    assert_eq!(session.state().await.unwrap().requests, [], "no request is open after an interrupt");
    assert_eq!(session.mcp_status().await.unwrap()[0].name, "files");
    session.mcp_reconnect("files").await.unwrap();
    session.mcp_toggle("files", Switch::Off).await.unwrap();
    let set = session.mcp_set([("s".to_owned(), json!({}))].into()).await.unwrap();
    assert!(set.unwrap().as_str().unwrap().starts_with("McpSet("));
    let passed = session.mcp_message("files", json!({ "jsonrpc": "2.0" })).await.unwrap();
    assert!(passed.unwrap().as_str().unwrap().starts_with("McpMessage { server: \"files\""));
    assert!(session.native(json!({ "type": "x" })).await.unwrap().is_some());
    let refusal = session.native(json!({ "fail": true })).await.unwrap_err();
    assert_eq!((refusal.code, refusal.message.as_str()), (RefusalCode::AgentRefused, "as you wish"));
}

#[tokio::test]
async fn a_slash_command_is_run_by_the_agent_or_by_portolan_or_refused() {
    let (_portolan, session) = opened().await;
    let own = session.execute("/compact a little").await.unwrap();
    let said = format!("{:?}", vec![Content::text("/compact a little")]);
    assert_eq!(own, CommandOutput { content: said, source: CommandSource::Native });
    let ours = session.execute("cost").await.unwrap();
    let content = "an unknown amount in 1 turns".to_owned();
    assert_eq!(ours, CommandOutput { content, source: CommandSource::Emulated });
    assert_eq!(session.execute("/dance").await.unwrap_err().code, RefusalCode::Unsupported);
}

// covers: 003-093, 003-116
#[tokio::test]
async fn a_closed_session_can_be_read_and_resumed_also_by_the_agents_own_id() {
    let (portolan, session) = opened().await;
    said(&session, vec![Content::text("hello")]).await;
    session.close().await.unwrap();
    assert_eq!(session.status().await.unwrap(), BridgeStatus::Terminated);
    let mut history = session.entries(Start::After(Seq::ZERO)).await.unwrap();
    assert!(matches!(history.next().await.unwrap().unwrap().event, Event::SessionCreated { .. }));
    session.resume().await.unwrap();
    assert!(session.status().await.unwrap().is_connected());
    let taken = SessionSpec { resume: Some("mirror-9".into()), model: Some("silver".into()), ..spec() };
    let taken = portolan.client("test").create(taken).await.unwrap();
    assert_eq!(taken.info().await.unwrap().agent_session.as_deref(), Some("mirror-9"));
}

// covers: 003-094
#[tokio::test]
async fn after_the_shutdown_nothing_runs_and_readers_are_informed() {
    let (portolan, session) = opened().await;
    let mut entries = session.entries(Start::Tail(0)).await.unwrap();
    assert_eq!(portolan.shutdown(Duration::from_secs(5)).await, Vec::<String>::new());
    let mut ended = false;
    while let Some(told) = entries.next().await.unwrap() {
        ended |= matches!(told.event, Event::AgentExited { .. });
    }
    assert!(ended, "its agent was ended first");
    assert_eq!(session.prompt("still there?").await.unwrap_err().code, RefusalCode::ShuttingDown);
}
