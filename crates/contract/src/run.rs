//! Runs scenarios: a few at once, each in its own environment, with a time limit. Nothing hangs, whatever the agent
//! does, and nothing is left behind.

use std::{sync::Arc, time::Instant};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{Bench, Fault, Finding, Model, Scenario, Subject, Verdict, transcript::Transcript};

/// Runs scenarios, `at_once` at a time, and returns the findings in the given order. Calls `told` for each as it ends.
/// Scenarios with an unreachable model start first: their agents try for a long time while other scenarios work.
pub async fn run(
    subject: &Arc<Subject>,
    scenarios: &[&'static Scenario],
    at_once: usize,
    mut told: impl FnMut(&Finding),
) -> Vec<Finding> {
    let places = Arc::new(Semaphore::new(at_once.max(1)));
    let mut running = JoinSet::new();
    let (waiting, working): (Vec<_>, Vec<_>) =
        scenarios.iter().copied().partition(|scenario| scenario.model == Model::Unreachable);
    for scenario in waiting.into_iter().chain(working) {
        let (places, subject) = (Arc::clone(&places), Arc::clone(subject));
        running.spawn(async move {
            // The semaphore is never closed; should it be, all run at once.
            let _place = places.acquire_owned().await.ok();
            one(subject, scenario).await
        });
    }
    let mut findings = Vec::new();
    while let Some(finding) = running.join_next().await {
        // A panic of a scenario is caught where it runs; any other error here is a bug of the suite.
        if let Ok(finding) = finding {
            told(&finding);
            findings.push(finding);
        }
    }
    let place = |finding: &Finding| scenarios.iter().position(|it| it.name == finding.scenario.name);
    findings.sort_by_key(place);
    findings
}

/// Runs one scenario.
pub async fn one(subject: Arc<Subject>, scenario: &'static Scenario) -> Finding {
    let (began, transcript) = (Instant::now(), Transcript::default());
    let verdict = match tried(subject, scenario, transcript.clone()).await {
        Ok(()) => Verdict::Works,
        Err(Fault::NotOffered(why)) => Verdict::NotOffered { why },
        Err(Fault::NotTested(why)) => Verdict::NotTested { why },
        Err(Fault::Wrong(why)) => Verdict::Fails { why },
    };
    let unknown = transcript.unknown();
    let transcript = if matches!(verdict, Verdict::Fails { .. }) { transcript.take() } else { Vec::new() };
    Finding { scenario, verdict, took: began.elapsed(), unknown, transcript }
}

async fn tried(
    subject: Arc<Subject>,
    scenario: &'static Scenario,
    transcript: Transcript,
) -> Result<(), Fault> {
    let bench = Arc::new(Bench::set_up(subject, scenario.model, transcript.clone()).await?);
    let offered = (scenario.offered)(bench.profile(), &bench.capabilities());
    let is_untested = bench.profile().untested.contains(&scenario.name);
    let played = match offered {
        Err(untried) if is_untested => Err(Fault::NotTested(untried.into())),
        Err(lacks) => Err(Fault::NotOffered(lacks.into())),
        Ok(()) => play(Arc::clone(&bench), scenario).await,
    };
    let Some(bench) = Arc::into_inner(bench) else {
        return Err(Fault::wrong("the scenario still holds its bench"));
    };
    let closed = bench.close().await;
    // The first fault is the one that explains the others.
    played.and(closed)?;
    match transcript.breaches().as_slice() {
        [] => Ok(()),
        [first, others @ ..] => Err(Fault::wrong(format!("{first} (and {} more breaches)", others.len()))),
    }
}

/// Plays the scenario in its own task, so that a panic is a finding too and ends no other scenario.
async fn play(bench: Arc<Bench>, scenario: &'static Scenario) -> Result<(), Fault> {
    let mut playing = tokio::spawn(async move { (scenario.play)(&bench).await });
    match tokio::time::timeout(scenario.limit, &mut playing).await {
        Ok(Ok(played)) => played,
        Ok(Err(error)) => Err(Fault::wrong(format!("the scenario was cut off: {error}"))),
        Err(_) => {
            playing.abort();
            // Aborted or done: either way it no longer holds the bench.
            let _ = playing.await;
            Err(Fault::wrong(format!("the scenario took longer than {} s", scenario.limit.as_secs())))
        }
    }
}
