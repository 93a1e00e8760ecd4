//! The files below a session's folder, for a user who types `@` in a prompt.
//!
//! Opens no files except the ignore files of Git, and these only if they are regular and short: a foreign repository
//! may contain a device or a pipe. Stays below the folder: links are not followed. The number of files, the depth, the
//! time and the number of walks at once are bounded; the answer says if there are more files.

use std::{
    collections::VecDeque,
    fs::{self, OpenOptions},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use portolan_core::{Refusal, RefusalCode};
use rustix::fs::OFlags;
use tokio::sync::Semaphore;

/// How many files an answer has by default, and at most.
pub(super) const LIST: (u32, u32) = (20, 100);
/// The longest search text, in characters.
const QUERY: usize = 256;
/// How many files and folders are visited at most, including ignored ones: a large repository.
const LOOKED_AT: usize = 100_000;
/// How much of an ignore file is read: bytes, and lines.
const RULES: (u64, usize) = (64 * 1024, 1000);
/// The largest depth.
const DEPTH: usize = 24;
/// The longest time; a network disk may be slow.
const LOOKING: Duration = Duration::from_secs(2);
/// How many walks run at once: they are for people who type, and share the disk with agents.
static WALKS: Semaphore = Semaphore::const_new(2);

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) files: Vec<String>,
    pub(super) truncated: bool,
}

/// The files whose paths match `query`, best match first.
pub(super) async fn find(folder: PathBuf, query: String, limit: u32) -> Result<Found, Refusal> {
    if query.chars().count() > QUERY {
        return Err(Refusal::new(
            RefusalCode::Invalid,
            format!("a search text has at most {QUERY} characters"),
        ));
    }
    let limit = limit as usize;
    let failed = || Refusal::new(RefusalCode::Internal, "the files cannot be searched now; try again");
    let permit = WALKS.acquire().await.map_err(|_| failed())?;
    let walk = tokio::task::spawn_blocking(move || {
        // Held by the walk, which continues even if nobody waits for it any more.
        let _permit = permit;
        look(&folder, &query.to_lowercase(), limit)
    });
    walk.await.map_err(|_| failed())
}

/// A folder to visit, with its ignore rules, outermost folder first.
struct Folder {
    path: PathBuf,
    depth: usize,
    rules: Vec<Arc<Gitignore>>,
}

/// The ignore rules of a folder's own files.
fn rules_of(folder: &Path) -> Option<Arc<Gitignore>> {
    let mut rules = GitignoreBuilder::new(folder);
    let mut lines = 0;
    for name in [".gitignore", ".ignore"] {
        let Some(text) = short_text(&folder.join(name)) else { continue };
        for line in text.lines().take(RULES.1 - lines) {
            lines += 1;
            // An invalid line is skipped.
            let _ = rules.add_line(None, line);
        }
    }
    (lines > 0).then(|| rules.build().ok().map(Arc::new))?
}

/// The text of a regular, short file.
fn short_text(path: &Path) -> Option<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(RULES.0).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// The rules of the folders above, up to the top of the repository.
fn rules_above(folder: &Path) -> Vec<Arc<Gitignore>> {
    let above: Vec<_> = folder.ancestors().take(DEPTH).collect();
    let Some(top) = above.iter().position(|folder| folder.join(".git").symlink_metadata().is_ok()) else {
        return Vec::new();
    };
    above.into_iter().take(top + 1).skip(1).rev().filter_map(rules_of).collect()
}

fn is_ignored(rules: &[Arc<Gitignore>], path: &Path, is_folder: bool) -> bool {
    // The innermost matching rule decides.
    for rules in rules.iter().rev() {
        match rules.matched(path, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}

fn look(top: &Path, query: &str, limit: usize) -> Found {
    let until = Instant::now() + LOOKING;
    let (mut found, mut looked_at, mut truncated) = (Vec::new(), 0, false);
    let mut folders = VecDeque::from([Folder { path: top.to_owned(), depth: 0, rules: rules_above(top) }]);
    'all: while let Some(Folder { path, depth, mut rules }) = folders.pop_front() {
        rules.extend(rules_of(&path));
        // A folder that cannot be read is skipped.
        let Ok(entries) = fs::read_dir(&path) else { continue };
        for entry in entries {
            looked_at += 1;
            if looked_at > LOOKED_AT || Instant::now() >= until {
                truncated = true;
                break 'all;
            }
            let Ok(entry) = entry else { continue };
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_ignored(&rules, &path, is_folder) {
                continue;
            }
            if is_folder && depth + 1 < DEPTH {
                folders.push_back(Folder { path: path.clone(), depth: depth + 1, rules: rules.clone() });
            }
            // A name that cannot be typed into a prompt cannot be completed.
            let typed = path.strip_prefix(top).ok().and_then(Path::to_str);
            let Some(typed) = typed.filter(|typed| !typed.contains(char::is_control)) else { continue };
            let typed = if is_folder { format!("{typed}/") } else { typed.to_owned() };
            if let Some(distance) = distance(&typed.to_lowercase(), query) {
                found.push((distance, typed));
            }
        }
    }
    found.sort_by(|(a, one), (b, other)| (a, one.len(), one).cmp(&(b, other.len(), other)));
    found.truncate(limit);
    Found { files: found.into_iter().map(|(_, path)| path).collect(), truncated }
}

/// The distance of a path from the search text; `None` if it does not match.
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
    // The letters in this order, with others between them: `srmain` matches `src/main.rs`.
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
    fn rules_of_folders_above_and_below_count_and_the_innermost_is_right() {
        let home = tree(&["a/kept.log", "a/b/left.log", "a/b/kept.txt", "c.log"]);
        fs::create_dir(home.path().join(".git")).unwrap();
        fs::write(home.path().join(".gitignore"), "*.log\n").unwrap();
        fs::write(home.path().join("a/.gitignore"), "!kept.log\n").unwrap();
        assert_eq!(names(home.path(), "", 10), ["a/", "a/b/", "a/kept.log", "a/b/kept.txt"]);
        assert_eq!(names(&home.path().join("a/b"), "", 10), ["kept.txt"]);
    }

    #[test]
    fn rules_that_are_no_plain_file_are_not_opened() {
        let home = tree(&["kept.txt", "sub/kept.txt", "deep/kept.txt"]);
        std::os::unix::fs::symlink("/dev/zero", home.path().join(".ignore")).unwrap();
        let pipe = home.path().join("sub/.gitignore");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::create_dir(home.path().join("deep/.ignore")).unwrap();
        let found = look(home.path(), "kept", 10);
        assert_eq!((found.files.len(), found.truncated), (3, false));
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
        let refusal = find("/".into(), "x".repeat(QUERY + 1), LIST.0).await.unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Invalid);
    }
}
