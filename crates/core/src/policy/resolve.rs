//! Where an edit's files really lie: the one part of policy that looks at the disk. It changes nothing there.
//!
//! Every part of a path is followed, links of files that do not exist yet too: whoever writes through such a link makes
//! a file where it leads. What is found holds for this moment only. A program that runs beside the agent can change a link
//! before the agent writes; it could then write there itself.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use super::edits::{Facts, Why};

/// Links that are followed for one path, as many as the kernel follows.
const LINKS: usize = 40;

/// Parts that one path may have, its links included. The kernel takes no path of more than 4,096 bytes.
const PARTS: usize = 4096;

/// The facts about an edit of these files, in a session that works in `folder`. `own` are folders of Portolan's own.
pub fn facts(folder: &Path, files: &[String], own: &[PathBuf]) -> Result<Facts, Why> {
    let unresolved = |path: &Path| Why::Unresolved(path.display().to_string());
    let mut found = Facts {
        folder: real(folder).map_err(|_| unresolved(folder))?,
        files: Vec::new(),
        own: own.iter().filter_map(|own| real(own).ok()).collect(),
    };
    for file in files {
        let path = folder.join(file);
        // Some programs take `..` away before they look at the disk, others leave it to the kernel, which follows a
        // link first. Both places must be fine.
        for path in [&path, &without_parents(&path)] {
            let lies = real(path).and_then(ordinary).map_err(|_| unresolved(path))?;
            if !found.files.contains(&lies) {
                found.files.push(lies);
            }
        }
    }
    Ok(found)
}

/// A path with every `..` taken away by its words alone.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
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
fn ordinary(path: PathBuf) -> io::Result<PathBuf> {
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() && found.nlink() == 1 => Ok(path),
        Ok(_) => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{super::edits::judge, *};

    struct Place {
        _all: tempfile::TempDir,
        root: PathBuf,
        folder: PathBuf,
    }

    /// A folder `shop` with a file in it, and things outside.
    fn place() -> Place {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().canonicalize().unwrap();
        let folder = root.join("shop");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join(".git/hooks")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        for file in ["shop/src/a.rs", "outside/secret", "shop/.git/config"] {
            fs::write(root.join(file), "x").unwrap();
        }
        Place { _all: all, root, folder }
    }

    impl Place {
        fn judged(&self, file: &str) -> Result<(), Why> {
            judge(&facts(&self.folder, &[file.to_owned()], &[self.root.join("shop/own")])?)
        }
    }

    #[test]
    fn files_of_the_folder_are_fine_by_any_name_that_stays_inside() {
        let place = place();
        let absolute = place.folder.join("src/a.rs").display().to_string();
        for file in ["src/a.rs", "src/./a.rs", "new.rs", "new/deep/b.rs", "src/../src/a.rs", &absolute] {
            assert_eq!(place.judged(file), Ok(()), "{file}");
        }
        symlink("src", place.folder.join("sources")).unwrap();
        assert_eq!(place.judged("sources/a.rs"), Ok(()), "a link that stays inside");
    }

    // A link inside the folder led out of it.
    #[test]
    fn a_link_that_leads_out_is_found_in_every_part_of_a_path() {
        let place = place();
        let outside = place.root.join("outside");
        symlink(&outside, place.folder.join("folder")).unwrap();
        symlink(outside.join("secret"), place.folder.join("file")).unwrap();
        symlink(outside.join("not there yet"), place.folder.join("dangling")).unwrap();
        symlink("dangling", place.folder.join("chained")).unwrap();
        symlink("../outside", place.folder.join("relative")).unwrap();
        for file in [
            "folder/secret",
            "folder/new",
            "folder/new/deeper",
            "file",
            "dangling",
            "chained",
            "relative/new",
            "../x",
            "src/../../x",
            "folder/../x",
            "new/../../x",
            "/etc/passwd",
        ] {
            assert!(matches!(place.judged(file), Err(Why::Outside(_))), "{file}: {:?}", place.judged(file));
        }
    }

    #[test]
    fn protected_places_are_found_through_links_and_parents() {
        let place = place();
        symlink(".git", place.folder.join("vcs")).unwrap();
        symlink("../.git/hooks", place.folder.join("src/hooks")).unwrap();
        for file in [
            "vcs/hooks/pre-commit",
            "src/hooks/pre-commit",
            "src/../.git/config",
            ".git/new",
            "own/portolan.db",
            ".GIT/config",
        ] {
            assert!(
                matches!(place.judged(file), Err(Why::Protected { .. })),
                "{file}: {:?}",
                place.judged(file)
            );
        }
    }

    #[test]
    fn what_is_no_file_of_its_own_is_for_a_person() {
        let place = place();
        fs::hard_link(place.root.join("outside/secret"), place.folder.join("twin")).unwrap();
        symlink("round", place.folder.join("round")).unwrap();
        for file in ["twin", "src", "round", "src/a.rs/below"] {
            assert!(
                matches!(place.judged(file), Err(Why::Unresolved(_))),
                "{file}: {:?}",
                place.judged(file)
            );
        }
        assert!(matches!(facts(Path::new("shop"), &["a".into()], &[]), Err(Why::Unresolved(_))));
        assert!(matches!(facts(Path::new(""), &["a".into()], &[]), Err(Why::Unresolved(_))));
    }

    #[test]
    fn a_folder_that_is_itself_reached_by_a_link_is_the_folder_it_leads_to() {
        let place = place();
        let link = place.root.join("link");
        symlink(&place.folder, &link).unwrap();
        assert_eq!(judge(&facts(&link, &["src/a.rs".into()], &[]).unwrap()), Ok(()));
        let file = link.join("src/a.rs").display().to_string();
        assert_eq!(judge(&facts(&place.folder, &[file], &[]).unwrap()), Ok(()));
    }
}
