//! What must hold for any output of Codex: the body of a fuzz target in fuzz/, and of a test that plays hostile lines.

use std::time::Duration;

use portolan_core::{
    Generation, SessionId,
    event::Content,
    ports::{Instruction, InstructionId, Order},
};
use serde_json::json;

use super::translate::{Begin, Setup, Translate};
use crate::{
    driver::{Output, Timer, Translator as _},
    hostile::Requests,
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
    let mut requests = Requests::default();
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
            Some(rest) => rest.strip_prefix("answer ").and_then(|key| requests.deny(key)),
            None => {
                translate.line(line, &mut out);
                None
            }
        };
        if let Some(order) = order {
            translate.instruct(Instruction { id: instruction_id, order }, &mut out);
        }
        assert_eq!(requests.check(&out), 0, "only open requests are taken back");
        all.push(out);
    }
    all
}
