//! Content: messages, and changes to files.

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
    /// The agent's thinking.
    Thinking {
        /// The text.
        text: String,
    },
    /// Thinking that the agent does not show.
    RedactedThinking,
    /// An image.
    Image {
        /// The image's type, such as `image/png`.
        media_type: String,
        /// The image in Base64.
        data: String,
    },
    /// A file or another thing with a URI.
    Resource {
        /// The resource's URI.
        uri: String,
        /// The resource's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        name: Option<String>,
        /// The resource's text, if the agent sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        text: Option<String>,
    },
    /// Structured data.
    Data {
        /// The data.
        data: Value,
    },
    /// Content in a form that Portolan does not know, unchanged.
    Other {
        /// The content as it came.
        body: Value,
    },
}

impl Content {
    /// Text content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The plain text of some content; pieces are joined by line ends.
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
    /// The file's path.
    pub path: String,
    /// The kind of change.
    pub change: ChangeKind,
    /// The file's earlier path, if the file is renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub from: Option<String>,
    /// The unified diff, if known. The text after a hunk's line numbers adds what its lines cannot show: that every
    /// occurrence is replaced, or which cell of a notebook changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub diff: Option<String>,
    /// The size of the diff, if the diff is too large to be sent. The tool's input then holds the whole change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub left_out: Option<LeftOut>,
}

/// The size of a diff that is too large to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct LeftOut {
    /// The number of added lines.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub added: u64,
    /// The number of removed lines.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub removed: u64,
    /// The diff's length in bytes.
    #[cfg_attr(feature = "schema", ts(type = "number"))]
    pub bytes: u64,
}

/// The largest diff that is sent. For a larger change, people read the file.
const LARGEST_DIFF: usize = 256 * 1024;

impl FileChange {
    /// A change with the hunks of its diff. A diff that is too large is only counted.
    pub fn new(path: impl Into<String>, change: ChangeKind, hunks: &str) -> Self {
        Self { path: path.into(), change, from: None, diff: None, left_out: None }.with(hunks)
    }

    /// A renamed file, with the hunks of its other changes.
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

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The file is created.
    Create,
    /// The file is changed.
    Modify,
    /// The file is deleted.
    Delete,
    /// The file is renamed.
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
