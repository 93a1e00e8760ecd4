//! Changes to files, in colour.

use portolan_core::event::{ChangeKind, FileChange, LeftOut};

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
    let from = change.from.as_deref().map(|from| format!("{} → ", clean::visible(from))).unwrap_or_default();
    let mut out = vec![
        Line::new(Style::Bold, format!("{from}{}", clean::visible(&change.path)))
            .and(Style::Dim, format!("  {verb}{}", counted(diff))),
    ];
    if let Some(left_out) = &change.left_out {
        out.push(Line::new(Style::Warning, self::left_out(left_out)).indented(2));
    }
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
        out.push(Line::new(Style::Warning, format!("  … {} more lines", body.len() - most)));
    }
    out
}

/// The number of added and removed lines; nothing if the diff has no such lines.
fn counted(diff: &str) -> String {
    match counts(diff) {
        (0, 0) => String::new(),
        (added, removed) => format!(" +{added} -{removed}"),
    }
}

/// The line in place of a diff that is too large.
fn left_out(left_out: &LeftOut) -> String {
    let LeftOut { added, removed, bytes } = left_out;
    format!("too large to be shown as a diff: {added} lines added, {removed} removed, {}", size(*bytes))
}

/// A number of bytes, for people.
pub(super) fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0..MIB => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

/// The diff without its headers. Headers come only before the first hunk: within a hunk, `--- x` removes the line `--
/// x`, and hiding it would hide a change from the person who allows it.
fn body(diff: &str) -> impl Iterator<Item = &str> {
    // Not `str::lines`: the change may be a carriage return at the end of a line.
    let lines = || diff.strip_suffix('\n').unwrap_or(diff).split('\n').filter(|_| !diff.is_empty());
    let headers = lines().position(|line| line.starts_with("@@")).unwrap_or(0);
    lines().enumerate().filter(move |(at, line)| *at >= headers || !is_header(line)).map(|(_, line)| line)
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
        let hunks = "@@ -1,2 +1,2 @@\n same\n-old\n+new\u{1b}[2J\n";
        let change = FileChange::new("src/a.rs", ChangeKind::Modify, hunks);
        let shown = lines(&[change], 3);
        let expected = [
            (Style::Bold, "src/a.rs  changed +1 -1"),
            (Style::Accent, "  @@ -1,2 +1,2 @@"),
            (Style::Dim, "   same"),
            (Style::Bad, "  -old"),
            (Style::Warning, "  … 1 more lines"),
        ];
        let texts: Vec<String> = shown.iter().map(Line::plain).collect();
        assert_eq!(texts, expected.map(|(_, text)| text));
        assert_eq!(shown[3].0[1].0, Style::Bad);
        let everything =
            lines(&[FileChange::new("a", ChangeKind::Create, "@@ -0,0 +1 @@\n+x\u{1b}[2J\r\n")], usize::MAX);
        assert_eq!(everything[2].plain(), "  +x␛[2J␍");
    }

    #[test]
    fn a_change_without_a_diff_never_looks_like_no_change() {
        let shown =
            |change: FileChange| -> Vec<String> { lines(&[change], 3).iter().map(Line::plain).collect() };
        let hunks = "+x\n".repeat(100_000);
        let expected =
            ["big  changed", "  too large to be shown as a diff: 100000 lines added, 0 removed, 293 KiB"];
        assert_eq!(shown(FileChange::new("big", ChangeKind::Modify, &hunks)), expected);
        assert_eq!(shown(FileChange::new("gone", ChangeKind::Delete, "")), ["gone  deleted"]);
        assert_eq!(shown(FileChange::renamed("here", "there", "")), ["here → there  renamed"]);
        let cell = "@@ -0,0 +0,0 @@ cell ab12 is deleted\n";
        let expected = ["n.ipynb  changed", "  @@ -0,0 +0,0 @@ cell ab12 is deleted"];
        assert_eq!(shown(FileChange::new("n.ipynb", ChangeKind::Modify, cell)), expected);
        assert_eq!(size(3_670_016), "3.5 MiB");
    }

    #[test]
    fn a_changed_line_that_looks_like_a_header_is_not_hidden() {
        let hunks = "@@ -1 +1 @@\n--- keep this\n+++ drop it\n";
        let change = FileChange::new("a.sql", ChangeKind::Modify, hunks);
        let texts: Vec<String> = lines(&[change], usize::MAX).iter().map(Line::plain).collect();
        assert_eq!(texts, ["a.sql  changed +1 -1", "  @@ -1 +1 @@", "  --- keep this", "  +++ drop it"]);
    }
}
