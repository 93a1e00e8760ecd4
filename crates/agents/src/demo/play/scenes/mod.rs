//! The scenes that the demo agent plays on request.

mod asking;
mod commands;
mod misbehave;
mod page;
pub(super) mod structured;
mod subagents;
mod talking;
mod tools;
mod tour;
mod trouble;

use portolan_core::event::Content;

use super::{
    script::{Scene, hurried},
    stage::{Played, Stage},
};

/// Plays a scene to its end.
pub(super) async fn play(stage: &Stage, scene: Scene, content: &[Content]) -> Played {
    let exact = matches!(scene, Scene::Say(_) | Scene::Repeat { .. } | Scene::Recite { .. });
    if !exact && hurried(content) {
        stage.hurry();
    }
    if !exact && stage.with(|inner| inner.model == "demo-thinker") {
        stage.think(None, "This model shows thinking first. Then it answers as the other models do.").await?;
    }
    match scene {
        Scene::Tour => tour::play(stage).await,
        Scene::Say(text) => stage.say(&text).await,
        Scene::Repeat { count, size, per_second } => talking::repeat(stage, count, size, per_second).await,
        Scene::Recite { count, per_second } => talking::recite(stage, count, per_second).await,
        Scene::Long(count) => talking::long(stage, count).await,
        Scene::Slow => talking::slow(stage).await,
        Scene::Talk => talking::talk(stage).await,
        Scene::Think => talking::think(stage).await,
        Scene::Image => talking::image(stage, content).await,
        Scene::Page(prompt) => page::play(stage, &prompt).await,
        Scene::Echo(text) if page::is_named(stage, &text) => page::play(stage, &text).await,
        Scene::Echo(text) => talking::echo(stage, &text).await,
        Scene::Tool => tools::list_folder(stage).await,
        Scene::Search => tools::search(stage).await,
        Scene::Edit => tools::edit(stage).await,
        Scene::Todo => tools::todo(stage).await,
        Scene::Background => tools::background(stage).await,
        Scene::TaskDone(task) => tools::task_done(stage, task).await,
        Scene::Two => subagents::two_requests(stage).await,
        Scene::Subagents => subagents::tree(stage).await,
        Scene::Question => asking::question(stage).await,
        Scene::Plan => asking::plan(stage).await,
        Scene::Elicit => asking::elicit(stage).await,
        Scene::Structured => structured::play(stage).await,
        Scene::Retry => trouble::retry(stage).await,
        Scene::Error => trouble::error(stage).await,
        Scene::Signals => trouble::signals(stage).await,
        Scene::Usage => commands::usage(stage).await,
        Scene::Help => commands::help(stage).await,
        Scene::Compact(keep) => commands::compact(stage, &keep).await,
        Scene::Clear => commands::clear(stage).await,
        Scene::Cost => commands::usage(stage).await,
        Scene::UnknownCommand(name) => commands::unknown(stage, &name).await,
        Scene::Hang => misbehave::hang(stage).await,
        Scene::Crash => misbehave::crash(stage),
        Scene::Leave(code) => misbehave::leave(stage, code),
        Scene::Flood(mebibytes) => misbehave::flood(stage, mebibytes).await,
        Scene::FloodLines(count) => misbehave::flood_lines(stage, count).await,
        Scene::Garbage => misbehave::garbage(stage).await,
        Scene::IgnoreTerm => misbehave::ignore_term(stage).await,
        Scene::Orphans => misbehave::orphans(stage).await,
    }
}
