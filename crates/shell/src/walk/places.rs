//! Where the shell is.

use crate::limits::MAX_FOLDER_BYTES;
use crate::{Folder, Word};

/// Where the shell is at a point of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this folder, named as in [`Folder::Known`].
    At(String),
    /// Somewhere.
    Unknown,
    /// Nowhere: the shell has ended before.
    Ended,
}

impl Place {
    /// Where the text begins.
    pub(super) fn start() -> Self {
        Self::At(String::new())
    }

    /// Here or there, whichever way led to this point.
    pub(super) fn or(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Ended, other) => other.clone(),
            (this, Self::Ended) => this,
            (this, other) if this == *other => this,
            _ => Self::Unknown,
        }
    }

    pub(super) fn folder(&self) -> Folder {
        match self {
            Self::At(path) => Folder::Known(path.clone()),
            // What comes after the end does not run; should it run all the same, nobody knows where.
            Self::Unknown | Self::Ended => Folder::Unknown,
        }
    }

    /// After a `cd` with these arguments has succeeded.
    pub(super) fn after_cd(&self, arguments: &[Word]) -> Self {
        let Self::At(from) = self else { return Self::Unknown };
        let mut rest = arguments;
        if let [first, others @ ..] = rest
            && (first.is("--") || first.is("-L"))
        {
            rest = others;
        }
        let [target] = rest else { return Self::Unknown };
        match target.literal() {
            Some(path) if !path.is_empty() && !path.starts_with('-') => {
                let to = join(from, &path);
                if to.len() > MAX_FOLDER_BYTES { Self::Unknown } else { Self::At(to) }
            }
            _ => Self::Unknown,
        }
    }
}

/// `path` seen from `folder`, with `.` and `a/..` taken out as `cd` does it.
pub(super) fn join(folder: &str, path: &str) -> String {
    let absolute = path.starts_with('/') || folder.starts_with('/');
    let before = if path.starts_with('/') { "" } else { folder };
    let mut steps: Vec<&str> = Vec::new();
    for step in before.split('/').chain(path.split('/')) {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => {
                steps.pop();
            }
            ".." if absolute => {}
            step => steps.push(step),
        }
    }
    let path = steps.join("/");
    if absolute { format!("/{path}") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_joined_as_cd_does_it() {
        for (from, path, to) in [
            ("", "a", "a"),
            ("a", "b/c", "a/b/c"),
            ("a/b", "..", "a"),
            ("a", "../..", ".."),
            ("..", "..", "../.."),
            ("a", "/b//c/./d/..", "/b/c"),
            ("/a", "../../b", "/b"),
            ("", ".", ""),
        ] {
            assert_eq!(join(from, path), to, "{from} {path}");
        }
    }

    #[test]
    fn two_ways_from_different_folders_lead_somewhere() {
        let at = |path: &str| Place::At(path.to_owned());
        assert_eq!(at("a").or(&at("a")), at("a"));
        assert_eq!(at("a").or(&at("b")), Place::Unknown);
        assert_eq!(at("a").or(&Place::Ended), at("a"));
        assert_eq!(Place::Ended.or(&at("b")), at("b"));
    }
}
