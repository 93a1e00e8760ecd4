//! What must hold for any output of an agent: the body of a fuzz target in fuzz/, and of a test that plays hostile
//! lines.

use std::time::Duration;

use portolan_core::{
    Generation,
    event::Content,
    ports::{Instruction, InstructionId, Order},
};

use super::{
    catalogue,
    translate::{CANCELLED_BY, OLD_ENOUGH, QUIET_SINCE, Setup, Translate},
};
use crate::{
    driver::{Output, Timer, Translator as _},
    hostile::Requests,
};

/// A new conversation.
pub(super) fn setup() -> Setup {
    Setup {
        generation: Generation(1),
        folder: "/harbour".into(),
        patience: Duration::from_secs(30),
        start_patience: Duration::from_mins(1),
        quiet: Duration::from_millis(500),
        ..Setup::bare("harbour", "Harbour", &catalogue::UNKNOWN)
    }
}

/// Plays the lines of the input to a translator twice. A line that begins with `>` is an order of Portolan.
pub fn lines(data: &[u8]) {
    let first = play(data);
    assert_eq!(first, play(data), "the same lines give the same result");
    super::past::tell(&String::from_utf8_lossy(data));
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
            Some("interrupt") => Some(Order::Interrupt),
            Some("model") => Some(Order::SetModel(Some("m".into()))),
            Some("mode") => Some(Order::SetMode("plan".into())),
            Some("timeout") => {
                translate.timeout(Timer(number as u64 % 8), &mut out);
                None
            }
            Some("quiet") => {
                translate.timeout(QUIET_SINCE, &mut out);
                None
            }
            Some("old enough") => {
                translate.timeout(OLD_ENOUGH, &mut out);
                None
            }
            Some("never") => {
                translate.timeout(CANCELLED_BY, &mut out);
                None
            }
            Some(rest) => rest.strip_prefix("answer ").and_then(|key| requests.deny(key)),
            None => {
                translate.line(line, &mut out);
                None
            }
        };
        if order == Some(Order::Interrupt) {
            requests.close_all();
        }
        if let Some(order) = order {
            translate.instruct(Instruction { id: instruction_id, order }, &mut out);
        }
        requests.check(&out);
        all.push(out);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn every_fuzzing_seed_and_finding_passes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/acp_lines");
        let mut seeds = 0;
        for file in fs::read_dir(folder).unwrap() {
            super::lines(&fs::read(file.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "seeds are missing");
    }
}
