//! Content: what is said, and what is done to files.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text, usually Markdown.
    Text {
        /// The text.
        text: String,
    },
    /// What the agent thought.
    Thinking {
        /// The text.
        text: String,
    },
    /// What it thought, but does not show.
    RedactedThinking,
    /// A picture.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// A file or another thing with an address.
    Resource {
        /// Its address.
        uri: String,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        name: Option<String>,
        /// Its text, where told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        text: Option<String>,
    },
    /// Something structured.
    Data {
        /// All of it.
        data: Value,
    },
    /// A piece in a form that Portolan does not know; kept as it came.
    Other {
        /// All of it.
        body: Value,
    },
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The plain text of some content, pieces joined by line ends.
pub fn plain_text(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|piece| match piece {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A change to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct FileChange {
    /// Which file.
    pub path: String,
    /// What is done to it.
    pub change: ChangeKind,
    /// Where it was before, where it gets another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub from: Option<String>,
    /// The unified diff, where known. What stands behind the numbers of a hunk says what its lines cannot: that every
    /// occurrence is replaced, or which cell of a notebook it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub diff: Option<String>,
    /// How much the diff would hold, where it is too large to be told. What is asked for then stands in the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub left_out: Option<LeftOut>,
}

/// A diff that is too large to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct LeftOut {
    /// Lines it adds.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub added: u64,
    /// Lines it removes.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub removed: u64,
    /// Its length.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub bytes: u64,
}

/// The largest diff that is told. Beyond it people read the file.
const LARGEST_DIFF: usize = 256 * 1024;

impl FileChange {
    /// A change with the hunks of its diff; those that are too large are counted.
    pub fn new(path: impl Into<String>, change: ChangeKind, hunks: &str) -> Self {
        Self { path: path.into(), change, from: None, diff: None, left_out: None }.with(hunks)
    }

    /// A file that gets another name, with the hunks of what else changes in it.
    pub fn renamed(from: impl Into<String>, to: impl Into<String>, hunks: &str) -> Self {
        let from = Some(from.into());
        Self { path: to.into(), change: ChangeKind::Rename, from, diff: None, left_out: None }.with(hunks)
    }

    fn with(mut self, hunks: &str) -> Self {
        if hunks.len() > LARGEST_DIFF {
            let count = |sign| hunks.lines().filter(|line| line.starts_with(sign)).count() as u64;
            let (added, removed) = (count('+'), count('-'));
            self.left_out = Some(LeftOut { added, removed, bytes: hunks.len() as u64 });
        } else if !hunks.is_empty() {
            let nothing = "/dev/null";
            let before = match self.change {
                ChangeKind::Create => nothing,
                _ => self.from.as_deref().unwrap_or(&self.path),
            };
            let after = if self.change == ChangeKind::Delete { nothing } else { &self.path };
            self.diff = Some(format!("--- {before}\n+++ {after}\n{hunks}"));
        }
        self
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Create,
    /// It is changed.
    Modify,
    /// It is gone.
    Delete,
    /// It has another name.
    Rename,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_that_is_too_large_is_counted_and_never_looks_like_no_change() {
        let hunks = format!("@@ -1,2 +1,2 @@\n-old\n-older\n{}", "+x\n".repeat(LARGEST_DIFF / 3));
        let change = FileChange::new("/big", ChangeKind::Modify, &hunks);
        let left_out = LeftOut { added: (LARGEST_DIFF / 3) as u64, removed: 2, bytes: hunks.len() as u64 };
        assert_eq!((change.diff, change.left_out), (None, Some(left_out)));
        let most = format!("+{}\n", "x".repeat(LARGEST_DIFF - 2));
        assert_eq!(FileChange::new("/big", ChangeKind::Create, &most).left_out, None);
    }

    #[test]
    fn a_diff_names_both_sides_and_a_moved_file_where_it_was() {
        let diff = |change: FileChange| change.diff.unwrap_or_default();
        assert_eq!(diff(FileChange::new("/a", ChangeKind::Create, "+x\n")), "--- /dev/null\n+++ /a\n+x\n");
        assert_eq!(diff(FileChange::new("/a", ChangeKind::Delete, "-x\n")), "--- /a\n+++ /dev/null\n-x\n");
        assert_eq!(diff(FileChange::renamed("/a", "/b", "-x\n")), "--- /a\n+++ /b\n-x\n");
        let moved = FileChange::renamed("/a", "/b", "");
        assert_eq!((moved.from.as_deref(), moved.diff), (Some("/a"), None));
    }
}
