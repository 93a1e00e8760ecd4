//! Settings that change while a session runs.

use portolan_core::{Action, Event, event::Setting, request::Answer};
use portolan_scripted::{Script, contains, text, tools};

use crate::{Bench, Fault, fault::must};

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
    must!(told == editing, "the mode told is {told}");
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
    bench.play(Script::new().on(contains("who are you")).reply(text("I am {model}.")));
    let mut session = bench.session().await?;
    let before = session.exchange("who are you").await?;
    must!(!before.contains(other), "the other model is the default: {before}");
    session.carry_out(Action::SetModel { model: Some(other.into()) }).await?;
    let after = session.exchange("who are you").await?;
    must!(after.contains(other), "after the change the model says {after:?}");
    let model = session.state().await?.summary.model;
    must!(model.as_deref() == Some(other), "the session's model is {model:?}");
    Ok(())
}
