//! A turn: text, thinking, tokens.

use portolan_core::{
    Event,
    event::{Content, ItemKind, TurnOrigin, plain_text},
    session::state::Status,
    usage::TokenUsage,
};
use portolan_scripted::{Script, Usage, contains, text, thinking};

use crate::{Bench, Fault, fault::must, profile::CacheTold};

const WORDS: &str = "Hello from the script, in more than one piece.";

pub(super) async fn words_stream(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("greet me")).reply(text(WORDS).chunks_of(6)));
    let mut session = bench.session().await?;
    let prompt = session.prompt("please greet me").await?;
    let origin = session
        .until("the beginning of a turn", |event| match event {
            Event::TurnStarted { origin, .. } => Some(*origin),
            _ => None,
        })
        .await?;
    must!(origin == TurnOrigin::Prompt, "the turn began by itself, not by the prompt");
    let (item, content) = session
        .until("the finished message", |event| match event {
            Event::Message { item, content, parent: None, .. } => Some((item.clone(), content.clone())),
            _ => None,
        })
        .await?;
    must!(content == [Content::text(WORDS)], "the message is {content:?}");
    let result = session.turn_end().await?;
    must!(result.error.is_none(), "the turn ended with {:?}", result.error);
    session.settled(prompt).await?;
    let state = session.state().await?;
    must!(state.summary.status == Status::Idle, "the session is {:?} after the turn", state.summary.status);
    must!(state.summary.agent_session.is_some(), "the agent's own session id is not known");
    must!(state.items.is_empty(), "items are still open: {:?}", state.items);
    if !bench.capabilities().streaming {
        return Ok(());
    }
    let started = session.seen().any(
        |event| matches!(event, Event::ItemStarted { item: of, kind: ItemKind::Text, .. } if *of == item),
    );
    must!(started, "the message's item was never started");
    let deltas: Vec<&str> = session
        .seen()
        .filter_map(|event| match event {
            Event::Delta { item: of, text } if *of == item => Some(text.as_str()),
            _ => None,
        })
        .collect();
    must!(deltas.concat() == WORDS, "what streamed is {deltas:?}");
    Ok(())
}

pub(super) async fn thinking_shown(bench: &Bench) -> Result<(), Fault> {
    let step = thinking("First I think about it.").and(text("Then I say it."));
    bench.play(Script::new().on(contains("think first")).reply(step));
    let mut session = bench.session_saying("think first").await?;
    let mut thought = String::new();
    let said = session
        .until("the text after the thinking", |event| {
            let Event::Message { content, .. } = event else { return None };
            for piece in content {
                if let Content::Thinking { text } = piece {
                    thought.push_str(text);
                }
            }
            Some(plain_text(content)).filter(|text| !text.is_empty())
        })
        .await?;
    // Some agents put a heading before it.
    must!(thought.ends_with("First I think about it."), "the thinking shown is {thought:?}");
    must!(said == "Then I say it.", "the text is {said:?}");
    session.turn_end().await?;
    Ok(())
}

const USED: Usage = Usage { input: 1200, output: 340, cache_read: 5000, cache_creation: 60 };

pub(super) async fn tokens_told(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("count")).reply(text("Counted.").usage(USED)));
    let mut session = bench.session_saying("count yourself").await?;
    let result = session.turn_end().await?;
    let (input, cache_read, cache_creation) = match bench.profile().cache {
        CacheTold::Both => (1200, 5000, 60),
        CacheTold::Read => (1260, 5000, 0),
        CacheTold::Nothing => (6260, 0, 0),
    };
    let expected = TokenUsage { input, output: 340, cache_read, cache_creation };
    must!(result.usage == Some(expected), "the turn's tokens are {:?}", result.usage);
    let told = result.by_model.values().any(|share| share.usage.output >= 340);
    must!(told, "no model has a share of the tokens: {:?}", result.by_model);
    let state = session.state().await?;
    must!(state.usage == expected, "the session's tokens are {:?}", state.usage);
    if bench.profile().tells_context {
        // With the text just written, or without.
        let full = expected.context()..=expected.context() + expected.output;
        let told = state.context_used.is_some_and(|used| full.contains(&used));
        must!(told, "the context holds {:?}", state.context_used);
    }
    Ok(())
}

pub(super) async fn cost_told(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("count")).reply(text("Counted.").usage(USED)));
    let mut session = bench.session_saying("count what it costs").await?;
    let cost = session.turn_end().await?.cost_usd;
    must!(cost.is_some_and(|cost| cost > 0.0 && cost < 1.0), "the turn's cost is {cost:?}");
    let state = session.state().await?;
    must!(state.summary.cost_usd == cost, "the session's cost is {:?}", state.summary.cost_usd);
    must!(state.capabilities.cost_tracking, "the capabilities do not show that the agent reports the cost");
    Ok(())
}
