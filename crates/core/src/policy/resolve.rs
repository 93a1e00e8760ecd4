//! Where files really lie: the one part of policy that looks at the disk. It changes nothing there.
//!
//! Every part of a path is followed, links of files that do not exist yet too: whoever writes through such a link makes
//! a file where it leads. What is found holds for this moment only. A program that runs beside the agent can change a link
//! before the agent writes; it could then write there itself.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    facts::{Facts, Place, without_parents},
    rule::Identity,
};

/// Links that are followed for one path, as many as the kernel follows.
const LINKS: usize = 40;

/// Parts that one path may have, its links included. The kernel takes no path of more than 4,096 bytes.
const PARTS: usize = 4096;

/// The facts about a call that names these paths, in a session that works in `folder`. `own` are folders of Portolan's own.
pub fn facts(folder: &Path, home: Option<&Path>, own: &[PathBuf], paths: &[String]) -> Facts {
    let mut found = Facts {
        folder: real(folder).unwrap_or_default(),
        home: home.and_then(|home| real(home).ok()),
        own: own.iter().filter_map(|own| real(own).ok()).collect(),
        ..Facts::default()
    };
    found.above = found
        .folder
        .ancestors()
        .filter_map(|above| Some((above.to_owned(), identity(above).ok()?)))
        .collect();
    for path in paths {
        let at_home = path.strip_prefix("~/").and_then(|rest| Some(found.home.as_ref()?.join(rest)));
        if let Ok(place) = place(&at_home.unwrap_or_else(|| folder.join(path))) {
            found.places.insert(path.clone(), place);
        }
    }
    found
}

/// What identifies the folder at this path.
pub fn identity(folder: &Path) -> io::Result<Identity> {
    let found = fs::metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    Ok(Identity { device: found.dev(), inode: found.ino() })
}

/// A folder's path with every link followed.
pub fn real_folder(folder: &Path) -> io::Result<PathBuf> {
    real(folder)
}

fn place(path: &Path) -> io::Result<Place> {
    // Some programs take `..` away before they look at the disk, others leave it to the kernel, which follows a
    // link first. Both places count.
    let mut place = Place { lies: Vec::new(), is_ordinary: true };
    for path in [path, &without_parents(path)] {
        let lies = real(path)?;
        place.is_ordinary &= is_ordinary(&lies)?;
        if !place.lies.contains(&lies) {
            place.lies.push(lies);
        }
    }
    Ok(place)
}

