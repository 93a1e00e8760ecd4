//! Changes to files, in colour.

use portolan_core::event::{ChangeKind, FileChange};

use super::{
    clean,
    style::{Line, Style},
};

/// The changes, one after the other; of each at most `most` lines, `usize::MAX` for all of them.
pub(crate) fn lines(changes: &[FileChange], most: usize) -> Vec<Line> {
    changes.iter().flat_map(|change| one(change, most)).collect()
}

fn one(change: &FileChange, most: usize) -> Vec<Line> {
    let verb = match change.change {
        ChangeKind::Create => "new",
        ChangeKind::Modify => "changed",
        ChangeKind::Delete => "deleted",
        ChangeKind::Rename => "renamed",
    };
    let diff = change.diff.as_deref().unwrap_or_default();
    let (added, removed) = counts(diff);
    let mut out = vec![
        Line::new(Style::Bold, clean::visible(&change.path))
            .and(Style::Dim, format!("  {verb} +{added} -{removed}")),
    ];
    let body: Vec<&str> = body(diff).collect();
    out.extend(body.iter().take(most).map(|line| {
        let style = match line.as_bytes().first() {
            Some(b'+') => Style::Good,
            Some(b'-') => Style::Bad,
            Some(b'@') => Style::Accent,
            _ => Style::Dim,
        };
        Line::new(style, clean::visible(line)).indented(2)
    }));
    if body.len() > most {
        out.push(Line::new(Style::Dim, format!("  … {} more lines", body.len() - most)));
    }
    out
}

/// The diff without its headers. Those stand before the first hunk only: within one, `--- x` is the line `-- x` that
/// goes, and hiding it would hide a change from whoever is to allow it.
fn body(diff: &str) -> impl Iterator<Item = &str> {
    let headers = diff.lines().position(|line| line.starts_with("@@")).unwrap_or(0);
    diff.lines()
        .enumerate()
        .filter(move |(at, line)| *at >= headers || !is_header(line))
        .map(|(_, line)| line)
}

fn is_header(line: &str) -> bool {
    line.starts_with("--- ")
        || line.starts_with("+++ ")
        || line.starts_with("diff ")
        || line.starts_with("index ")
}

/// Lines added and removed.
pub(crate) fn counts(diff: &str) -> (usize, usize) {
    (
        body(diff).filter(|line| line.starts_with('+')).count(),
        body(diff).filter(|line| line.starts_with('-')).count(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_its_file_and_its_lines_in_colour() {
        let change = FileChange {
            path: "src/a.rs".into(),
            change: ChangeKind::Modify,
            diff: Some(
                "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,2 @@\n same\n-old\n+new\u{1b}[2J\n".into(),
            ),
        };
        let shown = lines(&[change], 3);
        let expected = [
            (Style::Bold, "src/a.rs  changed +1 -1"),
            (Style::Accent, "  @@ -1,2 +1,2 @@"),
            (Style::Dim, "   same"),
            (Style::Bad, "  -old"),
            (Style::Dim, "  … 1 more lines"),
        ];
        let texts: Vec<String> = shown.iter().map(Line::plain).collect();
        assert_eq!(texts, expected.map(|(_, text)| text));
        assert_eq!(shown[3].0[1].0, Style::Bad);
        let everything = lines(
            &[FileChange {
                path: "a".into(),
                change: ChangeKind::Create,
                diff: Some("+x\u{1b}[2J\n".into()),
            }],
            usize::MAX,
        );
        assert_eq!(everything[1].plain(), "  +x␛[2J");
    }
    #[test]
    fn a_changed_line_that_looks_like_a_header_is_not_hidden() {
        let change = FileChange {
            path: "a.sql".into(),
            change: ChangeKind::Modify,
            diff: Some("--- a/a.sql\n+++ b/a.sql\n@@ -1 +1 @@\n--- keep this\n+++ drop it\n".into()),
        };
        let texts: Vec<String> = lines(&[change], usize::MAX).iter().map(Line::plain).collect();
        assert_eq!(texts, ["a.sql  changed +1 -1", "  @@ -1 +1 @@", "  --- keep this", "  +++ drop it"]);
    }
}
