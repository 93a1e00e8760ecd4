//! The life of a conversation: resumed, forked, and the state after a kill.

use std::{sync::Arc, time::Duration};

use portolan_core::{
    Action, CommandId, Event, SessionId, SessionSpec,
    event::{Content, ErrorKind, ExitReason, Level, TurnOutcome, plain_text},
    request::Outcome,
    spec::ForkPoint,
};
use portolan_scripted::{Matcher, Script, contains, conversation_contains, text, tools};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::{
    Bench, Fault,
    bench::{open, owner},
    fault::must,
    session::Session,
};

/// How long a daemon may take to end: its threads end between two of their steps.
const GONE: Duration = Duration::from_secs(30);

/// If an agent forgets, the session must at least show it.
pub const FORGOTTEN_ALOUD: &str = "and the session shows that the agent has forgotten";

/// "first words" and then "second words", in the same conversation.
fn remembers() -> Matcher {
    conversation_contains("first words").and_contains("second words")
}

fn memory() -> Script {
    Script::new()
        .on(remembers())
        .reply(text("I remember."))
        .on(contains("second words"))
        .reply(text("I remember nothing."))
        .on(contains("first words"))
        .reply(text("I will remember."))
}

/// The agent's own id of the conversation.
async fn own_session(session: &Session) -> Result<String, Fault> {
    let own = session.state().await?.summary.agent_session;
    own.ok_or_else(|| Fault::wrong("the agent's own session id is not known"))
}

/// The agent's process, if it has a separate one.
async fn process(session: &Session) -> Result<Option<Pid>, Fault> {
    let pid = session.state().await?.pid;
    Ok(pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw))
}

async fn exited(session: &mut Session) -> Result<portolan_core::event::Exit, Fault> {
    session
        .until("the end of the agent", |event| match event {
            Event::AgentExited { exit, .. } => Some(exit.clone()),
            _ => None,
        })
        .await
}

pub(super) async fn resume(bench: &Bench) -> Result<(), Fault> {
    bench.play(memory());
    let mut session = bench.session_saying("first words").await?;
    session.completes().await?;
    let before = session.state().await?.summary.agent_session;
    bench.saved(&own_session(&session).await?, "I will remember.").await?;
    session.submit(Action::Stop).await?;
    let exit = exited(&mut session).await?;
    must!(exit.reason == ExitReason::Stopped, "the agent ended as {:?}: {}", exit.reason, exit.message);
    session.may_take_long();
    let said = session.exchange("second words").await?;
    must!(said == "I remember.", "after the resume the agent says {said:?}");
    let after = session.state().await?.summary.agent_session;
    must!(before == after, "the agent's own session changed from {before:?} to {after:?}");
    Ok(())
}

pub(super) async fn resume_twice(bench: &Bench) -> Result<(), Fault> {
    let script = Script::new()
        .on(conversation_contains("first words").and_contains("third words"))
        .reply(text("I remember all."))
        .on(contains("third words"))
        .reply(text("I remember nothing."));
    bench.play(Script { rules: script.rules.into_iter().chain(memory().rules).collect(), ..Script::new() });
    let mut session = bench.session_saying("first words").await?;
    session.completes().await?;
    bench.saved(&own_session(&session).await?, "I will remember.").await?;
    session.submit(Action::Stop).await?;
    exited(&mut session).await?;
    session.may_take_long();
    let said = session.exchange("second words").await?;
    bench.saved(&own_session(&session).await?, &said).await?;
    session.submit(Action::Stop).await?;
    exited(&mut session).await?;
    let said_again = session.exchange("third words").await?;
    if said == "I remember." && said_again == "I remember all." {
        return Ok(());
    }
    let told = session.seen().any(|event| matches!(event, Event::ConversationReset { .. }));
    let aloud = if told { FORGOTTEN_ALOUD } else { "and nothing shows that the agent has forgotten" };
    Err(Fault::wrong(format!("the agent says {said:?}, then {said_again:?}, {aloud}")))
}

pub(super) async fn cleared(bench: &Bench) -> Result<(), Fault> {
    let Some(command) = bench.profile().clear else { return Ok(()) };
    let script = Script::new()
        .on(conversation_contains("first words").and_contains("third words"))
        .reply(text("I remember too much."))
        .on(conversation_contains("second words").and_contains("third words"))
        .reply(text("I remember what I should."));
    bench.play(Script { rules: script.rules.into_iter().chain(memory().rules).collect(), ..Script::new() });
    let mut session = bench.session_saying("first words").await?;
    session.completes().await?;
    session.prompt(command).await?;
    session.turn_end().await?;
    if !session.seen().any(|event| matches!(event, Event::ConversationReset { .. })) {
        let warned = session.seen().any(|event| matches!(event, Event::Notice { level: Level::Warning, .. }));
        must!(warned, "the session does not show whether the conversation is cleared");
        return Err(Fault::NotOffered("a command that forgets: the agent keeps all that was said".into()));
    }
    let said = session.exchange("second words").await?;
    // The new conversation must be the one that is resumed.
    bench.saved(&own_session(&session).await?, &said).await?;
    session.submit(Action::Stop).await?;
    exited(&mut session).await?;
    let resumed = session.exchange("third words").await?;
    must!(
        said == "I remember nothing." && resumed == "I remember what I should.",
        "after the clear the agent says {said:?}, and after the resume {resumed:?}"
    );
    Ok(())
}