/// A path without links, whether or not its last parts exist.
fn real(path: &Path) -> io::Result<PathBuf> {
    if !path.is_absolute() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let parts =
        |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<_>>();
    let mut left: VecDeque<OsString> = parts(path);
    let (mut at, mut links, mut looked_at) = (PathBuf::from("/"), 0, 0);
    while let Some(part) = left.pop_front() {
        looked_at += 1;
        if looked_at > PARTS {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        match part.to_str() {
            Some("/") => {
                at = PathBuf::from("/");
                continue;
            }
            Some(".") => continue,
            Some("..") => {
                at.pop();
                continue;
            }
            Some(_) | None => {}
        }
        let next = at.join(&part);
        match fs::symlink_metadata(&next) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > LINKS {
                    return Err(io::Error::from(io::ErrorKind::InvalidInput));
                }
                let mut ahead = parts(&fs::read_link(&next)?);
                ahead.append(&mut left);
                left = ahead;
            }
            Ok(_) => at = next,
            // Whoever writes it makes it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => at = next,
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// A file of its own, or none yet. One with a second name may be known elsewhere by the other; a folder, a pipe or a device
/// is nothing to edit.
fn is_ordinary(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_file() && found.nlink() == 1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;
    use crate::{
        Millis,
        policy::{Call, Decision, Mode, Reading, Situation, decide},
    };

    /// A folder `shop` with a file, beside a folder `other`.
    fn shop() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(temp.path()).unwrap();
        for folder in ["shop/src", "other"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::write(top.join("shop/a.rs"), "").unwrap();
        fs::write(top.join("other/b.rs"), "").unwrap();
        (temp, top)
    }

    fn lies(top: &Path, path: &str) -> Vec<PathBuf> {
        let found = facts(&top.join("shop"), None, &[], &[path.to_owned()]);
        found.places.get(path).map(|place| place.lies.clone()).unwrap_or_default()
    }

    #[test]
    fn a_path_is_followed_through_every_link_whether_or_not_its_end_exists() {
        let (_temp, top) = shop();
        symlink(top.join("other"), top.join("shop/out")).unwrap();
        symlink("../other/new.rs", top.join("shop/dangling")).unwrap();
        symlink("loop", top.join("shop/loop")).unwrap();
        assert_eq!(lies(&top, "a.rs"), [top.join("shop/a.rs")]);
        assert_eq!(lies(&top, "src/../a.rs"), [top.join("shop/a.rs")]);
        assert_eq!(lies(&top, "src/new/file.rs"), [top.join("shop/src/new/file.rs")]);
        assert_eq!(lies(&top, "out/b.rs"), [top.join("other/b.rs")]);
        assert_eq!(lies(&top, "dangling"), [top.join("other/new.rs")]);
        assert_eq!(lies(&top, "loop"), Vec::<PathBuf>::new(), "a link that leads to itself leads nowhere");
        assert_eq!(
            lies(&top, "out/../a.rs"),
            [top.join("a.rs"), top.join("shop/a.rs")],
            "two readings of `..`"
        );
        assert_eq!(lies(&top, "/etc/../etc/hosts"), [PathBuf::from("/etc/hosts")]);
    }

    #[test]
    fn a_file_with_two_names_and_what_is_no_file_are_not_ordinary() {
        let (_temp, top) = shop();
        fs::hard_link(top.join("other/b.rs"), top.join("shop/b.rs")).unwrap();
        let found = facts(
            &top.join("shop"),
            None,
            &[],
            &["a.rs", "new.rs", "b.rs", "src", "/dev/null"].map(str::to_owned),
        );
        let ordinary: Vec<_> =
            found.places.iter().map(|(path, place)| (path.as_str(), place.is_ordinary)).collect();
        assert_eq!(
            ordinary,
            [("/dev/null", false), ("a.rs", true), ("b.rs", false), ("new.rs", true), ("src", false)]
        );
    }

    /// What the mode `acceptEdits` decides about an edit in a session that works in `folder`.
    fn edits(folder: &Path, path: &str) -> Decision {
        let input = json!({ "file_path": path });
        let reading = Reading::of(Call::new("Edit", &input));
        let facts = facts(folder, None, &[], &reading.paths());
        let mode = Mode::AcceptEdits;
        decide(&reading, Situation { session: None, mode, rules: &[], facts: &facts, now: Millis(1) })
            .decision
    }

    // covers: 002-069
    #[test]
    fn under_accept_edits_a_person_is_asked_about_what_is_no_file_of_its_own() {
        let (_temp, top) = shop();
        let shop = top.join("shop");
        fs::hard_link(top.join("other/b.rs"), shop.join("hard")).unwrap();
        symlink("loop", shop.join("loop")).unwrap();
        symlink("a.rs", shop.join("soft")).unwrap();
        for (path, decision) in [
            ("a.rs", Decision::Allow),
            ("src/new.rs", Decision::Allow),
            ("soft", Decision::Allow),
            ("hard", Decision::Ask),
            ("src", Decision::Ask),
            ("loop", Decision::Ask),
            ("a.rs/below", Decision::Ask),
            ("../other/b.rs", Decision::Ask),
        ] {
            assert_eq!(edits(&shop, path), decision, "{path}");
        }
    }

    #[test]
    fn in_a_session_whose_folder_is_not_absolute_a_person_is_asked_about_every_edit() {
        let (_temp, top) = shop();
        let file = top.join("shop/a.rs");
        for folder in ["", ".", "shop", "../shop"] {
            for path in ["a.rs", file.to_str().unwrap()] {
                assert_eq!(edits(Path::new(folder), path), Decision::Ask, "`{folder}` {path}");
            }
        }
    }

    #[test]
    fn a_folder_that_is_reached_by_a_link_is_the_folder_it_leads_to() {
        let (_temp, top) = shop();
        symlink(top.join("shop"), top.join("link")).unwrap();
        let found =
            facts(&top.join("link"), Some(&top.join("link")), &[top.join("link")], &["a.rs".to_owned()]);
        assert_eq!(found.folder, top.join("shop"));
        assert_eq!((found.home, found.own), (Some(top.join("shop")), vec![top.join("shop")]));
        assert_eq!(found.places["a.rs"].lies, [top.join("shop/a.rs")]);
        assert_eq!(found.above[0], (top.join("shop"), identity(&top.join("shop")).unwrap()));
        assert_eq!(found.above.last().unwrap().0, Path::new("/"));
    }

    #[test]
    fn another_folder_at_the_same_path_has_another_identity() {
        let (_temp, top) = shop();
        let before = identity(&top.join("shop")).unwrap();
        fs::rename(top.join("shop"), top.join("moved")).unwrap();
        fs::create_dir(top.join("shop")).unwrap();
        assert_ne!(identity(&top.join("shop")).unwrap(), before);
        assert_eq!(identity(&top.join("moved")).unwrap(), before);
        assert!(identity(&top.join("other/b.rs")).is_err(), "a file is no folder");
    }
}
