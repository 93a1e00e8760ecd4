//! What must hold for any output of Codex: the body of a fuzz target in fuzz/, and of a test that plays hostile lines.

use std::time::Duration;

use portolan_core::{
    Generation, SessionId,
    event::Content,
    ports::{Instruction, InstructionId, Order, Report},
};
use serde_json::json;

use super::translate::{Begin, Setup, Translate};
use crate::{
    driver::{Output, Timer, Translator as _},
    prices::Prices,
};

/// A new conversation.
pub(super) fn setup() -> Setup {
    Setup {
        session: SessionId::from_u128(7),
        generation: Generation(1),
        begin: Begin::Start,
        thread: json!({ "cwd": "/harbour" }),
        model: None,
        mode: None,
        name: None,
        extra: vec![],
        schema: None,
        prices: Prices::default(),
        patience: Duration::from_secs(30),
    }
}

/// Plays the lines of the input to a translator twice. A line that begins with `>` is an order of Portolan.
pub fn lines(data: &[u8]) {
    let first = play(data);
    assert_eq!(first, play(data), "the same lines give the same result");
}

fn play(data: &[u8]) -> Vec<Output> {
    let mut translate = Translate::new(setup());
    let mut all = vec![];
    let mut asks = std::collections::HashMap::new();
    let mut out = Output::default();
    translate.start(&mut out);
    all.push(out);
    for (number, line) in String::from_utf8_lossy(data).lines().enumerate() {
        let mut out = Output::default();
        let instruction_id = InstructionId(number as u64 + 1);
        let order = match line.strip_prefix('>') {
            Some("prompt") => Some(Order::Prompt { content: vec![Content::text("words")] }),
            Some("compact") => Some(Order::Prompt { content: vec![Content::text("/compact")] }),
            Some("steer") => Some(Order::Steer { content: vec![Content::text("more words")] }),
            Some("interrupt") => Some(Order::Interrupt),
            Some("model") => Some(Order::SetModel(Some("m:high".into()))),
            Some("mode") => Some(Order::SetMode("plan".into())),
            Some("timeout") => {
                translate.timeout(Timer(number as u64 % 8), &mut out);
                None
            }
            Some(rest) => rest.strip_prefix("answer ").and_then(|key| {
                let ask: Box<portolan_core::request::Ask> = asks.remove(key)?;
                let answer = portolan_core::request::Answer::deny(Some("no".into()));
                Some(Order::Answer { key: key.to_owned(), ask, answer })
            }),
            None => {
                translate.line(line, &mut out);
                None
            }
        };
        if let Some(order) = order {
            translate.instruct(Instruction { id: instruction_id, order }, &mut out);
        }
        for report in &out.reports {
            if let Report::RequestOpened { key, ask, .. } = report {
                assert!(asks.insert(key.clone(), ask.clone()).is_none(), "a request is opened once");
            }
            if let Report::RequestWithdrawn { key } = report {
                assert!(asks.remove(key).is_some(), "only open requests are taken back");
            }
        }
        for write in &out.writes {
            let Some((b'\n', body)) = write.outbound.bytes().split_last() else {
                panic!("a message ends its line")
            };
            assert!(!body.contains(&b'\n'), "one message, one line");
            assert!(serde_json::from_slice::<serde_json::Value>(body).is_ok(), "every written line is JSON");
        }
        all.push(out);
    }
    all
}
