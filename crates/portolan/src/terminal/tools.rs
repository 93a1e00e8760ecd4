//! Tool calls in one line each.

use portolan_core::event::{Content, FileChange, ToolOutcome};
use serde_json::Value;

use super::{
    clean, diff,
    style::{Line, Style},
};

/// A call until its result comes.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) changes: Vec<FileChange>,
    pub(super) depth: usize,
}

/// The inputs that describe a call best, best first.
const TELLING: [&str; 8] =
    ["command", "file_path", "path", "url", "query", "pattern", "description", "prompt"];

/// The longest description of a call in its line. A running call is drawn again and again, so the description must be
/// short; Ctrl-O shows all of it.
const WHAT: usize = 1000;

/// A short description of a call.
pub(super) fn what(title: Option<&str>, input: &Value) -> String {
    let told = title
        .map(str::to_owned)
        .or_else(|| TELLING.iter().find_map(|key| input.get(key)?.as_str()).map(str::to_owned));
    let told = told.unwrap_or_else(|| match input {
        Value::Null => String::new(),
        Value::Object(map) if map.is_empty() => String::new(),
        other => other.to_string(),
    });
    let line = clean::line(&told);
    match line.char_indices().nth(WHAT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The line of a running call.
pub(super) fn called(call: &Call) -> Line {
    Line::new(Style::Dim, "▸ ").and(Style::Accent, call.name.clone()).and(Style::Plain, spaced(&call.what))
}

/// The line of a call that has ended.
pub(super) fn ended(call: &Call, outcome: ToolOutcome, content: &[Content]) -> Line {
    let (mark, style) = match outcome {
        ToolOutcome::Done => ("✓ ", Style::Good),
        ToolOutcome::Failed => ("✗ ", Style::Bad),
        ToolOutcome::Denied => ("⊘ ", Style::Warning),
        ToolOutcome::Interrupted => ("■ ", Style::Warning),
    };
    Line::new(style, mark)
        .and(Style::Accent, call.name.clone())
        .and(Style::Plain, spaced(&call.what))
        .and(Style::Dim, format!(" · {}", summary(call, outcome, content)))
}

fn spaced(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!(" {what}") }
}

fn summary(call: &Call, outcome: ToolOutcome, content: &[Content]) -> String {
    let text = portolan_core::event::plain_text(content);
    let word = match outcome {
        ToolOutcome::Done => "",
        ToolOutcome::Failed => "failed",
        ToolOutcome::Denied => "denied",
        ToolOutcome::Interrupted => "interrupted",
    };
    let mut parts: Vec<String> = Vec::new();
    if !word.is_empty() {
        parts.push(word.to_owned());
    }
    let (added, removed) = call
        .changes
        .iter()
        .map(|change| diff::counts(change.diff.as_deref().unwrap_or_default()))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if added + removed > 0 {
        parts.push(format!("+{added} -{removed}"));
    }
    let pictures = content.iter().filter(|piece| matches!(piece, Content::Image { .. })).count();
    if pictures > 0 {
        parts.push(count(pictures, "image"));
    }
    match text.lines().count() {
        0 => {}
        // A single line is shown itself instead of the count `1 line`.
        1 => parts.push(clean::line(&text)),
        _ if outcome != ToolOutcome::Done => {
            parts.push(clean::line(text.lines().next().unwrap_or_default()));
        }
        lines => parts.push(count(lines, "line")),
    }
    if parts.is_empty() { "done".into() } else { parts.join(", ") }
}

/// `3 lines`, `1 line`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The whole input and output of a call.
pub(super) fn unfolded(call: &Call, input: &Value, content: &[Content]) -> Vec<Line> {
    let mut lines = vec![called(call)];
    if let Value::Object(map) = input {
        for (name, value) in map {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let text = clean::visible(&text);
            let mut parts = text.lines();
            let first = parts.next().unwrap_or_default().to_owned();
            lines.push(
                Line::new(Style::Dim, format!("{}: ", clean::visible(name)))
                    .and(Style::Plain, first)
                    .indented(4),
            );
            lines.extend(parts.map(|line| Line::new(Style::Plain, line).indented(6)));
        }
    }
    lines.extend(diff::lines(&call.changes, usize::MAX).into_iter().map(|line| line.indented(4)));
    for line in clean::text(&portolan_core::event::plain_text(content)).lines() {
        lines.push(Line::new(Style::Dim, line).indented(4));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        Call { name: "Bash".into(), what: "ls -la".into(), changes: vec![], depth: 0 }
    }

    #[test]
    fn a_call_is_one_line_with_its_result() {
        let shown = |outcome, text: &str| ended(&call(), outcome, &[Content::text(text)]).plain();
        assert_eq!(shown(ToolOutcome::Done, "a\nb\nc"), "✓ Bash ls -la · 3 lines");
        assert_eq!(shown(ToolOutcome::Done, "only"), "✓ Bash ls -la · only");
        assert_eq!(shown(ToolOutcome::Failed, "no such file\nx"), "✗ Bash ls -la · failed, no such file");
        assert_eq!(ended(&call(), ToolOutcome::Done, &[]).plain(), "✓ Bash ls -la · done");
        assert_eq!(ended(&call(), ToolOutcome::Denied, &[]).plain(), "⊘ Bash ls -la · denied");
    }

    #[test]
    fn the_description_of_a_call_comes_from_its_input() {
        assert_eq!(what(None, &serde_json::json!({"x": 1, "command": "make\n all"})), "make all");
        assert_eq!(what(Some("Read a"), &serde_json::json!({"command": "x"})), "Read a");
        assert_eq!(what(None, &serde_json::json!({"n": 1})), r#"{"n":1}"#);
        assert_eq!(what(None, &Value::Null), "");
        let long = what(None, &serde_json::json!({"command": "é".repeat(2 * WHAT)}));
        assert_eq!(long, format!("{}…", "é".repeat(WHAT)));
    }
}
