//! The scanner: finds the comments above tests that name rows of the ledger.
//!
//! The scanner reads lines, not syntax, so it works for Rust, TypeScript and Svelte. Only other comments and attributes
//! may be between the comment and its test; a comment that names rows above anything else is reported, because it looks
//! as if it counted but does not. A test that is ignored, skipped, left for later or that prevents other tests from
//! running is reported too, whether it names rows or not: such a test shows nothing, and a run that passes hides it.

use std::path::Path;

use anyhow::Result;

use super::ledger::is_id;
use crate::project::{files, read};

/// The mark before the ids in a comment.
pub(super) const MARK: &str = "covers:";

/// The result of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Ids that a test names, with the place, such as `a.rs:12`.
    pub(super) named: Vec<(String, String)>,
    /// Mistakes, with their places.
    pub(super) strays: Vec<String>,
}

/// Scans all our sources.
pub(super) fn tree(root: &Path) -> Result<Scan> {
    let mut scan = Scan::default();
    for path in files(root, &["rs", "ts", "tsx", "svelte", "mjs"])? {
        text(&path.display().to_string(), &read(&root.join(&path))?, &mut scan);
    }
    Ok(scan)
}

fn text(file: &str, source: &str, scan: &mut Scan) {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        if let Some(mark) = never_runs(line) {
            scan.strays
                .push(format!("{file}:{}: `{mark}`: a test that does not run shows nothing", index + 1));
        }
        let Some(ids) = comment(line).and_then(|words| words.trim_start().strip_prefix(MARK)) else {
            continue;
        };
        let place = format!("{file}:{}", index + 1);
        if !above_test(&lines, index) {
            scan.strays.push(format!("{place}: `{MARK}` is not above a test"));
            continue;
        }
        let mut any = false;
        for id in ids.trim_end_matches("*/").split(',').map(str::trim).filter(|id| !id.is_empty()) {
            any = true;
            if is_id(id) {
                scan.named.push((id.to_owned(), place.clone()));
            } else {
                scan.strays.push(format!("{place}: `{id}` is not the id of a row"));
            }
        }
        if !any {
            scan.strays.push(format!("{place}: `{MARK}` names no row"));
        }
    }
}

/// The text of a comment line.
fn comment(line: &str) -> Option<&str> {
    ["///", "//", "/**", "/*", "*"].iter().find_map(|mark| line.strip_prefix(mark))
}

/// Does a test follow, with only comments and attributes in between (or an attribute above the comment)?
fn above_test(lines: &[&str], comment_at: usize) -> bool {
    let preamble = |line: &&&str| comment(line).is_some() || line.starts_with("#[");
    let mut tested =
        lines[..comment_at].iter().rev().take_while(preamble).any(|line| is_test_attribute(line));
    let mut open = 0_i32; // an attribute may run over several lines
    for line in &lines[comment_at + 1..] {
        if open > 0 || line.starts_with("#[") {
            tested |= open == 0 && is_test_attribute(line);
            open += line.matches('[').count() as i32 - line.matches(']').count() as i32;
        } else if comment(line).is_none() {
            return (tested && is_rust_function(line)) || is_script_test(line);
        }
    }
    false
}

