//! Files of a session, as text, whole or by lines.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
};

use portolan_wire::jsonrpc::Error;
use rustix::fs::OFlags;

use super::{Rooms, failed, invalid};

/// The largest file that is read or written for an agent. It goes through memory, and over a line.
pub(super) const LARGEST: u64 = 8 * 1024 * 1024;

/// Which lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// The first, counted from 1.
    pub(super) line: Option<u64>,
    /// How many.
    pub(super) limit: Option<u64>,
}

/// What a file holds.
pub(super) fn read(rooms: &Rooms, path: &Path, window: Window) -> Result<String, Error> {
    let real = rooms.resolve(path)?;
    plain_file(&real)?;
    let failed = |error: std::io::Error| failed(path, &error);
    let file = open(OpenOptions::new().read(true), &real).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(invalid(format!("`{}` is larger than {} MiB", path.display(), LARGEST >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid(format!("`{}` is not text", path.display())))?;
    if window == Window::default() {
        return Ok(text);
    }
    let first = usize::try_from(window.line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let count = window.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(text.split_inclusive('\n').skip(first).take(count).collect())
}

/// Makes a file hold this, and the folders above it where they are missing.
pub(super) fn write(rooms: &Rooms, path: &Path, content: &str) -> Result<(), Error> {
    if content.len() as u64 > LARGEST {
        return Err(invalid(format!("more than {} MiB are not written at once", LARGEST >> 20)));
    }
    let failed = |error: std::io::Error| failed(path, &error);
    let real = match rooms.resolve(path) {
        Ok(real) => {
            plain_file(&real)?;
            real
        }
        Err(error) if error.code == super::NOT_FOUND => {
            let real = new_place(rooms, path)?;
            if let Some(folder) = real.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
            real
        }
        Err(error) => return Err(error),
    };
    let mut file = open(OpenOptions::new().write(true).create(true).truncate(true), &real).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)
}

/// Where a file will be that is not there yet: below the nearest folder that is.
fn new_place(rooms: &Rooms, path: &Path) -> Result<PathBuf, Error> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(invalid(format!("`{}` goes up again on its way", path.display())));
    }
    if path.symlink_metadata().is_ok() {
        // A link to nowhere: what it would become is not for the agent to choose.
        return Err(rooms.outside(path));
    }
    let there = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
    let there = there.ok_or_else(|| rooms.outside(path))?;
    let real = rooms.resolve(there)?;
    let rest = path.strip_prefix(there).map_err(|_| rooms.outside(path))?;
    Ok(real.join(rest))
}

/// Links were followed already: one that is there now was put there meanwhile.
fn open(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// A pipe or a device would make us wait, or worse.
fn plain_file(path: &Path) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(invalid(format!("`{}` is not a file", path.display()))),
        Err(error) => Err(failed(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        inside: PathBuf,
        outside: PathBuf,
        rooms: Rooms,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let (inside, outside) = (top.join("inside"), top.join("outside"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let rooms = Rooms::new(&inside, &[]);
        Place { _folder: folder, inside, outside, rooms }
    }

    const ALL: Window = Window { line: None, limit: None };

    // covers: 003-062
    #[test]
    fn a_file_inside_is_read_whole_or_by_lines_and_written_with_its_folders() {
        let Place { inside, rooms, .. } = &place();
        let path = inside.join("a/b/c.txt");
        write(rooms, &path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(read(rooms, &path, ALL).unwrap(), "one\ntwo\nthree\n");
        assert_eq!(read(rooms, &path, Window { line: Some(2), limit: Some(1) }).unwrap(), "two\n");
        assert_eq!(read(rooms, &path, Window { line: Some(9), limit: None }).unwrap(), "");
        write(rooms, &path, "short").unwrap();
        assert_eq!(read(rooms, &path, ALL).unwrap(), "short");
    }

    #[test]
    fn a_file_that_is_not_there_is_said_in_words_that_agents_know() {
        let Place { inside, rooms, .. } = &place();
        let error = read(rooms, &inside.join("none"), ALL).unwrap_err();
        assert_eq!(error.code, -32002);
        for words in ["Resource not found", "ENOENT", "No such file"] {
            assert!(error.message.contains(words), "{}", error.message);
        }
    }

    #[test]
    fn nothing_outside_is_touched_whatever_the_way_there() {
        let Place { inside, outside, rooms, .. } = &place();
        symlink(outside, inside.join("door")).unwrap();
        symlink(outside.join("secret"), inside.join("link")).unwrap();
        symlink(outside.join("new"), inside.join("dangling")).unwrap();
        for path in [
            outside.join("secret"),
            inside.join("../outside/secret"),
            inside.join("door/secret"),
            inside.join("link"),
        ] {
            assert!(read(rooms, &path, ALL).unwrap_err().message.contains("outside"), "{}", path.display());
            assert!(write(rooms, &path, "x").is_err(), "{}", path.display());
        }
        for path in [
            outside.join("new"),
            inside.join("../outside/new"),
            inside.join("door/new"),
            inside.join("dangling"),
            inside.join("none/../../outside/new"),
            PathBuf::from("relative"),
        ] {
            assert!(write(rooms, &path, "x").is_err(), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
        assert!(!outside.join("new").exists());
    }

    #[test]
    fn what_is_no_text_no_file_or_too_large_is_refused_with_a_word() {
        let Place { inside, rooms, .. } = &place();
        fs::write(inside.join("bytes"), [0xff, 0xfe]).unwrap();
        let large = File::create(inside.join("large")).unwrap();
        large.set_len(LARGEST + 1).unwrap();
        for (name, word) in [("bytes", "not text"), ("large", "larger"), (".", "not a file")] {
            let error = read(rooms, &inside.join(name), ALL).unwrap_err();
            assert!(error.message.contains(word), "{}", error.message);
        }
        let much = "x".repeat(usize::try_from(LARGEST).unwrap() + 1);
        assert!(write(rooms, &inside.join("much"), &much).is_err());
    }
}
