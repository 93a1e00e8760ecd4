//! Permission for a page's tools: the agent may use them without asking; nothing else is allowed by that.

use portolan_core::{
    RequestId,
    request::{Answer, Outcome, Request},
    session::state::Status,
};

use super::{
    super::PREFIX,
    stand::{Stand, tool},
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
        // The permissions has read the log beyond this request, and did not answer it.
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

#[tokio::test]
async fn what_the_offer_answers_is_decided_once_for_who_shows_it_and_who_answers_it() {
    let stand = Stand::new().await;
    let session = stand.session().await;
    stand.prompt(session, &format!("{PREFIX}clear")).await;
    let before = stand.until(session, |state| state.summary.waiting == 1).await.requests[0].clone();
    let later = |number: u64, name: &str| {
        let mut asked = serde_json::to_value(&before).unwrap();
        asked["request"] = serde_json::json!(before.request.0 + number);
        asked["ask"]["tool_name"] = serde_json::json!(format!("{PREFIX}{name}"));
        serde_json::from_value::<Request>(asked).unwrap()
    };
    let allows = |request: &Request| stand.tools.allows(session, request);
    assert!(!allows(&before), "there is no page");
    stand.offer(session, &["addTask", "clear"]).await;
    assert!(!allows(&before), "it was asked before there was one, and people were shown it");
    let (offered, gone) = (later(1000, "addTask"), later(1001, "gone"));
    assert_eq!((allows(&offered), allows(&gone)), (true, false));
    // The agent gets the offer later; the offer itself counts at once.
    let tools = stand.tools.clone();
    let offering = tokio::spawn(async move { tools.offer(session, vec![tool("gone")]).await });
    let changed = async {
        // Each request is checked once.
        for number in 1002.. {
            if !allows(&later(number, "addTask")) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(super::stand::PATIENCE, changed).await.unwrap();
    assert_eq!(
        (allows(&offered), allows(&gone)),
        (true, false),
        "the page's set has changed; these have not"
    );
    offering.abort();
    let other = Request { request: RequestId(u64::MAX), ..later(1, "gone") };
    assert!(allows(&other));
}