pub(super) async fn fork(bench: &Bench) -> Result<(), Fault> {
    let script = Script::new()
        .on(conversation_contains("second words").and_contains("third words"))
        .reply(text("I know of the fork."))
        .on(conversation_contains("first words").and_contains("third words"))
        .reply(text("I know nothing of a fork."));
    let memory = memory();
    bench.play(Script { rules: script.rules.into_iter().chain(memory.rules).collect(), ..Script::new() });
    let mut source = bench.session_saying("first words").await?;
    source.completes().await?;
    let spec = SessionSpec {
        fork: Some(ForkPoint { session: source.id(), at: None }),
        prompt: vec![Content::text("second words")],
        ..bench.spec()
    };
    let mut fork = bench.session_from(spec).await?;
    // The fork's log begins with the part that it shares with its source.
    fork.completes().await?;
    let said = fork.completes().await?;
    must!(said == "I remember.", "the fork says {said:?}");
    let said = source.exchange("third words").await?;
    must!(said == "I know nothing of a fork.", "the source says {said:?}");
    let own = |session: &Session| {
        let ids = session.seen().filter_map(|event| match event {
            Event::AgentInfo { info } => info.agent_session.clone(),
            _ => None,
        });
        ids.last()
    };
    must!(own(&source) != own(&fork), "the fork goes on in its source's own conversation");
    Ok(())
}

pub(super) async fn fork_at(bench: &Bench) -> Result<(), Fault> {
    let script = Script::new()
        .on(conversation_contains("forget this").and_contains("third words"))
        .reply(text("I know too much."))
        .on(conversation_contains("first words").and_contains("third words"))
        .reply(text("I know what I should."))
        .on(contains("forget this"))
        .reply(text("It will be forgotten."));
    bench.play(Script { rules: script.rules.into_iter().chain(memory().rules).collect(), ..Script::new() });
    let mut source = bench.session_saying("first words").await?;
    source.completes().await?;
    let at = source.newest();
    source.exchange("forget this").await?;
    let spec = SessionSpec {
        fork: Some(ForkPoint { session: source.id(), at: Some(at) }),
        prompt: vec![Content::text("third words")],
        ..bench.spec()
    };
    let mut fork = bench.session_from(spec).await?;
    // The fork's log begins with the part that it shares with its source.
    fork.completes().await?;
    let said = fork.completes().await?;
    must!(said == "I know what I should.", "the fork says {said:?}");
    Ok(())
}

pub(super) async fn agent_killed(bench: &Bench) -> Result<(), Fault> {
    let silent = text("These words come, and then nothing more does.").stall();
    let script = Script::new().on(contains("be silent")).reply(silent);
    bench.play(Script { rules: script.rules.into_iter().chain(memory().rules).collect(), ..Script::new() });
    let mut session = bench.session_saying("first words").await?;
    session.completes().await?;
    bench.saved(&own_session(&session).await?, "I will remember.").await?;
    session.prompt("now be silent").await?;
    session.at_work().await?;
    let Some(pid) = process(&session).await? else {
        return Err(Fault::NotOffered("a process of its own".into()));
    };
    kill_process(pid, Signal::KILL)
        .map_err(|error| Fault::wrong(format!("cannot kill the agent: {error}")))?;
    let result = session.turn_end().await?;
    let kind = result.error.map(|error| error.kind);
    must!(
        result.outcome == TurnOutcome::Failed && kind == Some(ErrorKind::Agent),
        "the turn ended as {:?} with {kind:?}",
        result.outcome
    );
    if bench.capabilities().streaming {
        must!(session.kept("These words"), "the text before the kill is not kept, or not marked as cut off");
    }
    let exit = exited(&mut session).await?;
    must!(exit.reason == ExitReason::Failed, "the agent ended as {:?}", exit.reason);
    must!(exit.signal == Some(9), "the reported signal is {:?}", exit.signal);
    session.may_take_long();
    session.ready().await?;
    let said = session.exchange("second words").await?;
    must!(said == "I remember.", "after the restart the agent says {said:?}");
    Ok(())
}

