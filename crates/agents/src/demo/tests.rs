//! Golden transcripts: recorded lines of both sides, and the expected reports.
//!
//! A line that begins with `>` was written by Portolan, `<` by the agent. Each transcript has its reports in a file
//! beside it; `INSTA_UPDATE=always cargo test -p portolan-agents` writes the reports again after a wanted change.

use std::{fmt::Write as _, fs, path::PathBuf, time::Duration};

use portolan_core::{
    ports::{Instruction, InstructionId, Order, Report},
    request::Ask,
};
use portolan_wire::ndjson::{Line, Splitter};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    translate::Translate,
    wire::{Hello, ToAgent},
};
use crate::driver::{Output, Translator as _};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/transcripts"))
}

fn transcript(name: &str) -> String {
    fs::read_to_string(folder().join(format!("{name}.ndjson"))).unwrap()
}

/// The instruction that makes Portolan write this message; none for the first, which it writes by itself.
fn instruction(message: &ToAgent) -> Option<Instruction> {
    let (id, order) = match message.clone() {
        ToAgent::Hello(_) | ToAgent::Bye {} => return None,
        ToAgent::Prompt { id, content } => (id, Order::Prompt { content }),
        ToAgent::Steer { id, content } => (id, Order::Steer { content }),
        ToAgent::Answer { id, key, answer } => {
            let ask = Box::new(Ask::Other { name: String::new(), body: Value::Null });
            (id, Order::Answer { key, ask, answer })
        }
        ToAgent::Interrupt { id } => (id, Order::Interrupt),
        ToAgent::SetModel { id, model } => (id, Order::SetModel(model)),
        ToAgent::SetMode { id, mode } => (id, Order::SetMode(mode)),
        ToAgent::SetThinking { id, tokens } => (id, Order::SetThinking(tokens)),
        ToAgent::SetEnvironment { id, variables } => (id, Order::SetEnvironment(variables)),
        ToAgent::Rewind { id, prompt, dry_run } => {
            (id, Order::Rewind { prompt: InstructionId(prompt), dry_run })
        }
        ToAgent::McpStatus { id } => (id, Order::McpStatus),
        ToAgent::McpReconnect { id, server } => (id, Order::McpReconnect(server)),
        ToAgent::McpToggle { id, server, enabled } => (id, Order::McpToggle { server, enabled }),
        ToAgent::McpSet { id, servers } => (id, Order::McpSet(servers)),
        ToAgent::McpMessage { id, server, message } => (id, Order::McpMessage { server, message }),
        ToAgent::Context { id } => (id, Order::Context),
        ToAgent::StopTask { id, task } => (id, Order::StopTask(task)),
        ToAgent::Native { id, body } => (id, Order::Native(body)),
    };
    Some(Instruction { id: InstructionId(id), order })
}

fn translator(transcript: &str) -> Translate {
    let first = transcript.lines().next().and_then(|line| line.strip_prefix("> ")).unwrap();
    let ToAgent::Hello(hello) = serde_json::from_str(first).unwrap() else {
        panic!("it begins with `hello`")
    };
    let hello: Hello = *hello;
    Translate::new(hello, Duration::from_secs(30))
}

/// Plays a transcript: Portolan must write the recorded lines; returns its reports.
fn play(transcript: &str) -> Vec<Report> {
    let mut translate = translator(transcript);
    let mut reports = vec![];
    for line in transcript.lines() {
        let mut out = Output::default();
        if let Some(written) = line.strip_prefix("> ") {
            match instruction(&serde_json::from_str(written).unwrap()) {
                Some(instruction) => translate.instruct(instruction, &mut out),
                None => translate.start(&mut out),
            }
            let now: Vec<_> =
                out.writes.iter().map(|write| String::from_utf8_lossy(write.outbound.bytes())).collect();
            assert_eq!(now, [format!("{written}\n")]);
        } else if let Some(said) = line.strip_prefix("< ") {
            translate.line(said, &mut out);
        } else {
            panic!("a line begins with `> ` or `< `: {line}");
        }
        reports.append(&mut out.reports);
    }
    reports
}

#[test]
fn recorded_lines_give_the_recorded_reports() {
    let mut names: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".ndjson").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        let reports = play(&transcript(&name)).iter().fold(String::new(), |mut text, report| {
            writeln!(text, "{report:?}").unwrap();
            text
        });
        insta::with_settings!({ snapshot_path => folder(), prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name.as_str(), reports);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_cut_of_the_bytes_gives_the_same_reports(cuts in proptest::collection::vec(1_usize..200, 1..100)) {
        let transcript = transcript("strange") + &transcript("thinking");
        let said: Vec<&str> = transcript.lines().filter_map(|line| line.strip_prefix("< ")).collect();
        let bytes = said.join("\n").into_bytes();
        let reports = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (mut translate, mut splitter, mut out) = (translator(&transcript), Splitter::default(), Output::default());
            for piece in pieces {
                splitter.push(piece);
                while let Some(Line::Text(line)) = splitter.next_line() {
                    translate.line(line, &mut out);
                }
            }
            if let Some(Line::Text(line)) = splitter.finish() {
                translate.line(line, &mut out);
            }
            out.reports
        };
        let mut rest = bytes.as_slice();
        let mut pieces = cuts.iter().cycle().map_while(|cut| {
            let (piece, after) = rest.split_at_checked(*cut).unwrap_or((rest, &[]));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(reports(&mut pieces), reports(&mut std::iter::once(bytes.as_slice())));
    }

    #[test]
    fn any_line_is_taken(line in ".{0,80}") {
        let mut out = Output::default();
        translator(&transcript("strange")).line(&line, &mut out);
        prop_assert_eq!(out.reports.len(), 1, "whatever it is, it is kept");
    }
}
