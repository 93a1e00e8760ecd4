//! Who may use a page's tools: the agent may, without asking anyone; nothing else is allowed by that.

use portolan_core::{
    request::{Answer, Outcome},
    session::state::Status,
};

use super::{super::PREFIX, stand::Stand};

#[tokio::test]
async fn the_prompt_for_a_tool_that_the_page_offers_is_answered_and_says_by_whom() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    stand.offer(session, &["addTask"]).await;
    stand.prompt(session, &format!("{PREFIX}addTask")).await;
    let state = stand.until(session, |state| state.summary.status == Status::Idle).await;
    let closed = state.closed_requests.last().unwrap();
    let Outcome::Answered { answer, by } = &closed.outcome else { panic!("{closed:?}") };
    assert_eq!((answer, by.to_string()), (&Answer::allow(), "page tools (agui)".to_owned()));
}

#[tokio::test]
async fn nothing_else_is_allowed_by_it() {
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
        // What comes after it in the daemon's log was looked at, and this was left alone.
        let marker = stand.session().await;
        stand.offer(marker, &["mark"]).await;
        stand.prompt(marker, &format!("{PREFIX}mark")).await;
        stand.until(marker, |state| state.summary.status == Status::Idle).await;
        let state = stand.until(session, |_| true).await;
        assert_eq!(state.requests.as_slice(), std::slice::from_ref(&request), "{name} was answered");
        stand
            .act(
                session,
                portolan_core::Action::Answer {
                    request: request.request,
                    digest: None,
                    answer: Answer::deny(None),
                },
            )
            .await;
        stand.until(session, |state| state.summary.status == Status::Idle).await;
    }
}