pub(super) async fn killed_early(bench: &Bench) -> Result<(), Fault> {
    let silent = text("These words come, and then nothing more does.").stall();
    let script = Script::new().on(contains("be silent")).reply(silent);
    bench.play(script.on(contains("second words")).reply(text("Here again.")));
    let mut session = bench.session_saying("now be silent").await?;
    session.at_work().await?;
    let Some(pid) = process(&session).await? else {
        return Err(Fault::NotOffered("a process of its own".into()));
    };
    kill_process(pid, Signal::KILL)
        .map_err(|error| Fault::wrong(format!("cannot kill the agent: {error}")))?;
    exited(&mut session).await?;
    session.may_take_long();
    // It may be started again by itself or by the prompt: the session must not stay down.
    let said = session.exchange("second words").await?;
    must!(said == "Here again.", "after the restart the agent says {said:?}");
    Ok(())
}

/// The daemon here is a registry with its own runtime, which is dropped in the middle of its work: no task of it takes
/// another step. (Tests with the real program show what the system does for a killed process.)
pub(super) async fn daemon_killed(bench: &Bench) -> Result<(), Fault> {
    let asks = Script::new()
        .on(contains("ask first"))
        .reply(tools([(bench.profile().shell)("touch asked.txt")]))
        .then(text("Done."));
    bench.play(Script { rules: asks.rules.into_iter().chain(memory().rules).collect(), ..Script::new() });
    let session = killed_while_it_asks(bench).await?;
    // As a daemon does when it starts: nothing of the previous daemon may go on.
    let (leftovers, key) = (bench.subject.leftovers, bench.key().to_owned());
    let swept = tokio::task::spawn_blocking(move || leftovers(&key)).await;
    must!(swept.is_ok(), "the sweep panicked");

    let mut session = Session::join(bench.registry().await?, session, bench.transcript.clone()).await?;
    let outcome = session
        .until("the end of the request", |event| match event {
            Event::RequestClosed { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .await?;
    must!(matches!(outcome, Outcome::AgentGone { .. }), "the request ended as {outcome:?}");
    let exit = exited(&mut session).await?;
    must!(exit.reason == ExitReason::DaemonGone, "the agent's end is shown as {:?}", exit.reason);
    let cut_off = session.seen().any(|event| match event {
        Event::TurnEnded { turn: 2, result } => result.outcome == TurnOutcome::Interrupted,
        _ => false,
    });
    must!(cut_off, "the turn that was cut off did not end as interrupted");
    session.may_take_long();
    session.prompt("second words").await?;
    let mut said = String::new();
    let result = session
        .until("the end of the turn after the restart", |event| match event {
            Event::Message { content, .. } => {
                said = plain_text(content);
                None
            }
            Event::TurnEnded { turn: 3, result } => Some(result.outcome),
            _ => None,
        })
        .await?;
    must!(result == TurnOutcome::Completed, "the turn after the restart ended as {result:?}");
    must!(said == "I remember.", "after the restart the agent says {said:?}");
    must!(!bench.has_file("asked.txt"), "the command that nobody allowed ran");
    Ok(())
}

/// A daemon lives until its session waits for a person, and is then killed. Returns the session.
async fn killed_while_it_asks(bench: &Bench) -> Result<SessionId, Fault> {
    let (store, agent) = (Arc::clone(&bench.store), Arc::clone(&bench.agent));
    let (spec, transcript) = (bench.spec(), bench.transcript.clone());
    let (tell, told) = oneshot::channel::<Result<(SessionId, String), Fault>>();
    let (kill, killed) = oneshot::channel::<()>();
    let life = async move {
        let registry = open(store, agent).await?;
        let spec = SessionSpec { prompt: vec![Content::text("first words")], ..spec };
        let summary = registry.create(&owner(), CommandId::random(), spec).await?;
        let mut session = Session::join(registry, summary.session, transcript).await?;
        session.completes().await?;
        session.prompt("ask first").await?;
        session.request().await?;
        let own = own_session(&session).await?;
        Ok::<(Session, String), Fault>((session, own))
    };
    let daemon = std::thread::Builder::new().name("daemon".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(error.into()))),
        };
        // Held until the runtime is gone: dropping a session ends its agent in order, which a kill does not.
        let held = runtime.block_on(async {
            let (held, found) = match life.await {
                Ok((session, own)) => {
                    let id = session.id();
                    (Some(session), Ok((id, own)))
                }
                Err(fault) => (None, Err(fault)),
            };
            let told = tell.send(found);
            // Killed, or the sender is gone: the end is the same.
            drop((told, killed.await));
            held
        });
        runtime.shutdown_timeout(GONE);
        drop(held);
    })?;
    let (session, own) = told.await.map_err(|_| Fault::wrong("the first daemon ended early"))??;
    bench.saved(&own, "I will remember.").await?;
    // An error means that it has ended by itself.
    let _ = kill.send(());
    must!(daemon.join().is_ok(), "the first daemon panicked");
    Ok(session)
}
