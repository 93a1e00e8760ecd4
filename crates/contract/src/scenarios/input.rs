//! Other content and results of prompts: pictures, commands, a result of a certain form.

use portolan_core::{
    Action, SessionSpec,
    event::{Content, TurnOutcome},
};
use portolan_scripted::{Script, contains, text, tools};
use serde_json::json;

use crate::{Bench, Fault, fault::must};

/// A picture of one red point.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

pub(super) async fn image(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("look at this")).reply(text("I see {images} picture.")));
    let mut session = bench.session().await?;
    let picture = Content::Image { media_type: "image/png".into(), data: PICTURE.into() };
    session.submit(Action::Prompt { content: vec![Content::text("look at this"), picture] }).await?;
    let said = session.completes().await?;
    must!(said == "I see 1 picture.", "the model says {said:?}");
    Ok(())
}

pub(super) async fn slash_command(bench: &Bench) -> Result<(), Fault> {
    let Some(command) = bench.profile().slash else { return Ok(()) };
    bench.play(Script::new().on(contains("are you there")).reply(text("Still here.")));
    let mut session = bench.session().await?;
    session.ready().await?;
    session.prompt(command).await?;
    let said = session.completes().await?;
    must!(!said.is_empty(), "the command said nothing");
    let said = session.exchange("are you there").await?;
    must!(said == "Still here.", "the next turn said {said:?}");
    let known = session.state().await?.agent.commands.unwrap_or_default();
    must!(!known.is_empty(), "the agent's commands are not listed");
    Ok(())
}

/// The schema of the result.
fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": { "fathoms": { "type": "integer" } },
        "required": ["fathoms"],
        "additionalProperties": false,
    })
}

/// More often than any agent tries again.
const TRIES: usize = 30;

pub(super) async fn structured_output_fails(bench: &Bench) -> Result<(), Fault> {
    let Some(structured) = bench.profile().structured else { return Ok(()) };
    let wrong = || tools([structured(json!({ "fathoms": "very" }))]);
    let script = Script::new().on(contains("how deep")).reply(wrong());
    bench.play((0..TRIES).fold(script, |script, _| script.then(wrong())));
    let prompt = vec![Content::text("how deep is it")];
    let mut session =
        bench.session_from(SessionSpec { json_schema: Some(schema()), prompt, ..bench.spec() }).await?;
    let result = session.turn_end().await?;
    must!(
        result.outcome == TurnOutcome::StructuredOutputFailed,
        "the turn ended as {:?}: {:?}",
        result.outcome,
        result.error
    );
    must!(result.structured.is_none(), "there is a result: {:?}", result.structured);
    Ok(())
}

pub(super) async fn structured_output(bench: &Bench) -> Result<(), Fault> {
    let Some(structured) = bench.profile().structured else { return Ok(()) };
    let script = Script::new()
        .on(contains("how deep"))
        .reply(tools([structured(json!({ "fathoms": 6 }))]))
        .then(text("Six."));
    bench.play(script);
    let prompt = vec![Content::text("how deep is it")];
    let mut session =
        bench.session_from(SessionSpec { json_schema: Some(schema()), prompt, ..bench.spec() }).await?;
    let result = session.turn_end().await?;
    must!(
        result.outcome == TurnOutcome::Completed,
        "the turn ended as {:?}: {:?}",
        result.outcome,
        result.error
    );
    must!(
        result.structured == Some(json!({ "fathoms": 6 })),
        "the structured result is {:?}",
        result.structured
    );
    Ok(())
}
