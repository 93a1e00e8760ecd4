//! Two texts as lines, for the hunks of agents' changes. Pure.

/// The lines of both texts. If all lines are the same but the texts are not, the line ends differ, and the lines keep
/// them: otherwise an invisible change would be allowed unseen.
pub(crate) fn lines<'a>(old: &'a str, new: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    if old != new && old.lines().eq(new.lines()) {
        return (old.split('\n').collect(), new.split('\n').collect());
    }
    (old.lines().collect(), new.lines().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_have_lines_that_differ() {
        for (old, new) in [("a\nb", "a\nb\n"), ("a\r\nb", "a\nb"), ("a", "a\r\n"), ("", "\n"), ("a", "b")] {
            let (before, after) = lines(old, new);
            assert_ne!(before, after, "{old:?} {new:?}");
        }
        assert_eq!(lines("a\r\nb\r\n", "a\r\nc\r\n"), (vec!["a", "b"], vec!["a", "c"]));
    }
}
