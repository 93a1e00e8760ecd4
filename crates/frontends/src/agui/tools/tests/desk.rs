//! Calls that wait for a page, with a simulated clock.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;

use super::super::{
    Limits, PageResult,
    desk::{Desk, NoResult},
};

type Called = JoinHandle<Result<String, NoResult>>;

fn limits() -> Limits {
    Limits { result_bytes: 2048, ..Limits::default() }
}

/// Makes a call, and waits until the call waits.
async fn call(desk: &Arc<Desk>, id: &'static str) -> Called {
    let calling = Arc::clone(desk);
    let called = tokio::spawn(async move { calling.call(id, &limits()).await });
    let mut open = desk.open();
    open.wait_for(|calls| calls.iter().any(|call| call == id)).await.unwrap();
    called
}

fn result(id: &str, text: &str) -> [PageResult; 1] {
    [(id.to_owned(), Ok(text.to_owned()))]
}

// covers: 004-024
#[tokio::test(start_paused = true)]
async fn a_call_gets_the_result_with_its_id_wherever_it_stands_among_others() {
    let desk = Arc::new(Desk::default());
    let (one, two) = (call(&desk, "one").await, call(&desk, "two").await);
    assert_eq!(*desk.open().borrow(), ["one", "two"]);
    let all = [("old", "x"), ("two", "second"), ("older", "y")]
        .map(|(id, text)| (id.to_owned(), Ok(text.to_owned())));
    assert_eq!(desk.results(all, &limits()), 1);
    assert_eq!(two.await.unwrap(), Ok("second".into()));
    assert_eq!(*desk.open().borrow(), ["one"]);
    assert_eq!(desk.results(result("one", "first"), &limits()), 1);
    assert_eq!(one.await.unwrap(), Ok("first".into()));
    assert!(!desk.is_busy());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_first_is_kept_for_its_call_and_used_once() {
    let desk = Arc::new(Desk::default());
    assert_eq!(desk.results(result("one", "early"), &limits()), 0);
    assert_eq!(desk.call("one", &limits()).await, Ok("early".into()));
    // The page sends its whole thread with every run.
    assert_eq!(desk.results(result("one", "early"), &limits()), 0);
    let again = call(&desk, "one").await;
    assert_eq!(desk.results(result("one", "anew"), &limits()), 1);
    assert_eq!(again.await.unwrap(), Ok("anew".into()));
}

// covers: 004-032
#[tokio::test(start_paused = true)]
async fn a_call_fails_after_a_limited_time_without_a_page_or_without_an_answer() {
    let desk = Arc::new(Desk::default());
    let began = tokio::time::Instant::now();
    let alone = call(&desk, "alone").await;
    let error = alone.await.unwrap().unwrap_err();
    assert_eq!((error.clone(), began.elapsed()), (NoResult::NoPage(limits().page), limits().page));
    assert!(error.to_string().starts_with("no page took the call within 30 s"), "{error}");

    let began = tokio::time::Instant::now();
    let taken = call(&desk, "taken").await;
    desk.handed_over(&["taken".into(), "unknown".into()]);
    assert!(desk.open().borrow().is_empty(), "a page has it");
    let error = taken.await.unwrap().unwrap_err();
    assert_eq!(error, NoResult::NoAnswer(limits().answer));
    assert!(began.elapsed() >= limits().answer);
    assert_eq!(desk.results(result("taken", "too late"), &limits()), 0, "nobody waits for it any more");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_page_shows_waits_as_long_as_for_an_answer_and_a_run_may_take_it_over() {
    let desk = Arc::new(Desk::default());
    assert!(!desk.shown(), "nothing waits");
    let began = tokio::time::Instant::now();
    let waits = call(&desk, "one").await;
    assert!(desk.shown());
    assert_eq!(*desk.open().borrow(), ["one"]);
    desk.handed_over(&["one".into()]);
    assert!(desk.open().borrow().is_empty());
    assert!(desk.shown(), "it still waits, and stays whose it is");
    assert!(desk.open().borrow().is_empty());
    assert_eq!(waits.await.unwrap(), Err(NoResult::NoAnswer(limits().answer)));
    assert!(began.elapsed() >= limits().answer);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_long_is_an_error_even_if_it_comes_before_its_call() {
    let desk = Arc::new(Desk::default());
    let long = "x".repeat(2049);
    let waits = call(&desk, "waits").await;
    assert_eq!(desk.results(result("waits", &long), &limits()), 1);
    assert_eq!(waits.await.unwrap(), Err(NoResult::TooLong(2)));
    desk.results(result("early", &long), &limits());
    assert_eq!(desk.call("early", &limits()).await, Err(NoResult::TooLong(2)));
}

#[tokio::test(start_paused = true)]
async fn a_new_message_or_the_end_of_the_turn_ends_waiting_calls() {
    let desk = Arc::new(Desk::default());
    let overtaken = call(&desk, "one").await;
    desk.give_up(NoResult::Overtaken);
    assert_eq!(overtaken.await.unwrap(), Err(NoResult::Overtaken));
    desk.results(result("early", "x"), &limits());
    let ended = call(&desk, "two").await;
    desk.give_up(NoResult::TurnEnded);
    assert_eq!(ended.await.unwrap(), Err(NoResult::TurnEnded));
    let later = call(&desk, "early").await;
    assert!(!later.is_finished(), "what came in an earlier turn is forgotten");
    later.abort();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_stops_waiting_and_may_be_made_again() {
    let desk = Arc::new(Desk::default());
    let cut = call(&desk, "one").await;
    cut.abort();
    assert!(cut.await.unwrap_err().is_cancelled());
    assert!(!desk.is_busy());
    let first = call(&desk, "one").await;
    let calling = Arc::clone(&desk);
    let second = tokio::spawn(async move { calling.call("one", &limits()).await });
    assert_eq!(first.await.unwrap(), Err(NoResult::Again));
    assert_eq!(desk.results(result("one", "done"), &limits()), 1);
    assert_eq!(second.await.unwrap(), Ok("done".into()));
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_and_early_results_have_limits() {
    let desk = Arc::new(Desk::default());
    let mut calls = Vec::new();
    for n in 0..32 {
        calls.push(call(&desk, Box::leak(format!("call {n}").into_boxed_str())).await);
    }
    assert_eq!(desk.call("one more", &limits()).await, Err(NoResult::TooMany));
    for n in 0..40 {
        desk.results(result(&format!("early {n}"), "x"), &limits());
    }
    desk.give_up(NoResult::Overtaken);
    let oldest = tokio::time::timeout(Duration::from_millis(1), desk.call("early 7", &limits())).await;
    assert!(oldest.is_err(), "the oldest had to go");
    assert_eq!(desk.call("early 8", &limits()).await, Ok("x".into()));
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(NoResult::Overtaken));
    }
}
