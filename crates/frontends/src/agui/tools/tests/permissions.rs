//! Permission for a page's tools: the agent may use them without asking; nothing else is allowed by that.

use portolan_core::{
    Action, SessionId,
    request::{Answer, Outcome},
    session::state::Status,
};

use super::{
    super::{Lent, PREFIX, offer::Offer},
    stand::{Stand, owner, tool},
};

#[tokio::test]
async fn the_prompt_for_a_tool_that_the_page_offers_is_answered_and_says_by_whom() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    stand.offer(session, &["addTask"]).await;
    stand.prompt(session, &format!("{PREFIX}addTask")).await;
    let state = stand.until(session, |state| state.summary.status == Status::Idle).await;
    let closed = state.closed_requests.last().unwrap();
    let Outcome::Answered { answer, by } = &closed.outcome else { panic!("{closed:?}") };
    assert_eq!((answer, by.to_string()), (&Answer::allow(), format!("rule allow {PREFIX}addTask")));
}

#[tokio::test]
async fn an_offer_allows_no_other_tool_and_no_other_session() {
    let stand = Stand::new().await;
    let (session, without_page) = (stand.session().await, stand.session().await);
    stand.offer(session, &["addTask"]).await;
    let offered = format!("{PREFIX}addTask");
    for (session, name) in [
        (session, "Bash".to_owned()),
        (session, format!("{PREFIX}gone")),
        (session, "addTask".to_owned()),
        (session, format!("x{offered}")),
        (without_page, offered.clone()),
    ] {
        stand.prompt(session, &name).await;
        let state = stand.until(session, |state| state.summary.waiting == 1).await;
        let request = state.requests[0].clone();
        // Another session's call is allowed meanwhile: an answer that comes late would have come by now.
        let marker = stand.session().await;
        stand.offer(marker, &["mark"]).await;
        stand.prompt(marker, &format!("{PREFIX}mark")).await;
        stand.until(marker, |state| state.summary.status == Status::Idle).await;
        let state = stand.until(session, |_| true).await;
        assert_eq!(state.requests.as_slice(), std::slice::from_ref(&request), "{name} was answered");
        let answer = Answer::deny(None);
        stand
            .act(session, Action::Answer { request: request.request, digest: None, answer, persist: None })
            .await;
        stand.until(session, |state| state.summary.status == Status::Idle).await;
    }
}

#[tokio::test]
async fn a_request_from_before_the_offer_waits_and_an_ended_offer_allows_nothing() {
    let stand = Stand::new().await;
    let (before, after) = (stand.session().await, stand.session().await);
    let name = format!("{PREFIX}clear");
    stand.prompt(before, &name).await;
    stand.until(before, |state| state.summary.waiting == 1).await;
    stand.offer(before, &["clear"]).await;
    stand.offer(after, &["clear"]).await;
    stand.offer(after, &[]).await;
    stand.prompt(after, &name).await;
    stand.until(after, |state| state.summary.waiting == 1).await;
    assert_eq!(stand.until(before, |_| true).await.summary.waiting, 1);
}

/// How many rules pages lend to a session.
async fn lent(stand: &Stand, session: SessionId) -> usize {
    let rules = stand.registry.rules(&owner(), Some(session)).await.unwrap();
    rules.iter().filter(|known| known.rule.text.starts_with(PREFIX)).count()
}

#[tokio::test]
async fn an_offer_of_a_page_that_is_gone_allows_nothing() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    let tools = &stand.tools;
    let (offer, _) = Offer::of(vec![tool("addTask")], &super::super::Limits::default());
    let told = offer.told();
    let page = tools.page_for(session, &offer).unwrap().unwrap();
    assert_eq!((tools.lend_while_kept(session, &page, &told), lent(&stand, session).await), (Lent::Rules, 1));
    tools.forget(session);
    assert_eq!(lent(&stand, session).await, 0);
    assert_eq!(
        (tools.lend_while_kept(session, &page, &told), lent(&stand, session).await),
        (Lent::Nothing, 0)
    );
}

#[tokio::test]
async fn an_offer_to_an_agent_that_has_ended_allows_nothing() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    stand.act(session, Action::Stop).await;
    stand.until(session, |state| !state.summary.is_live()).await;
    let offered = stand.tools.offer(session, vec![tool("addTask")]).await;
    assert_eq!(offered.unavailable.as_deref(), Some("the agent has ended"));
    assert_eq!(lent(&stand, session).await, 0);
}
