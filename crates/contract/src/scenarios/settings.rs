//! Settings that change while a session runs.

use portolan_core::{
    Action, Event, SessionSpec,
    event::{Level, Setting, plain_text},
    request::Answer,
};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must, session::Session};

/// The mode is checked twice: some agents report it only when a turn begins.
pub(super) async fn first_mode(bench: &Bench) -> Result<(), Fault> {
    let Some((asking, _)) = bench.profile().modes else { return Ok(()) };
    bench.play(Script::new().on(contains("are you there")).reply(text("Here.")));
    let mut session = bench.session().await?;
    session.ready().await?;
    let first = session.state().await?.summary.mode;
    must!(first.as_deref() == Some(asking), "the session begins in the mode {first:?} and not in `{asking}`");
    session.exchange("are you there").await?;
    let mode = session.state().await?.summary.mode;
    must!(mode.as_deref() == Some(asking), "after a turn the mode is {mode:?} and not `{asking}`");
    Ok(())
}

pub(super) async fn mode(bench: &Bench) -> Result<(), Fault> {
    let Some((asking, editing)) = bench.profile().modes else { return Ok(()) };
    let write = |name: &str| tools([(bench.profile().write)(&bench.folder().join(name), "words\n")]);
    let script = Script::new()
        .on(contains("first file"))
        .reply(write("first.txt"))
        .then(text("First."))
        .on(contains("second file"))
        .reply(write("second.txt"))
        .then(text("Second."));
    bench.play(script);
    let mut session = bench.session().await?;
    session.ready().await?;
    session.carry_out(Action::SetMode { mode: editing.into() }).await?;
    let changed = |event: &Event| match event {
        Event::SettingChanged { setting: Setting::Mode { mode } } => Some(mode.clone()),
        _ => None,
    };
    let told = session.until("the change of the mode", changed).await?;
    must!(told == editing, "the reported mode is {told}");
    session.exchange("write the first file").await?;
    must!(bench.has_file("first.txt"), "the file was not written");
    let asked = session.seen().any(|event| matches!(event, Event::RequestOpened { .. }));
    must!(!asked, "the agent asked in the mode {editing}");
    session.carry_out(Action::SetMode { mode: asking.into() }).await?;
    session.prompt("write the second file").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    session.completes().await?;
    must!(bench.has_file("second.txt"), "the second file was not written");
    let mode = session.state().await?.summary.mode;
    must!(mode.as_deref() == Some(asking), "in the end the mode is {mode:?}");
    Ok(())
}

pub(super) async fn model(bench: &Bench) -> Result<(), Fault> {
    let other = bench.profile().other_model;
    let asked = bench.profile().other_model_asked.unwrap_or(other);
    bench.play(Script::new().on(contains("who are you")).reply(text("I am {model}.")));
    let mut session = bench.session().await?;
    let before = session.exchange("who are you").await?;
    must!(!before.contains(asked), "the other model is the default: {before}");
    session.carry_out(Action::SetModel { model: Some(other.into()) }).await?;
    let after = session.exchange("who are you").await?;
    must!(after.contains(asked), "after the change the model says {after:?}");
    let model = session.state().await?.summary.model;
    must!(model.as_deref() == Some(other), "the session's model is {model:?}");
    Ok(())
}

/// Not the default budget of any agent.
const BUDGET: u32 = 2345;

pub(super) async fn thinking_budget(bench: &Bench) -> Result<(), Fault> {
    let Some(thinking) = bench.profile().thinking_budget else { return Ok(()) };
    bench.play(Script::new().on(contains("think")).reply(text("I thought.")));
    // The budget of the request that was made for a prompt.
    let asked_with = |words: &str| {
        let requests = bench.model.requests();
        let own = requests.iter().find(|request| {
            request.prompt().contains(words) && request.asked.as_ref().is_some_and(|asked| !asked.is_aside())
        });
        own.and_then(|request| (thinking.asked)(&request.body))
    };
    let model = Some(thinking.model.to_owned());
    let mut session = bench.session_from(SessionSpec { model, ..bench.spec() }).await?;
    session.exchange("think as you like").await?;
    session.carry_out(Action::SetThinking { tokens: Some(BUDGET) }).await?;
    session.exchange("think a little").await?;
    let told = asked_with("think a little");
    must!(told == Some(u64::from(BUDGET)), "the model was asked to think with {told:?} tokens");
    session.carry_out(Action::SetThinking { tokens: None }).await?;
    session.exchange("think as before").await?;
    let (before, after) = (asked_with("think as you like"), asked_with("think as before"));
    must!(before == after, "the agent's own budget is {after:?} instead of {before:?}");
    Ok(())
}

pub(super) async fn environment(bench: &Bench) -> Result<(), Fault> {
    let look = || tools([(bench.profile().shell)("echo the harbour is ${CONTRACT_HARBOUR:-unknown}")]);
    let script = ["look now", "look again", "look once more"].iter().fold(Script::new(), |script, words| {
        script.on(contains(*words)).reply(look()).then(text("I see: {last_tool_result}"))
    });
    bench.play(script);
    let mut session = bench.session().await?;
    let said = looks(&mut session, "look now").await?;
    must!(said.contains("the harbour is unknown"), "at first the tool says {said:?}");
    let variables = [("CONTRACT_HARBOUR".to_owned(), "Genoa".to_owned())].into_iter().collect();
    let before = session.seen().count();
    session.carry_out(Action::SetEnvironment { variables }).await?;
    let said = looks(&mut session, "look again").await?;
    if said.contains("the harbour is Genoa") {
        return Ok(());
    }
    // Some agents take it only when they start. Then a notice must say so.
    let told = session.seen().skip(before).any(|event| match event {
        Event::Notice { level: Level::Warning, text } => text.contains("CONTRACT_HARBOUR"),
        _ => false,
    });
    must!(told, "after the change the tool says {said:?}, and no notice was shown");
    session.submit(Action::Stop).await?;
    session
        .until("the end of the agent", |event| matches!(event, Event::AgentExited { .. }).then_some(()))
        .await?;
    let said = looks(&mut session, "look once more").await?;
    must!(said.contains("the harbour is Genoa"), "after the restart the tool says {said:?}");
    Ok(())
}

/// Asks it to look, allows its request, and returns what it saw.
async fn looks(session: &mut Session, prompt: &str) -> Result<String, Fault> {
    session.prompt(prompt).await?;
    loop {
        // Some agents ask before they look, some do not.
        let next = session
            .until("a request or the end of the turn", |event| match event {
                Event::RequestOpened { request } => Some(Ok((**request).clone())),
                Event::Message { content, .. } if plain_text(content).starts_with("I see") => {
                    Some(Err(plain_text(content)))
                }
                _ => None,
            })
            .await?;
        match next {
            Ok(request) => {
                session.answer(&request, Answer::allow()).await?;
            }
            Err(said) => {
                session.turn_end().await?;
                return Ok(said);
            }
        }
    }
}
