//! Feeds every decoder with bytes that are almost right: the seeds of its fuzz target, with small changes. A fuzzer
//! finds more in more time (`cargo xtask soak`); this test is the same each time and takes seconds.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

use std::{fs, path::Path};

/// How many changed inputs each target gets.
const RUNS: usize = 1500;

/// The longest input, as for the fuzzer.
const LONGEST: usize = 16 * 1024;

/// Pseudorandom numbers that are the same each time: xorshift.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits")
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() % limit.max(1)
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length);
        start..(start + 1 + self.below(16)).min(length)
    }
}

/// Bytes that break parsers: ends of strings, of lines and of numbers, and bytes that are not text.
const SIGNS: &[u8] = b"\"\\{}[],:\n\r\0-9eE.\xff\xc3\xed ";

/// An input with one thing changed.
fn change(mut input: Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let length = input.len();
    match dice.below(6) {
        0 if length > 0 => input[dice.below(length)] = SIGNS[dice.below(SIGNS.len())],
        1 if length > 0 => input[dice.below(length)] ^= 1 << dice.below(8),
        2 => input.insert(dice.below(length + 1), SIGNS[dice.below(SIGNS.len())]),
        3 if length > 0 => drop(input.drain(dice.range(length))),
        4 if length > 0 => {
            let again = input[dice.range(length)].to_vec();
            let place = dice.below(length);
            input.splice(place..place, again);
        }
        _ => {
            let other = &seeds[dice.below(seeds.len())];
            input.truncate(dice.below(length + 1));
            input.extend_from_slice(&other[dice.below(other.len() + 1)..]);
        }
    }
    input.truncate(LONGEST);
    input
}

fn try_all(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("seeds").map(|file| file.expect("a seed").path()).collect();
    files.sort();
    let seeds: Vec<_> = files.iter().map(|file| fs::read(file).expect("a seed")).collect();
    assert!(!seeds.is_empty(), "`{name}` has no seeds");
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for run in 0..RUNS {
        let mut input = seeds[run % seeds.len()].clone();
        for _ in 0..=dice.below(4) {
            input = change(input, &seeds, &mut dice);
        }
        target(&input);
    }
}

macro_rules! decoders {
    ($($name:ident: $target:path),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                try_all(stringify!($name), $target);
            }
        )*

        /// The fuzz targets are the same as here.
        #[test]
        fn every_fuzz_target_is_tested_here() {
            let here = [$((stringify!($name), stringify!($target))),*];
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
            let files = fs::read_dir(&folder).expect("targets").map(|file| file.expect("a target").path());
            let mut count = 0;
            for file in files {
                let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
                let called = here.iter().find(|(known, _)| *known == name).map(|(_, target)| *target);
                let called = called.unwrap_or_else(|| panic!("`{name}` is not tested here"));
                let body = fs::read_to_string(&file).expect("a target");
                assert!(body.contains(&format!("{}(data)", called.replace(' ', ""))), "`{name}` calls something else: {body}");
                count += 1;
            }
            assert_eq!(count, here.len(), "a target is tested here that the fuzzer does not have");
        }
    };
}

decoders! {
    acp_lines: portolan_agents::acp::fuzz::lines,
    agui_request: portolan_frontends::agui::fuzz::request,
    claude_conversation: portolan_agents::claude::fuzz::conversation,
    claude_lines: portolan_agents::claude::fuzz::lines,
    codex_lines: portolan_agents::codex::fuzz::lines,
    depth: portolan_wire::fuzz::depth,
    handheld_message: portolan_frontends::handheld::fuzz::message,
    insights_message: portolan_frontends::insights::fuzz::message,
    native_frame: portolan_frontends::native::fuzz::frame,
    ndjson: portolan_wire::fuzz::ndjson,
    policy_decision: portolan_core::policy::fuzz::decision,
    holder_frames: portolan_holder::fuzz::frames,
    rest_body: portolan_frontends::native::fuzz::body,
    shell_text: portolan_shell::fuzz::text,
    sse: portolan_wire::fuzz::sse,
    websocket: portolan_frontends::native::fuzz::socket,
}
