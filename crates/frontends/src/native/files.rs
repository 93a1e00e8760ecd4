//! The files below a session's folder, for someone who writes `@` in a prompt.
//!
//! Looks, and never opens a file but those that say what Git ignores. Stays below the folder: links are not followed. What is
//! looked at, how deep, for how long and by how many at once is bounded; a folder with more than that is said to have more.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ignore::WalkBuilder;
use portolan_core::{Refusal, RefusalCode};
use tokio::sync::Semaphore;

/// Files in an answer when nobody says how many, and at most.
const LIST: (u32, u32) = (20, 100);
/// Characters of what is looked for.
const QUERY: usize = 256;
/// Files and folders looked at: a large repository without what Git ignores.
const LOOKED_AT: usize = 50_000;
/// How deep.
const DEPTH: usize = 24;
/// For how long; a disk over a network may be slow.
const LOOKING: Duration = Duration::from_secs(2);
/// Walks at once: they are for people who type, and share the disk with agents.
static WALKS: Semaphore = Semaphore::const_new(2);

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) files: Vec<String>,
    pub(super) truncated: bool,
}

/// The files whose paths hold `query`, the nearest first.
pub(super) async fn find(folder: PathBuf, query: String, limit: Option<u32>) -> Result<Found, Refusal> {
    if query.chars().count() > QUERY {
        return Err(Refusal::new(
            RefusalCode::Invalid,
            format!("what is looked for has at most {QUERY} characters"),
        ));
    }
    let limit = limit.unwrap_or(LIST.0).clamp(1, LIST.1) as usize;
    let failed = || Refusal::new(RefusalCode::Internal, "the files cannot be looked at now");
    let permit = WALKS.acquire().await.map_err(|_| failed())?;
    let walk = tokio::task::spawn_blocking(move || look(&folder, &query.to_lowercase(), limit));
    let found = walk.await.map_err(|_| failed());
    drop(permit);
    found
}

fn look(folder: &Path, query: &str, limit: usize) -> Found {
    let until = Instant::now() + LOOKING;
    let mut found = Vec::new();
    let mut truncated = false;
    let walk = WalkBuilder::new(folder)
        .max_depth(Some(DEPTH))
        .follow_links(false)
        .require_git(false)
        .sort_by_file_name(Ord::cmp)
        .build();
    for (looked_at, entry) in walk.enumerate() {
        if looked_at >= LOOKED_AT || Instant::now() >= until {
            truncated = true;
            break;
        }
        // What cannot be read is passed over: another file may well be.
        let Ok(entry) = entry else { continue };
        let Ok(path) = entry.path().strip_prefix(folder) else { continue };
        // A name that cannot be typed into a prompt cannot be completed.
        let Some(path) = path.to_str().filter(|path| !path.is_empty() && !path.contains(char::is_control))
        else {
            continue;
        };
        let path = if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            format!("{path}/")
        } else {
            path.to_owned()
        };
        if let Some(distance) = distance(&path.to_lowercase(), query) {
            found.push((distance, path));
        }
    }
    found.sort_by(|(a, one), (b, other)| (a, one.len(), one).cmp(&(b, other.len(), other)));
    found.truncate(limit);
    Found { files: found.into_iter().map(|(_, path)| path).collect(), truncated }
}

/// How far a path is from what is looked for; none where it is something else.
fn distance(path: &str, query: &str) -> Option<u8> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    if name.starts_with(query) || path.starts_with(query) {
        return Some(0);
    }
    if name.contains(query) {
        return Some(1);
    }
    if path.contains(query) {
        return Some(2);
    }
    // The letters in this order, with others between them: `srmain` is `src/main.rs`.
    let mut letters = path.chars();
    query.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(3)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        home
    }

    fn names(folder: &Path, query: &str, limit: usize) -> Vec<String> {
        look(folder, query, limit).files
    }

    #[test]
    fn the_nearest_path_comes_first_and_letters_in_order_are_enough() {
        let home = tree(&["src/main.rs", "src/domain.rs", "docs/main/notes.md", "README.md"]);
        assert_eq!(
            names(home.path(), "main", 10),
            ["docs/main/", "src/main.rs", "src/domain.rs", "docs/main/notes.md"]
        );
        assert_eq!(names(home.path(), "srmain", 10), ["src/main.rs", "src/domain.rs"]);
        assert_eq!(names(home.path(), "readme", 10), ["README.md"]);
        assert_eq!(names(home.path(), "zzz", 10), Vec::<String>::new());
    }

    #[test]
    fn what_git_ignores_what_is_hidden_and_what_lies_elsewhere_is_left_out() {
        let home = tree(&["kept.txt", "built/left.txt", ".git/config", ".env"]);
        fs::write(home.path().join(".gitignore"), "built/\n").unwrap();
        let other = tree(&["secret.txt"]);
        std::os::unix::fs::symlink(other.path(), home.path().join("link")).unwrap();
        assert_eq!(names(home.path(), "", 10), ["link", "kept.txt"]);
    }

    #[test]
    fn an_answer_has_no_more_than_was_asked_for() {
        let files: Vec<String> = (0..50).map(|n| format!("file-{n:02}.txt")).collect();
        let home = tree(&files.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(names(home.path(), "file", 3), ["file-00.txt", "file-01.txt", "file-02.txt"]);
    }

    #[test]
    fn a_name_that_cannot_be_typed_and_a_folder_that_is_gone_are_no_errors() {
        let home = tree(&["a\nb.txt", "plain.txt"]);
        assert_eq!(names(home.path(), "", 10), ["plain.txt"]);
        assert_eq!(names(&home.path().join("gone"), "", 10), Vec::<String>::new());
    }

    #[tokio::test]
    async fn an_endless_query_is_refused() {
        let refusal = find("/".into(), "x".repeat(QUERY + 1), None).await.unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Invalid);
    }
}