/// `#[test]`, `#[tokio::test(...)]` and their like.
fn is_test_attribute(line: &str) -> bool {
    let path = line.strip_prefix("#[").unwrap_or_default();
    let path = path.split(['(', ']', ' ']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

fn is_rust_function(line: &str) -> bool {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    line.strip_prefix("async ").unwrap_or(line).starts_with("fn ")
}

/// What prevents a test from running: `#[ignore]` in Rust; in scripts `.skip`, `.todo`, `.only` and their conditional
/// forms, and the `skip` and `todo` options of Node's runner.
fn never_runs(line: &str) -> Option<&'static str> {
    if line.starts_with("#[ignore") || (line.starts_with("#[cfg_attr(") && line.contains("ignore")) {
        return Some("#[ignore]");
    }
    let runner = ["test", "it", "describe", "suite", "t", "context"]
        .iter()
        .find_map(|name| line.strip_prefix(name))
        .or_else(|| {
            line.strip_prefix('x').filter(|rest| rest.starts_with("it(") || rest.starts_with("test("))
        });
    let rest = runner?;
    if line.starts_with('x') {
        return Some("xit");
    }
    let forms = [".skip(", ".skip.", ".skipIf(", ".runIf(", ".todo(", ".only(", ".fails("];
    forms.into_iter().find(|form| rest.starts_with(form)).or_else(|| {
        let options = ["{ skip:", "{ skip }", "{ todo:", "{ only:", "{skip:", "{todo:", "{only:"];
        options.into_iter().find(|option| rest.starts_with('(') && rest.contains(option))
    })
}

/// `test("...")`, `it("...")` and their `.each` forms; a skipped test shows nothing.
fn is_script_test(line: &str) -> bool {
    ["test(", "it(", "test.each(", "it.each(", "test.each`", "it.each`"]
        .iter()
        .any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mark is inserted here, so that the scanner finds no mark in this file.
    fn scanned(source: &str) -> Scan {
        let mut scan = Scan::default();
        text("a", &source.replace("MARK", MARK), &mut scan);
        scan
    }

    fn named(ids: &[&str], place: &str) -> Scan {
        Scan { named: ids.iter().map(|id| ((*id).to_owned(), place.to_owned())).collect(), strays: vec![] }
    }

    #[test]
    fn ids_above_a_rust_test_are_named() {
        let expected = named(&["000-001", "003-151"], "a:1");
        for source in [
            "// MARK 000-001, 003-151\n#[test]\nfn a() {}",
            "/// MARK 000-001, 003-151\n#[tokio::test(start_paused = true)]\nasync fn a() {}",
            "// MARK 000-001,003-151,\n// why\n#[test]\n#[expect(\n  a,\n  reason = \"b\"\n)]\npub fn a() {}",
        ] {
            assert_eq!(scanned(source), expected, "{source}");
        }
        assert_eq!(scanned("#[test]\n// MARK 000-001\nfn a() {}"), named(&["000-001"], "a:2"));
    }

    #[test]
    fn ids_above_a_typescript_test_are_named() {
        assert_eq!(scanned("  // MARK 000-001\n  it(\"works\", () => {"), named(&["000-001"], "a:1"));
        assert_eq!(scanned("/* MARK 000-001 */\ntest.each([1])(\"works\""), named(&["000-001"], "a:1"));
    }

    #[test]
    fn a_comment_that_is_not_above_a_test_is_reported() {
        for source in [
            "// MARK 000-001\nfn not_a_test() {}",
            "// MARK 000-001\n\n#[test]\nfn a() {}",
            "// MARK 000-001",
        ] {
            assert_eq!(
                scanned(source),
                Scan { named: vec![], strays: vec![format!("a:1: `{MARK}` is not above a test")] },
                "{source}"
            );
        }
    }

    #[test]
    fn a_test_that_does_not_run_is_reported_whether_it_names_rows_or_not() {
        // Composed here, so that the scanner finds no such mark in this file.
        for (source, mark) in [
            ("#[test]\nIGNORE]\nfn a() {}", "#[ignore]"),
            ("#[test]\nIGNORE = \"slow\"]\nfn a() {}", "#[ignore]"),
            ("#[test]\n#[cfg_attr(not(feature = \"x\"), ignore)]\nfn a() {}", "#[ignore]"),
            ("// why\ntest.skip(\"a\", () => {", ".skip("),
            ("// why\nit.skip.each([1])(\"a\", () => {", ".skip."),
            ("// why\ndescribe.skipIf(ci)(\"a\", () => {", ".skipIf("),
            ("// why\nit.runIf(ci)(\"a\", () => {", ".runIf("),
            ("// why\ntest.todo(\"a\");", ".todo("),
            ("// why\nit.only(\"a\", () => {", ".only("),
            ("// why\nit.fails(\"a\", () => {", ".fails("),
            ("// why\nxit(\"a\", () => {", "xit"),
            ("// why\nt.skip(\"not here\");", ".skip("),
            ("// why\ntest(\"a\", { skip: !claude }, () => {", "{ skip:"),
        ] {
            let expected = format!("a:2: `{mark}`: a test that does not run shows nothing");
            assert_eq!(scanned(&source.replace("IGNORE", "#[ignore")).strays, [expected], "{source}");
        }
        for runs in ["item.skip(1)", "let skipped = a.iter().skip(1);", "it(\"skips a blank line\", () => {"]
        {
            assert_eq!(scanned(runs), Scan::default(), "{runs}");
        }
    }

    #[test]
    fn a_wrong_id_is_reported() {
        let strays = |ids: &str| scanned(&format!("// MARK{ids}\n#[test]\nfn a() {{}}")).strays;
        assert_eq!(strays(" 1-2"), ["a:1: `1-2` is not the id of a row"]);
        assert_eq!(strays(""), [format!("a:1: `{MARK}` names no row")]);
    }

    #[test]
    fn the_word_in_code_or_in_running_text_is_not_a_mark() {
        assert_eq!(scanned("let a = \"MARK 000-001\";\n// this MARK 000-001"), Scan::default());
    }
}
