//! Scenes that only talk.

use std::time::Duration;

use portolan_core::event::{Content, ItemKind};

use super::{
    super::stage::{Played, Stage},
    commands::ASK_FOR,
};

/// A very long answer continues in a new item after this much text, as with real agents: each item ends in one line.
const ITEM: usize = 256 * 1024;

pub(super) async fn talk(stage: &Stage) -> Played {
    stage
        .say(
            "Hello. I am the demo agent: a script, not a mind. I need no account and no network, and I change nothing \
             on your machine.\n\nWhat you are reading streams word by word to every screen that watches this session. \
             Open the session on a second screen and you will see the same words there, from the first.",
        )
        .await
}

pub(super) async fn think(stage: &Stage) -> Played {
    let budget = stage.with(|inner| inner.thinking);
    stage
        .think(
            None,
            "The user wants to see thinking. A script does not think, but this is where thinking is shown.",
        )
        .await?;
    match budget {
        Some(0) => stage.say("My thinking budget is zero, so no thinking is shown.").await,
        Some(tokens) => {
            stage
                .say(&format!(
                    "That was thinking, within a budget of {tokens} tokens. Screens may fold it away."
                ))
                .await
        }
        None => stage.say("That was thinking: its own kind of item, so that screens may fold it away.").await,
    }
}

pub(super) async fn slow(stage: &Stage) -> Played {
    let item = stage.name();
    stage.begin(&item, ItemKind::Text, None);
    for count in 1..=600 {
        stage.more(&item, &format!("{count} "));
        stage.flush();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    stage.finish(&item);
    Ok(())
}

pub(super) async fn long(stage: &Stage, count: u32) -> Played {
    for number in 1..=count {
        let text = format!(
            "Message {number} of {count}. A long history is only a long log: scroll, search, come back to it."
        );
        stage.say_whole(&stage.name(), None, vec![Content::text(text)], false);
        if number % 64 == 0 {
            stage.pause(0).await;
        }
    }
    Ok(())
}

/// The same piece many times.
pub(super) async fn repeat(stage: &Stage, count: u64, size: usize, per_second: Option<u64>) -> Played {
    let piece = "x".repeat(size);
    pour(stage, std::iter::repeat_n(piece.as_str(), usize::try_from(count).unwrap_or(usize::MAX)), per_second)
        .await
}

/// A typical answer, to measure the cost of showing one.
const PASSAGE: &str = "## How a portolan is read\n\nA *portolan* names the harbours of a coast, **one after the other**, \
    with the course from each to the next. Nothing on it is drawn to scale but the coast itself; see `harbours.txt`.\n\n\
    1. Find the harbour that you lie in.\n2. Follow the line of the wind that you have.\n3. Count the hours.\n\n\
    ```rust\nfn hours(miles: f64, knots: f64) -> f64 {\n    miles / knots // with the wind behind you\n}\n```\n\n\
    | from | to | miles |\n|---|---|---|\n| Genoa | Majorca | 460 |\n| Majorca | Tunis | 350 |\n\n";

/// Markdown, repeated, as a model would write it.
pub(super) async fn recite(stage: &Stage, count: u64, per_second: Option<u64>) -> Played {
    let words = PASSAGE.split_inclusive(' ').cycle().take(usize::try_from(count).unwrap_or(usize::MAX));
    pour(stage, words, per_second).await
}

async fn pour<'a>(stage: &Stage, pieces: impl Iterator<Item = &'a str>, per_second: Option<u64>) -> Played {
    let mut item = stage.name();
    stage.begin(&item, ItemKind::Text, None);
    let mut clock = per_second.map(|rate| tokio::time::interval(Duration::from_nanos(1_000_000_000 / rate)));
    let mut length = 0;
    for (number, piece) in pieces.enumerate() {
        if let Some(clock) = &mut clock {
            clock.tick().await;
            stage.more(&item, piece);
            stage.flush();
        } else {
            stage.more(&item, piece);
            // It listens now and then, so that it can be interrupted.
            if number % 256 == 255 {
                tokio::task::yield_now().await;
            }
        }
        length += piece.len();
        if length >= ITEM {
            length = 0;
            stage.finish(&item);
            item = stage.name();
            stage.begin(&item, ItemKind::Text, None);
        }
    }
    stage.finish(&item);
    Ok(())
}

pub(super) async fn image(stage: &Stage, content: &[Content]) -> Played {
    let pictures = content.iter().filter_map(|piece| match piece {
        Content::Image { media_type, data } => Some((media_type.clone(), data.clone())),
        _ => None,
    });
    for (media_type, data) in pictures {
        let size = data.len() * 3 / 4;
        stage
            .say(&format!(
                "A picture: {media_type}, about {size} bytes. I cannot see, but I can hand it back:"
            ))
            .await?;
        stage.say_whole(&stage.name(), None, vec![Content::Image { media_type, data }], false);
    }
    Ok(())
}

pub(super) async fn echo(stage: &Stage, text: &str) -> Played {
    if text.is_empty() {
        return stage.say(&format!("The prompt was empty. {ASK_FOR}")).await;
    }
    let shown: String = text.chars().take(200).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    let system = stage.with(|inner| inner.spec.system_prompt.clone());
    let told = match system {
        Some(_) => " You also gave me a system prompt. A script can only mention it.",
        None => "",
    };
    stage
        .say(&format!(
            "You said: “{shown}{dots}”. I am only the demo, so I cannot do that.{told}\n\n{ASK_FOR}"
        ))
        .await
}
