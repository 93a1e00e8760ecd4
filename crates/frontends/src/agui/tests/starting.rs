//! Messages that come before the agent has started: they are in the log at once, so that neither a reload nor a restart
//! loses them.

use std::time::Duration;

use super::*;
use crate::agui::OnClose;

/// A run whose message waits for an agent that is starting.
async fn posted(stand: &Stand, client: &Client, words: &str) -> (Answer, SessionId) {
    let mut run = client.post("/agent/late/run", &input("t1", "r1", &[user("u1", words)])).await;
    let session = session_of(&run.until(is("STATE_SNAPSHOT")).await);
    stand.until(session, |state| state.summary.queued == 1).await;
    (run, session)
}

const SAID: [(&str, &str); 2] = [("user", "hello"), ("assistant", "you said: hello")];

#[tokio::test]
async fn a_message_posted_while_the_agent_starts_is_sent_once_and_shown_even_if_its_client_left() {
    for (is_page, connects_while_it_starts) in [(false, true), (false, false), (true, true), (true, false)] {
        let stand = Stand::new().await;
        let ada = stand.ada().await;
        if is_page {
            ada.connect("t1").await;
        }
        let (run, session) = posted(&stand, &ada, "hello").await;
        drop(run);
        if !is_page {
            stand.until_abandoned().await;
        }
        let events = if connects_while_it_starts {
            let mut page = ada.post("/agent/default/connect", &input("t1", "c1", &[])).await;
            let so_far = page.until(is("MESSAGES_SNAPSHOT")).await;
            assert_eq!(texts(&shown(&[&so_far])), SAID[..1], "the message is there before the agent is");
            stand.ready.cancel();
            page.events().await
        } else {
            stand.ready.cancel();
            stand.until(session, |state| state.summary.turns == 1 && state.turn.is_none()).await;
            ada.connect("t1").await
        };
        assert_eq!(texts(&shown(&[&events])), SAID);
        assert_eq!(texts(&shown(&[&ada.connect("t1").await])), SAID, "and again");
        assert_eq!(stand.state(session).await.summary.turns, 1);
        assert_eq!(stand.sessions().await.len(), 1, "no empty session is left behind");
    }
}

// The session exists before its first message is in it.
#[tokio::test]
async fn a_connect_during_the_creation_of_a_thread_waits_for_its_first_message() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let wanted = crate::agui::threads::Wanted { who: &ada.who, agent: "late", thread: "t1" };
    let (registry, settings) = (&stand.agui.registry, &stand.agui.settings);
    let found = stand.agui.threads.find_or_make(registry, settings, wanted, "hello").await.unwrap();
    let session = found.summary.session;
    let connecting = tokio::spawn({
        let ada = ada.clone();
        async move { ada.connect("t1").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!connecting.is_finished(), "the thread has no message yet: {:?}", connecting.await);
    let content = vec![portolan_core::event::Content::text("hello")];
    let prompt = portolan_core::Action::Prompt { content };
    registry.submit(&ada.who, session, portolan_core::CommandId::random(), prompt).await.unwrap();
    drop(found);
    stand.ready.cancel();
    assert_eq!(texts(&shown(&[&connecting.await.unwrap()])), SAID);
}

#[tokio::test]
async fn a_run_that_waits_for_its_agent_is_streamed_to_its_end() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let (run, _) = posted(&stand, &ada, "hello").await;
    stand.ready.cancel();
    assert_eq!(texts(&shown(&[&run.events().await])), SAID[1..]);
}

#[tokio::test(start_paused = true)]
async fn the_turn_of_a_plain_client_that_left_while_the_agent_started_is_stopped() {
    for (on_close, turns) in [(OnClose::Auto, 1), (OnClose::Stop, 0)] {
        let stand = Stand::with(|settings| settings.on_close = on_close).await;
        let ada = stand.ada().await;
        let (run, session) = posted(&stand, &ada, "[\"wait\"]").await;
        drop(run);
        stand.until_abandoned().await;
        if on_close == OnClose::Stop {
            // The configuration says that a run stops without a client.
            stand.until(session, |state| state.summary.queued == 0).await;
        }
        stand.ready.cancel();
        stand.until_all_ended().await;
        let state = stand.until(session, |state| state.turn.is_none() && state.commands.is_empty()).await;
        assert_eq!(state.summary.turns, turns, "{on_close:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_becomes_ready_after_the_last_client_left_still_gets_the_prompt() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    ada.connect("t1").await;
    let (run, session) = posted(&stand, &ada, "hello").await;
    drop(run);
    stand.until_all_ended().await;
    assert_eq!(stand.state(session).await.summary.queued, 1);
    stand.ready.cancel();
    stand.until(session, |state| state.summary.turns == 1 && state.turn.is_none()).await;
    assert_eq!(texts(&shown(&[&ada.connect("t1").await])), SAID);
}

#[tokio::test]
async fn a_page_that_reconnects_can_stop_a_run_that_still_waits() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    ada.connect("t1").await;
    let (run, session) = posted(&stand, &ada, "hello").await;
    drop(run);
    let mut page = ada.post("/agent/default/connect", &input("t1", "c1", &[])).await;
    page.until(is("MESSAGES_SNAPSHOT")).await;
    let (_, stopped) = ada.json(Method::POST, "/agent/default/stop/t1", &Value::Null).await;
    assert_eq!(stopped["stopped"], true);
    assert_eq!(outline(&page.events().await).last(), Some(&"RUN_FINISHED"));
    stand.ready.cancel();
    stand.until_all_ended().await;
    let state = stand.state(session).await;
    assert_eq!((state.summary.turns, state.summary.queued), (0, 0));
}

#[tokio::test]
async fn a_message_that_is_not_taken_leaves_no_session_behind() {
    let stand = Stand::new().await;
    let ada = stand.ada().await;
    let events = ada.say("t1", "").await;
    assert_eq!(events.last().unwrap()["code"], "invalid", "{events:?}");
    assert!(stand.sessions().await.is_empty());
    let events = ada.run(input("t1", "r2", &[user("u2", "hello")])).await;
    assert_eq!(texts(&shown(&[&events])), SAID[1..], "the thread can be used");
}

#[tokio::test]
async fn a_message_that_waited_when_portolan_ended_is_shown_and_sent_once_when_it_is_repeated() {
    let store = Arc::new(MemoryStore::new());
    let stand = Stand::over(store.clone(), |_| {}).await;
    let (run, session) = posted(&stand, &stand.ada().await, "hello").await;
    stand.agui.registry.shutdown(Duration::from_secs(1)).await;
    stand.agui.stopping.cancel();
    assert_eq!(run.events().await.last().unwrap()["code"], "stopping");
    let stand = Stand::over(store, |_| {}).await;
    let bob = stand.someone("bob", Role::Operator).await;
    // A chat cannot send anything during its connect: so the connect ends, because nobody has started the agent.
    let connected = bob.connect("t1").await;
    assert_eq!(texts(&shown(&[&connected])), SAID[..1]);
    stand.ready.cancel();
    let again = bob.run(input("t1", "r2", &[user("u1", "hello")])).await;
    assert_eq!(outline(&again).last(), Some(&"RUN_FINISHED"), "{again:?}");
    assert_eq!(texts(&shown(&[&bob.connect("t1").await])), SAID);
    assert_eq!(stand.state(session).await.summary.turns, 1);
}
