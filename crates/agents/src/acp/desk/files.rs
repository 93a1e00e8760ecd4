//! Files of a session, as text, whole or by lines.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Write as _},
    path::{Component, Path, PathBuf},
};

use portolan_wire::jsonrpc::Error;
use rustix::fs::OFlags;

use super::{Rooms, failed, invalid, walk};

/// The largest file that Portolan reads or writes for an agent. The file passes through memory, and as one line.
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
    let file = open(&rooms.resolve(path)?, path, OFlags::RDONLY)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(path, &error))?;
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

/// Writes a file, and makes missing folders above it.
pub(super) fn write(rooms: &Rooms, path: &Path, content: &str) -> Result<(), Error> {
    if content.len() as u64 > LARGEST {
        return Err(invalid(format!("the text is larger than {} MiB and was not written", LARGEST >> 20)));
    }
    let file = match rooms.resolve(path) {
        Ok(real) => open(&real, path, OFlags::WRONLY)?,
        Err(error) if error.code == super::NOT_FOUND => NewPlace::find(rooms, path)?.create(path)?,
        Err(error) => return Err(error),
    };
    fill(file, content).map_err(|error| failed(path, &error))
}

/// Truncates the file only after it is known to be a plain file.
fn fill(mut file: File, content: &str) -> std::io::Result<()> {
    file.set_len(0)?;
    file.write_all(content.as_bytes())
}

/// Opens a plain file by its real path; `path` is what the agent calls it.
fn open(real: &Path, path: &Path, how: OFlags) -> Result<File, Error> {
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else { return Err(no_file(path)) };
    let opened = walk::folder(folder).and_then(|folder| walk::file(&folder, name, how));
    opened.map_err(|error| failed(path, &error))?.ok_or_else(|| no_file(path))
}

fn no_file(path: &Path) -> Error {
    invalid(format!("`{}` is not a file", path.display()))
}

/// The place of a file that does not exist yet: below the nearest folder that exists.
struct NewPlace {
    /// The real path of the folder that exists.
    there: PathBuf,
    /// The folders to make below it.
    folders: Vec<OsString>,
    name: OsString,
}

impl NewPlace {
    fn find(rooms: &Rooms, path: &Path) -> Result<Self, Error> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(invalid(format!("`{}` contains `..`", path.display())));
        }
        if path.symlink_metadata().is_ok() {
            // A broken link: the agent must not choose where it leads.
            return Err(rooms.outside(path));
        }
        let there = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
        let there = there.ok_or_else(|| rooms.outside(path))?;
        let rest = path.strip_prefix(there).map_err(|_| rooms.outside(path))?;
        let mut folders: Vec<OsString> = rest.iter().map(OsString::from).collect();
        let name = folders.pop().ok_or_else(|| no_file(path))?;
        Ok(Self { there: rooms.resolve(there)?, folders, name })
    }

    /// Makes the folders one by one, each beneath the previous one, and the file in the last folder.
    fn create(self, path: &Path) -> Result<File, Error> {
        let create = || {
            let mut here = walk::folder(&self.there)?;
            for folder in &self.folders {
                here = walk::folder_or_new(&here, folder)?;
            }
            walk::file(&here, &self.name, OFlags::WRONLY | OFlags::CREATE)
        };
        create().map_err(|error| failed(path, &error))?.ok_or_else(|| no_file(path))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::symlink,
        sync::atomic::{AtomicBool, Ordering},
    };

    use rustix::fs::{CWD, RenameFlags, renameat_with};

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
    fn a_missing_file_is_reported_in_words_that_agents_know() {
        let Place { inside, rooms, .. } = &place();
        let error = read(rooms, &inside.join("none"), ALL).unwrap_err();
        assert_eq!(error.code, -32002);
        for words in ["Resource not found", "ENOENT", "No such file"] {
            assert!(error.message.contains(words), "{}", error.message);
        }
    }

    #[test]
    fn nothing_outside_is_touched_by_any_path() {
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
    fn a_file_that_is_no_text_or_too_large_is_refused_with_the_reason() {
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

    // The path was checked, then opened by its name; a link that was added between the two led out of the folder.
    #[test]
    fn a_link_that_is_added_after_the_check_leads_nowhere() {
        let Place { inside, outside, rooms, .. } = &place();
        let folder = inside.join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("secret"), "harmless").unwrap();
        let old = rooms.resolve(&folder.join("secret")).unwrap();
        let new = NewPlace::find(rooms, &folder.join("new")).unwrap();
        let below = NewPlace::find(rooms, &folder.join("a/b/new")).unwrap();
        let top = NewPlace::find(rooms, &inside.join("later/new")).unwrap();

        fs::rename(&folder, inside.join("moved")).unwrap();
        symlink(outside, &folder).unwrap();
        symlink(outside, inside.join("later")).unwrap();

        for how in [OFlags::RDONLY, OFlags::WRONLY] {
            let error = open(&old, &old, how).unwrap_err();
            assert!(error.message.contains("link"), "{}", error.message);
        }
        for place in [new, below, top] {
            let error = place.create(&folder).unwrap_err();
            assert!(error.message.contains("link"), "{}", error.message);
        }
        let left: Vec<_> = fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["secret"]);
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    }

    // 157 of 6,000 tries got out.
    #[test]
    fn swapping_a_folder_for_a_link_again_and_again_does_not_lead_outside() {
        const ROUNDS: usize = 2000;
        let Place { inside, outside, rooms, .. } = &place();
        let (door, other) = (inside.join("door"), inside.join("other"));
        fs::create_dir(&door).unwrap();
        fs::write(door.join("secret"), "harmless").unwrap();
        symlink(outside, &other).unwrap();
        let swap = || renameat_with(CWD, &door, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        let over = AtomicBool::new(false);
        let [mut read_well, mut made, mut refused, mut got_out] = [0; 4];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    swap();
                }
            });
            for round in 0..ROUNDS {
                // Judged below: otherwise the swapper runs for ever.
                match read(rooms, &door.join("secret"), ALL) {
                    Ok(text) if text == "harmless" => read_well += 1,
                    Ok(_) => got_out += 1,
                    Err(_) => refused += 1,
                }
                made += usize::from(write(rooms, &door.join(format!("new-{round}/new")), "new").is_ok());
                let _ = write(rooms, &door.join("written"), "written");
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(got_out, 0, "of {ROUNDS} reads");
        assert!(read_well > 0 && made > 0 && refused > 0, "not a race: {read_well}, {made}, {refused}");
        let left: Vec<_> = fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["secret"]);
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    }
}
